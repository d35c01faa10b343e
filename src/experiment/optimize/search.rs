//! Best-first search with a bound.

use super::room::headroom;
use super::space::{Space, layout_of, scenario_with};
use crate::compare::{filling, nvlink_domain};
use crate::error::ScenarioError;
use crate::read::{Scenario, changed};
use crate::refusal::{fault, refusal};
use crate::run::run;
use crate::site::{At, Machines, Site, environment};
use crate::spec::{JobSpec, TopologyRef};
use crate::sweep::AxisSpec;
use crate::training::memory;
use crate::valid::validate_on;
use crate::watch::Silent;
use fabricsim_budget::{Budget, threads};
use fabricsim_collective::Collective;
use fabricsim_plan::{Cuts, Operation};
use fabricsim_report::optimize::{Choice, Flip, Headroom, Optimized, Pruned, Reason, Rejected};
use fabricsim_report::training::MemoryUse;
use fabricsim_report::{Outputs, Summary, is_less_better};
use fabricsim_topology::DeviceId;
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::model::presets;
use fabricsim_workload::training::bound::step_bound;
use fabricsim_workload::training::resolve::{Training, TrainingError};
use fabricsim_workload::training::spec::{ModelRef, TrainingSpec};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// On these machines.
    pub machines: &'a [TopologyRef],
    /// On so many GPUs of each.
    pub gpus: u32,
    /// By this metric.
    pub objective: &'a str,
    /// So many of each machine.
    pub top: usize,
    /// Values of knobs, in place of those that are searched by default.
    pub over: &'a [AxisSpec],
    /// Everything that fits is simulated: to check the bounds.
    pub exhaustive: bool,
}

/// How far a search is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The machine that is searched.
    pub machine: &'a str,
    /// Layouts that were simulated on it.
    pub simulated: u64,
    /// Layouts that may still be.
    pub left: u64,
}

/// A layout that fits, or not, before it is simulated.
struct Candidate {
    job: TrainingSpec,
    bound: Time,
    memory: MemoryUse,
}

/// What became of the layouts of one machine.
#[derive(Default)]
struct Ledger {
    counts: BTreeMap<Reason, u64>,
    rejected: Vec<Rejected>,
    simulated: Vec<Choice>,
    summaries: Vec<Summary>,
    tightest: f64,
    searched: u64,
}

