//! From a topology's file to the machine.

use super::builder::Builder;
use super::check::{Finding, Severity, check};
use super::error::{Fault, TopologyError};
use super::graph::Topology;
use super::hardware::Hardware;
use super::machine::Machine;
use super::model_checks;
use super::models::Models;
use super::spec::TopologySpec;
use super::template::{MAX_DEVICES, MAX_WIRES, Template, too_many_devices, too_many_wires};
use petgraph::graph::DiGraph;
use std::rc::Rc;

/// What a command line or a sweep changes of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrides {
    /// So many nodes in place of what the file's counts give. The file's entries are filled in
    /// order, each to the brim before the next; the last one that holds nodes repeats as often as
    /// needed. Copies of one entry (racks) are as few as hold its nodes, and have as many each, the
    /// first ones one more where that leaves some over: as schedulers place jobs that want whole
    /// groups of ranks in one NVLink domain (Slurm's `--segment`). A rack that is not full still
    /// has all devices of its own.
    pub nodes: Option<u32>,
}

/// The machine that a file describes, and what is worth knowing of it: see [`expand()`] and
/// [`check()`].
///
/// # Errors
/// As [`expand()`].
pub fn expand_and_check(
    spec: &TopologySpec,
    hardware: &Hardware,
    overrides: &Overrides,
) -> Result<(Topology, Vec<Finding>), TopologyError> {
    let error = |faults| TopologyError::Faults {
        origin: format!("topology `{}`", spec.name),
        faults,
    };
    let mut faults = Vec::new();
    if let Some(own) = &spec.hardware {
        model_checks::hardware(own, &mut faults);
    }
    let mut models = Models::new(spec.hardware.as_ref(), hardware);
    let mut machine = Machine::default();
    machine.add_instances(spec, overrides, &mut models, &mut faults);
    if faults.is_empty() {
        if spec.fabrics.len() > MAX_FABRICS {
            faults.push(Fault::new(
                "fabrics",
                format!("{} fabrics", spec.fabrics.len()),
                format!("at most {MAX_FABRICS}"),
            ));
        }
        for (name, fabric) in spec.fabrics.iter().take(MAX_FABRICS) {
            machine.add_fabric(name, fabric, &mut models, &mut faults);
        }
    }
    if !faults.is_empty() {
        return Err(error(faults));
    }
    let topology = machine.into_topology(spec, models);
    let (faults, findings): (Vec<Finding>, Vec<Finding>) = check(&topology)
        .into_iter()
        .partition(|finding| finding.severity == Severity::Error);
    if faults.is_empty() {
        return Ok((topology, findings));
    }
    let faults = faults.into_iter().map(|finding| {
        let more = finding.count - 1;
        let found = match more {
            0 => finding.found,
            _ => format!("{} (and at {more} more)", finding.found),
        };
        Fault::new(finding.place, found, finding.expected)
    });
    Err(error(faults.collect()))
}

/// Builds the machine that a file describes. Models come from the file's own `hardware`
/// first, then from `hardware`.
///
/// Devices are numbered instance by instance, each component's own devices (by name, then
/// number) before those of its inner instances; fabrics' switches come last, fabrics in
/// order of name. Both directions of a wire are consecutive links, forward first.
///
/// # Errors
/// [`TopologyError::Faults`] with everything that is wrong: in the file first and, if that
/// is sound, in the machine as a whole (see [`check()`]).
pub fn expand(
    spec: &TopologySpec,
    hardware: &Hardware,
    overrides: &Overrides,
) -> Result<Topology, TopologyError> {
    Ok(expand_and_check(spec, hardware, overrides)?.0)
}

/// More fabrics than any machine has; keeps their numbers within 16 bits.
const MAX_FABRICS: usize = 1000;

/// How an instance of the file is repeated.
struct Fill {
    copies: u64,
    /// Nodes in all copies together, where these are not all full.
    nodes: Option<u64>,
}

impl Fill {
    /// How many nodes a copy has, if it is not full.
    fn part(&self, copy: u64, full: u32) -> Option<u32> {
        let nodes = self.nodes?;
        let own = nodes / self.copies + u64::from(copy < nodes % self.copies);
        u32::try_from(own).ok().filter(|&own| own < full)
    }
}

impl Machine {
    fn add_instances<'a>(
        &mut self,
        spec: &'a TopologySpec,
        overrides: &Overrides,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) {
        let mut builder = Builder::new(spec);
        let templates: Vec<_> = spec
            .instances
            .iter()
            .enumerate()
            .map(|(i, instance)| {
                builder.of_instance(instance, &format!("instances[{i}]"), models, faults)
            })
            .collect();
        // Components that nothing uses are read too, for their faults.
        for name in spec.components.keys() {
            let _ = builder.of_component(name, models, faults);
        }
        if !faults.is_empty() {
            return;
        }
        let templates: Vec<Rc<Template>> = templates.into_iter().flatten().collect();
        if templates.iter().all(|t| t.nodes == 0) {
            faults.push(Fault::new(
                "instances",
                "no instance that is or holds a node",
                "at least one component with `\"node\": true`",
            ));
            return;
        }
        if overrides.nodes == Some(0) {
            faults.push(Fault::new("nodes", "0", "at least 1 node"));
            return;
        }
        let fills = fills(spec, &templates, overrides.nodes);
        let sum = |cost: &dyn Fn(&Template) -> u64| -> u64 {
            let pairs = templates.iter().zip(&fills);
            pairs.fold(0, |sum, (template, fill)| {
                sum.saturating_add(fill.copies.saturating_mul(cost(template)))
            })
        };
        let (devices, wires) = (sum(&Template::size), sum(&|t| t.wires.len() as u64));
        if devices > MAX_DEVICES {
            faults.push(too_many_devices("instances", devices));
        }
        if wires > MAX_WIRES {
            faults.push(too_many_wires("instances", wires));
        }
        if !faults.is_empty() {
            return;
        }
        // A group exists even if the nodes that were asked for have no port of it.
        for template in &templates {
            for group in template.ports.keys() {
                self.ports.entry(group.clone()).or_default();
            }
        }
        self.graph = DiGraph::with_capacity(devices as usize, 2 * wires as usize);
        for ((instance, template), fill) in spec.instances.iter().zip(&templates).zip(fills) {
            let entries = self.in_file.entry(instance.name.clone()).or_default();
            let before = entries.last().map_or(0, |&(end, _)| end);
            entries.push((before + u64::from(instance.count), Rc::clone(template)));
            for copy in 0..fill.copies {
                let part = fill.part(copy, template.nodes);
                self.stamp(&instance.name, template, part);
            }
        }
    }
}

/// How often each instance of the file is repeated.
fn fills(spec: &TopologySpec, templates: &[Rc<Template>], nodes: Option<u32>) -> Vec<Fill> {
    let last = templates.iter().rposition(|t| t.nodes > 0);
    let mut left = nodes.map(u64::from);
    spec.instances
        .iter()
        .zip(templates)
        .enumerate()
        .map(|(i, (instance, template))| {
            let (Some(left), true) = (left.as_mut(), template.nodes > 0) else {
                let copies = u64::from(instance.count);
                return Fill {
                    copies,
                    nodes: None,
                };
            };
            let each = u64::from(template.nodes);
            let room = if Some(i) == last {
                u64::MAX
            } else {
                u64::from(instance.count)
            };
            let copies = left.div_ceil(each).min(room);
            let taken = (*left).min(copies.saturating_mul(each));
            *left -= taken;
            let nodes = Some(taken);
            Fill { copies, nodes }
        })
        .collect()
}
