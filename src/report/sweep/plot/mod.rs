//! Plots of a sweep: lines over an axis or a metric, heat maps over two axes.

mod choose;
mod lines;
mod map;
mod spec;
mod values;

pub use choose::chosen_plot;
pub use spec::{PlotSpec, WrongName};
pub(crate) use values::{metric_axis, span};

use super::effects::{Placed, ranked};
use super::info::SweepInfo;
use super::levels::Axis;
use super::row::PointRow;
use crate::ReportError;
use crate::chart::{Chart, HeatMap, draw_map_svg, draw_svg};
use crate::metrics::label;

/// A plot, ready to be drawn.
#[derive(Debug, Clone)]
pub enum Plot {
    /// Lines or marks.
    Lines(Chart),
    /// Coloured cells.
    Map(HeatMap),
}

impl Plot {
    /// As SVG text.
    ///
    /// # Errors
    /// What drawing gives.
    pub fn svg(&self) -> Result<String, ReportError> {
        match self {
            Plot::Lines(chart) => draw_svg(chart),
            Plot::Map(map) => draw_map_svg(map),
        }
    }

    /// As a PNG file.
    ///
    /// # Errors
    /// What drawing and the system give; `path` then holds what it held.
    #[cfg(feature = "png")]
    pub fn png(&self, path: &std::path::Path) -> Result<(), ReportError> {
        match self {
            Plot::Lines(chart) => crate::chart::draw_png(chart, path),
            Plot::Map(map) => crate::chart::draw_map_png(map, path),
        }
    }
}

/// A plot of points; of those alone that have the `fixed` values on their axes. Of points that differ
/// in axes that the plot does not show, the best one by the objective is drawn. Nothing if no point has
/// what it shows.
///
/// # Errors
/// A name that is no axis or metric.
pub fn sweep_plot(
    info: &SweepInfo,
    points: &[PointRow],
    spec: &PlotSpec,
    fixed: &[(String, String)],
) -> Result<Option<Plot>, WrongName> {
    let axes = Axis::all(&info.axes, points);
    let names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
    spec.check(&names)?;
    let view = View::of(info, points, (&axes, fixed));
    Ok(match spec.is_map(&names) {
        true => map::map(&view, spec).map(Plot::Map),
        false => lines::lines(&view, spec).map(Plot::Lines),
    })
}

/// The rows that a plot may show, best first.
struct View<'p> {
    info: &'p SweepInfo,
    axes: &'p [Axis],
    fixed: &'p [(String, String)],
    rows: Vec<Placed<'p>>,
    /// So many rows are not shown because they do not fit into memory.
    unfit: usize,
}

impl<'p> View<'p> {
    fn of(
        info: &'p SweepInfo,
        points: &'p [PointRow],
        (axes, fixed): (&'p [Axis], &'p [(String, String)]),
    ) -> Self {
        let meets = |placed: &Placed<'_>| {
            fixed.iter().all(|(name, wanted)| {
                let axis = axes.iter().find(|axis| axis.name == *name);
                let level = axis.and_then(|a| a.levels.get(a.level_of(placed.point, placed.row)?));
                level.is_some_and(|level| level.text == *wanted)
            })
        };
        let mut rows = ranked(points, &info.objective);
        rows.retain(meets);
        let all = rows.len();
        rows.retain(|placed| placed.row.metrics.fits != Some(false));
        View {
            info,
            axes,
            fixed,
            unfit: all - rows.len(),
            rows,
        }
    }

    fn axis(&self, name: &str) -> Option<&'p Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    /// The axes in which the rows still differ, beside those that are shown.
    fn free(&self, shown: &[&str]) -> Vec<&'p str> {
        let fixed = |axis: &Axis| self.fixed.iter().any(|(name, _)| *name == axis.name);
        let differ = |axis: &Axis| {
            let mut levels = self.rows.iter();
            let mut levels = levels
                .by_ref()
                .map(|placed| axis.level_of(placed.point, placed.row));
            let first = levels.next();
            levels.any(|level| Some(level) != first)
        };
        let free = self
            .axes
            .iter()
            .filter(|axis| !shown.contains(&axis.name.as_str()) && !fixed(axis) && differ(axis));
        free.map(|axis| axis.name.as_str()).collect()
    }

    /// What the line below the title says: what is chosen, what is fixed, what is left out.
    fn notes(&self, first: Option<String>, shown: &[&str]) -> String {
        let mut notes: Vec<String> = first.into_iter().collect();
        let free = self.free(shown);
        if !free.is_empty() {
            let objective = label(&self.info.objective);
            notes.push(format!("best of {} by {objective}", listed(&free)));
        }
        let fixed = self
            .fixed
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        notes.extend(fixed);
        if self.unfit > 0 {
            notes.push(format!(
                "{} that do not fit into memory left out",
                self.unfit
            ));
        }
        match notes.is_empty() {
            true => self.info.title.clone(),
            false => notes.join("; "),
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}
