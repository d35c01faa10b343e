//! A shipped machine in the form in which its file has it, with values of one's own.
//!
//! Not the machine that [`super::export`] writes out in full: instances keep their count and fabrics
//! their shape, so that the file can be edited and takes any number of nodes.

use super::catalogue;
use super::edit::put;
use super::error::{Fault, TopologyError};
use super::expand::{Overrides, expand};
use super::load;
use super::spec::{FabricShape, InstanceSpec, TopologySpec};
use serde_json::{Value, json};

/// What a new file has other than the shipped one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// So many nodes, as counts of instances.
    pub nodes: Option<u32>,
    /// Ports down : up of leaves, in every fabric that has such a ratio.
    pub oversubscription: Option<f64>,
    /// Values by their places: `fabrics.compute.routing=ecmp`. They are put in last.
    pub set: Vec<String>,
}

/// The text of a shipped topology, with changes. It describes a machine.
///
/// # Errors
/// [`TopologyError::UnknownName`]; [`TopologyError::Faults`] for changes that have no place in the file,
/// or that leave no machine.
pub fn compact(name: &str, changes: &Changes) -> Result<String, TopologyError> {
    catalogue::find(name)?;
    compact_text(catalogue::text(name).unwrap_or_default(), name, changes)
}

fn compact_text(text: &str, name: &str, changes: &Changes) -> Result<String, TopologyError> {
    let text = edited(text, name, changes)?;
    let changed = load::parse(&text, name).map_err(|error| without_lines(error, name))?;
    expand(&changed, catalogue::hardware(), &Overrides::default())
        .map_err(|error| error.with_origin(&format!("{name} with these changes")))?;
    Ok(text)
}

/// The text of a topology file, with changes; that it describes a machine is left to be found. A model
/// of the shipped hardware, of which a change names a part
/// (`hardware.links.ib-ndr400.lane_rate.value=25GB/s`), is put into the file first.
///
/// # Errors
/// [`TopologyError::Faults`] for changes that have no place in the file; a text that is no topology.
pub fn edited(text: &str, name: &str, changes: &Changes) -> Result<String, TopologyError> {
    let spec = load::parse(text, name)?;
    let mut text = text.to_owned();
    let refused = |fault| TopologyError::Faults {
        origin: name.to_owned(),
        faults: vec![fault],
    };
    let mut edits = Vec::new();
    if let Some(nodes) = changes.nodes {
        edits.extend(node_counts(&spec, nodes).map_err(refused)?);
    }
    if let Some(ratio) = changes.oversubscription {
        edits.extend(oversubscribed(&spec, ratio).map_err(refused)?);
    }
    for set in &changes.set {
        let wrong = |found: &str| refused(Fault::new(format!("--set {set}"), found, PLACE));
        let (path, value) = set.split_once('=').ok_or_else(|| wrong("no `=`"))?;
        if path.split('.').any(str::is_empty) {
            return Err(wrong("a name without letters"));
        }
        edits.extend(model_of(&text, path).filter(|(model, _)| *model != path));
        edits.push((path.to_owned(), value.to_owned()));
    }
    for (path, value) in edits {
        text = put(&text, &path, &value)
            .map_err(|problem| refused(Fault::new(format!("--set {path}"), problem, PLACE)))?;
    }
    Ok(text)
}

/// The model of the shipped hardware that a path leads into, where the file has none of that name.
fn model_of(text: &str, path: &str) -> Option<(String, String)> {
    let names: Vec<&str> = path.split('.').collect();
    // The one figure that is no model's is taken as a whole, too.
    let place = match names.as_slice() {
        ["hardware", "server_overhead", ..] => &names[1..2],
        ["hardware", _, _, ..] => &names[1..3],
        _ => return None,
    };
    let at = |top: &Value| place.iter().try_fold(top, |v, name| v.get(name)).cloned();
    let own: Value = serde_json::from_str(text).ok()?;
    if own.get("hardware").and_then(at).is_some() {
        return None;
    }
    let shipped = serde_json::to_value(catalogue::hardware()).ok()?;
    let model = at(&shipped)?;
    Some((format!("hardware.{}", place.join(".")), model.to_string()))
}

/// What `--set` takes.
const PLACE: &str = "a place of the file and a value, such as instances.0.count=16";

/// An error in the text with its changes, whose lines nobody has seen.
fn without_lines(error: TopologyError, name: &str) -> TopologyError {
    match error {
        TopologyError::Json {
            path,
            message,
            nearest,
            ..
        } => TopologyError::Faults {
            origin: format!("{name} with these changes"),
            faults: vec![Fault {
                nearest,
                ..Fault::new(path, message, "what `fabricsim schema topology` has there")
            }],
        },
        other => other,
    }
}