/// Searches the layouts of a scenario's training job; with the summary of the best one.
///
/// # Errors
/// A scenario that trains nothing, machines that are none, GPUs that fill no nodes, an objective that
/// no result has.
pub fn optimize(
    (scenario, folder): (&Scenario, &Path),
    ask: Ask<'_>,
    (budget, machines): (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<(Optimized, Option<Summary>), ScenarioError> {
    let origin = scenario.origin.as_str();
    let JobSpec::Training(job) = &scenario.spec.job else {
        let found = format!("a job of the kind `{}`", scenario.spec.job.kind());
        let wrong = fault(
            "job",
            found,
            "`training`: layouts are those of training jobs",
        );
        return Err(refusal(origin, vec![wrong]));
    };
    let title = format!("layouts of {} on {} GPUs", scenario.spec.name, ask.gpus);
    let mut found = Optimized::new(title, ask.objective);
    let mut counts: BTreeMap<Reason, u64> = BTreeMap::new();
    let mut all: Vec<Choice> = Vec::new();
    let mut best_of: Vec<(Vec<Choice>, Option<Summary>, Option<Headroom>)> = Vec::new();
    for machine in ask.machines {
        let ground = Ground::new((scenario, job, folder), machine, ask, machines)?;
        let ledger = ground.search(ask, (budget, machines), progress)?;
        for (reason, count) in &ledger.counts {
            *counts.entry(*reason).or_default() += count;
        }
        found.searched += ledger.searched;
        found.simulated += ledger.simulated.len() as u64;
        found.rejected.extend(ledger.rejected.iter().cloned());
        if ledger.tightest > 0.0 {
            let tightest = found.tightest_bound.unwrap_or(0.0);
            found.tightest_bound = Some(tightest.max(ledger.tightest));
        }
        let (best, summary) = best_choices(&ledger, ask.top);
        found
            .flips
            .extend(best.first().and_then(|best| more_memory(best, &ledger)));
        let room = match best.first() {
            Some(best) => headroom(&ground, best)?,
            None => None,
        };
        all.extend(ledger.simulated);
        best_of.push((best, summary, room));
    }
    if !all.is_empty()
        && all
            .iter()
            .all(|c| c.metrics.number(ask.objective).is_none())
    {
        let found = format!("`{}`, which no result has", ask.objective);
        let expected = "another metric; for money a price (dollars_per_gpu_hour of the scenario)";
        return Err(refusal(origin, vec![fault("--objective", found, expected)]));
    }
    best_of.sort_by(|(a, _, _), (b, _, _)| by_objective(a.first(), b.first(), ask.objective));
    found.pareto = pareto(&all);
    found.pruned = counts
        .into_iter()
        .map(|(by, count)| Pruned { by, count })
        .collect();
    let bound = |rejected: &Rejected| rejected.step_bound_us.unwrap_or(f64::INFINITY);
    found.rejected.sort_by(|a, b| bound(a).total_cmp(&bound(b)));
    found.rejected.truncate(MAX_REJECTED);
    found.flips.extend(prices(
        &best_of.iter().map(|(best, _, _)| best).collect::<Vec<_>>(),
    ));
    let mut summary = None;
    for (index, (best, own, room)) in best_of.into_iter().enumerate() {
        if index == 0 {
            (summary, found.headroom) = (own, room);
        }
        found.best.extend(best);
    }
    found.settle(None);
    Ok((found, summary))
}

/// So many that were left out are named.
const MAX_REJECTED: usize = 20;

/// A machine with the GPUs of a search.
pub(super) struct Ground {
    /// The scenario on this machine.
    scenario: Value,
    origin: String,
    folder: std::path::PathBuf,
    pub(super) job: TrainingSpec,
    pub(super) site: Site,
    space: Space,
}

impl Ground {
    fn new(
        (scenario, job, folder): (&Scenario, &TrainingSpec, &Path),
        machine: &TopologyRef,
        ask: Ask<'_>,
        machines: &Machines,
    ) -> Result<Self, ScenarioError> {
        let origin = scenario.origin.clone();
        let mut json = scenario.json.clone();
        if let Value::Object(map) = &mut json {
            for field in ["variants", "baseline", "nodes", "gpus_per_node"] {
                map.remove(field);
            }
            map.insert("topology".into(), json!(machine));
        }
        let own = changed(&json, &origin, "optimize", &BTreeMap::new())?;
        let built = machines.of(&own.spec, folder, &origin)?;
        let (nodes, of_each) = filling(&built.topology, ask.gpus, &origin)?;
        let set = BTreeMap::from([
            ("nodes".to_owned(), json!(nodes)),
            ("gpus_per_node".to_owned(), json!(of_each)),
        ]);
        let own = changed(&own.json, &origin, "--gpus", &set)?;
        let mut faults = Vec::new();
        let mut env = environment(&own.spec, None, (folder, &origin), &mut faults)?;
        crate::refusal::refuse(&origin, faults)?;
        env.ranks_per_process = own.spec.ranks_per_process.unwrap_or(1);
        let at = At {
            folder,
            origin: &origin,
            machines,
        };
        let site = at.machines.of(&own.spec, folder, &origin)?;
        let site = site.with(&own.spec, env, &origin)?;
        let model = match &job.model {
            ModelRef::Preset(name) => {
                let preset = presets::find(name).map_err(TrainingError::Model)?;
                preset.model.clone()
            }
            ModelRef::Shape(shape) => shape.as_ref().clone(),
        };
        let sequence = job.sequence.unwrap_or(model.sequence);
        let joined = nvlink_domain(&site.topology).unwrap_or(1);
        let mut space = Space::of(&model, sequence, (ask.gpus, joined));
        for axis in ask.over {
            space
                .restrict(axis)
                .map_err(|fault| refusal(&origin, vec![fault]))?;
        }
        Ok(Ground {
            scenario: own.json,
            origin,
            folder: folder.to_owned(),
            job: job.clone(),
            site,
            space,
        })
    }

    fn gpus(&self) -> u32 {
        self.site.gpus.len() as u32
    }

    /// The memory of a job on these GPUs.
    pub(super) fn memory(&self, training: &Training) -> Result<MemoryUse, ScenarioError> {
        memory(
            training,
            &self.site.topology,
            &self.site.gpus,
            &self.site.env,
        )
    }

    fn search(
        &self,
        ask: Ask<'_>,
        (budget, machines): (&Budget, &Machines),
        progress: &dyn Fn(Progress<'_>),
    ) -> Result<Ledger, ScenarioError> {
        let mut ledger = Ledger {
            searched: self.space.size(),
            ..Ledger::default()
        };
        let mut candidates = self.candidates(budget, &mut ledger)?.into_iter();
        let each = Budget {
            threads: 1,
            ..budget.clone()
        };
        let at_once = budget.threads.max(1);
        loop {
            let limit = match ask.exhaustive {
                true => Time::MAX,
                false => kth_best(&ledger, ask.top),
            };
            let left = candidates.len() as u64;
            let next: Vec<Candidate> = candidates
                .by_ref()
                .take(at_once)
                .take_while(|candidate| loosened(candidate.bound, ledger.tightest) <= limit)
                .collect();
            if next.is_empty() {
                *ledger.counts.entry(Reason::Bound).or_default() += left;
                break;
            }
            let taken = next.len() as u64;
            let results = threads::each(
                &next,
                Some(at_once),
                || (),
                |(), candidate| self.simulate(candidate, (&each, machines)),
            );
            // One that was looked at and is slower ends the search.
            let over = taken < (at_once as u64).min(left);
            for (candidate, result) in next.iter().zip(results) {
                ledger.add(candidate, result, (&self.site.topology.name, self.gpus()));
            }
            progress(Progress {
                machine: &self.site.topology.name,
                simulated: ledger.simulated.len() as u64,
                left: candidates.len() as u64,
            });
            if over {
                *ledger.counts.entry(Reason::Bound).or_default() += left - taken;
                break;
            }
        }
        Ok(ledger)
    }

    /// All layouts that divide and fit, by their bounds; the others go to the ledger.
    fn candidates(
        &self,
        budget: &Budget,
        ledger: &mut Ledger,
    ) -> Result<Vec<Candidate>, ScenarioError> {
        let collectives = CollectiveBounds::new(self);
        let places: Vec<u64> = (0..self.space.size()).collect();
        let looked = threads::each(
            &places,
            Some(budget.threads),
            || (),
            |(), &place| self.candidate(place, &collectives),
        );
        let mut candidates = Vec::new();
        for found in looked {
            match found? {
                Err(reason) => *ledger.counts.entry(reason).or_default() += 1,
                Ok(candidate) if candidate.memory.fits => candidates.push(candidate),
                Ok(candidate) => {
                    *ledger.counts.entry(Reason::Memory).or_default() += 1;
                    let gib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 30);
                    ledger.rejected.push(Rejected {
                        topology: self.site.topology.name.clone(),
                        layout: layout_of(&candidate.job, self.gpus()),
                        why: Reason::Memory,
                        memory_gib: Some(gib(candidate.memory.total)),
                        memory_capacity_gib: Some(gib(candidate.memory.capacity)),
                        step_bound_us: Some(candidate.bound.micros()),
                    });
                }
            }
        }
        candidates.sort_by_key(|candidate| candidate.bound);
        Ok(candidates)
    }

    fn candidate(
        &self,
        place: u64,
        collectives: &CollectiveBounds<'_>,
    ) -> Result<Result<Candidate, Reason>, ScenarioError> {
        let job = match self.space.job(&self.job, place) {
            Ok(job) => job,
            Err(reason) => return Ok(Err(reason)),
        };
        let Ok(training) = Training::new(&job, self.gpus()) else {
            return Ok(Err(Reason::Division));
        };
        let memory = self.memory(&training)?;
        let of = |group: &[DeviceId], collective, bytes| collectives.of(group, collective, bytes);
        let bound = step_bound(&training, (&self.site.topology, &self.site.gpus), &of)?;
        Ok(Ok(Candidate { job, bound, memory }))
    }

    fn simulate(
        &self,
        candidate: &Candidate,
        (budget, machines): (&Budget, &Machines),
    ) -> Result<(Value, Summary), ScenarioError> {
        let json = scenario_with(&self.scenario, &candidate.job);
        let scenario = changed(&json, &self.origin, "layout", &BTreeMap::new())?;
        let experiment = validate_on(machines, scenario, &self.folder)?;
        let results = run(&experiment, budget, &Outputs::of([]), &mut Silent)?;
        Ok((json, results.summary))
    }
}

impl Ledger {
    fn add(
        &mut self,
        candidate: &Candidate,
        result: Result<(Value, Summary), ScenarioError>,
        (topology, gpus): (&str, u32),
    ) {
        let layout = layout_of(&candidate.job, gpus);
        let ran = result.ok().and_then(|(scenario, summary)| {
            let variant = summary.variants.first()?;
            let time = variant.metrics.time_us?;
            let choice = Choice {
                topology: topology.to_owned(),
                nodes: variant.nodes,
                gpus: variant.gpus,
                layout: layout.clone(),
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
            }
            None => {
                *self.counts.entry(Reason::Refused).or_default() += 1;
                self.rejected.push(Rejected {
                    topology: topology.to_owned(),
                    layout,
                    why: Reason::Refused,
                    memory_gib: None,
                    memory_capacity_gib: None,
                    step_bound_us: Some(candidate.bound.micros()),
                });
            }
        }
    }
}

/// A bound that has been seen above what was simulated counts for less.
fn loosened(bound: Time, tightest: f64) -> Time {
    match tightest > 1.0 {
        true => Time::from_picos((bound.picos() as f64 / tightest) as u64),
        false => bound,
    }
}

/// The time of the last of those that are to be found; without so many, none is too slow.
fn kth_best(ledger: &Ledger, top: usize) -> Time {
    let times = ledger.simulated.iter().filter_map(|c| c.metrics.time_us);
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times
        .get(top.max(1) - 1)
        .map_or(Time::MAX, |us| Time::from_picos((us * 1e6) as u64))
}

fn by_objective(a: Option<&Choice>, b: Option<&Choice>, objective: &str) -> std::cmp::Ordering {
    let value = |choice: Option<&Choice>| choice.and_then(|c| c.metrics.number(objective));
    let worst = f64::NEG_INFINITY;
    let goodness = |choice| {
        let value = value(choice);
        value.map_or(worst, |v| if is_less_better(objective) { -v } else { v })
    };
    goodness(b).total_cmp(&goodness(a))
}

/// The fastest of a machine, and the summary of the first.
fn best_choices(ledger: &Ledger, top: usize) -> (Vec<Choice>, Option<Summary>) {
    let mut order: Vec<usize> = (0..ledger.simulated.len()).collect();
    let time = |&index: &usize| {
        ledger.simulated[index]
            .metrics
            .time_us
            .unwrap_or(f64::INFINITY)
    };
    order.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let best = order.iter().take(top).map(|&i| ledger.simulated[i].clone());
    let summary = order.first().map(|&first| ledger.summaries[first].clone());
    (best.collect(), summary)
}

/// The layout that lacks least memory of those that may be faster than the best.
fn more_memory(best: &Choice, ledger: &Ledger) -> Option<Flip> {
    let best_us = best.metrics.time_us?;
    let lacks = |r: &Rejected| Some(r.memory_gib? - r.memory_capacity_gib?);
    let faster = ledger.rejected.iter().filter(|rejected| {
        rejected.why == Reason::Memory && rejected.step_bound_us.is_some_and(|us| us < best_us)
    });
    let least = faster.min_by(|a, b| {
        let lack = |r| lacks(r).unwrap_or(f64::INFINITY);
        lack(a).total_cmp(&lack(b))
    })?;
    Some(Flip::Memory {
        topology: least.topology.clone(),
        layout: least.layout.clone(),
        lacks_gib: lacks(least)?,
        step_bound_us: least.step_bound_us?,
        best_us,
    })
}

/// What a GPU-hour may cost on the other machines.
fn prices(best: &[&Vec<Choice>]) -> Vec<Flip> {
    let rate = |choice: &Choice| choice.metrics.tokens_per_s_per_gpu;
    let mut machines = best.iter().filter_map(|choices| choices.first());
    let Some(first) = machines.next() else {
        return Vec::new();
    };
    let others = machines.filter_map(|other| {
        Some(Flip::Price {
            than: first.topology.clone(),
            topology: other.topology.clone(),
            ratio: rate(other)? / rate(first)?,
        })
    });
    others.collect()
}

/// Those that no other one beats in everything at once.
fn pareto(all: &[Choice]) -> Vec<Choice> {
    const ALL: [&str; 4] = ["tokens_per_s_per_gpu", "usd_per_mtok", "memory_gib", "kw"];
    let beats = |a: &Choice, b: &Choice| {
        let mut better = false;
        for name in ALL {
            let (Some(x), Some(y)) = (a.metrics.number(name), b.metrics.number(name)) else {
                continue;
            };
            let (x, y) = if is_less_better(name) {
                (-x, -y)
            } else {
                (x, y)
            };
            if x < y {
                return false;
            }
            better |= x > y;
        }
        better
    };
    let front = all.iter().filter(|b| !all.iter().any(|a| beats(a, b)));
    let mut front: Vec<Choice> = front.cloned().collect();
    let rate = |choice: &Choice| choice.metrics.tokens_per_s_per_gpu.unwrap_or(0.0);
    front.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    front.dedup_by(|a, b| a.topology == b.topology && a.layout == b.layout);
    front
}

/// What no collective between GPUs of a machine can beat; cuts are found once for each group.
struct CollectiveBounds<'g> {
    ground: &'g Ground,
    cuts: Mutex<HashMap<Vec<DeviceId>, Arc<Cuts>>>,
}

impl<'g> CollectiveBounds<'g> {
    fn new(ground: &'g Ground) -> Self {
        CollectiveBounds {
            ground,
            cuts: Mutex::new(HashMap::new()),
        }
    }

    fn of(&self, group: &[DeviceId], collective: Collective, bytes: Bytes) -> Time {
        let cuts = {
            let mut known = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
            let site = &self.ground.site;
            let new = || Arc::new(Cuts::of(&site.topology, group, site.env.shm_disable));
            Arc::clone(known.entry(group.to_vec()).or_insert_with(new))
        };
        let operation = Operation {
            collective,
            bytes: bytes.get(),
            matrix: None,
        };
        let bounds = cuts.bounds(operation);
        bounds.in_switches.map_or(Time::ZERO, |cut| cut.time())
    }
}
