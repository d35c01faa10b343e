//! The result of a search over layouts: the best, the front, and the ledger of what was left out.

mod answer;
mod cluster;
mod folder;
mod listing;
mod page;
mod scatter;
mod serving;
mod serving_page;
mod text;

use crate::metrics::{self, Metrics};
use crate::numbers::size;
use crate::numeric::FORMAT;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use cluster::{Cluster, Over};
pub use folder::{check_search_target, write_search};
pub use page::optimized_page;
pub use serving::{Held, ServingChoice, ServingLayout, ServingRejected, ServingSearch};
pub use serving_page::serving_search_page;
pub use text::{optimized_text, serving_search_text};

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Optimized {
    /// The format of the document.
    pub format: u32,
    /// The version of the program.
    pub version: String,
    /// What was searched.
    pub title: String,
    /// The metric that is best.
    pub objective: String,
    /// The best of each cluster, the best cluster first; of each so many as were asked for.
    pub best: Vec<Choice>,
    /// Of all that were simulated and fit, those that no other one beats in tokens/s per GPU, dollars,
    /// memory and power at once.
    pub pareto: Vec<Choice>,
    /// All that were simulated.
    #[serde(skip)]
    pub all: Vec<Choice>,
    /// Layouts in all.
    pub searched: u64,
    /// How many of them were left out, by what.
    pub pruned: Vec<Pruned>,
    /// How many were simulated.
    pub simulated: u64,
    /// Of so many of the fastest of each cluster, a quarter, 4 and 16 times the size of buckets was tried;
    /// these are among those that were searched.
    pub bucketed: u64,
    /// The most promising of those that do not fit or that NCCL refuses.
    pub rejected: Vec<Rejected>,
    /// What would make another choice the best.
    pub flips: Vec<Flip>,
    /// How far the best can grow on the same GPUs.
    pub headroom: Option<Headroom>,
    /// The largest bound as a share of what was then simulated: below 1, as bounds have to be.
    pub tightest_bound: Option<f64>,
    /// Half of predictions of such steps are off by less than this share; what is nearer to the best is
    /// as good.
    pub known_error: Option<f64>,
    /// Machines with their numbers of GPUs and networks, in the order in which they were searched, if there
    /// are several of a machine, or a budget.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Cluster>,
    /// The budget, by its names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub budget: BTreeMap<String, f64>,
    /// Numbers of GPUs that were tried for a rate, in the order in which they were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
    /// The rate that was asked for, and the GPUs that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Which FlashAttention the job says, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_version: Option<u8>,
    /// In one sentence or two.
    pub answer: String,
}

/// A number of GPUs that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// The machine.
    pub topology: String,
    /// GPUs that would take part.
    pub gpus: u32,
    /// Whether they do what is asked.
    pub met: bool,
    /// Where they do not: what the fastest layout that was simulated gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// And why no other layout was, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Reason>,
}

impl Tried {
    /// What came of it, for people.
    fn outcome(&self) -> String {
        let rate = self
            .tokens_per_s
            .map(|rate| metrics::shown("tokens_per_s", rate));
        match (self.met, rate, self.why) {
            (true, ..) => "they do".to_owned(),
            (false, Some(rate), Some(Reason::Bound)) => {
                format!("{rate} tokens/s; the other layouts cannot, by a bound on their step")
            }
            (false, Some(rate), _) => format!("{rate} tokens/s"),
            (false, None, Some(why)) => why.of_all().to_owned(),
            (false, None, None) => "they do not".to_owned(),
        }
    }
}

/// A rate, and the GPUs that it takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// Tokens per second of the whole job.
    pub tokens_per_s: f64,
    /// No more GPUs than these were tried.
    pub most_gpus: u32,
    /// The fewest of those that were tried and reach it, by machine.
    pub reached: Vec<(String, u32)>,
}

/// So many layouts that were left out are named.
const MAX_REJECTED: usize = 20;

impl Optimized {
    /// Nothing yet.
    #[must_use]
    pub fn new(title: String, objective: &str) -> Self {
        Optimized {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title,
            objective: objective.to_owned(),
            best: Vec::new(),
            pareto: Vec::new(),
            all: Vec::new(),
            searched: 0,
            pruned: Vec::new(),
            simulated: 0,
            bucketed: 0,
            rejected: Vec::new(),
            flips: Vec::new(),
            headroom: None,
            tightest_bound: None,
            known_error: None,
            clusters: Vec::new(),
            budget: BTreeMap::new(),
            tried: Vec::new(),
            target: None,
            flash_version: None,
            answer: String::new(),
        }
    }

    /// One more search, of another number of GPUs or another machine.
    pub fn absorb(&mut self, other: Optimized) {
        self.best.extend(other.best);
        self.pareto.extend(other.pareto);
        self.all.extend(other.all);
        self.searched += other.searched;
        self.simulated += other.simulated;
        self.bucketed += other.bucketed;
        for pruned in other.pruned {
            self.prune(pruned.by, pruned.count);
        }
        self.rejected.extend(other.rejected);
        self.clusters.extend(other.clusters);
        self.tried.extend(other.tried);
        self.budget.extend(other.budget);
        self.flips.extend(other.flips);
        self.headroom = self.headroom.take().or(other.headroom);
        let bounds = self.tightest_bound.into_iter().chain(other.tightest_bound);
        self.tightest_bound = bounds.reduce(f64::max);
    }

