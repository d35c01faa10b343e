//! What the page's controls offer.

use fabricsim_collective::Collective;
use fabricsim_experiment::{ScenarioError, catalogue as scenarios};
use fabricsim_nccl::Algorithm;
use fabricsim_plan::ProtocolKind;
use fabricsim_topology::{TopologyError, catalogue};
use serde::Serialize;
use serde_json::{Value, json};

/// All that the page's script has to know at first.
#[derive(Debug, Serialize)]
pub(crate) struct Choices {
    machines: Vec<Machine>,
    collectives: Vec<CollectiveChoice>,
    protocols: Vec<&'static str>,
    trainings: Vec<Training>,
}

#[derive(Debug, Serialize)]
struct Machine {
    name: &'static str,
    title: String,
    links: Vec<Link>,
    /// Whether its fabrics have leaves with ports up and down.
    leaves: bool,
}

/// A kind of link of a machine.
#[derive(Debug, Serialize)]
struct Link {
    name: String,
    family: &'static str,
    /// Of a lane, one direction.
    gbs: f64,
}

#[derive(Debug, Serialize)]
struct CollectiveChoice {
    name: &'static str,
    /// NCCL's algorithms that serve it, and those beside NCCL's.
    algorithms: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Training {
    name: &'static str,
    title: String,
    machine: String,
    nodes: Option<u64>,
    /// Whether gradients are summed in buckets.
    buckets: bool,
}

impl Choices {
    /// Reads what the program carries with it.
    ///
    /// # Errors
    /// A shipped file that is none; tests read them all.
    pub(crate) fn of_catalogues() -> Result<Choices, ScenarioError> {
        let machines = catalogue::names().map(machine);
        let collectives = Collective::ALL.into_iter();
        // A matrix is no control.
        let collectives = collectives.filter(|c| *c != Collective::AllToAllV);
        let trainings: Result<Vec<Option<Training>>, ScenarioError> =
            scenarios::names().map(training).collect();
        Ok(Choices {
            machines: machines.collect::<Result<_, TopologyError>>()?,
            collectives: collectives.map(collective).collect(),
            protocols: ProtocolKind::ALL.map(ProtocolKind::name).to_vec(),
            trainings: trainings?.into_iter().flatten().collect(),
        })
    }
}

fn collective(collective: Collective) -> CollectiveChoice {
    // How buffers are registered is no control, without which there are no kernels on windows.
    let serve = |a: &Algorithm| a.serves(collective) && !a.is_symmetric();
    let algorithms = Algorithm::ALL.into_iter().filter(serve);
    CollectiveChoice {
        name: collective.name(),
        algorithms: algorithms.map(Algorithm::name).collect(),
    }
}

fn machine(name: &'static str) -> Result<Machine, TopologyError> {
    let spec = catalogue::find(name)?;
    let json = json!(spec);
    let mut names = Vec::new();
    link_names(&json, &mut names);
    let hardware = catalogue::hardware();
    let links = names.into_iter().filter_map(|name| {
        let own = spec.hardware.as_ref().and_then(|own| own.links.get(&name));
        let model = own.or_else(|| hardware.links.get(&name))?;
        Some(Link {
            family: model.family.label(),
            gbs: model.lane_rate.value.gb_per_sec(),
            name,
        })
    });
    let shapes = json["fabrics"].as_object().into_iter().flatten();
    let mut shapes = shapes.filter_map(|(_, fabric)| fabric["shape"].as_object());
    let leafy = ["leaf_spine", "rail_optimized", "rail_only"];
    Ok(Machine {
        name,
        title: spec.title.clone(),
        links: links.collect(),
        leaves: shapes.any(|shape| leafy.iter().any(|name| shape.contains_key(*name))),
    })
}

/// Kinds of links that a topology names, each once, in the order of the file.
fn link_names(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_link = ["link", "port_link", "switch_link"].contains(&key.as_str());
                match value.as_str().filter(|_| is_link) {
                    Some(name) if !names.iter().any(|known| known == name) => {
                        names.push(name.to_owned());
                    }
                    Some(_) => {}
                    None => link_names(value, names),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| link_names(value, names)),
        _ => {}
    }
}

fn training(name: &'static str) -> Result<Option<Training>, ScenarioError> {
    let json = fabricsim_experiment::parse(scenarios::text(name)?, name, &[])?.json;
    let Some(job) = json.pointer("/job/training") else {
        return Ok(None);
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(Some(Training {
        name,
        title: text(&json["title"]),
        machine: text(&json["topology"]["name"]),
        nodes: json["nodes"].as_u64(),
        buckets: job["data_parallel"].get("ddp").is_some(),
    }))
}
