//! How much of a run's beginning is left out: MSER-5.
//!
//! K. P. White, M. J. Cobb, S. C. Spratt: "A comparison of five steady-state truncation heuristics for simulation"
//! (WSC 2000): of means of five values, that many are cut for which the standard error of the mean of the rest is
//! least.

/// Values of a mean.
const BATCH: usize = 5;

/// How many of the first values are warm-up: half of them at most, which says that no end of it was found.
pub(super) fn mser5(values: &[f64]) -> usize {
    let means: Vec<f64> = values
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut least, mut cut) = (f64::INFINITY, 0);
    // From the end, so that sums are of what is left. Around a middle value, against cancellation.
    let middle = means.get(means.len() / 2).copied().unwrap_or(0.0);
    for (first, mean) in means.iter().enumerate().rev() {
        sum += mean - middle;
        squares += (mean - middle).powi(2);
        let count = (means.len() - first) as f64;
        if first > means.len() / 2 {
            continue;
        }
        let error = (squares / count - (sum / count).powi(2)).max(0.0) / count;
        // Of equal ones the least is cut.
        if error <= least {
            (least, cut) = (error, first);
        }
    }
    cut * BATCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_cut_and_what_is_level_is_not() {
        let level = |k: usize| ((k * 7919) % 13) as f64;
        let ramp = (0..200).map(|k| 100.0 - f64::from(k) / 2.0 + level(k as usize));
        let values: Vec<f64> = ramp.chain((200..2000).map(level)).collect();
        let cut = mser5(&values);
        assert!((150..=260).contains(&cut), "{cut}");
        assert_eq!(mser5(&vec![3.0; 1000]), 0);
        // A trend without end: half.
        let trend: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(mser5(&trend), 500);
        assert_eq!(mser5(&[]), 0);
    }
}
