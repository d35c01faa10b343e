//! The command.

use clap::Parser;
use fabricsim::cli::{Cli, execute};
use std::process::ExitCode;

fn main() -> ExitCode {
    match execute(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            if code != 0 {
                anstream::eprintln!("error: {error}");
            }
            ExitCode::from(code)
        }
    }
}
