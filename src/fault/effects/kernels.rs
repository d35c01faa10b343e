//! What faults do to the kernels of a rank: its speed, delays, and how much longer they take.

use super::{Effect, Faults, PARTS, Work};
use crate::draw::Key;
use fabricsim_units::Time;
use rand_distr::Distribution as _;

impl Faults {
    /// How fast a rank computes, as a share of its normal speed; 0 once its GPU has failed.
    #[must_use]
    pub fn speed(&self, rank: usize, time: Time) -> f64 {
        self.parts(rank, time) as f64 / PARTS as f64
    }

    /// The fastest that a rank ever computes, as a share of its normal speed; or faster than it does.
    #[must_use]
    pub fn most_speed(&self, rank: usize) -> f64 {
        let always = self.of_rank(rank).map(|(_, effect)| match effect {
            Effect::Slow { windows, parts } if windows.always() => *parts as f64 / PARTS as f64,
            _ => 1.0,
        });
        always.product()
    }

    /// When [`Faults::speed`] next changes (or may) after `time`.
    #[must_use]
    pub fn next_speed_change(&self, rank: usize, time: Time) -> Option<Time> {
        let windows = self
            .of_rank(rank)
            .filter_map(|(_, effect)| effect.windows());
        windows.filter_map(|w| w.next_change(time)).min()
    }

    /// How long a rank waits before a kernel starts. Delays per step come before the first
    /// kernel of the first micro-batch, those per micro-batch before its first kernel.
    #[must_use]
    pub fn delay(&self, rank: usize, work: Work) -> Time {
        let mut delay = 0.0;
        for (fault, effect) in self.of_rank(rank) {
            if let Effect::Jitter {
                add: Some(add),
                draws,
                ..
            } = effect
                && draws.first(work) == Some(work)
            {
                let key = self.key(2 * fault, rank, work);
                delay += add.draw(&mut key.generator()).max(0.0);
            }
        }
        rounded(delay)
    }

    /// How much longer than normal a kernel takes: its time is multiplied by this, which is 0
    /// or more. Kernels that share a draw (per step, per micro-batch) have the same.
    #[must_use]
    pub fn stretch(&self, rank: usize, work: Work) -> f64 {
        let mut stretch = 1.0;
        for (fault, effect) in self.of_rank(rank) {
            if let Effect::Jitter {
                stretch: Some(sampler),
                draws,
                ..
            } = effect
                && let Some(first) = draws.first(work)
            {
                let key = self.key(2 * fault + 1, rank, first);
                stretch *= (1.0 + sampler.draw(&mut key.generator())).max(0.0);
            }
        }
        stretch
    }

    /// How long a rank waits for its data loader before a step; zero in most steps.
    #[must_use]
    pub fn loader_stall(&self, rank: usize, step: u64) -> Time {
        let mut stall = 0.0;
        for (fault, effect) in self.of_rank(rank) {
            if let Effect::Stall {
                probability,
                sampler,
                steps,
            } = effect
                && steps.contains(&step)
            {
                let work = Work {
                    step,
                    micro_batch: 0,
                    kernel: 0,
                };
                let mut generator = self.key(2 * fault, rank, work).generator();
                let chance: f64 = rand_distr::StandardUniform.sample(&mut generator);
                if chance < *probability {
                    stall += sampler.draw(&mut generator).max(0.0);
                }
            }
        }
        rounded(stall)
    }

    /// When a kernel ends that may start at `start` and normally takes `duration`: after its
    /// delay, stretched, at the rank's speed as it changes on the way. `None` if the GPU fails
    /// before, or if that is beyond all time.
    #[must_use]
    pub fn compute_end(
        &self,
        rank: usize,
        work: Work,
        start: Time,
        duration: Time,
    ) -> Option<Time> {
        if self.is_plain(rank) {
            return start
                .picos()
                .checked_add(duration.picos())
                .map(Time::from_picos);
        }
        let stretch = self.stretch(rank, work);
        // Only a real change goes through floating point, which would round long times.
        let duration = match stretch == 1.0 {
            true => duration,
            false => rounded(duration.picos() as f64 * stretch),
        };
        let mut now = start + self.delay(rank, work);
        // What is left to do, in picoseconds of full speed × PARTS.
        let mut left = u128::from(duration.picos()) * u128::from(PARTS);
        loop {
            let parts = u128::from(self.parts(rank, now));
            let change = self.next_speed_change(rank, now);
            let end = change.unwrap_or(Time::MAX);
            let possible = u128::from((end - now).picos()) * parts;
            if left <= possible {
                // At speed 0 only what has nothing left to do gets here.
                let picos = left.div_ceil(parts.max(1));
                return u64::try_from(picos).ok().map(|p| now + Time::from_picos(p));
            }
            left -= possible;
            now = change?;
        }
    }

    /// The speed of a rank in parts of [`PARTS`].
    fn parts(&self, rank: usize, time: Time) -> u64 {
        let mut parts = PARTS;
        for (_, effect) in self.of_rank(rank) {
            match effect {
                Effect::Slow {
                    windows,
                    parts: slow,
                } if windows.covers(time) => {
                    let product = u128::from(parts) * u128::from(*slow);
                    // Slow is never dead, however many slow it down.
                    let rest = (product / u128::from(PARTS)).max(1);
                    parts = if parts == 0 { 0 } else { rest as u64 };
                }
                Effect::Failed { windows, .. } if windows.covers(time) => parts = 0,
                _ => {}
            }
        }
        parts
    }

    fn key(&self, fault: u32, rank: usize, work: Work) -> Key {
        Key {
            seed: self.seed,
            fault,
            rank: rank as u32,
            step: work.step,
            micro_batch: work.micro_batch,
            kernel: work.kernel,
        }
    }
}

/// To the nearest picosecond; the longest time if there is no other.
fn rounded(picos: f64) -> Time {
    // A cast of a float stops at the ends of the integer's range.
    Time::from_picos(picos.round() as u64)
}
