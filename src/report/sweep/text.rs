//! A sweep for a terminal: the answer, the best points, what matters most, and what has no results.

use super::effects::{Effect, Placed, effects, ranked};
use super::folder::SweepInfo;
use super::row::{PointRow, Status};
use super::table::text;
use crate::metrics::{is_less_better, label, shown};
use crate::text_table::{Column, ERROR, Out, cell, left, right};

/// So many points are listed.
const SHOWN: usize = 10;
/// So many that have no results are named.
const NAMED: usize = 5;

/// One sentence: the best point, the worst, and what matters most.
#[must_use]
pub fn sweep_sentence(info: &SweepInfo, points: &[PointRow]) -> String {
    let objective = &info.objective;
    let all = ranked(points, objective);
    let fit = all.iter().filter(|p| p.row.metrics.fits != Some(false));
    let fit: Vec<&Placed<'_>> = fit.collect();
    let (Some(best), Some(worst)) = (fit.first(), fit.last()) else {
        return match all.is_empty() {
            true => format!("None of {} points has results.", points.len()),
            false => format!("None of {} points fits into memory.", points.len()),
        };
    };
    let what = label(objective);
    let mut sentence = format!(
        "{} has the {} {what}, {}",
        place(info, best),
        if is_less_better(objective) {
            "least"
        } else {
            "most"
        },
        shown(objective, best.value)
    );
    if fit.len() > 1 {
        let times = (best.value / worst.value).max(worst.value / best.value);
        sentence += &format!(
            ", {times:.2} × better than {} ({})",
            place(info, worst),
            shown(objective, worst.value)
        );
    }
    sentence.push('.');
    let effects = effects(&info.axes, points, objective);
    if let Some((axis, (level, ratio))) = effects.first().and_then(|e| Some((e, e.largest()?))) {
        sentence += &format!(
            " What matters most is {}: {} in place of {} makes it {}.",
            axis.axis,
            level,
            axis.from,
            change(*ratio)
        );
    }
    sentence
}

/// All of it.
#[must_use]
pub fn sweep_text(info: &SweepInfo, points: &[PointRow], colour: bool) -> String {
    let mut out = Out::new(colour);
    out.plain(&format!(
        "# fabricsim {}: {}, {} points over {}",
        info.version,
        info.title,
        points.len(),
        info.axes.join(", ")
    ));
    let rows = ranked(points, &info.objective);
    if !rows.is_empty() {
        out.plain("");
        best(&mut out, info, &rows);
    }
    let effects = effects(&info.axes, points, &info.objective);
    if !effects.is_empty() {
        out.heading(&format!("what matters, for {}", label(&info.objective)));
        tornado(&mut out, &effects);
    }
    failures(&mut out, info, points);
    out.plain("");
    out.plain(&sweep_sentence(info, points));
    out.text
}

/// A point by its axes.
fn place(info: &SweepInfo, placed: &Placed<'_>) -> String {
    let named = info.axes.iter().filter_map(|axis| {
        let value = placed.point.values.get(axis)?;
        Some(format!("{axis} {}", text(value)))
    });
    let mut place: Vec<String> = named.collect();
    place.extend(placed.row.job.clone());
    place.join(", ")
}

fn best(out: &mut Out, info: &SweepInfo, rows: &[Placed<'_>]) {
    let mut columns: Vec<Column> = info.axes.iter().map(|axis| left(axis.clone())).collect();
    columns.push(right("GPUs"));
    columns.push(right(label(&info.objective).to_owned()));
    let also = [
        "time_us",
        "busbw_gbs",
        "mfu",
        "memory_gib",
        "usd_per_mtok",
        "kw",
    ];
    let has = |name: &&str| {
        **name != info.objective && rows.iter().any(|r| r.row.metrics.number(name).is_some())
    };
    let also: Vec<&str> = also.into_iter().filter(has).collect();
    columns.extend(also.iter().map(|name| right(label(name).to_owned())));
    columns.push(left("limited by"));
    let lines = rows.iter().take(SHOWN).map(|placed| {
        let metrics = &placed.row.metrics;
        let value = |axis| placed.point.values.get(axis).map_or_else(String::new, text);
        let mut cells: Vec<String> = info.axes.iter().map(value).collect();
        cells.push(placed.row.gpus.to_string());
        cells.push(shown(&info.objective, placed.value));
        let number = |name: &&str| {
            metrics
                .number(name)
                .map_or_else(String::new, |n| shown(name, n))
        };
        cells.extend(also.iter().map(number));
        cells.push(match metrics.fits {
            Some(false) => "does not fit into memory".to_owned(),
            _ => metrics.cause.clone().unwrap_or_default(),
        });
        cells.into_iter().map(cell).collect::<Vec<_>>()
    });
    out.table(&columns, &lines.collect::<Vec<_>>());
    if rows.len() > SHOWN {
        let rest = rows.len() - SHOWN;
        out.plain(&format!("  … {rest} more rows in points.csv"));
    }
}

fn tornado(out: &mut Out, effects: &[Effect]) {
    let columns = [left("axis"), left("from"), left("to"), right("change")];
    let rows = effects.iter().filter_map(|effect| {
        let (level, ratio) = effect.largest()?;
        let cells = [
            effect.axis.clone(),
            effect.from.clone(),
            level.clone(),
            change(*ratio),
        ];
        Some(cells.into_iter().map(cell).collect())
    });
    out.table(&columns, &rows.collect::<Vec<_>>());
}

/// How much larger or smaller something becomes.
pub(super) fn change(ratio: f64) -> String {
    match ratio {
        r if r >= 2.0 => format!("{r:.2} × as large"),
        r if r >= 0.5 => {
            let percent = (r - 1.0) * 100.0;
            let sign = if percent < 0.0 { '−' } else { '+' };
            format!("{sign}{:.1} %", percent.abs())
        }
        r => format!("{:.2} × smaller", 1.0 / r),
    }
}

fn failures(out: &mut Out, info: &SweepInfo, points: &[PointRow]) {
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
        let named = info.axes.iter().filter_map(|axis| {
            let value = point.values.get(axis)?;
            Some(format!("{axis} {}", text(value)))
        });
        let place: Vec<String> = named.collect();
        let why = point.why.as_deref().unwrap_or_default();
        out.plain(&format!("  {}: {why}", place.join(", ")));
    }
    if without.len() > NAMED {
        out.plain(&format!("  … {} more in points.csv", without.len() - NAMED));
    }
}
