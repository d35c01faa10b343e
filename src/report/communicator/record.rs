//! What making communicators leaves behind, as plain values.

use crate::job_report::JobReport;
use crate::numbers::{grouped, seconds, size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of making a job's communicators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicatorResult {
    /// The communicators, one for each kind that a rank is in.
    pub communicators: Vec<MadeCommunicator>,
    /// From the call of the first rank until all have all their communicators, microseconds.
    pub making_us: f64,
    /// From the start of the processes until the first one calls, microseconds.
    pub before_us: f64,
    /// What the first operation of each kind takes, microseconds, one after the other; none if none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<f64>,
    /// Giving all up and making them again with others, in processes that are there, microseconds: to the end of the
    /// first operation.
    pub rebuild_us: f64,
    /// Sockets of a node.
    pub sockets: SocketUse,
    /// Why they cannot be made, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Wall-clock milliseconds. Not reproducible: zero in all documents.
    pub wall_ms: f64,
}

/// One kind of communicator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MadeCommunicator {
    /// Its name: `world`, `tp8`.
    pub name: String,
    /// Ranks of one.
    pub ranks: u32,
    /// How many of the kind there are, beside each other.
    pub count: u32,
    /// Nodes that one is on.
    pub nodes: u32,
    /// Roots that its ranks ask for each other's addresses; 0 if it is split off another one.
    pub roots: u32,
    /// What making it takes, microseconds.
    pub making_us: f64,
    /// That, part by part.
    pub parts: Vec<LifePart>,
    /// Its first operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstOperation>,
    /// What its buffers take of a GPU's memory when all that it is used for is connected, bytes.
    pub memory: u64,
}

/// A part of a communicator's making.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LifePart {
    /// What: `arrival`, `root`.
    pub part: String,
    /// Microseconds.
    pub time_us: f64,
    /// What it is made of, for people.
    pub why: String,
}

/// The first operation of a communicator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FirstOperation {
    /// What: `all-reduce`.
    pub collective: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// The algorithm that it is done by.
    pub algo: String,
    /// Ends of connections that the rank with most sets up before it: inside its host, and over networks.
    pub local_ends: u64,
    /// See there.
    pub network_ends: u64,
    /// Connecting, microseconds.
    pub connecting_us: f64,
    /// The operation itself, microseconds.
    pub operation_us: f64,
}

/// Sockets of the node that has most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketUse {
    /// TCP sockets, of all processes of the node.
    pub sockets: u64,
    /// Those that take a port of the node's own range.
    pub ports: u64,
    /// Ports that there are in it.
    pub ports_limit: u64,
    /// Sockets of one process, each an open file.
    pub files: u64,
    /// Files that a process may have open.
    pub files_limit: u64,
}

impl JobReport for CommunicatorResult {
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

impl CommunicatorResult {
    /// What making them takes and what of it most, in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let what = match self.communicators.as_slice() {
            [] => return String::new(),
            [one] => format!(
                "the communicator of {} ranks",
                grouped(u64::from(one.ranks))
            ),
            all => {
                let names: Vec<&str> = all.iter().map(|made| made.name.as_str()).collect();
                format!("the communicators {}", names.join(", "))
            }
        };
        let mut parts: Vec<(&str, f64)> = Vec::new();
        // Of those that are made at the same time the longest is what takes so long.
        let all: f64 = self.communicators.iter().map(|made| made.making_us).sum();
        let longest = |made: &&MadeCommunicator| {
            all <= self.making_us * 1.000_001 || made.making_us >= self.making_us
        };
        let counted = self.communicators.iter().filter(longest);
        for part in counted.flat_map(|made| &made.parts) {
            match parts.iter_mut().find(|(name, _)| *name == part.part) {
                Some((_, time)) => *time += part.time_us,
                None => parts.push((&part.part, part.time_us)),
            }
        }
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most = parts.iter().take(2).filter(|(_, time)| *time > 0.0);
        let most: Vec<String> = most
            .map(|(name, time)| format!("{} {name}", seconds(time / 1e6)))
            .collect();
        let mut text = format!("Making {what} takes {}", seconds(self.making_us / 1e6));
        if !most.is_empty() {
            text += &format!(", of which {}", most.join(" and "));
        }
        if let Some(first) = self.first_us {
            let its = match self.communicators.as_slice() {
                [
                    MadeCommunicator {
                        first: Some(first), ..
                    },
                ] => format!("its first {}", first.collective),
                _ => "the first operation of each".to_owned(),
            };
            text += &format!("; {its} {} more", seconds(first / 1e6));
        }
        text += &format!("; {} sockets a node", grouped(self.sockets.sockets));
        let memory: u64 = self.communicators.iter().map(|made| made.memory).sum();
        if memory > 0 {
            text += &format!(" and {} of a GPU's memory", size(memory as f64));
        }
        text + "."
    }
}
