//! Grouped sends and receives: whom a rank meets in which round, on which channels, in
//! what parts and chunks.
//!
//! NCCL 2.30.7: the schedule of `init.cc`, the channels per peer of `paths.cc`, parts and
//! protocol of `enqueue.cc`, base channels of `device.h`. Pure functions of plain values.

use super::MOST_CHANNELS;
use fabricsim_collective::Cut;
use fabricsim_plan::ProtocolKind;
use fabricsim_topology::hardware::CpuVendor;

/// Operations that a channel works on at once (`NCCL_MAX_DEV_WORK_P2P_PER_BATCH`).
pub const OPERATIONS_PER_BATCH: u16 = 8;
/// Parts end at multiples of this.
const PART_GRAIN: u64 = 4 << 10;

/// An offset in the schedule: in a round every rank sends to the rank `within` after it in
/// the group `group` after its own, and receives from the mirrored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    group: u32,
    within: u32,
}

/// The rounds of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    nodes: u32,
    group: u32,
    offsets: Vec<Offset>,
}

impl Schedule {
    /// For nodes with so many ranks each; ranks of a node are consecutive. On several nodes
    /// groups have at most `group_size` ranks (`NCCL_P2P_SCHEDULE_GROUP_SIZE`).
    #[must_use]
    pub fn new(node_sizes: &[u32], group_size: u32) -> Self {
        let ranks: u32 = node_sizes.iter().sum();
        // A node alone is one group; else groups divide every node.
        let group = match node_sizes {
            [one] => (*one).max(1),
            sizes => sizes
                .iter()
                .fold(group_size, |g, &size| gcd(g, size))
                .max(1),
        };
        let groups = ranks / group;
        let around = groups.next_power_of_two();
        let mut offsets = Vec::with_capacity(ranks as usize);
        // 0, 1, 3, 6, 10, … modulo a power of two meets every number once.
        let mut delta = 0;
        for round in 0..around {
            delta = (delta + round) & (around - 1);
            if delta < groups {
                offsets.extend((0..group).map(|within| Offset {
                    group: delta,
                    within,
                }));
            }
        }
        Schedule {
            nodes: node_sizes.len() as u32,
            group,
            offsets,
        }
    }

    /// How many rounds there are: as many as ranks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// True if there are no ranks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Ranks of a group.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.group
    }

    /// To whom `rank` sends in `round`.
    #[must_use]
    pub fn to(&self, round: usize, rank: u32) -> u32 {
        let Offset { group, within } = self.offsets[round];
        let groups = self.offsets.len() as u32 / self.group;
        let (own, local) = (rank / self.group, rank % self.group);
        (own + group) % groups * self.group + (local + within) % self.group
    }

    /// The receivers of all ranks, round by round: what
    /// [`Rounds::new`](fabricsim_collective::Rounds::new) takes.
    #[must_use]
    pub fn receivers(&self) -> Vec<u32> {
        let ranks = self.offsets.len() as u32;
        (0..self.offsets.len())
            .flat_map(|round| (0..ranks).map(move |rank| self.to(round, rank)))
            .collect()
    }

    /// The channel of the first part of a round's messages. `channels` is a power of two.
    #[must_use]
    pub fn first_channel(&self, round: usize, channels: u16) -> u16 {
        let round = round as u32;
        let base = if self.nodes == 1 {
            round
        } else {
            let batch = u32::from(OPERATIONS_PER_BATCH);
            let (group, within) = (round / self.group, round % self.group);
            group * self.group.div_ceil(batch) + within / batch
        };
        let bits = u32::from(channels).trailing_zeros();
        if bits == 0 {
            return 0;
        }
        (base.reverse_bits() >> (32 - bits)) as u16
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The way to a peer, as far as the number of channels goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PeerPath {
    /// NVLink, directly or through one GPU: NCCL's GB/s of the path and of one link.
    Nvlink {
        /// Of the path.
        path: f64,
        /// Of one link.
        link: f64,
    },
    /// PCIe or host memory.
    Host,
    /// A network.
    Network {
        /// Interfaces that the rank can use.
        interfaces: u32,
        /// GB/s of one of them.
        rate: f64,
    },
}

/// What the channels of sends and receives depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelInputs<'a> {
    /// Channels of collectives.
    pub collective_channels: u32,
    /// `NCCL_MIN_P2P_NCHANNELS` and `NCCL_MAX_P2P_NCHANNELS`.
    pub limits: (u32, u32),
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Nodes that they are on.
    pub nodes: u32,
    /// The ways to all peers, each kind once.
    pub paths: &'a [PeerPath],
    /// `NCCL_NCHANNELS_PER_NET_PEER`.
    pub per_network_peer: Option<u32>,
    /// `NCCL_P2P_PER_CHANNEL_NET_BW` in GB/s.
    pub channel_rate: f64,
    /// Major and minor version of NCCL.
    pub version: (u32, u32),
}

