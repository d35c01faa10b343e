//! What a job has in the memory of hosts and on drives, and what moves there: values, and lines for people.

use crate::numbers::{count, percent, seconds, size, three_digits};
use crate::numeric::bytes;
use crate::text_table::{Cell, Out, cell, left, right};
use fabricsim_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// States and activations that are not in the GPUs' memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OffloadUse {
    /// What moves in a step, of the GPU that moves most.
    pub moves: Vec<HostMove>,
    /// Parameters that its part of the host updates in a step.
    pub updated: u64,
    /// Seconds that the CPU takes for that.
    pub cpu_s: f64,
    /// Seconds that it takes to add up gradients of micro-batches.
    pub sums_s: f64,
    /// Seconds of the last step in which an average GPU waits for copies or the CPU, and no kernel runs.
    pub exposed_s: f64,
    /// New parameters are used a step later, which changes what is computed.
    pub delayed: bool,
    /// The fullest host.
    pub host: HostMemory,
}

/// Batches that come from storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataLoaderUse {
    /// GPUs that read, one of each replica.
    pub readers: u32,
    /// Bytes that one of them reads for a step.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// Seconds until they are in memory, of the reader that takes longest.
    pub read_s: f64,
    /// Seconds that its workers take to decode them, beside.
    pub decode_s: f64,
    /// Seconds of the last step in which it waits for its batch, and no kernel runs.
    pub stall_s: f64,
    /// GB/s of all readers together while they read.
    pub gbs: f64,
}

impl DataLoaderUse {
    /// In one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        // Before the first kernel starts there is always some of it that nothing hides.
        let stall = match self.stall_s > 0.1 * self.read_s.max(self.decode_s) {
            true => format!("the step waits {} for it", seconds(self.stall_s)),
            false => "the step before hides it".to_owned(),
        };
        let decoding = match self.decode_s > 0.0 {
            true => format!(", its decoding {}", seconds(self.decode_s)),
            false => String::new(),
        };
        format!(
            "Data loader: a batch of {} for each of {} replicas takes {} to read ({} GB/s in all){decoding}; {stall}.",
            size(self.bytes.get() as f64),
            self.readers,
            seconds(self.read_s),
            three_digits(self.gbs)
        )
    }
}

/// Bytes of one way in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostMove {
    /// `to the host`, `from the host`, `to drives`, `from drives`.
    pub way: String,
    /// In how many copies.
    pub copies: u32,
    /// Bytes of a step.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// Seconds of them in the simulation, one copy after the other.
    pub time_s: f64,
    /// Seconds if each had its links for itself.
    pub alone_s: f64,
    /// GB/s that they go at.
    pub gbs: f64,
}

/// The memory of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostMemory {
    /// The node.
    pub node: String,
    /// GPUs of the job there.
    pub gpus: u32,
    /// Optimizer states, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub optimizer: Bytes,
    /// Gradients, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub gradients: Bytes,
    /// Parameters, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub parameters: Bytes,
    /// Activations, bytes.
    #[serde(default, skip_serializing_if = "is_zero", with = "bytes")]
    #[schemars(with = "u64")]
    pub activations: Bytes,
    /// Buffers, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub buffers: Bytes,
    /// All of them.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub total: Bytes,
    /// What the host has, bytes; `null` if that is not known.
    pub capacity: Option<u64>,
    /// On drives of the node, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub drives: Bytes,
    /// The memory of one superchip, bytes: of its processor and of the GPUs that C2C joins to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superchip: Option<u64>,
}

fn is_zero(bytes: &Bytes) -> bool {
    *bytes == Bytes::ZERO
}

impl OffloadUse {
    /// In one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let delayed = match self.delayed {
            true => "; updates come a step late, which changes what is computed",
            false => "",
        };
        let optimizer = match self.updated > 0 {
            true => " and the CPU's optimizer",
            false => "",
        };
        format!(
            "Of the step {} are copies{optimizer} that no kernel hides{delayed}.",
            seconds(self.exposed_s)
        )
    }

    /// A table of what moves, and the host's memory.
    pub(crate) fn table(&self, out: &mut Out) {
        let of = match self.host.capacity {
            Some(capacity) => format!(
                " of {} ({})",
                size(capacity as f64),
                percent(self.host.total.get() as f64 / (capacity as f64).max(1.0))
            ),
            None => String::new(),
        };
        out.heading(&format!(
            "Offloaded: {} in the memory of {}{of}",
            size(self.host.total.get() as f64),
            self.host.node
        ));
        let mut rows: Vec<Vec<Cell>> = self
            .moves
            .iter()
            .map(|moved| {
                vec![
                    cell(&moved.way),
                    cell(size(moved.bytes.get() as f64)),
                    cell(moved.copies.to_string()),
                    cell(seconds(moved.time_s)),
                    cell(seconds(moved.alone_s)),
                    cell(format!("{} GB/s", three_digits(moved.gbs))),
                ]
            })
            .collect();
        if self.updated > 0 {
            let rate = self.updated as f64 / self.cpu_s.max(f64::MIN_POSITIVE);
            rows.push(vec![
                cell("optimizer on the CPU"),
                cell(format!("{} parameters", count(self.updated as f64))),
                cell(""),
                cell(seconds(self.cpu_s)),
                cell(""),
                cell(format!("{} a second", count(rate))),
            ]);
        }
        if self.sums_s > 0.0 {
            let empty = || cell("");
            let time = cell(seconds(self.sums_s));
            let what = cell("sums of gradients on the CPU");
            rows.push(vec![what, empty(), empty(), time, empty(), empty()]);
        }
        let columns = [
            left("of one GPU, in a step"),
            right("size"),
            right("copies"),
            right("time"),
            right("alone"),
            right("rate"),
        ];
        out.table(&columns, &rows);
        if let Some(bytes) = self.host.superchip {
            let memory = size(bytes as f64);
            out.plain(&format!(
                "  A superchip has {memory} in one address space; copies go over C2C, without staging."
            ));
        }
        if self.host.drives > Bytes::ZERO {
            let drives = size(self.host.drives.get() as f64);
            out.plain(&format!("  On drives of {}: {drives}.", self.host.node));
        }
        out.plain(&format!("  {}", self.text()));
    }
}
