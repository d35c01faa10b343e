//! Goodput: what share of a long run is progress, when parts fail and checkpoints cost time.
//!
//! A [`LongRunSpec`] on a [`Cluster`] becomes a [`Job`]; [`goodput`] simulates many replicas of it, which
//! differ in their failures only ([`replica`]), and [`formulas`] say what to expect.
//!
//! Some parts fail for several nodes at once ([`shared`]), and a restart takes longer with more GPUs
//! ([`restart`]).
//!
//! Left out: reading older checkpoints after a corrupt one, going on with fewer nodes, failures at a rate
//! that changes, and steps that a checkpoint slows down which is written beside them.

pub mod formulas;
pub mod replica;
pub mod restart;
pub mod search;
pub mod shared;
#[cfg(test)]
mod shared_tests;
pub mod spec;
#[cfg(test)]
mod tests;

pub use replica::{Ledger, Replica};
pub use restart::Restart;
pub use search::{BestInterval, best_interval};
pub use shared::SharedParts;
pub use spec::{
    CheckpointSpec, Cluster, CostSpec, IntervalSpec, LongRunSpec, RestartSpec, StorageSpec,
    StorageTimes,
};

use super::error::{FaultError, problem};
use super::published::{Component, published};
use fabricsim_budget::threads;
use fabricsim_topology::{Fault as Problem, error::nearest};
use fabricsim_units::Span;

/// A checked goodput job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Failures per second of each kind of part, all of the kind together, in the order of
    /// [`Component::ALL`].
    pub rates: [f64; Component::COUNT],
    /// What stops several nodes at once.
    pub shared: SharedParts,
    /// Nodes that stand by.
    pub spares: u32,
    /// Nodes that stand by inside each domain of several nodes.
    pub spares_per_domain: u32,
    /// How long a step takes; above zero.
    pub step: Span,
    /// How long training stands still for a checkpoint, at least.
    pub cost: Span,
    /// How long a checkpoint is written after that, beside the steps that follow.
    pub write: Span,
    /// Until a failure is noticed.
    pub detection: Span,
    /// From having all nodes to the first step.
    pub restart: Span,
    /// What of it grows with the number of GPUs, if that was asked for.
    pub restart_parts: Option<Restart>,
    /// How long a drained node is out; no node is drained if `None`.
    pub repair: Option<Span>,
    /// Share of failures that drain a node.
    pub drained: f64,
    /// How long the run is.
    pub duration: Span,
    /// How often it is simulated.
    pub replicas: u32,
}

/// What came of a goodput job.
#[derive(Debug, Clone, PartialEq)]
pub struct Goodput {
    /// The mean time between failures of the whole job; `None` if nothing fails.
    pub mtbf: Option<Span>,
    /// Steps between checkpoints.
    pub interval: u64,
    /// The same as work.
    pub work: Span,
    /// The mean of the replicas' goodput.
    pub mean: f64,
    /// The standard deviation between replicas (of n − 1); 0 for a single one.
    pub deviation: f64,
    /// What the formula for endless runs without waiting for nodes gives
    /// ([`formulas::expected_goodput`]); `None` if nothing fails.
    pub expected: Option<f64>,
    /// How long training stands still for a checkpoint.
    pub blocked: Span,
    /// What a restart consists of, if that was asked for.
    pub restart: Option<Restart>,
    /// The search for the best interval, if there was one.
    pub search: Option<BestInterval>,
    /// Every run.
    pub replicas: Vec<Replica>,
}

impl Goodput {
    /// The mean over the replicas of something that each has.
    #[must_use]
    pub fn mean_of(&self, value: impl Fn(&Replica) -> f64) -> f64 {
        let count = self.replicas.len().max(1) as f64;
        self.replicas.iter().map(value).sum::<f64>() / count
    }

    /// The goodput that a share of the runs does not reach, by nearest rank: of 0.1 the one that nine in
    /// ten reach.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let mut all: Vec<f64> = self.replicas.iter().map(Replica::goodput).collect();
        all.sort_by(f64::total_cmp);
        let rank = (share * all.len() as f64).ceil() as usize;
        all.get(rank.max(1) - 1).copied().unwrap_or(self.mean)
    }
}

/// The mean goodput if parts of each kind never failed, with checkpoints as often; of kinds that fail.
///
/// # Errors
/// As [`goodput`].
pub fn without_each(
    cluster: &Cluster,
    spec: &LongRunSpec,
    (interval, seed): (u64, u64),
    threads: usize,
) -> Result<Vec<(Component, f64)>, FaultError> {
    let job = Job::new(cluster, spec)?;
    let fails = |&place: &usize| job.rates[place] > 0.0;
    let without = |place: usize| {
        let mut job = job.clone();
        job.rates[place] = 0.0;
        let replicas = simulate(&job, interval, seed, threads);
        let all: f64 = replicas.iter().map(Replica::goodput).sum();
        (Component::ALL[place], all / replicas.len().max(1) as f64)
    };
    let places = 0..job.rates.len();
    Ok(places.filter(fails).map(without).collect())
}

