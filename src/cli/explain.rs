//! `fabricsim explain`: an algorithm step by step.

use super::{CliError, one_of, output, terminal};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fabricsim_collective::Collective;
use fabricsim_lessons::{ExplainAlgorithm, ExplainSpec, explain};
use fabricsim_report::{explanation_json, explanation_page, explanation_text, write_file};
use fabricsim_units::{Bandwidth, Bytes, Time};
use std::path::PathBuf;

/// Shows an algorithm step by step: who sends what to whom, and what each rank holds.
///
/// The machine is a simple one: every rank has one port into a crossbar. Below the steps
/// stand the bytes that ranks send, and the cost: counted, as textbooks have it, and as
/// simulated, where steps overlap if they can.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which collective
    #[arg(value_parser = one_of(&Collective::ALL, Collective::name))]
    collective: Collective,
    /// The algorithm [default: ring, or p2p]
    #[arg(long, value_parser = algorithm())]
    algo: Option<ExplainAlgorithm>,
    /// How many ranks take part
    #[arg(long, default_value_t = 4)]
    ranks: u32,
    /// On how many nodes, where the algorithm cares [default: 1; hierarchical, nvls-tree and
    /// collnet-…: 2]
    #[arg(short, long)]
    nodes: Option<u32>,
    /// nccl-tests' size; K, M and G are powers of 1024 [default: 1K for each rank]
    #[arg(short, long, value_parser = Bytes::parse_flag)]
    size: Option<Bytes>,
    /// The largest chunk; larger data goes in several [default: what suits a pipeline, else all]
    #[arg(long, value_parser = Bytes::parse_flag, value_name = "SIZE")]
    chunk: Option<Bytes>,
    /// What a message takes, however small (α)
    #[arg(long, default_value = "1us", value_name = "TIME")]
    latency: Time,
    /// The rate of each rank's port
    #[arg(long, default_value = "100GB/s", value_name = "RATE")]
    rate: Bandwidth,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    /// Writes a page with a drawing for each step, or the JSON document, in place of text
    #[arg(short, long, value_name = "FILE", value_parser = output::file_ending_in(&["html", "json"]))]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    if args.rate.bytes_per_sec() == 0 {
        return Err(CliError::Usage(
            "--rate 0: expected a rate above zero, such as 100GB/s".into(),
        ));
    }
    let explanation = explain(&ExplainSpec {
        collective: args.collective,
        algorithm: args.algo,
        ranks: args.ranks,
        nodes: args.nodes,
        bytes: args.size.map(Bytes::get),
        chunk: args.chunk.map(Bytes::get),
        latency: args.latency,
        rate: args.rate,
    })?;
    if let Some(path) = &args.output {
        let text = match output::ending(path).as_deref() {
            Some("json") => explanation_json(&explanation)?,
            _ => explanation_page(&explanation),
        };
        write_file(path, text.as_bytes())?;
    }
    if args.json {
        terminal::print(&explanation_json(&explanation)?)?;
    } else if args.output.is_none() && !quiet {
        terminal::print(&explanation_text(&explanation, terminal::colour()))?;
    }
    Ok(())
}

/// Accepts algorithms, `sharp` among them.
fn algorithm() -> impl TypedValueParser<Value = ExplainAlgorithm> {
    let all = ExplainAlgorithm::ALL;
    let value = |a: ExplainAlgorithm| PossibleValue::new(a.name()).aliases(a.other_names());
    PossibleValuesParser::new(all.map(value)).try_map(move |text| {
        let called =
            |a: &ExplainAlgorithm| a.name() == text || a.other_names().contains(&text.as_str());
        all.into_iter().find(called).ok_or("unknown name")
    })
}
