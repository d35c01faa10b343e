//! `telemetry.prom`: the series in the text format of OpenMetrics, which Prometheus reads, with the
//! time of each sample in seconds since the run began.

use super::{PORT_COUNTERS, PortSeries, Telemetry};
use crate::ReportError;
use crate::numbers::trimmed;
use std::io::{self, Write};

/// Writes all series, metric by metric.
///
/// # Errors
/// What writing to `out` gives.
pub(crate) fn write_open_metrics(
    telemetry: &Telemetry,
    mut out: impl Write,
) -> Result<(), ReportError> {
    written(telemetry, &mut out).map_err(|source| ReportError::Csv {
        what: "telemetry",
        source: source.into(),
    })
}

fn written(telemetry: &Telemetry, out: &mut impl Write) -> io::Result<()> {
    let at = |index: usize| trimmed(telemetry.span(index).1.seconds(), 12);
    for field in telemetry.fields() {
        let name = field.name();
        writeln!(out, "# TYPE {name} gauge")?;
        writeln!(out, "# HELP {name} {}", field.help())?;
        for gpu in &telemetry.gpus {
            let values = gpu.fields.get(&field).into_iter().flatten();
            for (index, &value) in values.enumerate() {
                let (host, number) = (escaped(&gpu.host), gpu.gpu);
                let value = trimmed(value, field.decimals());
                writeln!(
                    out,
                    "{name}{{gpu=\"{number}\",Hostname=\"{host}\"}} {value} {}",
                    at(index)
                )?;
            }
        }
    }
    let series: [fn(&PortSeries) -> &[f64]; 2] = [|port| &port.transmitted, |port| &port.received];
    let directions = ["transmitted", "received"];
    for ((name, values), direction) in PORT_COUNTERS.iter().zip(series).zip(directions) {
        if telemetry.ports.is_empty() {
            continue;
        }
        // The family of a counter has no ending.
        let family = name.trim_end_matches("_total");
        writeln!(out, "# TYPE {family} counter")?;
        writeln!(
            out,
            "# HELP {family} Number of data octets {direction} on all links."
        )?;
        for port in &telemetry.ports {
            let mut sum = 0.0;
            for (index, value) in values(port).iter().enumerate() {
                sum += value;
                writeln!(
                    out,
                    "{name}{{device=\"{}\",port=\"{}\",instance=\"{}\"}} {} {}",
                    escaped(&port.device),
                    port.port,
                    escaped(&port.host),
                    trimmed(sum, 3),
                    at(index)
                )?;
            }
        }
    }
    writeln!(out, "# EOF")
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
