//! The file: `algo > gpu > tb > step`, attributes only.

use super::MscclError;
use crate::goal::Collective;
use roxmltree::{Document, Node};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// An algorithm as it is written.
pub(super) struct File {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) collective: Collective,
    pub(super) in_place: bool,
    pub(super) channels: u16,
    pub(super) chunks: u32,
    /// From `minBytes` to `maxBytes`, of which 0 is no limit.
    pub(super) sizes: RangeInclusive<u64>,
    pub(super) gpus: Vec<Gpu>,
}

pub(super) struct Gpu {
    pub(super) blocks: Vec<Block>,
    /// Chunks of its input, output and scratch memory.
    pub(super) chunks: [u32; 3],
}

/// A thread block.
pub(super) struct Block {
    pub(super) line: u32,
    pub(super) send: Option<u32>,
    pub(super) recv: Option<u32>,
    pub(super) channel: u16,
    pub(super) steps: Vec<FileStep>,
}

#[derive(Clone, Copy)]
pub(super) struct FileStep {
    pub(super) line: u32,
    pub(super) kind: Kind,
    pub(super) source: Place,
    pub(super) target: Place,
    pub(super) count: u32,
    /// Thread block and step that it waits for.
    pub(super) after: Option<(u32, u32)>,
}

/// A chunk of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) memory: Memory,
    pub(super) chunk: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Memory {
    Input,
    Output,
    Scratch,
}

impl Memory {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Memory::Input => "input",
            Memory::Output => "output",
            Memory::Scratch => "scratch",
        }
    }
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Recv,
    RecvCopySend,
    RecvReduceSend,
    RecvReduceCopy,
    RecvReduceCopySend,
    Reduce,
    Copy,
    Nop,
}

const KINDS: [(&str, Kind); 9] = [
    ("s", Kind::Send),
    ("r", Kind::Recv),
    ("rcs", Kind::RecvCopySend),
    ("rrs", Kind::RecvReduceSend),
    ("rrc", Kind::RecvReduceCopy),
    ("rrcs", Kind::RecvReduceCopySend),
    ("re", Kind::Reduce),
    ("cpy", Kind::Copy),
    ("nop", Kind::Nop),
];

const COLLECTIVES: [(&str, Collective); 8] = [
    ("allreduce", Collective::AllReduce),
    ("allgather", Collective::AllGather),
    ("reducescatter", Collective::ReduceScatter),
    ("alltoall", Collective::AllToAll),
    ("broadcast", Collective::Broadcast),
    ("reduce", Collective::Reduce),
    ("gather", Collective::Gather),
    ("scatter", Collective::Scatter),
];

const MEMORIES: [(&str, Memory); 3] = [
    ("i", Memory::Input),
    ("o", Memory::Output),
    ("s", Memory::Scratch),
];

impl Kind {
    pub(super) const fn receives(self) -> bool {
        matches!(
            self,
            Kind::Recv
                | Kind::RecvCopySend
                | Kind::RecvReduceSend
                | Kind::RecvReduceCopy
                | Kind::RecvReduceCopySend
        )
    }

    pub(super) const fn sends(self) -> bool {
        matches!(
            self,
            Kind::Send | Kind::RecvCopySend | Kind::RecvReduceSend | Kind::RecvReduceCopySend
        )
    }

    pub(super) const fn reads(self) -> bool {
        !matches!(self, Kind::Recv | Kind::RecvCopySend | Kind::Nop)
    }

    pub(super) const fn writes(self) -> bool {
        !matches!(self, Kind::Send | Kind::RecvReduceSend | Kind::Nop)
    }
}

/// The most chunks, ranks and channels that are believed: more is a slip of the pen.
const MOST: u32 = 1 << 20;

