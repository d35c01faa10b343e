//! The time that no algorithm can beat on a machine: what must cross its narrowest cut.
//!
//! A cut is a partition of the devices. Whatever the algorithm, the ranks inside a part have to
//! send and receive a number of bytes that follows from the operation alone ([`need`]), over links
//! that follow from the machine alone ([`partition`]). The bound is the largest, over many
//! partitions, of these bytes by what the links carry. It depends neither on what NCCL chooses nor
//! on what variables forbid, nor on the faults of a scenario: links that are slow or gone carry less,
//! so what holds for the healthy machine holds with faults, too. Latency, protocols and software are
//! not part of it.
//!
//! There are two values. Where switches between the parts can sum and copy (NVSwitches that
//! multicast, network switches with SHARP), S bytes out of and into every part are enough for an
//! all-reduce; without, the k parts have to send 2 (k-1) S in all (one message an element to gather
//! it from each of the others, one to spread it; Patarasuk & Yuan 2009). All other collectives need
//! the same with such switches as without: what a part must receive, or send, is new to it.

mod join;
mod need;
mod partition;

use fabricsim_collective::{Collective, Matrix};
use fabricsim_topology::{DeviceId, Topology};
use fabricsim_units::{Bandwidth, Bytes, Time};
use partition::Partition;

/// What is to be done: all that a bound depends on, but for the machine.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'m> {
    /// The collective.
    pub collective: Collective,
    /// nccl-tests' size.
    pub bytes: u64,
    /// Of an all-to-all-v; an even one if absent.
    pub matrix: Option<&'m Matrix>,
}

/// The devices that a cut separates from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CutKind {
    /// One GPU: its own ports.
    Gpu,
    /// The GPUs that NVLinks join: their ports to PCIe or to CPUs.
    NvlinkGroup,
    /// What is below one PCIe switch, or several that are joined without a CPU.
    PcieSwitch,
    /// What is attached to one CPU (socket or NUMA node).
    Socket,
    /// A node.
    Node,
    /// The nodes that NVLinks join.
    NvlinkDomain,
    /// The nodes below leaf switches that they share, with these.
    Leaves,
    /// The nodes that the network's lower two tiers join, with these.
    Pod,
    /// A group of a dragonfly, with its nodes.
    SwitchGroup,
}

impl CutKind {
    /// Every kind, from the smallest parts to the largest.
    pub const ALL: [CutKind; 9] = [
        CutKind::Gpu,
        CutKind::NvlinkGroup,
        CutKind::PcieSwitch,
        CutKind::Socket,
        CutKind::Node,
        CutKind::NvlinkDomain,
        CutKind::Leaves,
        CutKind::Pod,
        CutKind::SwitchGroup,
    ];
}

/// Which way the bytes of a cut go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Out of one part.
    Out,
    /// Into one part.
    Into,
    /// Between all parts.
    Between,
}

/// What limits an operation on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// What it is around.
    pub kind: CutKind,
    /// Which way the bytes go.
    pub direction: Direction,
    /// The first rank's GPU inside the part; of the first part, if the bytes go between all.
    pub inside: DeviceId,
    /// What has to cross it.
    pub needs: Bytes,
    /// What its links carry together.
    pub carries: Bandwidth,
}

impl Cut {
    /// How long the bytes take. Rounded down, so that rounding puts no bound above a time; but no
    /// bound is zero.
    #[must_use]
    pub fn time(&self) -> Time {
        let picos = u128::from(self.needs.get()) * 1_000_000_000_000;
        let picos = picos / u128::from(self.carries.bytes_per_sec().max(1));
        Time::from_picos(u64::try_from(picos).unwrap_or(u64::MAX).max(1))
    }

    /// Whether its bytes take longer than those of another one, by less than a picosecond perhaps.
    fn takes_longer_than(&self, other: &Cut) -> bool {
        let product =
            |a: &Cut, b: &Cut| u128::from(a.needs.get()) * u128::from(b.carries.bytes_per_sec());
        product(self, other) > product(other, self)
    }
}

/// What no algorithm can beat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// With sums and copies in switches, where the machine's can; `None` if nothing has to move.
    pub in_switches: Option<Cut>,
    /// With sums in GPUs alone.
    pub plain: Option<Cut>,
}

/// The cuts of a machine around the GPUs of an operation's ranks; they serve operations of all
/// kinds and sizes.
#[derive(Debug, Clone)]
pub struct Cuts {
    partitions: Vec<Partition>,
}

impl Cuts {
    /// The cuts around `gpus`, the ranks' in order. `network_inside`: transports between GPUs of one
    /// node may go through its network interfaces (in NCCL where host memory is forbidden,
    /// `NCCL_SHM_DISABLE=1`); else these serve between nodes only.
    #[must_use]
    pub fn of(topology: &Topology, gpus: &[DeviceId], network_inside: bool) -> Self {
        Cuts {
            partitions: partition::all(topology, gpus, network_inside),
        }
    }

    /// The bounds of an operation. All zero bytes, or one rank alone, have none.
    #[must_use]
    pub fn bounds(&self, operation: Operation<'_>) -> Bounds {
        let mut bounds = Bounds::default();
        for partition in &self.partitions {
            for need in need::of(partition, operation) {
                keep(&mut bounds.plain, need.cut);
                if need.despite_switches {
                    keep(&mut bounds.in_switches, need.cut);
                }
            }
        }
        bounds
    }
}

/// The cut that takes longer; the first of those that take as long.
fn keep(longest: &mut Option<Cut>, cut: Cut) {
    if cut.needs == Bytes::ZERO || cut.carries.bytes_per_sec() == 0 {
        return;
    }
    if longest.is_none_or(|known| cut.takes_longer_than(&known)) {
        *longest = Some(cut);
    }
}
