//! NCCL's cost model: which algorithm and protocol it believes to be fastest.
//!
//! Constants and formulas as of NCCL 2.30.7, src/graph/tuning.cc. This is a model for
//! choosing, not for timing: the engine times what was chosen.

use super::algorithm::Algorithm;
use super::graphs::{Graph, Graphs};
use fabricsim_collective::Collective;
use fabricsim_plan::ProtocolKind;

/// What the cost model looks at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setup {
    /// Ranks, and hosts as NCCL counts them (NVLink domains).
    pub(super) ranks: u32,
    pub(super) hosts: u32,
    /// Ranks of the largest host.
    pub(super) most_local: u32,
    /// Smallest compute capability × 10.
    pub(super) compute_capability: u32,
    pub(super) graphs: Graphs,
    /// The CPUs are AMD's.
    pub(super) amd: bool,
    /// What posting to the network costs the proxy, in microseconds, if not the default.
    pub(super) net_overhead: Option<f64>,
    /// What the network's plugin says of its latency, in microseconds.
    pub(super) net_latency: f64,
    /// LL128 is safe: its 128-byte stores arrive whole.
    pub(super) ll128: bool,
    /// Switches of the network reduce, and NCCL may use them.
    pub(super) collnet: Result<(), String>,
    /// NVSwitches reduce and copy, and NCCL may use them.
    pub(super) nvls: Result<(), String>,
    /// `NCCL_PAT_ENABLE`.
    pub(super) pat: Option<bool>,
}

/// Latencies in microseconds by algorithm and protocol (LL, LL128, Simple).
struct Row {
    algorithm: Algorithm,
    base: [f64; 3],
    nvlink: [f64; 3],
    pci: [f64; 3],
    net: [f64; 3],
}

const LATENCIES: [Row; 7] = [
    Row {
        algorithm: Algorithm::Tree,
        base: [6.8, 14.0, 8.4],
        nvlink: [0.6, 1.25, 4.0],
        pci: [1.0, 1.9, 4.0],
        net: [5.0, 8.5, 14.0],
    },
    Row {
        algorithm: Algorithm::Ring,
        base: [6.6, 14.0, 8.4],
        nvlink: [0.6, 1.9, 3.4],
        pci: [1.0, 2.5, 5.7],
        net: [2.7, 4.0, 14.0],
    },
    Row {
        algorithm: Algorithm::CollnetDirect,
        base: [0.0; 3],
        nvlink: [0.0, 0.0, 3.7],
        pci: [0.0, 0.0, 3.7],
        net: [0.0, 0.0, 31.0],
    },
    Row {
        algorithm: Algorithm::CollnetChain,
        base: [0.0; 3],
        nvlink: [0.0, 0.0, 2.8],
        pci: [0.0, 0.0, 2.8],
        net: [0.0, 0.0, 30.0],
    },
    Row {
        algorithm: Algorithm::Nvls,
        base: [0.0; 3],
        nvlink: [0.0, 0.0, 25.0],
        pci: [0.0; 3],
        net: [0.0, 0.0, 18.0],
    },
    Row {
        algorithm: Algorithm::NvlsTree,
        base: [0.0; 3],
        nvlink: [0.0, 0.0, 25.0],
        pci: [0.0; 3],
        net: [0.0, 0.0, 20.9],
    },
    Row {
        algorithm: Algorithm::Pat,
        base: [8.0; 3],
        nvlink: [0.0, 0.0, 4.0],
        pci: [0.0, 0.0, 4.0],
        net: [0.0, 0.0, 14.0],
    },
];

fn row(algorithm: Algorithm) -> &'static Row {
    LATENCIES
        .iter()
        .find(|r| r.algorithm == algorithm)
        .unwrap_or(&LATENCIES[1])
}

/// GB/s by GPU generation (Volta, Ampere, Hopper, Blackwell), for 1, 2 and more hosts.
type Caps = [[f64; 3]; 4];

/// Of LL.
const LL_MOST: Caps = [
    [39.0, 39.0, 20.4],
    [87.7, 22.5, 19.0],
    [141.0, 45.0, 35.0],
    [282.0, 90.0, 70.0],
];
/// Of each search channel.
const RING_LL128: Caps = [[20.0; 3], [20.0; 3], [36.7; 3], [40.0; 3]];
const TREE_LL128: Caps = [
    [20.0; 3],
    [20.0; 3],
    [36.7, 36.7, 29.0],
    [55.6, 31.67, 20.0],
];
const TREE: Caps = [
    [26.5, 18.5, 10.0],
    [24.0, 23.6, 17.8],
    [38.7, 41.4, 36.0],
    [70.0, 42.8, 24.0],
];
const NVLS_TREE: Caps = [
    [26.5, 18.5, 10.0],
    [24.0, 23.6, 17.8],
    [0.0, 57.7, 45.5],
    [0.0, 96.0, 80.0],
];
/// Part of the NVLink rate that NVLS is believed to reach, by generation.
const NVLS_EFFICIENCY: [f64; 4] = [0.0, 0.0, 0.85, 0.74];

