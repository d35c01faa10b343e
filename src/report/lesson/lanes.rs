//! A job's streams as lanes of a lesson.

use super::{LaneOf, LanesPicture, nano};
use crate::blocks::{Block, cut, joined, lanes, last_step};
use crate::looks::Look;
use crate::numbers::size;
use crate::training::{JobTimeline, SpanKind};
use fabricsim_units::Time;

/// Bars of a picture; more of them are joined.
const MOST_BARS: usize = 700;
/// Bars shorter than this part of the time shown are joined to their neighbours first.
const GRAINS: [u64; 5] = [4000, 1500, 600, 250, 100];

/// The last step of some ranks (all, if none is given), and how long it takes.
#[must_use]
pub fn lanes_picture(timeline: &JobTimeline, ranks: &[u32]) -> (LanesPicture, Time) {
    let (from, to) = last_step(timeline);
    let all = lanes(timeline);
    let shown: Vec<_> = all
        .iter()
        .filter(|((rank, _), _)| {
            let known = timeline.ranks.get(*rank as usize);
            ranks.is_empty() || known.is_some_and(|(rank, ..)| ranks.contains(rank))
        })
        .map(|(key, spans)| (*key, cut(spans, (from, to))))
        .filter(|(_, blocks)| !blocks.is_empty())
        .collect();
    let mut drawn = shown.clone();
    for grain in GRAINS {
        let grain = Time::from_picos((to - from).picos() / grain);
        drawn = shown
            .iter()
            .map(|(key, blocks)| (*key, joined(blocks.clone(), grain)))
            .collect();
        if drawn.iter().map(|(_, blocks)| blocks.len()).sum::<usize>() <= MOST_BARS {
            break;
        }
    }
    let several = drawn.iter().map(|((rank, _), _)| rank).min()
        != drawn.iter().map(|((rank, _), _)| rank).max();
    let mut picture = LanesPicture {
        lanes: Vec::new(),
        looks: Look::ALL
            .iter()
            .map(|look| (look.colour().to_owned(), look.name().to_owned()))
            .collect(),
        words: Vec::new(),
    };
    for ((rank, stream), blocks) in drawn {
        let stream = timeline.stream_name(stream);
        let name = match timeline.ranks.get(rank as usize) {
            Some((_, _, part)) if several && !part.is_empty() => format!("{part}, {stream}"),
            Some((rank, ..)) if several => format!("rank {rank}, {stream}"),
            _ => stream,
        };
        let spans = blocks.iter().map(|block| picture.span(block, from));
        let spans = spans.collect();
        picture.lanes.push(LaneOf { name, spans });
    }
    (picture, to - from)
}

impl LanesPicture {
    /// A bar, with its word among the picture's.
    fn span(&mut self, block: &Block<'_>, from: Time) -> (u32, f64, f64, u32) {
        let word = word(block);
        let known = self.words.iter().position(|known| *known == word);
        let index = known.unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        });
        let look = Look::ALL.iter().position(|look| *look == block.look);
        (
            look.unwrap_or(0) as u32,
            nano(block.from - from),
            nano(block.length()),
            index as u32,
        )
    }
}

/// What is written into a bar: the number and size of a bucket, the number of a micro-batch, else what
/// it is.
fn word(block: &Block<'_>) -> String {
    match (block.look, block.bucket, block.micro_batch) {
        (Look::Waits, ..) => String::new(),
        (Look::Task(SpanKind::Communication), Some(bucket), _) if block.tasks == 1 => {
            format!("{}: {}", bucket + 1, size(block.bytes.get() as f64))
        }
        (
            Look::Task(SpanKind::Forward | SpanKind::Backward | SpanKind::Recompute),
            _,
            Some(batch),
        ) => (batch + 1).to_string(),
        _ if block.tasks == 1 => block.what.to_string(),
        _ => String::new(),
    }
}
