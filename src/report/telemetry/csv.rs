//! `telemetry.csv`: a row for each sample of a GPU, then of a port.

use super::{Field, PORT_COUNTERS, Telemetry};
use crate::ReportError;
use crate::numbers::trimmed;
use std::io::Write;

/// Writes all series. Cells of what a row has not are empty; counters of ports are sums since the
/// beginning.
///
/// # Errors
/// What writing to `out` gives.
pub(crate) fn write_csv(telemetry: &Telemetry, out: impl Write) -> Result<(), ReportError> {
    let failed = |source| ReportError::Csv {
        what: "telemetry",
        source,
    };
    let mut csv = csv::Writer::from_writer(out);
    let fields: Vec<Field> = telemetry.fields().collect();
    let counters: &[&str] = match telemetry.ports.is_empty() {
        true => &[],
        false => &PORT_COUNTERS,
    };
    let head = ["start_us", "end_us", "Hostname", "gpu", "device", "port"];
    let names = fields.iter().map(|field| field.name());
    csv.write_record(
        head.into_iter()
            .chain(names)
            .chain(counters.iter().copied()),
    )
    .map_err(failed)?;
    let times = |index: usize| {
        let (start, end) = telemetry.span(index);
        [trimmed(start.micros(), 6), trimmed(end.micros(), 6)]
    };
    for gpu in &telemetry.gpus {
        for index in 0..telemetry.samples() {
            let mut row: Vec<String> = times(index).into();
            row.extend([gpu.host.clone(), gpu.gpu.to_string()]);
            row.extend([String::new(), String::new()]);
            row.extend(fields.iter().map(|field| {
                let value = gpu.fields.get(field).and_then(|values| values.get(index));
                value.map_or_else(String::new, |&value| trimmed(value, field.decimals()))
            }));
            row.extend(counters.iter().map(|_| String::new()));
            csv.write_record(&row).map_err(failed)?;
        }
    }
    for port in &telemetry.ports {
        let mut sums = [0.0, 0.0];
        for index in 0..telemetry.samples() {
            let mut row: Vec<String> = times(index).into();
            row.extend([port.host.clone(), String::new()]);
            row.extend([port.device.clone(), port.port.to_string()]);
            row.extend(fields.iter().map(|_| String::new()));
            let series = [&port.transmitted, &port.received];
            for (sum, values) in sums.iter_mut().zip(series) {
                *sum += values.get(index).copied().unwrap_or(0.0);
                row.push(trimmed(*sum, 3));
            }
            csv.write_record(&row).map_err(failed)?;
        }
    }
    csv.flush().map_err(|source| failed(source.into()))
}
