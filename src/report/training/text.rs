//! A job's results for a terminal.

use super::compare::{self, LEAST_SHARE, Line, effort, fits, ran};
use super::{
    CollectiveUse, Culprit, Disturbance, GoodputUse, JobSummary, MemoryUse, Share, StepResult,
    Variant, VariantResult,
};
use crate::numbers::{count, micros, percent, seconds, size, three_digits};
use crate::table::{BAR, HEADER, STRONG, bar, paint};
use anstyle::{AnsiColor, Style};

const WARNING: Style = AnsiColor::Yellow.on_default();
const ERROR: Style = AnsiColor::Red.on_default();
const BEST: Style = AnsiColor::Green.on_default().bold();

/// Communications, ranks and disturbances that are listed.
const MOST_ROWS: usize = 12;
/// Of a comparison: characters of a line, beyond which variants get a table further down.
const MOST_WIDTH: usize = 120;
/// A communication that takes so much longer than alone is marked.
const SLOW: f64 = 1.25;

/// What a person wants to know of a run first: for one variant its speed, where the time went,
/// communications, memory and whom others waited for; for several a comparison. Lines that
/// start with `#` say what was run.
#[must_use]
pub fn job_table(summary: &JobSummary, colour: bool) -> String {
    let mut out = Out {
        text: String::new(),
        colour,
    };
    let run = format!("# fabricsim {}, seed {}", summary.version, summary.seed);
    out.line(&run, HEADER);
    if !summary.title.is_empty() {
        out.line(&format!("# {}", summary.title), HEADER);
    }
    match summary.variants.as_slice() {
        [one] => alone(summary, one, &mut out),
        several => {
            let shown = compare::order(several).into_iter();
            let shown: Vec<&Variant> = shown.map(|index| &several[index]).collect();
            compared(summary, &shown, &mut out);
        }
    }
    for warning in &summary.warnings {
        out.line(&format!("# warning: {warning}"), WARNING);
    }
    out.text
}

/// Text in the making.
struct Out {
    text: String,
    colour: bool,
}

impl Out {
    fn line(&mut self, text: &str, style: Style) {
        self.plain(&paint(text, style, self.colour));
    }

    fn plain(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, text: &str) {
        self.text.push('\n');
        self.line(text, STRONG);
    }

    fn paint(&self, text: &str, style: Style) -> String {
        paint(text, style, self.colour)
    }

    /// Rows of cells, each column as wide as its widest, with two blanks between.
    fn table(&mut self, columns: &[Column], rows: &[Vec<Cell>]) {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let cells = cells.map(|cell| cell.text.chars().count());
            cells.fold(columns[column].name.chars().count(), usize::max)
        };
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        if columns.iter().any(|column| !column.name.is_empty()) {
            let names = columns.iter().zip(&widths);
            let names = names.map(|(column, width)| column.pad(column.name, *width));
            let line = format!("  {}", names.collect::<Vec<_>>().join("  "));
            self.line(line.trim_end(), HEADER);
        }
        for row in rows {
            let cells = row.iter().zip(columns).zip(&widths);
            let cells = cells.map(|((cell, column), width)| {
                let padded = column.pad(&cell.text, *width);
                // Blanks stay outside: some terminals colour them too.
                let painted = cell.style.map(|style| {
                    let (before, after) = padded.split_once(&cell.text).unwrap_or((&padded, ""));
                    format!("{before}{}{after}", self.paint(&cell.text, style))
                });
                painted.unwrap_or(padded)
            });
            let line = format!("  {}", cells.collect::<Vec<_>>().join("  "));
            self.plain(&line);
        }
    }
}

struct Column {
    name: &'static str,
    right: bool,
}

const fn left(name: &'static str) -> Column {
    Column { name, right: false }
}

const fn right(name: &'static str) -> Column {
    Column { name, right: true }
}

impl Column {
    fn pad(&self, text: &str, width: usize) -> String {
        if self.right {
            format!("{text:>width$}")
        } else {
            format!("{text:<width$}")
        }
    }
}

struct Cell {
    text: String,
    style: Option<Style>,
}

fn cell(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        style: None,
    }
}

fn styled(text: impl Into<String>, style: Style) -> Cell {
    Cell {
        text: text.into(),
        style: Some(style),
    }
}

