//! A simulated and a measured series beside each other.

use super::Field;
use super::draw::{BLUE, ORANGE};
use super::panels::{Line, Panel, Panels};
use super::read::{Mean, Metric, Series};
use crate::numbers::trimmed;
use crate::{FORMAT, ReportError};
use fabricsim_units::Time;
use serde::Serialize;
use std::collections::BTreeMap;

/// The comparison of a run's series with a measured one: the document of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// The version of this format.
    pub format: u32,
    /// The answer in one sentence.
    pub answer: String,
    /// The simulated series.
    pub simulated: Side,
    /// The measured one.
    pub measured: Side,
    /// Metrics that both have.
    pub metrics: Vec<MetricRow>,
    /// What the reader should know.
    pub notes: Vec<String>,
    #[serde(skip)]
    aligned: Vec<(Metric, [Vec<Mean>; 2])>,
}

/// One of both series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Its file.
    pub file: String,
    /// The form of that.
    pub form: String,
    /// From one sample to the next, microseconds.
    pub sample_us: f64,
    /// When the first sample was in which anything was busy, microseconds after the first one.
    pub busy_from_us: f64,
    /// How long it was busy, microseconds.
    pub busy_us: f64,
}

/// One metric of both, from the first to the last busy sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRow {
    /// As exporters name it; counters as bytes a second.
    pub metric: String,
    /// The mean over time and GPUs, or ports.
    pub simulated_mean: f64,
    /// The same of the measured series.
    pub measured_mean: f64,
    /// Simulated by measured; nothing where nothing was measured, or next to nothing.
    pub mean_ratio: Option<f64>,
    /// The largest sample of the mean over GPUs, or ports.
    pub simulated_peak: f64,
    /// The same of the measured series.
    pub measured_peak: f64,
    /// Simulated by measured.
    pub peak_ratio: Option<f64>,
}

/// Nothing is busy below this part of the way from the least to the largest value.
const BUSY: f64 = 0.05;

/// What is measured to be less than that part of what is simulated is nothing, and has no ratio to it.
const MOST_RATIO: f64 = 1e9;

/// Metrics that say when a machine is busy, which memory that is taken and links that are there do not.
fn tells(metric: Metric) -> bool {
    !matches!(metric, Metric::Gpu(Field::FbUsed | Field::C2cLinks))
}

/// From when to when a series is busy.
fn busy(metrics: &BTreeMap<Metric, Vec<Mean>>, common: &[Metric]) -> Option<(f64, f64)> {
    let mut span: Option<(f64, f64)> = None;
    let mut even: Option<(f64, f64)> = None;
    let widen = |span: &mut Option<(f64, f64)>, mean: &Mean| {
        let (from, to) = span.get_or_insert((mean.start, mean.end));
        *from = from.min(mean.start);
        *to = to.max(mean.end);
    };
    for metric in common.iter().filter(|&&metric| tells(metric)) {
        let values = &metrics[metric];
        let low = values
            .iter()
            .map(|mean| mean.value)
            .fold(f64::INFINITY, f64::min);
        let high = values.iter().map(|mean| mean.value).fold(0.0, f64::max);
        // What does not change is busy all of the time, but for power, which an idle GPU draws, too.
        let low = match (high - low <= BUSY * high, metric) {
            (false, _) => low,
            (true, Metric::Gpu(Field::Power)) => {
                let drawn = values.iter().filter(|mean| mean.value > 0.0);
                drawn.for_each(|mean| widen(&mut even, mean));
                continue;
            }
            (true, _) => 0.0,
        };
        let busy = values
            .iter()
            .filter(|mean| mean.value > low + BUSY * (high - low));
        busy.for_each(|mean| widen(&mut span, mean));
    }
    // A window inside a long run draws the same power all along: where nothing else tells, all of it is busy.
    span.or(even)
}

