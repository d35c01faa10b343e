//! Scenarios of single collectives, by chance.

use super::draw::Draw;
use super::machines::{Machine, machine};
use fabricsim::budget::Budget;
use fabricsim::collective::Collective;
use fabricsim::experiment::{ScenarioError, Silent, parse, run, validate};
use fabricsim::nccl::{Algorithm, Communicator};
use fabricsim::plan::Plan;
use fabricsim::report::{CollectiveView, Outputs, Summary};
use fabricsim::topology::{DeviceModel, Router};
use serde_json::{Value, json};
use std::path::Path;

/// What a scenario gives.
pub(crate) type Run = Summary;

/// The collective of a run.
pub(crate) fn view(run: &Run) -> CollectiveView<'_> {
    run.only_collective().unwrap()
}

/// A scenario with three sizes, the smallest first; the last is traced.
pub(crate) fn scenario(number: u64) -> Value {
    let mut draw = Draw::new(number);
    let machine = machine(&mut draw);
    let collective = draw.of(&Collective::ALL);
    let mut job = json!({
        "name": collective.name(),
        "sizes": { "list": sizes(&mut draw, &machine) },
        "isolated": draw.percent(40),
    });
    if draw.percent(55) {
        job["algorithm"] = json!(algorithm(&mut draw, collective).name());
    }
    if draw.percent(40) {
        job["protocol"] = json!(draw.of(&["simple", "ll", "ll128"]));
    }
    if draw.percent(10) {
        job["registered"] = json!(draw.of(&["local", "graph"]));
    }
    if collective == Collective::AllToAllV && draw.percent(80) {
        job["matrix"] = json!(matrix(&mut draw, machine.ranks));
    }
    let mut scenario = json!({
        "name": "case",
        "topology": machine.topology,
        "job": { "collective": job },
        "seed": draw.below(1000),
        "environment": environment(&mut draw),
    });
    if scenario["topology"].get("name").is_some() {
        scenario["nodes"] = json!(machine.nodes);
    }
    if let Some(gpus) = machine.gpus_per_node {
        scenario["gpus_per_node"] = json!(gpus);
    }
    if draw.percent(25) {
        scenario["faults"] = faults(&mut draw, &machine);
    }
    scenario
}

/// One that may have a kernel of the collective.
fn algorithm(draw: &mut Draw, collective: Collective) -> Algorithm {
    let serving = Algorithm::ALL
        .into_iter()
        // Kernels on symmetric windows need buffers that are registered so.
        .filter(|algorithm| algorithm.serves(collective) && !algorithm.is_symmetric());
    draw.of(&serving.collect::<Vec<_>>())
}

fn sizes(draw: &mut Draw, machine: &Machine) -> Vec<String> {
    let most = if machine.ranks > 16 { 16e6 } else { 128e6 };
    let first = draw.scaled(8.0, most);
    let second = first * draw.scaled(1.1, 4.0);
    let third = second * draw.scaled(1.1, 4.0);
    [first, second, third]
        .map(|size| format!("{}B", size as u64))
        .into()
}

fn matrix(draw: &mut Draw, ranks: u64) -> Vec<Vec<u64>> {
    let one_hot = draw.percent(30);
    let rows = (0..ranks).map(|row| {
        let entry = |column| match one_hot {
            true => u64::from(column == (row + 1) % ranks && row % 3 == 0),
            false => draw.below(8),
        };
        (0..ranks).map(entry).collect::<Vec<_>>()
    });
    let mut rows: Vec<Vec<u64>> = rows.collect();
    // Something has to move.
    rows[0][ranks as usize - 1] += 1;
    rows
}

fn environment(draw: &mut Draw) -> Value {
    let mut variables = json!({});
    let known: [(&str, &[u64]); 12] = [
        ("NCCL_P2P_DISABLE", &[1]),
        ("NCCL_SHM_DISABLE", &[1]),
        ("NCCL_NVLS_ENABLE", &[0]),
        ("NCCL_COLLNET_ENABLE", &[1]),
        ("NCCL_CROSS_NIC", &[0, 1]),
        ("NCCL_PXN_DISABLE", &[1]),
        ("NCCL_MAX_NCHANNELS", &[1, 2, 4]),
        ("NCCL_MIN_NCHANNELS", &[8, 16]),
        ("NCCL_BUFFSIZE", &[1 << 20, 8 << 20]),
        ("NCCL_NET_GDR_READ", &[0]),
        ("NCCL_IB_QPS_PER_CONNECTION", &[2]),
        ("NCCL_NVB_DISABLE", &[1]),
    ];
    for (name, values) in known {
        if draw.percent(6) {
            variables[name] = json!(draw.of(values));
        }
    }
    variables
}

fn faults(draw: &mut Draw, machine: &Machine) -> Value {
    let node = draw.below(machine.nodes);
    let links = ["node0/nic0", "node0/gpu0", "node0/gpu1"];
    let links = draw.of(&links).replace("node0", &format!("node{node}"));
    let rank = draw.below(machine.ranks);
    match draw.below(4) {
        0 => json!([{ "slow_gpu": { "ranks": [rank], "speed": 0.6 } }]),
        1 => json!([{ "link": { "links": links, "factor": draw.of(&[0.1, 0.5, 0.9]) } }]),
        2 => json!([{ "flap": { "links": links, "from": "20us", "down": "100us" } }]),
        _ => {
            json!([{ "jitter": { "ranks": "all", "add": { "exponential": { "mean": "3us" } }, "per": "kernel" } }])
        }
    }
}

/// Runs a scenario.
pub(crate) fn outcome(scenario: &Value) -> Result<Run, ScenarioError> {
    let read = parse(&scenario.to_string(), "case.json", &[])?;
    let valid = validate(read, Path::new("."))?;
    let outputs = Outputs::default();
    let results = run(&valid, &Budget::default(), &outputs, &mut Silent)?;
    Ok(results.summary)
}

/// What NCCL makes of a scenario at one size, and the longest message that travels in its descriptor;
/// `None` if that takes more than the collective and its size.
pub(crate) fn planned(scenario: &Value, bytes: u64) -> Option<(Plan, u64)> {
    let read = parse(&scenario.to_string(), "case.json", &[]).ok()?;
    let valid = validate(read, Path::new(".")).ok()?;
    let valid = valid.only_collective()?;
    if valid.matrix.is_some() {
        return None;
    }
    let router = Router::new(&valid.topology, valid.seed);
    let gpus = valid.gpus.clone();
    let mut communicator = Communicator::of(&valid.topology, gpus, &valid.env, router).ok()?;
    let planned = communicator.plan(valid.collective, bytes, valid.forced);
    let models = valid.topology.device_models.iter();
    let inline = models.filter_map(|(_, model)| match model {
        DeviceModel::Nic(nic) => Some(nic.inline.as_ref()?.up_to.value.get()),
        _ => None,
    });
    Some((planned.ok()?.plan, inline.max().unwrap_or(0)))
}