/// Tree all-reduce: part of the bandwidth that is believed to be reached, from 64 B on in
/// powers of two, by protocol.
const TREE_CORRECTION: [[f64; 24]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9,
        0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8,
        0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
    ],
];

fn index(protocol: ProtocolKind) -> usize {
    match protocol {
        ProtocolKind::Ll => 0,
        ProtocolKind::Ll128 => 1,
        ProtocolKind::Simple => 2,
    }
}

/// What NCCL expects of one algorithm and protocol, before the size is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expectation {
    /// Microseconds.
    pub(super) latency: f64,
    /// GB/s of algorithm bandwidth.
    pub(super) bandwidth: f64,
}

impl Setup {
    fn generation(&self) -> usize {
        match self.compute_capability {
            100.. => 3,
            90.. => 2,
            80.. => 1,
            _ => 0,
        }
    }

    fn column(&self) -> usize {
        (self.hosts.clamp(1, 3) - 1) as usize
    }

    fn local(&self) -> f64 {
        f64::from(self.ranks / self.hosts.max(1))
    }

    /// Why NCCL would not consider a combination; what was `named` it takes where it would not
    /// by itself, if it can.
    pub(super) fn excluded(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: ProtocolKind,
        named: bool,
    ) -> Option<String> {
        let reason = |text: &str| Some(text.to_owned());
        if !algorithm.serves(collective) {
            return Some(format!("no kernel for {collective}"));
        }
        if protocol != ProtocolKind::Simple && !algorithm.has_low_latency() {
            return reason("exists with simple only");
        }
        if protocol == ProtocolKind::Ll128 && !self.ll128 && !named {
            return reason("128-byte stores may be torn on the way to peers or interfaces");
        }
        let blocks = collective != Collective::AllReduce;
        match algorithm {
            Algorithm::CollnetDirect | Algorithm::CollnetChain => {
                if let Err(why) = &self.collnet {
                    return Some(why.clone());
                }
                if algorithm == Algorithm::CollnetDirect && self.graphs.collnet_direct.is_none() {
                    return reason("needs GPUs behind NVSwitches");
                }
                if self.most_local > 8 {
                    return reason("more than 8 ranks in a host");
                }
                if blocks {
                    return reason("the network's plugin does not offer gather and scatter");
                }
                None
            }
            Algorithm::Nvls => {
                if let Err(why) = &self.nvls {
                    return Some(why.clone());
                }
                if self.hosts > 1 && self.collnet.is_err() {
                    return reason("several hosts need SHARP for it");
                }
                if self.hosts > 1 && blocks {
                    return reason("the network's plugin does not offer gather and scatter");
                }
                if blocks && self.most_local > 32 {
                    return reason("more than 32 ranks in a host");
                }
                None
            }
            Algorithm::NvlsTree => {
                if let Err(why) = &self.nvls {
                    return Some(why.clone());
                }
                (self.hosts < 2).then(|| "one host only".to_owned())
            }
            Algorithm::Pat if named => None,
            Algorithm::Pat => match self.pat {
                Some(true) => None,
                Some(false) => reason("NCCL_PAT_ENABLE=0"),
                None if self.ranks != self.hosts => reason("more than one rank in a host"),
                None => None,
            },
            _ => None,
        }
    }

    /// What NCCL expects; `None` where its bandwidth comes out as zero.
    pub(super) fn expectation(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: ProtocolKind,
    ) -> Option<Expectation> {
        let bandwidth = self.bandwidth(collective, algorithm, protocol)?;
        Some(Expectation {
            latency: self.latency(collective, algorithm, protocol),
            bandwidth,
        })
        .filter(|e| e.bandwidth > 0.0)
    }

    fn steps(&self, collective: Collective) -> (f64, f64) {
        let (n, hosts) = (f64::from(self.ranks), f64::from(self.hosts));
        match collective {
            Collective::AllReduce => (2.0 * (n - 1.0), 2.0 * (hosts - 1.0)),
            Collective::AllGather | Collective::ReduceScatter => (n - 1.0, hosts - 1.0),
            _ => (n, 0.0),
        }
    }

