//! An algorithm step by step, for a terminal and as a page.

mod page;
mod text;

pub use page::explanation_page;
pub use text::explanation_text;

use serde::Serialize;

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
    /// The version of fabricsim.
    pub version: String,
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

/// A chunk from one rank to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    /// From this rank; absent if from the network's switches.
    pub from: Option<u32>,
    /// To that one; absent if to the network's switches.
    pub to: Option<u32>,
    /// How much.
    pub bytes: u64,
    /// Which data: `c2: 0+1` is chunk 2 with the contributions of ranks 0 and 1.
    pub data: String,
}

/// How one end of a message is called.
fn party(end: Option<u32>) -> String {
    end.map_or_else(|| "switches".to_owned(), |rank| rank.to_string())
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
            name if name.starts_with("send-recv") => "2 is the data of rank 2",
            _ => "2>3 is the block that rank 2 has for rank 3",
        }
    }
}
