//! What NCCL's example profiler plugin (NVIDIA/nccl 2.30.7, `plugins/profiler/example`) would have written: a
//! JSON array of trace events a rank, nested by category. Categories, names of events and of what they carry are
//! those of the plugin; its file ends with an empty event and has values without quotes, this one is JSON.
//!
//! Of a collective's record: the group, the operation, kernels by channel, and what the network's proxies sent and
//! received, with each of their steps. Of a job's record, whose communications were simulated before it: groups and
//! operations. Messages that a record leaves out are in no event.

use crate::communication::{Communication, Movement};
use crate::record::{Doing, MessageEnd, Span, Timeline, Track};
use crate::trace::{Events, exact_micros, text};
use crate::training::{JobSpan, JobTimeline, SpanKind};
use crate::{ReportError, write_file};
use fabricsim_units::Time;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// Kinds of events, by their bits in `NCCL_PROFILE_EVENT_MASK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
enum Kind {
    Group = 1,
    Collective = 1 << 1,
    PointToPoint = 1 << 2,
    ProxyOperation = 1 << 3,
    ProxyStep = 1 << 4,
    KernelChannel = 1 << 6,
}

impl Kind {
    const ALL: [Kind; 6] = [
        Kind::Group,
        Kind::Collective,
        Kind::PointToPoint,
        Kind::ProxyOperation,
        Kind::ProxyStep,
        Kind::KernelChannel,
    ];

    const fn category(self) -> &'static str {
        match self {
            Kind::Group => "GROUP_API",
            Kind::Collective => "COLL",
            Kind::PointToPoint => "P2P",
            Kind::ProxyOperation => "PROXY",
            Kind::ProxyStep => "NET",
            Kind::KernelChannel => "GPU",
        }
    }
}

/// Bits of events that no simulation has, and what they are.
const WITHOUT_EVENTS: [(u32, &str); 5] = [
    (1 << 5, "the proxy thread's own states (32)"),
    (1 << 7, "network plugins (128)"),
    (1 << 9, "calls of collectives (512)"),
    (1 << 10, "calls of sends and receives (1024)"),
    (1 << 11, "launches of kernels (2048)"),
];

/// Which events are wanted: `NCCL_PROFILE_EVENT_MASK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventMask(pub u32);

impl EventMask {
    /// The variable.
    pub const VARIABLE: &'static str = "NCCL_PROFILE_EVENT_MASK";

    fn has(self, kind: Kind) -> bool {
        let bits = match kind {
            // The plugin writes calls of groups; a simulated group is one call.
            Kind::Group => kind as u32 | 1 << 8,
            _ => kind as u32,
        };
        self.0 & bits != 0
    }

    /// Those of the wanted events that no simulation has.
    #[must_use]
    pub fn without_events(self) -> Vec<&'static str> {
        let wanted = WITHOUT_EVENTS.iter().filter(|(bit, _)| self.0 & bit != 0);
        wanted.map(|(_, what)| *what).collect()
    }
}

impl Default for EventMask {
    /// All events that a simulation has.
    fn default() -> Self {
        EventMask(Kind::ALL.into_iter().fold(0, |all, kind| all | kind as u32))
    }
}

/// What an event carries.
enum Carried {
    Number(u64),
    Text(String),
}

