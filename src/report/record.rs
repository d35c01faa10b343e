//! What a run leaves behind, as plain values: the report's only input.
//!
//! Everything is resolved to names and numbers with units, so that a report can be
//! made from `summary.json` and the timeline alone, without a topology or an engine.

use super::cause::{Cause, Causes, FaultCost};
use super::communication::Communication;
use super::job_report::JobReport;
use super::numeric::{bytes, gbs, micros};
use super::published::{Beyond, Fall};
use fabricsim_units::{Bandwidth, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// What came of a collective.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveResult {
    /// GPUs used in each node.
    pub gpus_per_node: u32,
    /// Ranks: nodes × GPUs per node.
    pub ranks: u32,
    /// The collective's name: `all-reduce`.
    pub collective: String,
    /// One row a size.
    pub rows: Vec<Row>,
    /// The row that the timeline, the link use and the attribution are of (an index).
    pub traced_row: Option<usize>,
    /// The answer in one sentence: what limits the traced row.
    pub bottleneck: String,
    /// Where the workers' time went, of the traced row.
    pub attribution: Option<Attribution>,
    /// Load of each link, of the traced row; only links that carried anything. Of large machines one
    /// of each kind.
    pub links: Vec<LinkUse>,
    /// How much of the traced row is recorded, if that is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// What goes wrong, fault by fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Why NCCL chooses what it does, size by size, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// Where NCCL's own choice is furthest from the best that it could have chosen, if it was looked
    /// for and there is such a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better_choice: Option<BetterChoice>,
    /// Rows that no published table is like, by algorithm and protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond_tables: Vec<Beyond>,
    /// Sizes that take longer than larger ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub falls: Vec<Fall>,
}

/// A size at which NCCL's choice is not the fastest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BetterChoice {
    /// nccl-tests' size.
    pub bytes: u64,
    /// NCCL's algorithm: `ring`, `tree` …
    pub algo: String,
    /// Its protocol: `simple`, `ll`, `ll128`.
    pub proto: String,
    /// What it takes, microseconds.
    pub time_us: f64,
    /// The fastest algorithm of those that NCCL considers.
    pub best_algo: String,
    /// Its protocol.
    pub best_proto: String,
    /// What that takes, microseconds.
    pub best_us: f64,
}

impl JobReport for CollectiveResult {
    fn failure(&self) -> Option<&str> {
        None
    }

    fn ended(&self) -> bool {
        !self.rows.is_empty()
    }

    fn wall_ms(&self) -> f64 {
        self.rows.iter().map(|row| row.wall_ms).sum()
    }

    fn forget_wall_time(&mut self) {
        self.rows.iter_mut().for_each(|row| row.wall_ms = 0.0);
    }
}

impl CollectiveResult {
    /// The row that the details are of.
    #[must_use]
    pub fn traced(&self) -> Option<&Row> {
        self.rows.get(self.traced_row?)
    }

    /// The row that an answer is about: the traced one, else that of the largest size.
    #[must_use]
    pub fn shown_row(&self) -> Option<&Row> {
        let largest = || self.rows.iter().max_by_key(|row| row.bytes);
        self.traced().or_else(largest)
    }
}

/// One size of a collective; field names and units are those of the `--json` contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// nccl-tests' size column.
    pub bytes: u64,
    /// Elements (nccl-tests' count column, float).
    pub count: u64,
    /// What nccl-tests times, microseconds.
    pub time_us: f64,
    /// bytes / time, 1e9 bytes per second.
    pub algbw_gbs: f64,
    /// algbw × the collective's factor (nccl-tests).
    pub busbw_gbs: f64,
    /// `ring`, `tree` …
    pub algo: String,
    /// `simple`, `ll`, `ll128`.
    pub proto: String,
    /// Thread blocks per rank.
    pub channels: u32,
    /// No algorithm can be faster on this topology, microseconds: what must cross its narrowest cut,
    /// with sums and copies in switches where they can.
    pub bound_us: f64,
    /// Which cut that is, in a few words.
    #[serde(default)]
    pub bound_cut: String,
    /// The same for algorithms that do sums in GPUs alone, microseconds.
    #[serde(default)]
    pub bound_plain_us: f64,
    /// Which cut that is, in a few words.
    #[serde(default)]
    pub bound_plain_cut: String,
    /// What nccl-tests would time without the scenario's faults, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_us: Option<f64>,
    /// What limits this row, in a few words: its largest cause and that one's share, or the fault that
    /// costs most.
    pub bottleneck: String,
    /// The name of that cause, or the fault's description.
    #[serde(default)]
    pub cause: String,
    /// What `time_us` was spent on; absent where nothing moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Causes>,
    /// What each fault costs, in their order: the time with all of them less that without this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault_costs: Vec<FaultCost>,
    /// Kinds of ranks that differ in what they do or where they are; one of each is simulated.
    #[serde(default)]
    pub rank_classes: u32,
    /// Kinds of workers, likewise.
    #[serde(default)]
    pub worker_classes: u32,
    /// Events simulated.
    pub events: u64,
    /// Events that were known to repeat simulated ones, and jumped over.
    #[serde(default)]
    pub skipped: u64,
    /// Wall-clock milliseconds of the simulation. Not reproducible: zero in all documents.
    pub wall_ms: f64,
}