    fn graph(&self, algorithm: Algorithm) -> Option<&Graph> {
        let graphs = &self.graphs;
        match algorithm {
            Algorithm::Ring => Some(&graphs.ring),
            Algorithm::Tree | Algorithm::Pat => Some(&graphs.tree),
            Algorithm::CollnetChain => Some(&graphs.collnet_chain),
            Algorithm::CollnetDirect => graphs.collnet_direct.as_ref(),
            Algorithm::Nvls | Algorithm::NvlsTree => graphs.nvls.as_ref(),
            _ => None,
        }
    }

    fn latency(&self, collective: Collective, algorithm: Algorithm, protocol: ProtocolKind) -> f64 {
        let p = index(protocol);
        let simple = protocol == ProtocolKind::Simple;
        let own = row(algorithm);
        let nvlink = self.graph(algorithm).is_some_and(|g| g.nvlink);
        let intra = if nvlink { own.nvlink } else { own.pci }[p];
        let net = if self.ranks == self.hosts {
            row(Algorithm::Tree).net[p]
        } else {
            own.net[p]
        };
        // Once more for reading back what Simple has received.
        let net = net + self.net_latency * if simple { 2.0 } else { 1.0 };
        let post = match (self.hosts > 1, self.net_overhead) {
            (false, _) => 0.0,
            (true, given) => {
                let once = given.unwrap_or(if self.amd { 2.0 } else { 1.0 });
                if simple { 3.0 * once } else { once }
            }
        };
        let (steps, net_steps) = self.steps(collective);
        let (local, levels) = (self.local(), f64::from(self.hosts.max(1).ilog2()));
        let base = own.base[p];
        match algorithm {
            Algorithm::Ring if matches!(collective, Collective::Broadcast | Collective::Reduce) => {
                let hop = if self.hosts > 1 { own.net[p] } else { intra };
                if self.graphs.ring.same_channels {
                    base + hop
                } else if simple {
                    let tree = row(Algorithm::Tree);
                    let hop = match (self.hosts > 1, nvlink) {
                        (true, _) => tree.net,
                        (false, true) => tree.nvlink,
                        (false, false) => tree.pci,
                    };
                    base + steps * hop[p]
                } else {
                    base + steps * hop
                }
            }
            Algorithm::Ring => base + (steps - net_steps) * intra.max(post) + net_steps * net,
            Algorithm::Tree => base + 2.0 * ((local - 1.0) * intra + levels * net),
            Algorithm::CollnetDirect => {
                base + 2.0 * ((local - 1.0).min(1.0) * intra + (local - 1.0) * 0.4) + net
            }
            Algorithm::CollnetChain => base + 2.0 * (local - 1.0) * intra + net,
            Algorithm::Nvls => intra + if self.hosts > 1 { net } else { 0.0 },
            Algorithm::NvlsTree => base + intra + 2.0 * levels * net,
            Algorithm::Pat => base + levels * (net / 3.5) + 2.8 * f64::from(self.ranks),
            _ => 0.0,
        }
    }

