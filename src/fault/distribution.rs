//! Distributions of delays and of relative slowness.

use fabricsim_topology::Fault as Problem;
use fabricsim_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// What can be drawn: a [`Time`], or a plain share of something.
pub trait Amount: Copy + PartialOrd + Display {
    /// The least that can be, and how a message says it.
    const LEAST: (f64, &'static str);

    /// In the unit that draws are made in: picoseconds, or 1.
    fn value(self) -> f64;
}

impl Amount for Time {
    const LEAST: (f64, &'static str) = (0.0, "0 or more");

    fn value(self) -> f64 {
        self.picos() as f64
    }
}

impl Amount for f64 {
    /// What takes a share of something less takes nothing at −1.
    const LEAST: (f64, &'static str) = (-1.0, "-1 or more");

    fn value(self) -> f64 {
        self
    }
}

/// How what is drawn is distributed. A draw below zero counts as zero where only more than
/// nothing has a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Distribution_{Q}")]
pub enum Distribution<Q> {
    /// Always the same.
    Constant {
        /// The value.
        value: Q,
    },
    /// Normal.
    Normal {
        /// Mean; 0 if absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean: Option<Q>,
        /// Standard deviation.
        sd: Q,
    },
    /// Its logarithm is normal: given by `mean` and `sd`, or by the percentiles `p50` and `p99`.
    Lognormal {
        /// Mean of the value itself, not of its logarithm.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean: Option<Q>,
        /// Standard deviation of the value itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        sd: Option<Q>,
        /// Median.
        #[serde(skip_serializing_if = "Option::is_none")]
        p50: Option<Q>,
        /// What 99 of 100 draws stay below.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99: Option<Q>,
    },
    /// Exponential: the time until something that happens at a constant rate.
    Exponential {
        /// Mean.
        mean: Q,
    },
    /// A heavy tail: the chance to exceed x is (least / x)^shape.
    Pareto {
        /// The smallest value.
        least: Q,
        /// How fast the tail falls off; at 2 or less the variance is infinite, at 1 or less
        /// the mean.
        shape: f64,
        /// Larger draws count as this.
        #[serde(skip_serializing_if = "Option::is_none")]
        most: Option<Q>,
    },
    /// Any value of a range alike.
    Uniform {
        /// The smallest value.
        low: Q,
        /// The largest value.
        high: Q,
    },
}

/// A checked [`Distribution`], in picoseconds or plain numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sampler {
    Constant(f64),
    Normal(rand_distr::Normal<f64>),
    Lognormal(rand_distr::LogNormal<f64>),
    Exponential(rand_distr::Exp<f64>),
    Pareto(rand_distr::Pareto<f64>, f64),
    Uniform(f64, f64),
}

/// The 99th percentile of a standard normal variable.
const Z99: f64 = 2.326_347_874_040_841;

impl<Q: Amount> Distribution<Q> {
    /// Checks the parameters; `path` is that of the distribution in the file.
    pub(super) fn sampler(&self, path: &str) -> Result<Sampler, Problem> {
        match *self {
            Distribution::Constant { value } => {
                let at = format!("{path}.constant.value");
                Ok(Sampler::Constant(possible(value, &at)?))
            }
            Distribution::Normal { mean, sd } => {
                let at = format!("{path}.normal");
                let mean = match mean {
                    None => 0.0,
                    Some(mean) => finite(mean, &format!("{at}.mean"))?,
                };
                let deviation = at_least_zero(sd, &format!("{at}.sd"))?;
                rand_distr::Normal::new(mean, deviation)
                    .map(Sampler::Normal)
                    .map_err(|e| unfit(&at, sd, &e.to_string()))
            }
            Distribution::Lognormal { mean, sd, p50, p99 } => {
                lognormal([mean, sd, p50, p99], &format!("{path}.lognormal"))
            }
            Distribution::Exponential { mean } => {
                let at = format!("{path}.exponential.mean");
                let value = above_zero(mean, &at)?;
                rand_distr::Exp::new(1.0 / value)
                    .map(Sampler::Exponential)
                    .map_err(|e| unfit(&at, mean, &e.to_string()))
            }
            Distribution::Pareto { least, shape, most } => {
                let at = format!("{path}.pareto");
                let value = above_zero(least, &format!("{at}.least"))?;
                above_zero(shape, &format!("{at}.shape"))?;
                let most = match most {
                    None => f64::INFINITY,
                    Some(most) if most < least => {
                        let expected = format!("at least `least`, {least}");
                        return Err(unfit(&format!("{at}.most"), most, &expected));
                    }
                    Some(most) => finite(most, &format!("{at}.most"))?,
                };
                rand_distr::Pareto::new(value, shape)
                    .map(|tail| Sampler::Pareto(tail, most))
                    .map_err(|e| unfit(&at, least, &e.to_string()))
            }
            Distribution::Uniform { low, high } => {
                let at = format!("{path}.uniform");
                let start = possible(low, &format!("{at}.low"))?;
                let end = finite(high, &format!("{at}.high"))?;
                if end < start {
                    let expected = format!("at least `low`, {low}");
                    return Err(unfit(&format!("{at}.high"), high, &expected));
                }
                Ok(Sampler::Uniform(start, end))
            }
        }
    }
}

fn lognormal<Q: Amount>(given: [Option<Q>; 4], at: &str) -> Result<Sampler, Problem> {
    let (mu, sigma) = match given {
        [Some(mean), Some(sd), None, None] => {
            let value = above_zero(mean, &format!("{at}.mean"))?;
            let sd = at_least_zero(sd, &format!("{at}.sd"))?;
            // The moments of a log-normal variable, solved for μ and σ².
            let variance = (1.0 + (sd / value).powi(2)).ln();
            (value.ln() - variance / 2.0, variance.sqrt())
        }
        [None, None, Some(p50), Some(p99)] => {
            let median = above_zero(p50, &format!("{at}.p50"))?;
            let tail = finite(p99, &format!("{at}.p99"))?;
            if tail < median {
                let expected = format!("at least `p50`, {p50}");
                return Err(unfit(&format!("{at}.p99"), p99, &expected));
            }
            (median.ln(), (tail / median).ln() / Z99)
        }
        _ => {
            let names = ["mean", "sd", "p50", "p99"];
            let found: Vec<&str> = names
                .into_iter()
                .zip(given)
                .filter_map(|(name, value)| value.map(|_| name))
                .collect();
            let found = match found.as_slice() {
                [] => "none of its fields".to_owned(),
                found => format!("`{}`", found.join("`, `")),
            };
            return Err(problem(at, found, "`mean` and `sd`, or `p50` and `p99`"));
        }
    };
    rand_distr::LogNormal::new(mu, sigma)
        .map(Sampler::Lognormal)
        .map_err(|e| problem(at, format!("μ = {mu}, σ = {sigma}"), &e.to_string()))
}

impl Sampler {
    /// Whether every draw is the same.
    pub(super) fn is_constant(&self) -> bool {
        matches!(self, Sampler::Constant(_))
    }

