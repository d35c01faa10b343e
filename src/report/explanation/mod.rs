//! An algorithm step by step, for a terminal and as a page.

mod text;
mod trees;

pub use text::explanations_text;

use super::numeric::FORMAT;
use super::{ReportError, summary_json};
use serde::Serialize;

/// Tables with more columns show those in which something changes.
const MOST_COLUMNS: usize = 16;

/// What the costs leave out.
const PICTURE: &str = "An abstract picture: the same α and B on all links, and no protocol. How NCCL's protocols and a machine's links change the order of algorithms is left out; `fabricsim collective` has both.";

/// What `explain --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

/// What it prints of several algorithms.
#[derive(Serialize)]
struct Documents<'a> {
    format: u32,
    explanations: &'a [Explanation],
}

/// The document of `--json`, ending in a newline: one explanation, or a list of several.
///
/// # Errors
/// None that an explanation can cause.
pub fn explanations_json(explanations: &[Explanation]) -> Result<String, ReportError> {
    match explanations {
        [explanation] => summary_json::pretty(&Document {
            format: FORMAT,
            explanation,
        }),
        _ => summary_json::pretty(&Documents {
            format: FORMAT,
            explanations,
        }),
    }
}

/// An algorithm followed through: who sends what to whom, and what each rank holds then.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The collective.
    pub collective: String,
    /// The algorithm.
    pub algorithm: String,
    /// How many ranks take part.
    pub ranks: u32,
    /// On how many nodes.
    pub nodes: u32,
    /// nccl-tests' size.
    pub bytes: u64,
    /// The chunks of an algorithm that passes them on, several at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Chunks>,
    /// The trees that it goes over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trees: Vec<TreeView>,
    /// What each rank has to begin with.
    pub own: Own,
    /// Places in the memory of ranks: of the output, then of scratch memory.
    pub columns: Vec<String>,
    /// What each rank holds before the first step, by column.
    pub before: Vec<Vec<Cell>>,
    /// The steps.
    pub steps: Vec<StepView>,
    /// Bytes that each rank sends.
    pub sent: Vec<u64>,
    /// Bytes that each rank receives.
    pub received: Vec<u64>,
    /// What it costs.
    pub cost: Cost,
    /// Why the result is not what the collective promises, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    /// The version of fabricsim.
    pub version: String,
}

/// Data in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Chunks {
    /// Bytes of the largest.
    pub bytes: u64,
    /// How many there are.
    pub count: u64,
    /// The size was given, not chosen.
    pub given: bool,
}

/// A tree, over which sums go up and the result comes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeView {
    /// What it joins.
    pub of: TreeOf,
    /// Bytes that go over it.
    pub bytes: u64,
    /// The parent of each; the root has none.
    pub parents: Vec<Option<u32>>,
}

/// What a tree joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeOf {
    /// All ranks.
    Ranks,
    /// Nodes, inside which switches add up and copy; each rank goes on with its share.
    Nodes,
}

/// What each rank has to begin with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Own {
    /// Places of it.
    pub columns: Vec<String>,
    /// The data of each rank, by column.
    pub holds: Vec<Vec<Cell>>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView {
    /// From 1.
    pub step: u32,
    /// When its first message began, on the simple machine.
    pub begins_us: f64,
    /// When its last one had arrived.
    pub ends_us: f64,
    /// What is sent.
    pub messages: Vec<Message>,
    /// What each rank holds at its end, by column.
    pub holds: Vec<Vec<Cell>>,
}

/// A chunk from one rank to another, or to or from switches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    /// From this rank; absent if from switches.
    pub from: Option<u32>,
    /// To that one; absent if to switches.
    pub to: Option<u32>,
    /// The switches at one end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
    /// What they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<SwitchOperation>,
    /// How much.
    pub bytes: u64,
    /// Which data: `c2: 0+1` is chunk 2 with the contributions of ranks 0 and 1.
    pub data: String,
}

/// Switches that do more than forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// The NVSwitches of a node.
    Node(u32),
    /// Those of the network.
    Network,
}

/// What switches do with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchOperation {
    /// A rank loads, and gets the sum of what is at that place on all ranks of the node.
    LoadReduce,
    /// Switches of the network add up what ranks send, and send all of them the sum.
    InNetwork,
    /// A rank stores once, and it is written on all ranks of the node.
    Multicast,
}

impl SwitchOperation {
    /// What comes out of switches, in a word.
    fn name(self) -> &'static str {
        match self {
            SwitchOperation::LoadReduce => "load-reduce",
            SwitchOperation::InNetwork => "reduced in the network",
            SwitchOperation::Multicast => "multicast",
        }
    }
}

/// What is at a place in a rank's memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The data; empty if there is none.
    pub text: String,
    /// How far it is.
    pub state: CellState,
    /// It came in this step.
    pub new: bool,
}

/// How far a cell's data is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// The rank has no such place.
    Absent,
    /// Nothing was written yet.
    #[default]
    Empty,
    /// What the rank has to begin with.
    Own,
    /// Something on the way to the result.
    Partial,
    /// Not stored, only passed on.
    Passing,
    /// The result.
    Done,
}

/// What an algorithm costs with `alpha` for a message and `B` bytes per second of a port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Steps, each of which costs `alpha`.
    pub steps: u32,
    /// Times the size that the busiest ports move, step by step.
    pub volume: f64,
    /// `alpha` in microseconds.
    pub alpha_us: f64,
    /// The rate of a port in GB/s.
    pub rate_gbs: f64,
    /// The sum of both.
    pub counted_us: f64,
    /// What the textbook says.
    pub closed_form: Option<ClosedForm>,
    /// What the engine says, which lets steps overlap where they can.
    pub simulated_us: f64,
}

