//! What messages pass on their way: the crossbar alone, or switches that add up and copy.

use fabricsim_collective::{ConnId, HeadsProgram, HopKind, Program, Role, Transfer, Worker};
use fabricsim_collective::{Piece, verify::sum};
use fabricsim_report::explanation::{Switch, SwitchOperation};
use fabricsim_units::Time;

/// How the messages of a connection travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    /// From one rank to another.
    Direct,
    /// Not at all: both ends are of one rank.
    Inside,
    /// Into the NVSwitches of a node, which add up what its ranks have for one of them. The
    /// connection of the first of these ranks stands for the sum.
    Reduced { node: u32, first: bool },
    /// Out of the NVSwitches of a node, which copy to its ranks what one of them sends. The
    /// connection to the first of these ranks stands for what is sent.
    Copied { node: u32, first: bool },
    /// Into the network's switches.
    ToNetwork,
    /// Out of the network's switches, which have added up.
    FromNetwork,
}

/// The passages of a program whose ranks add up by themselves inside nodes.
pub(super) fn between_ranks(program: &dyn Program) -> Vec<Passage> {
    let passage = |id| {
        let ends = program.connection(ConnId(id));
        let (from, to) = (program.worker(ends.from), program.worker(ends.to));
        match (from.role, to.role) {
            (Role::Switch, _) => Passage::FromNetwork,
            (_, Role::Switch) => Passage::ToNetwork,
            _ if from.rank == to.rank => Passage::Inside,
            _ => Passage::Direct,
        }
    };
    (0..program.connections()).map(passage).collect()
}

/// The passages of a program with heads, of nodes with so many ranks, in which NVSwitches add up and
/// copy.
pub(super) fn through_switches(program: &HeadsProgram, local: u32) -> Vec<Passage> {
    let passage = |id| {
        let ends = program.connection(ConnId(id));
        let node = program.worker(ends.from).rank.0 / local;
        match program.kind(ends) {
            HopKind::ToHead { first } => Passage::Reduced { node, first },
            HopKind::FromHead { first } => Passage::Copied { node, first },
            HopKind::Network => Passage::Direct,
            HopKind::ToSwitch { .. } => Passage::ToNetwork,
            HopKind::FromSwitch { .. } => Passage::FromNetwork,
        }
    };
    (0..program.connections()).map(passage).collect()
}

/// One end of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Rank(u32),
    Switch(Switch),
}

impl End {
    pub(super) fn rank(self) -> Option<u32> {
        match self {
            End::Rank(rank) => Some(rank),
            End::Switch(_) => None,
        }
    }

    pub(super) fn switch(self) -> Option<Switch> {
        match self {
            End::Rank(_) => None,
            End::Switch(switch) => Some(switch),
        }
    }
}

/// What goes over a port in one step, for one purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) operation: Option<SwitchOperation>,
    /// Which of several trees or channels it belongs to.
    pub(super) channel: u16,
    pub(super) pieces: Vec<Piece>,
    /// When the first of it begins, and when all of it has arrived.
    pub(super) when: (Time, Time),
}

impl Sent {
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|p| p.len).sum()
    }
}

/// What the switches of a node add up for one of its workers.
struct Sum {
    to: Worker,
    node: u32,
    pieces: Vec<Piece>,
    when: (Time, Time),
}

/// What the transfers of one step, each with its time, are on the ports of ranks and switches, sorted
/// by their ends.
pub(super) fn sent(
    transfers: &[Transfer],
    times: &[(Time, Time)],
    passages: &[Passage],
) -> Vec<Sent> {
    let mut out = Vec::new();
    // What switches add up, by the worker that it is for.
    let mut sums: Vec<Sum> = Vec::new();
    for (transfer, &when) in transfers.iter().zip(times) {
        let channel = transfer.from.channel;
        let mut put = |ends, operation| {
            put(
                &mut out,
                (ends, channel),
                operation,
                (&transfer.pieces, when),
            )
        };
        let (from, to) = (
            End::Rank(transfer.from.rank.0),
            End::Rank(transfer.to.rank.0),
        );
        let network = End::Switch(Switch::Network);
        let pieces = &transfer.pieces;
        match passages[transfer.conn.index()] {
            Passage::Direct => put((from, to), None),
            Passage::Inside => {}
            Passage::Reduced { node, .. } => {
                let switch = End::Switch(Switch::Node(node));
                put((from, switch), Some(SwitchOperation::LoadReduce));
                match sums.iter_mut().find(|s| s.to == transfer.to) {
                    Some(known) => {
                        known.pieces = sum(&known.pieces, pieces);
                        known.when = join(known.when, when);
                    }
                    None => sums.push(Sum {
                        to: transfer.to,
                        node,
                        pieces: pieces.clone(),
                        when,
                    }),
                }
            }
            Passage::Copied { node, first } => {
                let switch = End::Switch(Switch::Node(node));
                if first {
                    put((from, switch), Some(SwitchOperation::Multicast));
                }
                put((switch, to), Some(SwitchOperation::Multicast));
            }
            Passage::ToNetwork => {
                put((from, network), Some(SwitchOperation::InNetwork));
            }
            Passage::FromNetwork => {
                put((network, to), Some(SwitchOperation::InNetwork));
            }
        }
    }
    for sum in sums {
        let from = End::Switch(Switch::Node(sum.node));
        let ends = (from, End::Rank(sum.to.rank.0));
        let operation = Some(SwitchOperation::LoadReduce);
        let ends = (ends, sum.to.channel);
        put(&mut out, ends, operation, (&sum.pieces, sum.when));
    }
    out.sort_by_key(|s| (s.operation, s.from, s.to));
    out
}

/// Puts what goes the same way through switches for the same purpose together.
fn put(
    out: &mut Vec<Sent>,
    ((from, to), channel): ((End, End), u16),
    operation: Option<SwitchOperation>,
    (pieces, when): (&[Piece], (Time, Time)),
) {
    let same =
        |s: &&mut Sent| operation.is_some() && (s.from, s.to, s.operation) == (from, to, operation);
    match out.iter_mut().find(same) {
        Some(sent) => {
            sent.pieces.extend_from_slice(pieces);
            sent.when = join(sent.when, when);
        }
        None => out.push(Sent {
            from,
            to,
            operation,
            channel,
            pieces: pieces.to_vec(),
            when,
        }),
    }
}

/// From the begin of the first to the end of the last.
fn join(a: (Time, Time), b: (Time, Time)) -> (Time, Time) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// What ports move.
pub(super) struct Ports {
    /// The bytes of the busiest port of each step, in all.
    pub(super) busiest: u64,
    /// Bytes that each rank sends.
    pub(super) out: Vec<u64>,
    /// Bytes that each rank receives.
    pub(super) into: Vec<u64>,
}

/// What the ports of ranks move in these steps.
pub(super) fn ports(steps: &[Vec<Sent>], ranks: u32) -> Ports {
    let none = vec![0; ranks as usize];
    let mut ports = Ports {
        busiest: 0,
        out: none.clone(),
        into: none.clone(),
    };
    for step in steps {
        let (mut out, mut into) = (none.clone(), none.clone());
        for sent in step {
            if let End::Rank(rank) = sent.from {
                out[rank as usize] += sent.bytes();
            }
            if let End::Rank(rank) = sent.to {
                into[rank as usize] += sent.bytes();
            }
        }
        ports.busiest += out.iter().chain(&into).max().copied().unwrap_or(0);
        let all = ports.out.iter_mut().zip(&out);
        all.chain(ports.into.iter_mut().zip(&into))
            .for_each(|(all, step)| *all += step);
    }
    ports
}
