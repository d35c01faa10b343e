//! Spans of a lane as blocks of a picture: cut to what is shown, joined where they are too
//! small to be told apart.

use super::looks::Look;
use super::record::Span;
use super::training::{JobSpan, JobTimeline, SpanKind};
use fabricsim_units::{Bytes, Time};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One or several tasks, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block<'a> {
    pub(crate) look: Look,
    pub(crate) micro_batch: Option<u16>,
    pub(crate) chunk: u16,
    pub(crate) step: u16,
    /// What the first of them is.
    pub(crate) what: Cow<'a, str>,
    /// How many.
    pub(crate) tasks: u32,
    /// The bucket of gradients that the first of them moves, if it moves one.
    pub(crate) bucket: Option<u16>,
    /// What they communicate, together.
    pub(crate) bytes: Bytes,
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// What it is made of, in order of looks, with the time of each.
    mix: SmallVec<[(Look, Time); 1]>,
}

impl Block<'_> {
    pub(crate) fn length(&self) -> Time {
        self.to.saturating_sub(self.from)
    }

    /// Its looks and the part of it that is of each: those that alternate too fast to be drawn
    /// one after the other. Little of something is left out.
    pub(crate) fn looks(&self) -> SmallVec<[(Look, f64); 2]> {
        let all = |mix: &[(Look, Time)]| mix.iter().map(|(_, time)| time.picos()).sum::<u64>();
        let whole = all(&self.mix) as f64;
        let shown = self
            .mix
            .iter()
            .filter(|(_, t)| t.picos() as f64 >= LEAST_PART * whole);
        let shown: SmallVec<[(Look, Time); 2]> = shown.copied().collect();
        if shown.len() < 2 {
            return smallvec![(self.look, 1.0)];
        }
        let whole = all(&shown) as f64;
        let part = |&(look, time): &(Look, Time)| (look, time.picos() as f64 / whole);
        shown.iter().map(part).collect()
    }
}

/// A look of less than so much of a block is not drawn.
const LEAST_PART: f64 = 0.08;

/// The lanes of a timeline: spans by index of the rank and stream.
pub(crate) type Lanes<'a> = BTreeMap<(u32, u8), Vec<&'a JobSpan>>;

/// All lanes.
pub(crate) fn lanes(timeline: &JobTimeline) -> Lanes<'_> {
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
pub(crate) fn last_step(timeline: &JobTimeline) -> (Time, Time) {
    match timeline.steps.as_slice() {
        [.., before, last] if before < last => (*before, *last),
        [last] if *last > Time::ZERO => (Time::ZERO, *last),
        _ => (Time::ZERO, timeline.end),
    }
}

/// The blocks of a lane between two times, each of one task.
pub(crate) fn cut<'a>(spans: &[&'a JobSpan], (from, to): (Time, Time)) -> Vec<Block<'a>> {
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
                what: Cow::Borrowed(&span.what),
                tasks: 1,
                bucket: span.bucket,
                bytes: if look == Look::Waits {
                    Bytes::ZERO
                } else {
                    span.bytes
                },
                from: start,
                to: end,
                mix: smallvec![(look, end - start)],
            });
        }
    };
    for span in spans {
        if let Some(since) = span.waits_from(before) {
            add(span, Look::Waits, (since, span.start));
        }
        add(span, Look::Task(span.kind), (span.start, span.end));
        before = span.end;
    }
    blocks
}

/// The blocks of a track of a collective, each of one span.
pub(crate) fn worker_blocks<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Vec<Block<'a>> {
    let block = |span: &'a Span| {
        let look = Look::Worker(span.doing.activity());
        Block {
            look,
            micro_batch: None,
            chunk: 0,
            step: 0,
            what: span.doing.name(),
            tasks: 1,
            bucket: None,
            bytes: span.bytes,
            from: span.start,
            to: span.end,
            mix: smallvec![(look, span.end - span.start)],
        }
    };
    spans.into_iter().map(block).collect()
}