impl Default for ChannelInputs<'_> {
    fn default() -> Self {
        ChannelInputs {
            collective_channels: 1,
            limits: (1, u32::from(MOST_CHANNELS)),
            ranks: 1,
            nodes: 1,
            paths: &[],
            per_network_peer: None,
            channel_rate: 14.0,
            version: (2, 30),
        }
    }
}

/// Channels of sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Of a rank; a power of two.
    pub all: u16,
    /// At most for one peer; a power of two.
    pub per_peer: u16,
}

/// How many channels sends and receives have.
#[must_use]
pub fn channels(inputs: &ChannelInputs<'_>) -> Channels {
    let (least, most) = inputs.limits;
    let all = inputs.collective_channels.min(most).max(least).max(1);
    let all = all.min(u32::from(MOST_CHANNELS)).next_power_of_two();
    // Before 2.29 the rate of the interface played no part.
    let by_rate = inputs.version >= (2, 29);
    let of_path = |path: &PeerPath| match *path {
        PeerPath::Nvlink { path, link } => 2 * ((path / link) as u32).max(1),
        PeerPath::Host => 2,
        PeerPath::Network { interfaces, rate } => match inputs.per_network_peer {
            Some(forced) => forced.max(1),
            None if by_rate => interfaces.max((rate / inputs.channel_rate).ceil() as u32),
            None => 2,
        },
    };
    let fewest = inputs.paths.iter().map(of_path).min();
    let mut per_peer = fewest.unwrap_or(all).clamp(1, u32::from(MOST_CHANNELS));
    per_peer = per_peer.next_power_of_two().min(all);
    if inputs.nodes > 1 && inputs.per_network_peer.is_none() {
        let crowded = |per_peer: u32| {
            if by_rate {
                per_peer * inputs.ranks.div_ceil(8) > all
            } else {
                per_peer * inputs.ranks > 4 * all
            }
        };
        while per_peer > 1 && crowded(per_peer) {
            per_peer /= 2;
        }
    }
    Channels {
        all: all as u16,
        per_peer: per_peer as u16,
    }
}

/// What the parts of a message depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartInputs {
    /// Channels of the communicator.
    pub channels: Channels,
    /// Its ranks.
    pub ranks: u32,
    /// Its nodes.
    pub nodes: u32,
    /// [`BaseChunks::of`].
    pub base_chunk: u64,
    /// `NCCL_CHUNK_SIZE`, over networks.
    pub forced_chunk: Option<u64>,
    /// Payload of an LL slot (`NCCL_LL_BUFFSIZE`).
    pub ll_slot: u64,
}

/// NCCL's p2p chunks: `NCCL_P2P_NVL_CHUNKSIZE`, `NCCL_P2P_PCI_CHUNKSIZE` and
/// `NCCL_P2P_NET_CHUNKSIZE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseChunks {
    /// In one node, all peers joined by NVLink.
    pub nvlink: u64,
    /// In one node, any of them by PCIe.
    pub pcie: u64,
    /// In several nodes.
    pub network: u64,
}

impl Default for BaseChunks {
    fn default() -> Self {
        BaseChunks {
            nvlink: 512 << 10,
            pcie: 128 << 10,
            network: 128 << 10,
        }
    }
}

impl BaseChunks {
    /// The one that is used: `nvlink` if all peers are joined by it, in one node.
    #[must_use]
    pub fn of(self, nvlink: bool, nodes: u32, cpu: CpuVendor, compute_capability: u32) -> u64 {
        match nodes {
            1 if nvlink => self.nvlink,
            1 => self.pcie,
            _ if cpu == CpuVendor::Arm && compute_capability >= 100 => 2 * self.network,
            _ => self.network,
        }
    }
}

/// How many channels a message of `bytes` (not zero) is cut for, and the bytes of a part;
/// rounding may leave the last of them without any.
#[must_use]
pub fn parts(inputs: &PartInputs, bytes: u64) -> (u16, u64) {
    let most = u32::from(inputs.channels.per_peer);
    let mut fewest = most;
    while fewest > 1 && fewest * inputs.ranks > u32::from(inputs.channels.all) {
        fewest /= 2;
    }
    let base = inputs.base_chunk;
    let (lower, upper) = if inputs.nodes > 1 {
        (base / 2, base)
    } else {
        (base / 8, 32 * base)
    };
    let mut count = u64::from(fewest).min(bytes.div_ceil(lower)).max(1);
    let mut part = lower.max(bytes.div_ceil(count));
    while part > upper && count <= u64::from(most) / 2 {
        count *= 2;
        part = bytes.div_ceil(count);
    }
    let part = bytes.div_ceil(count).next_multiple_of(PART_GRAIN);
    (count as u16, part)
}

