//! Which columns a table of a sweep's rows has, in a terminal and on a page.

use super::effects::Placed;
use super::info::SweepInfo;
use super::levels::{Axis, shown as shown_value};
use super::row::PointRow;
use crate::metrics::{label, shown};

/// Numbers beside the objective, in this order.
const ALSO: [&str; 7] = [
    "time_us",
    "busbw_gbs",
    "mfu",
    "memory_gib",
    "usd_per_mtok",
    "kw",
    "kwh_per_mtok",
];

/// The columns of rows. What is the same in all of them is said once, and has none.
pub(super) struct Listing<'a> {
    /// Axes that vary.
    pub(super) axes: Vec<Axis>,
    /// Numbers: the objective first.
    pub(super) metrics: Vec<&'a str>,
    /// Whether rows have different numbers of GPUs that no axis says.
    pub(super) gpus: bool,
    /// What is the same in all rows: `gpus 8`, `time 3.33 s`.
    pub(super) same: Vec<String>,
}

impl<'a> Listing<'a> {
    pub(super) fn of(info: &'a SweepInfo, points: &[PointRow], rows: &[Placed<'_>]) -> Self {
        let (axes, single): (Vec<Axis>, Vec<Axis>) = Axis::all(&info.axes, points)
            .into_iter()
            .partition(Axis::varies);
        let mut same: Vec<String> = single
            .iter()
            .filter_map(|axis| Some(format!("{} {}", axis.name, axis.levels.first()?.shown())))
            .collect();
        let mut counts = rows.iter().map(|placed| placed.row.gpus);
        let first = counts.next();
        let gpus = counts.any(|gpus| Some(gpus) != first);
        let said = |axis: &Axis| axis.name == "gpus";
        if let Some(first) = first.filter(|_| !gpus && !single.iter().any(said)) {
            same.push(format!("{first} GPUs"));
        }
        let mut metrics = vec![info.objective.as_str()];
        for name in ALSO.into_iter().filter(|name| *name != info.objective) {
            let text = |placed: &Placed<'_>| {
                let value = placed.row.metrics.number(name);
                value.map(|value| shown(name, value))
            };
            let Some(first) = rows.iter().find_map(text) else {
                continue;
            };
            match rows.len() > 1 && rows.iter().all(|row| text(row).as_ref() == Some(&first)) {
                true => same.push(format!("{} {first}", label(name))),
                false => metrics.push(name),
            }
        }
        Listing {
            gpus: gpus && !axes.iter().any(said),
            axes,
            metrics,
            same,
        }
    }

    /// A row's value on an axis, for people.
    pub(super) fn level(axis: &Axis, placed: &Placed<'_>) -> String {
        let level = axis.level_of(placed.point, placed.row);
        let level = level.and_then(|level| axis.levels.get(level));
        level.map_or_else(String::new, |level| level.shown())
    }

    /// A number of a row, for people; the objective's is always there.
    pub(super) fn number(metric: &str, placed: &Placed<'_>) -> String {
        let value = placed.row.metrics.number(metric);
        value.map_or_else(String::new, |value| shown(metric, value))
    }

    /// What limits a row, or that it does not fit.
    pub(super) fn cause(placed: &Placed<'_>) -> String {
        match placed.row.metrics.fits {
            Some(false) => "does not fit into memory".to_owned(),
            _ => placed.row.metrics.cause.clone().unwrap_or_default(),
        }
    }

    /// A point by the axes that vary: `nodes 4, bucket 16 MiB`.
    pub(super) fn place(axes: &[Axis], point: &PointRow, job: Option<&str>) -> String {
        let named = axes.iter().filter_map(|axis| {
            let value = point.values.get(&axis.name)?;
            Some(format!("{} {}", axis.name, shown_value(value)))
        });
        let mut place: Vec<String> = named.collect();
        place.extend(job.map(str::to_owned));
        match place.is_empty() {
            true => format!("point {}", point.point),
            false => place.join(", "),
        }
    }
}
