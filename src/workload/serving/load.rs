//! Requests that are made up: when they arrive, and how long they are.

use super::request::{Prefix, Request};
use super::spec::{DrawnLength, LengthSpec, LengthsSpec, LoadSpec, LognormalSpec};
use fabricsim_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1, Gamma, LogNormal, Uniform};
use std::sync::Arc;

/// What a draw is of: each has a generator of its own, so that other lengths do not change arrivals.
#[derive(Debug, Clone, Copy)]
enum Drawn {
    Arrivals = 1,
    Inputs = 2,
    Outputs = 3,
    Prefixes = 4,
}

fn generator(seed: u64, of: Drawn) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..15].copy_from_slice(b"serving");
    key[16] = of as u8;
    ChaCha8Rng::from_seed(key)
}

/// So many requests, in order of arrival. A closed loop's and a trace's all arrive at once.
#[must_use]
pub fn made_up(load: &LoadSpec, lengths: &LengthsSpec, count: u32, seed: u64) -> Vec<Request> {
    let arrivals = arrivals(load, count, seed);
    let inputs = tokens(&lengths.input, count, generator(seed, Drawn::Inputs));
    let outputs = tokens(&lengths.output, count, generator(seed, Drawn::Outputs));
    let parts = arrivals.into_iter().zip(inputs).zip(outputs);
    let requests = parts.map(|((arrival, input), output)| Request::new(arrival, input, output));
    let mut requests: Vec<Request> = requests.collect();
    if let Some(spec) = lengths.shared_prefix {
        let prefixes: Vec<Arc<Prefix>> = (0..spec.groups.max(1))
            .map(|group| Arc::new(prefix(group, spec.tokens)))
            .collect();
        let mut rng = generator(seed, Drawn::Prefixes);
        for request in &mut requests {
            let group = Uniform::new(0, prefixes.len()).map_or(0, |of| of.sample(&mut rng));
            request.prefix = Some(prefixes[group].clone());
        }
    }
    requests
}

/// Tokens of blocks that prompts have in common: a multiple of what engines have.
const PREFIX_BLOCK: u32 = 64;

/// The names of the blocks of a beginning.
fn prefix(group: u32, tokens: u32) -> Prefix {
    let name = |block: u32| (u64::from(group) << 32) | u64::from(block);
    Prefix {
        block_tokens: PREFIX_BLOCK,
        names: (0..tokens / PREFIX_BLOCK).map(name).collect(),
    }
}

/// When requests arrive: distances add up from the first one, which arrives at the first distance of a random
/// process, and at once at equal ones.
fn arrivals(load: &LoadSpec, count: u32, seed: u64) -> Vec<Time> {
    let mut rng = generator(seed, Drawn::Arrivals);
    let mut seconds = 0.0;
    let mut random = |mut distance: Box<dyn FnMut() -> f64>| {
        let mut next = || {
            seconds += distance();
            time(seconds)
        };
        (0..count).map(|_| next()).collect()
    };
    match load {
        LoadSpec::Closed(_) | LoadSpec::Trace(_) => vec![Time::ZERO; count as usize],
        LoadSpec::Constant(spec) => {
            let at = |k: u32| time(f64::from(k) / spec.rate);
            (0..count).map(at).collect()
        }
        LoadSpec::Poisson(spec) => {
            let rate = spec.rate;
            random(Box::new(move || {
                let distance: f64 = Exp1.sample(&mut rng);
                distance / rate
            }))
        }
        LoadSpec::Gamma(spec) => {
            // Of shape k and scale s the mean is ks and the variance ks².
            let shape = 1.0 / (spec.cv * spec.cv);
            match Gamma::new(shape, 1.0 / (shape * spec.rate)) {
                Ok(gamma) => random(Box::new(move || gamma.sample(&mut rng))),
                Err(_) => vec![Time::ZERO; count as usize],
            }
        }
    }
}

fn time(seconds: f64) -> Time {
    Time::from_picos(
        (seconds * 1e12)
            .round()
            .clamp(0.0, Time::MAX.picos() as f64) as u64,
    )
}

