//! Use over time: spread over bins, and of links put together by bin, by family, by sender.

use super::record::{LinkSeries, Timeline};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// Adds something to the bins that it falls into, evenly; `amount` is all of it.
pub fn spread(row: &mut [f64], bin_width: Time, (from, to): (Time, Time), amount: f64) {
    let width = bin_width.picos().max(1);
    let Some(last) = row.len().checked_sub(1) else {
        return;
    };
    let (from, to) = (from.picos(), to.picos());
    let first = ((from / width) as usize).min(last);
    if to <= from {
        row[first] += amount;
        return;
    }
    let until = (((to - 1) / width) as usize).min(last);
    let each = amount / (to - from) as f64;
    for (bin, cell) in row.iter_mut().enumerate().take(until + 1).skip(first) {
        let begin = from.max(bin as u64 * width);
        // What is past the end of all bins counts into the last one.
        let end = if bin == last {
            to
        } else {
            to.min((bin as u64 + 1) * width)
        };
        *cell += each * end.saturating_sub(begin) as f64;
    }
}

/// Start and end of bin `index`; the last one ends with the operation.
pub(super) fn span(timeline: &Timeline, index: usize) -> (Time, Time) {
    let start = timeline.bin.picos().saturating_mul(index as u64);
    let full = start.saturating_add(timeline.bin.picos());
    let end = timeline.end.picos();
    // A series may run past the end (bytes of acknowledgements, rounding up): such a
    // bin keeps its whole width rather than a negative one.
    let end = if end > start { full.min(end) } else { full };
    (Time::from_picos(start), Time::from_picos(end))
}

/// The rate in bin `index` in bytes per second; zero for a bin without width.
pub(super) fn rate(timeline: &Timeline, index: usize, bytes: f64) -> f64 {
    let (start, end) = span(timeline, index);
    let seconds = end.saturating_sub(start).seconds();
    if seconds > 0.0 { bytes / seconds } else { 0.0 }
}

/// The fraction of a link's usable rate that was used in bin `index`; of what faults leave of it.
pub(super) fn utilisation(timeline: &Timeline, series: &LinkSeries, index: usize) -> f64 {
    let bytes = series.bytes.get(index).copied().unwrap_or(0.0);
    let left = series.left.get(index).unwrap_or(&series.rate);
    let capacity = left.bytes_per_sec() as f64;
    if capacity > 0.0 {
        rate(timeline, index, bytes) / capacity
    } else {
        0.0
    }
}

/// How many bins the longest series has.
pub(super) fn count(timeline: &Timeline) -> usize {
    let longest = timeline.links.iter().map(|link| link.bytes.len());
    longest.max().unwrap_or(0)
}

/// Use of all links of one family, by bin.
pub(super) struct Family<'a> {
    pub(super) name: &'a str,
    /// Links of the family.
    pub(super) links: usize,
    /// Bytes per second, of all links together.
    pub(super) rate: Vec<f64>,
    /// Mean fraction of the usable rate, over the family's links.
    pub(super) mean: Vec<f64>,
    /// The busiest link's fraction of its usable rate.
    pub(super) max: Vec<f64>,
}

/// The families in order of their peak use, then by name.
pub(super) fn families(timeline: &Timeline) -> Vec<Family<'_>> {
    let bins = count(timeline);
    let mut by_name: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    for series in &timeline.links {
        let family = by_name.entry(&series.family).or_insert_with(|| Family {
            name: &series.family,
            links: 0,
            rate: vec![0.0; bins],
            mean: vec![0.0; bins],
            max: vec![0.0; bins],
        });
        let alike = f64::from(series.alike);
        family.links += series.alike as usize;
        for (index, &bytes) in series.bytes.iter().enumerate() {
            let used = utilisation(timeline, series, index);
            family.rate[index] += rate(timeline, index, bytes) * alike;
            family.mean[index] += used * alike;
            family.max[index] = family.max[index].max(used);
        }
    }
    let mut families: Vec<_> = by_name.into_values().collect();
    for family in &mut families {
        for mean in &mut family.mean {
            *mean /= family.links as f64;
        }
    }
    let peak = |family: &Family<'_>| family.max.iter().copied().fold(0.0, f64::max);
    families.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    families
}

/// Bytes per second out of each device over links of `family`, by bin, by the name of the device.
pub(super) fn senders<'a>(timeline: &'a Timeline, family: &str) -> BTreeMap<&'a str, Vec<f64>> {
    let bins = count(timeline);
    let mut senders: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for series in timeline.links.iter().filter(|s| s.family == family) {
        let rates = senders
            .entry(series.from.as_str())
            .or_insert_with(|| vec![0.0; bins]);
        for (index, &bytes) in series.bytes.iter().enumerate() {
            rates[index] += rate(timeline, index, bytes);
        }
    }
    senders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spread_over_bins_keeps_its_sum() {
        let at = Time::from_picos;
        let mut row = vec![0.0; 3];
        spread(&mut row, at(10), (at(5), at(25)), 20.0);
        assert_eq!(row, [5.0, 10.0, 5.0]);
        // At once, and beyond the end.
        spread(&mut row, at(10), (at(10), at(10)), 1.0);
        spread(&mut row, at(10), (at(28), at(36)), 8.0);
        assert_eq!(row, [5.0, 11.0, 13.0]);
    }
}
