//! NCCL's decision tables for a terminal: what it expects of each algorithm and protocol.

use super::record::{Candidate, Decision};
use super::summary::CollectiveView;
use anstyle::{AnsiColor, Style};
use fabricsim_units::Bytes;
use std::fmt::Write;

const CHOSEN: Style = AnsiColor::Green.on_default().bold();
const EXCLUDED: Style = Style::new().dimmed();

/// One table for each run of sizes with the same choice, of the first of them.
#[must_use]
pub fn decision_tables(view: CollectiveView<'_>, colour: bool) -> String {
    let mut out = String::new();
    let choice = |d: &Decision| {
        let chosen = d.candidates.iter().find(|c| c.chosen);
        chosen.map(|c| (c.algo.clone(), c.proto.clone()))
    };
    let mut last = None;
    for decision in &view.result.decisions {
        let own = choice(decision);
        if last.as_ref() == Some(&own) {
            continue;
        }
        table(&mut out, decision, colour);
        last = Some(own);
    }
    if !out.is_empty() {
        out.push_str(
            "# Expected times are NCCL's own cost model: it chooses by them; the simulation above \
             does not use them.\n",
        );
    }
    out
}

fn table(out: &mut String, decision: &Decision, colour: bool) {
    let chosen = decision.candidates.iter().find(|c| c.chosen);
    let answer = match (&decision.in_place, chosen) {
        (Some(name), Some(c)) => format!(
            "`{name}` of its file is simulated; NCCL by itself would take {} with {}",
            c.algo, c.proto
        ),
        (Some(name), None) => format!("`{name}` of its file is simulated"),
        (None, Some(c)) => format!("{} with {}", c.algo, c.proto),
        (None, None) => "nothing is left; NCCL falls back to the ring or fails".to_owned(),
    };
    let size = Bytes::new(decision.bytes);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "#\n# Why at {size}: {answer}");
    let _ = writeln!(
        out,
        "# {:<16} {:<7} {:>12} {:>12} {:>12}   why not",
        "algorithm", "proto", "expected us", "latency us", "GB/s"
    );
    // What is excluded for one reason in every protocol takes one line.
    let mut rest = decision.candidates.as_slice();
    while let Some(first) = rest.first() {
        let same = rest
            .iter()
            .take_while(|c| {
                c.algo == first.algo && c.excluded.is_some() && c.excluded == first.excluded
            })
            .count();
        let all = rest.iter().take_while(|c| c.algo == first.algo).count();
        if same == all && same > 1 {
            let line = line(first, "all", false);
            push(out, &line, EXCLUDED, colour);
            rest = &rest[same..];
            continue;
        }
        let taken = first.chosen && decision.in_place.is_none();
        let style = match (taken, &first.excluded) {
            (true, _) => CHOSEN,
            (_, Some(_)) => EXCLUDED,
            _ => Style::new(),
        };
        push(out, &line(first, &first.proto, taken), style, colour);
        rest = &rest[1..];
    }
}

fn push(out: &mut String, line: &str, style: Style, colour: bool) {
    let line = line.trim_end();
    let _ = if colour {
        writeln!(out, "{style}{line}{style:#}")
    } else {
        writeln!(out, "{line}")
    };
}

fn line(candidate: &Candidate, proto: &str, taken: bool) -> String {
    let number = |value: Option<f64>| match value {
        // Times that are not considered mean nothing.
        Some(value) if candidate.excluded.is_none() => format!("{value:.2}"),
        _ => "-".to_owned(),
    };
    let mark = if taken { '>' } else { ' ' };
    format!(
        "{mark} {:<16} {:<7} {:>12} {:>12} {:>12}   {}",
        candidate.algo,
        proto,
        number(candidate.expected_us),
        number(candidate.latency_us),
        number(candidate.bandwidth_gbs),
        candidate.excluded.as_deref().unwrap_or(""),
    )
}