/// Numbers of tokens: 1 or more.
fn tokens(spec: &LengthSpec, count: u32, mut rng: ChaCha8Rng) -> Vec<u32> {
    let all = |mut next: Box<dyn FnMut() -> f64>| {
        let whole = |tokens: f64| tokens.round().clamp(1.0, f64::from(u32::MAX / 4)) as u32;
        (0..count).map(|_| whole(next())).collect()
    };
    match spec {
        LengthSpec::Fixed(tokens) => vec![*tokens; count as usize],
        LengthSpec::Drawn(DrawnLength::Uniform([from, to])) => {
            match Uniform::new_inclusive(*from, *to) {
                Ok(uniform) => (0..count)
                    .map(|_| uniform.sample(&mut rng).max(1))
                    .collect(),
                Err(_) => vec![(*from).max(1); count as usize],
            }
        }
        LengthSpec::Drawn(DrawnLength::Lognormal(LognormalSpec { mean, cv, max })) => {
            let most = max.map_or(f64::INFINITY, f64::from);
            match LogNormal::from_mean_cv(*mean, *cv) {
                Ok(normal) => all(Box::new(move || normal.sample(&mut rng).min(most))),
                Err(_) => vec![1; count as usize],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{ClosedSpec, GammaSpec, RateSpec, SharedPrefixSpec};
    use super::*;

    const LENGTHS: LengthsSpec = LengthsSpec {
        input: LengthSpec::Drawn(DrawnLength::Uniform([80, 100])),
        output: LengthSpec::Drawn(DrawnLength::Lognormal(LognormalSpec {
            mean: 200.0,
            cv: 0.5,
            max: Some(2000),
        })),
        shared_prefix: None,
    };

    #[test]
    fn arrivals_have_the_rate_and_the_spread_that_were_asked_for() {
        for (load, cv) in [
            (LoadSpec::Poisson(RateSpec { rate: 4.0 }), 1.0),
            (LoadSpec::Gamma(GammaSpec { rate: 4.0, cv: 3.0 }), 3.0),
            (LoadSpec::Constant(RateSpec { rate: 4.0 }), 0.0),
        ] {
            let requests = made_up(&load, &LENGTHS, 40_000, 7);
            let last = requests[39_999].arrival.seconds();
            assert!((last / 10_000.0 - 1.0).abs() < 0.05, "{load:?}: {last} s");
            let distances = requests
                .windows(2)
                .map(|two| (two[1].arrival.seconds() - two[0].arrival.seconds()) * 4.0);
            let variance = distances.map(|d| (d - 1.0).powi(2)).sum::<f64>() / 39_999.0;
            assert!((variance.sqrt() - cv).abs() < 0.15, "{load:?}: {variance}");
        }
    }

    #[test]
    fn lengths_have_the_mean_that_was_asked_for_and_do_not_depend_on_arrivals() {
        let closed = LoadSpec::Closed(ClosedSpec { concurrency: 1 });
        let poisson = LoadSpec::Poisson(RateSpec { rate: 1.0 });
        let requests = made_up(&closed, &LENGTHS, 10_000, 1);
        let mean = |of: fn(&Request) -> u32| {
            requests.iter().map(|r| f64::from(of(r))).sum::<f64>() / 10_000.0
        };
        assert!((mean(|r| r.input) - 90.0).abs() < 0.3);
        assert!((mean(|r| r.output) / 200.0 - 1.0).abs() < 0.02);
        let others = made_up(&poisson, &LENGTHS, 10_000, 1);
        assert!(
            requests
                .iter()
                .zip(&others)
                .all(|(a, b)| (a.input, a.output) == (b.input, b.output))
        );
    }

    /// Prompts of one group have names in common up to the end of their beginning, those of others none.
    #[test]
    fn prompts_begin_as_one_of_some_groups_does() {
        let lengths = LengthsSpec {
            input: LengthSpec::Fixed(1000),
            shared_prefix: Some(SharedPrefixSpec {
                groups: 3,
                tokens: 700,
            }),
            ..LENGTHS
        };
        let closed = LoadSpec::Closed(ClosedSpec { concurrency: 1 });
        let requests = made_up(&closed, &lengths, 300, 1);
        let names = |id: usize, blocks: std::ops::Range<u32>| -> Vec<u64> {
            let request = &requests[id];
            blocks
                .map(|block| request.block_name(id as u32, block, 16))
                .collect()
        };
        // 10 whole blocks of 64 tokens: 40 of 16.
        let mut groups: Vec<Vec<u64>> = (0..300).map(|id| names(id, 0..40)).collect();
        assert!((0..300).all(|id| names(id, 0..40) == groups[id]));
        groups.sort();
        groups.dedup();
        assert_eq!(groups.len(), 3);
        let mut own: Vec<u64> = (0..300).flat_map(|id| names(id, 40..62)).collect();
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), 300 * 22);
    }
}
