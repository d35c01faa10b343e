//! What kind of path joins two devices of a node, in NCCL's words and in `nvidia-smi`'s.
//!
//! NCCL ranks paths by type before bandwidth; its rules (NCCL 2.30.7 `src/graph/paths.cc` and
//! `topo.cc`) are followed here with this topology's own link rates. Left out: paths that
//! environment variables would allow or forbid. Every PCIe link into a CPU is taken as a root
//! port with a host bridge of its own (NODE); bridges with several ports (PHB) are devices.

use super::graph::{DeviceId, LinkId, NodeId, Topology};
use super::hardware::LinkFamily;
use super::route::{LocalPath, Router};
use fabricsim_units::Bandwidth;
use serde::Serialize;
use std::fmt;

/// NCCL's types of path, best first (NCCL 2.30.7 `src/graph/topo.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathType {
    /// The device itself.
    Loc,
    /// NVLink, direct or through NVSwitches.
    Nvl,
    /// NVLink through one other GPU.
    Nvb,
    /// NVLink-C2C.
    C2c,
    /// At most one PCIe switch.
    Pix,
    /// Several PCIe switches, no CPU.
    Pxb,
    /// From a GPU over C2C to its CPU, and from there over PCIe to a NIC.
    P2c,
    /// From a GPU over NVLink to another GPU, and through that one's NIC.
    Pxn,
    /// Through a CPU.
    Phb,
    /// Between CPU sockets or NUMA nodes.
    Sys,
    /// Over the network.
    Net,
    /// Not connected.
    Dis,
}

impl PathType {
    /// Every type, best first.
    pub const ALL: [PathType; 12] = [
        PathType::Loc,
        PathType::Nvl,
        PathType::Nvb,
        PathType::C2c,
        PathType::Pix,
        PathType::Pxb,
        PathType::P2c,
        PathType::Pxn,
        PathType::Phb,
        PathType::Sys,
        PathType::Net,
        PathType::Dis,
    ];

    /// NCCL's name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            PathType::Loc => "LOC",
            PathType::Nvl => "NVL",
            PathType::Nvb => "NVB",
            PathType::C2c => "C2C",
            PathType::Pix => "PIX",
            PathType::Pxb => "PXB",
            PathType::P2c => "P2C",
            PathType::Pxn => "PXN",
            PathType::Phb => "PHB",
            PathType::Sys => "SYS",
            PathType::Net => "NET",
            PathType::Dis => "DIS",
        }
    }

    /// What it means, for legends.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            PathType::Loc => "the device itself",
            PathType::Nvl => "NVLink, direct or through NVSwitches",
            PathType::Nvb => "NVLink through one other GPU",
            PathType::C2c => "NVLink-C2C between GPU and CPU",
            PathType::Pix => "at most one PCIe switch",
            PathType::Pxb => "several PCIe switches, no CPU",
            PathType::P2c => "C2C to the CPU, then PCIe to the NIC",
            PathType::Pxn => "NVLink to another GPU, then its NIC (sending only)",
            PathType::Phb => "through a CPU",
            PathType::Sys => "between CPU sockets or NUMA nodes",
            PathType::Net => "over the network",
            PathType::Dis => "not connected",
        }
    }
}

impl fmt::Display for PathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// The paths between all GPUs and fabric NICs of one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathMatrix {
    /// The node's full name.
    pub node: String,
    /// GPUs in rank order, then NICs in port order.
    pub devices: Vec<MatrixDevice>,
    /// By row (from) and column (to), in the order of `devices`.
    pub cells: Vec<Vec<PathCell>>,
}

/// A row and column of a [`PathMatrix`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixDevice {
    /// As `nvidia-smi` calls it: `GPU0`, `NIC3`.
    pub label: String,
    /// Full name in the topology.
    pub name: String,
    /// Full name of the nearest CPU (NUMA node).
    pub cpu: Option<String>,
}

/// How one device reaches another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathCell {
    /// As `nvidia-smi topo -m` prints it: X, NV#, PIX, PXB, PHB, NODE, SYS.
    pub smi: String,
    /// NCCL's type. From a GPU to a NIC it is the one that NCCL uses to send.
    pub nccl: PathType,
    /// Of the path's slowest link; absent when there is no path, or no link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// The paths between the GPUs and NICs of a node.
