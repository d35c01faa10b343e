//! What an axis' value does to a scenario: places of it, of its machine's file, and short names.

use crate::compare::filling;
use crate::error::ScenarioError;
use crate::read::{Scenario, changed, with_places};
use crate::site::Machines;
use crate::spec::TopologyRef;
use fabricsim_topology::compact::{Changes, edited};
use fabricsim_topology::{catalogue, load};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Short names of places, by the kind of job that has them; of any job first.
const SHORT: &[(&str, &str)] = &[
    ("machine", "topology"),
    ("oversubscription", "topology.oversubscription"),
    ("size", "job.collective.sizes"),
    ("collective", "job.collective.name"),
    ("algorithm", "job.collective.algorithm"),
    ("protocol", "job.collective.protocol"),
    ("model", "job.training.model"),
    ("micro_batch", "job.training.micro_batch"),
    ("global_batch", "job.training.global_batch"),
    ("sequence", "job.training.sequence"),
    ("recompute", "job.training.recompute"),
    ("tp", "job.training.parallel.tp"),
    ("pp", "job.training.parallel.pp"),
    ("cp", "job.training.parallel.cp"),
    ("ep", "job.training.parallel.ep"),
    ("dp", "job.training.parallel.dp"),
    ("virtual_stages", "job.training.parallel.virtual_stages"),
    ("bucket", "job.training.data_parallel.ddp.bucket"),
];

/// The short name of a place.
pub(super) fn short_name(place: &str) -> Option<&'static str> {
    let mut rows = SHORT.iter();
    rows.find(|(_, full)| *full == place)
        .map(|&(short, _)| short)
}

/// How many GPUs take part: whole nodes, or some of one. It is found once the machine is known.
const GPUS: &str = "gpus";

/// What a point changes, sorted by when it has to be done.
#[derive(Debug, Default)]
struct Edits {
    /// Places of the scenario.
    plain: BTreeMap<String, Value>,
    /// Places of the machine's file.
    machine: Changes,
    gpus: Option<Value>,
}

impl Edits {
    fn of(set: &[(String, Value)]) -> Self {
        let mut edits = Edits::default();
        for (path, value) in set {
            edits.add(path, value);
        }
        edits
    }

    fn add(&mut self, path: &str, value: &Value) {
        if path == GPUS {
            self.gpus = Some(value.clone());
            return;
        }
        let short = SHORT.iter().find(|&&(short, _)| short == path);
        let place = short.map_or(path, |&(_, place)| place);
        let text = value.as_str();
        match (place, text) {
            // A name or a file's path.
            ("topology", Some(machine)) => {
                let kind = match load::is_path(machine) {
                    true => "path",
                    false => "name",
                };
                self.plain
                    .insert(place.to_owned(), json!({ kind: machine }));
            }
            ("job.training.model", Some(preset)) => {
                let model = json!({ "preset": preset });
                self.plain.insert(place.to_owned(), model);
            }
            ("job.collective.sizes", Some(_)) => self.one_size(place, value.clone()),
            ("job.collective.sizes", None) if value.is_u64() => {
                self.one_size(place, format!("{value}B").into());
            }
            _ => match machine_place(place) {
                Some("oversubscription") if value.is_number() => {
                    self.machine.oversubscription = value.as_f64();
                }
                Some(inner) => self.machine.set.push(format!("{inner}={value}")),
                None => {
                    self.plain.insert(place.to_owned(), value.clone());
                }
            },
        }
    }

    fn one_size(&mut self, place: &str, size: Value) {
        let sizes = json!({ "list": [size] });
        self.plain.insert(place.to_owned(), sizes);
    }
}

/// The place in the machine's file, of a place of a scenario that is none of its own.
fn machine_place(path: &str) -> Option<&str> {
    let inner = path.strip_prefix("topology.")?;
    let first = inner.split('.').next().unwrap_or(inner);
    (!["name", "path", "inline"].contains(&first)).then_some(inner)
}