pub(super) fn read(text: &str) -> Result<File, MscclError> {
    let document = Document::parse(text).map_err(|error| MscclError::Xml(error.to_string()))?;
    let breaks: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let algo = Element {
        breaks: &breaks,
        node: document.root_element(),
    };
    algo.expect("algo")?;
    let ranks: u32 = algo.number("ngpus", 1, MOST)?;
    let collective = algo.one_of("coll", &COLLECTIVES)?;
    let chunks: u32 = algo.number("nchunksperloop", 1, MOST)?;
    let channels: u32 = algo.number("nchannels", 1, 1024)?;
    let by_rank = matches!(
        collective,
        Collective::AllGather
            | Collective::ReduceScatter
            | Collective::AllToAll
            | Collective::Gather
            | Collective::Scatter
    );
    if by_rank && !chunks.is_multiple_of(ranks) {
        return Err(algo.wrong(
            format!("nchunksperloop=\"{chunks}\" for {ranks} ranks' blocks"),
            format!("a multiple of {ranks}"),
        ));
    }
    let mut gpus: BTreeMap<u32, Gpu> = BTreeMap::new();
    let mut moved = Moved(0);
    for gpu in algo.children("gpu")? {
        let id = gpu.number("id", 0, ranks - 1)?;
        if gpus.contains_key(&id) {
            return Err(gpu.wrong(format!("a second gpu {id}"), "each rank once"));
        }
        gpus.insert(
            id,
            read_gpu(gpu, id, Limits { ranks, channels }, &mut moved)?,
        );
    }
    if gpus.len() != ranks as usize {
        return Err(algo.wrong(
            format!("{} gpu elements", gpus.len()),
            format!("one for each of {ranks} ranks"),
        ));
    }
    let bytes = |name| algo.optional::<u64>(name, 0, u64::MAX);
    let most = bytes("maxBytes")?.filter(|&most| most > 0);
    let least = bytes("minBytes")?.unwrap_or(0);
    Ok(File {
        sizes: least..=most.unwrap_or(u64::MAX),
        name: algo.text("name").unwrap_or_default().to_owned(),
        protocol: algo.text("proto").unwrap_or("Simple").to_owned(),
        collective,
        in_place: algo.optional("inplace", 0, 1)?.unwrap_or(0) == 1,
        channels: channels as u16,
        chunks,
        gpus: gpus.into_values().collect(),
    })
}

/// What the file says of all of its ranks.
#[derive(Clone, Copy)]
struct Limits {
    ranks: u32,
    channels: u32,
}

/// Chunks that steps have moved so far.
struct Moved(u64);

impl Moved {
    /// Each chunk of each step is followed one by one: more would take minutes before anything is said of them.
    const MOST: u64 = 1 << 22;

    fn add(&mut self, step: Element<'_, '_>, read: &FileStep) -> Result<(), MscclError> {
        self.0 += u64::from(read.count);
        if self.0 <= Moved::MOST {
            return Ok(());
        }
        let found = format!("steps up to here that move {} chunks", self.0);
        Err(step.wrong(found, format!("at most {} in all steps", Moved::MOST)))
    }
}

fn read_gpu(
    gpu: Element<'_, '_>,
    id: u32,
    limits: Limits,
    moved: &mut Moved,
) -> Result<Gpu, MscclError> {
    let Limits { ranks, channels } = limits;
    let chunks = [
        gpu.number("i_chunks", 0, MOST)?,
        gpu.number("o_chunks", 0, MOST)?,
        gpu.number("s_chunks", 0, MOST)?,
    ];
    let mut blocks: Vec<Block> = Vec::new();
    for tb in gpu.children("tb")? {
        let number: u32 = tb.number("id", 0, MOST)?;
        if number as usize != blocks.len() {
            return Err(tb.wrong(
                format!("thread block {number}"),
                format!("number {}: they come in order, without a gap", blocks.len()),
            ));
        }
        let peer = |name: &str| -> Result<Option<u32>, MscclError> {
            let peer: i64 = tb.number(name, -1, i64::from(ranks) - 1)?;
            if peer == i64::from(id) {
                return Err(tb.wrong(format!("{name}=\"{peer}\""), "another rank, or -1"));
            }
            Ok(u32::try_from(peer).ok())
        };
        let (send, recv) = (peer("send")?, peer("recv")?);
        let channel: u32 = tb.number("chan", 0, channels - 1)?;
        let mut steps: Vec<FileStep> = Vec::new();
        for step in tb.children("step")? {
            let number: u32 = step.number("s", 0, MOST)?;
            if number as usize != steps.len() {
                return Err(step.wrong(
                    format!("step {number}"),
                    format!("number {}: they come in order, without a gap", steps.len()),
                ));
            }
            let read = read_step(step)?;
            moved.add(step, &read)?;
            for (used, peer, name) in [
                (read.kind.sends(), send, "send"),
                (read.kind.receives(), recv, "recv"),
            ] {
                if used && peer.is_none() {
                    return Err(step.wrong(
                        format!("a step that needs a peer in a thread block with {name}=\"-1\""),
                        format!("a rank in {name}"),
                    ));
                }
            }
            steps.push(read);
        }
        blocks.push(Block {
            line: tb.line(),
            send,
            recv,
            channel: channel as u16,
            steps,
        });
    }
    Ok(Gpu { blocks, chunks })
}

