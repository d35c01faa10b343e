//! A state of the page's controls, as its address has it, and the scenario that it is.

use fabricsim_collective::Collective;
use fabricsim_experiment::sweep::with_values;
use fabricsim_experiment::{Machines, Scenario, ScenarioError, catalogue};
use fabricsim_nccl::NcclError;
use fabricsim_topology::catalogue::hardware;
use fabricsim_topology::error::nearest;
use fabricsim_topology::{Fault, TopologyError};
use fabricsim_units::{Bandwidth, Bytes};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Values of controls by name; a control that is not there is left as it is at first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct State(BTreeMap<String, String>);

/// Controls by their names in the address. `rate.NAME` and `env.NAME` are there for each link and
/// variable.
const CONTROLS: &[&str] = &[
    "job",
    "machine",
    "nodes",
    "gpus",
    "size",
    "algorithm",
    "protocol",
    "oversubscription",
    "slow",
    "nic",
    "kill",
    "bucket",
];

/// Why a state has no results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The control that it is about; none, if it is about all of them.
    pub(crate) control: String,
    /// What is wrong, and what was expected.
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(control: &str, message: impl Into<String>) -> Refusal {
        Refusal {
            control: control.to_owned(),
            message: message.into(),
        }
    }
}

/// What a curve goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// The size of a collective, bytes.
    Size,
    /// The size of DDP's buckets, bytes.
    Bucket,
    /// The speed of one GPU, per cent of its own.
    Speed,
}

impl Axis {
    /// As the page's script knows it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Axis::Size => "size",
            Axis::Bucket => "bucket",
            Axis::Speed => "speed",
        }
    }

    /// Where the curve has points: nccl-tests' sizes; powers of two around PyTorch's 25 MiB.
    fn points(self) -> Vec<u64> {
        match self {
            Axis::Size => (10..=30).map(|power| 1 << power).collect(),
            Axis::Bucket => (18..=29).map(|power| 1 << power).collect(),
            Axis::Speed => (10..=20).map(|twentieths| twentieths * 5).collect(),
        }
    }
}

/// PyTorch's own size of buckets.
const BUCKET: &str = "25MiB";

/// A state that names a job.
#[derive(Debug)]
pub(crate) struct Asked {
    base: Value,
    set: Vec<(String, Value)>,
    /// What goes wrong beside the slow GPU.
    faults: Vec<Value>,
    /// Its ranks and its speed.
    slow: (String, f64),
    pub(crate) axis: Axis,
    /// Where the state is on the axis.
    pub(crate) at: u64,
}

/// A name of this page for scenarios, in messages.
const ORIGIN: &str = "this page";

