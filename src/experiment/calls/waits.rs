//! Who waits for whom, once none can go on.

use super::meet::{Host, Issued, Met, Operation, Progress, Ways, Work};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// Ranks that wait for the same.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub(super) ranks: Vec<u32>,
    /// What they are in.
    pub(super) inside: Inside,
    /// When the process called it, and since when the GPU is in it: of the first of them.
    pub(super) called: Time,
    pub(super) since: Time,
    /// For whom, and what those do instead.
    pub(super) absent: Vec<(Vec<u32>, Instead)>,
    /// Operations of the communicator that the first of them has started, and that are over.
    pub(super) enqueued: u32,
    pub(super) completed: u32,
}

/// What a rank is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Inside {
    /// An operation of a communicator, with its number there and its size.
    Operation {
        name: &'static str,
        on: usize,
        number: u32,
        bytes: u64,
        /// It is the registration of a window: nothing runs on the GPU.
        on_host: bool,
    },
    /// A send to a rank, or a receive from it.
    Message {
        sends: bool,
        with: u32,
        on: usize,
        bytes: u64,
    },
    /// A barrier of hosts, which may take so long.
    Monitored { on: usize, timeout: Time },
}

/// What a rank that others wait for does instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Instead {
    /// It is dead since.
    Crashed(Time),
    /// It is in the operation of the same number, which is another one.
    Differs(Inside),
    /// It comes that much after the first one.
    Late(Time),
    /// It calls nothing more.
    Ended,
    /// It is in something else.
    Elsewhere(Inside),
}