/// What a variant is, in up to three lines.
fn described(variant: &Variant) -> Vec<String> {
    let nodes = match variant.nodes {
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    let model = format!(
        "{} ({} parameters)",
        variant.model,
        count(variant.parameters)
    );
    let place = format!(
        "{model} on {} GPUs, {nodes}: {}",
        variant.gpus, variant.topology_title
    );
    let way = [variant.layout.as_str(), variant.schedule.as_str()];
    let way: Vec<&str> = way.into_iter().filter(|text| !text.is_empty()).collect();
    let mut lines = vec![place];
    if !way.is_empty() {
        lines.push(way.join("; "));
    }
    lines
}

fn alone(summary: &JobSummary, variant: &Variant, out: &mut Out) {
    for line in described(variant) {
        out.line(&format!("# {line}"), HEADER);
    }
    match &variant.result {
        VariantResult::Failed(error) => {
            out.text.push('\n');
            if !summary.answer.is_empty() {
                out.line(&summary.answer, STRONG);
            }
            out.line(&format!("failed: {error}"), ERROR);
        }
        VariantResult::Ran(result) => {
            out.line(&format!("# {}", effort(variant, result)), HEADER);
            if !summary.answer.is_empty() {
                out.text.push('\n');
                out.line(&summary.answer, STRONG);
            }
            out.text.push('\n');
            speed(variant, result, out);
            shares(&whole(result), &result.time, out);
            collectives(&result.collectives, out);
            memory(&result.memory, out);
            culprits(&result.culprits, out);
            disturbances(&result.disturbances, out);
            if let Some(used) = &result.goodput {
                goodput(used, out);
            }
        }
    }
}

/// The figures that jobs are compared by.
fn speed(variant: &Variant, result: &StepResult, out: &mut Out) {
    let per_gpu = result.tokens_per_s / f64::from(variant.gpus.max(1));
    let steps = match result.steps_s.as_slice() {
        [] | [_] => String::new(),
        steps => {
            let steps: Vec<String> = steps.iter().map(|step| seconds(*step)).collect();
            format!("the last of {}", steps.join(", "))
        }
    };
    let mut rows = vec![
        ["step time".into(), seconds(result.step_s), steps],
        [
            "throughput".into(),
            format!("{} tokens/s", count(result.tokens_per_s)),
            format!(
                "{} tokens/s per GPU, {} tokens a step",
                count(per_gpu),
                count(result.tokens as f64)
            ),
        ],
        [
            "model operations".into(),
            format!(
                "{} TFLOP/s per GPU",
                three_digits(result.model_tflops_per_gpu)
            ),
            format!(
                "MFU {}, {} with causal attention counted half",
                percent(result.mfu),
                percent(result.mfu_causal)
            ),
        ],
    ];
    if let Some(dollars) = result.dollars_per_million_tokens {
        let price = format!("${}", three_digits(dollars));
        rows.push(["cost".into(), price, "per million tokens".into()]);
    }
    let shares = [
        (
            "bubble",
            result.bubble,
            "of the time GPUs wait for other stages or have finished",
        ),
        (
            "exposed communication",
            result.exposed_communication,
            "of the time it hides behind no kernel",
        ),
        (
            "overlap",
            result.overlap,
            "of communication is hidden by kernels",
        ),
    ];
    rows.extend(shares.map(|(what, share, note)| [what.into(), percent(share), note.into()]));
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|[what, value, note]| vec![cell(what), styled(value, STRONG), cell(note)])
        .collect();
    out.table(&[left(""), left(""), left("")], &rows);
}

fn whole(result: &StepResult) -> String {
    let total: f64 = result.time.iter().map(|share| share.seconds).sum();
    let steps = match result.steps_s.len() {
        0 | 1 => String::new(),
        steps => format!(" in {steps} steps"),
    };
    format!(
        "Where the time went: an average GPU, {}{steps}",
        seconds(total)
    )
}

/// Bars, the longest first.
fn shares(heading: &str, shares: &[Share], out: &mut Out) {
    if shares.is_empty() {
        return;
    }
    out.heading(heading);
    let shown = shares.iter().filter(|share| share.share >= LEAST_SHARE);
    let mut sorted: Vec<&Share> = shown.collect();
    sorted.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let rows: Vec<Vec<Cell>> = sorted
        .into_iter()
        .map(|share| {
            vec![
                cell(&share.what),
                cell(seconds(share.seconds)),
                cell(percent(share.share)),
                styled(bar(share.share), BAR),
            ]
        })
        .collect();
    out.table(&[left(""), right(""), right(""), left("")], &rows);
}

/// Those that take most of a GPU's time first.
pub(super) fn by_time(uses: &[CollectiveUse]) -> Vec<&CollectiveUse> {
    let mut sorted: Vec<&CollectiveUse> = uses.iter().collect();
    let total = |used: &CollectiveUse| f64::from(used.count) * used.time_us;
    sorted.sort_by(|a, b| total(b).total_cmp(&total(a)));
    sorted
}

/// Others are in its way.
pub(super) fn slowed(used: &CollectiveUse) -> bool {
    used.alone_us > 0.0 && used.time_us > SLOW * used.alone_us
}

