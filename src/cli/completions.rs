//! `fabricsim completions`: scripts that complete the command in a shell.

use super::{Cli, CliError, terminal};
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints a script that completes commands and flags in a shell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fabricsim", &mut script);
    Ok(terminal::print(&String::from_utf8_lossy(&script))?)
}
