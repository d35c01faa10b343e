//! A job's timeline as data for the page's canvas: a lane for each stream of each rank.

use super::{JobTimeline, rank_name};
use crate::ReportError;
use crate::blocks::{Block, Lanes, cut, joined, lanes, last_step};
use crate::html::{Data, Lane, begin, canvas};
use crate::looks::Look;
use crate::numbers::grouped;
use fabricsim_units::Time;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Blocks that a page holds: about two megabytes, which any browser opens at once.
const MOST_BLOCKS: usize = 60_000;
/// Ranks beyond which no one scrolls.
const MOST_RANKS: usize = 32;
/// Parts of a step that are told apart where blocks have to be joined.
const GRAINS: [u64; 3] = [20_000, 5_000, 1_000];

/// Kinds in the order of the legend: those of jobs.
fn looks() -> impl Iterator<Item = Look> {
    let all = Look::ALL.into_iter();
    all.filter(|look| !matches!(look, Look::Worker(_)))
}

/// The timeline's canvas, or nothing if nothing was recorded.
pub(crate) fn view(timeline: &JobTimeline) -> Result<Markup, ReportError> {
    if timeline.spans.is_empty() {
        return Ok(html! {});
    }
    let shown = Shown::of(timeline);
    let mut data = Data::new(looks().collect(), (0, timeline.end.picos()));
    let several = timeline.spans.iter().any(|span| span.chunk > 0);
    for ((rank, stream), blocks) in &shown.blocks {
        let mut lane = Lane::new(*rank as usize, timeline.stream_name(*stream));
        for block in blocks {
            let kinds = data.kinds(block.look, block_name(block, several).into());
            let from = block.from.picos().max(lane.end());
            lane.push(kinds, block.bytes.get(), (from, block.to.picos()));
        }
        data.lanes.push(lane);
    }
    data.begin = begin(data.lanes.iter().filter_map(Lane::begin), data.end);
    let ranks = timeline.ranks.iter().take(MOST_RANKS);
    data.ranks = ranks.map(rank_name).collect();
    let canvas = canvas(&data, "Timeline of the job")?;
    Ok(html! {
        (canvas)
        @if !shown.left_out.is_empty() { p.note { (shown.left_out.join(" ")) } }
    })
}

/// What is put into the page.
struct Shown<'a> {
    /// By rank and stream.
    blocks: BTreeMap<(u32, u8), Vec<Block<'a>>>,
    left_out: Vec<String>,
}

impl<'a> Shown<'a> {
    /// All tasks if they fit; else those of the last step; else with small ones joined; else
    /// of as many ranks as fit.
    fn of(timeline: &'a JobTimeline) -> Shown<'a> {
        let lanes = lanes(timeline);
        let step = last_step(timeline);
        let ranks = timeline.ranks.len().min(MOST_RANKS);
        let length = step.1.saturating_sub(step.0).picos();
        let mut ways = vec![((Time::ZERO, Time::MAX), None), (step, None)];
        let grains = GRAINS.map(|parts| Some(Time::from_picos(length / parts)));
        ways.extend(grains.map(|grain| (step, grain)));
        let mut blocks = BTreeMap::new();
        let mut used = ways[0];
        for way in ways {
            blocks = all_blocks(&lanes, ranks, way);
            used = way;
            if blocks.values().map(Vec::len).sum::<usize>() <= MOST_BLOCKS {
                break;
            }
        }
        let fitting = cut_ranks(&mut blocks, ranks);
        let mut left_out = Vec::new();
        if used.0 == step && timeline.steps.len() > 1 {
            left_out.push("Only the last step is shown.".to_owned());
        }
        if used.1.is_some() {
            left_out.push("Short tasks of a micro-batch are drawn as one.".to_owned());
        }
        let all = timeline.ranks.len();
        if fitting < all {
            left_out.push(format!("{fitting} of {all} recorded ranks are shown."));
        }
        if !left_out.is_empty() {
            let trace = timeline.left_out();
            let all = || "The timeline's JSON beside this page has all.".to_owned();
            left_out.push(trace.unwrap_or_else(all));
        }
        if timeline.ranks_omitted > 0 {
            let omitted = grouped(u64::from(timeline.ranks_omitted));
            left_out.push(format!(
                "{omitted} more classes of ranks were simulated but not recorded."
            ));
        }
        Shown { blocks, left_out }
    }
}

fn all_blocks<'a>(
    lanes: &Lanes<'a>,
    ranks: usize,
    (window, grain): ((Time, Time), Option<Time>),
) -> BTreeMap<(u32, u8), Vec<Block<'a>>> {
    let shown = lanes
        .iter()
        .filter(|((rank, _), _)| (*rank as usize) < ranks);
    let blocks = shown.map(|(key, spans)| {
        let blocks = cut(spans, window);
        let blocks = match grain {
            Some(grain) => joined(blocks, grain),
            None => blocks,
        };
        (*key, blocks)
    });
    blocks.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

/// Keeps whole ranks, as many as fit but at least one; returns how many.
fn cut_ranks(blocks: &mut BTreeMap<(u32, u8), Vec<Block<'_>>>, ranks: usize) -> usize {
    let mut counts = vec![0; ranks];
    for ((rank, _), blocks) in blocks.iter() {
        counts[*rank as usize] += blocks.len();
    }
    let mut total = 0;
    let fits = |count: &&usize| {
        total += **count;
        total <= MOST_BLOCKS
    };
    let fitting = counts.iter().take_while(fits).count().max(1);
    blocks.retain(|(rank, _), _| (*rank as usize) < fitting);
    fitting
}

/// `attention, micro-batch 3, step 1`; of several tasks, that there are more.
fn block_name(block: &Block<'_>, chunks: bool) -> String {
    let mut name = block.what.clone().into_owned();
    if block.tasks > 1 {
        name += " …";
    }
    if let Some(micro_batch) = block.micro_batch {
        name += &format!(", micro-batch {micro_batch}");
        if chunks {
            name += &format!(", virtual stage {}", block.chunk);
        }
    }
    name + &format!(", step {}", block.step)
}
