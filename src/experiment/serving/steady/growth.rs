//! Whether requests pile up over a window.

use fabricsim_units::Time;
use fabricsim_workload::serving::record::RequestRecord;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A load that is so many times what full engines do is clearly above it.
pub(super) const CLEARLY: f64 = 1.1;

/// Spells of equal length that a window is cut into.
pub(super) const SPELLS: usize = 20;
/// Less than that part of what arrives is not called growth, however sure it is.
const LEAST: f64 = 0.005;

/// A window of time, cut into spells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spells {
    pub(super) from: Time,
    pub(super) to: Time,
}

impl Spells {
    fn length(&self) -> f64 {
        self.to.saturating_sub(self.from).seconds() / SPELLS as f64
    }

    /// The spell of a moment; nothing outside of the window.
    pub(super) fn of(&self, at: Time) -> Option<usize> {
        let inside = at > self.from && at <= self.to && self.length() > 0.0;
        let place = at.saturating_sub(self.from).seconds() / self.length();
        inside.then(|| (place as usize).min(SPELLS - 1))
    }

    /// The mean number of requests that are between two moments of theirs, in each spell. One without a second moment
    /// stays to the end.
    fn present(
        &self,
        records: &[RequestRecord],
        until: impl Fn(&RequestRecord) -> Option<Time>,
    ) -> [f64; SPELLS] {
        let mut held = [0.0; SPELLS];
        let length = self.length();
        if length <= 0.0 {
            return held;
        }
        for record in records.iter().filter(|record| !record.refused) {
            let Some(arrived) = record.arrived.filter(|&at| at < self.to) else {
                continue;
            };
            let left = until(record).unwrap_or(self.to).min(self.to);
            if left <= self.from {
                continue;
            }
            let of = |at: Time| at.max(self.from).saturating_sub(self.from).seconds() / length;
            let (begin, end) = (of(arrived), of(left));
            let first = (begin as usize).min(SPELLS - 1);
            let last = (end as usize).min(SPELLS - 1);
            for (spell, held) in held.iter_mut().enumerate().take(last + 1).skip(first) {
                *held += (end.min(spell as f64 + 1.0) - begin.max(spell as f64)).max(0.0);
            }
        }
        held
    }

    /// How many requests are there in each spell, on average.
    pub(super) fn there(&self, records: &[RequestRecord]) -> [f64; SPELLS] {
        self.present(records, |record| record.finished)
    }

    /// Whether what is there at a time grows: requests of which so many arrived in the window.
    pub(super) fn grows(&self, records: &[RequestRecord], arrived: usize) -> bool {
        let all = self.there(records);
        let waiting = self.present(records, |record| record.scheduled);
        let least = LEAST * arrived as f64;
        rises(&all, least) || rises(&waiting, least)
    }
}

/// Whether a line through the values rises by more than that, by more than chance allows (one side of 95 %, and what is
/// left beside the line correlated as it is).
fn rises(values: &[f64; SPELLS], least: f64) -> bool {
    let count = SPELLS as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let apart = |k: usize| k as f64 - middle;
    let spread: f64 = (0..SPELLS).map(|k| apart(k).powi(2)).sum();
    let slope = (0..SPELLS)
        .map(|k| apart(k) * (values[k] - mean))
        .sum::<f64>()
        / spread;
    let rest: Vec<f64> = (0..SPELLS)
        .map(|k| values[k] - mean - slope * apart(k))
        .collect();
    let squares: f64 = rest.iter().map(|rest| rest * rest).sum();
    let pairs: f64 = rest.windows(2).map(|two| two[0] * two[1]).sum();
    let correlation = match squares > 0.0 {
        true => (pairs / squares).clamp(0.0, 0.9),
        false => 0.0,
    };
    let variance = squares / (count - 2.0) * (1.0 + correlation) / (1.0 - correlation);
    let error = (variance / spread).sqrt();
    let student = StudentsT::new(0.0, 1.0, count - 2.0).map_or(2.0, |of| of.inverse_cdf(0.95));
    (slope - student * error) * count > 0.0 && slope * count > least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: u32, left: impl Fn(u32) -> Option<f64>) -> Vec<RequestRecord> {
        let time = |seconds: f64| Time::from_picos((seconds * 1e12) as u64);
        (0..count)
            .map(|k| RequestRecord {
                arrived: Some(time(f64::from(k))),
                scheduled: left(k).map(time),
                finished: left(k).map(time),
                ..RequestRecord::default()
            })
            .collect()
    }

    const WHOLE: Spells = Spells {
        from: Time::ZERO,
        to: Time::from_micros(1_000_000_000),
    };

    #[test]
    fn a_queue_that_grows_is_told_from_one_that_does_not() {
        // Each takes 5 s, give or take: five are there.
        let level = records(1000, |k| {
            Some(f64::from(k) + 4.0 + f64::from(k * 7919 % 13) / 6.0)
        });
        let there = WHOLE.there(&level);
        assert!((there[10] - 5.0).abs() < 0.3, "{there:?}");
        assert!(!WHOLE.grows(&level, 1000));
        // One of a hundred more than can be served.
        let slow = records(1000, |k| Some(f64::from(k) * 1.01 + 5.0));
        assert!(WHOLE.grows(&slow, 1000));
        assert!(WHOLE.grows(&records(1000, |_| None), 1000));
    }
}