/// Where so many nodes are counted: in the entry that is a node, or in racks. Where there are several,
/// all are full: a fabric's leaves take so many nodes in a row (`nodes_per_unit`), and only
/// [`Overrides::nodes`] knows where in a rack some are missing.
fn node_counts(spec: &TopologySpec, nodes: u32) -> Result<Vec<(String, String)>, Fault> {
    let refused = |found: String, expected: String| Fault::new("--nodes", found, expected);
    if nodes == 0 {
        return Err(refused("0".into(), "at least 1".into()));
    }
    let set = |path: String, count: u32| (format!("{path}.count"), count.to_string());
    let outside = || {
        let expected = "`count` of `instances`, by --set";
        refused("nodes in several entries".into(), expected.into())
    };
    let (top, outer) = with_nodes(spec, &spec.instances, "instances").ok_or_else(outside)?;
    let component = &spec.components[&outer.component];
    if component.node {
        return Ok(vec![set(top, nodes)]);
    }
    let within = format!("components.{}.instances", outer.component);
    let (inner, each) = with_nodes(spec, &component.instances, &within).ok_or_else(outside)?;
    let full = nodes_in(spec, &outer.component).ok_or_else(outside)?;
    if nodes.is_multiple_of(full) {
        return Ok(vec![set(top, nodes / full)]);
    }
    // A rack may be filled in part, racks of racks may not: which trays are missing is not known.
    let in_part = spec.components[&each.component].node;
    if nodes < full && in_part {
        return Ok(vec![set(top, 1), set(inner, nodes)]);
    }
    let (rack, racks) = (&outer.name, nodes / full);
    let (below, above) = (racks * full, (racks + 1).saturating_mul(full));
    let multiple = match below {
        0 => format!("a multiple, such as {above}"),
        _ => format!("a multiple: {below} or {above}"),
    };
    Err(refused(
        format!("{nodes}, which fill no whole number of `{rack}` with {full} each"),
        match in_part {
            true => format!("up to {full}, or {multiple}"),
            false => multiple,
        },
    ))
}

/// Nodes in a component, where only one entry of it and of what is in it holds any.
fn nodes_in(spec: &TopologySpec, component: &str) -> Option<u32> {
    let own = spec.components.get(component)?;
    if own.node {
        return Some(1);
    }
    let (_, inner) = with_nodes(spec, &own.instances, "")?;
    Some(nodes_in(spec, &inner.component)?.saturating_mul(inner.count)).filter(|&nodes| nodes > 0)
}

/// The only one of some instances that is or holds a node, with its place in the file.
fn with_nodes<'s>(
    spec: &'s TopologySpec,
    instances: &'s [InstanceSpec],
    at: &str,
) -> Option<(String, &'s InstanceSpec)> {
    let holds = |instance: &InstanceSpec| holds_node(spec, &instance.component);
    let mut found = instances.iter().enumerate().filter(|(_, i)| holds(i));
    let (index, instance) = found.next()?;
    let only = found.next().is_none();
    only.then(|| (format!("{at}.{index}"), instance))
}

/// Whether a component of a machine is or holds a node. Shipped machines have no circles.
fn holds_node(spec: &TopologySpec, component: &str) -> bool {
    spec.components.get(component).is_some_and(|component| {
        let mut inner = component.instances.iter();
        component.node || inner.any(|instance| holds_node(spec, &instance.component))
    })
}

