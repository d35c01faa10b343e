//! A node's paths as `nvidia-smi topo -m` prints them, with tabs and all.

use crate::graph::{DeviceKind, NodeId, Topology};
use crate::hardware::LinkFamily;
use crate::paths;

/// The matrix of a node. CPU affinities are left empty: a topology knows NUMA nodes, not
/// cores.
///
/// # Panics
/// If the node is of another topology.
#[must_use]
pub fn smi(topology: &Topology, node: NodeId) -> String {
    let matrix = paths::matrix(topology, node);
    let cpus: Vec<String> = topology
        .devices()
        .filter(|&(id, device)| {
            device.kind == DeviceKind::Cpu && topology.node_of(id) == Some(node)
        })
        .map(|(id, _)| topology.device_name(id))
        .collect();
    let gpus = &topology.nodes[node.index()].gpus;
    let mut out = String::new();
    for device in &matrix.devices {
        out += "\t";
        out += &device.label;
    }
    out += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
    for (row, (device, cells)) in matrix.devices.iter().zip(&matrix.cells).enumerate() {
        out += &device.label;
        for cell in cells {
            out += if cell.smi == "X" { "\t X " } else { "\t" };
            out += if cell.smi == "X" { "" } else { &cell.smi };
        }
        if let Some(&gpu) = gpus.get(row) {
            let cpu = device.cpu.as_ref();
            let numa = cpu.and_then(|cpu| cpus.iter().position(|other| other == cpu));
            let numa = numa.map_or_else(|| "N/A".to_owned(), |numa| numa.to_string());
            // Behind C2C a GPU's memory is a NUMA node of its own.
            let own = topology
                .links_from(gpu)
                .iter()
                .any(|&(link, _)| topology.family(link) == LinkFamily::C2c);
            let own = match own {
                true => (cpus.len() + row).to_string(),
                false => "N/A".to_owned(),
            };
            out += &format!("\t\t{numa}\t\t{own}");
        } else {
            out += "\t\t\t\t";
        }
        out += "\n";
    }
    out += LEGEND;
    let nics: Vec<_> = matrix.devices.iter().skip(gpus.len()).collect();
    if !nics.is_empty() {
        out += "\nNIC Legend:\n\n";
        for nic in nics {
            let name = nic.name.rsplit('/').next().unwrap_or(&nic.name);
            let device = topology.nodes[node.index()].nics.iter().copied();
            let device = device
                .into_iter()
                .find(|&d| topology.device_name(d) == nic.name);
            let name = device.and_then(|d| topology.rdma_name(d)).unwrap_or(name);
            out += &format!("  {}: {name}\n", nic.label);
        }
    }
    out
}

const LEGEND: &str = "
Legend:

  X    = the device itself
  SYS  = between NUMA nodes
  NODE = several host bridges of one NUMA node
  PHB  = one host bridge
  PXB  = several PCIe switches, no host bridge
  PIX  = at most one PCIe switch
  NV#  = # bonded NVLinks
";
