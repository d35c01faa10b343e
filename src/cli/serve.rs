//! `fabricsim serve`: a model that answers requests, on one machine or several, without a file.

use super::budget::BudgetArgs;
use super::collective::machine;
use super::examples::{Examples, examples};
use super::load::LoadArgs;
use super::price::PriceArgs;
use super::progress::Show;
use super::run::found;
use super::terminal::say_wall;
use super::what_if::WhatIfArgs;
use super::{CliError, output, terminal};
use crate::Experiment;
use fabricsim_experiment::compare::filling;
use fabricsim_experiment::{Scenario, TopologyRef, changed, machine_of, parse};
use fabricsim_report::comparison::variants_text;
use fabricsim_report::{
    Outputs, Results, check_target, page_of, points_csv, summary_json, write_file, write_results,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "How fast are tokens of Llama 3 8B on a DGX H100, 5 requests a second?",
        "fabricsim serve llama3-8b -t dgx-h100 --rate 5 --requests 200",
    ),
    (
        "Are FP8 weights faster, and on which machine?",
        "fabricsim serve llama3-8b -t dgx-h100 -t dgx-a100 --weights fp8 --rate 5 --requests 200",
    ),
    (
        "Prompts and generation on engines of their own, or together?",
        "fabricsim serve llama3-70b -t dgx-h100 --weights fp8 --split none,2:2 --tp 2 --rate 6",
    ),
];

/// Serves a model on each machine: first tokens, tokens per second, what limits them.
///
/// Requests come at a rate (a Poisson process) or so many at once. Engines have the scheduler of vLLM, SGLang or
/// TensorRT-LLM; with `--split 2:1` two of three compute prompts and hand their KV caches over to one that
/// generates. Several machines and splits are compared. `--set job.serving.…` changes anything else; a scenario's
/// file can say more (`fabricsim schema scenario`).
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// The model, a shipped one: `llama3-70b`
    model: String,
    /// A shipped topology or a topology file; once for each machine
    #[arg(short, long, value_name = "NAME|FILE", required = true)]
    topology: Vec<String>,
    /// GPUs of each machine: whole nodes, or some of one [default: one node]
    #[arg(long)]
    gpus: Option<u32>,
    #[command(flatten)]
    load: LoadArgs,
    /// Finds the largest rate that the engines keep up with and, with --slo, that nine of ten requests keep it at
    #[arg(long)]
    capacity: bool,
    /// GPUs that an engine is split over [default: the fewest that leave a quarter of their memory to keys and values, else the fewest that the weights fit]
    #[arg(long)]
    tp: Option<u32>,
    /// Engines for prompts : engines that generate, such as `2:1`; several are compared, `none` is engines that do both
    #[arg(long, value_name = "X:Y", value_delimiter = ',')]
    split: Vec<String>,
    #[command(flatten)]
    what_if: WhatIfArgs,
    #[command(flatten)]
    price: PriceArgs,
    /// Puts a value into the scenario, as `run` does; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// The seed of every random choice
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints summary.json
    #[arg(long)]
    json: bool,
    /// Also writes a page (.html), the document (.json), the points (.csv) or a folder of results
    #[arg(short, long, value_name = "FILE|DIR", value_parser = output::file_ending_in(&["html", "json", "csv"]))]
    output: Option<PathBuf>,
}

/// A variant: its name, and what is different.
type Changed = (String, Map<String, Value>);

/// Where the scenario comes from, for messages.
const COMMAND_LINE: &str = "the command line";

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let scenario = args.what_if.apply(args.scenario()?)?;
    let machines: Vec<TopologyRef> = args.topology.iter().map(|text| machine(text)).collect();
    let scenario = args.price.apply(scenario, &machines, Path::new(""))?;
    let mut experiment = Experiment::check(scenario, Path::new(""))?;
    experiment.budget = args.budget.budget(false);
    if !quiet {
        terminal::notes(&experiment.checked.notes());
    }
    if let Some(path) = &args.output
        && output::ending(path).is_none()
    {
        check_target(path)?;
    }
    let outputs = match &args.output {
        Some(_) => Outputs::default(),
        None => Outputs::of([]),
    };
    let mut show = Show::new(false, quiet, true, &experiment.budget);
    let results = experiment.run_for(&outputs, &mut show)?;
    show.finish();
    if !quiet {
        say_wall(results.summary.wall_ms());
    }
    finish(args, quiet, &results)
}

