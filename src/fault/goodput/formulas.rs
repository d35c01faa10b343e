//! What failures and checkpoints cost, by formula.
//!
//! All take failures to be independent, at a constant rate (no wear, no bad nodes that fail
//! again and again), and count *work* between the end of one checkpoint and the start of the
//! next, without the checkpoint itself.

use fabricsim_units::{Bandwidth, Bytes, Span};

/// The mean time between failures of `count` parts that each fail once in `mtbf`.
#[must_use]
pub fn cluster_mtbf(mtbf: Span, count: u64) -> Span {
    Span::from_seconds(mtbf.seconds() / count as f64)
}

/// The chance that nothing fails during `time`: exp(−t / M).
#[must_use]
pub fn survival(time: Span, mtbf: Span) -> f64 {
    (-time.seconds() / mtbf.seconds()).exp()
}

/// How long a blocking checkpoint of a size takes at the storage's rate.
#[must_use]
pub fn write_time(size: Bytes, rate: Bandwidth) -> Span {
    Span::from(rate.time_for(size))
}

/// Young's work between checkpoints: √(2 C M) (A First Order Approximation to the Optimum
/// Checkpoint Interval, 1974).
#[must_use]
pub fn young(cost: Span, mtbf: Span) -> Span {
    Span::from_seconds((2.0 * cost.seconds() * mtbf.seconds()).sqrt())
}

/// Daly's work between checkpoints, of higher order: √(2 C M) (1 + ⅓ √(C / 2M) + C / 18M) − C,
/// and M where C is 2 M or more (A Higher Order Estimate of the Optimum Checkpoint Interval for
/// Restart Dumps, 2006; the text was not read for this, the result is tested against
/// [`exact`]).
#[must_use]
pub fn daly(cost: Span, mtbf: Span) -> Span {
    let (c, m) = (cost.seconds(), mtbf.seconds());
    if 2.0 * m <= c {
        return mtbf;
    }
    let share = c / (2.0 * m);
    let factor = 1.0 + share.sqrt() / 3.0 + share / 9.0;
    Span::from_seconds((2.0 * c * m).sqrt() * factor - c)
}

/// The best work between checkpoints: where [`expected_goodput`] is largest, which is at
/// 1 − τ/M = exp(−(τ + C) / M), whatever detection and restart take.
#[must_use]
pub fn exact(cost: Span, mtbf: Span) -> Span {
    let (c, m) = (cost.seconds(), mtbf.seconds());
    // 1 − x − exp(−x − C/M) falls from above zero at 0 to below zero at 1.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let x: f64 = (low + high) / 2.0;
        // exp_m1, since for rare failures both sides are close to one another.
        if -x - (-x - c / m).exp_m1() < 0.0 {
            high = x;
        } else {
            low = x;
        }
    }
    Span::from_seconds(low * m)
}

/// The best *period* (work and checkpoint) of the availability form with recovery R:
/// C + √(2 (M + R) C + C²) (Saxena et al., arXiv 2410.18124).
#[must_use]
pub fn recovery_period(cost: Span, restart: Span, mtbf: Span) -> Span {
    let (c, r, m) = (cost.seconds(), restart.seconds(), mtbf.seconds());
    Span::from_seconds(c + (2.0 * (m + r) * c + c * c).sqrt())
}

/// Goodput to first order: 1 − C/τ − (τ/2 + R) / M. `restart` is all that follows a failure,
/// detection included.
#[must_use]
pub fn linear_goodput(work: Span, cost: Span, restart: Span, mtbf: Span) -> f64 {
    let (tau, m) = (work.seconds(), mtbf.seconds());
    1.0 - cost.seconds() / tau - (tau / 2.0 + restart.seconds()) / m
}

