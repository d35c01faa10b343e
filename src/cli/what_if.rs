//! What-ifs on the command line, of any job: what is slow, fails or is away, other sizes of the machine.

use super::{CliError, one_of};
use fabricsim_experiment::compare::filling;
use fabricsim_experiment::{
    Because, Distribution, FallTo, Scenario, TopologyRef, changed, machine_of,
};
use fabricsim_nccl::Binding;
use fabricsim_topology::compact::{Changes, compact};
use fabricsim_topology::{Mtu, load};
use fabricsim_units::Time;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Flags that change a scenario's machine.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "What-ifs")]
pub(super) struct WhatIfArgs {
    /// GPUs of ranks compute at a share of their speed: `5:0.8`
    ///
    /// Several ranks are `0-3:50%`. May be repeated.
    #[arg(long, value_name = "RANKS:SPEED")]
    slow_gpu: Vec<String>,
    /// A NIC has a share of its rate: `node1/nic2:0.5`
    ///
    /// In both directions. May be repeated.
    #[arg(long, value_name = "NIC:SHARE")]
    nic: Vec<String>,
    /// Links have a share of their rate: `node0/nic3 <> compute:0.5`
    ///
    /// In both directions. May be repeated.
    #[arg(long, value_name = "LINKS:SHARE")]
    link: Vec<String>,
    /// Links go down again and again: `node1/nic2:200ms/2s@1s`
    ///
    /// These are down for 200 ms of every 2 s, from 1 s on; from the start, without `@`. The name of a
    /// device is all of its links. May be repeated.
    #[arg(long, value_name = "X:DOWN/PERIOD[@FROM]")]
    flap: Vec<String>,
    /// A device or a node fails and stays failed: `node1/nic2@1s`
    ///
    /// Also `node3`, `leaf2`, or all leaves of a rail as `rail2`. It fails at the start, without `@`:
    /// then NCCL plans without it. May be repeated.
    #[arg(long, value_name = "X[@T]")]
    kill: Vec<String>,
    /// Nodes of the machine that the job is given: `0-3,17` [all]
    #[arg(long, value_name = "NODES")]
    nodelist: Option<String>,
    /// Which rank is where: block, cyclic or shuffled [block]
    ///
    /// `block` fills nodes one after the other, `cyclic` puts a rank on each in turn, `shuffled` takes
    /// nodes in an order that the seed draws.
    #[arg(
        long,
        value_name = "HOW",
        value_parser = one_of(&Distribution::ALL, Distribution::name),
        hide_possible_values = true
    )]
    distribution: Option<Distribution>,
    /// Software takes a slower way: tcp, staged, gloo, or a reason
    ///
    /// Without an error: `tcp` (no RDMA), `staged` (no GPUDirect), `gloo`, or the reason:
    /// `no_rdma_devices`, `version_mismatch`, `no_peermem`, `gloo_backend`. Of some nodes' interfaces
    /// `no_peermem@node1`. May be repeated. `compare` sets each beside the machine without it.
    #[arg(long, value_name = "WAY[@NODES]")]
    fallback: Vec<String>,
    /// Where processes of GPUs are bound: near, far or one_core
    ///
    /// The launcher binds the process of each GPU `near` it, `far` on another socket, or on `one_core`,
    /// which its threads share.
    #[arg(
        long,
        value_name = "WHERE",
        value_parser = one_of(&Binding::ALL, Binding::name),
        hide_possible_values = true
    )]
    binding: Option<Binding>,
    /// Ports down : up of leaf switches
    ///
    /// In every fabric of a shipped machine that has such a ratio.
    #[arg(long, value_name = "RATIO")]
    oversubscription: Option<f64>,
    /// Bytes of a frame in the machine's networks, such as 9000
    ///
    /// Others are 1500 or 4200; 4096 and powers of two below it are the MTU of RDMA itself.
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    mtu: Option<Mtu>,
}

/// An MTU as the flag has it.
fn mtu(text: &str) -> Result<Mtu, String> {
    let (least, most) = Mtu::RANGE;
    let bytes = text.parse().ok().and_then(Mtu::new);
    bytes.ok_or_else(|| format!("expected {least} to {most} bytes, such as 1500, 4200 or 9000"))
}

