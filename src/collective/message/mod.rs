//! Algorithms of message passing, as MPI libraries have them: each rank's part is a plain
//! list of sends, receives and copies (a `Script`), and one program ([`MessageProgram`]) runs
//! them all.
//!
//! A rank has two workers on each channel, one that sends and one that receives, so that
//! both directions of its links are busy. What has to wait for what follows from the lists:
//! a send for what was received into its bytes, a receive for the sends of the bytes that
//! it overwrites; chunk by chunk, where both go through memory alike. Left out: rendezvous,
//! and packing of bytes that are apart in memory (they go as several messages), but for
//! Bruck's all-to-all.

mod binomial;
mod bruck;
mod direct;
mod hierarchical;
mod layout;
mod pat;
mod program;
mod recursive;
mod script;
mod server;

pub use program::MessageProgram;

use super::goal::Collective;
use super::ring::Part;
use script::Script;
use thiserror::Error;

/// An algorithm of message passing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageAlgorithm {
    /// All data is exchanged with ranks at distances 1, 2, 4, … (Thakur et al. 2005).
    RecursiveDoubling,
    /// Halves of halves are exchanged, then gathered again (Rabenseifner).
    RecursiveHalving,
    /// As doubling, for any number of ranks, in rotated order (Bruck et al. 1997).
    Bruck,
    /// Reduce-scatter in nodes, rings between them, all-gather in nodes.
    Hierarchical {
        /// Ranks of a node; consecutive.
        gpus_per_node: u32,
    },
    /// All send to rank 0, which adds and answers.
    ParameterServer,
    /// A binomial tree whose root is rank 0.
    Binomial,
    /// Everyone sends to everyone.
    Direct,
    /// NCCL's parallel aggregated trees, for nodes of one rank.
    Pat,
}

/// Why there is no such program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The algorithm is for other collectives.
    #[error("{algorithm} does not do {collective}; it does {}", list(supported))]
    Unsupported {
        /// The algorithm.
        algorithm: &'static str,
        /// The collective.
        collective: Collective,
        /// What it does.
        supported: &'static [Collective],
    },
    /// Nodes are not alike.
    #[error("{ranks} ranks do not fill nodes of {gpus_per_node}; expected a multiple of it")]
    UnevenNodes {
        /// How many ranks there are.
        ranks: u32,
        /// Ranks of a node.
        gpus_per_node: u32,
    },
}

fn list(collectives: &[Collective]) -> String {
    let names: Vec<&str> = collectives.iter().map(|c| c.name()).collect();
    names.join(", ")
}

