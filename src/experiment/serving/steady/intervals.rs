//! How well a figure of one run is known: 95 % intervals by batch means.
//!
//! A window is cut into 5, 10 and 20 batches; the widest of their three intervals is taken. Batch means that follow
//! each other are alike in a queue that is nearly full, so each variance is multiplied by (1 + r) / (1 − r) of their
//! correlation r, as the autocorrelation adjustment of Skart has it (A. Tafazzoli, J. R. Wilson: "Skart: a skewness-
//! and autocorrelation-adjusted batch-means procedure", IIE Transactions 43, 2011). Percentiles: by sectioning
//! (M. K. Nakayama: "Confidence intervals for quantiles using sectioning", ACM TOMACS 24, 2014), around that of all
//! values. Times of waiting have a long tail, so intervals are even in the logarithm: from x / (1 + h) to x (1 + h).

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Numbers of batches.
const BATCHES: [usize; 3] = [5, 10, 20];
/// What is known: 95 %.
const LEVEL: f64 = 0.95;
/// The most that correlation is taken for.
const CORRELATED: f64 = 0.9;

/// The half width of an interval as a part of the value: of figures of batches around that of all.
fn half_width(batches: &[f64], all: f64) -> Option<f64> {
    let count = batches.len() as f64;
    if batches.len() < 2 || all <= 0.0 {
        return None;
    }
    let away: Vec<f64> = batches.iter().map(|batch| batch - all).collect();
    let squares: f64 = away.iter().map(|away| away * away).sum();
    if squares == 0.0 {
        return Some(0.0);
    }
    let mean = away.iter().sum::<f64>() / count;
    let centred: f64 = away.iter().map(|away| (away - mean).powi(2)).sum();
    let pairs = away.windows(2).map(|two| (two[0] - mean) * (two[1] - mean));
    let correlation = match centred > 0.0 {
        true => (pairs.sum::<f64>() / centred).clamp(0.0, CORRELATED),
        false => 0.0,
    };
    let adjusted = squares / (count - 1.0) * (1.0 + correlation) / (1.0 - correlation);
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    let wide = student.inverse_cdf(0.5 + LEVEL / 2.0) * (adjusted / count).sqrt();
    Some((wide / all).exp_m1())
}

/// The widest of several numbers of batches; `least` values make a batch. Of values that are all but alike, no batches
/// are needed.
fn widest(values: &[f64], least: usize, of: impl Fn(&[f64]) -> f64) -> Option<f64> {
    let all = of(values);
    let wide = BATCHES.into_iter().filter_map(|count| {
        let each = values.len() / count;
        if each < least.max(1) {
            return None;
        }
        // What is left over is at the beginning, nearest to the warm-up.
        let batches = values[values.len() - each * count..].chunks_exact(each);
        half_width(&batches.map(&of).collect::<Vec<f64>>(), all)
    });
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let alike = (least > 0.0).then(|| most / least - 1.0);
    match (wide.reduce(f64::max), alike) {
        (Some(wide), Some(alike)) => Some(wide.min(alike)),
        (wide, alike) => wide.or(alike.filter(|&alike| alike < 0.01)),
    }
}

/// The half width of the 95 % interval of a mean, as a part of it; nothing of too few values.
pub(super) fn of_mean(values: &[f64]) -> Option<f64> {
    widest(values, 10, |values| {
        values.iter().sum::<f64>() / values.len().max(1) as f64
    })
}

/// The same of a percentile, by nearest rank: a batch has ten values beyond it, where it is far out.
pub(super) fn of_percentile(values: &[f64], part: f64) -> Option<f64> {
    let beyond = (5.0 / (1.0 - part)).ceil() as usize;
    widest(values, beyond.max(10), |values| percentile(values, part))
}

/// The same of a rate, of amounts in twenty spells of equal length.
pub(super) fn of_rate(amounts: &[f64]) -> Option<f64> {
    let all = amounts.iter().sum::<f64>() / amounts.len().max(1) as f64;
    let wide = BATCHES.into_iter().filter_map(|count| {
        let each = amounts.len() / count;
        let batches = amounts.chunks_exact(each.max(1));
        let means = batches.map(|batch| batch.iter().sum::<f64>() / batch.len() as f64);
        half_width(&means.collect::<Vec<f64>>(), all).filter(|_| each > 0)
    });
    wide.reduce(f64::max)
}

/// By nearest rank.
fn percentile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    let rank = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::super::warm_up::mser5;
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;
    use rand_distr::{Distribution, Exp1};

    /// Times of customers in a queue with one server that takes 1 s for each (Lindley's recursion).
    fn queue(load: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut wait = 0.0f64;
        let mut next = || {
            let time = wait + 1.0;
            let distance: f64 = Exp1.sample(&mut rng);
            wait = (wait + 1.0 - distance / load).max(0.0);
            time
        };
        (0..count).map(|_| next()).collect()
    }

    /// The mean of an M/D/1 queue is 1 + ρ / 2 (1 − ρ): in at least 90 of 100 intervals, nearly full ones too.
    #[test]
    fn intervals_of_nearly_full_queues_hold_the_mean() {
        for (load, count) in [
            (0.5, 20_000),
            (0.9, 50_000),
            (0.95, 200_000),
            (0.98, 300_000),
        ] {
            let theory = 1.0 + load / (2.0 * (1.0 - load));
            let held = (0..100).filter(|&seed| {
                let times = queue(load, count, 1000 + seed);
                let times = &times[mser5(&times)..];
                let mean = times.iter().sum::<f64>() / times.len() as f64;
                let half = 1.0 + of_mean(times).expect("many values");
                (mean / half..mean * half).contains(&theory)
            });
            let held = held.count();
            assert!(held >= 90, "load {load}: {held} of 100");
        }
    }

    #[test]
    fn percentiles_have_intervals_that_narrow() {
        let theory = {
            let mut all = queue(0.5, 500_000, 7);
            all.sort_unstable_by(f64::total_cmp);
            all[495_000]
        };
        let wide = |count| of_percentile(&queue(0.5, count, 1), 0.99).expect("many values");
        assert!(
            wide(200_000) < 0.5 * wide(10_000),
            "{} {}",
            wide(200_000),
            wide(10_000)
        );
        let held = (0..100).filter(|&seed| {
            let times = queue(0.5, 20_000, seed);
            let half = 1.0 + of_percentile(&times, 0.99).expect("many values");
            let found = percentile(&times, 0.99);
            (found / half..found * half).contains(&theory)
        });
        assert!(held.count() >= 90);
        assert_eq!(of_percentile(&[1.0; 20], 0.99), Some(0.0), "all alike");
        assert_eq!(of_percentile(&[1.0, 2.0, 5.0], 0.99), None, "too few");
    }
}
