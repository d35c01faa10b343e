//! What became of the layouts of a cluster, and the search that fills it.

use super::ask::{Ask, Progress};
use super::bounds::CollectiveBounds;
use super::ground::{Candidate, Ground};
use super::space::layout_of;
use crate::error::ScenarioError;
use crate::site::Machines;
use fabricsim_budget::{Budget, threads};
use fabricsim_report::Summary;
use fabricsim_report::optimize::{Choice, Reason, Rejected};
use fabricsim_units::Time;
use fabricsim_workload::training::spec::TrainingSpec;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// So many layouts are looked at before those that do not divide or do not fit are put away.
const AT_ONCE: u64 = 10_000;

/// Other sizes of buckets are tried with so many of the best, at most.
const BUCKETED: usize = 10;

/// What became of the layouts of one cluster.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) counts: BTreeMap<Reason, u64>,
    pub(super) rejected: Vec<Rejected>,
    pub(super) simulated: Vec<Choice>,
    summaries: Vec<Summary>,
    jobs: Vec<TrainingSpec>,
    /// Of so many of the best, buckets of other sizes were tried.
    pub(super) bucketed: u64,
    /// The largest bound as a share of what was then simulated.
    pub(super) tightest: f64,
    pub(super) searched: u64,
}

impl Ledger {
    /// All layouts of a cluster that is not searched.
    pub(super) fn without(ground: &Ground, why: Reason) -> Self {
        let searched = ground.space.size();
        Ledger {
            counts: BTreeMap::from([(why, searched)]),
            searched,
            ..Ledger::default()
        }
    }

