//! `fabricsim completions`: scripts that complete the command in a shell.

use super::examples::{Examples, examples};
use super::{Cli, CliError, terminal};
use clap::CommandFactory;
use clap_complete::Shell;

const EXAMPLES: Examples = [
    (
        "What completes in bash? Read this file from ~/.bashrc",
        "fabricsim completions bash > fabricsim.bash",
    ),
    (
        "And in zsh? Put this file into a folder of $fpath",
        "fabricsim completions zsh > _fabricsim",
    ),
    (
        "And in fish? Put this file into ~/.config/fish/completions",
        "fabricsim completions fish > fabricsim.fish",
    ),
];

/// Prints a script that completes commands and flags in a shell.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Which shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fabricsim", &mut script);
    Ok(terminal::print(&String::from_utf8_lossy(&script))?)
}
