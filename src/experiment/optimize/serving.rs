//! Searches ways to serve: engines that do both, or engines for prompts and engines that generate, of every size.
//!
//! Everything that fits is simulated: a run of a few hundred requests takes less than a bound on it would be worth.

use super::ask::{Progress, Size};
use super::ground::sized;
use crate::compare::nvlink_domain;
use crate::error::ScenarioError;
use crate::read::{Scenario, changed};
use crate::refusal::{fault, refusal};
use crate::run::run;
use crate::site::Machines;
use crate::spec::{JobSpec, TopologyRef};
use crate::sweep::with_values;
use crate::valid::validate_on;
use crate::watch::Silent;
use fabricsim_budget::{Budget, threads};
use fabricsim_report::optimize::{
    Reason, ServingChoice, ServingLayout, ServingRejected, ServingSearch,
};
use fabricsim_report::serving::Verdict;
use fabricsim_report::{Outputs, Variant, is_less_better};
use fabricsim_workload::model::{ModelSpec, presets};
use fabricsim_workload::serving::spec::ServingSpec;
use fabricsim_workload::training::resolve::TrainingError;
use fabricsim_workload::training::spec::ModelRef;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct ServingAsk<'a> {
    /// On these machines.
    pub machines: &'a [TopologyRef],
    /// On so many GPUs of each.
    pub sizes: &'a [Size],
    /// By this metric.
    pub objective: &'a str,
    /// The part of requests that has to meet the SLO, if there is one.
    pub slo_share: f64,
    /// So many are shown.
    pub top: usize,
}

/// A way to serve, as it is to be simulated.
struct Candidate {
    layout: ServingLayout,
    scenario: Value,
}