fn read_step(step: Element<'_, '_>) -> Result<FileStep, MscclError> {
    let kind = step.one_of("type", &KINDS)?;
    // A side that is not used may be absent, or -1.
    let place = |used: bool, memory: &str, chunk: &str| {
        if !used {
            if step.text(memory).is_some() {
                step.one_of(memory, &MEMORIES)?;
            }
            step.optional(chunk, -1, i64::from(MOST))?;
            let memory = Memory::Input;
            return Ok(Place { memory, chunk: 0 });
        }
        Ok(Place {
            memory: step.one_of(memory, &MEMORIES)?,
            chunk: step.number(chunk, 0, MOST)?,
        })
    };
    let source = place(kind.reads(), "srcbuf", "srcoff")?;
    let target = place(kind.writes(), "dstbuf", "dstoff")?;
    let count = match kind {
        Kind::Nop => {
            step.optional("cnt", -1, i64::from(MOST))?;
            0
        }
        _ => step.number("cnt", 1, MOST)?,
    };
    // Whether others wait for it, which their `depid` and `deps` say, too.
    step.optional("hasdep", 0, 1)?;
    let block: i64 = step.optional("depid", -1, i64::from(MOST))?.unwrap_or(-1);
    let after: i64 = step.optional("deps", -1, i64::from(MOST))?.unwrap_or(-1);
    let after = match (u32::try_from(block), u32::try_from(after)) {
        (Ok(block), Ok(after)) => Some((block, after)),
        (Err(_), Err(_)) => None,
        _ => {
            return Err(step.wrong(
                format!("depid=\"{block}\" with deps=\"{after}\""),
                "both, or -1 for both",
            ));
        }
    };
    Ok(FileStep {
        line: step.line(),
        kind,
        source,
        target,
        count,
        after,
    })
}

/// An element, and where the lines of its document end: every step keeps its line, so that none is counted from
/// the beginning of the text.
#[derive(Clone, Copy)]
struct Element<'d, 'i> {
    breaks: &'d [usize],
    node: Node<'d, 'i>,
}

impl<'d, 'i> Element<'d, 'i> {
    fn line(&self) -> u32 {
        let start = self.node.range().start;
        self.breaks.partition_point(|&at| at < start) as u32 + 1
    }

    fn wrong(&self, found: impl Into<String>, expected: impl Into<String>) -> MscclError {
        MscclError::at(self.line(), found, expected)
    }

    fn expect(&self, name: &str) -> Result<(), MscclError> {
        let found = self.node.tag_name().name();
        if found == name {
            return Ok(());
        }
        Err(self.wrong(format!("<{found}>"), format!("<{name}>")))
    }

    /// The elements inside, all of that name.
    fn children(&self, name: &str) -> Result<Vec<Element<'d, 'i>>, MscclError> {
        let inside = self.node.children().filter(Node::is_element);
        inside
            .map(|node| {
                let element = Element { node, ..*self };
                element.expect(name).map(|()| element)
            })
            .collect()
    }

    fn text(&self, name: &str) -> Option<&'d str> {
        self.node.attribute(name)
    }

    fn number<T>(&self, name: &str, least: T, most: T) -> Result<T, MscclError>
    where
        T: FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        let missing = || {
            let tag = self.node.tag_name().name();
            self.wrong(
                format!("<{tag}> without {name}"),
                format!("a number from {least} to {most}"),
            )
        };
        self.optional(name, least, most)?.ok_or_else(missing)
    }

    fn optional<T>(&self, name: &str, least: T, most: T) -> Result<Option<T>, MscclError>
    where
        T: FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(value) if least <= value && value <= most => Ok(Some(value)),
            _ => Err(self.wrong(
                format!("{name}=\"{text}\""),
                format!("a number from {least} to {most}"),
            )),
        }
    }

    fn one_of<T: Copy>(&self, name: &str, all: &[(&str, T)]) -> Result<T, MscclError> {
        let text = self.text(name);
        let known = all.iter().find(|(word, _)| Some(*word) == text);
        known.map(|&(_, value)| value).ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
            let found = match text {
                Some(text) => format!("{name}=\"{text}\""),
                None => format!("<{}> without {name}", self.node.tag_name().name()),
            };
            self.wrong(found, format!("one of {}", words.join(", ")))
        })
    }
}
