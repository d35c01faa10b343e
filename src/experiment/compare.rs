//! What is compared: one job on several machines, earlier runs, machines by themselves.

use super::bill;
use super::collective::answer as collective_answer;
pub use super::collective::find_better_choices;
use super::error::ScenarioError;
use super::read::{Scenario, changed};
use super::refusal::{fault, refusal};
use super::site::machine_of;
use super::spec::TopologyRef;
use super::training::answer_of;
use super::{calls, communicator, concurrent, serving};
use fabricsim_report::cards::{Card, Figure};
use fabricsim_report::comparison::{best_collective, collective_difference};
use fabricsim_report::training::{best, difference};
use fabricsim_report::{JobResult, Summary, Variant};
use fabricsim_topology::bill::Load;
use fabricsim_topology::hardware::Sourced;
use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, Topology};
use fabricsim_units::Power;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The scenario as it would run on each of `machines`, names or files: one variant each. Of each so
/// many GPUs take part, if that is asked for: whole nodes, or some GPUs of one.
///
/// # Errors
/// A machine that is none, GPUs that fill no whole number of its nodes.
pub fn on_machines(
    scenario: &Scenario,
    machines: &[TopologyRef],
    gpus: Option<u32>,
    folder: &Path,
) -> Result<Scenario, ScenarioError> {
    let mut json = scenario.json.clone();
    let mut variants = Vec::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for machine in machines {
        let topology = machine_of(machine, folder, &scenario.origin)?;
        let mut set = serde_json::Map::new();
        set.insert("topology".into(), json!(machine));
        set.insert("nodes".into(), Value::Null);
        set.insert("gpus_per_node".into(), Value::Null);
        if let Some(gpus) = gpus {
            let (nodes, of_each) = filling(&topology, gpus, &scenario.origin)?;
            set.insert("nodes".into(), json!(nodes));
            set.insert("gpus_per_node".into(), json!(of_each));
        }
        let name = free(&topology.name, &names);
        names.insert(name.clone());
        variants.push(json!({ "name": name, "set": set }));
    }
    let names: Vec<&str> = variants.iter().filter_map(|v| v["name"].as_str()).collect();
    let what = scenario
        .spec
        .title
        .as_deref()
        .unwrap_or(&scenario.spec.name);
    let title = format!("{what}: {}", names.join(", "));
    if let Value::Object(map) = &mut json {
        map.insert("title".into(), title.into());
        map.remove("baseline");
        map.insert("variants".into(), Value::Array(variants));
    }
    changed(&json, &scenario.origin, "set", &BTreeMap::new())
}

/// Nodes that so many GPUs fill; and of one node the GPUs that take part, if that is not all.
///
/// # Errors
/// GPUs that fill no whole number of nodes; the two nearest numbers are named.
pub fn filling(
    topology: &Topology,
    gpus: u32,
    origin: &str,
) -> Result<(u32, Option<u32>), ScenarioError> {
    let nodes = (topology.nodes.len() as u32).max(1);
    let each = (topology.gpus().count() as u32 / nodes).max(1);
    if gpus > 0 && gpus < each {
        return Ok((1, Some(gpus)));
    }
    if gpus > 0 && gpus.is_multiple_of(each) {
        return Ok((gpus / each, None));
    }
    let (below, above) = (gpus / each * each, gpus.div_ceil(each).max(1) * each);
    let near = match below {
        0 => format!("1 to {above}"),
        below => format!("{below} or {above}"),
    };
    let expected = format!("{near}: {} has nodes of {each} GPUs", topology.name);
    Err(refusal(
        origin,
        vec![fault("--gpus", gpus.to_string(), expected)],
    ))
}

/// `name`, or the first with a number behind it that is new.
fn free(name: &str, taken: &BTreeSet<String>) -> String {
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut all = std::iter::once(name.to_owned()).chain(numbered);
    all.find(|name| !taken.contains(name))
        .unwrap_or_else(|| name.to_owned())
}

