//! Values of cells: numbers, as they are or with the unit that a program shows them in.

use super::{Field, Metric, Wrong};

/// What nvidia-smi writes in brackets where a GPU does not tell a value.
const UNTOLD: [&str; 10] = [
    "[N/A]",
    "[Not Supported]",
    "[Not Found]",
    "[Not Active]",
    "[Unknown]",
    "[Unknown Error]",
    "[Insufficient Permissions]",
    "[GPU is lost]",
    "[GPU requires reset]",
    "[Function Not Found]",
];

/// What programs write where there is no value: nothing, Prometheus's NaN, dcgmi's and nvidia-smi's words.
pub(super) fn is_absent(text: &str) -> bool {
    let is_untold = || UNTOLD.iter().any(|word| text.eq_ignore_ascii_case(word));
    ["", "NaN", "N/A", "-", "null"].contains(&text) || is_untold()
}

/// Units of a metric, with what makes a value of each one of the metric's own; the first is that.
fn units(metric: Metric) -> &'static [(&'static str, f64)] {
    const RATES: [(&str, f64); 9] = [
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("TB/s", 1e12),
        ("KiB/s", 1024.0),
        ("MiB/s", 1_048_576.0),
        ("GiB/s", 1_073_741_824.0),
        ("TiB/s", 1_099_511_627_776.0),
    ];
    const BYTES: [(&str, f64); 9] = [
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
    ];
    match metric {
        Metric::PortOut | Metric::PortIn => &BYTES,
        Metric::Gpu(field) => match field {
            Field::NvlinkTx
            | Field::NvlinkRx
            | Field::PcieTx
            | Field::PcieRx
            | Field::C2cTx
            | Field::C2cRx => &RATES,
            Field::SmActive | Field::TensorActive | Field::DramActive => &[("", 1.0), ("%", 0.01)],
            Field::GpuUtil => &[("%", 1.0)],
            Field::FbUsed => &[("MiB", 1.0), ("GiB", 1024.0)],
            Field::Power => &[("W", 1.0), ("kW", 1e3)],
            Field::C2cLinks => &[("", 1.0)],
        },
    }
}

/// A metric's value of a cell, in the metric's own unit if the cell has none.
pub(super) fn value(line: u64, column: &str, metric: Metric, text: &str) -> Result<f64, Wrong> {
    let text = text.trim();
    // `5e3` is a number; `5 kW` and `98%` are a number and a unit.
    let read = |number: &str, factor: f64| {
        let value: f64 = number.trim().parse().ok()?;
        value.is_finite().then_some(value * factor)
    };
    let known = units(metric);
    let with_unit = || {
        let mut fitting = known.iter().filter(|(unit, _)| !unit.is_empty());
        fitting.find_map(|(unit, factor)| read(text.strip_suffix(unit)?, *factor))
    };
    read(text, 1.0).or_else(with_unit).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        let names: Vec<&str> = known.iter().map(|(unit, _)| *unit).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let expected = match names.is_empty() {
            true => "a number such as 12.5".to_owned(),
            false => format!("a number such as 12.5, alone or in {}", names.join(", ")),
        };
        Wrong::new(line, format!("`{shown}` in column {column}"), expected)
    })
}
