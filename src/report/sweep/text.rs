//! A sweep for a terminal: the answer, the best points, what matters most, and what has no results.

use super::effects::{Effect, Placed, effects, ranked};
use super::info::SweepInfo;
use super::levels::Axis;
use super::listing::Listing;
use super::row::{PointRow, Status};
use super::sentence::sweep_sentence;
use crate::metrics::label;
use crate::numbers::three_digits;
use crate::text_table::{Column, ERROR, Out, cell, left, right};

/// So many points are listed.
const SHOWN: usize = 10;
/// So many that have no results are named.
const NAMED: usize = 5;
/// A cause cut to less says nothing.
const LEAST_CAUSE: usize = 14;

/// All of it, in lines of at most `width` characters where columns that can go are enough for that.
#[must_use]
pub fn sweep_text(
    info: &SweepInfo,
    points: &[PointRow],
    colour: bool,
    width: Option<usize>,
) -> String {
    let mut out = Out::new(colour);
    let rows = ranked(points, &info.objective);
    let listing = Listing::of(info, points, &rows);
    let names: Vec<&str> = listing.axes.iter().map(|axis| axis.name.as_str()).collect();
    out.plain(&format!("# fabricsim {}: {}", info.version, info.title));
    let over = match names.is_empty() {
        true => String::new(),
        false => format!(" over {}", names.join(", ")),
    };
    let same = match listing.same.is_empty() {
        true => String::new(),
        false => format!("; in all: {}", listing.same.join(", ")),
    };
    out.plain(&format!("# {} points{over}{same}", points.len()));
    if let Some(builds) = info.builds(points) {
        out.plain(&format!("# warning: {builds}"));
    }
    if !rows.is_empty() {
        out.plain("");
        best(&mut out, &listing, &rows, width);
    }
    let effects = effects(&info.axes, points, &info.objective);
    if !effects.is_empty() {
        out.heading(&format!("what matters, for {}", label(&info.objective)));
        tornado(&mut out, &effects);
    }
    failures(&mut out, &listing.axes, points);
    out.plain("");
    out.plain(&sweep_sentence(info, points));
    out.text
}

/// A column of the list of points, with its cells.
struct Cells {
    name: String,
    right: bool,
    cells: Vec<String>,
    /// Where it may go if a line is too long: what has the largest number goes first.
    leaves: usize,
}

impl Cells {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.fold(self.name.chars().count(), usize::max)
    }
}

fn best(out: &mut Out, listing: &Listing<'_>, rows: &[Placed<'_>], width: Option<usize>) {
    let shown = &rows[..rows.len().min(SHOWN)];
    let column = |name: &str, right, leaves, cell: &dyn Fn(&Placed<'_>) -> String| Cells {
        name: name.to_owned(),
        right,
        cells: shown.iter().map(cell).collect(),
        leaves,
    };
    let axes = listing.axes.iter().map(|axis| {
        let number = axis.kind().is_some();
        column(&axis.name, number, 0, &|placed| {
            Listing::level(axis, placed)
        })
    });
    let mut all: Vec<Cells> = axes.collect();
    if listing.gpus {
        all.push(column("GPUs", true, 1, &|placed| {
            placed.row.gpus.to_string()
        }));
    }
    for (index, metric) in listing.metrics.iter().enumerate() {
        // The objective stays; what stands behind goes first.
        let leaves = if index == 0 { 0 } else { index + 1 };
        let number = |placed: &Placed<'_>| Listing::number(metric, placed);
        all.push(column(label(metric), true, leaves, &number));
    }
    all.push(column("limited by", false, 0, &Listing::cause));
    let left_out = fit(&mut all, width);
    let heads = all.iter().map(|cells| match cells.right {
        true => right(cells.name.clone()),
        false => left(cells.name.clone()),
    });
    let heads: Vec<Column> = heads.collect();
    let lines = (0..shown.len()).map(|row| {
        let cells = all.iter().map(|column| cell(column.cells[row].clone()));
        cells.collect::<Vec<_>>()
    });
    out.table(&heads, &lines.collect::<Vec<_>>());
    let mut more = Vec::new();
    if rows.len() > SHOWN {
        more.push(format!("{} more rows", rows.len() - SHOWN));
    }
    if !left_out.is_empty() {
        more.push(left_out.join(", "));
    }
    if !more.is_empty() {
        out.plain(&format!("  … {} in points.csv", more.join(" and ")));
    }
}

/// Leaves out columns until lines fit, and cuts the last one; gives the names of those that went.
fn fit(all: &mut Vec<Cells>, width: Option<usize>) -> Vec<String> {
    let mut left_out = Vec::new();
    let Some(width) = width else { return left_out };
    let used = |all: &[Cells]| {
        let before = all.split_last().map_or(&[][..], |(_, before)| before);
        2 + before.iter().map(|cells| cells.width() + 2).sum::<usize>()
    };
    while used(all) + LEAST_CAUSE > width {
        let leaving = all.iter().enumerate().filter(|(_, cells)| cells.leaves > 0);
        let Some((index, _)) = leaving.max_by_key(|(_, cells)| cells.leaves) else {
            break;
        };
        left_out.push(all.remove(index).name);
    }
    let room = width.saturating_sub(used(all)).max(LEAST_CAUSE);
    if let Some(last) = all.last_mut() {
        for text in &mut last.cells {
            if text.chars().count() > room {
                *text = text.chars().take(room - 1).chain(['…']).collect();
            }
        }
    }
    left_out
}

fn tornado(out: &mut Out, effects: &[Effect]) {
    let columns = [left("axis"), left("from"), left("to"), right("change")];
    let rows = effects.iter().filter_map(|effect| {
        let (level, ratio) = effect.largest()?;
        let cells = [
            effect.axis.clone(),
            effect.from.shown(),
            level.shown(),
            change(*ratio),
        ];
        Some(cells.into_iter().map(cell).collect())
    });
    out.table(&columns, &rows.collect::<Vec<_>>());
    for effect in effects {
        if let Some(why) = effect.why_none() {
            out.plain(&format!("  {} changes nothing: {why}", effect.axis));
        }
    }
}

/// How much larger or smaller something becomes: `+12.4 %`, `× 2.31`, `× 0.310`.
pub(super) fn change(ratio: f64) -> String {
    if !(0.5..2.0).contains(&ratio) {
        return format!("× {}", three_digits(ratio));
    }
    let percent = (ratio - 1.0) * 100.0;
    match percent.abs() < 0.05 {
        true => "none".to_owned(),
        false => {
            let sign = if percent < 0.0 { '−' } else { '+' };
            format!("{sign}{:.1} %", percent.abs())
        }
    }
}

fn failures(out: &mut Out, axes: &[Axis], points: &[PointRow]) {
    let without: Vec<&PointRow> = points.iter().filter(|p| p.status != Status::Done).collect();
    if without.is_empty() {
        return;
    }
    out.plain("");
    let heading = format!(
        "{} of {} points have no results:",
        without.len(),
        points.len()
    );
    out.line(&heading, ERROR);
    for point in without.iter().take(NAMED) {
        let place = Listing::place(axes, point, None);
        out.plain(&format!(
            "  {place}: {}",
            point.why.as_deref().unwrap_or_default()
        ));
    }
    if without.len() > NAMED {
        out.plain(&format!("  … {} more in points.csv", without.len() - NAMED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_percent_or_times() {
        assert_eq!(change(0.555), "−44.5 %");
        assert_eq!(change(1.162), "+16.2 %");
        assert_eq!(change(5864.77), "× 5865");
        assert_eq!(change(0.31), "× 0.310");
        assert_eq!(change(1.0001), "none");
    }
}