impl MessageAlgorithm {
    /// Every algorithm, the hierarchical one for nodes of `gpus_per_node`.
    #[must_use]
    pub const fn all(gpus_per_node: u32) -> [MessageAlgorithm; 8] {
        [
            MessageAlgorithm::RecursiveDoubling,
            MessageAlgorithm::RecursiveHalving,
            MessageAlgorithm::Bruck,
            MessageAlgorithm::Hierarchical { gpus_per_node },
            MessageAlgorithm::ParameterServer,
            MessageAlgorithm::Binomial,
            MessageAlgorithm::Direct,
            MessageAlgorithm::Pat,
        ]
    }

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MessageAlgorithm::RecursiveDoubling => "recursive-doubling",
            MessageAlgorithm::RecursiveHalving => "recursive-halving",
            MessageAlgorithm::Bruck => "bruck",
            MessageAlgorithm::Hierarchical { .. } => "hierarchical",
            MessageAlgorithm::ParameterServer => "parameter-server",
            MessageAlgorithm::Binomial => "binomial",
            MessageAlgorithm::Direct => "direct",
            MessageAlgorithm::Pat => "pat",
        }
    }

    /// The collectives that it does.
    #[must_use]
    pub const fn collectives(self) -> &'static [Collective] {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};
        match self {
            MessageAlgorithm::RecursiveDoubling => &[AllReduce, AllGather],
            MessageAlgorithm::RecursiveHalving | MessageAlgorithm::Hierarchical { .. } => {
                &[AllReduce, AllGather, ReduceScatter]
            }
            MessageAlgorithm::Bruck => &[AllGather, AllToAll],
            MessageAlgorithm::ParameterServer | MessageAlgorithm::Binomial => {
                &[AllReduce, Broadcast, Reduce]
            }
            MessageAlgorithm::Direct => &[AllReduce, AllGather, ReduceScatter, AllToAll],
            MessageAlgorithm::Pat => &[AllGather, ReduceScatter],
        }
    }

    /// True if the collective is among [`collectives`](MessageAlgorithm::collectives).
    #[must_use]
    pub fn does(self, collective: Collective) -> bool {
        self.collectives().contains(&collective)
    }

    /// A program for `collective` over `bytes` (nccl-tests' size) on `ranks` ranks, of which
    /// each channel does one of `parts`: of the buffer, or of each block if ranks have blocks.
    ///
    /// # Errors
    /// A collective that the algorithm does not do; nodes that are not alike.
    ///
    /// # Panics
    /// If there are no ranks, or a part's chunk is zero.
    pub fn program(
        self,
        collective: Collective,
        bytes: u64,
        ranks: u32,
        parts: Vec<Part>,
    ) -> Result<MessageProgram, MessageError> {
        if !self.does(collective) {
            return Err(MessageError::Unsupported {
                algorithm: self.name(),
                collective,
                supported: self.collectives(),
            });
        }
        let mut segments = 1;
        let script: Box<dyn Fn(u32) -> Script> = match self {
            MessageAlgorithm::RecursiveDoubling => match collective {
                Collective::AllReduce => Box::new(move |r| recursive::doubling(ranks, r)),
                _ => Box::new(move |r| recursive::all_gather(ranks, r)),
            },
            MessageAlgorithm::RecursiveHalving => match collective {
                Collective::AllReduce => {
                    segments = 1 << ranks.ilog2();
                    Box::new(move |r| recursive::rabenseifner(ranks, r))
                }
                Collective::AllGather => Box::new(move |r| recursive::all_gather(ranks, r)),
                _ => Box::new(move |r| recursive::reduce_scatter(ranks, r)),
            },
            MessageAlgorithm::Bruck => match collective {
                Collective::AllGather => Box::new(move |r| bruck::all_gather(ranks, r)),
                _ => Box::new(move |r| bruck::all_to_all(ranks, r)),
            },
            MessageAlgorithm::Hierarchical { gpus_per_node } => {
                if gpus_per_node == 0 || !ranks.is_multiple_of(gpus_per_node) {
                    return Err(MessageError::UnevenNodes {
                        ranks,
                        gpus_per_node,
                    });
                }
                segments = ranks;
                let nodes = hierarchical::Nodes {
                    nodes: ranks / gpus_per_node,
                    size: gpus_per_node,
                };
                match collective {
                    Collective::AllReduce => Box::new(move |r| nodes.all_reduce(r)),
                    Collective::AllGather => Box::new(move |r| nodes.all_gather(r)),
                    _ => Box::new(move |r| nodes.reduce_scatter(r)),
                }
            }
            MessageAlgorithm::ParameterServer => {
                Box::new(move |r| server::script(collective, ranks, r))
            }
            MessageAlgorithm::Binomial => Box::new(move |r| binomial::script(collective, ranks, r)),
            MessageAlgorithm::Direct => {
                segments = ranks;
                Box::new(move |r| direct::script(collective, ranks, r))
            }
            MessageAlgorithm::Pat => {
                let trees = pat::Trees::new(ranks);
                // Together while the largest message fits a buffer's slot.
                let together = parts
                    .iter()
                    .all(|p| p.len.saturating_mul(trees.most_blocks()) <= p.chunk);
                match (collective, together) {
                    (Collective::AllGather, true) => Box::new(move |r| trees.all_gather(r)),
                    (Collective::AllGather, false) => {
                        Box::new(move |r| pat::all_gather_by_block(ranks, r))
                    }
                    (_, true) => Box::new(move |r| trees.reduce_scatter(r)),
                    (_, false) => Box::new(move |r| pat::reduce_scatter_by_block(ranks, r)),
                }
            }
        };
        Ok(MessageProgram::new(
            collective, bytes, ranks, parts, segments, &*script,
        ))
    }
}