///
/// # Panics
/// If the node is of another topology.
#[must_use]
pub fn matrix(topology: &Topology, node: NodeId) -> PathMatrix {
    let survey = Survey::new(topology, node);
    let gpus = survey.gpus.iter().map(|&gpu| (gpu, "GPU"));
    let nics = survey.nics.iter().map(|&nic| (nic, "NIC"));
    let number = |position: usize| match position.checked_sub(survey.gpus.len()) {
        Some(nic) => nic,
        None => position,
    };
    let devices: Vec<(DeviceId, &str)> = gpus.chain(nics).collect();
    PathMatrix {
        node: topology.nodes[node.index()].name.clone(),
        cells: devices
            .iter()
            .map(|&(from, _)| {
                devices
                    .iter()
                    .map(|&(to, _)| survey.cell(from, to))
                    .collect()
            })
            .collect(),
        devices: devices
            .iter()
            .enumerate()
            .map(|(position, &(device, prefix))| MatrixDevice {
                label: format!("{prefix}{}", number(position)),
                name: topology.device_name(device),
                cpu: survey
                    .router
                    .cpu_of(device)
                    .map(|cpu| topology.device_name(cpu)),
            })
            .collect(),
    }
}

/// A node as NCCL sees it when it looks for NICs.
struct Survey<'t> {
    topology: &'t Topology,
    router: Router<'t>,
    gpus: &'t [DeviceId],
    nics: &'t [DeviceId],
    /// By GPU: its NICs with bandwidth and type, best first.
    ranked: Vec<Vec<(Bandwidth, PathType, DeviceId)>>,
}

impl<'t> Survey<'t> {
    fn new(topology: &'t Topology, node: NodeId) -> Self {
        let router = Router::new(topology, 0);
        let node = &topology.nodes[node.index()];
        let mut survey = Survey {
            topology,
            gpus: &node.gpus,
            nics: &node.nics,
            ranked: Vec::new(),
            router,
        };
        survey.ranked = node.gpus.iter().map(|&gpu| survey.ranked(gpu)).collect();
        survey
    }

    /// NICs of a GPU, with P2C in place of PHB for the nearest ones that C2C leads to.
    fn ranked(&self, gpu: DeviceId) -> Vec<(Bandwidth, PathType, DeviceId)> {
        let mut ranked = self.router.ranked_nics(gpu);
        let best = ranked.first().map(|&(rate, kind, _)| (rate, kind));
        for entry in &mut ranked {
            let through_c2c = || {
                self.router
                    .local_path(gpu, entry.2, |_| true)
                    .is_some_and(|path| self.has_c2c(&path))
            };
            if Some((entry.0, entry.1)) == best && entry.1 == PathType::Phb && through_c2c() {
                entry.1 = PathType::P2c;
            }
        }
        ranked
    }

    fn has_c2c(&self, path: &LocalPath) -> bool {
        path.links
            .iter()
            .any(|&link| self.topology.family(link) == LinkFamily::C2c)
    }

    fn cell(&self, from: DeviceId, to: DeviceId) -> PathCell {
        if from == to {
            return PathCell {
                smi: "X".into(),
                nccl: PathType::Loc,
                bandwidth: None,
            };
        }
        if let Some((links, rate)) = self.nvlink(from, to) {
            return PathCell {
                smi: format!("NV{links}"),
                nccl: PathType::Nvl,
                bandwidth: Some(rate),
            };
        }
        let path = self.router.local_path(from, to, |_| true);
        let own = path
            .as_ref()
            .map_or(PathType::Dis, |path| path.kind(self.topology));
        let smi = path.as_ref().map_or("N/A", |path| path.smi(self.topology));
        let better = match (self.position(from), self.position(to)) {
            (Some(_), Some(_)) => self
                .through_a_gpu(from, to)
                .map(|rate| (PathType::Nvb, Some(rate))),
            (Some(gpu), None) => self.improved(gpu, to),
            (None, Some(gpu)) => self.rank_of(gpu, from).map(|(_, kind)| (kind, None)),
            (None, None) => None,
        };
        let (nccl, rate) = better.unwrap_or((own, None));
        PathCell {
            smi: smi.into(),
            nccl,
            bandwidth: rate.or(path.map(|path| path.rate)),
        }
    }