    fn bandwidth(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: ProtocolKind,
    ) -> Option<f64> {
        let (generation, column) = (self.generation(), self.column());
        let graph = self.graph(algorithm)?;
        let n = f64::from(self.ranks);
        let channels = f64::from(graph.channels);
        let collnet = matches!(
            algorithm,
            Algorithm::CollnetDirect | Algorithm::CollnetChain
        );
        let per_channel = if self.hosts <= 2 || collnet {
            graph.intra
        } else {
            graph.inter
        };
        let plain = channels * per_channel;
        // Beyond one host the CPU counts, not the GPU.
        let ll_row = match (self.hosts, self.amd) {
            (1, _) => generation,
            (_, true) => 1,
            (_, false) => 0,
        };
        let ll_most = LL_MOST[ll_row][column];
        let (local, all_reduce) = (self.local(), collective == Collective::AllReduce);
        let bus = match algorithm {
            Algorithm::Ring => match protocol {
                ProtocolKind::Ll => (0.5 * plain).min(ll_most),
                ProtocolKind::Ll128 => {
                    (0.92 * plain).min(channels * RING_LL128[generation][column])
                }
                ProtocolKind::Simple => plain,
            },
            Algorithm::Tree => {
                let bus = (0.92 * plain).min(channels * TREE[generation][column]);
                let bus = match protocol {
                    ProtocolKind::Ll => (bus / 3.8).min(ll_most),
                    ProtocolKind::Ll128 => {
                        let part = if self.hosts == 1 {
                            7.0 / 9.0
                        } else {
                            120.0 / 128.0
                        };
                        (bus * part).min(channels * TREE_LL128[generation][column])
                    }
                    ProtocolKind::Simple => bus,
                };
                if graph.plain_tree { 0.85 * bus } else { bus }
            }
            Algorithm::Nvls | Algorithm::NvlsTree => {
                if graph.channels < 2 {
                    return None;
                }
                let h = channels;
                let intra = graph.intra * NVLS_EFFICIENCY[generation] * (h - 1.0) / h
                    * if all_reduce {
                        2.0
                    } else {
                        (local - 1.0) / local
                    };
                let two = algorithm == Algorithm::NvlsTree && self.hosts <= 2;
                let inter = graph.inter * if two { 2.0 } else { 1.0 };
                let bw = intra.min(inter);
                h * if algorithm == Algorithm::NvlsTree {
                    bw.min(NVLS_TREE[generation][column])
                } else {
                    bw
                }
            }
            Algorithm::CollnetDirect => {
                let ratio = local / channels;
                let bus = plain / (ratio - (ratio - 1.0) / 2.0);
                if self.compute_capability >= 90 {
                    0.85 * bus
                } else {
                    bus
                }
            }
            Algorithm::CollnetChain => plain,
            Algorithm::Pat => 0.75 * plain,
            _ => return None,
        };
        let (steps, _) = self.steps(collective);
        let to_algorithm = match algorithm {
            _ if self.ranks < 2 => 1.0,
            Algorithm::Ring => n / steps,
            _ if !all_reduce => 1.0,
            Algorithm::Nvls | Algorithm::NvlsTree => n / steps,
            _ => 0.5,
        };
        Some(bus * to_algorithm)
    }

    /// A stand-in for what NCCL has no model of: sends and receives of `bytes` (nccl-tests'
    /// size) take a ring's base latency, the network's if they leave the host, and the
    /// busiest of what leaves a GPU inside its host, or the host.
    pub(super) fn micros_of_sends(
        &self,
        collective: Collective,
        protocol: ProtocolKind,
        bytes: u64,
    ) -> Option<f64> {
        let ring = &self.graphs.ring;
        let (own, p) = (row(Algorithm::Ring), index(protocol));
        let (n, local, bytes) = (f64::from(self.ranks), self.local(), bytes as f64);
        let channels = f64::from(ring.channels);
        // Of what a rank sends: to others of its host, and beyond.
        let (inside, outside) = match collective {
            Collective::SendRecv if local < 2.0 => (0.0, bytes),
            Collective::SendRecv => (bytes, bytes / local),
            Collective::Gather | Collective::Scatter => {
                (bytes * (local - 1.0) / n, bytes * (n - local) / n / local)
            }
            _ => (bytes * (local - 1.0) / n, bytes * (n - local) / n),
        };
        let mut micros = own.base[p] + inside / (1000.0 * channels * ring.intra);
        if self.hosts > 1 {
            let leaving = outside * local / (1000.0 * channels * ring.inter);
            micros =
                own.base[p] + own.net[p] + leaving.max(inside / (1000.0 * channels * ring.intra));
        }
        micros.is_finite().then_some(micros)
    }

    /// What NCCL expects an operation of `bytes` to take, in microseconds.
    pub(super) fn micros(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: ProtocolKind,
        bytes: u64,
    ) -> Option<f64> {
        let Expectation {
            mut latency,
            mut bandwidth,
        } = self.expectation(collective, algorithm, protocol)?;
        let power = (bytes >> 6).checked_ilog2().unwrap_or(0) as usize;
        if collective == Collective::AllReduce && algorithm == Algorithm::Tree && power < 23 {
            bandwidth *= TREE_CORRECTION[index(protocol)][power];
        }
        let x86_blackwell = self.compute_capability >= 100 && self.graphs.x86;
        if algorithm == Algorithm::NvlsTree && x86_blackwell && power < 24 {
            bandwidth *= TREE_CORRECTION[2][power];
        }
        let plateau = algorithm == Algorithm::Ring
            && protocol == ProtocolKind::Simple
            && collective == Collective::AllReduce
            && self.hosts > 1
            && bytes as f64 / (f64::from(self.graphs.ring.channels) * f64::from(self.ranks))
                >= 64.0;
        if plateau {
            // Network pipelines of Simple rings are slower to fill.
            latency *= if self.compute_capability < 80 {
                1.9
            } else {
                1.4
            };
        }
        Some(latency + bytes as f64 / (1000.0 * bandwidth))
    }
}
