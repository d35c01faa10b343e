//! `summary.json`: what came of an experiment, whatever its job.
//!
//! Each variant has a common row ([`Metrics`]) and a part of its job's own ([`JobResult`]). Of a
//! single collective the file has that part at its top, where version 1 had it.

use super::calls::CallsResult;
use super::communicator::CommunicatorResult;
use super::comparison::Searched;
use super::concurrent::ConcurrentResult;
use super::job_report::JobReport;
use super::metrics::Metrics;
use super::numeric::first_format;
use super::record::CollectiveResult;
use super::serving::ServingResult;
use super::training::TrainingResult;
use super::{FORMAT, Waterfall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A whole run: `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "SummaryFile", into = "SummaryFile")]
#[schemars(with = "SummaryFile")]
pub struct Summary {
    /// The version of this format: 2. Quantities are numbers: bytes, GB/s, microseconds.
    pub format: u32,
    /// fabricsim's version.
    pub version: String,
    /// The seed of every random choice.
    pub seed: u64,
    /// What was run, in one line.
    pub title: String,
    /// The answer in a sentence or two: what limits a collective, what a step is bound by; of several
    /// variants, which is fastest and why.
    pub answer: String,
    /// The variants; one, if nothing is compared.
    pub variants: Vec<Variant>,
    /// The variant that the others are compared with; of several.
    pub baseline: Option<String>,
    /// The fastest variant of those that run and fit into memory; none if none does.
    pub best: Option<String>,
    /// What makes the differences of their times: from the baseline to each other variant, and
    /// between those that lead from it to the best by one change each.
    pub waterfall: Vec<Waterfall>,
    /// What the reader should know.
    pub warnings: Vec<String>,
    /// The scenario as it was read, with overrides applied.
    pub spec: serde_json::Value,
}

impl Summary {
    /// One of nothing yet.
    #[must_use]
    pub fn new(title: String, seed: u64, spec: serde_json::Value) -> Self {
        Summary {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            title,
            answer: String::new(),
            variants: Vec::new(),
            baseline: None,
            best: None,
            waterfall: Vec::new(),
            warnings: Vec::new(),
            spec,
        }
    }

    /// Adds warnings that are not there yet.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        for text in warnings {
            if !self.warnings.contains(&text) {
                self.warnings.push(text);
            }
        }
    }

    /// The variants whose job is a collective.
    pub fn collectives(&self) -> impl Iterator<Item = CollectiveView<'_>> {
        self.variants.iter().filter_map(|variant| {
            Some(CollectiveView {
                summary: self,
                variant,
                result: variant.job.collective()?,
            })
        })
    }

    /// The collective of a run that has no other variant.
    #[must_use]
    pub fn only_collective(&self) -> Option<CollectiveView<'_>> {
        self.collectives()
            .next()
            .filter(|_| self.variants.len() == 1)
    }

    /// The same without what differs between two runs of the same spec: wall-clock times.
    #[must_use]
    pub fn reproducible(&self) -> Summary {
        let mut summary = self.clone();
        for variant in &mut summary.variants {
            variant.job.report_mut().forget_wall_time();
        }
        summary
    }

    /// Wall-clock milliseconds of all simulations.
    #[must_use]
    pub fn wall_ms(&self) -> f64 {
        let of = |variant: &Variant| variant.job.report().wall_ms();
        self.variants.iter().map(of).sum()
    }
}

/// One job on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Its name among those compared; the scenario's if it is the only one.
    pub name: String,
    /// The topology's name.
    pub topology: String,
    /// The topology in one line.
    pub topology_title: String,
    /// Nodes in use.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u32,
    /// What differs from the baseline: places in the scenario.
    pub differs: Vec<String>,
    /// Why it takes as long as the baseline, if it does.
    pub no_effect: Option<String>,
    /// The search that found its layout, if there was one.
    pub search: Option<Box<Searched>>,
    /// The common row.
    pub metrics: Metrics,
    /// What came of its job.
    pub job: JobResult,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum JobResult {
    /// Of a collective at several sizes.
    Collective(Box<CollectiveResult>),
    /// Of steps of a training job.
    Training(Box<TrainingResult>),
    /// Of several jobs at once.
    Concurrent(Box<ConcurrentResult>),
    /// Of serving.
    Serving(Box<ServingResult>),
    /// Of making communicators.
    Communicator(Box<CommunicatorResult>),
    /// Of what ranks call.
    Calls(Box<CallsResult>),
}

impl JobResult {
    /// A collective's rows.
    #[must_use]
    pub fn collective(&self) -> Option<&CollectiveResult> {
        match self {
            JobResult::Collective(result) => Some(result),
            _ => None,
        }
    }

    /// What came of training.
    #[must_use]
    pub fn training(&self) -> Option<&TrainingResult> {
        match self {
            JobResult::Training(result) => Some(result),
            _ => None,
        }
    }

    /// What came of several jobs at once.
    #[must_use]
    pub fn concurrent(&self) -> Option<&ConcurrentResult> {
        match self {
            JobResult::Concurrent(result) => Some(result),
            _ => None,
        }
    }

    /// What came of serving.
    #[must_use]
    pub fn serving(&self) -> Option<&ServingResult> {
        match self {
            JobResult::Serving(result) => Some(result),
            _ => None,
        }
    }

    /// What making communicators takes.
    #[must_use]
    pub fn communicator(&self) -> Option<&CommunicatorResult> {
        match self {
            JobResult::Communicator(result) => Some(result),
            _ => None,
        }
    }

    /// What came of calls.
    #[must_use]
    pub fn calls(&self) -> Option<&CallsResult> {
        match self {
            JobResult::Calls(result) => Some(result),
            _ => None,
        }
    }

    /// What all kinds tell in the same way.
    pub(crate) fn report(&self) -> &dyn JobReport {
        match self {
            JobResult::Collective(result) => &**result,
            JobResult::Training(result) => &**result,
            JobResult::Concurrent(result) => &**result,
            JobResult::Serving(result) => &**result,
            JobResult::Communicator(result) => &**result,
            JobResult::Calls(result) => &**result,
        }
    }

    fn report_mut(&mut self) -> &mut dyn JobReport {
        match self {
            JobResult::Collective(result) => &mut **result,
            JobResult::Training(result) => &mut **result,
            JobResult::Concurrent(result) => &mut **result,
            JobResult::Serving(result) => &mut **result,
            JobResult::Communicator(result) => &mut **result,
            JobResult::Calls(result) => &mut **result,
        }
    }

    /// Why the job did not come to its end, if so.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.report().failure()
    }
}

/// A collective's results and what they stand in: all that its tables, plots and page are made
/// from.
#[derive(Debug, Clone, Copy)]
pub struct CollectiveView<'a> {
    /// The whole run.
    pub summary: &'a Summary,
    /// The variant.
    pub variant: &'a Variant,
    /// Its results.
    pub result: &'a CollectiveResult,
}

/// The file's form of a [`Summary`].
#[derive(Serialize, Deserialize, JsonSchema)]
struct SummaryFile {
    /// The version of this format: 2. Quantities are numbers: bytes, GB/s, microseconds.
    #[serde(default = "first_format")]
    format: u32,
    /// fabricsim's version.
    version: String,
    /// The seed of every random choice.
    seed: u64,
    /// What was run, in one line.
    title: String,
    /// The answer in a sentence or two.
    #[serde(default)]
    answer: String,
    /// The results of a collective that has no other variant.
    #[serde(flatten)]
    only: Option<OnlyCollective>,
    /// The variants; one, if nothing is compared.
    #[serde(default)]
    variants: Vec<VariantFile>,
    /// The variant that the others are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    baseline: Option<String>,
    /// The fastest variant of those that run and fit into memory; none if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best: Option<String>,
    /// What makes the differences of their times; of training steps, of as many tokens per GPU as the
    /// first has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waterfall: Vec<Waterfall>,
    /// What the reader should know.
    warnings: Vec<String>,
    /// The scenario as it was read, with overrides applied.
    spec: serde_json::Value,
}

/// What version 1 had at the top of a collective's file.
#[derive(Serialize, Deserialize, JsonSchema)]
struct OnlyCollective {
    /// The topology's name.
    topology: String,
    /// The topology in one line.
    topology_title: String,
    /// Nodes in use.
    nodes: u32,
    #[serde(flatten)]
    result: CollectiveResult,
}

/// The file's form of a [`Variant`].
#[derive(Serialize, Deserialize, JsonSchema)]
struct VariantFile {
    /// Its name among those compared; the scenario's if it is the only one.
    name: String,
    /// The topology's name.
    topology: String,
    /// The topology in one line.
    topology_title: String,
    /// Nodes in use.
    nodes: u32,
    /// GPUs.
    gpus: u32,
    /// What differs from the baseline: places in the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    differs: Vec<String>,
    /// Why it takes as long as the baseline, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    no_effect: Option<String>,
    /// The search that found its layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    search: Option<Box<Searched>>,
    /// The common row.
    #[serde(default)]
    metrics: Metrics,
    /// What came of its job; absent where the file's top has it.
    #[serde(flatten)]
    job: Option<JobResult>,
}

impl From<Summary> for SummaryFile {
    fn from(summary: Summary) -> Self {
        let alone = summary.variants.len() == 1;
        let mut only = None;
        let variants = summary.variants.into_iter().map(|variant| {
            let job = match variant.job {
                JobResult::Collective(result) if alone => {
                    only = Some(OnlyCollective {
                        topology: variant.topology.clone(),
                        topology_title: variant.topology_title.clone(),
                        nodes: variant.nodes,
                        result: *result,
                    });
                    None
                }
                job => Some(job),
            };
            VariantFile {
                name: variant.name,
                topology: variant.topology,
                topology_title: variant.topology_title,
                nodes: variant.nodes,
                gpus: variant.gpus,
                differs: variant.differs,
                no_effect: variant.no_effect,
                search: variant.search,
                metrics: variant.metrics,
                job,
            }
        });
        let variants = variants.collect();
        SummaryFile {
            format: summary.format,
            version: summary.version,
            seed: summary.seed,
            title: summary.title,
            answer: summary.answer,
            only,
            variants,
            baseline: summary.baseline,
            best: summary.best,
            waterfall: summary.waterfall,
            warnings: summary.warnings,
            spec: summary.spec,
        }
    }
}

impl From<SummaryFile> for Summary {
    fn from(file: SummaryFile) -> Self {
        let mut only = file.only;
        let mut variants = file.variants;
        // Version 1 had no variants of a collective.
        if let (Some(only), []) = (&only, variants.as_slice()) {
            variants.push(VariantFile {
                name: only.result.collective.clone(),
                topology: only.topology.clone(),
                topology_title: only.topology_title.clone(),
                nodes: only.nodes,
                gpus: only.result.ranks,
                differs: Vec::new(),
                no_effect: None,
                search: None,
                metrics: Metrics::of_collective(&only.result),
                job: None,
            });
        }
        let variants = variants.into_iter().filter_map(|variant| {
            let above = || {
                only.take()
                    .map(|only| JobResult::Collective(Box::new(only.result)))
            };
            Some(Variant {
                name: variant.name,
                topology: variant.topology,
                topology_title: variant.topology_title,
                nodes: variant.nodes,
                gpus: variant.gpus,
                differs: variant.differs,
                no_effect: variant.no_effect,
                search: variant.search,
                metrics: variant.metrics,
                job: variant.job.or_else(above)?,
            })
        });
        Summary {
            format: file.format,
            version: file.version,
            seed: file.seed,
            title: file.title,
            answer: file.answer,
            variants: variants.collect(),
            baseline: file.baseline,
            best: file.best,
            waterfall: file.waterfall,
            warnings: file.warnings,
            spec: file.spec,
        }
    }
}