fn collectives(uses: &[CollectiveUse], out: &mut Out) {
    if uses.is_empty() {
        return;
    }
    out.heading("Communication, of one GPU: what takes most time first");
    let sorted = by_time(uses);
    let row = |used: &&CollectiveUse| {
        let time = micros(used.time_us);
        vec![
            cell(format!("{} ({})", used.group, used.ranks)),
            cell(&used.what),
            cell(size(used.bytes.get() as f64)),
            cell(used.count.to_string()),
            if slowed(used) {
                styled(time, WARNING)
            } else {
                cell(time)
            },
            cell(micros(used.alone_us)),
            cell(format!("{} GB/s", three_digits(used.busbw_gbs))),
            cell(&used.how),
            cell(used.sms.to_string()),
        ]
    };
    let rows: Vec<Vec<Cell>> = sorted.iter().take(MOST_ROWS).map(row).collect();
    let columns = [
        left("group (ranks)"),
        left("what"),
        right("size"),
        right("count"),
        right("time"),
        right("alone"),
        right("busbw"),
        left("how"),
        right("SMs"),
    ];
    out.table(&columns, &rows);
    more(sorted.len(), "kinds", out);
}

fn more(all: usize, what: &str, out: &mut Out) {
    if all > MOST_ROWS {
        out.plain(&format!("  and {} more {what}", all - MOST_ROWS));
    }
}

fn memory(memory: &MemoryUse, out: &mut Out) {
    let (total, capacity) = (memory.total.get() as f64, memory.capacity.get() as f64);
    let verdict = if memory.fits {
        format!("fits, {} free", size((capacity - total).max(0.0)))
    } else {
        format!(
            "does NOT fit: {} too much",
            size((total - capacity).max(0.0))
        )
    };
    out.heading(&format!(
        "Memory of the fullest GPU, stage {}: {} of {}, {verdict}",
        memory.stage,
        size(total),
        size(capacity)
    ));
    let style = if memory.fits { BAR } else { ERROR };
    let rows: Vec<Vec<Cell>> = memory
        .parts
        .iter()
        .map(|(what, bytes)| {
            let share = bytes.get() as f64 / capacity.max(1.0);
            vec![
                cell(what),
                cell(size(bytes.get() as f64)),
                cell(percent(share)),
                styled(bar(share), style),
            ]
        })
        .collect();
    out.table(&[left(""), right(""), right(""), left("")], &rows);
}

fn culprits(culprits: &[Culprit], out: &mut Out) {
    if culprits.is_empty() {
        return;
    }
    out.heading("Ranks that others waited for");
    let row = |culprit: &Culprit| {
        vec![
            cell(culprit.rank.to_string()),
            cell(&culprit.gpu),
            cell(seconds(culprit.caused_s)),
            cell(seconds(culprit.waited_s)),
            styled(culprit.why.clone().unwrap_or_default(), WARNING),
        ]
    };
    let rows: Vec<Vec<Cell>> = culprits.iter().take(MOST_ROWS).map(row).collect();
    let columns = [
        right("rank"),
        left("GPU"),
        right("others waited"),
        right("waited itself"),
        left("why"),
    ];
    out.table(&columns, &rows);
    more(culprits.len(), "ranks", out);
}

/// From when to when.
pub(super) fn period(disturbance: &Disturbance) -> String {
    let from = seconds(disturbance.from_s);
    match disturbance.to_s {
        None if disturbance.from_s <= 0.0 => "all the time".to_owned(),
        None => format!("from {from} to the end"),
        Some(to) => format!("from {from} to {}", seconds(to)),
    }
}

fn disturbances(disturbances: &[Disturbance], out: &mut Out) {
    if disturbances.is_empty() {
        return;
    }
    out.heading("Disturbances");
    let rows: Vec<Vec<Cell>> = disturbances
        .iter()
        .take(MOST_ROWS)
        .map(|disturbance| {
            vec![
                styled(&disturbance.what, WARNING),
                cell(&disturbance.place),
                cell(period(disturbance)),
            ]
        })
        .collect();
    out.table(&[left(""), left(""), left("")], &rows);
    more(disturbances.len(), "disturbances", out);
}

