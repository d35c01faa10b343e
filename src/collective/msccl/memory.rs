//! Follows the data through one pass of a file's program: pairs sends with receives, finds
//! where each step's data really lies, and what is left to be copied at the end.

use super::MscclError;
use super::xml::{Block, File, FileStep, Gpu, Kind, Memory, Place};
use crate::goal::{Collective, ROOT};
use crate::program::Buffer;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A rank's thread blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RankBlocks(pub(super) Vec<ResolvedBlock>);

/// A thread block; one more than the file says may copy what stays in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedBlock {
    pub(super) channel: u16,
    pub(super) send: Option<u32>,
    pub(super) recv: Option<u32>,
    pub(super) steps: Vec<ResolvedStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResolvedStep {
    pub(super) sends: bool,
    pub(super) receives: bool,
    /// Buffer and chunk.
    pub(super) source: Option<(Buffer, u32)>,
    pub(super) addend: Option<(Buffer, u32)>,
    pub(super) target: Option<(Buffer, u32)>,
    /// Chunks; none: it only waits.
    pub(super) count: u32,
    /// Thread block and step that it waits for.
    pub(super) after: Option<(u32, u32)>,
}

pub(super) struct Resolved {
    pub(super) ranks: Vec<RankBlocks>,
    pub(super) scratch: u32,
    pub(super) together: bool,
}

/// The sizes of buffers, in chunks, and which of them are one.
struct Shape {
    collective: Collective,
    in_place: bool,
    chunks: u32,
    /// Chunks of a rank's block.
    block: u32,
}

impl Shape {
    fn input(&self, rank: u32) -> u32 {
        match self.collective {
            Collective::AllGather | Collective::Gather => self.block,
            Collective::Broadcast | Collective::Scatter if rank != ROOT.0 => 0,
            _ => self.chunks,
        }
    }

    fn output(&self, rank: u32) -> u32 {
        match self.collective {
            Collective::ReduceScatter | Collective::Scatter => self.block,
            Collective::Reduce | Collective::Gather if rank != ROOT.0 => 0,
            _ => self.chunks,
        }
    }

    /// The same chunk of the larger of two buffers that are one.
    fn whole(&self, rank: u32, place: Place) -> Place {
        if !self.in_place {
            return place;
        }
        let shifted = |memory| Place {
            memory,
            chunk: place.chunk + rank * self.block,
        };
        match (self.collective, place.memory) {
            (_, Memory::Scratch) => place,
            (Collective::AllGather | Collective::Gather, Memory::Input) => shifted(Memory::Output),
            (Collective::ReduceScatter | Collective::Scatter, Memory::Output) => {
                shifted(Memory::Input)
            }
            (
                Collective::AllGather
                | Collective::Gather
                | Collective::ReduceScatter
                | Collective::Scatter,
                _,
            ) => place,
            (_, _) => Place {
                memory: Memory::Output,
                ..place
            },
        }
    }

    /// The chunk of the input that a place holds before it is written.
    fn initial(&self, rank: u32, place: Place) -> Option<u32> {
        let chunk = match (place.memory, self.collective) {
            (Memory::Input, _) => place.chunk,
            (Memory::Output, Collective::AllGather | Collective::Gather) if self.in_place => {
                place.chunk.checked_sub(rank * self.block)?
            }
            (Memory::Output, _) if self.in_place => place.chunk,
            _ => return None,
        };
        (chunk < self.input(rank)).then_some(chunk)
    }

    /// Where a place is when it is written, input being read only: of input that is
    /// no output, in scratch memory after the file's own `scratch` chunks.
    fn written(&self, rank: u32, place: Place, scratch: u32) -> (Buffer, u32) {
        match place.memory {
            Memory::Output if place.chunk < self.output(rank) => (Buffer::Output, place.chunk),
            Memory::Scratch => (Buffer::Scratch, place.chunk),
            Memory::Input if self.in_place && self.output(rank) == self.block => {
                match place.chunk.checked_sub(rank * self.block) {
                    Some(own) if own < self.block => (Buffer::Output, own),
                    _ => (Buffer::Scratch, scratch + place.chunk),
                }
            }
            Memory::Input | Memory::Output => (Buffer::Scratch, scratch + place.chunk),
        }
    }
}

