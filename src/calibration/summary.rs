//! How far predictions are off, by bands of size.

use super::predict::{Group, PredictedRow, PredictedSet};
use fabricsim_report::validation::Spread;
use std::collections::BTreeMap;

/// Sizes that are judged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Band {
    /// Below 64 KiB.
    Small,
    /// 64 KiB to 16 MiB.
    Middle,
    /// Above 16 MiB.
    Large,
}

impl Band {
    /// From small to large.
    pub const ALL: [Band; 3] = [Band::Small, Band::Middle, Band::Large];

    /// The band of a size.
    #[must_use]
    pub fn of(bytes: u64) -> Band {
        match bytes {
            0..65_536 => Band::Small,
            65_536..=16_777_216 => Band::Middle,
            _ => Band::Large,
        }
    }

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Band::Small => "< 64 KiB",
            Band::Middle => "64 KiB-16 MiB",
            Band::Large => "> 16 MiB",
        }
    }

    /// In files.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Band::Small => "below_64_kib",
            Band::Middle => "64_kib_to_16_mib",
            Band::Large => "above_16_mib",
        }
    }
}

/// Which of a row's predictions is meant.
pub type Pick = fn(&PredictedRow) -> f64;

/// The simulated one.
#[must_use]
pub fn simulated(row: &PredictedRow) -> f64 {
    row.predicted_us
}

/// That of NCCL's cost model.
#[must_use]
pub fn baseline(row: &PredictedRow) -> f64 {
    row.baseline_us
}

/// Of no errors there is no spread.
fn spread(mut errors: Vec<f64>, ratios: &[f64]) -> Option<Spread> {
    errors.sort_by(f64::total_cmp);
    let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64;
    Some(Spread {
        count: errors.len(),
        median: quantile(&errors, 0.5)?,
        p90: quantile(&errors, 0.9)?,
        ratio: mean.exp(),
    })
}

/// Between the two nearest of sorted values; `None` of none.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let at = part * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * at.fract())
}

/// Each group's median error in a band, and its geometric mean of predicted over measured.
#[must_use]
pub fn group_errors(sets: &[&PredictedSet], band: Band, pick: Pick) -> BTreeMap<Group, (f64, f64)> {
    let mut rows: BTreeMap<Group, Vec<f64>> = BTreeMap::new();
    for set in sets {
        let inside = set.rows.iter().filter(|row| Band::of(row.bytes) == band);
        let ratios = inside.map(|row| pick(row) / row.measured_us);
        rows.entry(set.group.clone()).or_default().extend(ratios);
    }
    rows.into_iter()
        .filter_map(|(group, ratios)| {
            let errors = ratios.iter().map(|r| (r - 1.0).abs()).collect();
            let of_rows = spread(errors, &ratios)?;
            Some((group, (of_rows.median, of_rows.ratio)))
        })
        .collect()
}

/// How much a row's error counts for in a fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counting {
    /// From here on errors count less and less: a table that no parameter can explain must not
    /// bend those that explain the others, but one that a parameter would explain has to be heard
    /// however far off it still is.
    pub(super) large: f64,
    /// Below this, errors hardly differ: a search must not be held at a corner where a single row
    /// is met exactly.
    pub(super) small: f64,
}

impl Counting {
    /// Where a search ends.
    pub(super) const AT_LAST: Counting = Counting {
        large: 0.2,
        small: 0.02,
    };

    /// What a row counts for that is off by `error`, |ln(predicted / measured)|.
    fn of(self, error: f64) -> f64 {
        let rounded = error.hypot(self.small) - self.small;
        self.large * (rounded / self.large).ln_1p()
    }

    /// How fast that grows, over the error.
    fn slope(self, error: f64) -> f64 {
        let hypot = error.hypot(self.small);
        1.0 / (hypot * (1.0 + (hypot - self.small) / self.large))
    }
}

/// |ln(predicted / measured)|.
fn log_error(row: &PredictedRow) -> f64 {
    (row.predicted_us / row.measured_us).ln().abs()
}

/// What the square of each row's ln(predicted / measured) counts for in the objective near the
/// present predictions, in the order of sets and rows: each band's groups count alike, and a
/// group's rows.
#[must_use]
pub(super) fn weights(predicted: &[Option<PredictedSet>], counting: Counting) -> Vec<f64> {
    let mut rows: BTreeMap<(&Group, Band), usize> = BTreeMap::new();
    let all = || {
        let sets = predicted.iter().flatten();
        sets.flat_map(|set| set.rows.iter().map(move |row| (&set.group, row)))
    };
    for (group, row) in all() {
        *rows.entry((group, Band::of(row.bytes))).or_default() += 1;
    }
    let groups = rows.len().max(1) as f64;
    all()
        .map(|(group, row)| {
            let error = log_error(row);
            counting.slope(error) / (groups * rows[&(group, Band::of(row.bytes))] as f64)
        })
        .collect()
}

/// What each group's |ln(predicted / measured)| in a band counts for: half the median, which is what
/// reports show and what single rows do not sway, and half the mean, in which each row counts.
#[must_use]
pub(super) fn group_log_errors(sets: &[&PredictedSet], band: Band, counting: Counting) -> Vec<f64> {
    let mut rows: BTreeMap<&Group, Vec<f64>> = BTreeMap::new();
    for set in sets {
        for row in set.rows.iter().filter(|row| Band::of(row.bytes) == band) {
            let error = log_error(row);
            let errors = rows.entry(&set.group).or_default();
            errors.push(counting.of(error));
        }
    }
    rows.into_values()
        .map(|mut errors| {
            errors.sort_by(f64::total_cmp);
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            f64::midpoint(quantile(&errors, 0.5).unwrap_or(mean), mean)
        })
        .collect()
}

/// How far off a band is, over all groups; `None` if it has none.
#[must_use]
pub fn over_groups(sets: &[&PredictedSet], band: Band, pick: Pick) -> Option<Spread> {
    let groups = group_errors(sets, band, pick);
    let (errors, ratios): (Vec<f64>, Vec<f64>) = groups.into_values().unzip();
    spread(errors, &ratios)
}

/// How far off the rows of one set are in a band; `None` if it has none.
#[must_use]
pub fn over_rows(set: &PredictedSet, band: Band, pick: Pick) -> Option<Spread> {
    let inside = set.rows.iter().filter(|row| Band::of(row.bytes) == band);
    let ratios: Vec<f64> = inside.map(|row| pick(row) / row.measured_us).collect();
    spread(ratios.iter().map(|r| (r - 1.0).abs()).collect(), &ratios)
}

#[cfg(test)]
mod tests {
    use super::Counting;

    #[test]
    fn large_errors_pull_less_but_always() {
        let counting = Counting::AT_LAST;
        assert!(counting.of(0.0).abs() < 1e-12);
        let slope = |error: f64| (counting.of(error + 1e-4) - counting.of(error)) / 1e-4;
        assert!(slope(0.001) < 0.1);
        assert!(slope(0.1) > 0.6);
        assert!(slope(0.5) < 0.5 * slope(0.1));
        assert!(slope(2.0) > 0.05);
        for error in [0.003, 0.05, 0.4, 2.0] {
            let known = counting.slope(error) * error;
            assert!((slope(error) / known - 1.0).abs() < 0.03, "{error}");
        }
    }
}
