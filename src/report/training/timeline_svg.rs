//! `timeline.svg`: the last step as a still picture.

use super::{JobTimeline, SpanKind, rank_name};
use crate::blocks::{Block, Lanes, cut, joined, lanes, last_step};
use crate::chart::Axis;
use crate::looks::Look;
use crate::numbers::{seconds, trimmed};
use fabricsim_units::Time;
use fabricsim_units::text::xml;
use maud::{Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Width of the drawing, and where the time axis begins and ends in it.
const WIDTH: f64 = 1120.0;
const LEFT: f64 = 128.0;
const RIGHT: f64 = 1104.0;
/// Ranks that are drawn.
const MOST_RANKS: usize = 32;
/// Disturbances that get a line of their own.
const MOST_DISTURBANCES: usize = 5;
/// Bytes that the blocks may take; joining more of them keeps them below it.
const MOST_BYTES: usize = 800_000;
/// Blocks that are narrower than this, in units of the drawing, are joined first.
const GRAINS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 16.0];
/// Marks along the time axis.
const MOST_MARKS: usize = 10;

/// Colours without a style sheet; with one, ink and paper follow the reader's scheme.
const INK: &str = "#1F2328";
const MUTED: &str = "#575D66";
const GRID: &str = "#D9DDE3";
const PAPER: &str = "#FFFFFF";
const WAITING: &str = "#A9AFB8";
const ALARM: &str = "#C22F2F";

/// For programs that know style sheets: classes begin with `jt-`, so that several drawings in a
/// page do not disturb it.
const STYLE: &str = "@media (prefers-color-scheme:dark){\
.jt-ink{fill:#e8eaed}.jt-muted{fill:#a3a9b3}.jt-paper{fill:#1c2026}.jt-grid{stroke:#3a4049}\
.jt-idle{fill:#272c34}.jt-hatch{stroke:#6b727c}.jt-other{fill:#6b727c}.jt-alarm{fill:#f0716b}}\
@media print{.jt-ink{fill:#1f2328}.jt-muted{fill:#575d66}.jt-paper{fill:#fff}}";

/// Kinds of blocks in the order of the legend.
const LOOKS: [(Look, &str); 7] = [
    (Look::Task(SpanKind::Forward), "forward"),
    (Look::Task(SpanKind::Backward), "backward"),
    (Look::Task(SpanKind::Recompute), "recompute"),
    (Look::Task(SpanKind::Optimiser), "optimiser"),
    (Look::Task(SpanKind::Communication), "communication"),
    (Look::Task(SpanKind::Other), "other"),
    (Look::Waits, "waiting"),
];

/// The colour of a kind; what waits is hatched.
fn colour(look: Look) -> &'static str {
    match look {
        Look::Task(_) => look.fill(),
        Look::Waits | Look::Worker(_) => "none",
    }
}

/// The last step of a job: a row for each rank with its main stream and, thin below it, the
/// streams of communication that it uses.
#[must_use]
pub fn job_timeline_svg(timeline: &JobTimeline) -> String {
    let window = last_step(timeline);
    let rows = rows(timeline, window);
    let mut drawn = Blocks::default();
    for grain in GRAINS {
        drawn = Blocks::of(&rows, window, grain);
        if drawn.bytes() <= MOST_BYTES {
            break;
        }
    }
    let head = Head::of(timeline, window, &drawn);
    let height = head.height + rows.last().map_or(0.0, |row| row.y + row.height()) + 52.0;
    // Several drawings in one page should not share a pattern: a browser may not draw one that
    // is defined in a hidden part.
    let hatch = format!("jt-{}-{}", timeline.end.picos(), timeline.spans.len());
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {}", number(height)))
            width=(number(WIDTH)) height=(number(height)) font-family="sans-serif" font-size="12" {
            style { (PreEscaped(STYLE)) }
            defs {
                pattern id=(hatch) width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    path class="jt-hatch" d="M0 0V5" stroke=(WAITING) stroke-width="2.4" {}
                }
            }
            rect class="jt-paper" width="100%" height="100%" fill=(PAPER) {}
            (head.draw(&hatch))
            g transform=(format!("translate(0 {})", number(head.height))) {
                (axis(&rows, window))
                @for row in &rows { (row.draw(timeline, &hatch)) }
                (drawn.draw(&hatch))
            }
        }
    };
    xml(&drawing.into_string()).into_owned() + "\n"
}

