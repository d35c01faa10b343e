//! The result of a search over ways to serve: which engines on which GPUs.

use super::listing::{Cell, Listing, Row};
use super::{Pruned, Reason, Tried};
use crate::metrics::{Metrics, label, shown};
use crate::numbers::{gpus_text, grouped, percent, three_digits};
use crate::numeric::FORMAT;
use crate::serving::Verdict;
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
    /// The best of each machine, the best machine first; of each so many as were asked for.
    pub best: Vec<ServingChoice>,
    /// Those that no other one beats in tokens per second and user, and per GPU, at once.
    pub pareto: Vec<ServingChoice>,
    /// All that were simulated.
    #[serde(skip)]
    pub all: Vec<ServingChoice>,
    /// Ways in all.
    pub searched: u64,
    /// How many of them were left out, by what.
    pub pruned: Vec<Pruned>,
    /// How many were simulated.
    pub simulated: u64,
    /// Those that were left out, or do not serve the load, and why.
    pub rejected: Vec<ServingRejected>,
    /// Of each machine on which no way does, how much of the load is kept, where the fewest GPUs are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// Of each machine without a best, what comes nearest.
    #[serde(skip)]
    pub missed: Vec<ServingRejected>,
    /// Numbers of GPUs that were tried, in the order in which they were, where the fewest are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
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
    /// Requests per second that full engines do at most, of a load that has a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_requests_per_s: Option<f64>,
    /// Whether it keeps up and meets the SLO.
    pub meets: bool,
    /// The scenario that runs it.
    #[serde(skip)]
    pub scenario: Value,
}

/// How much of a load is kept, in requests per second, or requests at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// The largest that was tried and is kept.
    pub kept: f64,
    /// The least that is not.
    pub not_kept: f64,
    /// Whether these are requests at once.
    pub at_once: bool,
    /// What keeps it.
    #[serde(flatten)]
    pub choice: ServingChoice,
}

impl Held {
    fn told(&self) -> String {
        let unit = match self.at_once {
            true => "requests at once",
            false => "requests/s",
        };
        format!(
            " {} {unit} would hold there ({}), {} not.",
            three_digits(self.kept),
            self.choice.layout,
            three_digits(self.not_kept)
        )
    }
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
    /// Stages of each.
    pub pp: u32,
    /// Parts with attention of their own.
    pub attention_dp: u32,
    /// GPUs that experts are split over, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ep: Option<u32>,
}

impl std::fmt::Display for ServingLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.both {
            0 => write!(f, "{}p : {}d", self.prefill, self.decode)?,
            both => write!(f, "{both} × both")?,
        }
        write!(f, ", tp {}", self.tp)?;
        for (name, value) in [("pp", self.pp), ("attention dp", self.attention_dp)] {
            if value > 1 {
                write!(f, " · {name} {value}")?;
            }
        }
        match self.ep {
            None => Ok(()),
            Some(ep) => write!(f, " · ep {ep}"),
        }
    }
}

/// A way to serve that is none of the answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingRejected {
    /// The machine.
    pub topology: String,
    /// GPUs that take part.
    pub gpus: u32,
    /// The engines; none where all that there are share the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<ServingLayout>,
    /// Why.
    pub why: String,
}

impl ServingRejected {
    fn told(&self) -> String {
        let place = format!("{} of {}", gpus_text(self.gpus), self.topology);
        match &self.layout {
            None => format!("on {place}: {}", self.why),
            Some(layout) => format!("{layout} on {place}: {}", self.why),
        }
    }
}

