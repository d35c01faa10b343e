//! `links.csv`: what each link carried in each bin of time.

use super::numbers::trimmed;
use super::record::Timeline;
use super::{ReportError, bins};
use std::io::Write;

/// Writes one row per link and bin: link, family, start and end in microseconds, bytes,
/// and the fraction of the rate that payload can use.
///
/// # Errors
/// What writing to `out` gives.
pub fn write_links_csv(timeline: &Timeline, out: impl Write) -> Result<(), ReportError> {
    let failed = |source| ReportError::Csv {
        what: "the links' use",
        source,
    };
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "link",
        "family",
        "start_us",
        "end_us",
        "bytes",
        "utilisation",
    ])
    .map_err(failed)?;
    for series in &timeline.links {
        for (index, &bytes) in series.bytes.iter().enumerate() {
            let (start, end) = bins::span(timeline, index);
            csv.write_record([
                series.name.as_str(),
                series.family.as_str(),
                &trimmed(start.micros(), 6),
                &trimmed(end.micros(), 6),
                &trimmed(bytes, 3),
                &trimmed(bins::utilisation(timeline, series, index), 6),
            ])
            .map_err(failed)?;
        }
    }
    csv.flush().map_err(|source| failed(source.into()))
}