impl Inside {
    pub(super) const fn on(&self) -> usize {
        match self {
            Inside::Operation { on, .. }
            | Inside::Message { on, .. }
            | Inside::Monitored { on, .. } => *on,
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        match self {
            Inside::Operation { bytes, .. } | Inside::Message { bytes, .. } => *bytes,
            Inside::Monitored { .. } => 0,
        }
    }

    /// For people: `all-reduce 3 of world`.
    pub(super) fn text(&self, names: &[String]) -> String {
        match self {
            Inside::Operation {
                on, on_host: true, ..
            } => format!("registering a window with {}", names[*on]),
            Inside::Operation {
                name, on, number, ..
            } => format!("{name} {number} of {}", names[*on]),
            Inside::Message {
                sends: true, with, ..
            } => format!("a send to rank {with}"),
            Inside::Message { with, .. } => format!("a receive from rank {with}"),
            Inside::Monitored { on, .. } => format!("a monitored barrier of {}", names[*on]),
        }
    }
}

/// What some ranks do in place of coming.
type Absent = (Instead, Vec<u32>);

/// What each rank waits for, if it does: those that wait alike together.
pub(super) fn waits(ways: Ways<'_>, met: &Met) -> Vec<Wait> {
    let mut all: BTreeMap<(Inside, Vec<Absent>), Wait> = BTreeMap::new();
    for (rank, me) in (0..).zip(&met.ranks) {
        for (inside, called, since) in insides(me) {
            let mut absent: BTreeMap<Instead, Vec<u32>> = BTreeMap::new();
            for other in needed(ways, rank, &inside) {
                if let Some(instead) = instead(ways, met, (&inside, called), other) {
                    absent.entry(instead).or_default().push(other);
                }
            }
            let key: Vec<Absent> = absent.into_iter().collect();
            let on = inside.on();
            let wait = all
                .entry((inside.clone(), key.clone()))
                .or_insert_with(|| Wait {
                    ranks: Vec::new(),
                    inside,
                    called,
                    since,
                    absent: key
                        .into_iter()
                        .map(|(instead, ranks)| (ranks, instead))
                        .collect(),
                    enqueued: me.enqueued[on],
                    completed: me.completed[on],
                });
            wait.ranks.push(rank);
            wait.called = wait.called.min(called);
            wait.since = wait.since.min(since);
        }
    }
    // Who comes late has no one to wait for.
    let mut all: Vec<Wait> = all
        .into_values()
        .filter(|wait| !wait.absent.is_empty())
        .collect();
    all.sort_by_key(|wait| wait.ranks.first().copied());
    all
}

/// What a rank is in: with when the process called it, and since when it is in it.
fn insides(me: &Progress) -> Vec<(Inside, Time, Time)> {
    let mut found = Vec::new();
    if !matches!(me.host, Host::Crashed(_)) {
        for stream in &me.streams {
            let (Some(issued), Some(start)) = (stream.queue.front(), stream.start()) else {
                continue;
            };
            let insides = of_issued(issued).into_iter();
            found.extend(insides.map(|inside| (inside, issued.at, start)));
        }
    }
    if let Host::Monitored { on, timeout } = me.host {
        found.push((Inside::Monitored { on, timeout }, me.clock, me.clock));
    }
    found
}

fn of_issued(issued: &Issued) -> Vec<Inside> {
    match &issued.work {
        Work::Operation(operation) => vec![of_operation(operation, issued.number)],
        Work::Messages(list) => {
            let open = list.iter().filter(|(_, done)| done.is_none());
            let of = |(message, _): &(super::meet::Message, Option<Time>)| Inside::Message {
                sends: message.sends,
                with: message.with,
                on: message.on,
                bytes: message.bytes,
            };
            open.map(of).collect()
        }
    }
}

fn of_operation(operation: &Operation, number: u32) -> Inside {
    Inside::Operation {
        name: operation.what.name(),
        on: operation.on,
        number,
        bytes: operation.bytes,
        on_host: operation.what == super::meet::What::Register,
    }
}

/// Whom a rank needs for what it is in.
fn needed(ways: Ways<'_>, rank: u32, inside: &Inside) -> Vec<u32> {
    match inside {
        Inside::Message { with, .. } => vec![*with],
        Inside::Operation { on, .. } | Inside::Monitored { on, .. } => {
            let members = ways.members[*on].iter().copied();
            members.filter(|&other| other != rank).collect()
        }
    }
}

/// What another rank does instead of coming; `None` if it is there.
fn instead(
    ways: Ways<'_>,
    met: &Met,
    (inside, called): (&Inside, Time),
    other: u32,
) -> Option<Instead> {
    let them = &met.ranks[other as usize];
    if let Inside::Monitored { on, .. } = inside {
        return match them.host {
            Host::Monitored { on: own, .. } if own == *on => {
                let late = them.clock.saturating_sub(called);
                (late > ways.timeout).then_some(Instead::Late(late))
            }
            _ => Some(elsewhere(them)),
        };
    }
    let on = inside.on();
    let stream = &them.streams[ways.stream(on)];
    let Some(issued) = stream.queue.front() else {
        return Some(elsewhere(them));
    };
    let theirs = of_issued(issued);
    match inside {
        Inside::Message { sends, .. } => {
            let mate = theirs.iter().find(|mate| {
                matches!(mate, Inside::Message { sends: other, on: own, .. } if other != sends && *own == on)
            });
            match mate {
                Some(mate) => Some(Instead::Differs(mate.clone())),
                None => Some(elsewhere(them)),
            }
        }
        _ if theirs.contains(inside) => {
            let late = issued.at.saturating_sub(called);
            (late > ways.timeout).then_some(Instead::Late(late))
        }
        _ => match theirs.into_iter().next() {
            Some(own @ Inside::Operation { .. }) if own.on() == on => Some(Instead::Differs(own)),
            Some(own) => Some(Instead::Elsewhere(own)),
            None => Some(elsewhere(them)),
        },
    }
}

/// What a rank does that is not at the head of the stream in question.
fn elsewhere(them: &Progress) -> Instead {
    if let Host::Crashed(at) = them.host {
        return Instead::Crashed(at);
    }
    match insides(them).into_iter().next() {
        Some((inside, _, _)) => Instead::Elsewhere(inside),
        None => Instead::Ended,
    }
}

/// Why it hangs, in a sentence without its end.
pub(super) fn why(waits: &[Wait], names: &[String]) -> String {
    // What is at the bottom of it: death, then what differs, then who does not come.
    let weight = |instead: &Instead| match instead {
        Instead::Crashed(_) => 0,
        Instead::Differs(_) => 1,
        Instead::Late(_) => 2,
        Instead::Ended => 3,
        Instead::Elsewhere(_) => 4,
    };
    let each = waits.iter().flat_map(|wait| {
        let absent = wait.absent.iter();
        absent.map(move |(ranks, instead)| (wait, ranks, instead))
    });
    let bottom = each.min_by_key(|(wait, ranks, instead)| {
        let few = (ranks.len(), std::cmp::Reverse(wait.ranks.len()));
        (weight(instead), few, wait.ranks.first().copied())
    });
    let Some((wait, ranks, instead)) = bottom else {
        return "nobody can go on".to_owned();
    };
    let mut text = format!(
        "{} {} in {} for {}, which {}",
        of(&wait.ranks),
        plural(&wait.ranks, "waits", "wait"),
        wait.inside.text(names),
        of(ranks),
        does(instead, ranks, names)
    );
    if let Instead::Elsewhere(_) = instead {
        text += ": they wait for each other";
    }
    text
}

/// What a rank does instead, behind `which`.
pub(super) fn does(instead: &Instead, ranks: &[u32], names: &[String]) -> String {
    match instead {
        Instead::Crashed(at) => format!(
            "{} crashed after {}",
            plural(ranks, "has", "have"),
            at.human()
        ),
        Instead::Differs(inside) => format!(
            "{} in {}{}",
            plural(ranks, "is", "are"),
            inside.text(names),
            size_of(inside)
        ),
        Instead::Late(after) => {
            format!("{} {} later", plural(ranks, "comes", "come"), after.human())
        }
        Instead::Ended => format!("{} nothing more", plural(ranks, "calls", "call")),
        Instead::Elsewhere(inside) => {
            format!("{} in {}", plural(ranks, "is", "are"), inside.text(names))
        }
    }
}

/// The size that tells one operation from another of the same name.
pub(super) fn size_of(inside: &Inside) -> String {
    match inside {
        Inside::Operation { bytes: 0, .. } => String::new(),
        Inside::Operation { bytes, .. } | Inside::Message { bytes, .. } => {
            format!(" ({})", fabricsim_report::numbers::size(*bytes as f64))
        }
        Inside::Monitored { .. } => String::new(),
    }
}

fn plural<'t>(ranks: &[u32], one: &'t str, several: &'t str) -> &'t str {
    if ranks.len() == 1 { one } else { several }
}

/// Ranks for people: `rank 3`, `ranks 0-6, 8`.
pub(super) fn of(ranks: &[u32]) -> String {
    format!("{} {}", plural(ranks, "rank", "ranks"), ranges(ranks))
}

/// Ranks in order: `0-7, 16`.
pub(super) fn ranges(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(u32::to_string).collect(),
    });
    text.collect::<Vec<_>>().join(", ")
}
