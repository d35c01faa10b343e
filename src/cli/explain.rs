//! `fabricsim explain`: an algorithm step by step.

use super::budget::BudgetArgs;
use super::examples::{Examples, examples};
use super::{CliError, one_of, output, terminal};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fabricsim_collective::{Collective, MscclAlgorithm};
use fabricsim_lessons::{
    ExplainAlgorithm, ExplainSpec, MachineSpec, explain, explained, explained_on,
};
use fabricsim_report::explanation::Explanation;
use fabricsim_report::lesson::{Lesson, lesson_json, lesson_page, lesson_text, write_slides};
use fabricsim_report::{ReportError, explanations_json, explanations_text, write_file};
use fabricsim_topology::load::read_text;
use fabricsim_units::{Bandwidth, Bytes, Time};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ranks that take part, if nothing else is said.
const RANKS: u32 = 4;

const EXAMPLES: Examples = [
    (
        "Who sends what to whom in a ring all-reduce?",
        "fabricsim explain all-reduce",
    ),
    (
        "How does a tree differ from it, with 8 ranks?",
        "fabricsim explain all-reduce --algo ring,binary-tree --ranks 8",
    ),
    (
        "How does NCCL do it on a machine? On a page that plays it",
        "fabricsim explain all-reduce --algo ring,tree,nvls -t dgx-h100 -o steps.html",
    ),
];

/// Shows an algorithm step by step: who sends what to whom, and what each rank holds.
///
/// The machine is a simple one: every rank has one port into a crossbar. Below the steps
/// stand the bytes that ranks send, and the cost: counted, as textbooks have it, and as
/// simulated, where steps overlap if they can.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Which collective
    #[arg(value_parser = one_of(&Collective::ALL, Collective::name))]
    collective: Collective,
    /// The algorithm, or several, separated by commas, that are set side by side [default: ring, or p2p]
    #[arg(long, value_parser = algorithm(), value_delimiter = ',')]
    algo: Vec<ExplainAlgorithm>,
    /// Takes an algorithm from a file, as MSCCL writes them; one that is wrong shows how
    #[arg(long, value_name = "FILE.xml")]
    algo_file: Option<PathBuf>,
    /// How many ranks take part [default: 4, or as the algorithm's file says]
    #[arg(long)]
    ranks: Option<u32>,
    /// On how many nodes, where the algorithm cares [default: 1; hierarchical, nvls-tree and
    /// collnet-…: 2; of a machine as its file says]
    #[arg(short, long)]
    nodes: Option<u32>,
    /// On a machine, as NCCL does it there: a shipped topology (see `topology list`) or a file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with_all = ["ranks", "chunk", "latency", "rate", "algo_file"])]
    topology: Option<String>,
    /// GPUs of each node of the machine that take part; all of them by default
    #[arg(short, long, requires = "topology")]
    gpus_per_node: Option<u32>,
    /// nccl-tests' size; K, M and G are powers of 1024 [default: 1K for each rank]
    #[arg(short, long, value_parser = Bytes::parse_flag)]
    size: Option<Bytes>,
    /// The largest chunk; larger data goes in several [default: what suits a pipeline, else all]
    #[arg(long, value_parser = Bytes::parse_flag, value_name = "SIZE")]
    chunk: Option<Bytes>,
    /// What a message takes, however small (α)
    #[arg(long, default_value_t = ExplainSpec::LATENCY, value_name = "TIME")]
    latency: Time,
    /// The rate of each rank's port
    #[arg(long, default_value_t = ExplainSpec::RATE, value_name = "RATE")]
    rate: Bandwidth,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    /// Also writes slides into this folder: step-N.svg, and animated.svg, which moves
    #[arg(long, value_name = "DIR")]
    slides: Option<PathBuf>,
    /// Writes a page on which the steps are played, or the JSON document, in place of text
    #[arg(short, long, value_name = "FILE", value_parser = output::file_ending_in(&["html", "json"]))]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    if args.rate.bytes_per_sec() == 0 {
        return Err(CliError::Usage(
            "--rate 0: expected a rate above zero, such as 100GB/s".into(),
        ));
    }
    if let Some(machine) = &args.topology {
        return on_machine(args, machine, quiet);
    }
    let specs = specs(args)?;
    let explanations: Vec<Explanation> = specs.iter().map(explain).collect::<Result<_, _>>()?;
    let json = || explanations_json(&explanations);
    write_lesson(args, || Ok(explained(&specs)?), json)?;
    if args.json {
        terminal::print(&explanations_json(&explanations)?)?;
    } else if args.output.is_none() && !quiet {
        terminal::print(&explanations_text(&explanations, terminal::colour()))?;
    }
    match explanations.into_iter().find(|one| one.wrong.is_some()) {
        Some(explanation) => Err(CliError::WrongAlgorithm {
            problem: explanation.wrong.unwrap_or_default(),
            name: explanation.algorithm,
            collective: explanation.collective,
        }),
        None => Ok(()),
    }
}

