//! The program that runs scripts.

use super::layout::Units;
use super::script::{Operation, Script, Span};
use crate::goal::Collective;
use crate::program::{
    After, Buffer, ConnId, Connection, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use crate::ring::Part;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A collective by an algorithm of message passing.
#[derive(Debug, Clone, Hash)]
pub struct MessageProgram {
    collective: Collective,
    bytes: u64,
    ranks: u32,
    parts: Vec<Part>,
    /// How each channel's part is cut; channels with parts of the same size share it.
    shapes: Vec<Shape>,
    shape_of: Vec<u16>,
    /// Operations of each rank's sender, then of its receiver: `bounds[2 * rank + side]`
    /// and the next.
    bounds: Vec<u32>,
    entries: Vec<Entry>,
    /// Ends of links: connection `link * channels + channel`.
    links: Vec<(u32, u32)>,
    /// Where each channel's scratch memory begins, and where the last one's ends.
    scratch: Vec<u64>,
}

#[derive(Debug, Clone, Hash)]
struct Shape {
    units: Units,
    /// Chunks before each entry, and of all.
    begins: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Entry {
    /// The link that it sends into or receives from.
    link: Option<u32>,
    source: Option<Span>,
    target: Option<Span>,
    /// The other side's last entry before it whose bytes it needs or overwrites.
    after: Option<u32>,
}

impl Entry {
    fn spans(&self) -> [Option<Span>; 2] {
        [self.source, self.target]
    }
}

/// Senders and receivers.
const SIDES: u32 = 2;

impl MessageProgram {
    /// Runs `script(rank)` on every rank; a vector is cut in so many `segments`.
    pub(super) fn new(
        collective: Collective,
        bytes: u64,
        ranks: u32,
        parts: Vec<Part>,
        segments: u32,
        script: &dyn Fn(u32) -> Script,
    ) -> Self {
        assert!(ranks > 0, "somebody takes part");
        assert!(parts.iter().all(|p| p.chunk > 0), "chunks hold something");
        let scripts: Vec<Script> = (0..ranks).map(script).collect();
        let mut links: Vec<(u32, u32)> = (0..ranks)
            .zip(&scripts)
            .flat_map(|(rank, script)| {
                script.operations.iter().filter_map(move |o| match *o {
                    Operation::Send { to, .. } => Some((rank, to)),
                    _ => None,
                })
            })
            .collect();
        links.sort_unstable();
        links.dedup();
        let link = |from: u32, to: u32| {
            let found = links.binary_search(&(from, to));
            Some(found.expect("whoever receives is sent to") as u32)
        };
        let mut bounds = vec![0];
        let mut entries = Vec::new();
        for (rank, script) in (0..ranks).zip(&scripts) {
            let [senders, receivers] = sides(script, |operation| match *operation {
                Operation::Send { to, .. } => link(rank, to),
                Operation::Receive { from, .. } => link(from, rank),
                Operation::Copy { .. } => None,
            });
            for side in [senders, receivers] {
                entries.extend(side);
                bounds.push(entries.len() as u32);
            }
        }
        // The other side's entries were counted from its own first one.
        for rank in 0..ranks as usize {
            let [send, receive, end] = [2 * rank, 2 * rank + 1, 2 * rank + 2].map(|b| bounds[b]);
            for entry in &mut entries[send as usize..receive as usize] {
                entry.after = entry.after.map(|a| a + receive);
            }
            for entry in &mut entries[receive as usize..end as usize] {
                entry.after = entry.after.map(|a| a + send);
            }
        }
        let vector = matches!(
            collective,
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce
        );
        let block = bytes / u64::from(ranks);
        let block_by_block = scripts.iter().any(|s| s.block_by_block);
        let mut shapes: Vec<Shape> = Vec::new();
        let mut shape_of = Vec::with_capacity(parts.len());
        let mut scratch = vec![0];
        let scratch_units = entries
            .iter()
            .flat_map(Entry::spans)
            .flatten()
            .filter(|s| s.buffer == Buffer::Scratch)
            .map(|s| s.first + s.count)
            .max();
        for part in &parts {
            let units = if vector {
                Units::of_vector(part, segments)
            } else {
                Units::of_blocks(part, block, block_by_block)
            };
            let known = shapes.iter().position(|s| s.units == units);
            shape_of.push(known.unwrap_or_else(|| {
                shapes.push(Shape::new(units, &entries));
                shapes.len() - 1
            }) as u16);
            let before = scratch.last().copied().unwrap_or(0);
            scratch.push(before + units.before(scratch_units.unwrap_or(0)));
        }
        MessageProgram {
            collective,
            bytes,
            ranks,
            parts,
            shapes,
            shape_of,
            bounds,
            entries,
            links,
            scratch,
        }
    }

    fn channels(&self) -> u32 {
        self.parts.len() as u32
    }

    /// A worker's entries.
    fn entries_of(&self, worker: WorkerId) -> (usize, usize) {
        let rank = worker.0 / SIDES / self.channels();
        let side = worker.0 % SIDES;
        let at = (rank * SIDES + side) as usize;
        (self.bounds[at] as usize, self.bounds[at + 1] as usize)
    }

    fn shape(&self, channel: u16) -> &Shape {
        &self.shapes[usize::from(self.shape_of[usize::from(channel)])]
    }

    /// How far the other side must be for the bytes before `end` of `entry`.
    fn after(&self, worker: WorkerId, shape: &Shape, entry: &Entry, end: u64) -> Option<After> {
        let other = WorkerId(worker.0 ^ 1);
        let index = entry.after? as usize;
        let before = &self.entries[index];
        // A sender needs what was stored, a receiver overwrites what is being sent.
        let (own, theirs) = if worker.0.is_multiple_of(SIDES) {
            (entry.source?, before.target?)
        } else {
            (entry.target?, before.source?)
        };
        let until = shape.units.before(own.first) + end;
        let from = shape.units.before(theirs.first);
        let to = shape.units.before(theirs.first + theirs.count);
        let needed = until.clamp(from, to) - from;
        let (first, _) = self.entries_of(other);
        let steps = shape.begins[index] - shape.begins[first]
            + shape.units.chunks_until(before.spans(), needed);
        (steps > 0).then_some(After {
            worker: other,
            steps: steps as u32,
        })
    }
}

impl Shape {
    fn new(units: Units, entries: &[Entry]) -> Self {
        let mut begins = Vec::with_capacity(entries.len() + 1);
        let mut total = 0;
        for entry in entries {
            begins.push(total);
            total += units.chunks(entry.spans());
        }
        begins.push(total);
        Shape { units, begins }
    }
}

/// The entries of a rank's sender and of its receiver, with what each has to wait for.
fn sides(script: &Script, link: impl Fn(&Operation) -> Option<u32>) -> [Vec<Entry>; 2] {
    let (mut senders, mut receivers): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
    let mut stored = Last::default();
    let mut sent = Last::default();
    for operation in &script.operations {
        let link = link(operation);
        match *operation {
            Operation::Send { source, .. } => {
                sent.note(source, senders.len() as u32);
                senders.push(Entry {
                    link,
                    source: Some(source),
                    target: None,
                    after: stored.of(source),
                });
            }
            Operation::Receive {
                addend: source,
                target,
                ..
            } => {
                stored.note(target, receivers.len() as u32);
                receivers.push(Entry {
                    link,
                    source,
                    target: Some(target),
                    after: sent.of(target),
                });
            }
            Operation::Copy { source, target } => {
                stored.note(target, receivers.len() as u32);
                receivers.push(Entry {
                    link,
                    source: Some(source),
                    target: Some(target),
                    after: sent.of(target),
                });
            }
        }
    }
    [senders, receivers]
}

/// Which entry last touched each unit of output and scratch memory.
#[derive(Default)]
struct Last([Vec<Option<u32>>; 2]);

impl Last {
    fn units(&mut self, span: Span) -> &mut [Option<u32>] {
        let units = match span.buffer {
            // Nobody writes there: nothing to wait for.
            Buffer::Input => return &mut [],
            Buffer::Output => &mut self.0[0],
            Buffer::Scratch => &mut self.0[1],
        };
        let end = (span.first + span.count) as usize;
        if units.len() < end {
            units.resize(end, None);
        }
        &mut units[span.first as usize..end]
    }

    fn note(&mut self, span: Span, entry: u32) {
        self.units(span).fill(Some(entry));
    }

    fn of(&mut self, span: Span) -> Option<u32> {
        self.units(span).iter().copied().flatten().max()
    }
}

impl Program for MessageProgram {
    fn collective(&self) -> Collective {
        self.collective
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn workers(&self) -> u32 {
        self.ranks * self.channels() * SIDES
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let block = id.0 / SIDES;
        let role = if id.0.is_multiple_of(SIDES) {
            Role::Send
        } else {
            Role::Receive
        };
        Worker {
            rank: Rank(block / self.channels()),
            channel: (block % self.channels()) as u16,
            role,
        }
    }

    fn connections(&self) -> u32 {
        self.links.len() as u32 * self.channels()
    }

    fn connection(&self, id: ConnId) -> Connection {
        let (from, to) = self.links[(id.0 / self.channels()) as usize];
        let channel = id.0 % self.channels();
        let worker =
            |rank: u32, side: u32| WorkerId((rank * self.channels() + channel) * SIDES + side);
        Connection {
            from: worker(from, 0),
            to: worker(to, 1),
        }
    }

    fn fingerprint(&self) -> Option<u64> {
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        Some(hasher.finish())
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let begins = &self.shape(self.worker(worker).channel).begins;
        let (first, end) = self.entries_of(worker);
        begins[end] - begins[first]
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let Worker { channel, role, .. } = self.worker(worker);
        let shape = self.shape(channel);
        let (first, end) = self.entries_of(worker);
        let own = &shape.begins[first..end];
        let due = own[0] + index;
        let at = first + own.partition_point(|&b| b <= due) - 1;
        let entry = &self.entries[at];
        let (from, to) = shape.units.chunk(entry.spans(), due - shape.begins[at]);
        let peers = entry.link.map_or(Peers::NONE, |link| {
            Peers::one(ConnId(link * self.channels() + u32::from(channel)))
        });
        let base = self.parts[usize::from(channel)].offset;
        let scratch = self.scratch[usize::from(channel)];
        let place = |span: Span| shape.units.at(span, from, base, scratch);
        let (recv, send) = match role {
            Role::Send => (Peers::NONE, peers),
            _ => (peers, Peers::NONE),
        };
        Step {
            recv,
            send,
            source: entry.source.map(place),
            target: entry.target.map(place),
            len: to - from,
            after: self.after(worker, shape, entry, to),
            ..Step::NOTHING
        }
    }

    fn scratch(&self, _rank: Rank) -> u64 {
        self.scratch.last().copied().unwrap_or(0)
    }
}
