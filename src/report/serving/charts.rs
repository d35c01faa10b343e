//! Serving as pictures: what happened over time, and of several variants what a user gets against what a GPU does.

use super::record::ServingResult;
use crate::ReportError;
use crate::chart::{Axis, Chart, GREY, Mark, PALETTE, Series, Style, draw_svg};
use crate::metrics::label;
use crate::summary::Variant;
use crate::sweep::{metric_axis, span};

/// Requests that run and wait over time, and the share of the fullest KV cache; nothing of fewer than two samples.
///
/// # Errors
/// What drawing gives.
pub(super) fn over_time(result: &ServingResult) -> Result<Option<String>, ReportError> {
    let samples = &result.series;
    let (Some(last), true) = (samples.last(), samples.len() > 1) else {
        return Ok(None);
    };
    let of = |sample: &super::Sample| sample.running.max(sample.waiting);
    let most = f64::from(samples.iter().map(of).max().unwrap_or(1).max(1));
    let line = |name: &str, colour, style, value: &dyn Fn(&super::Sample) -> f64| Series {
        label: Some(name.to_owned()),
        colour,
        style,
        points: samples.iter().map(|s| (s.at_s, value(s))).collect(),
    };
    let chart = Chart {
        title: "Requests over time".to_owned(),
        subtitle: format!("the fullest KV cache as a part of {most:.0}: dashed"),
        x: Axis::linear("seconds", last.at_s),
        y: Axis::linear("requests", most),
        series: vec![
            line("KV cache taken", GREY, Style::Dashed, &|s| {
                s.kv_share * most
            }),
            line("wait", PALETTE[1], Style::Line, &|s| f64::from(s.waiting)),
            line("run", PALETTE[0], Style::Line, &|s| f64::from(s.running)),
        ],
    };
    draw_svg(&chart).map(Some)
}

/// Requests that come and that are done, per second, over time, and the window that figures are of; nothing of fewer than
/// two samples.
///
/// # Errors
/// What drawing gives.
pub(super) fn rates(result: &ServingResult) -> Result<Option<String>, ReportError> {
    // Few requests fall between two samples: several together.
    let together = result.series.len().div_ceil(40).max(1);
    let spells: Vec<(f64, f64, f64)> = result
        .series
        .chunks(together)
        .filter_map(|spell| {
            let first = spell.first()?;
            let mean = |of: fn(&super::Sample) -> f64| {
                spell.iter().map(of).sum::<f64>() / spell.len() as f64
            };
            Some((
                first.at_s,
                mean(|s| s.offered_per_s),
                mean(|s| s.served_per_s),
            ))
        })
        .collect();
    let (Some(last), true) = (result.series.last(), spells.len() > 1) else {
        return Ok(None);
    };
    let most = spells.iter().map(|of| of.1.max(of.2)).fold(0.0, f64::max);
    let line = |name: &str, colour, of: fn(&(f64, f64, f64)) -> f64| Series {
        label: Some(name.to_owned()),
        colour,
        style: Style::Line,
        points: spells.iter().map(|spell| (spell.0, of(spell))).collect(),
    };
    let mut series = vec![
        line("offered", PALETTE[1], |spell| spell.1),
        line("served", PALETTE[0], |spell| spell.2),
    ];
    for (edge, label) in result.window.iter().flat_map(|window| {
        [
            (window.from_ms, Some("window".to_owned())),
            (window.to_ms, None),
        ]
    }) {
        series.push(Series {
            label,
            colour: GREY,
            style: Style::Dashed,
            points: vec![(edge / 1e3, 0.0), (edge / 1e3, most)],
        });
    }
    let chart = Chart {
        title: "Requests per second over time".to_owned(),
        subtitle: "those that come, those that are done; figures are of the window".to_owned(),
        x: Axis::linear("seconds", last.at_s),
        y: Axis::linear("requests/s", most),
        series,
    };
    draw_svg(&chart).map(Some)
}

/// Tokens per second for a user against tokens per second of a GPU, a mark for each variant; nothing of one.
///
/// # Errors
/// What drawing gives.
pub(crate) fn trade_off(variants: &[Variant]) -> Result<Option<String>, ReportError> {
    const USER: &str = "output_tokens_per_s_per_user";
    const GPU: &str = "output_tokens_per_s_per_gpu";
    let place = |variant: &Variant| {
        let number = |name| variant.metrics.number(name);
        Some((variant.name.clone(), number(USER)?, number(GPU)?))
    };
    let all: Vec<(String, f64, f64)> = variants.iter().filter_map(place).collect();
    let x = span(all.iter().map(|one| one.1));
    let y = span(all.iter().map(|one| one.2));
    let Some((x, y)) = x.zip(y).filter(|_| all.len() > 1) else {
        return Ok(None);
    };
    let ((x, by_x), (y, by_y)) = (metric_axis(USER, x), metric_axis(GPU, y));
    const MARKS: [Mark; 4] = [Mark::Circle, Mark::Triangle, Mark::Square, Mark::Cross];
    let series = all
        .iter()
        .enumerate()
        .map(|(index, (name, user, gpu))| Series {
            label: Some(name.clone()),
            colour: PALETTE[index % PALETTE.len()],
            style: Style::Marks(MARKS[index / PALETTE.len() % MARKS.len()]),
            points: vec![(user * by_x, gpu * by_y)],
        });
    let chart = Chart {
        title: "What a user gets, what a GPU does".to_owned(),
        subtitle: format!("{} over {}", label(GPU), label(USER)),
        x,
        y,
        series: series.collect(),
    };
    draw_svg(&chart).map(Some)
}