impl Beside {
    /// Sets the series of two files beside each other, each from its first busy sample on.
    ///
    /// # Errors
    /// Series without a common metric, or in which nothing is ever busy.
    pub fn new(
        (simulated_file, simulated): (&str, &Series),
        (measured_file, measured): (&str, &Series),
    ) -> Result<Beside, ReportError> {
        let common = simulated.metrics.keys().copied();
        let common: Vec<Metric> = common
            .filter(|metric| measured.metrics.contains_key(metric))
            .collect();
        let names = |series: &Series| {
            let names: Vec<&str> = series.metrics.keys().map(|metric| metric.name()).collect();
            names.join(", ")
        };
        let apart = |what: &str| ReportError::Apart {
            what: what.to_owned(),
            simulated: names(simulated),
            measured: names(measured),
        };
        if common.is_empty() {
            return Err(apart("have no metric in common"));
        }
        let sides = [(simulated_file, simulated), (measured_file, measured)];
        let mut shown = Vec::new();
        let mut aligned: Vec<(Metric, [Vec<Mean>; 2])> = common
            .iter()
            .map(|&metric| (metric, [Vec::new(), Vec::new()]))
            .collect();
        for (side, (file, series)) in sides.into_iter().enumerate() {
            let Some((from, to)) = busy(&series.metrics, &common) else {
                return Err(apart("are not both ever busy"));
            };
            let all = || common.iter().flat_map(|metric| &series.metrics[metric]);
            let first = all().map(|mean| mean.start).fold(f64::INFINITY, f64::min);
            let longest = all().map(|mean| mean.end - mean.start).fold(0.0, f64::max);
            shown.push(Side {
                file: file.to_owned(),
                form: series.form.to_owned(),
                sample_us: Time::round_micros(longest * 1e6),
                busy_from_us: Time::round_micros((from - first) * 1e6),
                busy_us: Time::round_micros((to - from) * 1e6),
            });
            for (metric, both) in &mut aligned {
                let values = series.metrics[metric].iter();
                let inside = values.filter(|mean| mean.end > from && mean.start < to);
                both[side] = inside
                    .map(|mean| Mean {
                        start: mean.start - from,
                        end: mean.end - from,
                        ..*mean
                    })
                    .collect();
            }
        }
        let metrics: Vec<MetricRow> = aligned.iter().map(row).collect();
        let mut notes = Vec::new();
        let (a, b) = (shown[0].sample_us, shown[1].sample_us);
        if (a - b).abs() > 0.01 * a.max(b) {
            notes.push(format!(
                "Samples are {} and {} long: means can be compared, peaks only from longer to shorter. \
                 Simulate with --sample as long as the measured one.",
                Time::from_picos((a * 1e6) as u64).human(),
                Time::from_picos((b * 1e6) as u64).human()
            ));
        }
        if !measured.unknown.is_empty() {
            notes.push(format!("Not simulated: {}.", measured.unknown.join(", ")));
        }
        let measured = shown.remove(1);
        let simulated = shown.remove(0);
        Ok(Beside {
            format: FORMAT,
            answer: answer(&metrics),
            simulated,
            measured,
            metrics,
            notes,
            aligned,
        })
    }

    /// The document.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn json(&self) -> Result<String, ReportError> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|source| ReportError::Json {
            what: "the comparison",
            source,
        })?;
        Ok(text + "\n")
    }

    /// The answer and a table, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.answer);
        text += &format!(
            "{:<50} {:>22} {:>7} {:>22} {:>7}\n",
            "", "mean: simulated, real", "ratio", "peak: simulated, real", "ratio"
        );
        for row in &self.metrics {
            let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |r| format!("{r:.2}"));
            text += &format!(
                "{:<50} {:>10} {:>11} {:>7} {:>10} {:>11} {:>7}\n",
                row.metric,
                short(row.simulated_mean),
                short(row.measured_mean),
                ratio(row.mean_ratio),
                short(row.simulated_peak),
                short(row.measured_peak),
                ratio(row.peak_ratio)
            );
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }

    /// Both series over time, each from its first busy sample on.
    #[must_use]
    pub fn svg(&self) -> String {
        let end = |means: &[Mean]| means.last().map_or(0.0, |mean| mean.end);
        let line = |label: &str, colour, dashed, means: &[Mean], scale: f64| Line {
            label: label.to_owned(),
            colour,
            dashed,
            points: means
                .iter()
                .flat_map(|m| {
                    [
                        (m.start.max(0.0), m.value * scale),
                        (m.end, m.value * scale),
                    ]
                })
                .collect(),
            band: Vec::new(),
        };
        let above = |(_, both): &&(Metric, [Vec<Mean>; 2])| {
            both.iter().flatten().any(|mean| mean.value > 0.0)
        };
        let shown = self.aligned.iter().filter(above);
        let panels = shown.map(|(metric, [simulated, measured])| {
            let (title, scale) = titled(*metric);
            Panel {
                title,
                lines: vec![
                    line("measured", ORANGE, false, measured, scale),
                    line("simulated", BLUE, true, simulated, scale),
                ],
                least: 0.0,
            }
        });
        let ends = self.aligned.iter().flat_map(|(_, both)| both);
        Panels {
            title: "Simulated and measured telemetry".to_owned(),
            subtitle: self.answer.clone(),
            panels: panels.collect(),
            end: ends.map(|means| end(means)).fold(0.0, f64::max),
            notes: self.notes.clone(),
        }
        .svg()
    }
}