/// More failures in one run than this are not simulated.
const MOST_FAILURES: f64 = 10e6;

/// Simulates a job on `threads` threads, whose number changes nothing but the time it takes.
///
/// # Errors
/// Everything that is wrong with the job, with paths that start at its own fields.
pub fn goodput(
    cluster: &Cluster,
    spec: &LongRunSpec,
    seed: u64,
    threads: usize,
) -> Result<Goodput, FaultError> {
    let job = Job::new(cluster, spec)?;
    let mut search = None;
    let interval = match spec.checkpoint.interval {
        IntervalSpec::Steps(steps) => steps,
        IntervalSpec::Every(work) => job.steps_of(work),
        IntervalSpec::Best => {
            let best = best_interval(&job, seed, threads);
            let steps = best.steps;
            search = Some(best);
            steps
        }
        IntervalSpec::Young => job.steps_by(|mtbf| formulas::young(job.cost, mtbf)),
        IntervalSpec::Daly => job.steps_by(|mtbf| formulas::daly(job.cost, mtbf)),
        IntervalSpec::Exact => job.steps_by(|mtbf| formulas::exact(job.cost, mtbf)),
        IntervalSpec::Recovery => job.steps_by(|mtbf| {
            let recovery = job.detection.saturating_add(job.restart);
            formulas::recovery_period(job.cost, recovery, mtbf).saturating_sub(job.cost)
        }),
    };
    let replicas = simulate(&job, interval, seed, threads);
    let count = replicas.len() as f64;
    let mean = replicas.iter().map(Replica::goodput).sum::<f64>() / count;
    let square = |replica: &Replica| (replica.goodput() - mean).powi(2);
    let squares: f64 = replicas.iter().map(square).sum();
    let work = job.step.saturating_mul(interval);
    Ok(Goodput {
        mtbf: job.mtbf(),
        interval,
        work,
        mean,
        deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        expected: job.expected(work),
        blocked: job.blocked(work),
        restart: job.restart_parts,
        search,
        replicas,
    })
}

/// All replicas of a job with a checkpoint after every `interval` steps (0 counts as 1), in
/// order.
#[must_use]
pub fn simulate(job: &Job, interval: u64, seed: u64, threads: usize) -> Vec<Replica> {
    let numbers: Vec<u32> = (0..job.replicas).collect();
    let interval = interval.max(1);
    threads::each(
        &numbers,
        Some(threads),
        || (),
        |(), &number| replica::simulate(job, interval, seed, number),
    )
}

