//! The timelines of all variants below each other on one axis, so that the slower one is longer.

use crate::ReportError;
use crate::blocks::{Block, cut, joined, lanes, last_step, worker_blocks};
use crate::html::{Data, Lane, canvas};
use crate::lines::order;
use crate::looks::Look;
use crate::record::{Span, Timeline};
use crate::results::{Recording, Results};
use crate::summary::Summary;
use crate::training::{JobTimeline, rank_name};
use fabricsim_units::Time;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Lanes of all variants together, and at least of each.
const MAX_LANES: usize = 48;
const MIN_LANES: usize = 6;
/// Ranks of a variant.
const MAX_RANKS: usize = 4;
/// Blocks of the page: about a megabyte.
const MAX_BLOCKS: usize = 30_000;
/// Parts of the axis that are told apart where blocks have to be joined.
const GRAINS: [u64; 4] = [20_000, 5_000, 2_000, 500];

/// What is shown of a variant.
struct Run<'r> {
    /// From its beginning.
    length: Time,
    ranks: Vec<Rank<'r>>,
    /// Lanes or ranks were left out.
    cut: bool,
}

struct Rank<'r> {
    name: String,
    lanes: Vec<(String, Vec<Block<'r>>)>,
}

/// The section; nothing if there are not two timelines.
pub(super) fn timelines(summary: &Summary, results: &Results) -> Result<Markup, ReportError> {
    let records = &results.records;
    let most = (MAX_LANES / records.len().max(1)).max(MIN_LANES);
    let variants = order(&summary.variants).into_iter();
    let mut runs: Vec<(&str, Run<'_>)> = Vec::new();
    for variant in variants.map(|index| &summary.variants[index]) {
        let record = records.iter().find(|r| r.variant == variant.name);
        let run = match record.map(|record| &record.recorded) {
            Some(Recording::Collective { timeline, .. }) => of_collective(timeline, most),
            Some(Recording::Training(timeline)) => of_job(timeline, most),
            None => continue,
        };
        if !run.ranks.is_empty() {
            runs.push((&variant.name, run));
        }
    }
    if runs.len() < 2 {
        return Ok(html! {});
    }
    let collectives = summary
        .variants
        .iter()
        .all(|v| v.job.collective().is_some());
    let part = runs.iter().any(|(_, run)| run.cut);
    let serves = summary.variants.iter().any(|v| v.job.serving().is_some());
    let what = if collectives {
        "one operation of each, alone"
    } else if serves {
        "the first passes of each"
    } else {
        "the last step of each"
    };
    Ok(html! {
        section.wide {
            h2 { "Timelines" span.aside { (what) ", on one axis" } }
            (canvas(&data(runs), "Timelines of all variants on one axis")?)
            @if part { p.note { "Some ranks and lanes of each are shown; more are in its own timeline." } }
        }
    })
}

fn data<'r>(mut runs: Vec<(&str, Run<'r>)>) -> Data<'r> {
    let end = runs.iter().map(|(_, run)| run.length).max();
    let end = end.unwrap_or_default();
    for grain in GRAINS.map(|parts| Time::from_picos(end.picos() / parts)) {
        if blocks(&runs).count() <= MAX_BLOCKS {
            break;
        }
        let ranks = runs.iter_mut().flat_map(|(_, run)| &mut run.ranks);
        for (_, blocks) in ranks.flat_map(|rank| &mut rank.lanes) {
            *blocks = joined(std::mem::take(blocks), grain);
        }
    }
    let used: BTreeSet<Look> = blocks(&runs).map(|block| block.look).collect();
    let looks: Vec<Look> = Look::ALL.into_iter().filter(|l| used.contains(l)).collect();
    let mut data = Data::new(looks, (0, end.picos()));
    for (variant, run) in runs {
        for rank in run.ranks {
            let title = format!("{variant}, {}: {}", run.length.human(), rank.name);
            data.ranks.push(title.replace(" us", " µs"));
            data.ends.push(run.length.picos());
            for (name, blocks) in rank.lanes {
                let mut lane = Lane::new(data.ranks.len() - 1, name);
                for block in blocks {
                    let from = block.from.picos().max(lane.end());
                    let kind = data.kinds(block.look, block.what);
                    lane.push(kind, block.bytes.get(), (from, block.to.picos()));
                }
                data.lanes.push(lane);
            }
        }
    }
    data
}