/// An event, from when to when.
struct Event {
    kind: Kind,
    name: &'static str,
    from: Time,
    to: Time,
    carries: Vec<(&'static str, Carried)>,
}

/// Writes `rank-N.json` into `folder`, which is there, for each recorded rank of a collective.
///
/// # Errors
/// A file that cannot be written.
pub fn write_collective(
    timeline: &Timeline,
    mask: EventMask,
    folder: &Path,
) -> Result<(), ReportError> {
    let messages = Messages::of(timeline);
    for track in &timeline.ranks {
        let events = of_rank(timeline, track.rank, &messages);
        write_rank(
            folder,
            &format!("rank-{}.json", track.rank),
            track.rank,
            mask,
            events,
        )?;
    }
    Ok(())
}

/// The same for each recorded rank of a job; for the second job on its GPU `rank-N-2.json`.
///
/// # Errors
/// A file that cannot be written.
pub fn write_job(
    timeline: &JobTimeline,
    mask: EventMask,
    folder: &Path,
) -> Result<(), ReportError> {
    for (index, (rank, ..)) in timeline.ranks.iter().enumerate() {
        let own = timeline
            .spans
            .iter()
            .filter(|span| span.rank as usize == index && span.kind == SpanKind::Communication);
        let events = (0..).zip(own).flat_map(|(number, span)| {
            let of = timeline.communication(span);
            of.map_or_else(Vec::new, |of| of_task(span, of, (number, *rank)))
        });
        let name = match timeline.jobs_before(index) {
            0 => format!("rank-{rank}.json"),
            before => format!("rank-{rank}-{}.json", before + 1),
        };
        write_rank(folder, &name, *rank, mask, events.collect())?;
    }
    Ok(())
}

/// What a group's call carries; no group is inside another.
fn group_of(number: u64) -> Vec<(&'static str, Carried)> {
    vec![
        ("groupApiId", Carried::Number(number)),
        ("groupDepth", Carried::Number(1)),
    ]
}

/// A communicator's hash (FNV-1a of its name), which tells it from others.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A simulation counts bytes.
fn count_of(bytes: u64) -> [(&'static str, Carried); 2] {
    [
        ("Count", Carried::Number(bytes)),
        ("Datatype", Carried::Text("ncclUint8".to_owned())),
    ]
}

/// A communication of a job: its group, and the operation in that.
fn of_task(span: &JobSpan, of: &Communication, (number, rank): (u64, u32)) -> Vec<Event> {
    let (from, to) = (span.came, span.end);
    let group = Event {
        kind: Kind::Group,
        name: "Group API",
        from,
        to,
        carries: group_of(number),
    };
    let mut carries = vec![
        ("SeqNum", Carried::Number(number)),
        ("CommHash", Carried::Number(hash(&of.group))),
        ("Rank", Carried::Number(rank.into())),
    ];
    carries.extend(count_of(span.bytes.get()));
    let (kind, name) = match span.message {
        Some(end) if end.sends => (Kind::PointToPoint, "Send"),
        Some(_) => (Kind::PointToPoint, "Recv"),
        None => (kind_of(of.movement), nccl_name(of.movement)),
    };
    carries.extend(choice(of));
    let operation = Event {
        kind,
        name,
        from,
        to,
        carries,
    };
    vec![group, operation]
}

/// Sends and receives of one message, with the span on the network if it goes over that.
#[derive(Clone, Copy)]
struct Sent<'t> {
    from: MessageEnd,
    to: MessageEnd,
    /// The proxy's span in which its bytes are on the network.
    network: Option<&'t Span>,
    /// What the sender's thread block does for it, and the receiver's.
    blocks: [Option<&'t Span>; 2],
}

/// All recorded messages, by sender and by receiver.
struct Messages<'t>(Vec<Sent<'t>>);

impl<'t> Messages<'t> {
    fn of(timeline: &'t Timeline) -> Self {
        let mut moving: BTreeMap<(u32, Track), Vec<&Span>> = BTreeMap::new();
        let moves = |span: &&Span| matches!(span.doing, Doing::Moves(_));
        for span in timeline.spans.iter().filter(moves) {
            moving
                .entry((span.rank, span.track))
                .or_default()
                .push(span);
        }
        let span = |end: &MessageEnd| {
            let all = moving.get(&(end.rank, end.track))?;
            let before = all.partition_point(|span| span.start <= end.at);
            let mut last = all[..before].iter().rev();
            last.find(|span| end.at < span.end).copied()
        };
        let sent = |ends: &smallvec::SmallVec<[MessageEnd; 3]>| {
            let (from, to) = (*ends.first()?, *ends.last()?);
            let proxy = ends.iter().find(|end| matches!(end.track, Track::Proxy(_)));
            Some(Sent {
                from,
                to,
                network: proxy.and_then(span),
                blocks: [span(&from), span(&to)],
            })
        };
        Messages(timeline.messages.iter().filter_map(sent).collect())
    }

