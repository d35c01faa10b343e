//! Channels, chunks and slices of an operation: how much each thread block handles.
//!
//! NCCL 2.30.7: thread thresholds and channel counts of `enqueue.cc`, its "continuous byte
//! distribution" of one operation over channels, buffer sizes and chunk rules.

use super::algorithm::Algorithm;
use super::costs::LL128_WARP;
use super::env::Env;
use super::tuner::Setup;
use fabricsim_collective::{Collective, Part};
use fabricsim_plan::{Protocol, ProtocolKind};
use fabricsim_topology::architecture::Ll128Model;
use fabricsim_units::Bytes;

/// Slots of a connection's buffer.
const STEPS: u64 = 8;
/// Traffic that one cell of the distribution stands for.
const CELL: u64 = 32 << 10;

/// Payload of a slot.
pub(super) fn slot(kind: ProtocolKind, env: &Env) -> u64 {
    match kind {
        ProtocolKind::Simple => env.buffer.get() / STEPS,
        // Half of LL is flags.
        ProtocolKind::Ll => env.ll_buffer.get() / STEPS / 2,
        ProtocolKind::Ll128 => env.ll128_buffer.get() / STEPS / 16 * 15,
    }
}

/// How chunks are cut: a Simple ring's of four slots in two slices, all others' in one.
pub(super) fn protocol(
    algorithm: Algorithm,
    collective: Collective,
    kind: ProtocolKind,
    env: &Env,
) -> Protocol {
    let pipelined =
        algorithm == Algorithm::Ring && kind == ProtocolKind::Simple && !whole(collective);
    let slot = slot(kind, env);
    let (slices_per_chunk, slot_steps) = match kind {
        ProtocolKind::Simple if pipelined => (2, 2),
        // What all warps have moved is on its way while they move the rest of a chunk, which still
        // has to fit its queue, with a slot to spare: a rank of a ring that has sent a chunk goes on as
        // soon as the next one takes some of it, who waits for the same.
        ProtocolKind::Ll128 => (STEPS as u32 - 1, 1),
        _ => (1, 1),
    };
    let min_slice = match (algorithm, kind) {
        (Algorithm::Ring, ProtocolKind::Simple) => slot_steps * slot / 32,
        // All warps, or the 6 of them that go down a tree.
        (Algorithm::Tree, ProtocolKind::Ll128) => 6 * LL128_WARP.get(),
        (_, ProtocolKind::Ll128) => u64::from(Ll128Model::WARPS) * LL128_WARP.get(),
        _ => 16,
    };
    Protocol {
        kind,
        slices_per_chunk,
        min_slice: Bytes::new(min_slice),
        fifo_slices: (STEPS / slot_steps) as u32,
        wire: match kind {
            ProtocolKind::Simple => (1, 1),
            ProtocolKind::Ll => (2, 1),
            ProtocolKind::Ll128 => (16, 15),
        },
    }
}

/// Chunks of these are one slot even on Simple rings.
fn whole(collective: Collective) -> bool {
    matches!(collective, Collective::Broadcast | Collective::Reduce)
}

/// What the sizes of chunks and channels depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizing<'a> {
    pub(super) collective: Collective,
    pub(super) algorithm: Algorithm,
    pub(super) kind: ProtocolKind,
    pub(super) env: &'a Env,
    pub(super) setup: &'a Setup,
    /// Thread blocks of a full-size operation.
    pub(super) channels: u16,
    /// … of NVLS.
    pub(super) nvls_channels: u16,
    /// Heads of NVLS or CollNetDirect.
    pub(super) heads: u32,
}

/// From this minor release on trees of Simple move whole slots. A table of two nodes of A100, of before
/// Hopper, shows that they once did not; one of 2.23 (GH200) that they do, and those of 2.18 (A100 on
/// Slingshot) are nearer so: which one was the first is a guess.
const TREES_WHOLE: u16 = 18;

/// From this minor release on each channel has a range of bytes of its own, in whole cells; before, all
/// that an operation starts take part in each loop over the data. It is remembered, not published;
/// broadcasts of 1 to 4 MiB on 8 A100 that one process drives show the time of all 24 starts.
const CELLS: u16 = 20;