/// NCCL's decision for one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// nccl-tests' size.
    pub bytes: u64,
    /// Every algorithm and protocol, in the order in which NCCL looks at them.
    pub candidates: Vec<Candidate>,
    /// The algorithm of a file that is simulated in place of NCCL's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<String>,
}

/// One algorithm and protocol that NCCL could choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// `ring`, `tree` …
    pub algo: String,
    /// `simple`, `ll`, `ll128`.
    pub proto: String,
    /// What NCCL's cost model expects for this size, microseconds; absent if it has nothing.
    pub expected_us: Option<f64>,
    /// The part of it that does not depend on the size.
    pub latency_us: Option<f64>,
    /// The algorithm bandwidth behind the rest, GB/s.
    pub bandwidth_gbs: Option<f64>,
    /// Why it is not considered.
    pub excluded: Option<String>,
    /// It is NCCL's choice.
    pub chosen: bool,
}

/// Where the time of all workers went; the parts of a total add up to it exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// Of all workers together.
    pub total: Vec<Part>,
    /// Of one operation, as the row's `causes` have it: of the chain of events that ends last.
    pub critical_path: Vec<Part>,
    /// Per rank, in order: the same parts as `total`.
    pub ranks: Vec<Vec<Part>>,
}

/// A part of some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// For people: `launch`, `waiting for data`, `limited by NVLink out of node0/gpu3` …
    pub what: String,
    /// What kind of part it is.
    #[serde(default)]
    pub kind: PartKind,
    /// How long, microseconds.
    #[serde(with = "micros")]
    #[schemars(with = "f64")]
    pub time: Time,
    /// The fraction of the total, 0 to 1.
    pub fraction: f64,
}

/// Kinds of parts of a time.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Kernel start and end.
    Launch,
    /// Data or credits are on their way.
    Latency,
    /// The protocol's own work for each slice.
    Protocol,
    /// The peer has not sent yet.
    WaitData,
    /// The peer has not freed a slot yet.
    WaitCredit,
    /// Finished; others still run.
    Idle,
    /// Bytes move, or messages are handled, as fast as something lets them.
    #[default]
    Limited,
}

impl From<&Cause> for PartKind {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::Launch => PartKind::Launch,
            Cause::Latency => PartKind::Latency,
            Cause::Protocol => PartKind::Protocol,
            Cause::Waiting => PartKind::WaitData,
            Cause::MessageHandling
            | Cause::CopyRate
            | Cause::ConnectionRate
            | Cause::Links { .. } => PartKind::Limited,
        }
    }
}

/// How much a link carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkUse {
    /// `node0/gpu3 > node0/nvswitch1`.
    pub name: String,
    /// `NVLink`, `PCIe`, `network` …
    pub family: String,
    /// Payload carried in the traced operation, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// What payload can use of the link, GB/s; with a fault, what that leaves of it in the mean.
    #[serde(with = "gbs")]
    #[schemars(with = "f64")]
    pub rate: Bandwidth,
    /// A fault touches it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub faulty: bool,
    /// bytes / (rate × duration), 0 to 1.
    pub utilisation: f64,
    /// For how many links this stands: the first, and others of the same family and rate that
    /// carried as much.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub alike: u32,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

/// What happened when, of the traced row: `timeline.json` and `links.csv`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// What it is a timeline of, if that is known.
    pub operation: Option<Communication>,
    /// Names of the GPUs shown, by rank: `node0/gpu3`.
    pub ranks: Vec<RankTrack>,
    /// What each worker and proxy did, ordered by start.
    pub spans: Vec<Span>,
    /// Data that went from one of these spans to another: the sender, the proxy that passed it on if
    /// there is one, the receiver.
    pub messages: Vec<SmallVec<[MessageEnd; 3]>>,
    /// Use of each link over time.
    pub links: Vec<LinkSeries>,
    /// What was wrong, and when.
    pub faults: Vec<FaultSpan>,
    /// Width of the bins of `links`.
    pub bin: Time,
    /// When the operation ended, or what was recorded of it.
    pub end: Time,
    /// Ranks that were left out to keep the file small.
    pub ranks_omitted: u32,
    /// How much is recorded, where that is not all but for ranks.
    pub recorded: Option<Recorded>,
}