/// The expected goodput of a long run: τ / ((M + D) exp(R/M) (exp((τ + C)/M) − 1)), with
/// failures during work, checkpoints (C) and restarts (R), but not while one is being detected
/// (D). The mean time of a period follows from the chance of a failure in it and from the mean
/// time of a recovery, (M + D)(exp(R/M) − 1).
#[must_use]
pub fn expected_goodput(work: Span, cost: Span, detection: Span, restart: Span, mtbf: Span) -> f64 {
    let (tau, m) = (work.seconds(), mtbf.seconds());
    let period = ((tau + cost.seconds()) / m).exp_m1();
    let recovery = (restart.seconds() / m).exp();
    tau / ((m + detection.seconds()) * recovery * period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{Component, published};

    fn span(text: &str) -> Span {
        Span::parse(text).unwrap()
    }

    fn check(found: f64, expected: f64, tolerance: f64) {
        let off = (found - expected).abs();
        assert!(off <= tolerance, "{found} is not {expected} ± {tolerance}");
    }

    #[test]
    fn r1_more_parts_fail_more_often() {
        // 54 d × 16,384 GPUs / 419 = 2111.5 GPU-days.
        let gpu = span("2111.5d");
        check(cluster_mtbf(gpu, 1024).seconds() / 3600.0, 49.49, 0.005);
        check(cluster_mtbf(gpu, 16_384).seconds() / 3600.0, 3.093, 0.0005);
        // Of these the GPUs themselves: 268.
        let own = published().rates[0].mtbf(Component::Gpu).unwrap();
        check(own.seconds() / 86_400.0, 16_384.0 * 54.0 / 268.0, 1e-3);
    }

    #[test]
    fn r2_intervals() {
        let (cost, mtbf, restart) = (span("1min"), span("3.09h"), span("5min"));
        check(young(cost, mtbf).seconds(), 1155.4, 0.05);
        check(recovery_period(cost, restart, mtbf).seconds(), 1232.4, 0.05);
    }

    #[test]
    fn r3_goodput_to_first_order() {
        let (cost, mtbf, restart) = (span("1min"), span("3.09h"), span("5min"));
        let work = young(cost, mtbf);
        check(linear_goodput(work, cost, restart, mtbf), 0.8692, 5e-5);
        // Without a restart: 1 − √(2 C / M), 10.39 % at least.
        let most = linear_goodput(work, cost, Span::ZERO, mtbf);
        check(1.0 - most, 0.1039, 5e-5);
        // The exact value is a little better: work that is lost is not worked on twice.
        let exact = expected_goodput(work, cost, Span::ZERO, restart, mtbf);
        check(exact, 0.8692, 0.01);
    }

    #[test]
    fn r4_a_checkpoint_of_405_billion_parameters() {
        let size = Bytes::new(405_000_000_000 * 14);
        let rate = Bandwidth::parse("2TB/s").unwrap();
        assert_eq!(write_time(size, rate), span("2.835s"));
    }

    #[test]
    fn r5_a_day_without_failure_is_rare() {
        check(survival(span("24h"), span("3.093h")), 4.3e-4, 0.05e-4);
    }

    #[test]
    fn daly_and_young_are_close_to_the_exact_optimum() {
        let mtbf = span("3h");
        for (cost, young_off, daly_off) in [
            ("1s", 0.01, 1e-4),
            ("1min", 0.06, 1e-3),
            ("30min", 0.5, 0.01),
        ] {
            let cost = span(cost);
            let best = exact(cost, mtbf).seconds();
            check(young(cost, mtbf).seconds() / best, 1.0, young_off);
            check(daly(cost, mtbf).seconds() / best, 1.0, daly_off);
        }
        assert_eq!(daly(span("6h"), mtbf), mtbf);
    }

    #[test]
    fn the_exact_optimum_is_the_best() {
        let (cost, mtbf) = (span("1min"), span("3h"));
        let at = |work| expected_goodput(work, cost, span("5min"), span("10min"), mtbf);
        let best = exact(cost, mtbf);
        for factor in [0.5, 0.9, 0.99, 1.01, 1.1, 2.0] {
            assert!(
                at(Span::from_seconds(best.seconds() * factor)) < at(best),
                "{factor}"
            );
        }
    }
}