    /// Simulates layouts in the order of their bounds, until none is below what was found. With a
    /// `limit` it is enough that one step is no longer than that.
    pub(super) fn of(
        ground: &Ground,
        (ask, limit): (Ask<'_>, Option<Time>),
        (budget, machines): (&Budget, &Machines),
        progress: &dyn Fn(Progress<'_>),
    ) -> Result<Self, ScenarioError> {
        let mut ledger = Ledger {
            searched: ground.space.size(),
            ..Ledger::default()
        };
        let collectives = CollectiveBounds::new(&ground.site);
        let candidates = ledger.candidates(ground, &collectives, budget)?;
        let each = budget.beside_others(1);
        let counting = budget
            .work
            .part_at_most("layouts simulated", candidates.len() as u64);
        let at_once = budget.threads.max(1);
        let (mut taken, mut over) = (0, false);
        while !over && taken < candidates.len() {
            // Those beside the first one may turn out to be slower than what is found meanwhile: then
            // they count as if nobody had looked at them, so that the number of threads does not show.
            let next = candidates[taken..].iter().take(at_once);
            let next: Vec<&Candidate> = next
                .take_while(|candidate| !ledger.rules_out(candidate, (ask, limit)))
                .collect();
            over = next.is_empty();
            let results = threads::each(
                &next,
                Some(at_once),
                || (),
                |(), candidate| ground.simulate(candidate, (&each, machines)),
            );
            for (candidate, result) in next.into_iter().zip(results) {
                over = ledger.rules_out(candidate, (ask, limit));
                if over {
                    break;
                }
                ledger.add(ground, candidate, result);
                taken += 1;
                counting.add(1);
            }
            progress(Progress {
                machine: &ground.site.topology.name,
                gpus: ground.gpus(),
                simulated: ledger.simulated.len() as u64,
                left: (candidates.len() - taken) as u64,
            });
        }
        drop(counting);
        let left = (candidates.len() - taken) as u64;
        if left > 0 {
            *ledger.counts.entry(Reason::Bound).or_default() += left;
        }
        if limit.is_none() {
            ledger.buckets(ground, ask, &collectives, (&each, machines, at_once))?;
        }
        Ok(ledger)
    }

    /// Whether a layout need not be looked at, nor those whose bounds are above its own.
    fn rules_out(&self, candidate: &Candidate, (ask, limit): (Ask<'_>, Option<Time>)) -> bool {
        let bound = loosened(candidate.bound, self.tightest);
        match limit {
            Some(limit) => bound > limit || self.fastest().is_some_and(|time| time <= limit),
            None if ask.exhaustive || !follows_time(ask.objective) => false,
            None => bound > self.kth_best(ask.top),
        }
    }

    /// The shortest step.
    pub(super) fn fastest(&self) -> Option<Time> {
        let times = self.simulated.iter().filter_map(|c| c.metrics.time_us);
        let fastest = times.min_by(f64::total_cmp);
        fastest.map(|us| Time::from_picos((us * 1e6) as u64))
    }

    /// Whether nothing could be run, and some of it for want of the GPUs' memory.
    pub(super) fn lacks_memory(&self) -> bool {
        self.simulated.is_empty() && self.counts.contains_key(&Reason::Memory)
    }

    /// With what another search of the same cluster found, after one that found nothing.
    pub(super) fn then(self, mut other: Ledger) -> Ledger {
        for (reason, count) in self.counts {
            *other.counts.entry(reason).or_default() += count;
        }
        other.rejected.extend(self.rejected);
        other.searched += self.searched;
        other
    }

    /// Buckets of other sizes for the best, as long as that takes no longer than the search did. Their
    /// sizes are on no bound, so that trying them with all layouts would take several times as long.
    fn buckets(
        &mut self,
        ground: &Ground,
        ask: Ask<'_>,
        collectives: &CollectiveBounds<'_>,
        (each, machines, at_once): (&Budget, &Machines, usize),
    ) -> Result<(), ScenarioError> {
        let events = |ledger: &Ledger, from: usize| -> u64 {
            let new = ledger.simulated[from..].iter();
            new.filter_map(|choice| choice.metrics.events).sum()
        };
        let before = self.simulated.len();
        let most = events(self, 0);
        for index in self.order(ask.objective).into_iter().take(BUCKETED) {
            if events(self, before) > most {
                break;
            }
            let others = ground.other_buckets(&self.jobs[index], collectives)?;
            self.bucketed += u64::from(!others.is_empty());
            self.searched += others.len() as u64;
            let fit: Vec<Candidate> = others
                .into_iter()
                .filter(|candidate| self.fits(ground, candidate))
                .collect();
            let results = threads::each(
                &fit,
                Some(at_once),
                || (),
                |(), candidate| ground.simulate(candidate, (each, machines)),
            );
            for (candidate, result) in fit.iter().zip(results) {
                self.add(ground, candidate, result);
            }
        }
        Ok(())
    }

    /// Whether a layout fits; one that does not is noted.
    fn fits(&mut self, ground: &Ground, candidate: &Candidate) -> bool {
        if let Some(lacks) = candidate.lacks {
            *self.counts.entry(lacks).or_default() += 1;
            self.rejected.push(ground.rejected(candidate, lacks));
        }
        candidate.lacks.is_none()
    }

    /// All layouts that divide and fit, by their bounds; the others are noted.
    fn candidates(
        &mut self,
        ground: &Ground,
        collectives: &CollectiveBounds<'_>,
        budget: &Budget,
    ) -> Result<Vec<Candidate>, ScenarioError> {
        let size = ground.space.size();
        let counting = budget.work.part("layouts bounded", size);
        let mut candidates = Vec::new();
        for from in (0..size).step_by(AT_ONCE as usize) {
            let places: Vec<u64> = (from..size.min(from + AT_ONCE)).collect();
            let looked = threads::each(
                &places,
                Some(budget.threads),
                || (),
                |(), &place| {
                    counting.add(1);
                    ground.candidate(place, collectives)
                },
            );
            for found in looked {
                match found? {
                    Err(reason) => *self.counts.entry(reason).or_default() += 1,
                    Ok(candidate) if self.fits(ground, &candidate) => candidates.push(candidate),
                    Ok(_) => {}
                }
            }
        }
        candidates.sort_by_key(|candidate| candidate.bound);
        Ok(candidates)
    }

    fn add(
        &mut self,
        ground: &Ground,
        candidate: &Candidate,
        result: Result<(Value, Summary), ScenarioError>,
    ) {
        let ran = result.ok().and_then(|(scenario, summary)| {
            let variant = summary.variants.first()?;
            let time = variant.metrics.time_us?;
            let choice = Choice {
                topology: ground.site.topology.name.clone(),
                nodes: variant.nodes,
                gpus: variant.gpus,
                oversubscription: ground.oversubscription,
                layout: layout_of(&candidate.job, &ground.job, ground.gpus()),
                metrics: variant.metrics.clone(),
                step_bound_us: candidate.bound.micros(),
                tied: false,
                scenario,
            };
            Some((choice, time, summary))
        });
        match ran {
            Some((choice, time, summary)) => {
                self.tightest = self.tightest.max(candidate.bound.micros() / time);
                self.simulated.push(choice);
                self.summaries.push(summary);
                self.jobs.push(candidate.job.clone());
            }
            None => {
                *self.counts.entry(Reason::Refused).or_default() += 1;
                self.rejected
                    .push(ground.rejected(candidate, Reason::Refused));
            }
        }
    }

    /// The time of the last of those that are to be found; without so many, none is too slow.
    fn kth_best(&self, top: usize) -> Time {
        let times = self.simulated.iter().filter_map(|c| c.metrics.time_us);
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times
            .get(top.max(1) - 1)
            .map_or(Time::MAX, |us| Time::from_picos((us * 1e6) as u64))
    }

    /// Those that were simulated, the best first, and of equals the fastest.
    fn order(&self, objective: &str) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.simulated.len()).collect();
        let time = |choice: &Choice| choice.metrics.time_us.unwrap_or(f64::INFINITY);
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.simulated[a], &self.simulated[b]);
            let worth = |choice: &Choice| choice.metrics.worth(objective);
            let objective = match follows_time(objective) {
                true => Ordering::Equal,
                false => worth(b).total_cmp(&worth(a)),
            };
            objective.then(time(a).total_cmp(&time(b)))
        });
        order
    }

    /// The best by what is asked, and the summary of the first.
    pub(super) fn best(&self, ask: Ask<'_>) -> (Vec<Choice>, Option<Summary>) {
        let order = self.order(ask.objective);
        let best = order
            .iter()
            .take(ask.top)
            .map(|&i| self.simulated[i].clone());
        let summary = order.first().map(|&first| self.summaries[first].clone());
        (best.collect(), summary)
    }

    /// Why nothing of it can be run: what stops the layouts that come furthest.
    pub(super) fn reason(&self) -> Option<Reason> {
        let furthest = [Reason::Refused, Reason::HostMemory, Reason::Memory];
        let mut furthest = furthest.into_iter();
        let stops = |reason: &Reason| self.counts.contains_key(reason);
        let most = self.counts.iter().max_by_key(|(_, count)| **count);
        furthest.find(stops).or(most.map(|(reason, _)| *reason))
    }
}

/// Whether on the same GPUs the fastest layout is the best by this metric, too: it follows from the step's time, or is
/// the same for all of them. By others, everything that fits is simulated.
fn follows_time(objective: &str) -> bool {
    const FOLLOW: [&str; 9] = [
        "time_us",
        "tokens_per_s",
        "tokens_per_s_per_gpu",
        "mfu",
        "usd_per_step",
        "usd_per_mtok",
        "usd_per_gpu_hour",
        "memory_capacity_gib",
        "kw",
    ];
    FOLLOW.contains(&objective)
}

/// A bound that has been seen above what was simulated counts for less.
fn loosened(bound: Time, tightest: f64) -> Time {
    match tightest > 1.0 {
        true => Time::from_picos((bound.picos() as f64 / tightest) as u64),
        false => bound,
    }
}