    /// A cluster of which no layout can be run is among those that are rejected, also if none of its layouts is.
    pub fn miss(&mut self, cluster: &Cluster) {
        let mut own = self
            .rejected
            .iter()
            .filter(|rejected| rejected.is_of(cluster));
        if let (Some(why), None) = (cluster.why, own.next()) {
            self.rejected.push(Rejected {
                topology: cluster.topology.clone(),
                gpus: cluster.gpus,
                oversubscription: cluster.oversubscription,
                layout: None,
                why,
                memory_gib: None,
                memory_capacity_gib: None,
                step_bound_us: None,
            });
        }
    }

    /// Keeps the most promising of what was rejected, and of each machine that has no best one.
    pub fn keep_telling(&mut self) {
        self.rejected.sort_by(|a, b| {
            let bound = |us: Option<f64>| us.unwrap_or(f64::INFINITY);
            bound(a.step_bound_us).total_cmp(&bound(b.step_bound_us))
        });
        let best = self.best.iter().map(|choice| choice.topology.clone());
        let mut told: BTreeSet<String> = best.collect();
        let mut index = 0;
        self.rejected.retain(|rejected| {
            index += 1;
            told.insert(rejected.topology.clone()) || index <= MAX_REJECTED
        });
    }

    /// So many more layouts are left out.
    pub fn prune(&mut self, by: Reason, count: u64) {
        match self.pruned.iter_mut().find(|known| known.by == by) {
            Some(known) => known.count += count,
            None => self.pruned.push(Pruned { by, count }),
        }
    }

    /// The best of each machine, the best machine first.
    pub(crate) fn firsts(&self) -> Vec<&Choice> {
        let mut firsts: Vec<&Choice> = Vec::new();
        for choice in &self.best {
            if firsts.iter().all(|first| first.topology != choice.topology) {
                firsts.push(choice);
            }
        }
        firsts
    }

    /// Those of the front that are not among the best.
    pub(crate) fn others(&self) -> Vec<Choice> {
        let known = |choice: &&Choice| !self.best.iter().any(|best| best.is_same(choice));
        self.pareto.iter().filter(known).cloned().collect()
    }

    /// Says which choices are as good as the best, and the answer. `known_error`: half of predictions of
    /// such steps are off by less than this share.
    pub fn settle(&mut self, known_error: Option<f64>) {
        self.known_error = known_error;
        let first = self.best.first().cloned();
        let objective = self.objective.clone();
        let value = |choice: &Choice| choice.metrics.number(&objective);
        let most = first.as_ref().and_then(value);
        let shown = self.best.iter_mut().chain(&mut self.pareto);
        for choice in shown.chain(&mut self.all) {
            let off = most.zip(value(choice)).map(|(best, own)| {
                let (less, more) = (best.min(own), best.max(own));
                (more - less) / more.max(f64::MIN_POSITIVE)
            });
            let same = first.as_ref().is_some_and(|first| first.is_same(choice));
            choice.tied = !same
                && off
                    .zip(known_error)
                    .is_some_and(|(off, known)| off <= known);
        }
        self.answer = answer::of(self);
    }
}

/// A layout that was simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The machine.
    pub topology: String,
    /// Its nodes.
    pub nodes: u32,
    /// GPUs that take part.
    pub gpus: u32,
    /// Ports down to ports up of its leaves, if that is searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<f64>,
    /// How the job is divided.
    pub layout: Layout,
    /// Its numbers.
    pub metrics: Metrics,
    /// What its step cannot beat, microseconds.
    pub step_bound_us: f64,
    /// It is as good as the best of all within the known error.
    pub tied: bool,
    /// The scenario that runs it.
    #[serde(skip)]
    pub scenario: Value,
}

impl Choice {
    /// Whether it is the same layout of the same cluster.
    #[must_use]
    pub fn is_same(&self, other: &Choice) -> bool {
        self.topology == other.topology
            && self.gpus == other.gpus
            && self.oversubscription == other.oversubscription
            && self.layout == other.layout
    }
}

/// How a job is divided over GPUs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Layout {
    /// Ranks that share each layer.
    pub tp: u32,
    /// Ranks that share each sequence.
    pub cp: u32,
    /// Ranks that share the experts.
    pub ep: u32,
    /// Stages of the pipeline.
    pub pp: u32,
    /// Replicas.
    pub dp: u32,
    /// Virtual stages on each GPU.
    pub virtual_stages: u32,
    /// Sequences of a micro-batch.
    pub micro_batch: u32,
    /// What is computed again, as scenarios spell it.
    pub recompute: String,
    /// How replicas are kept equal: `ddp`, `zero`, `fsdp`.
    pub sharding: String,
    /// What a bucket of gradients holds, bytes, if it is other than usual: than the scenario has it, or the
    /// framework.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u64>,
    /// What is in the host's memory, if it is other than the scenario has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadedStates>,
}

