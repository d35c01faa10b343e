//! `links.csv`: what each link carried in each bin of time.

use super::numbers::trimmed;
use super::record::Timeline;
use super::{ReportError, bins};
use std::io::Write;

/// Writes one row per link and bin: link, family, start and end in microseconds, bytes,
/// and the fraction of the rate that payload can use; of large machines also how many links it is told
/// of.
///
/// # Errors
/// What writing to `out` gives.
pub fn write_links_csv(timeline: &Timeline, out: impl Write) -> Result<(), ReportError> {
    let failed = |source| ReportError::Csv {
        what: "the links' use",
        source,
    };
    let mut csv = csv::Writer::from_writer(out);
    let alike = timeline.recorded.is_some();
    let names = [
        "link",
        "family",
        "start_us",
        "end_us",
        "bytes",
        "utilisation",
    ];
    let head = names.into_iter().chain(alike.then_some("links"));
    csv.write_record(head).map_err(failed)?;
    for series in &timeline.links {
        for (index, &bytes) in series.bytes.iter().enumerate() {
            let (start, end) = bins::span(timeline, index);
            let cells = [
                series.name.as_str(),
                series.family.as_str(),
                &trimmed(start.micros(), 6),
                &trimmed(end.micros(), 6),
                &trimmed(bytes, 3),
                &trimmed(bins::utilisation(timeline, series, index), 6),
            ];
            let links = alike.then(|| series.alike.to_string());
            csv.write_record(cells.into_iter().chain(links.as_deref()))
                .map_err(failed)?;
        }
    }
    csv.flush().map_err(|source| failed(source.into()))
}