/// Joins neighbours that are of the same kind and micro-batch with no more than `grain` between
/// them, and those that are shorter than that to a neighbour of their pass of the micro-batch or,
/// if this is short too, of another. Two communications stay apart unless one of them is short.
pub(crate) fn joined(blocks: Vec<Block<'_>>, grain: Time) -> Vec<Block<'_>> {
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
        // Many short kernels of a forward pass are one long block: what follows is not it.
        if backward(last.look).is_some_and(|b| backward(next.look) == Some(!b)) {
            return false;
        }
        return both_short || (shorter < grain && place(last) == place(next));
    }
    match last.look {
        Look::Task(SpanKind::Communication) | Look::Worker(_) => {
            shorter.picos() < 3 * grain.picos()
        }
        // Passes of an engine that serves: each is something by itself.
        Look::Task(SpanKind::Forward | SpanKind::Other) if last.micro_batch.is_none() => {
            shorter.picos() < 3 * grain.picos()
        }
        _ => both_short || place(last) == place(next),
    }
}

/// Whether it is part of a backward pass, if of any: what is computed again is.
fn backward(look: Look) -> Option<bool> {
    match look {
        Look::Task(SpanKind::Forward) => Some(false),
        Look::Task(SpanKind::Backward | SpanKind::Recompute) => Some(true),
        _ => None,
    }
}

/// What most of a block is decides how it looks; the first of equals.
fn join<'a>(last: &mut Block<'a>, next: Block<'a>) {
    for (look, time) in next.mix {
        match last.mix.binary_search_by_key(&look, |(known, _)| *known) {
            Ok(at) => last.mix[at].1 += time,
            Err(at) => last.mix.insert(at, (look, time)),
        }
    }
    let most = last
        .mix
        .iter()
        .max_by_key(|(look, time)| (*time, std::cmp::Reverse(*look)));
    last.look = most.map_or(last.look, |(look, _)| *look);
    last.to = last.to.max(next.to);
    last.tasks += next.tasks;
    last.bytes = Bytes::new(last.bytes.get() + next.bytes.get());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: SpanKind, micro_batch: u16, (from, to): (u64, u64)) -> Block<'static> {
        let (from, to) = (Time::from_micros(from), Time::from_micros(to));
        Block {
            look: Look::Task(kind),
            micro_batch: Some(micro_batch),
            chunk: 0,
            step: 0,
            what: "".into(),
            tasks: 1,
            bucket: None,
            bytes: Bytes::ZERO,
            from,
            to,
            mix: smallvec![(Look::Task(kind), to - from)],
        }
    }

    #[test]
    fn short_kernels_of_both_passes_are_drawn_as_both_and_recomputation_is_seen() {
        // Eighty layers forward, then recomputed and backward in turn; a layer is far shorter than
        // a grain.
        let mut blocks = Vec::new();
        let mut at = 0;
        let mut add = |kind, length| {
            blocks.push(block(kind, 3, (at, at + length)));
            at += length;
        };
        for _ in 0..80 {
            add(SpanKind::Forward, 10);
        }
        for _ in 0..80 {
            add(SpanKind::Recompute, 10);
            add(SpanKind::Backward, 20);
        }
        let drawn = joined(blocks, Time::from_micros(100));
        let looks: Vec<_> = drawn.iter().map(|b| (b.look, b.length())).collect();
        assert_eq!(
            looks,
            [
                (Look::Task(SpanKind::Forward), Time::from_micros(800)),
                (Look::Task(SpanKind::Backward), Time::from_micros(2400)),
            ]
        );
        assert_eq!(drawn[0].looks()[..], [(Look::Task(SpanKind::Forward), 1.0)]);
        let second = drawn[1].looks();
        let of = |kind| {
            let mut all = second.iter();
            all.find(|(look, _)| *look == Look::Task(kind))
                .map_or(0.0, |(_, part)| *part)
        };
        assert!((of(SpanKind::Backward) - 2.0 / 3.0).abs() < 1e-9);
        assert!((of(SpanKind::Recompute) - 1.0 / 3.0).abs() < 1e-9);
    }
}