/// A percentage with one decimal: intervals differ by little.
pub(super) fn tenths(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn goodput(used: &GoodputUse, out: &mut Out) {
    let heading = format!(
        "Goodput over a long run: {}, with a checkpoint every {} and {} failures",
        tenths(used.goodput),
        seconds(used.interval_s),
        count(used.failures)
    );
    shares(&heading, &used.time, out);
    if used.time.is_empty() {
        out.heading(&heading);
    }
    if used.intervals.is_empty() {
        return;
    }
    let rows: Vec<Vec<Cell>> = used
        .intervals
        .iter()
        .map(|(name, interval, goodput)| {
            vec![cell(name), cell(seconds(*interval)), cell(tenths(*goodput))]
        })
        .collect();
    let columns = [left("interval"), right("work between"), right("goodput")];
    out.table(&columns, &rows);
}

fn compared(summary: &JobSummary, variants: &[&Variant], out: &mut Out) {
    for variant in variants {
        let lines = described(variant);
        out.line(&format!("# {}: {}", variant.name, lines.join("; ")), HEADER);
        if let Some(result) = ran(variant) {
            let text = effort(variant, result);
            out.line(&format!("#   {text}"), HEADER);
        }
    }
    let baseline = summary.baseline.as_deref().unwrap_or_default();
    let lines = compare::lines(variants, &summary.waterfall, baseline);
    let names = lines
        .iter()
        .map(shown_name)
        .map(|name| name.chars().count());
    let names = names.max().unwrap_or(0);
    let mut first = 0;
    while first < variants.len() {
        let fitting = fitting(
            variants,
            &lines,
            first,
            MOST_WIDTH.saturating_sub(names + 2),
        );
        out.text.push('\n');
        columns_of((variants, baseline), &lines, first..first + fitting, out);
        first += fitting;
    }
    if variants.iter().any(|variant| fits(variant)) {
        let mark = out.paint("*", BEST);
        let text = out.paint(" the best of those compared that fit into memory", HEADER);
        out.plain(&format!("  {mark}{text}"));
    }
    out.text.push('\n');
    for variant in variants {
        if let VariantResult::Failed(error) = &variant.result {
            out.line(&format!("{} failed: {error}", variant.name), ERROR);
        }
        if let Some(text) = compare::unsaid(summary, variant) {
            out.plain(&text);
        }
    }
    if !summary.answer.is_empty() {
        out.line(&summary.answer, STRONG);
    }
}

fn shown_name(line: &Line) -> String {
    let indent = if line.part.is_some() { "  " } else { "" };
    format!("{indent}{}", line.what)
}

/// How many variants from `first` on fit into `width`; at least one.
fn fitting(variants: &[&Variant], lines: &[Line], first: usize, width: usize) -> usize {
    let mut used = 0;
    let fits = |variant: &usize| {
        let cells = lines
            .iter()
            .filter_map(|line| line.cells[*variant].as_ref());
        let widest = cells
            .map(|text| text.chars().count() + 1)
            .max()
            .unwrap_or(0);
        let mark = mark(variants[*variant], &variants[*variant].name)
            .chars()
            .count();
        used += widest
            .max(variants[*variant].name.chars().count())
            .max(mark)
            + 2;
        used <= width
    };
    (first..variants.len()).take_while(fits).count().max(1)
}

/// What is said of a variant below its name.
fn mark(variant: &Variant, baseline: &str) -> &'static str {
    match ran(variant) {
        Some(result) if !result.memory.fits && variant.name == baseline => "baseline, does not fit",
        Some(result) if !result.memory.fits => "does not fit",
        Some(_) if variant.name == baseline => "baseline",
        _ => "",
    }
}

/// The table of some of the variants; a `*` behind the best.
fn columns_of(
    (variants, baseline): (&[&Variant], &str),
    lines: &[Line],
    shown: std::ops::Range<usize>,
    out: &mut Out,
) {
    let mut columns = vec![left("")];
    columns.extend(shown.clone().map(|_| right("")));
    let mut heading = vec![cell("")];
    // As wide as a mark more, so that names stand over numbers.
    heading.extend(shown.clone().map(|v| {
        let name = &variants[v].name;
        styled(format!("{name} "), STRONG)
    }));
    let mut rows = vec![heading];
    let marks = shown.clone().map(|v| mark(variants[v], baseline));
    if marks.clone().any(|mark| !mark.is_empty()) {
        let mut row = vec![cell("")];
        row.extend(marks.map(|text| match text {
            "" | "baseline" => styled(format!("{text} "), HEADER),
            text => styled(format!("{text} "), ERROR),
        }));
        rows.push(row);
    }
    for (index, line) in lines.iter().enumerate() {
        if let Some(whole) = line.part
            && lines[index.saturating_sub(1)].part != line.part
        {
            rows.push(vec![cell(whole.heading())]);
        }
        let mut row = vec![cell(shown_name(line))];
        row.extend(shown.clone().map(|variant| {
            let failed = ran(variants[variant]).is_none();
            match &line.cells[variant] {
                Some(text) if line.best.contains(&variant) => styled(format!("{text}*"), BEST),
                Some(text) => cell(format!("{text} ")),
                None if failed && line.what == "step time" => styled("failed ", ERROR),
                None => cell("– "),
            }
        }));
        rows.push(row);
    }
    out.table(&columns, &rows);
}
