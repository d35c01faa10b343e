//! Tasks of a stream as blocks of a picture: cut to what is shown, joined where they are too
//! small to be told apart.

use super::trace::waits_from;
use super::{JobSpan, JobTimeline, SpanKind};
use crate::units::Time;
use std::collections::BTreeMap;

/// What a block is drawn as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    /// A communication that waits for other ranks.
    Waits,
    /// A task.
    Task(SpanKind),
}

/// One or several tasks, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block<'a> {
    pub(super) look: Look,
    pub(super) micro_batch: Option<u16>,
    pub(super) chunk: u16,
    pub(super) step: u16,
    /// What the first of them is.
    pub(super) what: &'a str,
    /// How many.
    pub(super) tasks: u32,
    pub(super) from: Time,
    pub(super) to: Time,
    /// By how much of its time the block is what it looks like, while it is joined.
    lead: Time,
}

impl Block<'_> {
    pub(super) fn length(&self) -> Time {
        self.to.saturating_sub(self.from)
    }
}

/// The lanes of a timeline: spans by index of the rank and stream.
pub(super) type Lanes<'a> = BTreeMap<(u32, u8), Vec<&'a JobSpan>>;

/// All lanes.
pub(super) fn lanes(timeline: &JobTimeline) -> Lanes<'_> {
    let mut lanes: Lanes<'_> = BTreeMap::new();
    for span in &timeline.spans {
        lanes
            .entry((span.rank, span.stream))
            .or_default()
            .push(span);
    }
    lanes
}

/// From when to when the last step was; everything if there is no more than one.
pub(super) fn last_step(timeline: &JobTimeline) -> (Time, Time) {
    match timeline.steps.as_slice() {
        [.., before, last] if before < last => (*before, *last),
        [last] if *last > Time::ZERO => (Time::ZERO, *last),
        _ => (Time::ZERO, timeline.end),
    }
}

/// The blocks of a lane between two times, each of one task.
pub(super) fn cut<'a>(spans: &[&'a JobSpan], (from, to): (Time, Time)) -> Vec<Block<'a>> {
    let mut blocks = Vec::new();
    let mut before = Time::ZERO;
    let mut add = |span: &'a JobSpan, look: Look, during: (Time, Time)| {
        let (start, end) = (during.0.max(from), during.1.min(to));
        if start < end {
            blocks.push(Block {
                look,
                micro_batch: span.micro_batch,
                chunk: span.chunk,
                step: span.step,
                what: &span.what,
                tasks: 1,
                from: start,
                to: end,
                lead: end - start,
            });
        }
    };
    for span in spans {
        if let Some(since) = waits_from(span, before) {
            add(span, Look::Waits, (since, span.start));
        }
        add(span, Look::Task(span.kind), (span.start, span.end));
        before = span.end;
    }
    blocks
}

/// Joins neighbours that are of the same kind and micro-batch with no more than `grain` between
/// them, and those that are shorter than that to a neighbour of their micro-batch or, if this is
/// short too, of another. Two communications stay apart unless one of them is short.
pub(super) fn joined(blocks: Vec<Block<'_>>, grain: Time) -> Vec<Block<'_>> {
    let mut out: Vec<Block<'_>> = Vec::new();
    for block in blocks {
        match out.last_mut() {
            Some(last) if belongs(last, &block, grain) => join(last, block),
            _ => out.push(block),
        }
    }
    out
}

fn belongs(last: &Block<'_>, next: &Block<'_>, grain: Time) -> bool {
    if next.from.saturating_sub(last.to) > grain {
        return false;
    }
    let shorter = last.length().min(next.length());
    let both_short = last.length().max(next.length()) < grain;
    let place = |block: &Block<'_>| (block.micro_batch, block.chunk, block.step);
    if last.look != next.look {
        return both_short || (shorter < grain && place(last) == place(next));
    }
    match last.look {
        Look::Task(SpanKind::Communication) => shorter.picos() < 3 * grain.picos(),
        _ => both_short || place(last) == place(next),
    }
}

/// What most of a block is decides how it looks.
fn join<'a>(last: &mut Block<'a>, next: Block<'a>) {
    let length = next.length();
    if last.look == next.look {
        last.lead += length;
    } else if length > last.lead {
        last.look = next.look;
        last.lead = length - last.lead;
    } else {
        last.lead = last.lead - length;
    }
    last.to = last.to.max(next.to);
    last.tasks += next.tasks;
}