/// Reasons that are shown.
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
            all: Vec::new(),
            searched: 0,
            pruned: Vec::new(),
            simulated: 0,
            rejected: Vec::new(),
            held: Vec::new(),
            missed: Vec::new(),
            tried: Vec::new(),
            answer: String::new(),
        }
    }

    /// So many more are left out.
    pub fn prune(&mut self, by: Reason, count: u64) {
        match self.pruned.iter_mut().find(|known| known.by == by) {
            Some(known) => known.count += count,
            None if count == 0 => {}
            None => self.pruned.push(Pruned { by, count }),
        }
    }

    /// One more, of so many GPUs of a machine, is none of the answers.
    pub fn reject(
        &mut self,
        (topology, gpus): (&str, u32),
        layout: Option<ServingLayout>,
        why: String,
    ) {
        self.rejected.push(ServingRejected {
            topology: topology.to_owned(),
            gpus,
            layout,
            why,
        });
    }

    /// Puts the answer into words.
    pub fn settle(&mut self) {
        let mut answer = match self.best.first() {
            None => {
                let of = self.slo_share.map_or_else(String::new, |share| {
                    format!(" for {} of requests", percent(share))
                });
                format!(
                    "None of {} ways is known to keep up with the load and to meet the SLO{of}.",
                    grouped(self.searched)
                )
            }
            Some(best) => self.told(best),
        };
        for missed in &self.missed {
            answer += &format!(
                " Nothing on {} does; the nearest is {}.",
                missed.topology,
                missed.told()
            );
            let mut held = self.held.iter();
            if let Some(held) = held.find(|held| held.choice.topology == missed.topology) {
                answer += &held.told();
            }
        }
        answer += &self.told_tried();
        self.answer = answer;
    }

    /// A way with what it gives, and what that takes.
    fn described(&self, choice: &ServingChoice) -> String {
        let number = |name: &str| choice.metrics.number(name);
        let value = number(&self.objective).map_or_else(String::new, |value| {
            let what = label(&self.objective);
            format!(", {} {what}", shown(&self.objective, value))
        });
        let hourly = number("usd_per_gpu_hour").map(|usd| usd * f64::from(choice.gpus));
        let takes = [
            hourly.map(|usd| format!(", {} an hour", crate::bill::dollars(usd))),
            number("usd_per_mtok")
                .filter(|_| self.objective != "usd_per_mtok")
                .map(|usd| format!(", ${} per M tokens", shown("usd_per_mtok", usd))),
            number("kw").map(|kw| format!(", {} kW", shown("kw", kw))),
        ];
        format!(
            "{} on {}{value}{}",
            choice.layout,
            gpus_text(choice.gpus),
            takes.into_iter().flatten().collect::<String>()
        )
    }

    fn told(&self, best: &ServingChoice) -> String {
        let mut text = format!(
            "The best of {} ways is on {}: {}",
            grouped(self.searched),
            best.topology,
            self.described(best)
        );
        let serving = &best.metrics.serving;
        if let (Some(ttft), Some(tpot)) = (serving.ttft_ms_p99, serving.tpot_ms_p99) {
            text += &format!(
                ", first token within {ttft:.0} ms and {tpot:.1} ms a token for 99 of 100 requests"
            );
        }
        text.push('.');
        for first in self.firsts().into_iter().skip(1) {
            text += &format!(
                " The best on {} is {}.",
                first.topology,
                self.described(first)
            );
        }
        let own = || self.best.iter().filter(|c| c.topology == best.topology);
        let is_split = |choice: &&ServingChoice| choice.layout.both == 0;
        let other = match best.layout.both {
            0 => own().find(|choice| !is_split(choice)),
            _ => own().find(is_split),
        };
        let number = |choice: &ServingChoice| choice.metrics.number(&self.objective);
        if let Some(other) = other
            && let Some((a, b)) = number(best).zip(number(other))
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

    /// The best of each machine, the best machine first.
    pub(super) fn firsts(&self) -> Vec<&ServingChoice> {
        let mut firsts: Vec<&ServingChoice> = Vec::new();
        for choice in &self.best {
            if firsts.iter().all(|first| first.topology != choice.topology) {
                firsts.push(choice);
            }
        }
        firsts
    }

    /// Which numbers of GPUs do, and which next smaller one does not.
    fn told_tried(&self) -> String {
        let mut text = String::new();
        for first in self.firsts() {
            let own = self.tried.iter().filter(|t| t.topology == first.topology);
            let missed = own.filter(|tried| !tried.met).map(|tried| tried.gpus).max();
            if let Some(missed) = missed {
                text += &format!(
                    " With {} of {} the load is kept, with {} it is not.",
                    gpus_text(first.gpus),
                    first.topology,
                    gpus_text(missed)
                );
            }
        }
        if !self.tried.is_empty() {
            let mut tried: Vec<u32> = self.tried.iter().map(|tried| tried.gpus).collect();
            tried.sort_unstable();
            tried.dedup();
            let tried: Vec<String> = tried.into_iter().map(|g| grouped(u64::from(g))).collect();
            text += &format!(
                " Tried were {} GPUs, by halving: more engines are taken to serve no less.",
                tried.join(", ")
            );
        }
        text
    }
}

/// What was searched, what was left out and by what, with how many.
pub(super) fn ledger(found: &ServingSearch) -> Vec<(u64, String)> {
    let mut rows = vec![(found.searched, "ways in all".to_owned())];
    let pruned = found.pruned.iter();
    rows.extend(pruned.map(|p| (p.count, p.by.text().to_owned())));
    rows.push((found.simulated, "were simulated".to_owned()));
    rows
}

/// Those that were left out, each reason once.
pub(super) fn left_out(found: &ServingSearch) -> Vec<String> {
    let mut reasons: Vec<(&ServingRejected, usize)> = Vec::new();
    for one in &found.rejected {
        let same = |(other, _): &&mut (&ServingRejected, usize)| {
            other.why == one.why && other.topology == one.topology
        };
        match reasons.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => reasons.push((one, 1)),
        }
    }
    let more = reasons.len().saturating_sub(MAX_SHOWN);
    let shown = reasons.into_iter().take(MAX_SHOWN);
    let mut lines: Vec<String> = shown
        .map(|(first, count)| match count {
            1 => first.told(),
            _ => format!(
                "{} (and {} more alike)",
                first.told(),
                grouped(count as u64 - 1)
            ),
        })
        .collect();
    if more > 0 {
        lines.push(format!("and {more} more reasons: --json has all"));
    }
    lines
}

/// Ways to serve with their numbers.
pub(super) fn choices(objective: &str, choices: &[ServingChoice]) -> Listing {
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
    let others = NAMES.into_iter().filter(|name| *name != objective);
    let names: Vec<&str> = std::iter::once(objective)
        .chain(others)
        .filter(has)
        .collect();
    let words = [("machine", false), ("GPUs", true), ("engines", false)];
    let numbers = names.iter().map(|name| (short(name), true));
    let columns = words.into_iter().chain(numbers);
    let row = |choice: &ServingChoice| {
        let word = |text: String| Cell { text, number: None };
        let mut cells = vec![
            word(choice.topology.clone()),
            Cell {
                text: choice.gpus.to_string(),
                number: Some(choice.gpus.into()),
            },
            word(choice.layout.to_string()),
        ];
        cells.extend(names.iter().map(|name| {
            let number = choice.metrics.number(name);
            let text = number.map_or_else(|| "–".to_owned(), |value| shown(name, value));
            Cell { text, number }
        }));
        Row { cells, tied: false }
    };
    Listing {
        columns: columns.map(|(name, is)| (name.to_owned(), is)).collect(),
        rows: choices.iter().map(row).collect(),
    }
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
