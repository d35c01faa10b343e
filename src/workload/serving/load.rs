//! Requests that are made up: when they arrive, and how long they are.

use super::request::{Prefix, Request};
use super::spec::{
    DrawnLength, LengthSpec, LengthsSpec, LoadSpec, LognormalSpec, SharedPrefixSpec,
};
use fabricsim_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1, Gamma, LogNormal, Uniform};
use std::fmt;
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
    MadeUp::new(load, lengths, seed)
        .take(count as usize)
        .collect()
}

/// Draws one number after the other.
type Draw<T> = Box<dyn FnMut() -> T + Send>;

/// Requests without end, in order of arrival: the first ones do not depend on how many are taken.
pub struct MadeUp {
    arrival: Draw<Time>,
    input: Draw<u32>,
    output: Draw<u32>,
    prefix: Option<Draw<Arc<Prefix>>>,
}

impl MadeUp {
    /// Those of a load with such lengths. A closed loop's and a trace's all arrive at once.
    #[must_use]
    pub fn new(load: &LoadSpec, lengths: &LengthsSpec, seed: u64) -> Self {
        let of = |spec: &LengthSpec, drawn| tokens(spec, generator(seed, drawn));
        MadeUp {
            arrival: arrivals(load, generator(seed, Drawn::Arrivals)),
            input: of(&lengths.input, Drawn::Inputs),
            output: of(&lengths.output, Drawn::Outputs),
            prefix: lengths
                .shared_prefix
                .map(|spec| beginnings(spec, generator(seed, Drawn::Prefixes))),
        }
    }
}

impl Iterator for MadeUp {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let mut request = Request::new((self.arrival)(), (self.input)(), (self.output)());
        request.prefix = self.prefix.as_mut().map(|draw| draw());
        Some(request)
    }
}

impl fmt::Debug for MadeUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MadeUp")
    }
}

/// One of so many beginnings for each prompt.
fn beginnings(spec: SharedPrefixSpec, mut rng: ChaCha8Rng) -> Draw<Arc<Prefix>> {
    let prefixes: Vec<Arc<Prefix>> = (0..spec.groups.max(1))
        .map(|group| Arc::new(prefix(group, spec.tokens)))
        .collect();
    Box::new(move || {
        let group = Uniform::new(0, prefixes.len()).map_or(0, |of| of.sample(&mut rng));
        prefixes[group].clone()
    })
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
fn arrivals(load: &LoadSpec, mut rng: ChaCha8Rng) -> Draw<Time> {
    let after = |mut distance: Draw<f64>| -> Draw<Time> {
        let mut seconds = 0.0;
        Box::new(move || {
            seconds += distance();
            time(seconds)
        })
    };
    match load {
        LoadSpec::Closed(_) | LoadSpec::Trace(_) => Box::new(|| Time::ZERO),
        LoadSpec::Constant(spec) => {
            let (rate, mut number) = (spec.rate, 0u32);
            Box::new(move || {
                let at = time(f64::from(number) / rate);
                number = number.saturating_add(1);
                at
            })
        }
        LoadSpec::Poisson(spec) => {
            let rate = spec.rate;
            after(Box::new(move || {
                let distance: f64 = Exp1.sample(&mut rng);
                distance / rate
            }))
        }
        LoadSpec::Gamma(spec) => {
            // Of shape k and scale s the mean is ks and the variance ks².
            let shape = 1.0 / (spec.cv * spec.cv);
            match Gamma::new(shape, 1.0 / (shape * spec.rate)) {
                Ok(gamma) => after(Box::new(move || gamma.sample(&mut rng))),
                Err(_) => Box::new(|| Time::ZERO),
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
fn tokens(spec: &LengthSpec, mut rng: ChaCha8Rng) -> Draw<u32> {
    match *spec {
        LengthSpec::Fixed(tokens) => Box::new(move || tokens),
        LengthSpec::Drawn(DrawnLength::Uniform([from, to])) => {
            match Uniform::new_inclusive(from, to) {
                Ok(uniform) => Box::new(move || uniform.sample(&mut rng).max(1)),
                Err(_) => Box::new(move || from.max(1)),
            }
        }
        LengthSpec::Drawn(DrawnLength::Lognormal(LognormalSpec { mean, cv, max })) => {
            let most = max.map_or(f64::INFINITY, f64::from);
            match LogNormal::from_mean_cv(mean, cv) {
                Ok(normal) => Box::new(move || {
                    let tokens: f64 = normal.sample(&mut rng);
                    tokens.min(most).round().clamp(1.0, f64::from(u32::MAX / 4)) as u32
                }),
                Err(_) => Box::new(|| 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{ClosedSpec, GammaSpec, RateSpec};
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
