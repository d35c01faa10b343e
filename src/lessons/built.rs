//! The programs of algorithms for a few ranks.

use super::passage::{Passage, between_ranks, through_switches};
use super::pipeline::Pipeline;
use super::{ExplainAlgorithm, ExplainError, ExplainSpec};
use fabricsim_collective::{
    Between, ChainProgram, Collective, Cut, HeadsProgram, Lanes, Matrix, MessageAlgorithm,
    MscclAlgorithm, P2pProgram, Part, Program, RingProgram, Rings, Rounds, Tree, TreeProgram,
    binary_parent,
};
use fabricsim_nccl::p2p::Schedule;
use fabricsim_report::explanation::{TreeOf, TreeView};
use fabricsim_units::Bytes;
use std::sync::Arc;

/// Larger sizes are more than anybody has: sums over ranks stay below what can be counted.
const MOST_BYTES: u64 = 1 << 50;

/// On how many nodes the ranks are; what is for several takes two.
pub(super) fn nodes(spec: &ExplainSpec, algorithm: ExplainAlgorithm) -> Result<u32, ExplainError> {
    let several = matches!(
        algorithm,
        ExplainAlgorithm::Message(MessageAlgorithm::Hierarchical { .. })
            | ExplainAlgorithm::NvlsTree
            | ExplainAlgorithm::CollnetDirect
            | ExplainAlgorithm::CollnetChain
    );
    let usual = if several && spec.ranks.is_multiple_of(2) {
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
    spec.collective.actual_bytes(spec.size(), spec.ranks)
}

/// The largest chunk of all heads or of one tree: all of the data, but for pipelines, which live on
/// small ones.
fn chunk(spec: &ExplainSpec, algorithm: ExplainAlgorithm, nodes: u32, bytes: u64) -> u64 {
    let pipeline = Pipeline::of(algorithm, spec.collective, spec.ranks, nodes);
    let usual = pipeline.map_or(bytes, |p| p.chunk(spec, bytes));
    let chunk = spec.chunk.unwrap_or(usual).max(1);
    match pipeline {
        // Each head has as much of it, in whole lines of memory.
        Some(Pipeline { columns, .. }) if columns > 1 => {
            let heads = u64::from(columns);
            chunk.div_ceil(heads).next_multiple_of(16) * heads
        }
        _ => chunk,
    }
}

/// What there is of an algorithm.
pub(super) struct Built {
    /// Who sends what to whom.
    pub(super) program: Arc<dyn Program>,
    /// What messages pass on their way, by connection.
    pub(super) passages: Vec<Passage>,
    /// The trees that it goes over.
    pub(super) trees: Vec<TreeView>,
    /// Bytes of the largest chunk, of all heads.
    pub(super) chunk: u64,
}

pub(super) fn build(
    spec: &ExplainSpec,
    algorithm: ExplainAlgorithm,
    nodes: u32,
) -> Result<Built, ExplainError> {
    let (collective, ranks) = (spec.collective, spec.ranks);
    if spec.chunk == Some(0) {
        return Err(ExplainError::Chunk);
    }
    let supported = algorithm.collectives();
    if !supported.is_empty() && !supported.contains(&collective) {
        let names: Vec<&str> = supported.iter().map(|c| c.name()).collect();
        return Err(ExplainError::Unsupported {
            algorithm: algorithm.name(),
            collective,
            supported: names.join(", "),
        });
    }
    let bytes = bytes(spec);
    if bytes > MOST_BYTES {
        return Err(ExplainError::Size {
            bytes: Bytes::new(bytes),
            most: Bytes::new(MOST_BYTES),
        });
    }
    let least = collective.least_bytes(ranks);
    if spec.size() < least {
        return Err(ExplainError::NoBytes {
            bytes: Bytes::new(spec.size()),
            collective,
            ranks,
            least: Bytes::new(least),
        });
    }
    let chunk = chunk(spec, algorithm, nodes, bytes);
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
    let mut trees = Vec::new();
    let program: Arc<dyn Program> = match algorithm {
        ExplainAlgorithm::Ring | ExplainAlgorithm::CpuRing => {
            let rings = Arc::new(Rings::consecutive(ranks, 1));
            Arc::new(RingProgram::new(collective, bytes, rings, vec![part]))
        }
        ExplainAlgorithm::PointToPoint => Arc::new(rounds(spec, nodes, part)?),
        ExplainAlgorithm::Message(algorithm) => {
            let algorithm = match algorithm {
                MessageAlgorithm::Hierarchical { .. } => MessageAlgorithm::Hierarchical {
                    gpus_per_node: ranks / nodes,
                },
                other => other,
            };
            Arc::new(algorithm.program(collective, bytes, ranks, vec![part])?)
        }
        ExplainAlgorithm::Tree => {
            let parts = halves(part, nodes);
            let all = (0..parts.len()).map(|k| tree(ranks, nodes, k == 1));
            let all = all.collect::<Result<Vec<_>, _>>()?;
            trees = views(&all, &parts);
            Arc::new(TreeProgram::new(bytes, all, parts))
        }
        // The first of NCCL's two, with every rank as a node of its own and all of the data.
        ExplainAlgorithm::BinaryTree => {
            let all = vec![tree(ranks, ranks, false)?];
            trees = views(&all, &[part]);
            Arc::new(TreeProgram::new(bytes, all, vec![part]))
        }
        ExplainAlgorithm::CollnetChain => {
            let chains = vec![hosts(ranks, nodes)];
            Arc::new(ChainProgram::new(bytes, &chains, vec![part]))
        }
        ExplainAlgorithm::Nvls | ExplainAlgorithm::NvlsTree | ExplainAlgorithm::CollnetDirect => {
            let program = with_heads(spec, algorithm, nodes, part)?;
            if nodes > 1 && algorithm == ExplainAlgorithm::NvlsTree {
                trees = halves(part, nodes)
                    .iter()
                    .zip([false, true])
                    .map(|(part, second)| TreeView {
                        of: TreeOf::Nodes,
                        bytes: part.len,
                        parents: (0..nodes)
                            .map(|node| binary_parent(nodes, node, second))
                            .collect(),
                    })
                    .collect();
            }
            if algorithm != ExplainAlgorithm::CollnetDirect {
                return Ok(Built {
                    passages: through_switches(&program, ranks / nodes),
                    program: Arc::new(program),
                    trees,
                    chunk,
                });
            }
            Arc::new(program)
        }
    };
    Ok(Built {
        passages: between_ranks(program.as_ref()),
        program,
        trees,
        chunk,
    })
}

/// The program of an algorithm from a file, for as many bytes as it can cut.
pub(super) fn of_file(spec: &ExplainSpec, file: &MscclAlgorithm) -> Result<Built, ExplainError> {
    if spec.chunk == Some(0) {
        return Err(ExplainError::Chunk);
    }
    let bytes = bytes(spec);
    let chunk = spec.chunk.unwrap_or(bytes.max(1));
    let program = file.program(bytes, chunk)?;
    Ok(Built {
        passages: between_ranks(&program),
        program: Arc::new(program),
        trees: Vec::new(),
        chunk,
    })
}

/// Sends and receives one after the other: that is what rounds are.
fn rounds(spec: &ExplainSpec, nodes: u32, part: Part) -> Result<P2pProgram, ExplainError> {
    let (collective, ranks, bytes) = (spec.collective, spec.ranks, bytes(spec));
    let schedule = Schedule::new(&vec![ranks / nodes; nodes as usize], 8);
    let rounds = Rounds::new(ranks, schedule.receivers())?;
    let lanes = Lanes {
        channels: 1,
        lanes: 1,
        first: vec![0; rounds.len()],
    };
    let chunk = part.chunk;
    let cut = |_, _, bytes| Cut { part: bytes, chunk };
    Ok(if collective == Collective::AllToAllV {
        P2pProgram::all_to_all_v(uneven(ranks, bytes), &rounds, &lanes, cut)
    } else {
        P2pProgram::new(collective, bytes, &rounds, &lanes, cut)
    })
}

/// A program in which every rank is a head of its node.
fn with_heads(
    spec: &ExplainSpec,
    algorithm: ExplainAlgorithm,
    nodes: u32,
    part: Part,
) -> Result<HeadsProgram, ExplainError> {
    let (collective, ranks) = (spec.collective, spec.ranks);
    if nodes > 1 && collective != Collective::AllReduce {
        return Err(ExplainError::OneNode {
            nodes,
            algorithm: algorithm.name(),
            collective,
        });
    }
    let between = match (nodes, algorithm) {
        (1, _) => Between::Nothing,
        (_, ExplainAlgorithm::NvlsTree) => Between::Trees,
        _ => Between::Switches,
    };
    let all = hosts(ranks, nodes).into_iter();
    let heads: Vec<_> = all.map(|ranks| (ranks.clone(), ranks)).collect();
    let parts = match between {
        Between::Trees => halves(part, nodes),
        _ => vec![part],
    };
    // Of an all-reduce the head's share of a chunk.
    let share = |part: Part| Part {
        chunk: match collective {
            Collective::AllReduce => part.chunk / u64::from(ranks / nodes),
            _ => part.chunk.next_multiple_of(16),
        },
        ..part
    };
    let parts = parts.into_iter().map(share).collect();
    let bytes = bytes(spec);
    Ok(HeadsProgram::new(collective, bytes, &heads, between, parts))
}

/// Over several nodes two trees have half of the data each.
fn halves(part: Part, nodes: u32) -> Vec<Part> {
    let half = (part.len / 2).next_multiple_of(16).min(part.len);
    if nodes == 1 {
        return vec![part];
    }
    let second = Part {
        offset: part.offset + half,
        len: part.len - half,
        ..part
    };
    vec![Part { len: half, ..part }, second]
}

/// The ranks of each node.
fn hosts(ranks: u32, nodes: u32) -> Vec<Vec<u32>> {
    let local = ranks / nodes;
    (0..nodes)
        .map(|h| (h * local..(h + 1) * local).collect())
        .collect()
}

/// NCCL's first or second tree: a binary one over the nodes' first ranks, a chain in each node.
fn tree(ranks: u32, nodes: u32, second: bool) -> Result<Arc<Tree>, ExplainError> {
    let local = ranks / nodes;
    let parents: Vec<Option<u32>> = (0..ranks)
        .map(|rank| match rank % local {
            0 => binary_parent(nodes, rank / local, second).map(|above| above * local),
            _ => Some(rank - 1),
        })
        .collect();
    Ok(Arc::new(Tree::new(&parents)?))
}

/// Trees of ranks, with what goes over each.
fn views(trees: &[Arc<Tree>], parts: &[Part]) -> Vec<TreeView> {
    let view = |(tree, part): (&Arc<Tree>, &Part)| TreeView {
        of: TreeOf::Ranks,
        bytes: part.len,
        parents: (0..tree.ranks()).map(|rank| tree.parent(rank)).collect(),
    };
    trees.iter().zip(parts).map(view).collect()
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