/// The scenario with values in their places, which have short names (`size`, `gpus`,
/// `oversubscription`). Relative paths start at `folder`.
///
/// # Errors
/// A value without a place, or one that does not belong there.
pub fn with_values(
    base: &Value,
    origin: &str,
    set: &[(String, Value)],
    (folder, machines): (&Path, &Machines),
) -> Result<Scenario, ScenarioError> {
    let edits = Edits::of(set);
    let mut scenario = with_places(base, origin, &edits.plain)?;
    if edits.machine != Changes::default() {
        let inline = edited_machine(&scenario.spec.topology, &edits.machine, folder)?;
        scenario = scenario.with("topology", json!({ "inline": inline }))?;
    }
    if let Some(gpus) = &edits.gpus {
        let count = gpus.as_u64().and_then(|gpus| u32::try_from(gpus).ok());
        let mut own = scenario.spec.clone();
        (own.nodes, own.gpus_per_node) = (None, None);
        let machine = machines.of(&own, folder, origin)?;
        let (nodes, of_each) = filling(&machine.topology, count.unwrap_or(0), origin)?;
        let set = BTreeMap::from([
            ("nodes".to_owned(), json!(nodes)),
            ("gpus_per_node".to_owned(), json!(of_each)),
        ]);
        scenario = changed(&scenario.json, origin, GPUS, &set)?;
    }
    Ok(scenario)
}

/// The machine's file.
///
/// # Errors
/// A machine that is none, a file that cannot be read.
pub(crate) fn machine_file(topology: &TopologyRef, folder: &Path) -> Result<Value, ScenarioError> {
    edited_machine(topology, &Changes::default(), folder)
}

/// The machine's file with changes.
fn edited_machine(
    topology: &TopologyRef,
    changes: &Changes,
    folder: &Path,
) -> Result<Value, ScenarioError> {
    let (text, name) = match topology {
        TopologyRef::Name(name) => {
            catalogue::find(name)?;
            let text = catalogue::text(name).unwrap_or_default();
            (text.to_owned(), name.clone())
        }
        TopologyRef::Path(path) => {
            let path = folder.join(path);
            (load::read_text(&path)?, path.display().to_string())
        }
        TopologyRef::Inline(spec) => (json!(spec).to_string(), spec.name.clone()),
    };
    Ok(load::from_json(&edited(&text, &name, changes)?, &name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::parse;

    const BASE: &str = r#"{"name": "b", "topology": {"name": "superpod-h100"},
        "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["1MiB"]}}}}"#;

    fn with(set: &[(&str, Value)]) -> Result<Scenario, String> {
        let base = parse(BASE, "b.json", &[]).unwrap();
        let set: Vec<(String, Value)> = set
            .iter()
            .map(|(path, value)| ((*path).to_owned(), value.clone()))
            .collect();
        let at = (Path::new(""), &Machines::default());
        with_values(&base.json, "b.json", &set, at).map_err(|error| error.to_string())
    }

    #[test]
    fn values_go_to_the_scenario_its_machine_and_its_nodes() {
        let set = [
            ("gpus", json!(64)),
            ("oversubscription", json!(2)),
            ("topology.fabrics.compute.routing", json!("ecmp")),
            ("size", json!("8MiB")),
            ("protocol", json!("simple")),
        ];
        let scenario = with(&set).unwrap();
        assert_eq!(scenario.spec.nodes, Some(8));
        let machine = &scenario.json["topology"]["inline"]["fabrics"]["compute"];
        assert_eq!(machine["routing"], "ecmp");
        assert_eq!(machine["shape"]["rail_optimized"]["oversubscription"], 2.0);
        let job = &scenario.json["job"]["collective"];
        assert_eq!(job["sizes"]["list"], json!(["8MiB"]));
        assert_eq!(job["protocol"], "simple");
    }

    #[test]
    fn places_that_are_none_are_refused_with_the_nearest() {
        for (path, value, part) in [
            ("nods", json!(2), "`nodes`?"),
            ("job.collective.algoritm", json!("ring"), "`algorithm`?"),
            (
                "topology.fabrics.compute.rooting",
                json!("ecmp"),
                "`routing`?",
            ),
            ("gpus", json!(12), "8 or 16"),
            (
                "machine",
                json!("dgx-h10"),
                "did you mean `dgx-h100` or `dgx-h100-nvme`?",
            ),
        ] {
            let error = match with(&[(path, value)]) {
                Err(error) => error,
                // A machine is looked for when it is built.
                Ok(scenario) => crate::validate(scenario, Path::new(""))
                    .unwrap_err()
                    .to_string(),
            };
            assert!(error.contains(part), "{path}: {error}");
        }
    }
}