/// What a plot of a metric is called, and what its values are multiplied by.
fn titled(metric: Metric) -> (String, f64) {
    let (unit, scale) = match metric {
        Metric::PortOut | Metric::PortIn => ("GB/s a port", 1e-9),
        Metric::Gpu(
            Field::NvlinkTx
            | Field::NvlinkRx
            | Field::PcieTx
            | Field::PcieRx
            | Field::C2cTx
            | Field::C2cRx,
        ) => ("GB/s a GPU", 1e-9),
        Metric::Gpu(Field::SmActive | Field::TensorActive | Field::DramActive) => ("%", 100.0),
        Metric::Gpu(Field::GpuUtil) => ("%", 1.0),
        Metric::Gpu(Field::FbUsed) => ("MiB", 1.0),
        Metric::Gpu(Field::Power) => ("W", 1.0),
        Metric::Gpu(Field::C2cLinks) => ("links a GPU", 1.0),
    };
    (format!("{}, {unit}", metric.name()), scale)
}

fn row((metric, [simulated, measured]): &(Metric, [Vec<Mean>; 2])) -> MetricRow {
    let mean = |means: &[Mean]| {
        let time: f64 = means.iter().map(|mean| mean.end - mean.start).sum();
        let sum: f64 = means.iter().map(|m| m.value * (m.end - m.start)).sum();
        if time > 0.0 { sum / time } else { 0.0 }
    };
    let peak = |means: &[Mean]| means.iter().map(|mean| mean.value).fold(0.0, f64::max);
    let ratio = |a: f64, b: f64| Some(a / b).filter(|ratio| *ratio <= MOST_RATIO && b > 0.0);
    let means = (mean(simulated), mean(measured));
    let peaks = (peak(simulated), peak(measured));
    MetricRow {
        metric: metric.name().to_owned(),
        simulated_mean: means.0,
        measured_mean: means.1,
        mean_ratio: ratio(means.0, means.1),
        simulated_peak: peaks.0,
        measured_peak: peaks.1,
        peak_ratio: ratio(peaks.0, peaks.1),
    }
}

/// The first metric that both have anything of, and which is furthest off.
fn answer(metrics: &[MetricRow]) -> String {
    let known = || {
        metrics
            .iter()
            .filter(|row| row.mean_ratio.is_some_and(|r| r > 0.0))
    };
    let Some(first) = known().next() else {
        let both = |row: &&MetricRow| row.simulated_mean > 0.0 && row.measured_mean > 0.0;
        if let Some(row) = metrics.iter().find(both) {
            return format!(
                "Next to nothing was measured of {}: the simulated mean, {}, has no ratio to it.",
                row.metric,
                short(row.simulated_mean)
            );
        }
        return "Nothing that was measured is simulated to be more than none.".to_owned();
    };
    let off = |row: &&MetricRow| row.mean_ratio.unwrap_or(1.0).ln().abs();
    let furthest = known().max_by(|a, b| off(a).total_cmp(&off(b)));
    let mut text = format!(
        "{:.2} × the measured mean of {} is simulated: {} against {}",
        first.mean_ratio.unwrap_or(1.0),
        first.metric,
        short(first.simulated_mean),
        short(first.measured_mean)
    );
    if let Some(row) = furthest.filter(|row| row.metric != first.metric && off(row) > 0.01) {
        let ratio = row.mean_ratio.unwrap_or(1.0);
        text += &format!("; furthest off is {}, {ratio:.2} ×", row.metric);
    }
    text + "."
}

/// A value with few digits: rates in their thousands.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{} G", trimmed(value / 1e9, 2)),
        v if v >= 1e6 => format!("{} M", trimmed(value / 1e6, 2)),
        v if v >= 100.0 => trimmed(value, 0),
        v if v >= 1.0 => trimmed(value, 2),
        _ => trimmed(value, 4),
    }
}
