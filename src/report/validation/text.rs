//! Tables for a terminal.

use super::{
    BandErrors, SkipKind, Spread, ValidatedSet, Validation, choice, hundredths, skipped_by_reason,
    worst,
};
use crate::numbers::{micros, size};
use crate::table::paint;
use anstyle::{AnsiColor, Style};

const HEADER: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();
const BETTER: Style = AnsiColor::Green.on_default();
const WORSE: Style = AnsiColor::Yellow.on_default();

/// Rows that the table of the worst shows.
const WORST_SHOWN: usize = 10;
/// Columns that a list of names fills.
const LIST_WIDTH: usize = 100;
/// What a spread shows, and as wide.
const SPREAD_NAMES: &str = "median/p90/ratio";
const SPREAD_WIDTH: usize = SPREAD_NAMES.len();

/// Errors by set and over all, the worst rows, and what was skipped with its reasons.
#[must_use]
pub fn validation_text(validation: &Validation, colour: bool) -> String {
    let mut parts = Vec::new();
    if !validation.sets.is_empty() {
        parts.push(sets(&validation.sets, colour));
        parts.push(overall(validation, colour));
        parts.push(worst_rows(validation, colour));
    }
    parts.push(skipped(validation, colour));
    parts.join("\n")
}

fn heading(text: &str, colour: bool) -> String {
    paint(text, STRONG, colour) + "\n"
}

fn header(line: &str, colour: bool) -> String {
    paint(line.trim_end(), HEADER, colour) + "\n"
}

/// `12.3/45.6/ 104`, in the width of a spread.
fn spread(spread: Option<Spread>) -> String {
    let cells = spread.map(|s| {
        format!(
            "{:>5}/{:>4}/{:>4}",
            hundredths(s.median),
            hundredths(s.p90),
            format!("{:.0}", s.ratio * 100.0)
        )
    });
    let text = cells.unwrap_or_else(|| "-".into());
    format!("{text:>SPREAD_WIDTH$}")
}

/// The simulation's, in a colour that says whether it is nearer than NCCL's model, and that.
fn pair(band: &BandErrors, colour: bool) -> String {
    let style = match (band.predicted, band.baseline) {
        (Some(simulated), Some(model)) if simulated.median > model.median => WORSE,
        (Some(_), _) => BETTER,
        (None, _) => HEADER,
    };
    let simulated = paint(&spread(band.predicted), style, colour);
    format!("{simulated}  {}", spread(band.baseline))
}

fn sets(sets: &[ValidatedSet], colour: bool) -> String {
    let names = sets.iter().map(|set| set.label().chars().count());
    let width = names.fold("set".len(), usize::max);
    let bands = sets.first().map_or(&[][..], |set| &set.errors);
    let (mut first, mut second) = (format!("{:width$}", ""), format!("{:width$}", ""));
    let mut third = format!("{:width$}", "set");
    for band in bands {
        first += &format!("   {:^1$}", band.name, 2 * SPREAD_WIDTH + 2);
        second += &format!(
            "   {:>SPREAD_WIDTH$}  {:>SPREAD_WIDTH$}",
            "simulated", "NCCL's model"
        );
        third += &format!(
            "   {:>SPREAD_WIDTH$}  {:>SPREAD_WIDTH$}",
            SPREAD_NAMES, SPREAD_NAMES
        );
    }
    let mut out = heading("Errors by set, % of the measured time", colour);
    for line in [first, second, third] {
        out += &header(&line, colour);
    }
    for set in sets {
        out += &format!("{:width$}", set.label());
        for band in &set.errors {
            out += &format!("   {}", pair(band, colour));
        }
        out.push('\n');
    }
    out
}

fn overall(validation: &Validation, colour: bool) -> String {
    let lines = || validation.overall.iter();
    let width = lines().map(|o| o.name.chars().count()).fold(0, usize::max);
    let bands = lines().flat_map(|o| &o.bands);
    let band_width = bands.map(|b| b.name.chars().count()).fold(4, usize::max);
    let mut out = heading(
        "Errors over all, %: of each group (topology, ranks, collective) the median of its rows",
        colour,
    );
    let empty = "";
    out += &header(
        &format!(
            "{empty:width$}  {empty:band_width$}  {empty:>6}  {:>SPREAD_WIDTH$}  {:>SPREAD_WIDTH$}",
            "simulated", "NCCL's model"
        ),
        colour,
    );
    out += &header(
        &format!(
            "{empty:width$}  {:band_width$}  {:>6}  {:>SPREAD_WIDTH$}  {:>SPREAD_WIDTH$}",
            "size", "groups", SPREAD_NAMES, SPREAD_NAMES
        ),
        colour,
    );
    for line in lines() {
        for (index, band) in line.bands.iter().enumerate() {
            let name = if index == 0 { line.name.as_str() } else { "" };
            let groups = band.predicted.map_or(0, |spread| spread.count);
            out += &format!(
                "{name:width$}  {:band_width$}  {groups:>6}  {}\n",
                band.name,
                pair(band, colour)
            );
        }
    }
    out
}

fn worst_rows(validation: &Validation, colour: bool) -> String {
    let rows = worst(validation, WORST_SHOWN);
    let names = rows.iter().map(|(set, _)| set.label().chars().count());
    let width = names.fold("set".len(), usize::max);
    let mut out = heading("The rows that are furthest off", colour);
    out += &header(
        &format!(
            "{:width$}  {:>8}  {:>9}  {:>9} {:>8}  {:>12} {:>8}  chosen",
            "set", "size", "measured", "simulated", "", "NCCL's model", ""
        ),
        colour,
    );
    for (set, row) in rows {
        out += &format!(
            "{:width$}  {:>8}  {:>9}  {:>9} {:>8}  {:>12} {:>8}  {}\n",
            set.label(),
            size(row.bytes as f64),
            micros(row.measured_us),
            micros(row.predicted_us),
            super::signed(row.predicted_us, row.measured_us),
            micros(row.baseline_us),
            super::signed(row.baseline_us, row.measured_us),
            choice(row)
        );
    }
    out
}

/// How many tables were looked at, and why some were not predicted.
fn skipped(validation: &Validation, colour: bool) -> String {
    let counts = validation.counts;
    let mut out = format!(
        "{} tables, {} of them healthy, {} of those with a model block, {} of those predicted\n",
        counts.tables, counts.healthy, counts.with_model, counts.modelled
    );
    if counts.inferred > 0 {
        out += &format!(
            "{} with settings that are taken to have been otherwise than their sources say: predicted both ways, apart from all others\n",
            counts.inferred
        );
    }
    let reasons = skipped_by_reason(validation);
    if reasons.is_empty() {
        return out;
    }
    out.push('\n');
    out += &heading(&format!("Skipped: {}", validation.skipped.len()), colour);
    for ((kind, why), names) in reasons {
        let style = match kind {
            SkipKind::Failed => WORSE,
            SkipKind::NoModel | SkipKind::Unhealthy => Style::new(),
        };
        let text = format!("{}, {}: {why}", names.len(), kind.name());
        out += &(paint(&text, style, colour) + "\n");
        out += &list(&names);
    }
    out
}

/// Names in lines of a readable length, indented.
fn list(names: &[&str]) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for name in names {
        if !line.is_empty() && line.len() + name.len() > LIST_WIDTH {
            out += &format!("  {}\n", line.trim_end());
            line.clear();
        }
        line += name;
        line.push(' ');
    }
    out + &format!("  {}\n", line.trim_end())
}