/// Sizes of a machine's page, beside the one that is asked for.
const SIZES: [u64; 6] = [8 << 10, 64 << 10, 512 << 10, 8 << 20, 64 << 20, 1 << 30];

/// What is shown first, if no size is asked for.
const SHOWN: u64 = 8 << 20;

/// The same on a machine's drawing.
fn on_machine(args: &Args, machine: &str, quiet: bool) -> Result<(), CliError> {
    let asked = args.size.map_or(SHOWN, Bytes::get);
    let mut sizes: Vec<u64> = SIZES.into_iter().chain([asked]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let spec = MachineSpec {
        topology: super::collective::machine(machine),
        nodes: args.nodes,
        gpus_per_node: args.gpus_per_node,
        collective: args.collective,
        algorithms: args.algo.clone(),
        shown: sizes.iter().position(|&size| size == asked).unwrap_or(0),
        sizes: sizes.into_iter().map(Bytes::new).collect(),
    };
    let lesson = explained_on(&spec, &args.budget.budget(true))?;
    write_lesson(args, || Ok(lesson.clone()), || lesson_json(&lesson))?;
    if args.json {
        terminal::print(&lesson_json(&lesson)?)?;
    } else if args.output.is_none() && !quiet {
        terminal::print(&lesson_text(&lesson, terminal::colour()))?;
    }
    Ok(())
}

/// The slides and the page or document that are asked for. What they play is made once, and only if one of
/// them needs it.
fn write_lesson(
    args: &Args,
    lesson: impl FnOnce() -> Result<Lesson, CliError>,
    json: impl FnOnce() -> Result<String, ReportError>,
) -> Result<(), CliError> {
    let page = args.output.as_deref();
    let page = page.filter(|path| output::ending(path).as_deref() != Some("json"));
    if page.is_some() || args.slides.is_some() {
        let lesson = lesson()?;
        if let Some(folder) = &args.slides {
            write_slides(folder, &lesson)?;
        }
        if let Some(path) = page {
            write_file(path, lesson_page(&lesson)?.as_bytes())?;
        }
    }
    match &args.output {
        Some(path) if page.is_none() => Ok(write_file(path, json()?.as_bytes())?),
        _ => Ok(()),
    }
}

/// What is explained: one for each algorithm.
fn specs(args: &Args) -> Result<Vec<ExplainSpec>, CliError> {
    let spec = |algorithm| ExplainSpec {
        collective: args.collective,
        algorithm,
        file: None,
        ranks: args.ranks.unwrap_or(RANKS),
        nodes: args.nodes,
        bytes: args.size.map(Bytes::get),
        chunk: args.chunk.map(Bytes::get),
        latency: args.latency,
        rate: args.rate,
    };
    let Some(path) = &args.algo_file else {
        return Ok(match args.algo.as_slice() {
            [] => vec![spec(None)],
            all => all.iter().map(|&algorithm| spec(Some(algorithm))).collect(),
        });
    };
    let file = Arc::new(algorithm_file(path, args)?);
    let ranks = file.ranks();
    let of_file = ExplainSpec {
        ranks,
        file: Some(file),
        ..spec(None)
    };
    let beside = |&algorithm: &ExplainAlgorithm| ExplainSpec {
        ranks,
        ..spec(Some(algorithm))
    };
    let beside = args.algo.iter().map(beside);
    Ok(std::iter::once(of_file).chain(beside).collect())
}

/// The algorithm of a file, which must be for what is asked.
fn algorithm_file(path: &Path, args: &Args) -> Result<MscclAlgorithm, CliError> {
    let wrong = |problem: String| CliError::Usage(format!("{}: {problem}", path.display()));
    let file = MscclAlgorithm::read(&read_text(path)?).map_err(|error| wrong(error.to_string()))?;
    if file.collective != args.collective {
        return Err(wrong(format!(
            "it is an algorithm for {}; expected one for {}",
            file.collective, args.collective
        )));
    }
    if let Some(ranks) = args.ranks.filter(|&ranks| ranks != file.ranks()) {
        let its = file.ranks();
        return Err(wrong(format!(
            "--ranks {ranks}: the algorithm is for {its}"
        )));
    }
    Ok(file)
}

/// Accepts algorithms, `sharp` among them.
fn algorithm() -> impl TypedValueParser<Value = ExplainAlgorithm> {
    let value = |a: ExplainAlgorithm| PossibleValue::new(a.name()).aliases(a.other_names());
    PossibleValuesParser::new(ExplainAlgorithm::ALL.map(value))
        .try_map(|text| ExplainAlgorithm::named(&text).ok_or("unknown name"))
}