impl State {
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// Reads the state.
    ///
    /// # Errors
    /// A control that there is not, a value that is none.
    pub(crate) fn asked(&self) -> Result<Asked, Refusal> {
        self.check_names()?;
        let job = self.get("job").unwrap_or("all-reduce");
        let collective = Collective::ALL.into_iter().find(|c| c.name() == job);
        let mut asked = match collective {
            Some(collective) => self.collective(collective)?,
            None => self.training(job)?,
        };
        asked.set.extend(self.machine()?);
        asked.faults = self.faults()?;
        asked.slow = self.slow()?;
        let variables: BTreeMap<&str, &str> = self
            .0
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("env.")?, value.as_str())))
            .collect();
        for (name, value) in variables {
            asked
                .set
                .push((format!("environment.{name}"), json!(value)));
        }
        Ok(asked)
    }

    fn check_names(&self) -> Result<(), Refusal> {
        let known = |name: &str| {
            CONTROLS.contains(&name) || name.starts_with("rate.") || name.starts_with("env.")
        };
        match self.0.keys().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => {
                let near = nearest(name, CONTROLS.iter().copied());
                let near =
                    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                let message = format!("there is no control `{name}`{near}");
                Err(Refusal::new("", message))
            }
        }
    }

    fn collective(&self, collective: Collective) -> Result<Asked, Refusal> {
        let at = self.bytes("size", "64MiB")?;
        let machine = self.get("machine").unwrap_or("dgx-h100");
        let mut job = json!({ "name": collective, "sizes": { "list": ["64MiB"] } });
        for control in ["algorithm", "protocol"] {
            if let Some(value) = self.get(control) {
                job[control] = json!(value);
            }
        }
        Ok(Asked {
            base: json!({ "name": "lab", "topology": { "name": machine }, "job": { "collective": job } }),
            set: Vec::new(),
            faults: Vec::new(),
            slow: (String::new(), 1.0),
            axis: Axis::Size,
            at,
        })
    }

    /// A shipped scenario of training, without its variants.
    fn training(&self, name: &str) -> Result<Asked, Refusal> {
        let text = catalogue::text(name).map_err(|_| {
            let message = format!("`{name}`: expected a collective or a shipped training scenario");
            Refusal::new("job", message)
        })?;
        let mut base: Value =
            serde_json::from_str(text).map_err(|error| Refusal::new("job", error.to_string()))?;
        if let Value::Object(map) = &mut base {
            for field in [
                "variants", "baseline", "title", "comment", "outputs", "long_run",
            ] {
                map.remove(field);
            }
        }
        if base.pointer("/job/training").is_none() {
            let message = format!("`{name}`: expected a scenario of training");
            return Err(Refusal::new("job", message));
        }
        let mut set = Vec::new();
        if let Some(machine) = self.get("machine") {
            set.push(("machine".to_owned(), json!(machine)));
        }
        let ddp = base.pointer("/job/training/data_parallel/ddp").is_some();
        if !ddp && self.get("bucket").is_some() {
            let message = format!("{name} has no buckets: only data parallelism by DDP has");
            return Err(Refusal::new("bucket", message));
        }
        let (axis, at) = match ddp {
            true => (Axis::Bucket, self.bytes("bucket", BUCKET)?),
            false => (Axis::Speed, (self.slow()?.1 * 100.0).round() as u64),
        };
        Ok(Asked {
            base,
            set,
            faults: Vec::new(),
            slow: (String::new(), 1.0),
            axis,
            at,
        })
    }

    fn bytes(&self, control: &str, default: &str) -> Result<u64, Refusal> {
        let text = self.get(control).unwrap_or(default);
        let read = Bytes::parse_flag(text);
        read.map(Bytes::get)
            .map_err(|error| Refusal::new(control, format!("`{text}`: {error}")))
    }

    /// What is different about the machine.
    fn machine(&self) -> Result<Vec<(String, Value)>, Refusal> {
        let mut set = Vec::new();
        for (control, place) in [("nodes", "nodes"), ("gpus", "gpus_per_node")] {
            if let Some(text) = self.get(control) {
                let count: u32 = text.parse().map_err(|_| {
                    Refusal::new(control, format!("`{text}`: expected a whole number"))
                })?;
                set.push((place.to_owned(), json!(count)));
            }
        }
        for (name, value) in &self.0 {
            if let Some(link) = name.strip_prefix("rate.") {
                check_rate(name, link, value)?;
                let place = format!("topology.hardware.links.{link}.lane_rate.value");
                set.push((place, json!(value)));
            }
        }
        if let Some(text) = self.get("oversubscription") {
            let ratio = number("oversubscription", text)?;
            set.push(("oversubscription".to_owned(), json!(ratio)));
        }
        Ok(set)
    }

    /// What goes wrong beside a slow GPU.
    fn faults(&self) -> Result<Vec<Value>, Refusal> {
        let mut faults = Vec::new();
        let nic = self.share("nic", "a NIC and its share, such as node1/nic2:0.5")?;
        // A share of 1 is all of it, which is simulated faster without a fault.
        if let Some((links, factor)) = nic.filter(|&(_, factor)| factor != 1.0) {
            faults.push(json!({ "link": { "links": links, "factor": factor } }));
        }
        if let Some(device) = self.get("kill") {
            faults.push(json!({ "failed": { "devices": device, "at": "0s" } }));
        }
        Ok(faults)
    }

    /// The ranks of the slow GPU, and its speed; a whole one, if there is none.
    fn slow(&self) -> Result<(String, f64), Refusal> {
        let slow = self.share("slow", "a rank and its speed, such as 5:0.8")?;
        Ok(slow.map_or(("0".to_owned(), 1.0), |(ranks, speed)| {
            (ranks.to_owned(), speed)
        }))
    }

    /// A place and a share of something.
    fn share(&self, control: &str, expected: &str) -> Result<Option<(&str, f64)>, Refusal> {
        let Some(text) = self.get(control) else {
            return Ok(None);
        };
        let parts = text.rsplit_once(':').filter(|(what, _)| !what.is_empty());
        let (what, share) =
            parts.ok_or_else(|| Refusal::new(control, format!("`{text}`: expected {expected}")))?;
        Ok(Some((what, number(control, share)?)))
    }
}