/// Searches ways to serve a scenario's load. Of those that keep up and meet the SLO the best comes first: by fewest
/// GPUs where several numbers are given, then by the objective.
///
/// # Errors
/// A scenario that serves nothing, machines that are none, GPUs that fill no nodes.
pub fn optimize_serving(
    (scenario, folder): (&Scenario, &Path),
    ask: ServingAsk<'_>,
    (budget, machines): (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<ServingSearch, ScenarioError> {
    let origin = scenario.origin.as_str();
    let JobSpec::Serving(job) = &scenario.spec.job else {
        let found = format!("a job of the kind `{}`", scenario.spec.job.kind());
        return Err(refusal(origin, vec![fault("job", found, "`serving`")]));
    };
    let model = model(job)?;
    let slo = job.slo.as_ref().map(|_| ask.slo_share);
    let title = format!("ways to serve {}", scenario.spec.name);
    let mut found = ServingSearch::new(title, ask.objective, slo);
    let mut all = Vec::new();
    for machine in ask.machines {
        for &size in ask.sizes {
            let (json, set) = sized(scenario, (machine, size));
            let json = with_values(&json, origin, &set, (folder, machines))?.json;
            let own = changed(&json, origin, "size", &BTreeMap::new())?;
            let site = machines.of(&own.spec, folder, origin)?;
            let each = own.spec.gpus_per_node.unwrap_or(u32::MAX);
            let gpus: u32 = (site.topology.nodes.iter())
                .map(|node| (node.gpus.len() as u32).min(each))
                .sum();
            let joined = nvlink_domain(&site.topology).unwrap_or(1);
            let candidates = candidates(&model, (gpus, joined), &json);
            found.searched += candidates.len() as u64;
            let each = Budget {
                threads: 1,
                ..budget.clone()
            };
            let results = threads::each(
                &candidates,
                Some(budget.threads.max(1)),
                || (),
                |(), candidate| simulate(candidate, (origin, folder), (&each, machines)),
            );
            for (candidate, result) in candidates.into_iter().zip(results) {
                match result {
                    Ok(ran) => {
                        found.simulated += 1;
                        let choice = choice(candidate, ran, slo);
                        if !choice.meets {
                            found.rejected.push(late(&choice));
                        }
                        all.push(choice);
                    }
                    Err(error) => {
                        found.prune(Reason::Refused, 1);
                        found.rejected.push(ServingRejected {
                            topology: site.topology.name.clone(),
                            gpus,
                            layout: candidate.layout,
                            why: first_fault(&error),
                        });
                    }
                }
            }
            progress(Progress {
                machine: &site.topology.name,
                gpus,
                simulated: found.simulated,
                left: 0,
            });
        }
    }
    order(&mut all, ask);
    found.pareto = pareto(&all);
    found.best = all.into_iter().filter(|c| c.meets).take(ask.top).collect();
    found.pareto.retain(|choice| !found.best.contains(choice));
    found.settle();
    Ok(found)
}

fn model(job: &ServingSpec) -> Result<ModelSpec, ScenarioError> {
    match &job.model {
        ModelRef::Preset(name) => {
            let preset = presets::find(name).map_err(TrainingError::Model)?;
            Ok(preset.model.clone())
        }
        ModelRef::Shape(shape) => Ok((**shape).clone()),
    }
}

/// All ways to use the GPUs: engines of every power of two that divides the model's heads, within an NVLink domain; of
/// models with experts also with attention that is data parallel over all GPUs of an engine.
fn candidates(model: &ModelSpec, (gpus, joined): (u32, u32), scenario: &Value) -> Vec<Candidate> {
    let mut found = Vec::new();
    let powers = (0..10).map(|power| 1u32 << power);
    let sizes = powers.take_while(|&size| size <= gpus);
    for size in sizes {
        let tensor = size <= joined && model.heads.is_multiple_of(u64::from(size));
        let mut divisions = Vec::new();
        if tensor {
            divisions.push((size, 1));
        }
        let experts = model
            .experts
            .as_ref()
            .is_some_and(|e| u64::from(size) <= e.count);
        if experts && size > 1 {
            divisions.push((1, size));
        }
        for (tp, attention_dp) in divisions {
            let engines = gpus / size;
            let mut add = |layout: ServingLayout| {
                let scenario = with_pools(scenario, &layout);
                found.push(Candidate { layout, scenario });
            };
            let layout = ServingLayout {
                prefill: 0,
                decode: 0,
                both: engines,
                tp,
                attention_dp,
            };
            add(layout.clone());
            for prefill in splits(engines) {
                add(ServingLayout {
                    prefill,
                    decode: engines - prefill,
                    both: 0,
                    ..layout.clone()
                });
            }
        }
    }
    found
}

/// Numbers of engines for prompts, of so many: all of a few, else about a sixth apart.
fn splits(engines: u32) -> Vec<u32> {
    let mut splits = Vec::new();
    let mut next = 1;
    while next < engines {
        splits.push(next);
        next += match engines {
            0..=8 => 1,
            _ => (engines / 8).max(1),
        };
    }
    splits
}

fn with_pools(scenario: &Value, layout: &ServingLayout) -> Value {
    let parallel = json!({ "tp": layout.tp, "attention_dp": layout.attention_dp });
    let pool = |role: &str, replicas: u32| json!({ "role": role, "replicas": replicas, "parallel": parallel });
    let pools = match layout.both {
        0 => json!([
            pool("prefill", layout.prefill),
            pool("decode", layout.decode)
        ]),
        both => json!([pool("both", both)]),
    };
    let mut scenario = scenario.clone();
    scenario["job"]["serving"]["pools"] = pools;
    scenario
}

fn simulate(
    candidate: &Candidate,
    (origin, folder): (&str, &Path),
    (budget, machines): (&Budget, &Machines),
) -> Result<Variant, ScenarioError> {
    let scenario = changed(&candidate.scenario, origin, "pools", &BTreeMap::new())?;
    let experiment = validate_on(machines, scenario, folder)?;
    let mut results = run(&experiment, budget, &Outputs::of([]), &mut Silent)?;
    results.summary.variants.pop().ok_or_else(|| {
        let wrong = fault("job", "nothing that runs".into(), "a serving job");
        refusal(origin, vec![wrong])
    })
}

fn choice(candidate: Candidate, ran: Variant, slo: Option<f64>) -> ServingChoice {
    let served = ran.job.serving();
    let verdict = served.and_then(|served| served.verdict);
    let share = ran.metrics.serving.slo_share;
    let failed = ran.job.failure().is_some();
    let keeps_up = !failed && verdict == Some(Verdict::Stable);
    let meets = keeps_up && slo.is_none_or(|needed| share.is_some_and(|share| share >= needed));
    ServingChoice {
        topology: ran.topology,
        nodes: ran.nodes,
        gpus: ran.gpus,
        layout: candidate.layout,
        metrics: ran.metrics,
        verdict,
        meets,
        scenario: candidate.scenario,
    }
}

/// One that does not keep up, or does not meet the SLO.
fn late(choice: &ServingChoice) -> ServingRejected {
    let why = match (choice.verdict, choice.metrics.serving.slo_share) {
        (Some(Verdict::Stable), Some(share)) => {
            format!("{:.0} % of requests meet the SLO", share * 100.0)
        }
        (Some(verdict), _) => format!("it does not keep up with the load ({})", verdict.name()),
        (None, _) => "it does not come to its end".to_owned(),
    };
    ServingRejected {
        topology: choice.topology.clone(),
        gpus: choice.gpus,
        layout: choice.layout.clone(),
        why,
    }
}

/// What is wrong first, of an error that may say several things.
fn first_fault(error: &ScenarioError) -> String {
    let text = error.to_string();
    let found = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("found:"));
    found.map_or_else(
        || text.lines().next().unwrap_or_default().to_owned(),
        |found| found.trim().to_owned(),
    )
}

/// Those that meet what is asked first; then by fewest GPUs, by the objective, by how many meet the SLO, by the median of
/// whole requests.
fn order(all: &mut [ServingChoice], ask: ServingAsk<'_>) {
    let worth = |choice: &ServingChoice| {
        let value = choice
            .metrics
            .number(ask.objective)
            .unwrap_or(f64::NEG_INFINITY);
        if is_less_better(ask.objective) {
            -value
        } else {
            value
        }
    };
    let several = ask.sizes.len() > 1;
    let share = |choice: &ServingChoice| choice.metrics.serving.slo_share.unwrap_or(0.0);
    let latency =
        |choice: &ServingChoice| choice.metrics.serving.e2e_ms_p50.unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| {
        let gpus = match several {
            true => a.gpus.cmp(&b.gpus),
            false => std::cmp::Ordering::Equal,
        };
        // A load that all serve is the same rate, but for how long the last ones take.
        let near = (worth(a) / worth(b) - 1.0).abs() < 0.01;
        let objective = match near {
            true => std::cmp::Ordering::Equal,
            false => worth(b).total_cmp(&worth(a)),
        };
        b.meets
            .cmp(&a.meets)
            .then(gpus)
            .then(objective)
            .then(share(b).total_cmp(&share(a)))
            .then(latency(a).total_cmp(&latency(b)))
    });
}

