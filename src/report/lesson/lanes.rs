//! A job's streams as lanes of a lesson.

use super::{LaneOf, LanesPicture, nano};
use crate::blocks::{Block, cut, joined, lanes, last_step};
use crate::looks::Look;
use crate::numbers::size;
use crate::training::{JobTimeline, SpanKind};
use fabricsim_units::Time;

/// Bars of a picture; more of them are joined.
const MAX_BARS: usize = 700;
/// Bars shorter than this part of the time shown are joined to their neighbours first.
const GRAINS: [u64; 5] = [4000, 1500, 600, 250, 100];

/// Which streams of a job are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// Those of these ranks; of all that are recorded, if there is none.
    pub ranks: &'a [u32],
    /// Those of these names; all, if there is none.
    pub streams: &'a [String],
    /// So long from the begin; the last step, if absent.
    pub first: Option<Time>,
}

/// What cannot be shown: a rank that is not recorded, or a stream that no rank has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotShown {
    /// A rank.
    #[error("rank {rank} is not recorded; those that are: {known:?}")]
    Rank {
        /// What was asked for.
        rank: u32,
        /// What there is.
        known: Vec<u32>,
    },
    /// A stream.
    #[error("no rank has a stream `{stream}`; there are {}", known.join(", "))]
    Stream {
        /// What was asked for.
        stream: String,
        /// What there is.
        known: Vec<String>,
    },
}

impl Shown<'_> {
    /// Whether all that is asked for is there.
    fn check(&self, timeline: &JobTimeline) -> Result<(), NotShown> {
        let known: Vec<u32> = timeline.ranks.iter().map(|(rank, ..)| *rank).collect();
        // Of ranks that do the same one is recorded.
        if let Some(&rank) = self.ranks.first()
            && !self.ranks.iter().any(|rank| known.contains(rank))
        {
            return Err(NotShown::Rank { rank, known });
        }
        let known = &timeline.streams;
        match self.streams.iter().find(|stream| !known.contains(stream)) {
            Some(stream) => Err(NotShown::Stream {
                stream: stream.clone(),
                known: known.clone(),
            }),
            None => Ok(()),
        }
    }

    fn has(&self, timeline: &JobTimeline, rank: u32, stream: u8) -> bool {
        let of = timeline.ranks.get(rank as usize);
        let rank = of.is_some_and(|(rank, ..)| self.ranks.contains(rank));
        let stream = timeline.streams.get(usize::from(stream));
        let stream = stream.is_some_and(|name| self.streams.contains(name));
        (self.ranks.is_empty() || rank) && (self.streams.is_empty() || stream)
    }
}

/// Lanes, and how long what they show takes.
#[derive(Debug)]
pub struct DrawnLanes {
    /// The picture.
    pub picture: LanesPicture,
    /// How long it is.
    pub end: Time,
    /// How long all of it is of which the first part is shown; nothing, if all is shown.
    pub part_of: Option<Time>,
}

/// Streams of the last step, or of the first part of a run.
///
/// # Errors
/// What is asked for and not there.
pub fn lanes_picture(timeline: &JobTimeline, wanted: Shown<'_>) -> Result<DrawnLanes, NotShown> {
    wanted.check(timeline)?;
    let (from, to) = match wanted.first {
        Some(first) => (Time::ZERO, first.min(timeline.end)),
        None => last_step(timeline),
    };
    let all = lanes(timeline);
    let shown: Vec<_> = all
        .iter()
        .filter(|((rank, stream), _)| wanted.has(timeline, *rank, *stream))
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
        if drawn.iter().map(|(_, blocks)| blocks.len()).sum::<usize>() <= MAX_BARS {
            break;
        }
    }
    let several = !wanted.ranks.is_empty()
        || drawn.iter().map(|((rank, _), _)| rank).min()
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
    let shorter = wanted.first.is_some() && to < timeline.end;
    Ok(DrawnLanes {
        picture,
        end: to - from,
        part_of: shorter.then_some(timeline.end),
    })
}

impl LanesPicture {
    /// Another name for a kind of spans, known by its colour.
    pub fn call(&mut self, colour: &str, name: &str) {
        let looks = self.looks.iter_mut();
        for look in looks.filter(|look| look.0 == colour) {
            name.clone_into(&mut look.1);
        }
    }

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
