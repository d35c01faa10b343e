//! `telemetry.prom`: the series in the text format of OpenMetrics, which Prometheus reads, with the
//! time of each sample in seconds since the run began.

use super::{PORT_COUNTERS, PortSeries, Telemetry};
use crate::ReportError;
use crate::numbers::trimmed;
use fabricsim_units::Time;
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
    // A shorter last sample stands where a whole one would end, as a scrape would: Prometheus keeps whole
    // milliseconds, and of two samples within one only the first.
    let at = |index: usize| {
        let picos = telemetry.sample.picos().saturating_mul(index as u64 + 1);
        trimmed(Time::from_picos(picos).seconds(), 12)
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Field, GpuSeries};

    #[test]
    fn no_two_samples_of_a_series_are_in_one_millisecond() {
        let fields = [(Field::Power, vec![100.0, 200.0, 300.0])];
        let telemetry = Telemetry {
            sample: Time::from_micros(1000),
            // The last sample is 50 µs long.
            end: Time::from_micros(2050),
            gpus: vec![GpuSeries {
                host: "node\"0".to_owned(),
                gpu: 3,
                fields: fields.into_iter().collect(),
            }],
            ports: vec![PortSeries {
                host: "node0".to_owned(),
                device: "mlx5_0".to_owned(),
                port: 1,
                transmitted: vec![5.0, 0.5, 7.0],
                received: vec![0.0, 0.0, 0.0],
            }],
            ..Telemetry::default()
        };
        let mut out = Vec::new();
        write_open_metrics(&telemetry, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let power = "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n\
             # HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n\
             DCGM_FI_DEV_POWER_USAGE{gpu=\"3\",Hostname=\"node\\\"0\"} 100 0.001\n\
             DCGM_FI_DEV_POWER_USAGE{gpu=\"3\",Hostname=\"node\\\"0\"} 200 0.002\n\
             DCGM_FI_DEV_POWER_USAGE{gpu=\"3\",Hostname=\"node\\\"0\"} 300 0.003\n";
        assert!(text.starts_with(power), "{text}");
        let last = "node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\",port=\"1\",instance=\"node0\"} 12.5 0.003\n";
        assert!(text.contains(last), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
