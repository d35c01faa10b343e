//! `telemetry.svg`: the series over time, the mean of all GPUs or ports, and from the least to the
//! largest of them.

use super::panels::{Line, Panel, Panels};
use super::{Field, Telemetry};

/// Colours of `chart::PALETTE`.
pub(super) const BLUE: &str = "#0072B2";
pub(super) const ORANGE: &str = "#D55E00";
pub(super) const GREEN: &str = "#009E73";
pub(super) const PINK: &str = "#CC79A7";

/// The drawing of a run's series; `title` says what ran.
pub(crate) fn svg(telemetry: &Telemetry, title: &str) -> String {
    let gigabytes = 1e-9;
    let ports = |pick: fn(&super::PortSeries) -> &[f64]| {
        let rates = telemetry.ports.iter().map(move |port| {
            let rate = |(index, bytes): (usize, &f64)| {
                let (start, end) = telemetry.span(index);
                bytes / end.saturating_sub(start).seconds()
            };
            pick(port).iter().enumerate().map(rate).collect()
        });
        rates.collect::<Vec<Vec<f64>>>()
    };
    let field = |field: Field| -> Vec<Vec<f64>> {
        let series = telemetry.gpus.iter();
        series
            .filter_map(|gpu| gpu.fields.get(&field).cloned())
            .collect()
    };
    let panels = [
        (
            "NVLink, GB/s a GPU",
            0.0,
            vec![
                ("out", BLUE, gigabytes, field(Field::NvlinkTx)),
                ("in", ORANGE, gigabytes, field(Field::NvlinkRx)),
            ],
        ),
        (
            "PCIe, GB/s a GPU",
            0.0,
            vec![
                ("out", BLUE, gigabytes, field(Field::PcieTx)),
                ("in", ORANGE, gigabytes, field(Field::PcieRx)),
            ],
        ),
        (
            "NVLink-C2C, GB/s a GPU",
            0.0,
            vec![
                ("out", BLUE, gigabytes, field(Field::C2cTx)),
                ("in", ORANGE, gigabytes, field(Field::C2cRx)),
            ],
        ),
        (
            "network, GB/s a port",
            0.0,
            vec![
                ("out", BLUE, gigabytes, ports(|port| &port.transmitted)),
                ("in", ORANGE, gigabytes, ports(|port| &port.received)),
            ],
        ),
        (
            "GPU, % active",
            100.0,
            vec![
                ("SMs", GREEN, 100.0, field(Field::SmActive)),
                ("tensor cores", PINK, 100.0, field(Field::TensorActive)),
                ("memory", BLUE, 100.0, field(Field::DramActive)),
            ],
        ),
        (
            "power, W a GPU",
            0.0,
            vec![("power", ORANGE, 1.0, field(Field::Power))],
        ),
    ];
    let drawn = panels.into_iter().filter_map(|(title, least, lines)| {
        let lines = lines.into_iter();
        let lines = lines.filter(|(_, _, _, series)| is_any(series));
        let lines: Vec<Line> = lines
            .map(|(label, colour, scale, series)| mean(telemetry, (label, colour, scale), &series))
            .collect();
        (!lines.is_empty()).then(|| Panel {
            title: title.to_owned(),
            lines,
            least,
        })
    });
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    Panels {
        title: format!("Telemetry of {title}"),
        subtitle: format!(
            "{}, {}; a sample each {}; lines are means, bands go from the least to the largest",
            counted(telemetry.gpus.len(), "GPU"),
            counted(telemetry.ports.len(), "port"),
            telemetry.sample.human(),
        ),
        panels: drawn.collect(),
        end: telemetry.end.seconds(),
        notes: telemetry
            .left_out
            .iter()
            .flat_map(|note| wrapped(note))
            .collect(),
    }
    .svg()
}

/// A sentence as lines of a drawing.
fn wrapped(text: &str) -> Vec<String> {
    const CHARACTERS: usize = 150;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < CHARACTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Whether anything is ever above zero.
fn is_any(series: &[Vec<f64>]) -> bool {
    series.iter().flatten().any(|&value| value > 0.0)
}

/// The mean of series, as steps: a sample is of the time before it.
fn mean(
    telemetry: &Telemetry,
    (label, colour, scale): (&str, &'static str, f64),
    series: &[Vec<f64>],
) -> Line {
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for index in 0..telemetry.samples() {
        let values = series.iter().filter_map(|values| values.get(index));
        let values = values.map(|value| value * scale);
        let (mut sum, mut low, mut high) = (0.0, f64::INFINITY, 0.0_f64);
        for value in values {
            sum += value;
            low = low.min(value);
            high = high.max(value);
        }
        let mean = sum / series.len().max(1) as f64;
        let (start, end) = telemetry.span(index);
        for at in [start.seconds(), end.seconds()] {
            points.push((at, mean));
            band.push((at, low.min(high), high));
        }
    }
    let differs = band.iter().any(|&(_, low, high)| high - low > 0.02 * high);
    Line {
        label: label.to_owned(),
        colour,
        // What comes in often covers what goes out.
        dashed: label == "in",
        points,
        band: if differs { band } else { Vec::new() },
    }
}
