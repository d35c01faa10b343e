//! The names of algorithms: NCCL's, and others that the planner can build.

use fabricsim_collective::{Collective, MessageAlgorithm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An algorithm that the planner can build.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Double binary trees between hosts, chains inside.
    Tree,
    /// Rings through all ranks.
    Ring,
    /// SHARP: heads of each host exchange with the network's switches.
    CollnetDirect,
    /// SHARP, reached by a chain in each host.
    CollnetChain,
    /// NVLink SHARP: NVSwitches reduce and copy.
    Nvls,
    /// NVLink SHARP inside hosts, trees between them.
    NvlsTree,
    /// Parallel aggregated trees, for one rank per host.
    Pat,
    /// Grouped sends and receives.
    PointToPoint,
    /// Not NCCL's: exchange with ranks at distances 1, 2, 4, ….
    RecursiveDoubling,
    /// Not NCCL's: halves of halves, then gathered again (Rabenseifner).
    RecursiveHalving,
    /// Not NCCL's: doubling for any number of ranks.
    Bruck,
    /// Not NCCL's: reduce-scatter in nodes, rings between them, all-gather in nodes.
    Hierarchical,
    /// Not NCCL's: all send to rank 0, which adds and answers.
    ParameterServer,
    /// Not NCCL's: a binomial tree.
    Binomial,
    /// Not NCCL's: everyone sends to everyone.
    Direct,
    /// Not NCCL's: a ring of processes over sockets, through host memory.
    CpuRing,
    /// Symmetric windows, one shot: everyone stores to everyone, with flags.
    SymLl,
    /// The same by stores to multicast memory.
    SymLlMulticast,
    /// Symmetric windows: loads from and stores to all peers.
    SymLoadStore,
    /// The same by multicast memory: NVSwitches sum what is loaded and copy what is stored.
    SymMulticast,
    /// Symmetric windows: copies by copy engines.
    SymCopy,
    /// What a file of MSCCL says.
    Msccl,
}

impl Algorithm {
    /// Every algorithm that can be asked for by name.
    pub const ALL: [Algorithm; 21] = [
        Algorithm::Tree,
        Algorithm::Ring,
        Algorithm::CollnetDirect,
        Algorithm::CollnetChain,
        Algorithm::Nvls,
        Algorithm::NvlsTree,
        Algorithm::Pat,
        Algorithm::PointToPoint,
        Algorithm::RecursiveDoubling,
        Algorithm::RecursiveHalving,
        Algorithm::Bruck,
        Algorithm::Hierarchical,
        Algorithm::ParameterServer,
        Algorithm::Binomial,
        Algorithm::Direct,
        Algorithm::CpuRing,
        Algorithm::SymLl,
        Algorithm::SymLlMulticast,
        Algorithm::SymLoadStore,
        Algorithm::SymMulticast,
        Algorithm::SymCopy,
    ];

    /// How the names of kernels on symmetric windows begin.
    pub const SYMMETRIC_PREFIX: &str = "sym-";

    /// NCCL's kernels on symmetric windows, in the order in which it looks at them.
    pub const SYMMETRIC: [Algorithm; 5] = [
        Algorithm::SymLl,
        Algorithm::SymLlMulticast,
        Algorithm::SymLoadStore,
        Algorithm::SymMulticast,
        Algorithm::SymCopy,
    ];

