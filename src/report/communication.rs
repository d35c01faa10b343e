//! What is moved between ranks, as timelines tell it.

/// An operation of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Communication {
    /// What it moves.
    pub movement: Movement,
    /// What its communicator is for.
    pub communicator: Communicator,
    /// The communicator's name: `data parallel`, `pipeline 0→1`.
    pub group: String,
    /// The communicator's ranks, of one that stands for all that are alike, in its order.
    pub ranks: Vec<u32>,
    /// The algorithm, under the name that the command line has for it; empty if nothing moves.
    pub algorithm: String,
    /// The protocol, likewise.
    pub protocol: String,
}

/// What an operation of a communicator moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Movement {
    /// All ranks end with the sum of all ranks' data.
    AllReduce,
    /// All ranks end with all ranks' blocks.
    AllGather,
    /// Each rank ends with its block of the sum.
    ReduceScatter,
    /// All ranks end with the root's data.
    Broadcast,
    /// The root ends with the sum.
    Reduce,
    /// Each rank sends a block to each.
    AllToAll,
    /// The root ends with all ranks' blocks.
    Gather,
    /// Each rank ends with its block of the root's data.
    Scatter,
    /// Messages between neighbours or pairs of ranks.
    SendReceive,
}

impl Movement {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Movement::AllReduce => "all-reduce",
            Movement::AllGather => "all-gather",
            Movement::ReduceScatter => "reduce-scatter",
            Movement::Broadcast => "broadcast",
            Movement::Reduce => "reduce",
            Movement::AllToAll => "all-to-all",
            Movement::Gather => "gather",
            Movement::Scatter => "scatter",
            Movement::SendReceive => "send-recv",
        }
    }
}

/// What a communicator is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Communicator {
    /// Parts of each layer's matrices.
    TensorParallel,
    /// Copies of the same weights, or parts of them.
    DataParallel,
    /// Copies of the same part of weights, in hybrid sharding.
    Replicas,
    /// Parts of each sequence.
    ContextParallel,
    /// Experts of a layer.
    ExpertParallel,
    /// Two neighbouring stages.
    Pipeline,
    /// First and last stage, which share a table of tokens.
    Embedding,
    /// All ranks of a replica, at the end of a step.
    StepEnd,
    /// All ranks of a job that is a collective.
    Collective,
}

impl Communicator {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Communicator::TensorParallel => "tensor_parallel",
            Communicator::DataParallel => "data_parallel",
            Communicator::Replicas => "replicas",
            Communicator::ContextParallel => "context_parallel",
            Communicator::ExpertParallel => "expert_parallel",
            Communicator::Pipeline => "pipeline",
            Communicator::Embedding => "embedding",
            Communicator::StepEnd => "step_end",
            Communicator::Collective => "collective",
        }
    }
}
