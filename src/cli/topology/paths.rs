//! Ways through a machine: all of a node as a matrix, or one in full.

use super::super::CliError;
use fabricsim_topology::error::nearest;
use fabricsim_topology::{DeviceId, DeviceKind, Route, Router, Share, Topology, paths};
use fabricsim_topology::{NodeId, RouteError};

/// The matrix of the first node, and of every other one whose matrix differs.
pub(super) fn matrix(topology: &Topology) -> String {
    let mut out = String::new();
    let mut shown: Vec<(paths::PathMatrix, String)> = Vec::new();
    let mut alike = 0;
    for index in 0..topology.nodes.len() {
        let matrix = paths::matrix(topology, NodeId(index as u32));
        if shown.iter().any(|(other, _)| other.cells == matrix.cells) {
            alike += 1;
            continue;
        }
        let name = topology.nodes[index].name.clone();
        shown.push((matrix, name));
        if index == 0 && topology.nodes.len() > MOST_COMPARED {
            alike = topology.nodes.len() - 1;
            break;
        }
    }
    for (matrix, name) in &shown {
        if topology.nodes.len() > 1 {
            out += &format!("{name}\n");
        }
        out += &format!("{matrix}\n");
    }
    if alike > 0 && topology.nodes.len() > MOST_COMPARED {
        out += &format!("({alike} more nodes are not shown)\n");
    } else if alike > 0 {
        let nodes = if alike == 1 { "node is" } else { "nodes are" };
        out += &format!("({alike} more {nodes} wired alike)\n");
    }
    out
}

/// Comparing all nodes of a large machine takes longer than anyone waits.
const MOST_COMPARED: usize = 64;

/// The links from one device to another, with what part of the data crosses each.
pub(super) fn between(
    topology: &Topology,
    from: &str,
    to: &str,
    seed: u64,
) -> Result<String, CliError> {
    let (a, b) = (device(topology, from)?, device(topology, to)?);
    let mut router = Router::new(topology, seed);
    let mut out = String::new();
    if a == b {
        return Ok(format!("{} is where it is\n", topology.device_name(a)));
    }
    for (title, route) in legs(topology, &mut router, a, b)? {
        out += &format!("{title}, latency {}\n", route.latency);
        out += &links(topology, &route);
    }
    Ok(out)
}

/// The parts of the way, each with a heading.
fn legs(
    topology: &Topology,
    router: &mut Router<'_>,
    a: DeviceId,
    b: DeviceId,
) -> Result<Vec<(String, Route)>, RouteError> {
    let kind = |id| topology.device(id).kind;
    let name = |id| topology.device_name(id);
    let same_node = topology.node_of(a).is_some() && topology.node_of(a) == topology.node_of(b);
    if kind(a) == DeviceKind::Gpu
        && kind(b) == DeviceKind::Gpu
        && let Ok(route) = router.peer(a, b)
    {
        return Ok(vec![(
            format!("{} to the memory of {}", name(a), name(b)),
            route,
        )]);
    }
    if same_node {
        // Between GPUs that is through host memory: each half is a copy of its own.
        let middle = router.cpu_of(a).filter(|&cpu| cpu != a && cpu != b);
        return match (kind(a), kind(b), middle) {
            (DeviceKind::Gpu, DeviceKind::Gpu, Some(cpu)) => Ok(vec![
                (
                    format!("{} to the memory of {}", name(a), name(cpu)),
                    router.local(a, cpu)?,
                ),
                (format!("from there to {}", name(b)), router.local(cpu, b)?),
            ]),
            _ => Ok(vec![(
                format!("{} to {}", name(a), name(b)),
                router.local(a, b)?,
            )]),
        };
    }
    // What no node has may be joined all the same: a file server's storage with its own NIC.
    if [a, b].map(kind).contains(&DeviceKind::Storage)
        && let Ok(route) = router.local(a, b)
    {
        return Ok(vec![(format!("{} to {}", name(a), name(b)), route)]);
    }
    let no_fabric = || RouteError::NoSharedFabric {
        from: name(a),
        to: name(b),
    };
    let (out, into) = router.interfaces((a, b), 0).ok_or_else(no_fabric)?;
    let mut legs = Vec::new();
    if out != a {
        let title = format!("{} to {}", name(a), name(out));
        legs.push((title, router.local(a, out)?));
    }
    let title = format!("{} to {} (one flow)", name(out), name(into));
    legs.push((title, router.network(out, into, 0)?));
    if into != b {
        let title = format!("{} to {}", name(into), name(b));
        legs.push((title, router.local(into, b)?));
    }
    Ok(legs)
}

fn links(topology: &Topology, route: &Route) -> String {
    let mut out = String::new();
    let name = |link| topology.link_name(link);
    let width = route.hops.iter().map(|hop| name(hop.link).chars().count());
    let width = width.max().unwrap_or(0);
    for hop in &route.hops {
        let share = if hop.share == Share::WHOLE {
            "all".to_owned()
        } else {
            format!("{}/{}", hop.share.num, hop.share.den)
        };
        out += &format!(
            "  {:<width$}  {:<7}  {share:>7}  {:6.1} GB/s  {}\n",
            name(hop.link),
            topology.family(hop.link).label(),
            topology.rate(hop.link).gb_per_sec(),
            topology.latency(hop.link),
        );
    }
    out
}

/// A device by its full name, or by its name in the first node.
fn device(topology: &Topology, text: &str) -> Result<DeviceId, CliError> {
    let first = topology
        .nodes
        .first()
        .map(|node| format!("{}/{text}", node.name));
    let mut local = None;
    for (id, _) in topology.devices() {
        let name = topology.device_name(id);
        if name == text {
            return Ok(id);
        }
        if Some(&name) == first.as_ref() {
            local = Some(id);
        }
    }
    local.ok_or_else(|| unknown(topology, text))
}

fn unknown(topology: &Topology, text: &str) -> CliError {
    let names: Vec<String> = topology
        .devices()
        .map(|(id, _)| topology.device_name(id))
        .collect();
    let near = nearest(text, names.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |name| format!("\n    did you mean `{name}`?"));
    let example = names.first().map_or("node0/gpu0", String::as_str);
    CliError::Usage(format!(
        "{} has no device `{text}`; devices are called like `{example}`{near}",
        topology.name
    ))
}