    /// Those that NCCL chooses among, in the order in which it looks at them.
    pub const NCCL: [Algorithm; 7] = [
        Algorithm::Tree,
        Algorithm::Ring,
        Algorithm::CollnetDirect,
        Algorithm::CollnetChain,
        Algorithm::Nvls,
        Algorithm::NvlsTree,
        Algorithm::Pat,
    ];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Tree => "tree",
            Algorithm::Ring => "ring",
            Algorithm::CollnetDirect => "collnet-direct",
            Algorithm::CollnetChain => "collnet-chain",
            Algorithm::Nvls => "nvls",
            Algorithm::NvlsTree => "nvls-tree",
            Algorithm::Pat => "pat",
            Algorithm::PointToPoint => "p2p",
            Algorithm::RecursiveDoubling => "recursive-doubling",
            Algorithm::RecursiveHalving => "recursive-halving",
            Algorithm::Bruck => "bruck",
            Algorithm::Hierarchical => "hierarchical",
            Algorithm::ParameterServer => "parameter-server",
            Algorithm::Binomial => "binomial",
            Algorithm::Direct => "direct",
            Algorithm::CpuRing => "cpu-ring",
            Algorithm::SymLl => "sym-ll",
            Algorithm::SymLlMulticast => "sym-ll-multicast",
            Algorithm::SymLoadStore => "sym-load-store",
            Algorithm::SymMulticast => "sym-multicast",
            Algorithm::SymCopy => "sym-copy",
            Algorithm::Msccl => "msccl",
        }
    }

    /// The name in `NCCL_ALGO`.
    #[must_use]
    pub const fn nccl_name(self) -> &'static str {
        match self {
            Algorithm::Tree => "Tree",
            Algorithm::Ring => "Ring",
            Algorithm::CollnetDirect => "CollNetDirect",
            Algorithm::CollnetChain => "CollNetChain",
            Algorithm::Nvls => "NVLS",
            Algorithm::NvlsTree => "NVLSTree",
            Algorithm::Pat => "PAT",
            // NCCL has no name for these.
            _ => self.name(),
        }
    }

    /// Whether NCCL has a kernel of it for a collective.
    #[must_use]
    pub fn serves(self, collective: Collective) -> bool {
        if let Some(message) = self.message(1).filter(|_| self != Algorithm::Pat) {
            return message.does(collective);
        }
        match (self, collective) {
            (Algorithm::PointToPoint, c) => c.is_point_to_point(),
            (a, c) if a.is_symmetric() => a.symmetric_kernel(c).is_some(),
            (_, c) if c.is_point_to_point() => false,
            (Algorithm::Ring | Algorithm::CpuRing, _) => true,
            (_, Collective::Broadcast | Collective::Reduce) => false,
            (Algorithm::Tree | Algorithm::CollnetChain | Algorithm::NvlsTree, c) => {
                matches!(c, Collective::AllReduce)
            }
            (Algorithm::Pat, c) => !matches!(c, Collective::AllReduce),
            _ => true,
        }
    }

    /// The algorithm of message passing that it is, if it is one.
    #[must_use]
    pub const fn message(self, gpus_per_node: u32) -> Option<MessageAlgorithm> {
        Some(match self {
            Algorithm::Pat => MessageAlgorithm::Pat,
            Algorithm::RecursiveDoubling => MessageAlgorithm::RecursiveDoubling,
            Algorithm::RecursiveHalving => MessageAlgorithm::RecursiveHalving,
            Algorithm::Bruck => MessageAlgorithm::Bruck,
            Algorithm::Hierarchical => MessageAlgorithm::Hierarchical { gpus_per_node },
            Algorithm::ParameterServer => MessageAlgorithm::ParameterServer,
            Algorithm::Binomial => MessageAlgorithm::Binomial,
            Algorithm::Direct => MessageAlgorithm::Direct,
            _ => return None,
        })
    }

    /// Whether switches do the sums, so that the bounds of exchanges between ranks do not
    /// hold.
    #[must_use]
    pub const fn offloads(self) -> bool {
        matches!(
            self,
            Algorithm::CollnetDirect
                | Algorithm::CollnetChain
                | Algorithm::Nvls
                | Algorithm::NvlsTree
                | Algorithm::SymMulticast
        )
    }

    /// Whether it is a kernel on symmetric windows.
    #[must_use]
    pub const fn is_symmetric(self) -> bool {
        matches!(
            self,
            Algorithm::SymLl
                | Algorithm::SymLlMulticast
                | Algorithm::SymLoadStore
                | Algorithm::SymMulticast
                | Algorithm::SymCopy
        )
    }

    /// Whether it exists with LL and LL128.
    #[must_use]
    pub const fn has_low_latency(self) -> bool {
        matches!(self, Algorithm::Tree | Algorithm::Ring)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