impl WhatIfArgs {
    /// The scenario with these what-ifs, as if it said so itself; its relative paths start at
    /// `folder`.
    pub(super) fn apply(&self, scenario: Scenario) -> Result<Scenario, CliError> {
        let faults = self.faults()?;
        let mut set = self.settings();
        if let Some(ratio) = self.oversubscription {
            let inline = oversubscribed(&scenario.spec.topology, ratio)?;
            set.insert("topology".to_owned(), json!({ "inline": inline }));
        }
        if faults.is_empty() && set.is_empty() {
            return Ok(scenario);
        }
        let mut json = scenario.json;
        let Value::Object(map) = &mut json else {
            return Err(CliError::Usage("the scenario is no object".into()));
        };
        if !faults.is_empty() {
            let all = map.entry("faults").or_insert_with(|| json!([]));
            if let Value::Array(list) = all {
                list.extend(faults);
            }
        }
        Ok(changed(&json, &scenario.origin, "what-ifs", &set)?)
    }

    /// The same, but for fall-backs: each is a variant beside the scenario without any.
    pub(super) fn apply_beside(&self, scenario: Scenario) -> Result<Scenario, CliError> {
        if self.fallback.is_empty() {
            return self.apply(scenario);
        }
        if !scenario.spec.variants.is_empty() {
            return Err(CliError::Usage(
                "--fallback: expected a scenario without variants of its own".into(),
            ));
        }
        let others = WhatIfArgs {
            fallback: Vec::new(),
            ..self.clone()
        };
        let scenario = others.apply(scenario)?;
        let mut json = scenario.json;
        let own = match json.get("faults") {
            Some(Value::Array(own)) => own.clone(),
            _ => Vec::new(),
        };
        let mut variants = vec![json!({ "name": "without" })];
        for text in &self.fallback {
            let mut faults = own.clone();
            faults.push(fallback(text)?);
            let name = text
                .replace('@', "-")
                .replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-");
            variants.push(json!({ "name": name, "set": { "faults": faults } }));
        }
        if let Value::Object(map) = &mut json {
            map.insert("variants".into(), Value::Array(variants));
        }
        Ok(changed(
            &json,
            &scenario.origin,
            "--fallback",
            &BTreeMap::new(),
        )?)
    }

    /// Whether there is any.
    pub(super) fn is_said(&self) -> bool {
        let lists = [
            &self.slow_gpu,
            &self.nic,
            &self.link,
            &self.flap,
            &self.kill,
            &self.fallback,
        ];
        lists.iter().any(|list| !list.is_empty())
            || self.oversubscription.is_some()
            || !self.settings().is_empty()
    }

    /// Whether there is a fall-back among them.
    pub(super) fn falls_back(&self) -> bool {
        !self.fallback.is_empty()
    }

    /// What the flags say, by places of a scenario as the axis of a sweep has them.
    pub(super) fn places(&self) -> Result<BTreeMap<String, Value>, CliError> {
        let mut places = self.settings();
        let faults = self.faults()?;
        if !faults.is_empty() {
            places.insert("faults".to_owned(), Value::Array(faults));
        }
        if let Some(ratio) = self.oversubscription {
            places.insert("oversubscription".to_owned(), json!(ratio));
        }
        Ok(places)
    }

    /// Those that set a value, by its place in a scenario.
    fn settings(&self) -> BTreeMap<String, Value> {
        let nodes = self.nodelist.as_ref().map(|nodes| json!(nodes));
        let distribution = self.distribution.map(|how| json!(how));
        let settings = [
            ("allocation.nodes", nodes),
            ("allocation.distribution", distribution),
            (
                "host",
                self.binding.map(|binding| json!({ "binding": binding })),
            ),
            ("mtu", self.mtu.map(|mtu| json!(mtu))),
        ];
        let given = settings.into_iter();
        let given = given.filter_map(|(place, value)| Some((place.to_owned(), value?)));
        given.collect()
    }

    /// The faults that the flags say, as a scenario has them.
    fn faults(&self) -> Result<Vec<Value>, CliError> {
        let mut faults = Vec::new();
        for text in &self.slow_gpu {
            let (ranks, speed) = share("--slow-gpu", text, "5:0.8")?;
            faults.push(json!({ "slow_gpu": { "ranks": ranks, "speed": speed } }));
        }
        for text in &self.nic {
            let (links, factor) = share("--nic", text, "node1/nic2:0.5")?;
            faults.push(json!({ "link": { "links": links, "factor": factor } }));
        }
        for text in &self.link {
            let (links, factor) = share("--link", text, "node0/nic3 <> compute:0.5")?;
            let both = match links.contains("<>") {
                true => links.to_owned(),
                false => links.replace('>', "<>"),
            };
            faults.push(json!({ "link": { "links": both, "factor": factor } }));
        }
        for text in &self.flap {
            faults.push(flap(text)?);
        }
        for text in &self.kill {
            let (devices, at) = at(text);
            let at = time("--kill", text, at.unwrap_or("0s"))?;
            faults.push(json!({ "failed": { "devices": devices, "at": at } }));
        }
        for text in &self.fallback {
            faults.push(fallback(text)?);
        }
        Ok(faults)
    }
}