/// States that are in the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OffloadedStates {
    /// Optimizer states and gradients.
    Optimizer,
    /// These and parameters.
    Parameters,
}

impl OffloadedStates {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            OffloadedStates::Optimizer => "optimizer on the CPU",
            OffloadedStates::Parameters => "optimizer and parameters on the CPU",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = [("cp", self.cp), ("ep", self.ep), ("pp", self.pp)];
        write!(f, "tp {}", self.tp)?;
        for (name, value) in more.into_iter().filter(|&(_, value)| value > 1) {
            write!(f, " · {name} {value}")?;
        }
        write!(f, " · dp {}", self.dp)?;
        if self.virtual_stages > 1 {
            write!(f, " · {} virtual stages", self.virtual_stages)?;
        }
        write!(f, ", micro-batch {}", self.micro_batch)?;
        if self.recompute != "none" {
            write!(f, ", {} recomputation", self.recompute)?;
        }
        write!(f, ", {}", self.sharding)?;
        if let Some(bytes) = self.bucket {
            write!(f, " in buckets of {}", size(bytes as f64))?;
        }
        match self.offload {
            None => Ok(()),
            Some(states) => write!(f, ", {}", states.text()),
        }
    }
}

/// Layouts that were left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// By what.
    pub by: Reason,
    /// How many.
    pub count: u64,
}

/// Why a layout is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The machine is above the budget.
    Budget,
    /// GPUs, heads, layers, experts or the batch do not divide by it.
    Division,
    /// Another layout is the same job.
    Same,
    /// It does not fit into the memory of its GPUs.
    Memory,
    /// It does not fit into the memory of its hosts.
    HostMemory,
    /// Its step cannot be faster than what was found.
    Bound,
    /// It was to be simulated, and NCCL or the engine refused it.
    Refused,
}

impl Reason {
    /// Why none can be run, for people.
    pub(crate) const fn of_all(self) -> &'static str {
        match self {
            Reason::Budget => "it is above the budget",
            Reason::Division | Reason::Same => {
                "no layout divides the GPUs, heads, layers, experts and the batch"
            }
            Reason::Memory => "no layout that divides the job fits into memory",
            Reason::HostMemory => "no layout that fits otherwise fits the memory of the hosts",
            Reason::Bound => "no layout can be fast enough, by a bound on their step",
            Reason::Refused => "no layout that fits can be run",
        }
    }

    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Reason::Budget => "are on machines above the budget",
            Reason::Division => "do not divide the GPUs, heads, layers, experts or the batch",
            Reason::Same => "are the same job as another one",
            Reason::Memory => "do not fit into memory",
            Reason::HostMemory => "do not fit into the memory of the hosts",
            Reason::Bound => "cannot be faster, by a bound on their step",
            Reason::Refused => "cannot be run",
        }
    }
}

/// A layout that is none of the answers, though its bound is low.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejected {
    /// The machine.
    pub topology: String,
    /// GPUs that would take part.
    pub gpus: u32,
    /// Ports down to ports up of its leaves, if that is searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<f64>,
    /// The layout; none where all that there are share the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// Why.
    pub why: Reason,
    /// Of memory: what it needs, GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<f64>,
    /// And what a GPU has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_capacity_gib: Option<f64>,
    /// What its step cannot beat, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_bound_us: Option<f64>,
}

impl Rejected {
    fn is_of(&self, cluster: &Cluster) -> bool {
        self.topology == cluster.topology
            && self.gpus == cluster.gpus
            && self.oversubscription == cluster.oversubscription
    }

    /// Its layout, for people.
    fn layout(&self) -> String {
        let layout = self.layout.as_ref();
        layout.map_or_else(|| "every layout".to_owned(), Layout::to_string)
    }
}

/// What would make another choice the best.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flip {
    /// More memory: a layout that does not fit may be faster.
    Memory {
        /// On this machine.
        topology: String,
        /// The layout.
        layout: Layout,
        /// What a GPU lacks, GiB.
        lacks_gib: f64,
        /// What its step cannot beat, microseconds.
        step_bound_us: f64,
        /// What the best one takes, microseconds.
        best_us: f64,
    },
    /// Another machine is as good for the money if its GPUs cost less than so many times as much.
    Price {
        /// The best machine.
        than: String,
        /// The other one.
        topology: String,
        /// How many times as much a GPU-hour may cost there.
        ratio: f64,
    },
}

/// How far a layout can grow before its GPUs are full.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headroom {
    /// Memory that is free on the fullest GPU, GiB.
    pub memory_gib: f64,
    /// The longest sequence that fits, tokens, in steps of 1,024; none if not even the present one.
    pub sequence: Option<u64>,
    /// Communication that no kernel hides, 0 to 1: what a faster network or NVLink could save.
    pub exposed_share: Option<f64>,
    /// What takes most of the time.
    pub cause: Option<String>,
}
