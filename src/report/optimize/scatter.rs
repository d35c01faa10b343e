//! What was simulated as a picture, with the machines apart: what more tokens a second take.

use super::{Choice, Optimized, ServingChoice, ServingSearch};
use crate::ReportError;
use crate::chart::{Chart, GREY, Mark, PALETTE, Series, Style, draw_svg};
use crate::metrics::{Metrics, label};
use crate::sweep::{metric_axis, span};
use plotters::style::RGBColor;

/// One that was simulated.
struct Dot<'a> {
    machine: &'a str,
    metrics: &'a Metrics,
    level: Level,
}

/// Each has one mark: of the last of these that it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Simulated,
    Front,
    Best,
}

impl Level {
    const ALL: [(Level, &'static str, Mark); 3] = [
        (Level::Simulated, "simulated", Mark::Cross),
        (Level::Front, "on the front", Mark::Circle),
        (Level::Best, "the best", Mark::Triangle),
    ];

    const fn of(is_best: bool, is_front: bool) -> Level {
        match (is_best, is_front) {
            (true, _) => Level::Best,
            (false, true) => Level::Front,
            (false, false) => Level::Simulated,
        }
    }
}

/// Tokens per second and GPU of all layouts that were simulated against another number; nothing where it is not
/// known of two of them.
///
/// # Errors
/// What drawing gives.
pub(super) fn layouts(found: &Optimized, against: &str) -> Result<Option<String>, ReportError> {
    let is = |of: &[Choice], choice: &Choice| of.iter().any(|one| one.is_same(choice));
    let firsts: Vec<Choice> = found.firsts().into_iter().cloned().collect();
    let dots = found.all.iter().map(|choice| Dot {
        machine: &choice.topology,
        metrics: &choice.metrics,
        level: Level::of(is(&firsts, choice), is(&found.pareto, choice)),
    });
    let dots: Vec<Dot<'_>> = dots.collect();
    let subtitle = "the front: no other layout is better in tokens/s per GPU, dollars, memory and power at once";
    picture(&dots, (against, "tokens_per_s_per_gpu"), subtitle)
}

/// What a user gets of all ways to serve that keep up, against what a GPU gives.
///
/// # Errors
/// What drawing gives.
pub(super) fn ways(found: &ServingSearch) -> Result<Option<String>, ReportError> {
    let is = |of: &[ServingChoice], choice: &ServingChoice| of.contains(choice);
    let firsts: Vec<ServingChoice> = found.firsts().into_iter().cloned().collect();
    let dots = found.all.iter().map(|choice| Dot {
        machine: &choice.topology,
        metrics: &choice.metrics,
        level: Level::of(is(&firsts, choice), is(&found.pareto, choice)),
    });
    let dots: Vec<Dot<'_>> = dots.collect();
    let subtitle = "the front: no other way is better in both; those that do not meet what is asked are here, too";
    let axes = (
        "output_tokens_per_s_per_user",
        "output_tokens_per_s_per_gpu",
    );
    picture(&dots, axes, subtitle)
}

fn picture(
    dots: &[Dot<'_>],
    (across, up): (&str, &str),
    subtitle: &str,
) -> Result<Option<String>, ReportError> {
    let place = |dot: &Dot<'_>| dot.metrics.number(across).zip(dot.metrics.number(up));
    let all: Vec<(f64, f64)> = dots.iter().filter_map(place).collect();
    let x = span(all.iter().map(|point| point.0));
    let y = span(all.iter().map(|point| point.1));
    let Some((x, y)) = x.zip(y).filter(|_| all.len() > 1) else {
        return Ok(None);
    };
    let ((x, factor_x), (y, factor_y)) = (metric_axis(across, x), metric_axis(up, y));
    let mut machines: Vec<&str> = Vec::new();
    for dot in dots {
        if !machines.contains(&dot.machine) {
            machines.push(dot.machine);
        }
    }
    let marks = |machine: &str, (level, what, mark): (Level, &str, Mark), colour: RGBColor| {
        let own = dots
            .iter()
            .filter(|dot| dot.machine == machine && dot.level == level);
        let points: Vec<(f64, f64)> = own
            .filter_map(place)
            .map(|(x, y)| (x * factor_x, y * factor_y))
            .collect();
        let label = match machines.len() {
            1 => what.to_owned(),
            _ => format!("{machine}: {what}"),
        };
        Series {
            label: Some(label).filter(|_| !points.is_empty()),
            colour,
            style: Style::Marks(mark),
            points,
        }
    };
    let mut series = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        for (place, level) in Level::ALL.into_iter().enumerate() {
            // One machine's marks differ in colour, too.
            let colour = match machines.len() {
                1 if level.0 == Level::Simulated => GREY,
                1 => PALETTE[place - 1],
                _ => PALETTE[index % PALETTE.len()],
            };
            series.push(marks(machine, level, colour));
        }
    }
    let chart = Chart {
        title: format!("{} and {}", label(up), label(across)),
        subtitle: subtitle.to_owned(),
        x,
        y,
        series,
    };
    draw_svg(&chart).map(Some)
}