/// A closed form of the costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClosedForm {
    /// `2(N-1) α + 2(N-1)/N S/B`.
    pub formula: String,
    /// Its latency steps here.
    pub steps: f64,
    /// Its multiple of the size here.
    pub volume: f64,
    /// Its time here.
    pub time_us: f64,
}

impl Cost {
    /// Why the simulated time is what was counted, or another one.
    #[must_use]
    pub fn overlap(&self) -> String {
        let share = 100.0 * (1.0 - self.simulated_us / self.counted_us.max(1e-9));
        if share.abs() < 0.5 {
            return "Simulated as counted: no rank can begin a step before all messages of the step before have arrived.".to_owned();
        }
        let by = super::numbers::trimmed(share.abs().round().max(1.0), 0);
        if share < 0.0 {
            return format!(
                "Simulated takes {by} % longer than counted: messages of one step share a port one after the other, which the count leaves out."
            );
        }
        format!(
            "Simulated takes {by} % less than counted. The count begins a step when all messages of the step before have arrived, and adds an α for each step. Simulated, a rank goes on as soon as its own data is there, and sends its next chunk while the one before is still on its way: their latencies overlap."
        )
    }
}

impl Explanation {
    /// `all-reduce by ring`.
    fn title(&self) -> String {
        format!("{} by {}", self.collective, self.algorithm)
    }

    /// `4 ranks, 4 KiB`, or with nodes.
    fn setting(&self) -> String {
        let ranks = match (self.ranks, self.nodes) {
            (1, _) => "1 rank".to_owned(),
            (ranks, 1) => format!("{ranks} ranks"),
            (ranks, nodes) => format!("{ranks} ranks on {nodes} nodes"),
        };
        format!("{ranks}, {}", super::numbers::size(self.bytes as f64))
    }

    /// How one end of a message is called.
    fn end(&self, rank: Option<u32>, switch: Option<Switch>) -> String {
        match (rank, switch) {
            (Some(rank), _) => rank.to_string(),
            (None, Some(Switch::Node(_))) if self.nodes == 1 => "NVSwitch".to_owned(),
            (None, Some(Switch::Node(node))) => format!("NVSwitch {node}"),
            (None, _) => "switches".to_owned(),
        }
    }

    /// What a message is beside its bytes; of what switches do the data that comes out says it.
    fn remark(message: &Message) -> Option<&'static str> {
        let from_switch = message.from.is_none();
        message
            .operation
            .filter(|_| from_switch)
            .map(SwitchOperation::name)
    }

    /// The columns of a step's table: all, or of many those in which something changes.
    fn shown(&self, rows: &[Vec<Cell>]) -> Vec<usize> {
        let changes = |&column: &usize| {
            rows.iter()
                .any(|row| row.get(column).is_some_and(|cell| cell.new))
        };
        let all = 0..self.columns.len();
        if self.columns.len() > MOST_COLUMNS {
            all.filter(changes).collect()
        } else {
            all.collect()
        }
    }

    /// What is copied before the first step, where that is more than own data in its place.
    fn copied(&self) -> bool {
        let known = |column: usize| self.own.columns.contains(&self.columns[column]);
        let new = |row: &Vec<Cell>| {
            row.iter()
                .enumerate()
                .any(|(c, cell)| cell.new && !known(c))
        };
        self.before.iter().any(new)
    }

    /// What is to know of the algorithm before its steps.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(chunks) = self.chunks {
            let size = super::numbers::size(chunks.bytes as f64);
            let why = if chunks.given {
                "as --chunk says"
            } else {
                "chosen for this size, α and B (--chunk)"
            };
            lines.push(match chunks.count {
                1 => format!("One chunk of {size}, {why}: nothing is pipelined."),
                count => format!("{count} chunks of {size}, {why}: one follows the other."),
            });
        }
        lines.extend(self.tree_lines());
        let messages = || self.steps.iter().flat_map(|s| &s.messages);
        let does = |operation| messages().any(|m| m.operation == Some(operation));
        if does(SwitchOperation::LoadReduce) {
            lines.push("NVSwitches add up: a rank loads its share of a chunk (multimem load-reduce), the switches read it on all ranks of the node and return the sum.".to_owned());
        }
        if does(SwitchOperation::InNetwork) {
            lines.push("The network's switches add up what the nodes send, and send the sum to all of them (SHARP).".to_owned());
        }
        if does(SwitchOperation::Multicast) {
            lines.push("NVSwitches copy: a rank stores once (multimem store), the switches write it on all ranks of the node.".to_owned());
        }
        if messages().any(|m| m.operation.is_some()) {
            lines.push(
                "What goes through switches is on its way in and out in the same step.".to_owned(),
            );
        }
        lines
    }

    /// What the words in cells and messages mean.
    fn key(&self) -> &'static str {
        match self.collective.as_str() {
            "all-reduce" | "reduce" => {
                "c2: 0+1 is chunk 2, the sum of what ranks 0 and 1 contribute"
            }
            "reduce-scatter" => {
                "b2: 0+1 is the block for rank 2, the sum of what ranks 0 and 1 contribute"
            }
            "broadcast" => "c2 is chunk 2 of rank 0's data",
            "all-gather" | "gather" => "b2 is the block of rank 2",
            "send-recv" | "send-recv-pairs" | "send-recv-halves" => "2 is the data of rank 2",
            _ => "2>3 is the block that rank 2 has for rank 3",
        }
    }
}