/// A rate of a kind of link that there is.
fn check_rate(control: &str, link: &str, value: &str) -> Result<(), Refusal> {
    let links = &hardware().links;
    if !links.contains_key(link) {
        let near = nearest(link, links.keys().map(String::as_str));
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let message = format!("there is no kind of link `{link}`{near}");
        return Err(Refusal::new(control, message));
    }
    match Bandwidth::parse(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::new(control, format!("`{value}`: {error}"))),
    }
}

fn number(control: &str, text: &str) -> Result<f64, Refusal> {
    let read = text.parse::<f64>().ok().filter(|number| number.is_finite());
    read.ok_or_else(|| Refusal::new(control, format!("`{text}`: expected a number")))
}

impl Asked {
    /// All points of the curve, that of the state among them; the nearest to it first.
    pub(crate) fn others(&self) -> Vec<u64> {
        let mut points = self.axis.points();
        points.retain(|&x| x != self.at);
        let from = (self.at.max(1) as f64).ln();
        points.sort_by(|&a, &b| {
            let far = |x: u64| ((x.max(1) as f64).ln() - from).abs();
            far(a).total_cmp(&far(b))
        });
        points
    }

    /// The scenario at a place of the axis.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub(crate) fn scenario(&self, at: u64, machines: &Machines) -> Result<Scenario, ScenarioError> {
        let mut set = self.set.clone();
        match self.axis {
            Axis::Size => set.push(("size".to_owned(), json!(at))),
            Axis::Bucket => set.push(("bucket".to_owned(), json!(format!("{at}B")))),
            Axis::Speed => {}
        }
        let (ranks, mut speed) = self.slow.clone();
        if self.axis == Axis::Speed && at != self.at {
            speed = at as f64 / 100.0;
        }
        let mut faults = self.faults.clone();
        if speed != 1.0 {
            faults.push(json!({ "slow_gpu": { "ranks": ranks, "speed": speed } }));
        }
        // A shipped scenario may have faults of its own.
        if !faults.is_empty() {
            set.push(("faults".to_owned(), Value::Array(faults)));
        }
        with_values(&self.base, ORIGIN, &set, (Path::new(""), machines))
    }

    /// The scenario of the state itself; with why NCCL chooses what it does, where it may.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub(crate) fn shown(&self, machines: &Machines) -> Result<Scenario, ScenarioError> {
        let scenario = self.scenario(self.at, machines)?;
        let chooses = |job: &Value| job.get("algorithm").or(job.get("protocol")).is_none();
        match scenario
            .json
            .pointer("/job/collective")
            .is_some_and(chooses)
        {
            true => scenario.with("job.collective.why", json!(true)),
            false => Ok(scenario),
        }
    }

    /// The scenario that gives the whole curve, with the details of the state.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub(crate) fn exported(&self, machines: &Machines) -> Result<Scenario, ScenarioError> {
        let scenario = self.scenario(self.at, machines)?;
        if self.axis != Axis::Size {
            return Ok(scenario);
        }
        let mut sizes = self.axis.points();
        sizes.push(self.at);
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.iter().map(|&x| Bytes::new(x).to_string()).collect();
        let list = json!({ "list": sizes });
        let scenario = scenario.with("job.collective.sizes", list)?;
        let trace = json!(Bytes::new(self.at).to_string());
        scenario.with("job.collective.trace", trace)
    }
}

/// Controls by the places of a scenario that they set; the first that fits.
const PLACES: &[(&str, &str)] = &[
    ("topology.name", "machine"),
    ("nodes", "nodes"),
    ("gpus_per_node", "gpus"),
    ("--oversubscription", "oversubscription"),
    ("fabrics", "oversubscription"),
    ("job.collective.sizes", "size"),
    ("job.collective.algorithm", "algorithm"),
    ("job.collective.protocol", "protocol"),
    ("job.training.data_parallel", "bucket"),
    ("job.training.parallel", "nodes"),
    ("job.training", "job"),
    ("environment", "env"),
];

