//! Searches one cluster after the other, and compares what was found.

use super::ask::{Ask, Progress, Size};
use super::budget::sizes;
use super::front::{more_memory, pareto, prices};
use super::ground::{Ground, Searched};
use super::ledger::Ledger;
use super::room::headroom;
use super::standalone::standalone;
use crate::error::ScenarioError;
use crate::read::Scenario;
use crate::refusal::{fault, refusal};
use crate::site::Machines;
use crate::spec::{JobSpec, TopologyRef};
use fabricsim_budget::Budget;
use fabricsim_report::Summary;
use fabricsim_report::optimize::{Choice, Cluster, Flip, Headroom, Optimized};
use fabricsim_units::Time;
use std::path::Path;

/// Searches the layouts of a scenario's training job; with the summary of the best one.
///
/// # Errors
/// A scenario that trains nothing, machines that are none, GPUs that fill no nodes, an objective that
/// no result has, a budget for what is not known of a machine.
pub fn optimize(
    (scenario, folder): (&Scenario, &Path),
    ask: Ask<'_>,
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<(Optimized, Option<Summary>), ScenarioError> {
    let origin = scenario.origin.as_str();
    let searched = training_of((scenario, folder))?;
    let title = format!("layouts of {}{}", scenario.spec.name, on(ask.sizes));
    let budget = ask.limits.iter().map(|limit| {
        let (name, value) = limit.named();
        (name.to_owned(), value)
    });
    let mut search = Search {
        found: Optimized {
            budget: budget.collect(),
            flash_version: searched.job.flash_version,
            ..Optimized::new(title, ask.objective)
        },
        all: Vec::new(),
        clusters: Vec::new(),
    };
    let mut places = Vec::new();
    for machine in ask.machines {
        for ratio in ratios(ask.oversubscription) {
            let sizes = sizes_of(searched, (machine, ratio), ask, how.1)?;
            places.extend(sizes.into_iter().map(|size| (machine, size, ratio)));
        }
    }
    let counting = how
        .0
        .work
        .part("numbers of GPUs searched", places.len() as u64);
    for place in places {
        let ground = Ground::new(searched, place, ask, how.1)?;
        search.add(ground, ask, how, progress)?;
        counting.add(1);
    }
    drop(counting);
    search.settled(ask, (origin, folder))
}

/// The training job of a scenario.
///
/// # Errors
/// A scenario that trains nothing.
pub(super) fn training_of<'a>(
    (scenario, folder): (&'a Scenario, &'a Path),
) -> Result<Searched<'a>, ScenarioError> {
    let JobSpec::Training(job) = &scenario.spec.job else {
        let found = format!("a job of the kind `{}`", scenario.spec.job.kind());
        let wrong = fault(
            "job",
            found,
            "`training`: layouts are those of training jobs",
        );
        return Err(refusal(&scenario.origin, vec![wrong]));
    };
    Ok(Searched {
        scenario,
        job,
        folder,
    })
}

/// ` on 64, 128 or 256 GPUs`.
fn on(sizes: &[Size]) -> String {
    let unit = match sizes.first() {
        None => return String::new(),
        Some(Size::Gpus(_)) => "GPUs",
        Some(Size::Nodes(_)) => "nodes",
    };
    let counts = sizes.iter().map(|size| size.count().to_string());
    let counts: Vec<String> = counts.collect();
    let listed = match counts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => counts.concat(),
    };
    format!(" on {listed} {unit}")
}

/// Networks of each machine: none is the one that its file has.
pub(super) fn ratios(asked: &[f64]) -> Vec<Option<f64>> {
    match asked {
        [] => vec![None],
        ratios => ratios.iter().copied().map(Some).collect(),
    }
}

fn sizes_of(
    searched: Searched<'_>,
    place: (&TopologyRef, Option<f64>),
    ask: Ask<'_>,
    machines: &Machines,
) -> Result<Vec<Size>, ScenarioError> {
    match ask.sizes {
        [] => sizes(searched, place, ask, machines),
        asked => Ok(asked.to_vec()),
    }
}

/// What was found on one cluster.
struct Found {
    best: Vec<Choice>,
    summary: Option<Summary>,
    cluster: Cluster,
    flip: Option<Flip>,
    room: Option<Headroom>,
}