/// One rank's memory on the way.
struct RankMemory<'s> {
    shape: &'s Shape,
    rank: u32,
    own_scratch: u32,
    written: BTreeSet<Place>,
    most_scratch: u32,
}

impl RankMemory<'_> {
    fn read(&self, place: Place, line: u32) -> Result<(Buffer, u32), MscclError> {
        let whole = self.shape.whole(self.rank, place);
        if self.written.contains(&whole) {
            return Ok(self.shape.written(self.rank, whole, self.own_scratch));
        }
        match self.shape.initial(self.rank, whole) {
            Some(chunk) => Ok((Buffer::Input, chunk)),
            None => Err(MscclError::at(
                line,
                format!(
                    "rank {} reads chunk {} of its {}, which is not written yet",
                    self.rank,
                    place.chunk,
                    place.memory.name()
                ),
                "data",
            )),
        }
    }

    fn write(&mut self, place: Place) -> (Buffer, u32) {
        let whole = self.shape.whole(self.rank, place);
        self.written.insert(whole);
        let at = self.shape.written(self.rank, whole, self.own_scratch);
        if at.0 == Buffer::Scratch {
            self.most_scratch = self.most_scratch.max(at.1 + 1);
        }
        at
    }
}

/// The chunks of `count` from `place` on.
fn chunks(place: Place, count: u32) -> impl Iterator<Item = Place> {
    (0..count).map(move |k| Place {
        chunk: place.chunk + k,
        ..place
    })
}

/// The chunks' real places, if they lie together: the first of them; and if they do.
fn gather(places: &[(Buffer, u32)]) -> (Option<(Buffer, u32)>, bool) {
    let first = places.first().copied();
    let together = places
        .windows(2)
        .all(|w| w[0].0 == w[1].0 && w[0].1 + 1 == w[1].1);
    (first, together)
}

pub(super) fn resolve(file: &File) -> Result<Resolved, MscclError> {
    let shape = Shape {
        collective: file.collective,
        in_place: file.in_place,
        chunks: file.chunks,
        block: file.chunks / file.gpus.len() as u32,
    };
    check_pairs(file)?;
    let mut run = Walk {
        file,
        queues: BTreeMap::new(),
        memories: file
            .gpus
            .iter()
            .enumerate()
            .map(|(rank, gpu)| RankMemory {
                shape: &shape,
                rank: rank as u32,
                own_scratch: gpu.chunks[2],
                written: BTreeSet::new(),
                most_scratch: gpu.chunks[2],
            })
            .collect(),
        together: true,
        done: file.gpus.iter().map(|g| vec![0; g.blocks.len()]).collect(),
        ranks: file.gpus.iter().map(empty_blocks).collect(),
    };
    run.all(&shape)?;
    run.keep_what_stays(&shape);
    let scratch = run.memories.iter().map(|m| m.most_scratch).max();
    Ok(Resolved {
        scratch: scratch.unwrap_or(0),
        together: run.together,
        ranks: run.ranks,
    })
}

fn empty_blocks(gpu: &Gpu) -> RankBlocks {
    let empty = |block: &Block| ResolvedBlock {
        channel: block.channel,
        send: block.send,
        recv: block.recv,
        steps: Vec::new(),
    };
    RankBlocks(gpu.blocks.iter().map(empty).collect())
}

