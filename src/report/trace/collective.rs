//! A collective's timeline as a trace: a thread per channel and proxy, arrows for messages, and
//! counters of links: each family as a whole, and what leaves each GPU.

use super::roles::Role;
use super::{Arrow, Counter, Place, Process, Slice, Trace, process_of};
use crate::record::{MessageEnd, Span, Timeline, Track};
use crate::{bins, numbers, recorded_sentence};
use fabricsim_units::Time;
use std::collections::BTreeMap;

impl<'t> From<&'t Timeline> for Trace<'t> {
    fn from(timeline: &'t Timeline) -> Self {
        let faults = timeline.faults.iter();
        let faults = faults.map(|f| (f.place.as_str(), f.what.as_str(), f.start, f.end));
        let slice = |span: &'t Span| Slice {
            place: place(span.rank, span.track),
            role: Role::Worker(span.doing, span.bytes, timeline.operation.as_ref()),
            start: span.start,
            end: span.end,
        };
        let end = |end: &MessageEnd| (place(end.rank, end.track), end.at);
        let messages = (1..).zip(&timeline.messages);
        let arrows = messages.map(move |(number, message)| Arrow {
            number,
            ends: message.iter().map(end).collect(),
        });
        Trace {
            note: timeline.recorded.map(|r| recorded_sentence(&r)),
            ranks: ranks(timeline),
            steps: &[],
            disturbances: faults.collect(),
            slices: Box::new(timeline.spans.iter().map(slice)),
            arrows: Box::new(arrows),
            counters: counters(timeline),
        }
    }
}

fn place(rank: u32, track: Track) -> Place {
    Place {
        process: process_of(rank),
        thread: track.number(),
    }
}

fn ranks(timeline: &Timeline) -> Vec<Process> {
    let mut tracks: BTreeMap<u32, BTreeMap<u32, Track>> = BTreeMap::new();
    for rank in &timeline.ranks {
        tracks.entry(rank.rank).or_default();
    }
    for span in &timeline.spans {
        let own = tracks.entry(span.rank).or_default();
        own.insert(span.track.number(), span.track);
    }
    let process = |(rank, tracks): (u32, BTreeMap<u32, Track>)| Process {
        id: process_of(rank),
        name: timeline.rank_name(rank),
        threads: tracks.into_iter().map(|(n, t)| (n, t.name())).collect(),
    };
    tracks.into_iter().map(process).collect()
}

fn counters(timeline: &Timeline) -> Vec<Counter> {
    let families = bins::families(timeline);
    let mut counters = Vec::new();
    let mut add = |rank, name, unit, values: &mut dyn Iterator<Item = f64>| {
        let samples = samples(timeline, values);
        counters.push(Counter {
            rank,
            name,
            unit,
            samples,
        });
    };
    for family in &families {
        let mut of_all = |what: &str, unit, values: &mut dyn Iterator<Item = f64>| {
            add(
                None,
                format!("{}: {what}, {unit}", family.name),
                unit,
                values,
            );
        };
        let percent = |used: &f64| used * 100.0;
        of_all("busiest link", "%", &mut family.max.iter().map(percent));
        of_all("mean of links", "%", &mut family.mean.iter().map(percent));
        let gbs = &mut family.rate.iter().map(|rate| rate / 1e9);
        of_all("all links", "GB/s", gbs);
    }
    for family in &families {
        let senders = bins::senders(timeline, family.name);
        for track in &timeline.ranks {
            if let Some(rates) = senders.get(track.name.as_str()) {
                let name = format!("{} out, GB/s", family.name);
                let rank = Some(process_of(track.rank));
                add(rank, name, "GB/s", &mut rates.iter().map(|rate| rate / 1e9));
            }
        }
    }
    counters
}

/// The value of each bin from its start, and zero at the end. A value equal to the one before is
/// not repeated.
fn samples(timeline: &Timeline, values: &mut dyn Iterator<Item = f64>) -> Vec<(Time, String)> {
    let mut samples: Vec<(Time, String)> = Vec::new();
    let mut end = timeline.end;
    for (index, value) in values.enumerate() {
        let (start, bin_end) = bins::span(timeline, index);
        let value = numbers::trimmed(value, 3);
        if samples.last().is_none_or(|(_, last)| *last != value) {
            samples.push((start, value));
        }
        end = end.max(bin_end);
    }
    if samples.last().is_some_and(|(_, last)| last != "0") {
        samples.push((end, "0".to_owned()));
    }
    samples
}