/// What became of a cluster's layouts; where nothing fits, also with states in the hosts' memory. With a limit, of as
/// many as it takes to know whether one step is as short.
pub(super) fn explored(
    ground: &mut Ground,
    what: (Ask<'_>, Option<Time>),
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<Ledger, ScenarioError> {
    let ledger = Ledger::of(ground, what, how, progress)?;
    let offloaded = ground.space.offloaded(&ground.job);
    match offloaded.filter(|_| ledger.lacks_memory()) {
        None => Ok(ledger),
        Some(space) => {
            ground.space = space;
            Ok(ledger.then(Ledger::of(ground, what, how, progress)?))
        }
    }
}

/// Puts down what was searched and left out of a cluster.
pub(super) fn note(found: &mut Optimized, ledger: &Ledger) {
    for (reason, count) in &ledger.counts {
        found.prune(*reason, *count);
    }
    found.searched += ledger.searched;
    found.simulated += ledger.simulated.len() as u64;
    found.bucketed += ledger.bucketed;
    found.rejected.extend(ledger.rejected.iter().cloned());
    if ledger.tightest > 0.0 {
        let tightest = found.tightest_bound.unwrap_or(0.0);
        found.tightest_bound = Some(tightest.max(ledger.tightest));
    }
}

struct Search {
    found: Optimized,
    all: Vec<Choice>,
    clusters: Vec<Found>,
}

impl Search {
    fn add(
        &mut self,
        mut ground: Ground,
        ask: Ask<'_>,
        how: (&Budget, &Machines),
        progress: &dyn Fn(Progress<'_>),
    ) -> Result<(), ScenarioError> {
        let mut cluster = ground.cluster(ask)?;
        let ledger = match cluster.why {
            Some(why) => Ledger::without(&ground, why),
            None => explored(&mut ground, (ask, None), how, progress)?,
        };
        note(&mut self.found, &ledger);
        let (best, summary) = ledger.best(ask);
        let (mut flip, mut room) = (None, None);
        match best.first() {
            None => {
                cluster.why = cluster.why.or_else(|| ledger.reason());
                self.found.miss(&cluster);
            }
            Some(first) => {
                cluster.layout = Some(first.layout.clone());
                cluster.metrics = Some(first.metrics.clone());
                flip = more_memory(first, &ledger);
                room = headroom(&ground, first)?;
            }
        }
        self.all.extend(ledger.simulated);
        self.clusters.push(Found {
            best,
            summary,
            cluster,
            flip,
            room,
        });
        Ok(())
    }

    /// Everything in its order, with the summary of the best.
    fn settled(
        self,
        ask: Ask<'_>,
        (origin, folder): (&str, &Path),
    ) -> Result<(Optimized, Option<Summary>), ScenarioError> {
        let Search {
            mut found,
            all,
            mut clusters,
        } = self;
        let has = |choice: &Choice| choice.metrics.number(ask.objective).is_some();
        if !all.is_empty() && !all.iter().any(has) {
            let found = format!("`{}`, which no result has", ask.objective);
            let expected =
                "another metric; for money a price (dollars_per_gpu_hour of the scenario)";
            return Err(refusal(origin, vec![fault("--objective", found, expected)]));
        }
        found.clusters = clusters.iter().map(|c| c.cluster.clone()).collect();
        // A machine as it is, without a budget, has nothing to be compared with itself; one of several of which
        // nothing is found is told of.
        let each_is_told = clusters.len() == 1 || clusters.iter().all(|c| !c.best.is_empty());
        if clusters.len() == ask.machines.len() && ask.limits.is_empty() && each_is_told {
            found.clusters.clear();
        }
        clusters.sort_by(|a, b| by_objective(a.best.first(), b.best.first(), ask.objective));
        found.pareto = pareto(&all);
        found.all = all;
        found.pruned.sort_by_key(|pruned| pruned.by);
        let mut named: Vec<&str> = Vec::new();
        for cluster in &clusters {
            let machine = cluster.cluster.topology.as_str();
            if !named.contains(&machine) {
                named.push(machine);
                found.flips.extend(cluster.flip.clone());
            }
        }
        let firsts: Vec<&Choice> = clusters.iter().filter_map(|c| c.best.first()).collect();
        found.flips.extend(prices(&firsts));
        let mut summary = None;
        for (index, cluster) in clusters.into_iter().enumerate() {
            if index == 0 {
                (summary, found.headroom) = (cluster.summary, cluster.room);
            }
            found.best.extend(cluster.best);
        }
        for choice in &mut found.best {
            choice.scenario = standalone(choice.scenario.take(), folder)?;
        }
        found.keep_telling();
        found.settle(None);
        Ok((found, summary))
    }
}

fn by_objective(a: Option<&Choice>, b: Option<&Choice>, objective: &str) -> std::cmp::Ordering {
    let worth = |choice: Option<&Choice>| {
        choice.map_or(f64::NEG_INFINITY, |choice| choice.metrics.worth(objective))
    };
    worth(b).total_cmp(&worth(a))
}
