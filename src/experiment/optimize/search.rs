//! Searches one cluster after the other, and compares what was found.

use super::ask::{Ask, Progress, Size};
use super::budget::sizes;
use super::front::{more_memory, pareto, prices};
use super::ground::{Ground, Searched};
use super::ledger::Ledger;
use super::room::headroom;
use crate::error::ScenarioError;
use crate::read::Scenario;
use crate::refusal::{fault, refusal};
use crate::site::Machines;
use crate::spec::{JobSpec, TopologyRef};
use fabricsim_budget::Budget;
use fabricsim_report::optimize::{Choice, Cluster, Flip, Headroom, Optimized};
use fabricsim_report::{Summary, is_less_better};
use std::path::Path;

/// So many that were left out are named.
const MAX_REJECTED: usize = 20;

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
    let JobSpec::Training(job) = &scenario.spec.job else {
        let found = format!("a job of the kind `{}`", scenario.spec.job.kind());
        let wrong = fault(
            "job",
            found,
            "`training`: layouts are those of training jobs",
        );
        return Err(refusal(origin, vec![wrong]));
    };
    let searched = Searched {
        scenario,
        job,
        folder,
    };
    let title = format!("layouts of {}{}", scenario.spec.name, on(ask.sizes));
    let budget = ask.limits.iter().map(|limit| {
        let (name, value) = limit.named();
        (name.to_owned(), value)
    });
    let mut search = Search {
        found: Optimized {
            budget: budget.collect(),
            ..Optimized::new(title, ask.objective)
        },
        all: Vec::new(),
        clusters: Vec::new(),
    };
    for machine in ask.machines {
        for ratio in ratios(ask.oversubscription) {
            for size in sizes_of(searched, (machine, ratio), ask, how.1)? {
                let place = (machine, size, ratio);
                let ground = Ground::new(searched, place, ask, how.1)?;
                search.add(ground, ask, how, progress)?;
            }
        }
    }
    search.settled(ask, origin)
}

/// ` on 64, 128 or 256 GPUs`.
fn on(sizes: &[Size]) -> String {
    let unit = match sizes.first() {
        None => return String::new(),
        Some(Size::Gpus(_)) => "GPUs",
        Some(Size::Nodes(_)) => "nodes",
    };
    let counts = sizes.iter().map(|size| match size {
        Size::Gpus(count) | Size::Nodes(count) => count.to_string(),
    });
    let counts: Vec<String> = counts.collect();
    let listed = match counts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => counts.concat(),
    };
    format!(" on {listed} {unit}")
}

/// Networks of each machine: none is the one that its file has.
fn ratios(asked: &[f64]) -> Vec<Option<f64>> {
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
        let mut ledger = match cluster.why {
            Some(why) => Ledger::without(&ground, why),
            None => Ledger::of(&ground, ask, how, progress)?,
        };
        // What fits nowhere else may fit with states in the host's memory.
        let offloaded = ground.space.offloaded(&ground.job);
        if let Some(space) = offloaded.filter(|_| ledger.lacks_memory()) {
            ground.space = space;
            ledger = ledger.then(Ledger::of(&ground, ask, how, progress)?);
        }
        let found = &mut self.found;
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
        let (best, summary) = ledger.best(ask.top);
        let (mut flip, mut room) = (None, None);
        match best.first() {
            None => cluster.why = cluster.why.or_else(|| ledger.reason()),
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
        origin: &str,
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
        // A machine as it is, without a budget, has nothing to be compared with itself.
        if found.clusters.len() == ask.machines.len() && ask.limits.is_empty() {
            found.clusters.clear();
        }
        clusters.sort_by(|a, b| by_objective(a.best.first(), b.best.first(), ask.objective));
        found.pareto = pareto(&all);
        found.all = all;
        found.pruned.sort_by_key(|pruned| pruned.by);
        found.rejected.sort_by(|a, b| {
            let bound = |us: Option<f64>| us.unwrap_or(f64::INFINITY);
            bound(a.step_bound_us).total_cmp(&bound(b.step_bound_us))
        });
        found.rejected.truncate(MAX_REJECTED);
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
        found.settle(None);
        Ok((found, summary))
    }
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
