//! What is compared: one job on several machines, and machines by themselves.

use super::bill;
pub use super::collective::find_better_choices;
use super::error::ScenarioError;
use super::read::{Scenario, changed};
use super::refusal::{fault, refusal, refuse};
use super::site::{machine_of, resized};
use super::spec::{TopologyRef, VariantSpec};
use fabricsim_report::cards::{Card, Figure};
use fabricsim_topology::bill::Load;
use fabricsim_topology::hardware::Sourced;
use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, Topology};
use fabricsim_units::Power;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The scenario as it would run on each of `machines`, names or files: one variant each. Of each so
/// many GPUs take part, if that is asked for: whole nodes, or some GPUs of one; else as many nodes, and
/// GPUs of each, as the scenario says.
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

/// The machines of a scenario, and of its variants where it has some.
///
/// # Errors
/// A variant that sets what is not of the format.
pub fn machines_of(scenario: &Scenario) -> Result<Vec<TopologyRef>, ScenarioError> {
    if scenario.spec.variants.is_empty() {
        return Ok(vec![scenario.spec.topology.clone()]);
    }
    let of = |variant: &VariantSpec| {
        let own = changed(
            &scenario.json,
            &scenario.origin,
            &variant.name,
            &variant.set,
        )?;
        Ok(own.spec.topology)
    };
    scenario.spec.variants.iter().map(of).collect()
}

/// Refuses a scenario whose variants have sizes of their own, where `flag` asks for another one.
///
/// # Errors
/// Such a variant, with its nodes or GPUs.
pub fn without_own_sizes(scenario: &Scenario, flag: &str) -> Result<(), ScenarioError> {
    let of_variant =
        |(index, variant): (usize, &VariantSpec)| {
            let places = ["nodes", "gpus_per_node"].into_iter();
            let set = places.filter_map(|place| variant.set.get(place).map(|value| (place, value)));
            let wrong = set.map(|(place, value)| {
            let expected = format!(
                "no size of its own beside {flag}; how many take part of each machine is said by \
                 --gpus or -n with machines (-t)"
            );
            fault(&format!("variants[{index}].set.{place}"), value.to_string(), expected)
        });
            wrong.collect::<Vec<_>>()
        };
    let variants = scenario.spec.variants.iter().enumerate();
    refuse(&scenario.origin, variants.flat_map(of_variant).collect())
}

/// A machine by itself, with so many nodes or GPUs if that is asked for.
///
/// # Errors
/// A machine that is none, or that has no so many nodes; GPUs that are no whole nodes.
pub fn machine_with(
    machine: &TopologyRef,
    (nodes, gpus): (Option<u32>, Option<u32>),
    origin: &str,
) -> Result<Arc<Topology>, ScenarioError> {
    let here = Path::new("");
    let nodes = match gpus {
        None => nodes,
        Some(gpus) => {
            let own = machine_of(machine, here, origin)?;
            let (nodes, of_each) = filling(&own, gpus, origin)?;
            if of_each.is_some() {
                let each = own.gpus().count() / own.nodes.len().max(1);
                let expected = format!(
                    "whole nodes of {each} GPUs: {} is shown by itself",
                    own.name
                );
                return Err(refusal(
                    origin,
                    vec![fault("--gpus", gpus.to_string(), expected)],
                ));
            }
            Some(nodes)
        }
    };
    Ok(resized(machine, nodes, here, origin)?)
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
pub(crate) fn free(name: &str, taken: &BTreeSet<String>) -> String {
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut all = std::iter::once(name.to_owned()).chain(numbered);
    all.find(|name| !taken.contains(name))
        .unwrap_or_else(|| name.to_owned())
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
