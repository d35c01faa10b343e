//! The answer of a sweep in one or two sentences.

use super::effects::{Placed, effects, ranked};
use super::info::SweepInfo;
use super::levels::Axis;
use super::listing::Listing;
use super::plot::{chosen_plot, listed};
use super::row::PointRow;
use super::winners::{by_size, has_sizes};
use crate::metrics::{is_less_better, label, shown};

/// The axis of a sweep's parts.
const PART: &str = "part";
/// So many parts are told of.
const PARTS: usize = 4;
/// With more values of an axis it is not said what is best with each.
const TOLD: usize = 8;

/// What points say: of collectives which choice is fastest at which sizes; of others the best point
/// and the worst, and what is best with what, or what matters most. Of a sweep with parts the same of
/// each of them, shorter.
#[must_use]
pub fn sweep_sentence(info: &SweepInfo, points: &[PointRow]) -> String {
    let all = ranked(points, &info.objective);
    let fit = |placed: &&Placed<'_>| placed.row.metrics.fits != Some(false);
    let fit: Vec<&Placed<'_>> = all.iter().filter(fit).collect();
    if fit.is_empty() {
        let count = points.len();
        return match all.is_empty() {
            true => format!("None of {count} points has results."),
            false => format!("None of {count} points fits into memory."),
        };
    }
    let axes: Vec<Axis> = Axis::all(&info.axes, points)
        .into_iter()
        .filter(Axis::varies)
        .collect();
    let Some(part) = axes.iter().find(|axis| axis.name == PART) else {
        return whole(info, points, (&axes, &fit));
    };
    let told = part.levels.iter().enumerate().take(PARTS);
    let told = told.map(|(level, name)| {
        let mine = |placed: &&&Placed<'_>| part.level_of(placed.point, placed.row) == Some(level);
        let rows: Vec<&Placed<'_>> = fit.iter().filter(mine).copied().collect();
        let own: Vec<PointRow> = points
            .iter()
            .filter(|point| {
                point
                    .values
                    .get(PART)
                    .is_some_and(|v| v.as_str() == Some(&name.text))
            })
            .cloned()
            .collect();
        let axes = Axis::all(&info.axes, &own);
        let axes: Vec<Axis> = axes.into_iter().filter(Axis::varies).collect();
        let said = match has_sizes(&rows) {
            true => by_size(info, &own, (&axes, &rows)),
            false => None,
        };
        let said = said.or_else(|| {
            let (high, best) = (at_best(info).0, rows.first()?);
            let (what, value) = (label(&info.objective), value(info, &axes, best));
            Some(format!("the {high} {what} is {value}"))
        });
        format!(
            "{}: {}",
            name.text,
            said.unwrap_or_else(|| "no results".to_owned())
        )
    });
    let told: Vec<String> = told.collect();
    let more = part.levels.len().saturating_sub(PARTS);
    match more {
        0 => format!("{}.", told.join("; ")),
        more => format!("{}; {more} more parts.", told.join("; ")),
    }
}

/// Of a sweep with one base.
fn whole(info: &SweepInfo, points: &[PointRow], (axes, fit): (&[Axis], &[&Placed<'_>])) -> String {
    let by_size = has_sizes(fit).then(|| by_size(info, points, (axes, fit)));
    if let Some(said) = by_size.flatten() {
        return format!("{said}.");
    }
    let second = best_with(info, points, (axes, fit)).or_else(|| matters(info, points));
    let mut said = best(info, axes, fit);
    said.extend(second);
    said.join(" ")
}

fn place(axes: &[Axis], placed: &Placed<'_>) -> String {
    Listing::place(axes, placed.point, placed.row.job.as_deref())
}

/// The value of the best point, or of the worst, and where it is: `73.1 k with nodes 1, bucket 16 MiB`.
fn value(info: &SweepInfo, axes: &[Axis], placed: &Placed<'_>) -> String {
    format!(
        "{} with {}",
        shown(&info.objective, placed.value),
        place(axes, placed)
    )
}

/// What the objective is at best: `least time`.
fn at_best(info: &SweepInfo) -> (&'static str, &'static str) {
    match is_less_better(&info.objective) {
        true => ("least", "most"),
        false => ("most", "least"),
    }
}

/// The best point beside the worst.
fn best(info: &SweepInfo, axes: &[Axis], fit: &[&Placed<'_>]) -> Vec<String> {
    let (Some(best), Some(worst)) = (fit.first(), fit.last()) else {
        return Vec::new();
    };
    let (high, low) = at_best(info);
    let mut sentence = format!(
        "The {high} {}: {}",
        label(&info.objective),
        value(info, axes, best)
    );
    if best.value != worst.value {
        sentence += &format!("; the {low}: {}", value(info, axes, worst));
        let times = (best.value / worst.value).max(worst.value / best.value);
        if best.value > 0.0 && worst.value > 0.0 && times >= 1.005 {
            sentence += &match is_less_better(&info.objective) {
                true => format!(", {times:.2} times as much"),
                false => format!(", {times:.2} times less"),
            };
        }
    }
    vec![sentence + "."]
}

/// Which value of the plot's horizontal axis is best with which of its lines, if that is not always the
/// same.
fn best_with(
    info: &SweepInfo,
    points: &[PointRow],
    (axes, fit): (&[Axis], &[&Placed<'_>]),
) -> Option<String> {
    let plot = chosen_plot(info, points);
    let axis = |name: &str| axes.iter().find(|axis| axis.name == name);
    let (x, by) = (axis(&plot.x)?, axis(plot.by.as_ref().unwrap_or(&plot.y))?);
    if by.levels.len() > TOLD {
        return None;
    }
    // The values of `by` for which each value of `x` is best, in the order in which they come up.
    let mut best: Vec<(usize, Vec<usize>)> = Vec::new();
    for level in 0..by.levels.len() {
        let mine = |placed: &&&Placed<'_>| by.level_of(placed.point, placed.row) == Some(level);
        let Some(first) = fit.iter().find(mine) else {
            continue;
        };
        let winner = x.level_of(first.point, first.row)?;
        match best.iter_mut().find(|(known, _)| *known == winner) {
            Some((_, levels)) => levels.push(level),
            None => best.push((winner, vec![level])),
        }
    }
    if best.len() < 2 {
        return None;
    }
    let told = best.iter().map(|(winner, levels)| {
        let levels = levels.iter().map(|&level| by.levels[level].shown());
        let levels: Vec<String> = levels.collect();
        format!(
            "{} with {} {}",
            x.levels[*winner].shown(),
            by.name,
            listed(&levels)
        )
    });
    Some(format!(
        "The best {} is {}.",
        x.name,
        told.collect::<Vec<_>>().join("; ")
    ))
}

/// The axis that changes the objective most.
fn matters(info: &SweepInfo, points: &[PointRow]) -> Option<String> {
    let effects = effects(&info.axes, points, &info.objective);
    let effect = effects.first()?;
    let (level, ratio) = effect.largest()?;
    let what = label(&info.objective);
    let change = match *ratio {
        r if (0.99..1.01).contains(&r) => {
            return Some(format!("No axis changes the {what} by more than 1 %."));
        }
        r if r >= 2.0 => format!("{r:.1} times as high"),
        r if r >= 1.0 => format!("{:.0} % higher", (r - 1.0) * 100.0),
        r if r >= 0.5 => format!("{:.0} % lower", (1.0 - r) * 100.0),
        r => format!("{:.1} times lower", 1.0 / r),
    };
    Some(format!(
        "What matters most is {}: {} in place of {} makes the {what} {change}.",
        effect.axis,
        level.shown(),
        effect.from.shown()
    ))
}
