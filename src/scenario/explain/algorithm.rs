//! The algorithms by name, and their programs for a few ranks.

use super::ExplainSpec;
use crate::collective::{
    Between, ChainProgram, Collective, Cut, HeadsProgram, Lanes, Matrix, MessageAlgorithm,
    MessageError, P2pProgram, Part, Program, RingProgram, Rings, Rounds, RoundsError, Tree,
    TreeError, TreeProgram, VerifyError, binary_parent,
};
use crate::engine::SimError;
use crate::nccl::p2p::Schedule;
use std::sync::Arc;
use thiserror::Error;

/// An algorithm that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainAlgorithm {
    /// NCCL's rings.
    Ring,
    /// NCCL's trees.
    Tree,
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
    pub const ALL: [ExplainAlgorithm; 16] = {
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
            ExplainAlgorithm::Nvls => "nvls",
            ExplainAlgorithm::NvlsTree => "nvls-tree",
            ExplainAlgorithm::CollnetDirect => "collnet-direct",
            ExplainAlgorithm::CollnetChain => "collnet-chain",
            ExplainAlgorithm::CpuRing => "cpu-ring",
            ExplainAlgorithm::PointToPoint => "p2p",
            ExplainAlgorithm::Message(algorithm) => algorithm.name(),
        }
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
            | ExplainAlgorithm::NvlsTree
            | ExplainAlgorithm::CollnetDirect
            | ExplainAlgorithm::CollnetChain => vec![Collective::AllReduce],
        }
    }
}

/// On how many nodes the ranks are; a hierarchy wants two.
pub(super) fn nodes(spec: &ExplainSpec, algorithm: ExplainAlgorithm) -> Result<u32, ExplainError> {
    let hierarchical = matches!(
        algorithm,
        ExplainAlgorithm::Message(MessageAlgorithm::Hierarchical { .. })
    );
    let usual = if hierarchical && spec.ranks.is_multiple_of(2) {
        2
    } else {
        1
    };
    let nodes = spec.nodes.unwrap_or(usual);
    if nodes == 0 || !spec.ranks.is_multiple_of(nodes) {
        return Err(ExplainError::Nodes {
            nodes,
            ranks: spec.ranks,
        });
    }
    Ok(nodes)
}

/// nccl-tests' size after rounding.
fn bytes(spec: &ExplainSpec) -> u64 {
    let asked = spec.bytes.unwrap_or(1024 * u64::from(spec.ranks));
    spec.collective.actual_bytes(asked, spec.ranks)
}

/// The largest chunk: all of a rank's data, but for pipelines, which live on small ones.
pub(super) fn chunk(spec: &ExplainSpec, algorithm: ExplainAlgorithm, bytes: u64) -> u64 {
    let pipeline = matches!(
        (algorithm, spec.collective),
        (
            ExplainAlgorithm::Ring | ExplainAlgorithm::CpuRing,
            Collective::Broadcast | Collective::Reduce
        )
    );
    let usual = if pipeline { bytes.div_ceil(4) } else { bytes };
    spec.chunk.unwrap_or(usual).max(1)
}

