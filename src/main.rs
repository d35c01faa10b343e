//! The command.

use clap::Parser;
use fabricsim::cli::{Cli, complain, execute, exit_on_panic, refuse_usage, watch_signals};
use std::process::ExitCode;

fn main() -> ExitCode {
    exit_on_panic();
    watch_signals();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_usage(error),
    };
    match execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            if code != 0 {
                complain(&format!("error: {error}"));
            }
            ExitCode::from(code)
        }
    }
}