/// Checks that each connection has one thread block at each end.
fn check_pairs(file: &File) -> Result<(), MscclError> {
    let mut senders = BTreeMap::new();
    let mut receivers = BTreeMap::new();
    for (rank, gpu) in file.gpus.iter().enumerate() {
        let rank = rank as u32;
        for block in &gpu.blocks {
            let ends = [
                (block.send.map(|to| (rank, to, block.channel)), &mut senders),
                (
                    block.recv.map(|from| (from, rank, block.channel)),
                    &mut receivers,
                ),
            ];
            for (key, known) in ends {
                let Some(key) = key else { continue };
                if known.insert(key, block.line).is_some() {
                    return Err(MscclError::at(
                        block.line,
                        format!(
                            "a second thread block for rank {} to rank {} on channel {}",
                            key.0, key.1, key.2
                        ),
                        "one at each end",
                    ));
                }
            }
        }
    }
    for (ends, others, missing) in [
        (&senders, &receivers, "receives"),
        (&receivers, &senders, "sends"),
    ] {
        if let Some((key, &line)) = ends.iter().find(|(key, _)| !others.contains_key(key)) {
            return Err(MscclError::at(
                line,
                format!(
                    "no thread block {missing} from rank {} to rank {} on channel {}",
                    key.0, key.1, key.2
                ),
                "one at each end",
            ));
        }
    }
    Ok(())
}

struct Walk<'f, 's> {
    file: &'f File,
    /// Messages on their way, by sender, receiver and channel: their chunks, and the line that sent them.
    queues: BTreeMap<(u32, u32, u16), VecDeque<(u32, u32)>>,
    memories: Vec<RankMemory<'s>>,
    together: bool,
    done: Vec<Vec<usize>>,
    ranks: Vec<RankBlocks>,
}

impl Walk<'_, '_> {
    fn all(&mut self, shape: &Shape) -> Result<(), MscclError> {
        let file = self.file;
        loop {
            let mut went_on = false;
            for (rank, gpu) in file.gpus.iter().enumerate() {
                for (number, block) in gpu.blocks.iter().enumerate() {
                    while let Some(step) = block.steps.get(self.done[rank][number]) {
                        if !self.step(shape, rank, number, step)? {
                            break;
                        }
                        self.done[rank][number] += 1;
                        went_on = true;
                    }
                }
            }
            if !went_on {
                break;
            }
        }
        for (rank, gpu) in file.gpus.iter().enumerate() {
            for (number, block) in gpu.blocks.iter().enumerate() {
                if let Some(step) = block.steps.get(self.done[rank][number]) {
                    return Err(MscclError::at(
                        step.line,
                        format!("rank {rank}, thread block {number} waits here for ever"),
                        "data or a step that somebody provides",
                    ));
                }
            }
        }
        let mut left = self
            .queues
            .iter()
            .filter_map(|(k, q)| Some((k, q.front()?)));
        if let Some((key, &(_, line))) = left.next() {
            return Err(MscclError::at(
                line,
                format!(
                    "nobody receives what rank {} sends to rank {}",
                    key.0, key.1
                ),
                "a receive for every send",
            ));
        }
        Ok(())
    }

    /// Takes a step, if it can be taken now.
    fn step(
        &mut self,
        shape: &Shape,
        rank: usize,
        number: usize,
        step: &FileStep,
    ) -> Result<bool, MscclError> {
        let gpu = &self.file.gpus[rank];
        let block = &gpu.blocks[number];
        if let Some((other, after)) = step.after {
            let exists = gpu.blocks.get(other as usize);
            if exists.is_none_or(|b| b.steps.len() <= after as usize) {
                return Err(MscclError::at(
                    step.line,
                    format!("step {after} of thread block {other}, which does not exist"),
                    "a step of this gpu",
                ));
            }
            if self.done[rank][other as usize] <= after as usize {
                return Ok(false);
            }
        }
        if let (true, Some(from)) = (step.kind.receives(), block.recv) {
            let queue = self.queues.entry((from, rank as u32, block.channel));
            let Some((count, line)) = queue.or_default().pop_front() else {
                return Ok(false);
            };
            if count != step.count {
                return Err(MscclError::at(
                    step.line,
                    format!("receives {} chunks; line {line} sends {count}", step.count),
                    "as many",
                ));
            }
        }
        for (used, place) in [
            (step.kind.reads(), step.source),
            (step.kind.writes(), step.target),
        ] {
            if used {
                check_bounds(shape, gpu, rank as u32, place, step)?;
            }
        }
        let resolved = self.resolve(rank, step)?;
        self.ranks[rank].0[number].steps.push(resolved);
        if let (true, Some(to)) = (step.kind.sends(), block.send) {
            let queue = self.queues.entry((rank as u32, to, block.channel));
            queue.or_default().push_back((step.count, step.line));
        }
        Ok(true)
    }

