//! What engines do at most: the rate at which requests are served that are always there.
//!
//! By the saturation rule (F. Baccelli, S. Foss: "On the saturation rule for the stability of queues", J. Appl. Prob. 32,
//! 1995) a load is stable if it is below that rate. Engines whose batches grow with the load may serve somewhat more
//! as long as they are not full; but once a burst has filled them, they do no more than this.

use super::growth::{CLEARLY, SPELLS};
use super::intervals::of_rate;
use super::window::Window;
use crate::error::ScenarioError;
use crate::serving::horizon::{Horizon, rate as rate_of};
use crate::serving::laid::{LaidServing, Load};
use crate::serving::valid::ValidServing;
use fabricsim_plan::job::Job;
use fabricsim_report::serving::Saturation;
use fabricsim_workload::serving::fleet::{Arrivals, Seen, Watch};
use fabricsim_workload::serving::load::MadeUp;
use fabricsim_workload::serving::record::RequestRecord;
use fabricsim_workload::serving::spec::{ClosedSpec, DrawnLength, LengthSpec, LoadSpec, PoolRole};

/// The rate is known no better than to this part: that engines were filled at once is not quite the same as that they
/// filled up.
const LEAST: f64 = 0.005;
/// Passes of such a run, about.
const MOST_PASSES: u64 = 200_000;
/// Where the load is that far from it, and it is known to half of that, it is known well enough.
const APART: f64 = 0.1;

/// Requests per second that engines serve at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::serving) struct Saturated {
    pub(in crate::serving) rate: f64,
    /// The ends of its 95 % interval.
    pub(in crate::serving) lo: f64,
    pub(in crate::serving) hi: f64,
}

impl Saturated {
    /// Whether a rate is clearly above it.
    pub(in crate::serving) fn is_exceeded(&self, rate: f64) -> bool {
        rate > CLEARLY * self.hi
    }
}

impl From<Saturated> for Saturation {
    fn from(of: Saturated) -> Self {
        Saturation {
            requests_per_s: of.rate,
            requests_per_s_lo: of.lo,
            requests_per_s_hi: of.hi,
        }
    }
}

/// Serves requests of these lengths, so many at once that some always wait, on one of so many parts that are alike;
/// nothing if none can be served, or lengths are a trace's.
///
/// # Errors
/// What NCCL refuses.
pub(in crate::serving) fn saturate(
    (valid, times): (&ValidServing, f64),
    laid: &mut LaidServing<'_>,
    job: &Job,
) -> Result<Option<Saturated>, ScenarioError> {
    let Some(lengths) = &valid.spec.lengths else {
        return Ok(None);
    };
    let concurrency = crowd(valid);
    let closed = LoadSpec::Closed(ClosedSpec { concurrency });
    let offered = match valid.spec.capacity {
        Some(_) => None,
        None => rate_of(&valid.spec.load).map(|rate| rate / times),
    };
    let most = match valid.horizon {
        Horizon::Known(steady) => steady.most_passes.min(MOST_PASSES),
        Horizon::Fixed | Horizon::Whole => MOST_PASSES,
    };
    let mut full = Full {
        at_once: concurrency,
        most,
        offered,
    };
    let served = laid.serve(
        job,
        Load {
            arrivals: Arrivals::Closed { concurrency },
            requests: Vec::new(),
            more: Some(MadeUp::new(&closed, lengths, valid.seed)),
            watch: Some(&mut full),
            counted_from: u32::MAX,
            keeps_passes: false,
        },
        None,
    );
    let served = match served {
        (served, Ok(_)) => served,
        (_, Err(_)) => {
            laid.check()?;
            return Ok(None);
        }
    };
    let of_one = rate(&served.records, served.over as usize, concurrency);
    Ok(of_one.map(|of| Saturated {
        rate: of.rate * times,
        lo: of.lo * times,
        hi: of.hi * times,
    }))
}

/// Half as many again as engines have seats for, in passes and in their KV caches.
fn crowd(valid: &ValidServing) -> u32 {
    let mean = |of: Option<&LengthSpec>| match of {
        Some(LengthSpec::Fixed(tokens)) => f64::from(*tokens),
        Some(LengthSpec::Drawn(DrawnLength::Uniform([from, to]))) => {
            (f64::from(*from) + f64::from(*to)) / 2.0
        }
        Some(LengthSpec::Drawn(DrawnLength::Lognormal(normal))) => normal.mean,
        None => 1.0,
    };
    let lengths = valid.spec.lengths.as_ref();
    let tokens = mean(lengths.map(|l| &l.input)) + mean(lengths.map(|l| &l.output)) / 2.0;
    let block_tokens = f64::from(valid.spec.engine.block_tokens());
    let input = mean(lengths.map(|l| &l.input));
    let seats = valid.pools.iter().map(|pool| {
        let parts = pool.engines.len() as f64 * f64::from(pool.parallel.attention_dp);
        let held = f64::from(pool.blocks) * block_tokens / tokens.max(1.0);
        let most = match pool.role {
            // A prompt or two that are computed, and as many that wait to be handed over.
            PoolRole::Prefill => {
                4.0 * (f64::from(pool.limits.token_budget) / input.max(1.0)).max(1.0)
            }
            PoolRole::Both | PoolRole::Decode => f64::from(pool.limits.max_sequences),
        };
        parts * held.min(most).max(1.0)
    });
    (seats.sum::<f64>() * 1.5).clamp(2.0, 200_000.0) as u32
}

/// The rate of requests that are always there.
fn rate(records: &[RequestRecord], over: usize, at_once: u32) -> Option<Saturated> {
    let window = Window::steady(records, over, at_once as usize)?;
    let spells = window.spells();
    let mut done = [0.0; SPELLS];
    for at in records.iter().filter_map(|record| record.finished) {
        if let Some(spell) = spells.of(at) {
            done[spell] += 1.0;
        }
    }
    let seconds = window.to.saturating_sub(window.from).seconds();
    let rate = done.iter().sum::<f64>() / seconds;
    let half = of_rate(&done)?.max(LEAST);
    (rate > 0.0).then_some(Saturated {
        rate,
        lo: rate / (1.0 + half),
        hi: rate * (1.0 + half),
    })
}

/// Looks until the rate is known.
struct Full {
    at_once: u32,
    /// No more passes than that, about.
    most: u64,
    /// The rate that it is compared with, if there is one.
    offered: Option<f64>,
}

impl Full {
    fn is_known(&self, known: &Saturated) -> bool {
        let half = known.hi / known.rate - 1.0;
        let apart = self
            .offered
            .map(|offered| (offered / known.rate).ln().abs());
        half <= 1.01 * LEAST
            || (half <= APART / 2.0 && apart.is_some_and(|apart| apart > 2.0 * APART))
    }
}

impl Watch for Full {
    fn first_look(&self) -> u32 {
        self.at_once.saturating_mul(4).max(400)
    }

    fn most_passes(&self) -> u64 {
        self.most.saturating_mul(2)
    }

    fn look(&mut self, seen: Seen<'_>) -> Option<u32> {
        let known = rate(seen.records, seen.over as usize, self.at_once);
        let is_known = known.is_some_and(|known| self.is_known(&known));
        let is_long = seen.passes >= self.most;
        (!is_known && !is_long).then(|| seen.over + seen.over / 2)
    }
}
