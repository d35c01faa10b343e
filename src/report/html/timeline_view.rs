//! The timeline as data for the page's canvas.

use super::page;
use crate::looks::Look;
use crate::numbers::grouped;
use crate::record::{Span, Timeline};
use crate::recorded_sentence;
use crate::{ReportError, bins};
use maud::{Markup, html};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Draws timelines that are in the page: `showTimeline(element)`, which it calls for each `.timeline`.
pub const SCRIPT: &str = include_str!("assets/timeline.js");

/// How much of a timeline a page shows.
#[derive(Debug)]
pub(super) struct Shown {
    /// Spans, at most.
    pub(super) spans: usize,
    /// What has the others.
    pub(super) all: &'static str,
}

impl Shown {
    /// About two megabytes, which any browser opens at once.
    pub(super) const IN_REPORT: Shown = Shown {
        spans: 60_000,
        all: "timeline.json beside this page has all",
    };
}

/// Kinds in the order of the legend: those of collectives.
fn looks() -> impl Iterator<Item = Look> {
    let all = Look::ALL.into_iter();
    all.filter(|look| matches!(look, Look::Worker(_)))
}

/// What the script reads. Times are picoseconds.
#[derive(Serialize)]
pub(crate) struct Data<'a> {
    pub(crate) end: u64,
    /// When what was recorded begins; nothing is drawn before.
    pub(crate) begin: u64,
    /// Kinds of spans: the variable of the page's style that is its colour, its name for people,
    /// and whether its spans have their names written into them.
    #[serde(serialize_with = "told")]
    pub(crate) looks: Vec<Look>,
    pub(crate) names: Vec<Cow<'a, str>>,
    pub(crate) ranks: Vec<String>,
    /// Of ranks of several runs: when each one's run ended.
    pub(crate) ends: Vec<u64>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) bin: u64,
    /// By family: name, and the busiest link's use in thousandths, by bin.
    pub(crate) uses: Vec<(&'a str, Vec<u32>)>,
    /// Indices of `names`.
    #[serde(skip)]
    known: BTreeMap<Cow<'a, str>, usize>,
}

impl<'a> Data<'a> {
    /// Nothing yet, of spans of these kinds, from when to when.
    pub(crate) fn new(looks: Vec<Look>, (begin, end): (u64, u64)) -> Data<'a> {
        Data {
            end,
            begin,
            looks,
            names: Vec::new(),
            ranks: Vec::new(),
            ends: Vec::new(),
            lanes: Vec::new(),
            bin: 1,
            uses: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    /// The indices of a kind and of a name, for [`Lane::push`].
    pub(crate) fn kinds(&mut self, look: Look, name: Cow<'a, str>) -> (usize, usize) {
        let look = self.looks.iter().position(|known| *known == look);
        let name = *self.known.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            self.names.len() - 1
        });
        (look.unwrap_or(0), name)
    }
}

fn told<S: Serializer>(looks: &[Look], serializer: S) -> Result<S::Ok, S::Error> {
    let told = looks.iter();
    serializer.collect_seq(told.map(|look| (look.colour(), look.name(), look.is_written())))
}

#[derive(Serialize)]
pub(crate) struct Lane {
    /// An index into `ranks`.
    rank: usize,
    name: String,
    /// Five numbers a span: kind, name, bytes, time since the end of the one before
    /// (or since zero), duration.
    spans: Vec<i64>,
    /// The end of the last of `spans`, while they are collected.
    #[serde(skip)]
    before: u64,
}

impl Lane {
    /// An empty lane of a rank, which is an index into [`Data::ranks`].
    pub(crate) fn new(rank: usize, name: String) -> Lane {
        Lane {
            rank,
            name,
            spans: Vec::new(),
            before: 0,
        }
    }

    /// When the first span begins, if there is any.
    pub(crate) fn begin(&self) -> Option<u64> {
        let first = self.spans.get(3)?;
        u64::try_from(*first).ok()
    }

    /// When the last span ends.
    pub(crate) fn end(&self) -> u64 {
        self.before
    }

    /// The next span: indices of its kind and name, and from when to when.
    pub(crate) fn push(
        &mut self,
        (look, name): (usize, usize),
        bytes: u64,
        (start, end): (u64, u64),
    ) {
        self.spans.extend([
            look as i64,
            name as i64,
            bytes as i64,
            start.wrapping_sub(self.before) as i64,
            end.saturating_sub(start) as i64,
        ]);
        self.before = end;
    }
}

/// The timeline's section or a note if nothing was traced.
pub(super) fn view(timeline: &Timeline, how: &Shown) -> Result<Markup, ReportError> {
    if timeline.spans.is_empty() {
        return Ok(html! { p.note { "No operation was traced in this run." } });
    }
    let shown = choose(timeline, how.spans);
    let left_out = left_out(timeline, &shown, how.all);
    Ok(html! {
        (canvas(&collect(timeline, &shown), "Timeline of the traced operation")?)
        @if let Some(text) = left_out { p.note { (text) } }
    })
}