    fn resolve(&mut self, rank: usize, step: &FileStep) -> Result<ResolvedStep, MscclError> {
        let memory = &mut self.memories[rank];
        let mut read = |used: bool, place: Place| -> Result<Option<(Buffer, u32)>, MscclError> {
            if !used {
                return Ok(None);
            }
            let at: Result<Vec<_>, _> = chunks(place, step.count)
                .map(|p| memory.read(p, step.line))
                .collect();
            let (first, together) = gather(&at?);
            self.together &= together;
            Ok(first)
        };
        let mut source = read(step.kind.reads(), step.source)?;
        let addend = read(step.kind == Kind::Reduce, step.target)?;
        let mut target = None;
        if step.kind.writes() {
            let at: Vec<_> = chunks(step.target, step.count)
                .map(|p| memory.write(p))
                .collect();
            let (first, together) = gather(&at);
            self.together &= together;
            target = first;
        }
        if step.kind == Kind::Nop {
            // What it waits for has surely touched something that can be read.
            let touched = step.after.and_then(|(block, step)| {
                let steps = &self.ranks[rank].0[block as usize].steps;
                let before = steps.get(step as usize)?;
                before.target.or(before.source)
            });
            source = touched;
        }
        Ok(ResolvedStep {
            sends: step.kind.sends(),
            receives: step.kind.receives(),
            source,
            addend,
            target,
            count: step.count,
            after: step.after,
        })
    }

    /// In place, some output is there from the start: out of place it must be copied.
    fn keep_what_stays(&mut self, shape: &Shape) {
        if !shape.in_place {
            return;
        }
        for (memory, blocks) in self.memories.iter().zip(&mut self.ranks) {
            let rank = memory.rank;
            let steps: Vec<ResolvedStep> = (0..shape.output(rank))
                .filter_map(|chunk| {
                    let place = Place {
                        memory: Memory::Output,
                        chunk,
                    };
                    let whole = shape.whole(rank, place);
                    if memory.written.contains(&whole) {
                        return None;
                    }
                    Some(ResolvedStep {
                        sends: false,
                        receives: false,
                        source: Some((Buffer::Input, shape.initial(rank, whole)?)),
                        addend: None,
                        target: Some((Buffer::Output, chunk)),
                        count: 1,
                        after: None,
                    })
                })
                .collect();
            if !steps.is_empty() {
                blocks.0.push(ResolvedBlock {
                    channel: 0,
                    send: None,
                    recv: None,
                    steps,
                });
            }
        }
    }
}

fn check_bounds(
    shape: &Shape,
    gpu: &Gpu,
    rank: u32,
    place: Place,
    step: &FileStep,
) -> Result<(), MscclError> {
    let declared = gpu.chunks[place.memory as usize];
    // In place, files name either buffer by its own or by the common size.
    let most = match place.memory {
        Memory::Input if !shape.in_place => declared.min(shape.input(rank)),
        Memory::Output if !shape.in_place => declared.min(shape.output(rank)),
        Memory::Input | Memory::Output => declared.min(shape.chunks),
        Memory::Scratch => declared,
    };
    let end = place.chunk + step.count;
    if end <= most {
        return Ok(());
    }
    Err(MscclError::at(
        step.line,
        format!(
            "chunks {}..{end} of rank {rank}'s {}, which has {most}",
            place.chunk,
            place.memory.name()
        ),
        "chunks inside it",
    ))
}