/// A rank.
struct Row<'a> {
    /// An index into the timeline's ranks.
    index: usize,
    y: f64,
    sizes: Sizes,
    /// The main stream, as single tasks.
    main: Vec<Block<'a>>,
    /// Other streams in use.
    others: Vec<(u8, Vec<Block<'a>>)>,
}

/// Heights: the fewer ranks, the larger.
#[derive(Clone, Copy)]
struct Sizes {
    main: f64,
    lane: f64,
    gap: f64,
}

impl Sizes {
    fn of(ranks: usize) -> Sizes {
        let (main, lane, gap) = match ranks {
            0..=4 => (32.0, 10.0, 14.0),
            5..=8 => (26.0, 8.0, 10.0),
            9..=16 => (18.0, 5.0, 7.0),
            _ => (13.0, 3.0, 5.0),
        };
        Sizes { main, lane, gap }
    }
}

impl Row<'_> {
    fn lane_y(&self, lane: usize) -> f64 {
        self.y + self.sizes.main + 1.0 + lane as f64 * self.sizes.lane
    }

    fn height(&self) -> f64 {
        self.sizes.main + 1.0 + self.others.len() as f64 * self.sizes.lane
    }

    /// Names, and the ground that blocks are drawn on: where none is, the rank waits.
    fn draw(&self, timeline: &JobTimeline, hatch: &str) -> Markup {
        let Some(shown) = timeline.ranks.get(self.index) else {
            return Markup::default();
        };
        let (rank, _, part) = shown;
        let main = number(self.sizes.main);
        let middle = self.y + self.sizes.main / 2.0 + 4.0;
        let width = number(RIGHT - LEFT);
        // Of some 18 letters that have room.
        let left = 13usize.saturating_sub(rank.to_string().len()).max(2);
        html! {
            g {
                title { (rank_name(shown)) }
                text class="jt-ink" x=(number(LEFT - 8.0)) y=(number(middle)) text-anchor="end" fill=(INK) font-size="11.5" {
                    tspan font-weight="bold" { "rank " (rank) }
                    @if !part.is_empty() { " " tspan class="jt-muted" fill=(MUTED) { (shortened(part, left)) } }
                }
                @if self.sizes.lane >= 8.0 {
                    @for (lane, (stream, _)) in self.others.iter().enumerate() {
                        text class="jt-muted" x=(number(LEFT - 8.0)) y=(number(self.lane_y(lane) + self.sizes.lane / 2.0 + 3.0))
                            text-anchor="end" fill=(MUTED) font-size=(number(self.sizes.lane - 0.5)) { (timeline.stream_name(*stream)) }
                    }
                }
            }
            rect class="jt-idle" x=(number(LEFT)) y=(number(self.y)) width=(width) height=(main) fill="#EEF0F3" {}
            rect x=(number(LEFT)) y=(number(self.y)) width=(width) height=(main) fill=(format!("url(#{hatch})")) fill-opacity=".55" {}
        }
    }
}

/// The ranks that are drawn, evenly chosen if there are too many.
fn rows(timeline: &JobTimeline, window: (Time, Time)) -> Vec<Row<'_>> {
    let lanes = lanes(timeline);
    let all = timeline.ranks.len();
    let shown = all.min(MOST_RANKS);
    let sizes = Sizes::of(shown);
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut y = 0.0;
    for place in 0..shown {
        // The first and the last, and evenly between.
        let index = match shown {
            1 => 0,
            _ => place * (all - 1) / (shown - 1),
        };
        let (main, others) = streams(&lanes, index as u32, window);
        let row = Row {
            index,
            y,
            sizes,
            main,
            others,
        };
        y += row.height() + sizes.gap;
        rows.push(row);
    }
    rows
}

type Streams<'a> = (Vec<Block<'a>>, Vec<(u8, Vec<Block<'a>>)>);

/// The main stream of a rank, and those of its other streams on which something happens.
fn streams<'a>(lanes: &Lanes<'a>, rank: u32, window: (Time, Time)) -> Streams<'a> {
    let mut main = Vec::new();
    let mut others = Vec::new();
    for ((_, stream), spans) in lanes.range((rank, 0)..=(rank, u8::MAX)) {
        let blocks = cut(spans, window);
        match stream {
            0 => main = blocks,
            _ if blocks.is_empty() => {}
            _ => others.push((*stream, blocks)),
        }
    }
    (main, others)
}