/// Controls by what the place of a fault says that it is.
const FAULTS: &[(&str, &str)] = &[("slow_gpu", "slow"), ("link", "nic"), ("failed", "kill")];

/// What a scenario's error is about.
pub(crate) fn refusal(error: &ScenarioError) -> Refusal {
    let control = match error {
        ScenarioError::Input(TopologyError::Faults { faults, .. }) => {
            let first = faults.first();
            let control = first.map_or_else(String::new, |fault| control_of(&fault.path));
            let said: Vec<String> = faults.iter().map(described).collect();
            return Refusal::new(&control, said.join("\n"));
        }
        ScenarioError::Input(TopologyError::UnknownName { .. }) => "machine".into(),
        ScenarioError::Overridden { path, .. } => control_of(path),
        ScenarioError::Nccl(NcclError::Env { .. }) => "env".into(),
        ScenarioError::Nccl(_) => "algorithm".into(),
        ScenarioError::PlannedAround { .. } => "kill".into(),
        ScenarioError::Memory(_) => "nodes".into(),
        _ => String::new(),
    };
    Refusal::new(&control, error.to_string())
}

/// A fault without its place, which is where it is shown.
fn described(fault: &Fault) -> String {
    let near = fault.nearest.as_ref();
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    format!("found {}; expected {}{near}", fault.found, fault.expected)
}

fn control_of(path: &str) -> String {
    let path = path.strip_prefix("--set ").unwrap_or(path);
    let path = path.strip_prefix("topology.inline.").unwrap_or(path);
    if let Some(rest) = path.strip_prefix("hardware.links.") {
        return format!("rate.{}", rest.split('.').next().unwrap_or(rest));
    }
    let found = match path.starts_with("faults") {
        true => FAULTS.iter().find(|(kind, _)| path.contains(kind)),
        false => PLACES.iter().find(|(place, _)| path.starts_with(place)),
    };
    found.map_or_else(String::new, |&(_, control)| control.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(values: &[(&str, &str)]) -> State {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        State(values.iter().map(own).collect())
    }

    fn scenario(values: &[(&str, &str)], at: Option<u64>) -> Value {
        let asked = state(values).asked().unwrap();
        let at = at.unwrap_or(asked.at);
        asked.scenario(at, &Machines::default()).unwrap().json
    }

    #[test]
    fn a_curve_starts_at_the_state_and_goes_to_its_neighbours_first() {
        let asked = state(&[("size", "3MiB")]).asked().unwrap();
        let others = asked.others();
        assert_eq!((asked.at, others.len()), (3 << 20, 21));
        assert_eq!(others[..3], [4 << 20, 2 << 20, 8 << 20]);
        let asked = state(&[("size", "64MiB")]).asked().unwrap();
        assert_eq!(asked.others().len(), 20);
    }

    #[test]
    fn a_point_of_the_curve_differs_from_the_state_in_its_place_alone() {
        let values = [
            ("job", "fsdp-70b-32gpu"),
            ("slow", "3:0.9"),
            ("nic", "node0/nic1:0.5"),
        ];
        let at = |at| scenario(&values, at)["faults"].clone();
        let nic = json!({ "link": { "links": "node0/nic1", "factor": 0.5 } });
        let slow = |speed| json!({ "slow_gpu": { "ranks": "3", "speed": speed } });
        assert_eq!(at(None), json!([nic, slow(0.9)]));
        assert_eq!(at(Some(70)), json!([nic, slow(0.7)]));
        assert_eq!(at(Some(100)), json!([nic]));
        let values = [("job", "ddp-buckets"), ("bucket", "5MiB")];
        let ddp = |at| {
            let found = scenario(&values, at);
            found["job"]["training"]["data_parallel"]["ddp"]["bucket"].clone()
        };
        assert_eq!(ddp(None), "5242880B");
        assert_eq!(ddp(Some(1 << 20)), "1048576B");
    }

    #[test]
    fn nothing_said_is_a_shipped_machine_without_faults() {
        let found = scenario(&[], None);
        assert_eq!(found["topology"], json!({ "name": "dgx-h100" }));
        assert!(found.get("faults").is_none());
        assert!(found["job"]["collective"].get("algorithm").is_none());
    }
}