    /// One draw.
    pub(super) fn draw(&self, generator: &mut ChaCha8Rng) -> f64 {
        match self {
            Sampler::Constant(value) => *value,
            Sampler::Normal(normal) => normal.sample(generator),
            Sampler::Lognormal(lognormal) => lognormal.sample(generator),
            Sampler::Exponential(exponential) => exponential.sample(generator),
            Sampler::Pareto(tail, most) => tail.sample(generator).min(*most),
            Sampler::Uniform(low, high) => {
                let share: f64 = rand_distr::StandardUniform.sample(generator);
                low + (high - low) * share
            }
        }
    }
}

fn problem(path: &str, found: String, expected: &str) -> Problem {
    Problem {
        path: path.to_owned(),
        found,
        expected: expected.to_owned(),
        nearest: None,
    }
}

fn unfit<Q: Display>(path: &str, found: Q, expected: &str) -> Problem {
    problem(path, found.to_string(), expected)
}

fn finite<Q: Amount>(amount: Q, path: &str) -> Result<f64, Problem> {
    let value = amount.value();
    match value.is_finite() {
        true => Ok(value),
        false => Err(unfit(path, amount, "a finite number")),
    }
}

/// A value itself, where [`at_least_zero`] is for how far values are apart.
fn possible<Q: Amount>(amount: Q, path: &str) -> Result<f64, Problem> {
    let (least, expected) = Q::LEAST;
    match finite(amount, path)? {
        value if value < least => Err(unfit(path, amount, expected)),
        value => Ok(value),
    }
}

fn at_least_zero<Q: Amount>(amount: Q, path: &str) -> Result<f64, Problem> {
    match finite(amount, path)? {
        value if value < 0.0 => Err(unfit(path, amount, "0 or more")),
        value => Ok(value),
    }
}

fn above_zero<Q: Amount>(amount: Q, path: &str) -> Result<f64, Problem> {
    match finite(amount, path)? {
        value if value <= 0.0 => Err(unfit(path, amount, "more than 0")),
        value => Ok(value),
    }
}