/// A canvas with its legend and buttons, and the data that [`SCRIPT`] draws on it.
pub(crate) fn canvas(data: &Data<'_>, label: &str) -> Result<Markup, ReportError> {
    let json = serde_json::to_string(data).map_err(|source| ReportError::Json {
        what: "the timeline",
        source,
    })?;
    Ok(html! {
        div.timeline {
            div.tools {
                ul.legend {
                    @for look in &data.looks {
                        li { span.swatch style={ "background:var(--" (look.colour()) ")" } {} (look.name()) }
                    }
                }
                div.buttons {
                    button type="button" data-do="in" title="Zoom in (+)" { "+" }
                    button type="button" data-do="out" title="Zoom out (−)" { "−" }
                    button type="button" data-do="fit" title="Show all (0)" { "all" }
                }
            }
            canvas tabindex="0" role="img" aria-label=(label) {}
            div.tip hidden {}
            (page::data(&json))
        }
        p.note.screen {
            "Drag: move. Ctrl and wheel, or + and −: zoom. Shift and wheel: move in time. Arrows and 0 as well; after a click the wheel alone zooms."
        }
        noscript { p.note { "The timeline needs JavaScript; timeline.json beside this page opens in Perfetto." } }
    })
}

/// The spans to show: whole ranks from the first on, as many as fit; of the first rank,
/// if it alone is too much, the beginning.
fn choose(timeline: &Timeline, most: usize) -> Vec<&Span> {
    let mut by_rank: BTreeMap<u32, usize> = BTreeMap::new();
    for span in &timeline.spans {
        *by_rank.entry(span.rank).or_default() += 1;
    }
    let mut total = 0;
    let fits = |(rank, count): (u32, usize)| {
        total += count;
        (total <= most).then_some(rank)
    };
    let first = by_rank.keys().next().copied();
    let mut ranks: BTreeSet<u32> = by_rank.into_iter().map_while(fits).collect();
    ranks.extend(first);
    let chosen = timeline
        .spans
        .iter()
        .filter(|span| ranks.contains(&span.rank));
    chosen.take(most).collect()
}

/// Where a timeline begins: at zero, unless most of what is before the first span is blank.
pub(crate) fn begin(starts: impl Iterator<Item = u64>, end: u64) -> u64 {
    let first = starts.min().unwrap_or(0);
    if first > end / BLANK { first } else { 0 }
}

/// A part of the timeline that may be blank before the first span.
const BLANK: u64 = 20;

/// What is missing, in a sentence.
fn left_out(timeline: &Timeline, shown: &[&Span], all: &str) -> Option<String> {
    let mut parts = Vec::new();
    if shown.len() < timeline.spans.len() {
        let ranks = |spans: &mut dyn Iterator<Item = u32>| spans.collect::<BTreeSet<_>>().len();
        parts.push(format!(
            "{} of {} spans are shown, of {} of {} recorded GPUs; {all}.",
            grouped(shown.len() as u64),
            grouped(timeline.spans.len() as u64),
            ranks(&mut shown.iter().map(|span| span.rank)),
            ranks(&mut timeline.spans.iter().map(|span| span.rank)),
        ));
    }
    match timeline.ranks_omitted {
        _ if timeline.recorded.is_some() => {
            parts.extend(timeline.recorded.map(|r| recorded_sentence(&r)))
        }
        0 => {}
        1 => parts.push("1 more GPU was simulated but not recorded.".to_owned()),
        more => parts.push(format!(
            "{} more GPUs were simulated but not recorded.",
            grouped(u64::from(more))
        )),
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn collect<'a>(timeline: &'a Timeline, shown: &[&'a Span]) -> Data<'a> {
    let end = timeline.end.picos();
    let begin = begin(shown.iter().map(|span| span.start.picos()), end);
    let mut data = Data::new(looks().collect(), (begin, end));
    let mut lanes: BTreeMap<(u32, u32), Lane> = BTreeMap::new();
    for span in shown {
        let lane = lanes
            .entry((span.rank, span.track.number()))
            .or_insert_with(|| Lane::new(0, span.track.name()));
        let kinds = data.kinds(Look::Worker(span.doing.activity()), span.doing.name());
        let during = (span.start.picos(), span.end.picos());
        lane.push(kinds, span.bytes.get(), during);
    }
    let mut ranks: Vec<u32> = lanes.keys().map(|(rank, _)| *rank).collect();
    ranks.dedup();
    data.ranks = ranks.iter().map(|&rank| timeline.rank_name(rank)).collect();
    let lanes = lanes.into_iter().map(|((rank, _), lane)| Lane {
        rank: ranks.binary_search(&rank).unwrap_or(0),
        ..lane
    });
    data.lanes = lanes.collect();
    data.bin = timeline.bin.picos();
    let families = bins::families(timeline).into_iter().map(|family| {
        let used = family.max.iter().map(|used| (used * 1000.0).round() as u32);
        (family.name, used.collect())
    });
    data.uses = families.collect();
    data
}