/// Everything that is drawn as blocks: one path for each kind, and numbers of micro-batches.
#[derive(Default)]
struct Blocks {
    paths: BTreeMap<(Look, u16), String>,
    labels: String,
    /// Chunks of forward and backward passes, for their shades.
    chunks: u16,
    /// Some block shows several kinds one above the other.
    layered: bool,
}

impl Blocks {
    fn of(rows: &[Row<'_>], window: (Time, Time), grain: f64) -> Blocks {
        let across = Across::of(window);
        let grain = Time::from_picos((grain / across.scale) as u64);
        let mut out = Blocks::default();
        for row in rows {
            let main = joined(row.main.clone(), grain);
            for block in &main {
                out.add(block, &across, (row.y, row.sizes.main));
            }
            if row.sizes.main >= 13.0 {
                out.number_micro_batches(&main, &across, row);
            }
            for (lane, (_, blocks)) in row.others.iter().enumerate() {
                let tall = row.sizes.lane - if row.sizes.lane >= 5.0 { 1.5 } else { 0.5 };
                for block in &joined(blocks.clone(), grain) {
                    out.add(block, &across, (row.lane_y(lane), tall));
                }
            }
        }
        out
    }

    fn add(&mut self, block: &Block<'_>, across: &Across, (y, tall): (f64, f64)) {
        let (from, to) = (across.x(block.from), across.x(block.to));
        let width = to - from;
        // A slit between blocks, if they are wide enough to be seen then.
        let width = if width > 2.5 {
            width - 0.6
        } else {
            width.max(0.3)
        };
        // What alternates too fast to be seen side by side lies one above the other.
        let mut top = y;
        let looks = block.looks();
        self.layered |= looks.len() > 1;
        for (look, part) in looks {
            let chunk = match look {
                Look::Task(SpanKind::Forward | SpanKind::Backward) => block.chunk,
                _ => 0,
            };
            self.chunks = self.chunks.max(chunk + 1);
            let path = self.paths.entry((look, chunk)).or_default();
            let (x, y, width) = (fine(from), fine(top), fine(width));
            // Writing to a String cannot fail.
            let _ = write!(path, "M{x} {y}h{width}v{}h-{width}z", fine(part * tall));
            top += part * tall;
        }
    }

    /// A number in each pass of a micro-batch in which it fits.
    fn number_micro_batches(&mut self, blocks: &[Block<'_>], across: &Across, row: &Row<'_>) {
        let sizes = if row.sizes.main >= 18.0 {
            [11.0, 8.5]
        } else {
            [9.0, 7.5]
        };
        let mut first = 0;
        while first < blocks.len() {
            let pass = pass(&blocks[first]);
            let rest = blocks[first..].iter();
            let count = rest.take_while(|b| self::pass(b) == pass).count().max(1);
            let group = &blocks[first..first + count];
            first += count;
            let Some((_, micro_batch, _)) = pass else {
                continue;
            };
            let text = micro_batch.to_string();
            let length = |(from, to): (Time, Time)| across.x(to) - across.x(from);
            let strong = group
                .iter()
                .filter(|block| block.look != Look::Task(SpanKind::Recompute));
            let widest = strong.map(|block| (block.from, block.to));
            let widest = widest.max_by(|a, b| length(*a).total_cmp(&length(*b)));
            let whole = match group {
                [one, .., last] => Some((one.from, last.to)),
                _ => None,
            };
            let room = |size: f64| text.len() as f64 * size * 0.6 + 2.5;
            let mut places = sizes.into_iter().flat_map(|size| {
                let places = [widest, whole].into_iter().flatten();
                places.map(move |place| (size, place))
            });
            let fitting = places.find(|(size, place)| length(*place) >= room(*size));
            if let Some((size, (from, to))) = fitting {
                let x = fine((across.x(from) + across.x(to)) / 2.0);
                let y = number(row.y + row.sizes.main / 2.0 + size * 0.36);
                let _ = write!(
                    self.labels,
                    "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\">{text}</text>"
                );
            }
        }
    }

    fn bytes(&self) -> usize {
        self.paths.values().map(String::len).sum::<usize>() + self.labels.len()
    }

    fn has(&self, look: Look) -> bool {
        self.paths.keys().any(|(found, _)| *found == look)
    }

    /// The colour of a kind; later virtual stages of a rank are paler. Opaque, so that the ground
    /// does not shine through.
    fn shade(&self, look: Look, chunk: u16) -> String {
        let last = f64::from(self.chunks.saturating_sub(1).max(1));
        let white = 0.4 * f64::from(chunk) / last;
        let plain = colour(look);
        let part = |from: usize| {
            let found = plain.get(from..from + 2);
            let value = found.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let value = f64::from(value.unwrap_or(0));
            (value + (255.0 - value) * white).round() as u8
        };
        format!("#{:02X}{:02X}{:02X}", part(1), part(3), part(5))
    }

    fn draw(&self, hatch: &str) -> Markup {
        html! {
            @for ((look, chunk), path) in &self.paths {
                @match look {
                    Look::Waits | Look::Worker(_) => path d=(path) fill=(format!("url(#{hatch})")) {},
                    Look::Task(SpanKind::Other) => path class="jt-other" d=(path) fill=(colour(*look)) {},
                    Look::Task(_) => path d=(path) fill=(self.shade(*look, *chunk)) {},
                }
            }
            g fill="#FFFFFF" text-anchor="middle" font-weight="bold" { (PreEscaped(&self.labels)) }
        }
    }
}

/// Which pass of which micro-batch and chunk; what is computed again is part of the backward
/// pass.
fn pass(block: &Block<'_>) -> Option<(bool, u16, u16)> {
    let forward = match block.look {
        Look::Task(SpanKind::Forward) => true,
        Look::Task(SpanKind::Backward | SpanKind::Recompute) => false,
        _ => return None,
    };
    Some((forward, block.micro_batch?, block.chunk))
}

/// Times to places.
struct Across {
    from: Time,
    /// Units of the drawing for a picosecond.
    scale: f64,
}

impl Across {
    fn of((from, to): (Time, Time)) -> Across {
        let length = to.saturating_sub(from).picos().max(1);
        Across {
            from,
            scale: (RIGHT - LEFT) / length as f64,
        }
    }

    fn x(&self, time: Time) -> f64 {
        LEFT + time.saturating_sub(self.from).picos() as f64 * self.scale
    }
}

/// What stands above the rows: which step, the legend, and disturbances.
struct Head {
    title: String,
    legend: Vec<(Look, String, f64, f64)>,
    /// Text, and from where to where.
    disturbances: Vec<(String, f64, f64)>,
    more: usize,
    top: f64,
    height: f64,
}

impl Head {
    fn of(timeline: &JobTimeline, window: (Time, Time), drawn: &Blocks) -> Head {
        let length = seconds(window.1.saturating_sub(window.0).seconds());
        let steps = timeline.steps.len();
        let step = match steps {
            0 => format!("The whole run, {length}"),
            1 => format!("A step, {length}"),
            _ => format!("The last of {steps} steps, {length}"),
        };
        let shown = timeline.ranks.len().min(MOST_RANKS);
        let all = timeline.ranks.len() as u64 + u64::from(timeline.ranks_omitted);
        let mut title = if shown as u64 == all {
            step
        } else {
            format!("{step}; {shown} of {all} classes of ranks")
        };
        if drawn.layered {
            title += "; one above the other: kinds that alternate, by their share of the time";
        }
        let (legend, rows) = legend(drawn);
        let top = 34.0 + rows as f64 * 20.0;
        let across = Across::of(window);
        let visible = timeline.disturbances.iter().filter_map(|disturbance| {
            let (from, to) = disturbance.during(timeline.end)?;
            let (from, to) = (from.max(window.0), to.min(window.1));
            let text = format!("{}: {}", disturbance.place, disturbance.what);
            (from < to).then(|| (text, across.x(from), across.x(to)))
        });
        let mut disturbances: Vec<_> = visible.collect();
        let more = disturbances.len().saturating_sub(MOST_DISTURBANCES);
        disturbances.truncate(MOST_DISTURBANCES);
        let lines = disturbances.len() + usize::from(more > 0);
        Head {
            title,
            legend,
            height: top + lines as f64 * 16.0 + if lines > 0 { 8.0 } else { 0.0 },
            disturbances,
            more,
            top,
        }
    }

    fn draw(&self, hatch: &str) -> Markup {
        html! {
            text class="jt-ink" x="16" y="22" fill=(INK) font-size="14" font-weight="bold" { (self.title) }
            @for (look, name, x, y) in &self.legend {
                @match look {
                    Look::Waits => {
                        rect class="jt-idle" x=(number(*x)) y=(number(*y)) width="16" height="11" fill="#EEF0F3" {}
                        rect x=(number(*x)) y=(number(*y)) width="16" height="11" fill=(format!("url(#{hatch})")) {}
                    }
                    _ => rect x=(number(*x)) y=(number(*y)) width="16" height="11" rx="1.5" fill=(colour(*look)) {},
                }
                text class="jt-muted" x=(number(x + 21.0)) y=(number(y + 10.0)) fill=(MUTED) { (name) }
            }
            @for (line, (text, from, to)) in self.disturbances.iter().enumerate() {
                @let y = self.top + line as f64 * 16.0;
                rect x=(number(*from)) y=(number(y)) width=(number((to - from).max(1.0))) height="14" rx="2" fill=(ALARM) fill-opacity=".22" {}
                // Begins in the band if there is room behind, else ends there.
                @if *from < (LEFT + RIGHT) / 2.0 {
                    text class="jt-alarm" x=(number(from + 5.0)) y=(number(y + 11.0)) fill=(ALARM) font-size="11" { (text) }
                } @else {
                    text class="jt-alarm" x=(number(to - 5.0)) y=(number(y + 11.0)) fill=(ALARM) font-size="11" text-anchor="end" { (text) }
                }
            }
            @if self.more > 0 {
                @let y = self.top + self.disturbances.len() as f64 * 16.0 + 11.0;
                text class="jt-alarm" x=(number(LEFT)) y=(number(y)) fill=(ALARM) font-size="11" { "and " (self.more) " more disturbances" }
            }
        }
    }
}

/// Kinds that are in the drawing, with their places, and how many lines they take.
fn legend(drawn: &Blocks) -> (Vec<(Look, String, f64, f64)>, usize) {
    let mut out = Vec::new();
    let (mut x, mut line) = (16.0, 0);
    for (look, name) in LOOKS {
        // Gaps on the main stream are waiting too.
        if look != Look::Waits && !drawn.has(look) {
            continue;
        }
        let name = match look {
            Look::Task(SpanKind::Forward) if drawn.chunks > 1 => {
                "forward (paler: later virtual stages)"
            }
            Look::Waits => "waiting, or nothing to do",
            _ => name,
        };
        let width = 21.0 + name.chars().count() as f64 * 6.2 + 18.0;
        if x + width > RIGHT && x > 16.0 {
            (x, line) = (16.0, line + 1);
        }
        out.push((look, name.to_owned(), x, 34.0 + f64::from(line) * 20.0));
        x += width;
    }
    (out, line as usize + 1)
}

/// Lines and labels of time, from the beginning of what is shown.
fn axis(rows: &[Row<'_>], window: (Time, Time)) -> Markup {
    let length = window.1.saturating_sub(window.0).seconds();
    let (unit, name) = match length {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e-3, "ms"),
        _ => (1e-6, "µs"),
    };
    let axis = Axis::linear_to("", length / unit);
    let bottom = rows.last().map_or(0.0, |row| row.y + row.height()) + 4.0;
    let place = |part: f64| number(LEFT + (RIGHT - LEFT) * part);
    let mut places = BTreeSet::new();
    let marks: Vec<(String, &str)> = axis
        .marks(MOST_MARKS)
        .map(|(part, text)| (place(part), text))
        .filter(|(x, _)| places.insert(x.clone()))
        .collect();
    html! {
        @for (x, text) in &marks {
            path class="jt-grid" d=(format!("M{x} -4V{}", number(bottom + 4.0))) stroke=(GRID) {}
            text class="jt-muted" x=(x) y=(number(bottom + 18.0)) text-anchor="middle" fill=(MUTED) font-size="11.5" { (text) }
        }
        text class="jt-muted" x=(number((LEFT + RIGHT) / 2.0)) y=(number(bottom + 36.0)) text-anchor="middle" fill=(MUTED) { "time since the step began, " (name) }
    }
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn number(value: f64) -> String {
    trimmed(value, 1)
}

fn fine(value: f64) -> String {
    trimmed(value, 2)
}