    fn position(&self, gpu: DeviceId) -> Option<usize> {
        self.gpus.iter().position(|&other| other == gpu)
    }

    /// Bonded NVLinks between two GPUs and what they carry.
    fn nvlink(&self, from: DeviceId, to: DeviceId) -> Option<(u32, Bandwidth)> {
        let route = self.router.nvlink(from, to)?;
        let sum = |at_end: &dyn Fn(LinkId) -> bool| {
            route
                .hops
                .iter()
                .filter(|hop| at_end(hop.link))
                .map(|hop| {
                    (
                        u32::from(self.topology.link(hop.link).lanes),
                        self.topology.rate(hop.link).bytes_per_sec(),
                    )
                })
                .fold((0, 0), |sum, (lanes, rate)| (sum.0 + lanes, sum.1 + rate))
        };
        let out = sum(&|link| self.topology.ends(link).0 == from);
        let into = sum(&|link| self.topology.ends(link).1 == to);
        let (lanes, rate) = out.min(into);
        Some((lanes, Bandwidth::from_bytes_per_sec(rate)))
    }

    /// What NVLinks carry that lead through one other GPU.
    fn through_a_gpu(&self, from: DeviceId, to: DeviceId) -> Option<Bandwidth> {
        let others = self.gpus.iter().filter(|&&gpu| gpu != from && gpu != to);
        others
            .filter_map(|&middle| {
                let (_, there) = self.nvlink(from, middle)?;
                let (_, on) = self.nvlink(middle, to)?;
                Some(there.min(on))
            })
            .max()
    }

    fn rank_of(&self, gpu: usize, nic: DeviceId) -> Option<(Bandwidth, PathType)> {
        self.ranked[gpu]
            .iter()
            .find(|&&(_, _, other)| other == nic)
            .map(|&(rate, kind, _)| (rate, kind))
    }

    /// The type by which NCCL sends from a GPU to a NIC: PXN where the NIC's preferred GPU is
    /// near to it, has NVLink to this one, and does better; then with what that way carries.
    fn improved(&self, gpu: usize, nic: DeviceId) -> Option<(PathType, Option<Bandwidth>)> {
        let own = self.rank_of(gpu, nic);
        let relayed = self
            .preferred_gpu(nic)
            .filter(|&relay| relay != gpu)
            .and_then(|relay| {
                let (_, nvlink) = self.nvlink(self.gpus[gpu], self.gpus[relay])?;
                let rank = self.rank_of(relay, nic)?;
                let path = self.router.local_path(self.gpus[relay], nic, |_| true)?;
                Some((rank, path.rate.min(nvlink)))
            })
            .filter(|&((_, kind), _)| kind <= PathType::P2c);
        match relayed {
            Some((relayed, rate))
                if own.is_none_or(|own| own.0 < relayed.0 || PathType::Pxn < own.1) =>
            {
                Some((PathType::Pxn, Some(rate)))
            }
            _ => own.map(|(_, kind)| (kind, None)),
        }
    }

    /// The first GPU whose own NIC this is, looking at NCCL's first channels in turn.
    fn preferred_gpu(&self, nic: DeviceId) -> Option<usize> {
        let local = self.local_gpus(nic);
        let channels = self.nics.len().max(1);
        (0..channels).find_map(|channel| {
            local
                .iter()
                .copied()
                .find(|&gpu| self.nic_of(gpu, channel) == Some(nic))
        })
    }

    /// The GPUs with the highest bandwidth, then the best type, to a NIC.
    fn local_gpus(&self, nic: DeviceId) -> Vec<usize> {
        let order = |(rate, kind)| (std::cmp::Reverse(rate), kind);
        let ranks: Vec<_> = (0..self.gpus.len())
            .filter_map(|gpu| Some((order(self.rank_of(gpu, nic)?), gpu)))
            .collect();
        let best = ranks.iter().map(|&(rank, _)| rank).min();
        ranks
            .into_iter()
            .filter(|&(rank, _)| Some(rank) == best)
            .map(|(_, gpu)| gpu)
            .collect()
    }