pub(super) fn program(
    spec: &ExplainSpec,
    algorithm: ExplainAlgorithm,
    nodes: u32,
) -> Result<Arc<dyn Program>, ExplainError> {
    let (collective, ranks) = (spec.collective, spec.ranks);
    if spec.chunk == Some(0) {
        return Err(ExplainError::Chunk);
    }
    let bytes = bytes(spec);
    let chunk = chunk(spec, algorithm, bytes);
    let len = match collective {
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => {
            bytes / u64::from(ranks)
        }
        _ => bytes,
    };
    let part = Part {
        offset: 0,
        len,
        chunk,
    };
    let supported = algorithm.collectives();
    if !supported.is_empty() && !supported.contains(&collective) {
        let names: Vec<&str> = supported.iter().map(|c| c.name()).collect();
        return Err(ExplainError::Unsupported {
            algorithm: algorithm.name(),
            collective,
            supported: names.join(", "),
        });
    }
    match algorithm {
        ExplainAlgorithm::Ring | ExplainAlgorithm::CpuRing => {
            let rings = Arc::new(Rings::consecutive(ranks, 1));
            Ok(Arc::new(RingProgram::new(
                collective,
                bytes,
                rings,
                vec![part],
            )))
        }
        ExplainAlgorithm::PointToPoint => {
            let schedule = Schedule::new(&vec![ranks / nodes; nodes as usize], 8);
            let rounds = Rounds::new(ranks, schedule.receivers())?;
            // One after the other: that is what rounds are.
            let lanes = Lanes {
                channels: 1,
                lanes: 1,
                first: vec![0; rounds.len()],
            };
            let cut = |_, _, bytes| Cut { part: bytes, chunk };
            Ok(Arc::new(if collective == Collective::AllToAllV {
                P2pProgram::all_to_all_v(uneven(ranks, bytes), &rounds, &lanes, cut)
            } else {
                P2pProgram::new(collective, bytes, &rounds, &lanes, cut)
            }))
        }
        ExplainAlgorithm::Message(algorithm) => {
            let algorithm = match algorithm {
                MessageAlgorithm::Hierarchical { .. } => MessageAlgorithm::Hierarchical {
                    gpus_per_node: ranks / nodes,
                },
                other => other,
            };
            let program = algorithm.program(collective, bytes, ranks, vec![part])?;
            Ok(Arc::new(program))
        }
        ExplainAlgorithm::Tree => {
            let tree = Arc::new(tree(ranks, nodes)?);
            Ok(Arc::new(TreeProgram::new(bytes, vec![tree], vec![part])))
        }
        ExplainAlgorithm::CollnetChain => {
            let chains = vec![hosts(ranks, nodes)];
            Ok(Arc::new(ChainProgram::new(bytes, &chains, vec![part])))
        }
        ExplainAlgorithm::Nvls | ExplainAlgorithm::NvlsTree | ExplainAlgorithm::CollnetDirect => {
            let between = match (nodes, algorithm) {
                (1, _) => Between::Nothing,
                (_, ExplainAlgorithm::NvlsTree) => Between::Trees,
                _ => Between::Switches,
            };
            // Gathering and scattering are for one node, in which every rank is a head.
            if nodes > 1 && collective != Collective::AllReduce {
                return Err(ExplainError::Nodes { nodes, ranks });
            }
            let all = hosts(ranks, nodes);
            let heads = all
                .iter()
                .map(|h| (h.clone(), h.clone()))
                .collect::<Vec<_>>();
            let share = match collective {
                Collective::AllReduce => chunk.div_ceil(u64::from(ranks / nodes)),
                _ => chunk,
            };
            let part = Part {
                chunk: share.next_multiple_of(16),
                ..part
            };
            let parts = vec![part];
            Ok(Arc::new(HeadsProgram::new(
                collective, bytes, &heads, between, parts,
            )))
        }
    }
}

/// The ranks of each node.
fn hosts(ranks: u32, nodes: u32) -> Vec<Vec<u32>> {
    let local = ranks / nodes;
    (0..nodes)
        .map(|h| (h * local..(h + 1) * local).collect())
        .collect()
}

/// NCCL's tree: a binary one over the nodes' first ranks, a chain in each node.
fn tree(ranks: u32, nodes: u32) -> Result<Tree, ExplainError> {
    let local = ranks / nodes;
    let parents: Vec<Option<u32>> = (0..ranks)
        .map(|rank| match rank % local {
            0 => binary_parent(nodes, rank / local, false).map(|above| above * local),
            _ => Some(rank - 1),
        })
        .collect();
    Ok(Tree::new(&parents)?)
}

/// Some traffic for an all-to-all-v: later ranks get more, none sends more than `bytes`.
fn uneven(ranks: u32, bytes: u64) -> Matrix {
    let n = u64::from(ranks);
    let unit = bytes / (n * n) / 16 * 16;
    let rows: Vec<Vec<u64>> = (0..n)
        .map(|i| (0..n).map(|j| (i + j) % n * unit).collect())
        .collect();
    Matrix::new(&rows).expect("a square whose sums are below the size")
}