/// How many of a scenario's GPUs take part.
pub(super) fn with_gpus(
    scenario: Scenario,
    gpus: Option<u32>,
    folder: &Path,
) -> Result<Scenario, CliError> {
    let Some(gpus) = gpus else {
        return Ok(scenario);
    };
    let topology = machine_of(&scenario.spec.topology, folder, &scenario.origin)?;
    let (nodes, of_each) = filling(&topology, gpus, &scenario.origin)?;
    let set = BTreeMap::from([
        ("nodes".to_owned(), json!(nodes)),
        ("gpus_per_node".to_owned(), json!(of_each)),
    ]);
    Ok(changed(&scenario.json, &scenario.origin, "--gpus", &set)?)
}

fn wrong(flag: &str, text: &str, expected: &str) -> CliError {
    CliError::Usage(format!("{flag} {text}: expected {expected}"))
}

/// What stands before the last colon, and the share behind it.
fn share<'t>(flag: &str, text: &'t str, example: &str) -> Result<(&'t str, f64), CliError> {
    let parts = text.rsplit_once(':');
    let number = |text: &str| match text.strip_suffix('%') {
        Some(percent) => Some(percent.trim().parse::<f64>().ok()? / 100.0),
        None => text.parse::<f64>().ok(),
    };
    let read = parts.and_then(|(what, share)| Some((what, number(share)?)));
    let found = read.filter(|(what, share)| !what.is_empty() && share.is_finite());
    let place = example.rsplit_once(':').map_or(example, |(place, _)| place);
    found.ok_or_else(|| {
        wrong(
            flag,
            text,
            &format!("a place and a share, such as {example} or {place}:80%"),
        )
    })
}

/// A name, and what stands behind an `@`.
fn at(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('@') {
        Some((name, at)) => (name, Some(at)),
        None => (text, None),
    }
}

fn time(flag: &str, text: &str, value: &str) -> Result<Time, CliError> {
    let read = value.parse::<Time>();
    read.map_err(|_| wrong(flag, text, "times with a unit, such as 200ms"))
}

/// A fall-back by its way or its reason, with the nodes that it is of.
fn fallback(text: &str) -> Result<Value, CliError> {
    let (name, nodes) = at(text);
    let mut fall = serde_json::Map::new();
    let way = FallTo::ALL.iter().find(|way| way.name() == name);
    let why = Because::ALL.iter().find(|why| why.name() == name);
    match (way, why) {
        (Some(way), _) => fall.insert("to".into(), json!(way)),
        (None, Some(why)) => fall.insert("because".into(), json!(why)),
        (None, None) => {
            let ways = FallTo::ALL.iter().map(|way| way.name());
            let names: Vec<&str> = ways
                .chain(Because::ALL.iter().map(|why| why.name()))
                .collect();
            return Err(wrong("--fallback", text, &names.join(", ")));
        }
    };
    if let Some(nodes) = nodes {
        fall.insert("nodes".into(), json!(nodes));
    }
    Ok(json!({ "fallback": fall }))
}

/// So often a link goes down that is to do so for ever.
const FOR_EVER: u32 = u32::MAX;

fn flap(text: &str) -> Result<Value, CliError> {
    let expected = "a place and times, such as node1/nic2:200ms/2s or node1/nic2:200ms/2s@1s";
    let (text_before, from) = at(text);
    let parts = text_before.rsplit_once(':');
    let parts = parts.and_then(|(links, times)| Some((links, times.split_once('/')?)));
    let (links, (down, period)) = parts.ok_or_else(|| wrong("--flap", text, expected))?;
    let from = time("--flap", text, from.unwrap_or("0s"))?;
    let (down, period) = (time("--flap", text, down)?, time("--flap", text, period)?);
    if period <= down {
        let expected = "a period longer than it is down, such as node1/nic2:200ms/2s";
        return Err(wrong("--flap", text, expected));
    }
    let up = period.saturating_sub(down);
    Ok(json!({ "flap": {
        "links": links, "from": from, "down": down, "up": up, "count": FOR_EVER
    } }))
}

/// A shipped machine with another ratio of its leaves' ports.
fn oversubscribed(topology: &TopologyRef, ratio: f64) -> Result<Value, CliError> {
    let TopologyRef::Name(name) = topology else {
        return Err(CliError::Usage(format!(
            "--oversubscription {ratio}: expected a shipped machine; of a topology file put the \
             ratio into the file"
        )));
    };
    let changes = Changes {
        oversubscription: Some(ratio),
        ..Changes::default()
    };
    let text = compact(name, &changes)?;
    Ok(load::from_json(&text, name)?)
}