    /// NCCL's choice of NIC for a GPU and channel: GPUs that share NICs start at different
    /// ones, in bit-reversed order.
    fn nic_of(&self, gpu: usize, channel: usize) -> Option<DeviceId> {
        let ranked = &self.ranked[gpu];
        let &(rate, kind, first) = ranked.first()?;
        let nics: Vec<DeviceId> = ranked
            .iter()
            .take_while(|&&(r, k, _)| (r, k) == (rate, kind))
            .map(|&(_, _, nic)| nic)
            .collect();
        let sharing = self.local_gpus(first).len().max(1);
        let each = nics.len().div_ceil(sharing);
        let mut start = gpu % sharing;
        if nics.len().is_power_of_two() && nics.len() > 1 {
            start = mirrored(start % nics.len(), nics.len());
        }
        nics.get((start + channel % each) % nics.len()).copied()
    }
}

/// The bits of `value` below the power of two `limit`, in reverse order.
fn mirrored(value: usize, limit: usize) -> usize {
    let bits = limit.trailing_zeros();
    (0..bits).fold(0, |mirror, bit| {
        mirror | (((value >> bit) & 1) << (bits - 1 - bit))
    })
}

impl fmt::Display for PathMatrix {
    /// Two tables, as `nvidia-smi topo -m` prints and as NCCL sees it with bandwidths, and what
    /// the words mean.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table(f, "nvidia-smi", true, |cell| cell.smi.clone())?;
        writeln!(f)?;
        self.table(f, "NCCL", false, |cell| match cell.bandwidth {
            Some(rate) => format!("{} {}", cell.nccl, brief(rate)),
            None => cell.nccl.to_string(),
        })?;
        writeln!(f, "\nLegend:")?;
        let smi = [
            ("X", "the device itself"),
            ("NV#", "# bonded NVLinks"),
            ("PIX", "at most one PCIe switch"),
            ("PXB", "several PCIe switches, no host bridge"),
            ("PHB", "one host bridge"),
            ("NODE", "several host bridges of one NUMA node"),
            ("SYS", "between NUMA nodes"),
        ];
        writeln!(f, "  nvidia-smi")?;
        for (word, meaning) in smi {
            writeln!(f, "    {word:<5} {meaning}")?;
        }
        writeln!(f, "  NCCL, with GB/s of the path's slowest link")?;
        for kind in PathType::ALL {
            if self.cells.iter().flatten().any(|cell| cell.nccl == kind) {
                writeln!(f, "    {kind:<5} {}", kind.meaning())?;
            }
        }
        Ok(())
    }
}

/// GB/s in as few digits as tell links apart.
fn brief(rate: Bandwidth) -> String {
    let rate = rate.gb_per_sec();
    if rate < 10.0 {
        format!("{rate:.2}")
    } else if rate < 100.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    }
}

impl PathMatrix {
    fn table(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        with_cpu: bool,
        text: impl Fn(&PathCell) -> String,
    ) -> fmt::Result {
        let labels = || self.devices.iter().map(|device| device.label.as_str());
        let first = labels().map(str::len).chain([title.len()]).max();
        let first = first.unwrap_or_default();
        let cells = self.cells.iter().flatten().map(|cell| text(cell).len());
        let width = labels().map(str::len).chain(cells).max();
        let width = width.unwrap_or_default().max(4);
        let mut line = format!("{title:<first$}");
        for label in labels() {
            line += &format!("  {label:<width$}");
        }
        if with_cpu {
            line += "  CPU";
        }
        writeln!(f, "{}", line.trim_end())?;
        for (device, row) in self.devices.iter().zip(&self.cells) {
            let mut line = format!("{:<first$}", device.label);
            for cell in row {
                line += &format!("  {:<width$}", text(cell));
            }
            if let (true, Some(cpu)) = (with_cpu, &device.cpu) {
                line += "  ";
                line += cpu;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