impl Sizing<'_> {
    fn several(&self) -> bool {
        self.setup.hosts > 1
    }

    fn threads(&self) -> u64 {
        let most = match (self.algorithm, self.kind) {
            (_, ProtocolKind::Ll128) => return u64::from(self.env.ll128_threads.unwrap_or(640)),
            (Algorithm::Ring, ProtocolKind::Simple) => {
                let ring = &self.setup.graphs.ring;
                if ring.intra * f64::from(ring.channels) <= 12.0 {
                    256
                } else {
                    512
                }
            }
            (Algorithm::CollnetDirect | Algorithm::CollnetChain, _) => 640,
            _ => 512,
        };
        u64::from(self.env.threads.unwrap_or(most))
    }

    /// Bytes per thread below which fewer channels are used.
    fn threshold(&self) -> u64 {
        let protocol = match self.kind {
            ProtocolKind::Ll => 0,
            ProtocolKind::Ll128 => 1,
            ProtocolKind::Simple => 2,
        };
        let row = match self.algorithm {
            Algorithm::Tree => Some(0),
            Algorithm::Ring => Some(3),
            _ => None,
        };
        let given = row.and_then(|r| self.env.thread_thresholds.map(|t| t[r + protocol]));
        let ranks = if self.algorithm == Algorithm::Ring && self.kind == ProtocolKind::Ll {
            u64::from(self.setup.ranks)
        } else {
            1
        };
        let default = match (self.algorithm, self.kind) {
            (Algorithm::CollnetDirect | Algorithm::CollnetChain, _) => 512,
            (_, ProtocolKind::Simple) => 64,
            _ => 8,
        };
        given.unwrap_or(default) * ranks
    }

    /// Whether channels share each loop over the data.
    fn looped(&self) -> bool {
        use Algorithm::{Nvls, NvlsTree, Ring, Tree};
        [Ring, Tree, Nvls, NvlsTree].contains(&self.algorithm) && self.env.version.before(CELLS)
    }

    /// How many channels' thread blocks an operation of `bytes` starts, of which `used` have data.
    pub(super) fn started(&self, bytes: u64, used: u16) -> u16 {
        if self.looped() {
            self.most_channels(bytes)
        } else {
            used
        }
    }

    /// How many channels an operation of `bytes` uses at most.
    fn most_channels(&self, bytes: u64) -> u16 {
        match self.algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree if self.several() => {
                self.nvls_channels.min(self.channels)
            }
            Algorithm::Nvls | Algorithm::NvlsTree => self.nvls_channels,
            Algorithm::CollnetDirect => self.stairs(bytes),
            _ => {
                let per_channel = (self.threads() * self.threshold()).max(1);
                u16::try_from(bytes / per_channel)
                    .unwrap_or(u16::MAX)
                    .clamp(1, self.channels)
            }
        }
    }

    /// CollNetDirect gives up channels in stages, at thresholds that fall.
    fn stairs(&self, bytes: u64) -> u16 {
        let (mut channels, mut threshold) = (u64::from(self.channels), self.threshold());
        let mut stage = 16;
        while stage >= 1 {
            let few = |channels, threshold| {
                bytes < channels * self.threads() * u64::from(self.heads) * threshold
            };
            while few(channels, threshold) && channels > stage {
                if channels == stage + stage / 2 {
                    threshold /= 2;
                }
                channels -= 1;
            }
            if !few(channels, threshold) {
                break;
            }
            stage /= 2;
        }
        channels as u16
    }

    /// Deals an operation of `bytes` (nccl-tests' size) to channels.
    pub(super) fn parts(&self, bytes: u64) -> Vec<Part> {
        let n = u64::from(self.setup.ranks);
        // What is dealt, and the traffic of one byte of it.
        let (len, weight) = match self.collective {
            Collective::AllReduce => (bytes, 2),
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => {
                (bytes / n, n)
            }
            _ => (bytes, 1),
        };
        let channels = self.most_channels(bytes);
        if self.looped() {
            return self.loops(len, u64::from(channels));
        }
        let evenly = self.several() && self.algorithm.offloads();
        let each = if evenly {
            len.div_ceil(u64::from(channels))
                .next_multiple_of(16)
                .max(16)
        } else {
            let weight = if self.kind == ProtocolKind::Ll {
                4 * weight
            } else {
                weight
            };
            let cell = CELL.div_ceil(weight).next_multiple_of(16);
            let cells = len.div_ceil(cell).max(1);
            let per_channel = (len * weight)
                .max(CELL)
                .div_ceil(u64::from(channels))
                .next_multiple_of(16);
            per_channel.div_ceil(cell * weight).clamp(1, cells) * cell
        };
        (0..len.div_ceil(each).max(1))
            .map(|c| {
                let own = each.min(len - c * each);
                // Operations that are split evenly share one chunk size, of all of it.
                let chunk = if evenly {
                    self.chunk(len, u64::from(channels))
                } else {
                    self.chunk(own, 1)
                };
                Part {
                    offset: c * each,
                    len: own,
                    chunk,
                }
            })
            .collect()
    }

    /// `len` bytes in loops of a chunk of each channel, of all-reduces on rings one for each rank and
    /// with NVLS one for each head.
    ///
    /// What is left for the last loop goes to one channel after the other until nothing is left: by
    /// chunks, but on rings, and of a tree's only loop, as much to each as to the others in whole
    /// passes of its threads (`all_reduce.h` and others of releases before cells).
    fn loops(&self, len: u64, channels: u64) -> Vec<Part> {
        let blocks = match (self.collective, self.algorithm) {
            (Collective::AllReduce, Algorithm::Ring) => u64::from(self.setup.ranks),
            (Collective::AllReduce, Algorithm::Nvls | Algorithm::NvlsTree) => u64::from(self.heads),
            _ => 1,
        };
        let pass = match self.kind {
            ProtocolKind::Simple | ProtocolKind::Ll => 8 * self.threads(),
            // Half of what they move at once.
            ProtocolKind::Ll128 => LL128_WARP.get() * self.threads() / 64,
        };
        let chunk = self.chunk(len, channels);
        let one = blocks * chunk;
        let (full, rest) = (len / (channels * one) * one, len % (channels * one));
        let even = match self.algorithm {
            Algorithm::Ring => true,
            Algorithm::Tree => full == 0,
            _ => false,
        };
        let share = if even {
            chunk.min(rest.div_ceil(channels * blocks).next_multiple_of(pass))
        } else {
            chunk
        };
        let mut offset = 0;
        let part = |c| {
            let own = rest.saturating_sub(c * blocks * share).min(blocks * share);
            let part = Part {
                offset,
                len: full + own,
                chunk,
            };
            offset += part.len;
            part
        };
        let parts: Vec<Part> = (0..channels).map(part).collect();
        let empty = |part: &Part| part.len == 0 && part.offset > 0;
        parts.into_iter().filter(|part| !empty(part)).collect()
    }

    /// The size of a full chunk, for `bytes` on so many channels.
    fn chunk(&self, bytes: u64, channels: u64) -> u64 {
        let slot = slot(self.kind, self.env);
        let setup = self.setup;
        let (hosts, heads) = (setup.hosts.max(1), u64::from(self.heads));
        let local = f64::from(setup.ranks) / f64::from(hosts);
        // Chunks are halved while there are too few of them, down to a limit.
        let halved = |chunk: &mut u64, share: u64, enough: f64, least: u64| {
            while *chunk > least && ((bytes / (channels * share * *chunk)) as f64) < enough {
                *chunk /= 2;
            }
        };
        let mut chunk = slot;
        match self.algorithm {
            Algorithm::Ring if self.kind == ProtocolKind::Simple && !whole(self.collective) => {
                chunk = 4 * slot;
            }
            Algorithm::Tree if self.kind == ProtocolKind::Ll128 => {
                let steps = 1.0 + f64::from(hosts.ilog2()) + 0.1 * local;
                halved(&mut chunk, 1, 64.0 * steps / local, 131_072);
                halved(&mut chunk, 1, 16.0 * steps / local, 32_768);
                let grain = LL128_WARP.get();
                chunk = (chunk / grain).max(1) * grain;
            }
            // As computeColl in src/enqueue.cc did.
            Algorithm::Tree
                if self.kind == ProtocolKind::Simple && self.env.version.before(TREES_WHOLE) =>
            {
                let depth = local - 1.0 + f64::from(hosts.ilog2());
                halved(&mut chunk, 1, 8.0 * depth, 128 << 10);
                halved(&mut chunk, 1, 4.0 * depth, 64 << 10);
                halved(&mut chunk, 1, depth, 32 << 10);
            }
            Algorithm::CollnetDirect => {
                let depth = 1.0 + f64::from(hosts.ilog2());
                halved(&mut chunk, heads, 64.0 * depth, 128 << 10);
                halved(&mut chunk, heads, 8.0 * depth, 64 << 10);
                halved(&mut chunk, heads, 8.0 * depth, 32 << 10);
            }
            Algorithm::CollnetChain => {
                chunk = chunk.min(256 << 10);
                halved(&mut chunk, 1, 64.0 * local, 128 << 10);
                halved(&mut chunk, 1, 8.0 * local, 64 << 10);
                halved(&mut chunk, 1, local, 32 << 10);
            }
            // Switches take a whole slot at once where nothing is copied.
            Algorithm::Nvls if self.env.zero_copy() && self.collective != Collective::AllReduce => {
            }
            Algorithm::Nvls => {
                chunk = self.env.nvls_chunk.get();
                let all = channels * heads;
                for (enough, least) in [(64, 64 << 10), (8, 32 << 10), (2, 16 << 10)] {
                    if bytes < enough * all * chunk && chunk > least {
                        chunk = least;
                    }
                }
            }
            Algorithm::NvlsTree => {
                let whole = self.env.nvls_chunk.get();
                let deep = setup.hosts >= 4 && setup.compute_capability < 100;
                let most = if deep { 64 << 10 } else { whole };
                let most = self.env.nvls_tree_chunk.map_or(most, Bytes::get);
                chunk = whole.min(most);
                let all = channels * heads;
                for (enough, least) in [
                    (32, 256 << 10),
                    (16, 128 << 10),
                    (4, 64 << 10),
                    (1, 32 << 10),
                ] {
                    if bytes < enough * all * chunk && chunk > least {
                        chunk = least;
                    }
                }
            }
            Algorithm::Pat => {
                let enough = if self.collective == Collective::AllGather {
                    32
                } else {
                    16
                };
                while chunk * channels * enough > bytes && chunk > 64 << 10 {
                    chunk /= 2;
                }
            }
            _ => {}
        }
        chunk
    }
}
