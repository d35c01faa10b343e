//! A job's timeline as a trace: a thread per stream, and an arrow for each message.

use super::roles::Role;
use super::{Arrow, Place, Process, Slice, Trace, process_of};
use crate::training::{JobSpan, JobTimeline, rank_name};
use fabricsim_units::Time;
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};

impl<'t> From<&'t JobTimeline> for Trace<'t> {
    fn from(timeline: &'t JobTimeline) -> Self {
        let disturbances = timeline.disturbances.iter().filter_map(|d| {
            let (from, to) = d.during(timeline.end)?;
            Some((d.place.as_str(), d.what.as_str(), from, to))
        });
        Trace {
            note: timeline.left_out(),
            ranks: ranks(timeline),
            steps: &timeline.steps,
            disturbances: disturbances.collect(),
            slices: Box::new(slices(timeline)),
            arrows: Box::new(arrows(timeline)),
            counters: Vec::new(),
        }
    }
}

fn ranks(timeline: &JobTimeline) -> Vec<Process> {
    let spans = timeline.spans.iter();
    let streams: BTreeSet<(u32, u8)> = spans.map(|span| (span.rank, span.stream)).collect();
    let ranks = (0..).zip(&timeline.ranks);
    let traced = ranks.filter(|&(index, _)| timeline.is_traced(index));
    let shown = |(index, shown): (u32, &(u32, String, String))| {
        let own = streams.range((index, 0)..=(index, u8::MAX));
        let thread = |&(_, stream): &(u32, u8)| (thread(stream), timeline.stream_name(stream));
        Process {
            id: process(timeline, index as usize),
            name: rank_name(shown),
            threads: own.map(thread).collect(),
        }
    };
    traced.map(shown).collect()
}

fn thread(stream: u8) -> u32 {
    u32::from(stream) + 1
}

/// The process of what is shown at a place: that of its rank, or one behind those of all ranks where
/// another job's is on the same GPU.
fn process(timeline: &JobTimeline, place: usize) -> u64 {
    let Some(&(rank, _, _)) = timeline.ranks.get(place) else {
        return process_of(place as u32);
    };
    let ranks = timeline.ranks.iter().map(|(rank, _, _)| *rank);
    let behind = process_of(ranks.max().unwrap_or(0));
    process_of(rank) + behind * timeline.jobs_before(place) as u64
}

fn place(timeline: &JobTimeline, span: &JobSpan) -> Place {
    Place {
        process: process(timeline, span.rank as usize),
        thread: thread(span.stream),
    }
}

/// The tasks, each behind what it waited for others.
fn slices(timeline: &JobTimeline) -> impl Iterator<Item = Slice<'_>> {
    // Where each thread is: events of a thread must not overlap.
    let mut ends: BTreeMap<(u32, u8), Time> = BTreeMap::new();
    let spans = timeline.spans.iter();
    let traced = spans.filter(|span| timeline.is_traced(span.rank));
    traced.flat_map(move |span| {
        let before = ends.entry((span.rank, span.stream)).or_default();
        let waits = span.waits_from(*before);
        *before = span.end;
        let slice = |role, start, end| Slice {
            place: place(timeline, span),
            role,
            start,
            end,
        };
        let waits = waits.map(|from| slice(Role::Waits(span), from, span.start));
        let task = Role::Task(span, timeline.communication(span));
        waits.into_iter().chain([slice(task, span.start, span.end)])
    })
}

/// An arrow for each message both of whose ends are shown.
fn arrows(timeline: &JobTimeline) -> impl Iterator<Item = Arrow> {
    let mut ends: BTreeMap<u32, [Option<&JobSpan>; 2]> = BTreeMap::new();
    for span in &timeline.spans {
        if let Some(end) = span.message {
            ends.entry(end.number).or_default()[usize::from(end.sends)] = Some(span);
        }
    }
    ends.into_iter().filter_map(|(number, ends)| {
        let [Some(receiver), Some(sender)] = ends else {
            return None;
        };
        // An arrow belongs to the span in which its end is, and viewers count nanoseconds.
        let inside = Time::from_nanos(2);
        let arrives = receiver.start.max(receiver.end.saturating_sub(inside));
        let sent = (place(timeline, sender), sender.start);
        let received = (place(timeline, receiver), arrives);
        Some(Arrow {
            number,
            ends: smallvec![sent, received],
        })
    })
}