/// Where a ratio of leaves' ports stands.
fn oversubscribed(spec: &TopologySpec, ratio: f64) -> Result<Vec<(String, String)>, Fault> {
    if !(ratio.is_finite() && ratio > 0.0) {
        let expected = "more than 0: ports of a leaf down : up";
        return Err(Fault::new(
            "--oversubscription",
            ratio.to_string(),
            expected,
        ));
    }
    let mut edits = Vec::new();
    let mut others = Vec::new();
    for (name, fabric) in &spec.fabrics {
        let shape = match &fabric.shape {
            FabricShape::LeafSpine(_) => "leaf_spine",
            FabricShape::RailOptimized(_) => "rail_optimized",
            FabricShape::RailOnly(_) => "rail_only",
            FabricShape::SingleSwitch(_) => {
                others.push(format!("`{name}`, a single switch"));
                continue;
            }
            FabricShape::Dragonfly(_) => {
                others.push(format!("`{name}`, a dragonfly"));
                continue;
            }
            FabricShape::Explicit(_) => {
                others.push(format!("`{name}`, whose cables are given one by one"));
                continue;
            }
        };
        let path = format!("fabrics.{name}.shape.{shape}.oversubscription");
        edits.push((path, json!(ratio).to_string()));
    }
    if edits.is_empty() {
        let found = match others.as_slice() {
            [] => "no fabric".to_owned(),
            some => some.join(", "),
        };
        let expected = "a fabric of leaves and spines, or of rails";
        return Err(Fault::new("--oversubscription", found, expected));
    }
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{export, to_json};

    fn machine(text: &str, nodes: Option<u32>) -> String {
        let spec = load::parse(text, "new").unwrap_or_else(|e| panic!("{e}"));
        let machine = expand(&spec, catalogue::hardware(), &Overrides { nodes });
        to_json(&export(&machine.unwrap_or_else(|e| panic!("{e}"))))
    }

    #[test]
    fn without_changes_it_is_the_shipped_file() {
        for name in catalogue::names() {
            let text = compact(name, &Changes::default()).unwrap();
            assert_eq!(text, catalogue::text(name).unwrap());
            assert_eq!(
                load::parse(&text, name).unwrap(),
                catalogue::find(name).unwrap()
            );
        }
    }

    #[test]
    fn counts_of_nodes_give_the_machine_that_the_option_gives() {
        for name in catalogue::names() {
            for nodes in [1, 4, 18, 36] {
                // Racks of racks are whole.
                if name == "gb200-nvl36x2" && nodes % 18 != 0 {
                    continue;
                }
                let changes = Changes {
                    nodes: Some(nodes),
                    ..Changes::default()
                };
                let text = compact(name, &changes).unwrap_or_else(|e| panic!("{e}"));
                let shipped = catalogue::text(name).unwrap();
                assert_eq!(
                    machine(&text, None),
                    machine(shipped, Some(nodes)),
                    "{name}"
                );
                // A line or two are other ones.
                let same = text.lines().zip(shipped.lines()).filter(|(a, b)| a == b);
                assert!(same.count() + 2 >= shipped.lines().count(), "{text}");
            }
        }
    }

    fn refused(name: &str, changes: Changes) -> String {
        compact(name, &changes).unwrap_err().to_string()
    }

    #[test]
    fn nodes_that_fill_no_racks_name_their_neighbours() {
        let nodes = |nodes| Changes {
            nodes: Some(nodes),
            ..Changes::default()
        };
        let said = refused("gb200-nvl72", nodes(37));
        assert!(said.contains("36 or 54"), "{said}");
        let said = refused("gb200-nvl36x2", nodes(19));
        assert!(said.contains("a multiple: 18 or 36"), "{said}");
        assert!(refused("gb200-nvl36x2", nodes(4)).contains("such as 18"));
        assert!(refused("dgx-h100", nodes(0)).contains("at least 1"));
    }

    #[test]
    fn a_ratio_goes_to_the_fabrics_that_have_one() {
        let ratio = |ratio| Changes {
            oversubscription: Some(ratio),
            ..Changes::default()
        };
        let text = compact("superpod-h100", &ratio(2.0)).unwrap();
        let line = r#""rail_optimized": { "nodes_per_unit": 32, "oversubscription": 2.0 }"#;
        assert!(text.contains(line), "{text}");
        let said = refused("gh200-quad", ratio(2.0));
        assert!(said.contains("a dragonfly"), "{said}");
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let said = refused("superpod-h100", ratio(wrong));
            assert!(said.contains("more than 0"), "{said}");
        }
    }

    #[test]
    fn a_part_of_a_shipped_model_can_be_another() {
        let changes = Changes {
            set: vec!["hardware.links.ib-ndr400.lane_rate.value=12.5GB/s".to_owned()],
            ..Changes::default()
        };
        let text = compact("dgx-h100", &changes).unwrap();
        let spec = load::parse(&text, "new").unwrap();
        let own = &spec.hardware.unwrap().links["ib-ndr400"];
        let shipped = &catalogue::hardware().links["ib-ndr400"];
        assert_eq!(own.lane_rate.value.bytes_per_sec(), 12_500_000_000);
        assert_eq!(own.latency, shipped.latency);
        let changes = Changes {
            set: vec!["hardware.links.ib-nrd400.lane_rate.value=12.5GB/s".to_owned()],
            ..Changes::default()
        };
        assert!(refused("dgx-h100", changes).contains("hardware.links.ib-nrd400"));
    }

    #[test]
    fn values_stand_where_they_are_put_and_are_checked() {
        let set = |texts: &[&str]| Changes {
            set: texts.iter().map(|&text| text.to_owned()).collect(),
            ..Changes::default()
        };
        let changes = set(&["name=mine", "fabrics.compute.routing=ecmp"]);
        let text = compact("dgx-h100", &changes).unwrap();
        let shipped = catalogue::text("dgx-h100").unwrap();
        let expected = shipped
            .replace(r#""name": "dgx-h100""#, r#""name": "mine""#)
            .replace("adaptive", "ecmp");
        assert_eq!(text, expected);
        for (text, parts) in [
            ("name", &["--set name", "no `=`"][..]),
            ("a..b=1", &["--set a..b=1", "instances.0.count=16"]),
            ("instances.1.count=1", &["`instances` is a list of 1"]),
            (
                "fabrics.compute.rooting=ecmp",
                &["fabrics.compute", "did you mean `routing`?"],
            ),
            (
                "instances.0.component=dgx-h10",
                &["instances[0].component", "`dgx-h100`?"],
            ),
        ] {
            let said = refused("dgx-h100", set(&[text]));
            for part in parts {
                assert!(said.contains(part), "{text}: `{part}` is not in {said}");
            }
            assert!(!said.contains("line "), "{said}");
        }
    }
}