/// Earlier runs, by name, as the variants of one; the first variant of the first is the baseline.
/// Differences are told by causes: nothing is simulated again.
///
/// # Errors
/// Runs of jobs of different kinds, or of none.
pub fn of_runs(runs: Vec<(String, Summary)>) -> Result<Summary, ScenarioError> {
    let seed = runs.first().map_or(0, |(_, summary)| summary.seed);
    let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    let title = names.join(" beside ");
    let specs: Vec<Value> = runs.iter().map(|(_, s)| s.spec.clone()).collect();
    let mut all = Summary::new(title, seed, json!({ "runs": specs }));
    let mut taken = BTreeSet::new();
    for (name, summary) in runs {
        let several = summary.variants.len() > 1;
        for mut variant in summary.variants {
            let own = match several {
                true => format!("{name}/{}", variant.name),
                false => name.clone(),
            };
            variant.name = free(&own, &taken);
            variant.no_effect = None;
            variant.differs.clear();
            taken.insert(variant.name.clone());
            all.variants.push(variant);
        }
        all.warn(summary.warnings);
    }
    same_kind(&all.variants)?;
    let [base, others @ ..] = all.variants.as_slice() else {
        return Ok(all);
    };
    all.baseline = Some(base.name.clone());
    match &base.job {
        JobResult::Collective(_) => {
            let to = |other| collective_difference(base, other);
            all.waterfall = others.iter().filter_map(to).collect();
            let best = best_collective(&all.variants, 0);
            all.best = best.map(|best| all.variants[best].name.clone());
            all.answer = collective_answer(&all, 0, best);
        }
        JobResult::Training(_) => {
            all.waterfall = others.iter().filter_map(|o| difference(base, o)).collect();
            let best = best(&all.variants, 0);
            all.best = best.map(|best| all.variants[best].name.clone());
            all.answer = answer_of(&all, 0, best);
        }
        JobResult::Concurrent(_) => concurrent::compare(&mut all),
        JobResult::Serving(_) => serving::compare(&mut all),
        JobResult::Communicator(_) => communicator::compare(&mut all),
        JobResult::Calls(_) => calls::compare(&mut all),
    }
    Ok(all)
}

fn same_kind(variants: &[Variant]) -> Result<(), ScenarioError> {
    let kind = |variant: &Variant| std::mem::discriminant(&variant.job);
    let mut pairs = variants.windows(2);
    match pairs.find(|pair| kind(&pair[0]) != kind(&pair[1])) {
        None => Ok(()),
        Some(pair) => {
            let found = format!("{} and {}", pair[0].name, pair[1].name);
            let expected = "runs of one kind of job: collectives, training, serving, communicators, calls or jobs at once";
            Err(refusal("compare", vec![fault("runs", found, expected)]))
        }
    }
}

/// What a machine is made of.
#[must_use]
pub fn card(topology: &Topology) -> Card {
    let nodes = topology.nodes.len() as u32;
    let gpus: Vec<DeviceId> = topology.gpus().collect();
    let first = gpus.first().copied();
    let model = first.and_then(|gpu| topology.gpu_model(gpu));
    let number = |sourced: &Sourced<f64>| bill::figure(sourced, |value| value);
    let draws = model.and_then(|model| model.power.as_ref());
    let watts = |figure: &Option<Sourced<Power>>| {
        let figure = figure.as_ref()?;
        Some(bill::figure(figure, Power::watts))
    };
    let parts = topology.bill();
    let out_of = |device: DeviceId, family: LinkFamily| -> f64 {
        let links = topology.links_out_of(device);
        let links = links.filter(|&(link, _)| topology.family(link) == family);
        links
            .map(|(link, _)| topology.rate(link).gb_per_sec())
            .sum()
    };
    let nvlink = first.map(|gpu| out_of(gpu, LinkFamily::Nvlink));
    let network: f64 = topology
        .devices()
        .filter(|(_, device)| device.kind == DeviceKind::Nic)
        .map(|(nic, _)| out_of(nic, LinkFamily::Network))
        .sum();
    let all = gpus.len() as u32;
    Card {
        topology: topology.name.clone(),
        title: topology.title.clone(),
        nodes,
        gpus: all,
        gpus_per_node: all / nodes.max(1),
        gpu: model.map_or_else(String::new, |model| model.title.clone()),
        memory_gib: model.map(|model| Figure {
            value: model.memory.value.get() as f64 / f64::from(1 << 30),
            source: model.memory.source.clone(),
        }),
        memory_gbs: model.map(|model| Figure {
            value: model.memory_bandwidth.value.gb_per_sec(),
            source: model.memory_bandwidth.source.clone(),
        }),
        bf16_tflops: model.map(|model| number(&model.bf16_tflops)),
        fp8_tflops: model.and_then(|model| model.fp8_tflops.as_ref().map(number)),
        fp4_tflops: model.and_then(|model| model.fp4_tflops.as_ref().map(number)),
        nvlink_gbs_per_gpu: nvlink.filter(|rate| *rate > 0.0),
        network_gbs_per_gpu: (network > 0.0 && all > 0).then(|| network / f64::from(all)),
        nvlink_domain_gpus: nvlink_domain(topology),
        gpu_watts: draws.and_then(|draws| watts(&draws.busy)),
        gpu_idle_watts: draws.and_then(|draws| watts(&draws.idle)),
        busy_kw: bill::power(&parts, Load::BUSY, 1.0),
        idle_kw: bill::power(&parts, Load::IDLE, 1.0),
        usd: bill::price(&parts),
        usd_per_gpu_hour: bill::hourly(topology),
    }
}

/// GPUs that the first one reaches over NVLink alone, itself included; nothing without NVLink.
pub(super) fn nvlink_domain(topology: &Topology) -> Option<u32> {
    let joined = topology.joined_by_nvlink(topology.gpus().next()?);
    let is_gpu = |device: &&DeviceId| topology.device(**device).kind == DeviceKind::Gpu;
    let gpus = joined.iter().filter(is_gpu).count() as u32;
    (gpus > 1).then_some(gpus)
}
