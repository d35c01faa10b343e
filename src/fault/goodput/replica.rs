//! One simulated run.
//!
//! Failures come after exponential times of *exposure*: work, checkpoints and restarts. While a
//! failure is being detected, or nodes are waited for, nothing runs and nothing fails. The k-th
//! failure of a replica draws from a generator of its own, so its exposure, part and drain are
//! the same for every interval, number of spares and restart time: comparisons do not see
//! chance, and more spares are never worse.

use super::Job;
use super::shared::Outages;
use crate::draw::Key;
use crate::published::Component;
use fabricsim_units::Span;
use rand_distr::Distribution as _;

/// What a run's time went to; its parts add up to the duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Steps that were not lost.
    pub productive: Span,
    /// Checkpoints, also those that a failure cut short.
    pub checkpointing: Span,
    /// Work since the last checkpoint that was written, which a failure undid.
    pub lost_work: Span,
    /// Until failures were noticed.
    pub detection: Span,
    /// Restarts, also those that failed.
    pub restart: Span,
    /// Waiting for nodes to be repaired, since no spare was left.
    pub waiting: Span,
}

impl Ledger {
    /// Everything together.
    #[must_use]
    pub fn total(&self) -> Span {
        let Ledger {
            productive,
            checkpointing,
            lost_work,
            detection,
            restart,
            waiting,
        } = *self;
        productive + checkpointing + lost_work + detection + restart + waiting
    }
}

/// One simulated run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replica {
    /// What the time went to.
    pub ledger: Ledger,
    /// Whole steps that were done and not lost.
    pub steps: u64,
    /// Failures of each kind of part, in the order of [`Component::ALL`].
    pub failures: [u64; Component::COUNT],
    /// Failures after which a node was out.
    pub drained: u64,
}

impl Replica {
    /// Productive time as a share of all.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        let total = self.ledger.total().seconds();
        if total == 0.0 {
            return 0.0;
        }
        self.ledger.productive.seconds() / total
    }

    /// Failures of all kinds.
    #[must_use]
    pub fn failure_count(&self) -> u64 {
        self.failures.iter().sum()
    }
}

/// One failure, as drawn.
struct Failure {
    /// Exposure since the one before.
    exposure: Span,
    /// Index into [`Component::ALL`](crate::published::Component::ALL).
    component: usize,
    drains: bool,
    /// Which of the parts of its kind it is, 0 to 1.
    which: f64,
}

impl Failure {
    fn draw(job: &Job, seed: u64, replica: u32, number: u64) -> Failure {
        let key = Key {
            seed,
            // No fault of a list has this number: it is larger than any list.
            fault: u32::MAX,
            rank: replica,
            step: number,
            micro_batch: 0,
            kernel: 0,
        };
        let mut generator = key.generator();
        // The order of these draws is part of the results.
        let mut share = || -> f64 { rand_distr::StandardUniform.sample(&mut generator) };
        let (part, drain) = (share(), share());
        let life: f64 = rand_distr::Exp1.sample(&mut generator);
        let which = rand_distr::StandardUniform.sample(&mut generator);
        let mut left = part * job.rate();
        let last = job.rates.iter().rposition(|&rate| 0.0 < rate).unwrap_or(0);
        let component = job.rates.iter().position(|&rate| {
            left -= rate;
            left < 0.0
        });
        Failure {
            exposure: Span::from_seconds(life / job.rate()),
            // Rounding may leave a little beyond the last.
            component: component.unwrap_or(last),
            drains: drain < job.drained,
            which,
        }
    }
}

/// Simulates one run with a checkpoint after every `interval` steps (at least 1).
pub(super) fn simulate(job: &Job, interval: u64, seed: u64, replica: u32) -> Replica {
    let mut run = Replica::default();
    let work = job.step.saturating_mul(interval);
    let cost = job.blocked(work);
    let cycle = work.saturating_add(cost);
    let mut left = job.duration;
    let mut outages = Outages::default();
    let mut restarting = false;
    for number in 0.. {
        let failure = (0.0 < job.rate()).then(|| Failure::draw(job, seed, replica, number));
        let life = failure
            .as_ref()
            .map_or(Span::MAX, |failure| failure.exposure);
        let fails = life < left;
        let mut exposed = life.min(left);
        left = left - exposed;
        if restarting {
            let restart = job.restart.min(exposed);
            run.ledger.restart += restart;
            exposed = exposed - restart;
        }
        let cycles = exposed.nanos() / cycle.nanos();
        let rest = Span::from_nanos(exposed.nanos() % cycle.nanos());
        let begun = rest.min(work);
        run.ledger.checkpointing += cost.saturating_mul(cycles) + (rest - begun);
        run.ledger.productive += work.saturating_mul(cycles);
        run.steps += cycles * interval;
        let Some(failure) = failure.filter(|_| fails) else {
            run.ledger.productive += begun;
            run.steps += begun.nanos() / job.step.nanos();
            break;
        };
        run.ledger.lost_work += begun;
        if 0 < cycles && rest < job.write {
            // The last checkpoint was not yet written.
            run.ledger.productive = run.ledger.productive - work;
            run.ledger.lost_work += work;
            run.steps -= interval;
        }
        run.failures[failure.component] += 1;
        restarting = true;

        let detection = job.detection.min(left);
        run.ledger.detection += detection;
        left = left - detection;
        if let Some(repair) = job.repair {
            // One that comes back after the end comes back at the end.
            let back = left.saturating_sub(repair);
            let component = Component::ALL[failure.component];
            if let Some(domains) = job.shared.stopped_by(component, failure.which) {
                run.drained += 1;
                outages.domains(&job.shared, &domains, back);
            } else if failure.drains {
                run.drained += 1;
                let which = (failure.which, job.spares_per_domain);
                outages.node(&job.shared, which, (left, back));
            }
        }
        let ready = outages.wait(left, job.spares);
        run.ledger.waiting += left - ready;
        left = ready;
    }
    debug_assert_eq!(run.ledger.total(), job.duration);
    run
}
