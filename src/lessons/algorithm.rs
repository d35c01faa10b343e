//! The algorithms by name, and why some cannot be explained.

use fabricsim_collective::{
    Collective, MessageAlgorithm, MessageError, MscclError, RoundsError, TreeError, VerifyError,
};
use fabricsim_engine::SimError;
use fabricsim_units::Bytes;
use thiserror::Error;

/// An algorithm that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainAlgorithm {
    /// NCCL's rings.
    Ring,
    /// NCCL's trees.
    Tree,
    /// One binary tree over all ranks, for teaching: NCCL always builds two.
    BinaryTree,
    /// Reduction in NVSwitches.
    Nvls,
    /// Reduction in NVSwitches, trees between nodes.
    NvlsTree,
    /// Reduction in network switches, all GPUs to all heads.
    CollnetDirect,
    /// Reduction in network switches, chains in nodes.
    CollnetChain,
    /// A ring through the memory of CPUs: the same steps.
    CpuRing,
    /// Sends and receives in NCCL's order.
    PointToPoint,
    /// Those of message passing; of the hierarchical one the nodes are given apart.
    Message(MessageAlgorithm),
}

/// Why something cannot be explained.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// No algorithm is named.
    #[error("no algorithm; expected one at least")]
    Nothing,
    /// None, or more than can be shown.
    #[error("--ranks {ranks}: expected 1 to {most}, which is what a table can show")]
    Ranks {
        /// How many were asked for.
        ranks: u32,
        /// How many there may be.
        most: u32,
    },
    /// Nodes that are not alike.
    #[error(
        "--nodes {nodes}: {ranks} ranks cannot be spread evenly; expected a divisor of {ranks}"
    )]
    Nodes {
        /// How many were asked for.
        nodes: u32,
        /// The ranks.
        ranks: u32,
    },
    /// More than can be shown.
    #[error(
        "{steps} steps of workers; expected at most {most}: ask for fewer ranks or larger chunks"
    )]
    Steps {
        /// How many there are.
        steps: u64,
        /// How many there may be.
        most: u64,
    },
    /// More than can be counted.
    #[error("--size {bytes}: expected at most {most}")]
    Size {
        /// What was asked for.
        bytes: Bytes,
        /// How much there may be.
        most: Bytes,
    },
    /// Nothing is left of it once each rank has an equal part.
    #[error(
        "--size {bytes}: no byte is left to move; {collective} of {ranks} ranks needs at least {least}"
    )]
    NoBytes {
        /// What was asked for.
        bytes: Bytes,
        /// The collective.
        collective: Collective,
        /// The ranks.
        ranks: u32,
        /// From here on there is something.
        least: Bytes,
    },
    /// More than the engine counts.
    #[error("a chunk of {chunk}; expected at most {most}: ask for a smaller --size or --chunk")]
    Large {
        /// The largest.
        chunk: Bytes,
        /// How large they may be.
        most: Bytes,
    },
    /// The algorithm does the collective inside a node.
    #[error("--nodes {nodes}: {algorithm} does {collective} inside one node; expected 1")]
    OneNode {
        /// How many were asked for.
        nodes: u32,
        /// The algorithm.
        algorithm: &'static str,
        /// The collective.
        collective: Collective,
    },
    /// The algorithm does something else.
    #[error("{algorithm} does not do {collective}; it does {supported}")]
    Unsupported {
        /// The algorithm.
        algorithm: &'static str,
        /// The collective.
        collective: Collective,
        /// What it does.
        supported: String,
    },
    /// A chunk of nothing.
    #[error("--chunk 0: expected at least 1 byte")]
    Chunk,
    /// The data cannot be cut as the algorithm's file says.
    #[error(transparent)]
    Msccl(#[from] MscclError),
    /// The tree is none; a bug.
    #[error("the tree is wrong: {0}")]
    Tree(#[from] TreeError),
    /// The algorithm does something else, or not on such nodes.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// NCCL's schedule is wrong; a bug.
    #[error("the schedule of sends and receives is wrong: {0}")]
    Rounds(#[from] RoundsError),
    /// The program is wrong; a bug.
    #[error("the program is wrong: {0}")]
    Program(#[from] VerifyError),
    /// The simulation ended without a result; a bug.
    #[error("the simulation failed: {0}")]
    Simulation(#[from] SimError),
}

impl ExplainAlgorithm {
    /// Every algorithm.
    pub const ALL: [ExplainAlgorithm; 17] = {
        let [
            doubling,
            halving,
            bruck,
            hierarchical,
            server,
            binomial,
            direct,
            pat,
        ] = MessageAlgorithm::all(1);
        [
            ExplainAlgorithm::Ring,
            ExplainAlgorithm::Tree,
            ExplainAlgorithm::BinaryTree,
            ExplainAlgorithm::Nvls,
            ExplainAlgorithm::NvlsTree,
            ExplainAlgorithm::CollnetDirect,
            ExplainAlgorithm::CollnetChain,
            ExplainAlgorithm::Message(pat),
            ExplainAlgorithm::Message(doubling),
            ExplainAlgorithm::Message(halving),
            ExplainAlgorithm::Message(bruck),
            ExplainAlgorithm::Message(hierarchical),
            ExplainAlgorithm::Message(server),
            ExplainAlgorithm::Message(binomial),
            ExplainAlgorithm::Message(direct),
            ExplainAlgorithm::CpuRing,
            ExplainAlgorithm::PointToPoint,
        ]
    };

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ExplainAlgorithm::Ring => "ring",
            ExplainAlgorithm::Tree => "tree",
            ExplainAlgorithm::BinaryTree => "binary-tree",
            ExplainAlgorithm::Nvls => "nvls",
            ExplainAlgorithm::NvlsTree => "nvls-tree",
            ExplainAlgorithm::CollnetDirect => "collnet-direct",
            ExplainAlgorithm::CollnetChain => "collnet-chain",
            ExplainAlgorithm::CpuRing => "cpu-ring",
            ExplainAlgorithm::PointToPoint => "p2p",
            ExplainAlgorithm::Message(algorithm) => algorithm.name(),
        }
    }

    /// Other names of it on the command line.
    #[must_use]
    pub const fn other_names(self) -> &'static [&'static str] {
        match self {
            ExplainAlgorithm::CollnetDirect => &["sharp", "collnet"],
            _ => &[],
        }
    }

    /// The algorithm of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let called = |a: &Self| a.name() == name || a.other_names().contains(&name);
        ExplainAlgorithm::ALL.into_iter().find(called)
    }

    /// What is usual for a collective.
    #[must_use]
    pub const fn usual(collective: Collective) -> Self {
        if collective.is_point_to_point() {
            ExplainAlgorithm::PointToPoint
        } else {
            ExplainAlgorithm::Ring
        }
    }

    /// The collectives that it does.
    #[must_use]
    pub fn collectives(self) -> Vec<Collective> {
        let all = Collective::ALL.into_iter();
        match self {
            ExplainAlgorithm::Ring | ExplainAlgorithm::CpuRing => Collective::KERNELS.to_vec(),
            ExplainAlgorithm::PointToPoint => all.filter(|c| c.is_point_to_point()).collect(),
            ExplainAlgorithm::Message(algorithm) => algorithm.collectives().to_vec(),
            ExplainAlgorithm::Nvls => vec![
                Collective::AllReduce,
                Collective::AllGather,
                Collective::ReduceScatter,
            ],
            ExplainAlgorithm::Tree
            | ExplainAlgorithm::BinaryTree
            | ExplainAlgorithm::NvlsTree
            | ExplainAlgorithm::CollnetDirect
            | ExplainAlgorithm::CollnetChain => vec![Collective::AllReduce],
        }
    }
}
