//! What stragglers should cost, by order statistics.
//!
//! A synchronous step ends with its slowest rank, so the cost of jitter is the expectation of
//! the largest of `n` draws. The formulas hold for independent ranks that meet once per step;
//! ranks that meet more often (a ring, a pipeline) lose more, those with slack less.

use fabricsim_units::Time;

/// How long a synchronous step takes when the slowest rank computes at `speed` (0 to 1) of the
/// others: the compute part is stretched, the rest is not.
#[must_use]
pub fn slowed_step(compute: Time, rest: Time, speed: f64) -> Time {
    let stretched = (compute.picos() as f64 / speed).ceil() as u64;
    Time::from_picos(stretched) + rest
}

/// The value that a standard normal variable stays below with probability `p`.
///
/// Wichura's AS 241 (Applied Statistics 37, 1988), routine PPND16: about 16 digits. Infinite
/// at 0 and 1, not a number outside.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(&MIDDLE_TOP, r) / polynomial(&MIDDLE_BOTTOM, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail == 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-tail.ln()).sqrt();
    let size = if r <= 5.0 {
        polynomial(&OUTER_TOP, r - 1.6) / polynomial(&OUTER_BOTTOM, r - 1.6)
    } else {
        polynomial(&FAR_TOP, r - 5.0) / polynomial(&FAR_BOTTOM, r - 5.0)
    };
    size.copysign(q)
}

/// The expected largest of `n` standard normal draws: a step with jitter of standard deviation
/// σ takes its mean + σ times this.
///
/// Blom's Φ⁻¹((n − 0.375) / (n + 0.25)) (Statistical Estimates and Transformed Beta-Variables,
/// 1958), 4.5 % too large for two draws, within 1 % from 8 on. The asymptote √(2 ln n) is 15 %
/// too large at 1024.
#[must_use]
pub fn normal_max(n: u32) -> f64 {
    match n {
        // Exactly in the middle, which the formula would give only up to rounding.
        0 | 1 => 0.0,
        n => normal_quantile((f64::from(n) - 0.375) / (f64::from(n) + 0.25)),
    }
}

/// The expected largest of `n` exponential draws of mean 1: the harmonic number
/// 1 + 1/2 + … + 1/n (the gaps between sorted draws are exponential with means 1/n, …, 1).
#[must_use]
pub fn exponential_max(n: u32) -> f64 {
    // Smallest first, so that rounding does not pile up.
    (1..=n).rev().map(|k| 1.0 / f64::from(k)).sum()
}

/// `coefficients` are those of the highest power first.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

const MIDDLE_TOP: [f64; 8] = [
    2509.0809287301227,
    33430.57558358813,
    67265.7709270087,
    45921.95393154987,
    13731.69376550946,
    1971.5909503065513,
    133.14166789178438,
    3.3871328727963665,
];
const MIDDLE_BOTTOM: [f64; 8] = [
    5226.495278852854,
    28729.085735721943,
    39307.89580009271,
    21213.794301586597,
    5394.196021424751,
    687.1870074920579,
    42.31333070160091,
    1.0,
];
const OUTER_TOP: [f64; 8] = [
    0.0007745450142783414,
    0.022723844989269184,
    0.2417807251774506,
    1.2704582524523684,
    3.6478483247632045,
    5.769497221460691,
    4.630337846156546,
    1.4234371107496835,
];
const OUTER_BOTTOM: [f64; 8] = [
    1.0507500716444169e-09,
    0.0005475938084995345,
    0.015198666563616457,
    0.14810397642748008,
    0.6897673349851,
    1.6763848301838038,
    2.053191626637759,
    1.0,
];
const FAR_TOP: [f64; 8] = [
    2.0103343992922881e-07,
    2.7115555687434876e-05,
    0.0012426609473880784,
    0.026532189526576124,
    0.29656057182850487,
    1.7848265399172913,
    5.463784911164114,
    6.657904643501103,
];
const FAR_BOTTOM: [f64; 8] = [
    2.0442631033899397e-15,
    1.421511758316446e-07,
    1.8463183175100548e-05,
    0.0007868691311456133,
    0.014875361290850615,
    0.1369298809227358,
    0.599832206555888,
    1.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: f64, expected: f64, tolerance: f64) {
        let off = (found - expected).abs();
        assert!(off <= tolerance, "{found} is not {expected} ± {tolerance}");
    }

    #[test]
    fn normal_quantiles_are_those_of_tables() {
        // Made with Python 3.11's statistics.NormalDist().inv_cdf, the same algorithm; the
        // first three are in any table.
        check(normal_quantile(0.5), 0.0, 0.0);
        check(normal_quantile(0.975), 1.959_963_984_540_054, 1e-13);
        check(normal_quantile(0.01), -2.326_347_874_040_841, 1e-13);
        check(normal_quantile(1e-20), -9.262_340_089_798_405, 1e-12);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert!(normal_quantile(1.5).is_nan());
    }

    #[test]
    fn s1_a_slow_rank_stretches_the_compute_part() {
        // 80 us at 0.8 of the speed are 100 us; the 20 us of communication stay.
        let step = slowed_step(Time::from_micros(80), Time::from_micros(20), 0.8);
        assert_eq!(step, Time::from_micros(120));
    }

    #[test]
    fn s2_the_slowest_of_1024_is_at_3_23_sigma() {
        check(normal_max(1024), 3.23, 0.005);
        // Exact: 1/√π for two, 0.8463 for three, 1.4236 for eight.
        check(normal_max(2), 0.5642, 0.03);
        check(normal_max(8), 1.4236, 0.0142);
        check(normal_max(1), 0.0, 0.0);
        let asymptote = (2.0 * 1024f64.ln()).sqrt();
        check(asymptote, 3.72, 0.005);
        assert!(normal_max(1024) < asymptote);
    }

    #[test]
    fn s3_the_slowest_of_eight_exponentials_is_at_2_7179_means() {
        check(exponential_max(8), 2.7179, 5e-5);
        check(exponential_max(1), 1.0, 0.0);
    }
}