fn blocks<'a, 'r>(runs: &'a [(&str, Run<'r>)]) -> impl Iterator<Item = &'a Block<'r>> {
    let ranks = runs.iter().flat_map(|(_, run)| &run.ranks);
    let lanes = ranks.flat_map(|rank| &rank.lanes);
    lanes.flat_map(|(_, blocks)| blocks)
}

/// The operation, from when it is launched.
fn of_collective(timeline: &Timeline, most: usize) -> Run<'_> {
    let mut tracks: BTreeMap<u32, BTreeMap<u32, Vec<&Span>>> = BTreeMap::new();
    for span in &timeline.spans {
        let own = tracks.entry(span.rank).or_default();
        own.entry(span.track.number()).or_default().push(span);
    }
    let ranks = tracks.into_iter().map(|(rank, tracks)| Rank {
        name: timeline.rank_name(rank),
        lanes: tracks
            .into_values()
            .filter_map(|spans| Some((spans.first()?.track.name(), worker_blocks(spans))))
            .collect(),
    });
    let length = timeline
        .recorded
        .map_or(timeline.end, |recorded| recorded.end);
    some(length, ranks.collect(), most)
}

/// The last step, from its beginning.
fn of_job(timeline: &JobTimeline, most: usize) -> Run<'_> {
    let (begin, end) = last_step(timeline);
    let mut ranks: Vec<Rank<'_>> = timeline
        .ranks
        .iter()
        .map(|rank| Rank {
            name: rank_name(rank),
            lanes: Vec::new(),
        })
        .collect();
    for ((rank, stream), spans) in lanes(timeline) {
        let mut blocks = cut(&spans, (begin, end));
        for block in &mut blocks {
            block.from = block.from.saturating_sub(begin);
            block.to = block.to.saturating_sub(begin);
        }
        if let Some(rank) = ranks.get_mut(rank as usize).filter(|_| !blocks.is_empty()) {
            rank.lanes.push((timeline.stream_name(stream), blocks));
        }
    }
    ranks.retain(|rank| !rank.lanes.is_empty());
    some(end.saturating_sub(begin), ranks, most)
}

/// The first rank, the last and some between if their lanes are not too many; else the first one,
/// with as many of its lanes as may be.
fn some(length: Time, ranks: Vec<Rank<'_>>, most: usize) -> Run<'_> {
    let all = ranks.len();
    let evenly = |count: usize| -> BTreeSet<usize> {
        let last = count.saturating_sub(1).max(1);
        (0..count).map(|place| place * (all - 1) / last).collect()
    };
    let lanes = |chosen: &BTreeSet<usize>| -> usize {
        chosen.iter().map(|&rank| ranks[rank].lanes.len()).sum()
    };
    let mut ways = (2..=all.min(MAX_RANKS)).rev().map(evenly);
    let chosen = ways.find(|chosen| lanes(chosen) <= most);
    let chosen = chosen.unwrap_or_else(|| BTreeSet::from([0]));
    let mut cut = chosen.len() < all;
    let mut shown: Vec<Rank<'_>> = ranks
        .into_iter()
        .enumerate()
        .filter(|(index, _)| chosen.contains(index))
        .map(|(_, rank)| rank)
        .collect();
    for rank in &mut shown {
        cut |= rank.lanes.len() > most;
        rank.lanes.truncate(most);
    }
    Run {
        length,
        ranks: shown,
        cut,
    }
}
