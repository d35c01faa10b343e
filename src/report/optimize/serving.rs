//! The result of a search over ways to serve: which engines on which GPUs.

use super::{Pruned, Reason};
use crate::metrics::{Metrics, label, shown};
use crate::numbers::{grouped, percent};
use crate::numeric::FORMAT;
use crate::serving::Verdict;
use crate::text_table::{BEST, Out, cell, left, right, styled};
use serde::Serialize;
use serde_json::Value;

/// What a search over ways to serve found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingSearch {
    /// The format of the document.
    pub format: u32,
    /// The version of the program.
    pub version: String,
    /// What was searched.
    pub title: String,
    /// The metric that is best, of those that keep up and meet the SLO.
    pub objective: String,
    /// The part of requests that has to meet the SLO, 0 to 1, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_share: Option<f64>,
    /// The best, in order.
    pub best: Vec<ServingChoice>,
    /// Those that no other one beats in tokens per second and user, and per GPU, at once.
    pub pareto: Vec<ServingChoice>,
    /// Ways in all.
    pub searched: u64,
    /// How many of them were left out, by what.
    pub pruned: Vec<Pruned>,
    /// How many were simulated.
    pub simulated: u64,
    /// Those that were left out, or do not serve the load, and why.
    pub rejected: Vec<ServingRejected>,
    /// In one sentence or two.
    pub answer: String,
}

/// A way to serve that was simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingChoice {
    /// The machine.
    pub topology: String,
    /// Its nodes.
    pub nodes: u32,
    /// GPUs that take part.
    pub gpus: u32,
    /// The engines.
    pub layout: ServingLayout,
    /// Its numbers.
    pub metrics: Metrics,
    /// Whether engines keep up.
    pub verdict: Option<Verdict>,
    /// Whether it keeps up and meets the SLO.
    pub meets: bool,
    /// The scenario that runs it.
    #[serde(skip)]
    pub scenario: Value,
}

/// The engines of a way to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServingLayout {
    /// Engines for prompts; 0 if engines do both.
    pub prefill: u32,
    /// Engines that generate; 0 if engines do both.
    pub decode: u32,
    /// Engines that do both.
    pub both: u32,
    /// GPUs that each is split over.
    pub tp: u32,
    /// Parts with attention of their own.
    pub attention_dp: u32,
}

impl std::fmt::Display for ServingLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.both {
            0 => write!(f, "{}p : {}d", self.prefill, self.decode)?,
            both => write!(f, "{both} × both")?,
        }
        write!(f, ", tp {}", self.tp)?;
        if self.attention_dp > 1 {
            write!(f, " · attention dp {}", self.attention_dp)?;
        }
        Ok(())
    }
}

/// A way to serve that is none of the answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingRejected {
    /// The machine.
    pub topology: String,
    /// GPUs that take part.
    pub gpus: u32,
    /// The engines.
    pub layout: ServingLayout,
    /// Why.
    pub why: String,
}

/// Rejected ones that are shown.
const MAX_SHOWN: usize = 8;

impl ServingSearch {
    /// Nothing yet.
    #[must_use]
    pub fn new(title: String, objective: &str, slo_share: Option<f64>) -> Self {
        ServingSearch {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title,
            objective: objective.to_owned(),
            slo_share,
            best: Vec::new(),
            pareto: Vec::new(),
            searched: 0,
            pruned: Vec::new(),
            simulated: 0,
            rejected: Vec::new(),
            answer: String::new(),
        }
    }

    /// So many more are left out.
    pub fn prune(&mut self, by: Reason, count: u64) {
        match self.pruned.iter_mut().find(|known| known.by == by) {
            Some(known) => known.count += count,
            None => self.pruned.push(Pruned { by, count }),
        }
    }

    /// Puts the answer into words.
    pub fn settle(&mut self) {
        self.answer = match self.best.first() {
            None => {
                let of = self.slo_share.map_or_else(String::new, |share| {
                    format!(" for {} of requests", percent(share))
                });
                format!(
                    "None of {} ways keeps up with the load and meets the SLO{of}.",
                    grouped(self.searched)
                )
            }
            Some(best) => self.told(best),
        };
    }

