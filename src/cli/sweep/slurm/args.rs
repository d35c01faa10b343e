//! The flags of a sweep on a cluster.

use std::num::NonZeroU32;

/// How a sweep is run as a job array.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On a cluster with Slurm")]
pub(in crate::cli::sweep) struct SlurmArgs {
    /// Runs the points as a job array, on a file system that the nodes share; the command follows it.
    /// One that was interrupted follows the same array when it is given again
    #[arg(long, conflicts_with = "shard")]
    pub(super) slurm: bool,
    /// The partition
    #[arg(long, value_name = "P", requires = "slurm")]
    pub(super) partition: Option<String>,
    /// The account that pays
    #[arg(long, value_name = "A", requires = "slurm")]
    pub(super) account: Option<String>,
    /// A task's time, at most, as Slurm writes it: `30`, `2:00:00`
    #[arg(long, value_name = "T", requires = "slurm")]
    pub(super) time: Option<String>,
    /// A task's memory, as Slurm writes it: `8G`
    #[arg(long, value_name = "M", requires = "slurm")]
    pub(super) mem: Option<String>,
    /// Tasks, in all [default: one for every 4 points, as far as Slurm allows so many, at most 1000]
    #[arg(long, value_name = "N", requires = "slurm")]
    pub(super) tasks: Option<NonZeroU32>,
    /// Tasks that run at the same time, at most
    #[arg(long, value_name = "N", requires = "slurm")]
    pub(super) array_limit: Option<NonZeroU32>,
    /// Any other option of sbatch, as it is: `--sbatch-arg=--qos=long`; may be repeated
    #[arg(
        long,
        value_name = "OPTION",
        requires = "slurm",
        allow_hyphen_values = true
    )]
    pub(super) sbatch_arg: Vec<String>,
}