/// LL for messages of up to `threshold` bytes a channel (`NCCL_P2P_LL_THRESHOLD`) over connections that have buffers for it: those of networks
/// have none, unless `NCCL_ALLOC_P2P_NET_LL_BUFFERS` is set.
#[must_use]
pub fn protocol(bytes: u64, channels: u16, ll_buffers: bool, threshold: u64) -> ProtocolKind {
    if ll_buffers && bytes <= u64::from(channels) * threshold {
        ProtocolKind::Ll
    } else {
        ProtocolKind::Simple
    }
}

/// The chunk of a message over a network; `NCCL_CHUNK_SIZE` forces it.
#[must_use]
pub fn network_chunk(bytes: u64, base: u64, forced: Option<u64>) -> u64 {
    let chunk = match forced {
        Some(chunk) => chunk,
        None if bytes < base => base / 4,
        None if bytes < 8 * base => base / 2,
        None => base,
    };
    eight_bits(chunk.max(1))
}

/// Chunks travel to the GPU as a number of five bits of exponent and three of mantissa:
/// four significant binary digits are left.
fn eight_bits(value: u64) -> u64 {
    let dropped = value.ilog2().saturating_sub(3);
    value >> dropped << dropped
}

/// How a message of `bytes` (not zero) is cut; `network` if it crosses one.
#[must_use]
pub fn cut(inputs: &PartInputs, bytes: u64, protocol: ProtocolKind, network: bool) -> Cut {
    let (_, part) = parts(inputs, bytes);
    let chunk = if network && protocol == ProtocolKind::Simple {
        network_chunk(bytes, inputs.base_chunk, inputs.forced_chunk)
    } else {
        inputs.base_chunk
    };
    let chunk = match protocol {
        ProtocolKind::Simple => chunk,
        ProtocolKind::Ll | ProtocolKind::Ll128 => chunk.min(inputs.ll_slot),
    };
    Cut { part, chunk }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_collective::Rounds;
    use proptest::prelude::*;

    #[test]
    fn one_node_shifts_by_one_more_each_round() {
        let schedule = Schedule::new(&[8], 8);
        assert_eq!(schedule.group(), 8);
        let to: Vec<u32> = (0..8).map(|round| schedule.to(round, 6)).collect();
        assert_eq!(to, [6, 7, 0, 1, 2, 3, 4, 5]);
        // Round k begins on the channel with k's bits reversed: of 32, 16 apart.
        let first: Vec<u16> = (0..4).map(|r| schedule.first_channel(r, 32)).collect();
        assert_eq!(first, [0, 16, 8, 24]);
    }

    #[test]
    fn groups_come_in_quadratic_order() {
        let schedule = Schedule::new(&[8; 5], 8);
        let groups: Vec<u32> = (0..5).map(|g| schedule.to(8 * g, 0) / 8).collect();
        // 0, 1, 3, 6, 10, 15, 21, 28 modulo 8 without 6, 5 and 7.
        assert_eq!(groups, [0, 1, 3, 2, 4]);
        // All rounds of a group begin on the same channel.
        let first: Vec<u16> = (0..5)
            .map(|g| schedule.first_channel(8 * g + 7, 16))
            .collect();
        assert_eq!(first, [0, 8, 4, 12, 2]);
    }

    #[test]
    fn groups_divide_every_node() {
        assert_eq!(Schedule::new(&[8, 4], 8).group(), 4);
        assert_eq!(Schedule::new(&[6, 6], 8).group(), 2);
        assert_eq!(Schedule::new(&[16, 16], 8).group(), 8);
        assert_eq!(Schedule::new(&[3, 4], 8).group(), 1);
        assert_eq!(Schedule::new(&[72], 8).group(), 72);
    }

    #[test]
    fn an_h100_node_has_32_channels_for_a_peer() {
        let inputs = ChannelInputs {
            collective_channels: 24,
            ranks: 8,
            paths: &[PeerPath::Nvlink {
                path: 370.8,
                link: 20.6,
            }],
            ..ChannelInputs::default()
        };
        let of = channels(&inputs);
        assert_eq!((of.all, of.per_peer), (32, 32));
        let inputs = PartInputs {
            channels: of,
            ranks: 8,
            nodes: 1,
            base_chunk: BaseChunks::default().of(true, 1, CpuVendor::Intel, 90),
            forced_chunk: None,
            ll_slot: 32 << 10,
        };
        assert_eq!(parts(&inputs, 1 << 20), (4, 256 << 10));
        // A part grows to 16 MiB before there are more of them.
        assert_eq!(parts(&inputs, 64 << 20), (4, 16 << 20));
        assert_eq!(parts(&inputs, 128 << 20), (8, 16 << 20));
        assert_eq!(parts(&inputs, 100), (1, 4096));
    }

    /// N, channels, NIC in GB/s, version, channels per peer.
    #[test]
    fn network_peers_share_channels() {
        let cases = [
            (16, 16, 25.0, (2, 28), 2),
            (32, 16, 25.0, (2, 28), 2),
            (128, 16, 25.0, (2, 28), 1),
            (256, 16, 25.0, (2, 28), 1),
            (16, 16, 50.0, (2, 29), 4),
            (256, 16, 50.0, (2, 29), 1),
            (10, 4, 50.0, (2, 29), 2),
            (20, 8, 50.0, (2, 29), 2),
            (40, 16, 50.0, (2, 29), 2),
            (2, 4, 50.0, (2, 29), 4),
            (16, 16, 50.0, (2, 29), 4),
        ];
        for (ranks, all, rate, version, expected) in cases {
            let inputs = ChannelInputs {
                collective_channels: all,
                ranks,
                nodes: 2,
                paths: &[PeerPath::Network {
                    interfaces: 1,
                    rate,
                }],
                version,
                ..ChannelInputs::default()
            };
            let of = channels(&inputs);
            assert_eq!(of.per_peer, expected, "{ranks} ranks, {version:?}");
        }
    }

    #[test]
    fn what_the_caller_forces_is_not_halved() {
        let inputs = ChannelInputs {
            collective_channels: 16,
            ranks: 256,
            nodes: 32,
            paths: &[PeerPath::Network {
                interfaces: 1,
                rate: 50.0,
            }],
            per_network_peer: Some(4),
            ..ChannelInputs::default()
        };
        assert_eq!(channels(&inputs).per_peer, 4);
    }

    #[test]
    fn several_nodes_cut_smaller_parts() {
        let inputs = PartInputs {
            channels: Channels {
                all: 16,
                per_peer: 4,
            },
            ranks: 16,
            nodes: 2,
            base_chunk: BaseChunks::default().of(true, 2, CpuVendor::Intel, 90),
            forced_chunk: None,
            ll_slot: 32 << 10,
        };
        // One channel is the fewest (4 × 16 > 16); parts beyond 128 KiB ask for more.
        assert_eq!(parts(&inputs, 128 << 10), (1, 128 << 10));
        assert_eq!(parts(&inputs, 256 << 10), (2, 128 << 10));
        assert_eq!(parts(&inputs, 1 << 20), (4, 256 << 10));
    }

    #[test]
    fn chunks_of_ll_fit_its_slots() {
        let inputs = PartInputs {
            channels: Channels {
                all: 32,
                per_peer: 32,
            },
            ranks: 8,
            nodes: 1,
            base_chunk: 512 << 10,
            forced_chunk: None,
            ll_slot: 4 << 10,
        };
        let chunk = |kind| cut(&inputs, 16 << 10, kind, false).chunk;
        assert_eq!(chunk(ProtocolKind::Ll), 4 << 10);
        assert_eq!(chunk(ProtocolKind::Simple), 512 << 10);
    }

    #[test]
    fn network_chunks_grow_with_the_message() {
        let base = 128 << 10;
        assert_eq!(network_chunk(100 << 10, base, None), 32 << 10);
        assert_eq!(network_chunk(1 << 19, base, None), 64 << 10);
        assert_eq!(network_chunk(1 << 20, base, None), base);
        assert_eq!(network_chunk(1, base, Some(100_000)), 98_304);
    }

    #[test]
    fn small_messages_use_ll_where_there_are_buffers() {
        assert_eq!(protocol(16 << 10, 1, true, 16 << 10), ProtocolKind::Ll);
        assert_eq!(
            protocol((16 << 10) + 1, 1, true, 16 << 10),
            ProtocolKind::Simple
        );
        assert_eq!(protocol(64, 4, false, 16 << 10), ProtocolKind::Simple);
    }

    proptest! {
        #[test]
        fn every_round_is_a_permutation(sizes in proptest::collection::vec(1u32..10, 1..9)) {
            let schedule = Schedule::new(&sizes, 8);
            let ranks: u32 = sizes.iter().sum();
            prop_assert!(Rounds::new(ranks, schedule.receivers()).is_ok());
        }

        #[test]
        fn parts_cover_a_message(
            bytes in 1u64..(1 << 34),
            per_peer in 0u32..7,
            more in 0u32..7,
            ranks in 1u32..1000,
            nodes in 1u32..3,
        ) {
            let per_peer = 1u16 << per_peer;
            let all = (per_peer << more).min(64).max(per_peer);
            let channels = Channels { all, per_peer };
            let inputs = PartInputs { channels, ranks, nodes, base_chunk: 128 << 10, forced_chunk: None, ll_slot: 32 << 10 };
            let (count, part) = parts(&inputs, bytes);
            prop_assert!(count >= 1 && count <= per_peer);
            prop_assert!(part * u64::from(count) >= bytes);
        }
    }
}
