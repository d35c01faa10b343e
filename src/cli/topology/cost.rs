//! What a machine is made of, draws and costs.

use super::{CliError, Machine};
use crate::cli::examples::{Examples, examples};
use crate::cli::terminal;
use clap::Args;
use fabricsim_experiment::bill::bill;
use fabricsim_experiment::not_a_pue;
use fabricsim_report::bill::{bill_json, bill_text};

const EXAMPLES: Examples = [
    (
        "What do four DGX H100 cost and draw?",
        "fabricsim topology cost dgx-h100 -n 4",
    ),
    (
        "And with cooling?",
        "fabricsim topology cost dgx-h100 -n 4 --pue 1.3",
    ),
    (
        "What is known of each part, for a program?",
        "fabricsim topology cost gb200-nvl72 --json",
    ),
];

/// `topology cost`.
#[derive(Debug, Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Cost {
    #[command(flatten)]
    machine: Machine,
    /// Power usage effectiveness: what the building draws for each watt of the machine, cooling
    /// included; 1 is the machine alone
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pue: f64,
    /// Prints one JSON document in place of the table
    #[arg(long)]
    json: bool,
}

impl Cost {
    pub(super) fn run(&self, quiet: bool) -> Result<(), CliError> {
        if let Some(expected) = not_a_pue(self.pue) {
            let problem = format!("--pue {}: expected {expected}", self.pue);
            return Err(CliError::Usage(problem));
        }
        let bill = bill(&self.machine.load(quiet)?, self.pue);
        let text = match self.json {
            true => bill_json(&bill)?,
            false => bill_text(&bill, terminal::colour()),
        };
        Ok(terminal::print(&text)?)
    }
}