/// Those that keep up and that no other one beats in tokens per second for a user, and for a GPU, at once.
fn pareto(all: &[ServingChoice]) -> Vec<ServingChoice> {
    let of = |choice: &ServingChoice| {
        let serving = &choice.metrics.serving;
        let user = serving.output_tokens_per_s_per_user?;
        Some((user, serving.output_tokens_per_s_per_gpu?))
    };
    let stable = || all.iter().filter(|c| c.verdict == Some(Verdict::Stable));
    let beaten = |choice: &ServingChoice| {
        let Some((user, gpu)) = of(choice) else {
            return true;
        };
        stable().filter_map(of).any(|(other_user, other_gpu)| {
            other_user >= user && other_gpu >= gpu && (other_user > user || other_gpu > gpu)
        })
    };
    let mut front: Vec<ServingChoice> = stable().filter(|c| !beaten(c)).cloned().collect();
    let user = |choice: &ServingChoice| of(choice).map_or(0.0, |(user, _)| user);
    front.sort_by(|a, b| user(b).total_cmp(&user(a)));
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_division_of_a_node_is_a_candidate() {
        let model = &presets::find("llama3-70b").expect("shipped").model;
        let scenario = json!({ "job": { "serving": {} } });
        let all = candidates(model, (8, 8), &scenario);
        let named: Vec<String> = all.iter().map(|c| c.layout.to_string()).collect();
        // Eight engines, and seven ways to split them; four and three; two and one; one.
        assert_eq!(named.len(), 8 + 4 + 2 + 1);
        assert!(named.contains(&"3p : 1d, tp 2".to_owned()), "{named:?}");
        assert!(named.contains(&"1 × both, tp 8".to_owned()));
        let experts = &presets::find("deepseek-v3").expect("shipped").model;
        let all = candidates(experts, (8, 8), &scenario);
        assert!(all.iter().any(|c| c.layout.attention_dp == 8));
        assert_eq!(all[0].scenario["job"]["serving"]["pools"][0]["replicas"], 8);
    }

    #[test]
    fn splits_of_many_engines_are_a_few() {
        assert_eq!(splits(4), [1, 2, 3]);
        assert!(splits(1).is_empty());
        assert!(splits(64).len() <= 8);
    }
}