fn finish(args: &Args, quiet: bool, results: &Results) -> Result<(), CliError> {
    let summary = &results.summary;
    let json = || summary_json(&summary.reproducible());
    if let Some(path) = &args.output {
        match output::ending(path).as_deref() {
            Some("html") => write_file(path, page_of(summary, results)?.as_bytes())?,
            Some("json") => write_file(path, json()?.as_bytes())?,
            Some("csv") => write_file(path, points_csv(summary)?.as_bytes())?,
            _ => write_results(path, results, &Outputs::default())?,
        }
    }
    if args.json {
        terminal::print(&json()?)?;
    } else if !quiet {
        let text = variants_text(summary, terminal::width(), terminal::colour());
        terminal::print(&text)?;
        if let Some(path) = &args.output {
            terminal::print(&format!("\nWritten to {}\n", path.display()))?;
        }
    }
    found(summary, args.output.as_deref().unwrap_or(Path::new("")))
}

impl Args {
    /// The scenario that these arguments stand for.
    fn scenario(&self) -> Result<Scenario, CliError> {
        let job = match self.capacity {
            true => self.load.with_capacity(&self.model)?,
            false => self.load.job(&self.model)?,
        };
        let first = self.topology.first().map_or("", String::as_str);
        let mut scenario = json!({
            "name": "serve",
            "title": format!("{} with {} in, {} out", self.model, self.load.input, self.load.output_tokens),
            "topology": machine(first),
            "job": { "serving": job },
            "seed": self.seed,
        });
        let variants = self.variants()?;
        if let [(_, only)] = variants.as_slice() {
            let set: BTreeMap<String, Value> = only.clone().into_iter().collect();
            return self.changed(&changed(&scenario, COMMAND_LINE, "flags", &set)?.json);
        }
        let variants = variants
            .into_iter()
            .map(|(name, set)| json!({ "name": name, "set": set }));
        scenario["variants"] = variants.collect();
        self.changed(&scenario)
    }

    /// The scenario with what `--set` says.
    fn changed(&self, scenario: &Value) -> Result<Scenario, CliError> {
        Ok(parse(&scenario.to_string(), COMMAND_LINE, &self.set)?)
    }

    /// Every machine with every split: a name, and what is different.
    fn variants(&self) -> Result<Vec<Changed>, CliError> {
        let none = ["none".to_owned()];
        let splits = match self.split.as_slice() {
            [] => &none[..],
            asked => asked,
        };
        let mut variants = Vec::new();
        for name in &self.topology {
            let topology = machine(name);
            let (nodes, of_each) = self.size(&topology)?;
            for split in splits {
                let mut set = Map::new();
                set.insert("topology".into(), json!(topology));
                set.insert("nodes".into(), json!(nodes));
                set.insert("gpus_per_node".into(), json!(of_each));
                set.insert("job.serving.pools".into(), self.pools(split)?);
                let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str());
                let stem = stem.unwrap_or(name);
                let name = match (splits.len(), self.topology.len()) {
                    (1, _) => stem.to_owned(),
                    (_, 1) => split_name(split),
                    _ => format!("{stem}-{}", split_name(split)),
                };
                variants.push((name, set));
            }
        }
        Ok(variants)
    }

    /// Nodes, and GPUs of each.
    fn size(&self, topology: &TopologyRef) -> Result<(u32, Option<u32>), CliError> {
        let Some(gpus) = self.gpus else {
            return Ok((1, None));
        };
        let machine = machine_of(topology, Path::new(""), COMMAND_LINE)?;
        Ok(filling(&machine, gpus, COMMAND_LINE)?)
    }

    fn pools(&self, split: &str) -> Result<Value, CliError> {
        let parallel = match self.tp {
            Some(tp) => json!({ "tp": tp }),
            None => json!({}),
        };
        if split == "none" {
            return Ok(json!([{ "parallel": parallel }]));
        }
        let numbers = split.split_once(':').and_then(|(x, y)| {
            let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n > 0);
            Some((number(x)?, number(y)?))
        });
        let Some((x, y)) = numbers else {
            return Err(CliError::Usage(format!(
                "--split {split}: expected engines for prompts and engines that generate, such as 2:1, or none"
            )));
        };
        Ok(json!([
            { "role": "prefill", "replicas": x, "parallel": parallel },
            { "role": "decode", "replicas": y, "parallel": parallel },
        ]))
    }
}

/// A split as the name of a variant.
fn split_name(split: &str) -> String {
    match split.split_once(':') {
        None => "both".to_owned(),
        Some((x, y)) => format!("{x}p{y}d"),
    }
}