    /// Those of a rank, by direction, channel and peer.
    fn by_peer(&self, rank: u32) -> BTreeMap<(&'static str, u16, u32), Vec<Sent<'t>>> {
        let mut all: BTreeMap<_, Vec<Sent<'t>>> = BTreeMap::new();
        for sent in &self.0 {
            if sent.from.rank == rank {
                let key = ("Send", channel(sent.from.track), sent.to.rank);
                all.entry(key).or_default().push(*sent);
            }
            if sent.to.rank == rank {
                let key = ("Recv", channel(sent.to.track), sent.from.rank);
                all.entry(key).or_default().push(*sent);
            }
        }
        all
    }
}

const fn channel(track: Track) -> u16 {
    match track {
        Track::Worker(channel, _) | Track::Proxy(channel) => channel,
    }
}

/// The events of one rank in a collective.
fn of_rank(timeline: &Timeline, rank: u32, messages: &Messages<'_>) -> Vec<Event> {
    let mut channels: BTreeMap<u16, (Time, Time)> = BTreeMap::new();
    for span in timeline.spans.iter().filter(|span| span.rank == rank) {
        if let (Track::Worker(channel, _), false) = (span.track, span.doing == Doing::Finished) {
            let (from, to) = channels.entry(channel).or_insert((span.start, span.end));
            (*from, *to) = ((*from).min(span.start), (*to).max(span.end));
        }
    }
    let from = channels.values().map(|(from, _)| *from).min();
    let to = channels.values().map(|(_, to)| *to).max();
    let (Some(from), Some(to)) = (from, to) else {
        return Vec::new();
    };
    let mut events = vec![event(Kind::Group, "Group API", (from, to), group_of(0))];
    let peers = messages.by_peer(rank);
    match &timeline.operation {
        Some(of) if kind_of(of.movement) == Kind::PointToPoint => {
            events.extend(sends_and_receives(rank, &peers));
        }
        Some(of) => {
            let mut carries = vec![
                ("SeqNum", Carried::Number(0)),
                ("Rank", Carried::Number(rank.into())),
            ];
            carries.extend(choice(of));
            carries.push(("nChannels", Carried::Number(channels.len() as u64)));
            let kind = Kind::Collective;
            events.push(event(kind, nccl_name(of.movement), (from, to), carries));
        }
        None => {}
    }
    for (channel, (from, to)) in channels {
        let carries = vec![
            ("Channel", Carried::Number(channel.into())),
            ("StartGpuClk", Carried::Number(from.picos() / 1000)),
            ("StopGpuClk", Carried::Number(to.picos() / 1000)),
        ];
        events.push(event(Kind::KernelChannel, "KernelCh", (from, to), carries));
    }
    for ((name, channel, peer), sent) in &peers {
        events.extend(proxy(name, (*channel, *peer), sent));
    }
    events
}

/// One send and one receive a peer, over all channels.
fn sends_and_receives(
    rank: u32,
    peers: &BTreeMap<(&'static str, u16, u32), Vec<Sent<'_>>>,
) -> Vec<Event> {
    let mut all: BTreeMap<(&'static str, u32), (Time, Time)> = BTreeMap::new();
    for ((name, _, peer), sent) in peers {
        for one in sent {
            let block = one.blocks[usize::from(*name == "Recv")];
            let Some(block) = block else { continue };
            let (from, to) = all.entry((name, *peer)).or_insert((block.start, block.end));
            (*from, *to) = ((*from).min(block.start), (*to).max(block.end));
        }
    }
    let one = |((name, peer), during): ((&'static str, u32), (Time, Time))| {
        let carries = vec![
            ("Rank", Carried::Number(rank.into())),
            ("Peer", Carried::Number(peer.into())),
        ];
        event(Kind::PointToPoint, name, during, carries)
    };
    all.into_iter().map(one).collect()
}

/// What a proxy did for one peer, and its steps: messages on the network.
fn proxy(name: &'static str, (channel, peer): (u16, u32), sent: &[Sent<'_>]) -> Vec<Event> {
    let mut steps: Vec<&Span> = sent.iter().filter_map(|sent| sent.network).collect();
    steps.sort_by_key(|span| (span.start, span.end));
    let (Some(first), Some(last)) = (steps.first(), steps.iter().map(|s| s.end).max()) else {
        return Vec::new();
    };
    let bytes: u64 = steps.iter().map(|span| span.bytes.get()).sum();
    let largest = steps.iter().map(|span| span.bytes.get()).max().unwrap_or(0);
    let carries = vec![
        ("Channel", Carried::Number(channel.into())),
        ("Peer", Carried::Number(peer.into())),
        ("Steps", Carried::Number(steps.len() as u64)),
        ("ChunkSize", Carried::Number(largest)),
        ("transSize", Carried::Number(bytes)),
    ];
    let (progress, waits) = match name {
        "Send" => ("ProgressSend", "SendWait"),
        _ => ("ProgressRecv", "RecvWait"),
    };
    let during = (first.start, last);
    let mut events = vec![event(Kind::ProxyOperation, progress, during, carries)];
    events.extend((0..).zip(&steps).map(|(number, span)| {
        let carries = vec![("Step", Carried::Number(number))];
        event(Kind::ProxyStep, waits, (span.start, span.end), carries)
    }));
    events
}

fn event(
    kind: Kind,
    name: &'static str,
    (from, to): (Time, Time),
    carries: Vec<(&'static str, Carried)>,
) -> Event {
    Event {
        kind,
        name,
        from,
        to,
        carries,
    }
}

/// Algorithm and protocol, as NCCL writes them.
fn choice(of: &Communication) -> Vec<(&'static str, Carried)> {
    let written = |name: &str| Carried::Text(name.to_uppercase().replace('-', "_"));
    match of.algorithm.is_empty() {
        true => Vec::new(),
        false => vec![
            ("Algorithm", written(&of.algorithm)),
            ("Protocol", written(&of.protocol)),
        ],
    }
}

/// NCCL makes sends and receives of these.
const fn kind_of(movement: Movement) -> Kind {
    match movement {
        Movement::AllToAll | Movement::Gather | Movement::Scatter | Movement::SendReceive => {
            Kind::PointToPoint
        }
        _ => Kind::Collective,
    }
}

const fn nccl_name(movement: Movement) -> &'static str {
    match movement {
        Movement::AllReduce => "AllReduce",
        Movement::AllGather => "AllGather",
        Movement::ReduceScatter => "ReduceScatter",
        Movement::Broadcast => "Broadcast",
        Movement::Reduce => "Reduce",
        Movement::AllToAll => "AlltoAll",
        Movement::Gather => "Gather",
        Movement::Scatter => "Scatter",
        Movement::SendReceive => "SendRecv",
    }
}

fn write_rank(
    folder: &Path,
    name: &str,
    rank: u32,
    mask: EventMask,
    events: Vec<Event>,
) -> Result<(), ReportError> {
    let wanted = events.into_iter().filter(|event| mask.has(event.kind));
    let mut bytes = Vec::new();
    write_events(rank, wanted, &mut bytes).map_err(|source| ReportError::Json {
        what: "a rank's events",
        source: serde_json::Error::io(source),
    })?;
    write_file(&folder.join(name), &bytes)
}

/// Each event as its beginning and its end.
fn write_events(rank: u32, all: impl Iterator<Item = Event>, out: &mut Vec<u8>) -> io::Result<()> {
    out.write_all(b"[")?;
    let mut events = Events::inside(&mut *out);
    for (id, event) in all.enumerate() {
        let category = event.kind.category();
        for (phase, at) in [("b", event.from), ("e", event.to)] {
            events.next()?;
            write!(
                events.out,
                "{{\"name\":\"{}\",\"cat\":\"{category}\",\"ph\":\"{phase}\",\"id\":{id},\"pid\":{rank},\"tid\":1,\"ts\":{}",
                event.name,
                exact_micros(at)
            )?;
            if phase == "b" {
                carried(&mut events.out, &event.carries)?;
            }
            events.out.write_all(b"}")?;
        }
    }
    out.write_all(b"\n]\n")
}

fn carried(out: &mut impl Write, all: &[(&'static str, Carried)]) -> io::Result<()> {
    out.write_all(b",\"args\":{")?;
    for (index, (key, value)) in all.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}\"{key}\":")?;
        match value {
            Carried::Number(number) => write!(out, "{number}")?,
            Carried::Text(words) => text(out, words)?,
        }
    }
    out.write_all(b"}")
}