impl Job {
    /// Checks a job.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn new(cluster: &Cluster, spec: &LongRunSpec) -> Result<Job, FaultError> {
        let mut problems = Vec::new();
        let defaults = &published().defaults;
        let counts = [
            ("nodes", cluster.nodes),
            ("gpus_per_node", cluster.gpus_per_node),
        ];
        for (name, count) in counts {
            if count == 0 {
                problems.push(problem(name, "0", "1 or more"));
            }
        }
        let replicas = spec.replicas.unwrap_or(100);
        if !(1..=1_000_000).contains(&replicas) {
            problems.push(problem("replicas", replicas.to_string(), "1 to 1000000"));
        }
        for (name, span) in [("step", cluster.step), ("duration", spec.duration)] {
            if span == Span::ZERO {
                problems.push(problem(name, span.to_string(), "more than 0"));
            }
        }
        if spec.checkpoint.interval == IntervalSpec::Steps(0) {
            problems.push(problem("checkpoint.interval.steps", "0", "1 or more"));
        }
        let drained = spec.drained.unwrap_or(defaults.drained.value);
        if !(0.0..=1.0).contains(&drained) {
            problems.push(problem("drained", drained.to_string(), "0 to 1"));
        }
        if spec.drained.is_some() && spec.repair.is_none() {
            let expected = "also `repair`, how long a drained node is out";
            problems.push(problem("drained", drained.to_string(), expected));
        }
        let (cost, write, read) = match &spec.checkpoint.cost {
            CostSpec::Blocking(cost) => (*cost, Span::ZERO, *cost),
            CostSpec::Write { size, rate } => {
                if rate.bytes_per_sec() == 0 {
                    let found = rate.to_string();
                    problems.push(problem("checkpoint.cost.write.rate", found, "more than 0"));
                }
                let cost = formulas::write_time(*size, *rate);
                (cost, Span::ZERO, cost)
            }
            CostSpec::Storage(storage) => {
                let StorageTimes { copy, write, read } = cluster.storage;
                match storage.asynchronous {
                    true => (copy, write, read),
                    false => (write, Span::ZERO, read),
                }
            }
        };
        if let (Some(restart), Some(_)) = (spec.restart, &spec.restart_parts) {
            let expected = "either this or `restart_parts`, of which it is the sum";
            problems.push(problem("restart", restart.to_string(), expected));
        }
        let restart_parts = spec.restart_parts.as_ref();
        // Whoever knows how communicators are made has put in what that takes.
        if let Some(parts) = restart_parts
            && let (true, Some(said)) = (parts.make_communicators, parts.communicators)
        {
            let expected = "either this or `make_communicators`";
            problems.push(problem(
                "restart_parts.communicators",
                said.to_string(),
                expected,
            ));
        }
        let restart_parts = restart_parts.map(|parts| Restart::of(parts, cluster.gpus(), read));
        let restart = restart_parts.map(|parts| parts.total()).or(spec.restart);
        let rates = rates(cluster, spec, &mut problems);
        let job = Job {
            rates,
            shared: cluster.shared.clone(),
            spares: spec.spares.unwrap_or(0),
            spares_per_domain: spec.spares_per_domain.unwrap_or(0),
            step: cluster.step,
            cost,
            write,
            detection: spec.detection.unwrap_or(defaults.detection.value),
            restart: restart.unwrap_or(defaults.restart.value),
            restart_parts,
            repair: spec.repair,
            drained,
            duration: spec.duration,
            replicas,
        };
        if MOST_FAILURES < job.rate() * job.duration.seconds() {
            let found = format!("{:.0} failures", job.rate() * job.duration.seconds());
            let expected = format!("a run with at most {MOST_FAILURES} failures");
            problems.push(problem("duration", found, expected));
        }
        match problems.is_empty() {
            true => Ok(job),
            false => Err(FaultError { problems }),
        }
    }

    /// Failures per second of the whole job.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// How long training stands still for a checkpoint after so much work: also for what is left of writing
    /// the one before.
    #[must_use]
    pub fn blocked(&self, work: Span) -> Span {
        self.cost.saturating_add(self.write.saturating_sub(work))
    }

    /// [`formulas::expected_goodput`] of this job; `None` if nothing fails. A checkpoint that is written
    /// beside the next steps counts if nothing fails until then, just as if a restart took longer by that
    /// without costing time.
    fn expected(&self, work: Span) -> Option<f64> {
        let mtbf = self.mtbf()?;
        let restart = self.restart.saturating_add(self.write);
        let cost = self.blocked(work);
        let goodput = formulas::expected_goodput(work, cost, self.detection, restart, mtbf);
        Some(goodput)
    }

    /// The mean time between failures of the whole job; `None` if nothing fails.
    #[must_use]
    pub fn mtbf(&self) -> Option<Span> {
        (0.0 < self.rate()).then(|| Span::from_seconds(1.0 / self.rate()))
    }

    /// Work as steps: to the nearest, at least 1.
    #[must_use]
    pub fn steps_of(&self, work: Span) -> u64 {
        let half = self.step.nanos() / 2;
        (work.nanos().saturating_add(half) / self.step.nanos()).max(1)
    }

    /// Steps by a formula of the mean time between failures; all of the run, and so no
    /// checkpoint, if nothing fails.
    fn steps_by(&self, formula: impl Fn(Span) -> Span) -> u64 {
        self.steps_of(self.mtbf().map_or(self.duration, formula))
    }
}

/// Failures per second of each kind of part.
fn rates(
    cluster: &Cluster,
    spec: &LongRunSpec,
    problems: &mut Vec<Problem>,
) -> [f64; Component::COUNT] {
    const NONE: &str = "none";
    let shipped = &published().rates;
    let name = spec.rates.as_deref().unwrap_or(&shipped[0].name);
    let base = shipped.iter().find(|rates| rates.name == name);
    if base.is_none() && name != NONE {
        let names: Vec<&str> = shipped.iter().map(|rates| rates.name.as_str()).collect();
        let expected = format!("one of {}, or {NONE}", names.join(", "));
        problems.push(Problem {
            nearest: nearest(name, names.into_iter().chain([NONE])),
            ..problem("rates", format!("`{name}`"), expected)
        });
    }
    Component::ALL.map(|component| {
        let own = spec.mtbf.get(&component).copied();
        if own == Some(Span::ZERO) {
            let path = format!("mtbf.{}", component.label().to_lowercase());
            problems.push(problem(path, "0ns", "more than 0"));
            return 0.0;
        }
        let mtbf = own.or_else(|| base?.mtbf(component));
        mtbf.map_or(0.0, |mtbf| cluster.count(component) as f64 / mtbf.seconds())
    })
}