impl Timeline {
    /// How a rank is named: `rank 3: node0/gpu3`.
    pub(crate) fn rank_name(&self, rank: u32) -> String {
        let known = self.ranks.iter().find(|track| track.rank == rank);
        known.map_or_else(
            || format!("rank {rank}"),
            |track| format!("rank {rank}: {}", track.name),
        )
    }
}

/// How much of a large machine's operation is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// Up to when the timeline and the use of links over time go, microseconds.
    #[serde(rename = "until_us", with = "micros")]
    #[schemars(with = "f64")]
    pub until: Time,
    /// When the operation ended, microseconds.
    #[serde(rename = "end_us", with = "micros")]
    #[schemars(with = "f64")]
    pub end: Time,
    /// GPUs of which there is a timeline.
    pub gpus: u32,
    /// GPUs with an account of where their time went: the first so many ranks.
    pub accounts: u32,
    /// GPUs that took part.
    pub ranks: u32,
    /// Links that carried anything and are in no line of `links`: the least busy.
    pub links_left_out: u64,
}

/// A fault, as long as it was on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSpan {
    /// The ranks, links or devices.
    pub place: String,
    /// What was wrong, such as `link down`.
    pub what: String,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
}

/// One GPU of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankTrack {
    /// The rank.
    pub rank: u32,
    /// The GPU's full name.
    pub name: String,
}

/// A stretch of one worker's or proxy's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The rank it belongs to.
    pub rank: u32,
    /// The thread within the rank: `channel 3` or `channel 3 proxy`.
    pub track: Track,
    /// What it did.
    pub doing: Doing,
    /// Bytes moved, if any.
    pub bytes: Bytes,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
}

/// What a worker or proxy does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Its kernel starts.
    Launch,
    /// Bytes move; the primitive: `send`, `recv+reduce+send` …
    Moves(&'static str),
    /// It waits for, fences and posts a slice.
    Synchronise,
    /// A proxy handles a message.
    HandleMessage,
    /// Another part of its kernel has not got far enough.
    WaitForPart,
    /// This rank has not sent yet.
    WaitForData(u32),
    /// This rank has not freed a slot yet.
    WaitForCredit(u32),
    /// What this rank sent is on its way.
    DataOnItsWay(u32),
    /// The slot that this rank freed is on its way.
    CreditOnItsWay(u32),
    /// It has nothing left to do.
    Finished,
}

/// One end of a message, or where it is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageEnd {
    /// The rank.
    pub rank: u32,
    /// The thread within the rank.
    pub track: Track,
    /// A time in the span there in which bytes move: its beginning, but for proxies that share a track.
    pub at: Time,
}

/// A thread of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// A channel's thread block, or a part of it that works by itself.
    Worker(u16, Lane),
    /// A channel's network proxy.
    Proxy(u16),
}

/// A part of a thread block. Of point-to-point work, which of several at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// All of it.
    Whole,
    /// Towards the root of a tree.
    Up,
    /// Away from it.
    Down,
    /// From the user's buffer.
    Scatter,
    /// To the user's buffer.
    Gather,
    /// One of several senders.
    Send(u8),
    /// One of several receivers.
    Receive(u8),
    /// No thread block: a switch that reduces and copies.
    Switch(u8),
}

/// What a worker's time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Kernel start and end.
    Launch,
    /// The data is on its way.
    Latency,
    /// The peer has not sent yet.
    WaitData,
    /// The peer has not freed a slot yet.
    WaitCredit,
    /// Waiting for, fencing and posting a slice; a proxy's cost per message.
    Sync,
    /// Bytes move.
    Stream,
    /// Finished; others still run.
    Idle,
}

/// One link's use over time.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSeries {
    /// `node0/gpu3 > node0/nvswitch1`.
    pub name: String,
    /// The device that sends over it: `node0/gpu3`.
    pub from: String,
    /// `NVLink`, `PCIe`, `network` …
    pub family: String,
    /// What payload can use of the link.
    pub rate: Bandwidth,
    /// What faults leave of that in each bin, in the mean over the bin; nothing if none touches the link.
    pub left: Vec<Bandwidth>,
    /// Bytes in each bin.
    pub bytes: Vec<f64>,
    /// For how many links this stands: itself, and others of the same family and rate that carried as
    /// much at the same times, or as much in the mean.
    pub alike: u32,
}
