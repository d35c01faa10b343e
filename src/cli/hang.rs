//! `fabricsim hang`: mistakes that make ranks wait for each other, and what is said of them.

use super::answered::{Wanted, answered};
use super::budget::BudgetArgs;
use super::collective::machine;
use super::examples::{Examples, examples};
use super::{CliError, output, terminal};
use fabricsim_experiment::{Mistake, machine_of, mistake, mistakes, parse};
use fabricsim_report::FORMAT;
use fabricsim_topology::error::nearest;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    ("Which mistakes can be looked at?", "fabricsim hang"),
    (
        "Who waits for whom if one rank calls in another order?",
        "fabricsim hang different-order",
    ),
    (
        "Who says so, and when, if the process of a rank dies on two nodes?",
        "fabricsim hang crashed-rank -n 2",
    ),
];

/// Shows what comes of ranks that do not call the same: who waits for whom, and who says so when.
///
/// Without a name, lists the mistakes that are known. Each is a scenario (`--show`) whose `job.calls` says what
/// ranks call, to be edited and given to `run`. A hang ends with exit code 1.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Which mistake; `list` or nothing lists them
    #[arg(default_value = "list")]
    name: String,
    /// A shipped topology (see `topology list`) or a topology file
    #[arg(short, long, value_name = "NAME|FILE", default_value = "dgx-h100")]
    topology: String,
    /// Nodes, in place of what the topology says
    #[arg(short, long)]
    nodes: Option<u32>,
    /// Prints the scenario in place of running it
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    /// Also writes a folder of results, as `run` does
    #[arg(short, long, value_name = "DIR", value_parser = output::folder())]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    if args.name == "list" {
        return list(args.json);
    }
    let Some(found) = mistake(&args.name) else {
        let near = nearest(&args.name, mistakes().map(|mistake| mistake.name));
        let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        return Err(CliError::Usage(format!(
            "there is no mistake `{}`{near}\n    `fabricsim hang list` shows those that are known",
            args.name
        )));
    };
    let scenario = scenario(&found, args)?.to_string();
    let scenario = parse(&scenario, found.name, &[])?;
    if args.show {
        // Fields stand in the order in which the schema has them.
        let text = serde_json::to_string_pretty(&scenario.spec).map_err(std::io::Error::from)?;
        return Ok(terminal::print(&format!("{text}\n"))?);
    }
    answered(
        scenario,
        &Wanted {
            output: args.output.as_ref(),
            json: args.json,
            quiet,
            budget: args.budget.budget(false),
            what: found.name,
        },
    )
}

/// The mistake on the machine that is asked for, with all of its GPUs.
fn scenario(found: &Mistake, args: &Args) -> Result<Value, CliError> {
    let topology = machine(&args.topology);
    let own = machine_of(&topology, Path::new(""), "--topology")?;
    let (gpus, nodes) = (own.gpus().count() as u32, own.nodes.len().max(1) as u32);
    let ranks = gpus / nodes * args.nodes.unwrap_or(nodes);
    if ranks < 2 {
        let text = format!(
            "--topology {}: {ranks} GPU, but a mistake takes two ranks",
            args.topology
        );
        return Err(CliError::Usage(text));
    }
    Ok(found.scenario(&json!(topology), args.nodes, ranks))
}

fn list(json: bool) -> Result<(), CliError> {
    if json {
        let all = mistakes().map(|mistake| json!({ "name": mistake.name, "about": mistake.about }));
        let all: Vec<Value> = all.collect();
        let text = serde_json::to_string_pretty(&json!({ "format": FORMAT, "mistakes": all }));
        let text = text.map_err(std::io::Error::from)?;
        return Ok(terminal::print(&format!("{text}\n"))?);
    }
    let longest = mistakes()
        .map(|mistake| mistake.name.len())
        .max()
        .unwrap_or(0);
    let lines = mistakes().map(|mistake| format!("{:longest$}  {}\n", mistake.name, mistake.about));
    Ok(terminal::print(&lines.collect::<String>())?)
}
