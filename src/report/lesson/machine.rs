//! A machine at work on a collective, as a picture of a lesson.

use super::{MachinePicture, nano};
use crate::bins::spread;
use crate::record::{Activity, Timeline, Track};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// Bins of a picture: few enough for a page with many positions.
const MAX_BINS: usize = 100;
/// Ranks whose progress is shown.
const MAX_RANKS: usize = 16;
/// Stops of a picture: a key press goes to the next one.
const STOPS: u32 = 20;

/// What links of a machine carried over time. `line` says which line of the drawing a link, known by its
/// name, belongs to; a line shows its busiest link.
#[must_use]
pub fn machine_picture(
    timeline: &Timeline,
    drawing: usize,
    line: &dyn Fn(&str) -> Option<u32>,
) -> MachinePicture {
    let bins = timeline.links.iter().map(|link| link.bytes.len()).max();
    let merged = bins.unwrap_or(0).div_ceil(MAX_BINS).max(1);
    let bin = Time::from_picos(timeline.bin.picos().saturating_mul(merged as u64).max(1));
    let seconds = bin.picos() as f64 / 1e12;
    // By line: its rate, and the highest use of any of its links.
    let mut lines: BTreeMap<u32, (f64, Vec<u16>)> = BTreeMap::new();
    for link in &timeline.links {
        let Some(number) = line(&link.name) else {
            continue;
        };
        let rate = link.rate.bytes_per_sec() as f64;
        let uses = link.bytes.chunks(merged).map(|bytes| {
            let share = bytes.iter().sum::<f64>() / (rate * seconds).max(1e-9);
            (share.min(1.0) * 1000.0).round() as u16
        });
        let (_, known) = lines
            .entry(number)
            .or_insert_with(|| (link.rate.gb_per_sec(), Vec::new()));
        for (index, share) in uses.enumerate() {
            match known.get_mut(index) {
                Some(most) => *most = share.max(*most),
                None => known.push(share),
            }
        }
    }
    let mut uses: Vec<Vec<u16>> = Vec::new();
    let lines = lines.into_iter().map(|(number, (rate, own))| {
        let known = uses.iter().position(|known| *known == own);
        let index = known.unwrap_or_else(|| {
            uses.push(own);
            uses.len() - 1
        });
        (number, rate, index as u32)
    });
    let lines = lines.collect();
    let end = timeline.end;
    let stop = |k: u32| {
        nano(Time::from_picos(
            end.picos() / u64::from(STOPS) * u64::from(k),
        ))
    };
    MachinePicture {
        drawing,
        bin: nano(bin),
        lines,
        uses,
        progress: progress(timeline, bin),
        steps: (1..=STOPS).map(stop).collect(),
    }
}

/// How far each rank is with the bytes that its thread blocks move, by bin.
fn progress(timeline: &Timeline, bin: Time) -> Vec<(String, Vec<u16>)> {
    let bins = (timeline.end.picos().div_ceil(bin.picos().max(1)) as usize).clamp(1, 2 * MAX_BINS);
    let tracks = timeline.ranks.iter().take(MAX_RANKS);
    let of_rank = tracks.map(|track| {
        let mut moved = vec![0.0; bins];
        let spans = timeline.spans.iter().filter(|span| {
            span.rank == track.rank
                && matches!(span.track, Track::Worker(..))
                && span.doing.activity() == Activity::Stream
        });
        for span in spans {
            let bytes = span.bytes.get() as f64;
            spread(&mut moved, bin, (span.start, span.end), bytes);
        }
        let all: f64 = moved.iter().sum();
        let mut until = 0.0;
        let parts = moved.iter().map(|bytes| {
            until += bytes;
            (until / all.max(1.0) * 1000.0).round() as u16
        });
        (track.name.clone(), parts.collect())
    });
    of_rank.collect()
}