    fn told(&self, best: &ServingChoice) -> String {
        let value = best.metrics.number(&self.objective);
        let value = value.map_or_else(String::new, |value| {
            format!(
                ": {} {}",
                shown(&self.objective, value),
                label(&self.objective)
            )
        });
        let mut text = format!(
            "The best of {} ways is {} on {} GPUs of {}{value}",
            grouped(self.searched),
            best.layout,
            best.gpus,
            best.topology
        );
        let serving = &best.metrics.serving;
        if let (Some(ttft), Some(tpot)) = (serving.ttft_ms_p99, serving.tpot_ms_p99) {
            text += &format!(
                ", first token within {ttft:.0} ms and {tpot:.1} ms a token for 99 of 100 requests"
            );
        }
        text.push('.');
        let is_split = |choice: &&ServingChoice| choice.layout.both == 0;
        let other = match best.layout.both {
            0 => self.best.iter().find(|choice| !is_split(choice)),
            _ => self.best.iter().find(is_split),
        };
        if let Some(other) = other
            && let Some((a, b)) = best
                .metrics
                .number(&self.objective)
                .zip(other.metrics.number(&self.objective))
        {
            let kind = match other.layout.both {
                0 => "with prompts and generation apart",
                _ => "with engines that do both",
            };
            text += &format!(
                " The best {kind}, {}, has {:.2} × of that.",
                other.layout,
                b / a
            );
        }
        text
    }
}

/// All of it, for a terminal.
#[must_use]
pub fn serving_search_text(found: &ServingSearch, colour: bool) -> String {
    let mut out = Out::new(colour);
    out.plain(&format!("# fabricsim {}: {}", found.version, found.title));
    if !found.best.is_empty() {
        out.plain("");
        choices(&mut out, &found.best);
    }
    if !found.pareto.is_empty() {
        out.heading("tokens per second and user against tokens per second and GPU");
        choices(&mut out, &found.pareto);
    }
    out.heading("what was searched");
    let mut rows = vec![(found.searched, "ways in all".to_owned())];
    rows.extend(
        found
            .pruned
            .iter()
            .map(|p| (p.count, p.by.text().to_owned())),
    );
    rows.push((found.simulated, "were simulated".to_owned()));
    let rows: Vec<Vec<_>> = rows
        .into_iter()
        .map(|(count, what)| vec![cell(grouped(count)), cell(what)])
        .collect();
    out.table(&[right(""), left("")], &rows);
    if !found.rejected.is_empty() {
        out.heading("left out");
        for one in found.rejected.iter().take(MAX_SHOWN) {
            out.plain(&format!(
                "  {} on {} GPUs of {}: {}",
                one.layout, one.gpus, one.topology, one.why
            ));
        }
        let more = found.rejected.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            out.plain(&format!("  and {more} more: --json has all"));
        }
    }
    out.plain("");
    out.plain(&found.answer);
    out.text
}

fn choices(out: &mut Out, choices: &[ServingChoice]) {
    const NAMES: [&str; 11] = [
        "output_tokens_per_s_per_gpu",
        "output_tokens_per_s_per_user",
        "ttft_ms_p50",
        "ttft_ms_p99",
        "tpot_ms_p50",
        "tpot_ms_p99",
        "slo_share",
        "usd_per_mtok",
        "usd_per_hour",
        "kw",
        "kwh_per_mtok",
    ];
    let has = |name: &&str| choices.iter().any(|c| c.metrics.number(name).is_some());
    let names: Vec<&str> = NAMES.into_iter().filter(has).collect();
    let mut columns = vec![left("machine"), right("GPUs"), left("engines")];
    columns.extend(names.iter().map(|name| right(short(name))));
    let rows: Vec<Vec<_>> = choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let layout = choice.layout.to_string();
            let layout = match index {
                0 => styled(layout, BEST),
                _ => cell(layout),
            };
            let mut row = vec![
                cell(&choice.topology),
                cell(choice.gpus.to_string()),
                layout,
            ];
            row.extend(names.iter().map(|name| {
                let value = choice.metrics.number(name);
                cell(value.map_or_else(|| "–".to_owned(), |value| shown(name, value)))
            }));
            row
        })
        .collect();
    out.table(&columns, &rows);
}

/// Headings that leave room for numbers.
fn short(name: &str) -> &str {
    match name {
        "output_tokens_per_s_per_gpu" => "tokens/s/GPU",
        "output_tokens_per_s_per_user" => "tokens/s/user",
        "slo_share" => "in SLO",
        "usd_per_mtok" => "$/M tokens",
        "usd_per_hour" => "$/hour",
        "kw" => "kW",
        "kwh_per_mtok" => "kWh/M tokens",
        other => label(other),
    }
}
