//! What calls leave behind, as plain values.

use crate::job_report::JobReport;
use crate::numbers::seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of what ranks called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallsResult {
    /// Operations that ended, in order; the first thousand.
    pub done: Vec<DoneCall>,
    /// When the last of what came to its end did, microseconds.
    pub ended_us: f64,
    /// When the last process had started all of its calls that it could, microseconds: what a clock shows there that does
    /// not wait for the GPU.
    #[serde(default)]
    pub called_us: f64,
    /// Who waits for whom without end; none if all calls came to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang: Option<Hang>,
    /// Operations that ended with wrong data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<String>,
    /// What else is not as it looks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why the calls are a mistake, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Wall-clock milliseconds. Not reproducible: zero in all documents.
    pub wall_ms: f64,
}

/// An operation that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoneCall {
    /// Which: `all-reduce 1`, its number among those of its communicator; `send 0 to 1`.
    pub call: String,
    /// The communicator.
    pub on: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// When the last rank came, microseconds.
    pub began_us: f64,
    /// When it was over, microseconds.
    pub ended_us: f64,
}

/// Ranks that wait without end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hang {
    /// What is at the bottom of it.
    pub why: String,
    /// Who waits for whom.
    pub waits: Vec<WaitRow>,
    /// What layers say of it, in order of time.
    pub said: Vec<Said>,
}

/// Ranks that wait for the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitRow {
    /// Which: `0-6`.
    pub ranks: String,
    /// What they are in.
    pub inside: String,
    /// Since when, microseconds.
    pub since_us: f64,
    /// For whom, and what those do instead.
    pub waits_for: String,
    /// Operations of the communicator that the first of them has started, and that are over.
    pub enqueued: u32,
    /// See there.
    pub completed: u32,
}

/// What a layer says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    /// When, microseconds.
    pub at_us: f64,
    /// Who.
    pub who: String,
    /// What.
    pub says: String,
}

impl JobReport for CallsResult {
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

impl CallsResult {
    /// What came of it, in a sentence or two.
    #[must_use]
    pub fn sentence(&self) -> String {
        match (&self.hang, self.wrong.first()) {
            (None, None) if self.called_us < self.ended_us => format!(
                "All calls come to their end, after {}; processes have made them after {}, which is what a clock shows that does \
                 not synchronize.",
                seconds(self.ended_us / 1e6),
                seconds(self.called_us / 1e6)
            ),
            (None, None) => format!(
                "All calls come to their end, after {}.",
                seconds(self.ended_us / 1e6)
            ),
            (None, Some(wrong)) => format!("{}.", capital(wrong)),
            (Some(hang), _) => {
                let first = hang.said.iter().find(|said| {
                    said.who.starts_with("watchdog") || said.who.starts_with("monitored")
                });
                let first = first.map_or_else(
                    || " Nobody says so.".to_owned(),
                    |said| {
                        format!(
                            " The first to say so is the {}, after {}.",
                            said.who,
                            seconds(said.at_us / 1e6)
                        )
                    },
                );
                format!("It hangs: {}.{first}", hang.why)
            }
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
