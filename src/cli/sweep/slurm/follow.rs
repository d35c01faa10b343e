//! Waiting until a job array has ended.

use super::job::Job;
use super::parts::Progress;
use super::program::queued;
use crate::cli::{CliError, signals, terminal};
use fabricsim_report::sweep::SweepInfo;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The first pause between two looks into the queue; each is longer by half than the one before.
const FIRST: Duration = Duration::from_millis(400);
/// The longest: the controller of a cluster serves many.
const LONGEST: Duration = Duration::from_secs(5);
/// A controller that is begun anew answers again after so long; what says nothing for longer is broken.
const PATIENCE: Duration = Duration::from_secs(600);

/// Follows a job array until none of its tasks is in the queue any more.
///
/// # Errors
/// A queue that cannot be read.
pub(super) fn follow(
    job: &Job,
    info: &SweepInfo,
    slurm: &Path,
    hidden: bool,
) -> Result<(), CliError> {
    let bar = bar(u64::from(info.points), hidden);
    let mut progress = Progress::new(job, info, slurm);
    let id = job.job.clone();
    let shown = bar.clone();
    let told = signals::when_interrupted(move || {
        shown.finish_and_clear();
        terminal::complain(&format!(
            "job array {id} goes on: the same command follows it again, `squeue -j {id}` shows it, `scancel \
             {id}` ends it"
        ));
    });
    let mut pause = FIRST;
    let mut answered = None;
    loop {
        match queued(&job.job) {
            Ok(None) => break,
            Ok(Some(tasks)) => {
                answered = Some(Instant::now());
                bar.set_message(tasks.told());
            }
            Err(why) if answered.is_none_or(|at: Instant| at.elapsed() > PATIENCE) => {
                bar.finish_and_clear();
                return Err(CliError::Slurm(format!(
                    "squeue cannot say what job array {} does: {why}\n    the array goes on; the same \
                     command follows it again",
                    job.job
                )));
            }
            Err(why) => bar.set_message(format!("squeue: {why}")),
        }
        if !hidden {
            bar.set_position(progress.over());
        }
        sleep(pause);
        pause = (pause * 3 / 2).min(LONGEST);
    }
    drop(told);
    bar.finish_and_clear();
    Ok(())
}

fn bar(points: u64, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(points);
    match ProgressStyle::with_template("{pos} of {len} points {bar:30} {elapsed}, {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
