//! `fabricsim lab`: a page to play with, on this computer.

use super::budget::BudgetArgs;
use super::examples::{Examples, examples};
use super::{CliError, terminal};
use fabricsim_lab::serve;

const EXAMPLES: Examples = [
    (
        "What follows from a slower link, a slow GPU, another size?",
        "fabricsim lab",
    ),
    (
        "How is it served where the port is taken? At any that is free",
        "fabricsim lab --port 0",
    ),
    (
        "How is it kept small? With one thread and little memory",
        "fabricsim lab --jobs 1 --memory 2G",
    ),
];

/// Serves a page to play with, on this computer alone, until Ctrl-C.
///
/// Pick a machine, a job and its size; drag a link's rate, oversubscription, a slow GPU or the size of DDP's
/// buckets: time, cause, curve, timeline and drawing follow. The page's address holds the state. Two states can be
/// compared, and any one saved as a scenario for `fabricsim run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// The port on 127.0.0.1; where it is taken the next free one; 0 is any
    #[arg(short, long, default_value_t = 7420)]
    port: u16,
    #[command(flatten)]
    budget: BudgetArgs,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let ready = |address: &str| {
        if !quiet {
            // Where nobody reads, the page is served all the same.
            let _ = terminal::print(&format!("{address}\n"));
            terminal::complain("Ctrl-C ends it.");
        }
    };
    Ok(serve(args.port, args.budget.budget(false), ready)?)
}
