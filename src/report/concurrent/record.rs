//! What jobs that ran at once leave behind, as plain values.

use crate::Waterfall;
use crate::job_report::JobReport;
use crate::metrics::{Known, null_or_number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of jobs that ran at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConcurrentResult {
    /// The jobs, in the order of the scenario; none if they did not come to their end.
    pub jobs: Vec<ConcurrentJob>,
    /// When the last of them ended, microseconds.
    pub end_us: f64,
    /// Why they did not come to their end, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Wall-clock milliseconds. Not reproducible: zero in all documents.
    pub wall_ms: f64,
}

/// One of several jobs that ran at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConcurrentJob {
    /// Its name.
    pub name: String,
    /// `collective`, `training` or `serving`.
    pub kind: String,
    /// What it does: `all-reduce`, `llama3-70b`.
    pub what: String,
    /// Its GPUs by number, as a scenario has them: `0-7, 16`.
    pub gpus: String,
    /// When it started, microseconds.
    pub start_us: f64,
    /// When it ended, microseconds.
    pub end_us: f64,
    /// Microseconds of an operation of its largest size, or of a step, the mean of all; of serving until the first
    /// token, the median.
    pub time_us: f64,
    /// The same of this job by itself on the same GPUs, microseconds.
    pub alone_us: f64,
    /// The first over the second; 1 if both are nothing.
    pub slowdown: f64,
    /// Each size, or each step.
    pub rows: Vec<ConcurrentRow>,
    /// Of the links that it shares with others the one that they use longest; none if it shares none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedLink>,
    /// Its GPUs on which other jobs run at the same time; none if it has all for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_gpus: Option<SharedGpus>,
    /// If it has only a part of the network: the time by itself with all of it, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_us: Option<f64>,
    /// What its share of the machine draws at full load, kW; `null` if that is not known. GPUs that jobs
    /// take turns on count for each.
    #[serde(
        default,
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub kw: Known,
    /// Who costs it how much, from by itself with all of the network to beside the others; where the
    /// scenario says how jobs are isolated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waterfall: Option<Waterfall>,
}

/// GPUs that several jobs take turns on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedGpus {
    /// By number, as a scenario has them: `0-7, 16`.
    pub gpus: String,
    /// The other jobs that are on any of them.
    pub with: Vec<String>,
}

/// What a size of a collective took, or a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConcurrentRow {
    /// Of a collective: the size, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of training: the step, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Of serving: `first token` or `a token`, the median of all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// How many operations the time is the mean of.
    pub count: u32,
    /// Microseconds of one.
    pub time_us: f64,
    /// The same of the job by itself, microseconds.
    pub alone_us: f64,
    /// The first over the second; 1 if both are nothing.
    pub slowdown: f64,
}

/// A link that several jobs use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedLink {
    /// Which: `node0/nic0 > leaf0`.
    pub link: String,
    /// The other jobs that use it.
    pub with: Vec<String>,
    /// Microseconds that the bytes of all of them take there at the link's rate.
    pub busy_us: f64,
}

impl JobReport for ConcurrentResult {
    fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    fn wall_ms(&self) -> f64 {
        self.wall_ms
    }

    fn forget_wall_time(&mut self) {
        self.wall_ms = 0.0;
    }
}

impl ConcurrentResult {
    /// Of jobs that have a part of the network each: what that costs them, the most first.
    fn with_a_part(&self) -> Option<String> {
        let times = self.jobs.iter().filter_map(|job| {
            let whole = job.whole_us.filter(|whole| *whole > 0.0)?;
            Some((job.name.as_str(), job.time_us / whole))
        });
        let mut slower: Vec<(&str, f64)> = times.filter(|(_, times)| *times >= SLOWER).collect();
        slower.sort_by(|a, b| b.1.total_cmp(&a.1));
        let told = slower.iter().enumerate().map(|(index, (name, times))| {
            let verb = if index == 0 { " takes" } else { "" };
            format!("{name}{verb} {times:.2} ×")
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| {
            format!(
                ", but with no more than a part of the network {} as long",
                told.join(", ")
            )
        })
    }

    /// Which job suffers most, and where, in a sentence or two.
    #[must_use]
    pub fn sentence(&self) -> String {
        let slower = self.jobs.iter().filter(|job| job.slowdown >= SLOWER);
        let worst = slower.max_by(|a, b| a.slowdown.total_cmp(&b.slowdown));
        match (self.jobs.len(), worst) {
            (0, _) => String::new(),
            (1, None) => "There is one job, which has the machine for itself.".to_owned(),
            (_, None) => {
                format!(
                    "No job is slower beside the others than by itself{}.",
                    self.with_a_part().unwrap_or_default()
                )
            }
            (_, Some(job)) => {
                let link = job.shared.as_ref().map(|shared| {
                    format!(
                        "; with {} it shares {} longest",
                        shared.with.join(" and "),
                        shared.link
                    )
                });
                let gpus = job.shared_gpus.as_ref().map(|shared| {
                    format!(
                        "; with {} it takes turns on GPUs {}",
                        shared.with.join(" and "),
                        shared.gpus
                    )
                });
                let costs = job.waterfall.as_ref().map(Waterfall::clause);
                format!(
                    "Beside the others {} takes {:.2} × as long as by itself{}{}.",
                    job.name,
                    job.slowdown,
                    costs.unwrap_or_default(),
                    gpus.or(link).unwrap_or_default()
                )
            }
        }
    }
}

/// A slowdown that is told: less is rounding.
const SLOWER: f64 = 1.005;
