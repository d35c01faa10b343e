//! The front as a picture: what more tokens a second take.

use super::{Choice, Optimized};
use crate::ReportError;
use crate::chart::{Chart, GREY, Mark, PALETTE, Series, Style, draw_svg};
use crate::metrics::label;
use crate::sweep::{metric_axis, span};

/// Tokens per second and GPU of all that was simulated against another number; nothing where it is not
/// known of two of them.
///
/// # Errors
/// What drawing gives.
pub(super) fn scatter(found: &Optimized, against: &str) -> Result<Option<String>, ReportError> {
    const RATE: &str = "tokens_per_s_per_gpu";
    let place = |choice: &Choice| {
        let number = |name| choice.metrics.number(name);
        number(against).zip(number(RATE))
    };
    let all: Vec<(f64, f64)> = found.all.iter().filter_map(place).collect();
    let x = span(all.iter().map(|point| point.0));
    let y = span(all.iter().map(|point| point.1));
    let Some((x, y)) = x.zip(y).filter(|_| all.len() > 1) else {
        return Ok(None);
    };
    let ((x, factor_x), (y, factor_y)) = (metric_axis(against, x), metric_axis(RATE, y));
    let is = |of: &[Choice], choice: &Choice| of.iter().any(|one| one.is_same(choice));
    let best = &found.best[..found.best.len().min(1)];
    // Each has one mark: the last of these that it is.
    let level = |choice: &Choice| match (is(best, choice), is(&found.pareto, choice)) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    let marks = |own: usize, label: &str, colour, mark| {
        let choices = found.all.iter().filter(|choice| level(choice) == own);
        let places = choices.filter_map(place);
        Series {
            label: Some(label.to_owned()),
            colour,
            style: Style::Marks(mark),
            points: places.map(|(x, y)| (x * factor_x, y * factor_y)).collect(),
        }
    };
    let series = vec![
        marks(0, "simulated", GREY, Mark::Cross),
        marks(1, "on the front", PALETTE[0], Mark::Circle),
        marks(2, "the best", PALETTE[1], Mark::Triangle),
    ];
    let chart = Chart {
        title: format!("{} and {}", label(RATE), label(against)),
        subtitle: "the front: no other layout is better in tokens/s per GPU, dollars, memory and power at once"
            .to_owned(),
        x,
        y,
        series,
    };
    draw_svg(&chart).map(Some)
}
