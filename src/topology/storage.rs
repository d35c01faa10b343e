//! Storage devices: drives and file servers, at the end of one link each.
//!
//! What a device reads and writes limits its link: bytes from it come at its read rate at most, bytes
//! to it go at its write rate. So a route to it carries what the slowest of drive, slot, switch and
//! interface does. Left out: queue depths and request sizes (the rates are those of large sequential
//! requests), file systems, caches.

use super::graph::{Device, DeviceId, DeviceKind, Link, LinkId, Topology};
use super::hardware::{DeviceModel, LinkFamily, StorageModel};
use super::route::{Hop, Route, RouteError, Router};
use fabricsim_units::Bandwidth;
use petgraph::graph::DiGraph;
use std::collections::BTreeMap;

impl Topology {
    /// The model of a storage device, if the device is one.
    #[must_use]
    pub fn storage_model(&self, id: DeviceId) -> Option<&StorageModel> {
        match self.device_model(id) {
            DeviceModel::Storage(model) => Some(model),
            _ => None,
        }
    }

    /// Whether a link from or to a storage device carries what that reads or writes, and could carry more.
    #[must_use]
    pub fn is_storages_own(&self, link: LinkId) -> bool {
        let own = self.limits.get(&link);
        own.is_some_and(|&own| own < self.wire_rate(link))
    }
}

impl Router<'_> {
    /// The interfaces between which bytes cross a network from a device to another one: the nearest to
    /// `from` that a fabric joins to any of `to`, and of these the nearest, or as many further as `turn`
    /// says, in turns; the nearest of all if no fabric joins any two. Those whose cables have all failed are
    /// joined to nothing. `None` if either has none.
    #[must_use]
    pub fn interfaces(
        &self,
        (from, to): (DeviceId, DeviceId),
        turn: usize,
    ) -> Option<(DeviceId, DeviceId)> {
        let topology = self.topology();
        let nics = |id| match topology.device(id).kind {
            DeviceKind::Gpu | DeviceKind::Storage => self.nic_candidates(id),
            _ => vec![id],
        };
        let (outs, intos) = (nics(from), nics(to));
        let has_cable = |&nic: &DeviceId| self.port_rate(nic).bytes_per_sec() > 0;
        let joined = |out: DeviceId, into: DeviceId| {
            let mut fabrics = topology.fabrics.iter();
            fabrics.any(|fabric| fabric.ports.contains(&out) && fabric.ports.contains(&into))
        };
        for &out in outs.iter().filter(|out| has_cable(out)) {
            let there = intos.iter().copied().filter(has_cable);
            let there: Vec<DeviceId> = there.filter(|&into| joined(out, into)).collect();
            if !there.is_empty() {
                return Some((out, there[turn % there.len()]));
            }
        }
        outs.first().copied().zip(intos.first().copied())
    }

    /// The way of bytes between a GPU, or the memory of its host, and a storage device: over PCIe where
    /// that joins them, else through the interfaces of both ([`Router::interfaces`], of which each `flow`
    /// takes the next). From the GPU's side those nearest to the GPU are taken even if the bytes come from its
    /// host.
    ///
    /// # Errors
    /// No links lead there.
    pub fn to_storage(
        &mut self,
        (gpu, storage): (DeviceId, DeviceId),
        from_host: bool,
        flow: u64,
    ) -> Result<Route, RouteError> {
        let source = match from_host {
            true => self.cpu_of(gpu).unwrap_or(gpu),
            false => gpu,
        };
        if let Ok(route) = self.local(source, storage) {
            return Ok(route);
        }
        let (out, into) = self
            .interfaces((gpu, storage), flow as usize)
            .ok_or_else(|| RouteError::NoSharedFabric {
                from: self.topology().device_name(gpu),
                to: self.topology().device_name(storage),
            })?;
        let legs = [
            self.local(source, out)?,
            self.network(out, into, flow)?,
            self.local(into, storage)?,
        ];
        Ok(joined(legs))
    }

    /// [`Router::to_storage`] the other way, to the GPU or its host's memory.
    ///
    /// # Errors
    /// No links lead there.
    pub fn from_storage(
        &mut self,
        (storage, gpu): (DeviceId, DeviceId),
        into_host: bool,
        flow: u64,
    ) -> Result<Route, RouteError> {
        let target = match into_host {
            true => self.cpu_of(gpu).unwrap_or(gpu),
            false => gpu,
        };
        if let Ok(route) = self.local(storage, target) {
            return Ok(route);
        }
        let (out, into) = self
            .interfaces((gpu, storage), flow as usize)
            .ok_or_else(|| RouteError::NoSharedFabric {
                from: self.topology().device_name(storage),
                to: self.topology().device_name(gpu),
            })?;
        let legs = [
            self.local(storage, into)?,
            self.network(into, out, flow)?,
            self.local(out, target)?,
        ];
        Ok(joined(legs))
    }
}

/// One way after the other. Links of a way that takes more of them than others do count as many times.
fn joined(legs: [Route; 3]) -> Route {
    let latency = legs.iter().map(|leg| leg.latency).sum();
    let load = legs.iter().map(|leg| leg.load);
    let load = load.max_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    let hops: Vec<Hop> = legs.into_iter().flat_map(|leg| leg.hops).collect();
    Route {
        hops,
        latency,
        load: load.unwrap_or_default(),
    }
}

/// What links from and to storage devices carry at most; of all others nothing is said.
pub(super) fn limits(
    graph: &DiGraph<Device, Link, u32>,
    models: &[(String, DeviceModel)],
) -> BTreeMap<LinkId, Bandwidth> {
    if !models
        .iter()
        .any(|(_, m)| matches!(m, DeviceModel::Storage(_)))
    {
        return BTreeMap::new();
    }
    let model = |device: &Device| match &models[usize::from(device.model)].1 {
        DeviceModel::Storage(model) => Some(model),
        _ => None,
    };
    let edges = (0..).zip(graph.raw_edges());
    let limits = edges.filter_map(|(id, edge)| {
        let reads = model(&graph[edge.source()]).map(|m| m.read_rate.value);
        let writes = model(&graph[edge.target()]).map(|m| m.write_rate.value);
        let least = reads.into_iter().chain(writes).min()?;
        Some((LinkId(id), least))
    });
    limits.collect()
}

/// Storage devices that are not linked as they have to be ([`ONE_LINK`]), by what is found there: no link,
/// several, which could carry more together than the device does, and one that is not PCIe.
pub(super) fn mislinked(topology: &Topology) -> [(Vec<DeviceId>, &'static str); 3] {
    let (mut bare, mut many, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for (id, _) in topology
        .devices()
        .filter(|(_, device)| device.kind == DeviceKind::Storage)
    {
        match topology.links_from(id).as_slice() {
            [] => bare.push(id),
            [(link, _)] if topology.family(*link) == LinkFamily::Pcie => {}
            [_] => other.push(id),
            _ => many.push(id),
        }
    }
    [
        (bare, "a storage device without a link"),
        (many, "a storage device with several links"),
        (other, "a storage device on a link that is not PCIe"),
    ]
}

/// How a storage device is linked.
pub(super) const ONE_LINK: &str = "one PCIe link, to a PCIe switch, a CPU or a NIC";

#[cfg(test)]
mod tests {
    use crate::catalogue::hardware;
    use crate::{DeviceId, Overrides, Router, Topology, TopologyError, expand, load};

    /// Nodes with two drives below the switch of their GPUs and one at the other CPU, and a file server
    /// on the same network.
    const FILE: &str = include_str!("../../tests/cases/topologies/drives.json");

    fn built(text: &str) -> Result<Topology, TopologyError> {
        let spec = load::parse(text, "drives")?;
        expand(&spec, hardware(), &Overrides::default())
    }

    fn device(topology: &Topology, name: &str) -> DeviceId {
        let mut devices = topology.devices().map(|(id, _)| id);
        devices
            .find(|&id| topology.device_name(id) == name)
            .unwrap()
    }

    /// The rates of the links of a route, in GB/s.
    fn rates(topology: &Topology, from: &str, to: &str) -> Vec<f64> {
        let router = Router::new(topology, 0);
        let route = router.local(device(topology, from), device(topology, to));
        let hops = route.unwrap().hops;
        hops.iter()
            .map(|hop| topology.rate(hop.link).gb_per_sec())
            .collect()
    }

    #[test]
    fn a_drive_limits_its_link_to_what_it_reads_and_writes() {
        let topology = built(FILE).unwrap_or_else(|e| panic!("{e}"));
        let drive = topology
            .storage_model(device(&topology, "node1/nvme0"))
            .unwrap();
        let (read, write) = (drive.read_rate.value, drive.write_rate.value);
        let to = rates(&topology, "node1/gpu0", "node1/nvme0");
        let from = rates(&topology, "node1/nvme0", "node1/gpu0");
        assert_eq!((to.len(), from.len()), (2, 2));
        assert_eq!(to[1], write.gb_per_sec());
        assert_eq!(from[0], read.gb_per_sec());
        assert_eq!(to[0], from[1]);
        assert!(to[0] > 50.0);
        // Across sockets: switch, CPU, CPU, drive.
        assert_eq!(rates(&topology, "node0/gpu0", "node0/nvme2").len(), 4);
        // As `rates` gives them for many links; no other link is limited.
        let many = topology.rates();
        for (id, link) in topology.links() {
            assert_eq!(many(id), topology.rate(id));
            let (a, b) = topology.ends(id);
            let whole = topology.link_model(id).rate(u32::from(link.lanes));
            let reads = topology.storage_model(a).map(|m| m.read_rate.value);
            let writes = topology.storage_model(b).map(|m| m.write_rate.value);
            let limits = [Some(whole), reads, writes];
            assert_eq!(Some(many(id)), limits.into_iter().flatten().min());
            let own = reads.into_iter().chain(writes).any(|own| own < whole);
            assert_eq!(topology.is_storages_own(id), own);
        }
    }

    #[test]
    fn a_file_server_is_reached_through_its_own_interface() {
        let topology = built(FILE).unwrap_or_else(|e| panic!("{e}"));
        let pool = device(&topology, "server0/pool0");
        let nic = device(&topology, "server0/nic0");
        let mut router = Router::new(&topology, 0);
        assert_eq!(router.nic_candidates(pool), [nic]);
        let host = device(&topology, "node1/nic0");
        assert_eq!(router.network(host, nic, 0).unwrap().hops.len(), 2);
        // Servers are no nodes: collectives know nothing of them.
        assert_eq!(topology.nodes.len(), 2);
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(FILE.contains(from), "{from}");
        built(&FILE.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn a_drive_hangs_on_one_pcie_link() {
        let at_socket = |link: &str| format!(r#""to": "cpu[1]", "link": {link}"#);
        let cases = [
            (
                "nvme[0-1]".to_owned(),
                "nvme[0]".to_owned(),
                "without a link",
            ),
            (
                "nvme[2]".to_owned(),
                "nvme[0-2]".to_owned(),
                "several links",
            ),
            (
                at_socket(r#""pcie5""#),
                at_socket(r#""upi-sapphire-rapids""#),
                "not PCIe",
            ),
        ];
        for (from, to, found) in cases {
            let said = refused(&from, &to);
            assert!(
                said.contains(found) && said.contains("node0/nvme"),
                "{said}"
            );
        }
    }

    #[test]
    fn what_reads_nothing_or_holds_nothing_is_no_drive() {
        let own = r#""name": "drives", "hardware": { "devices": { "nvme-gen4": { "storage": {
            "title": "", "capacity": { "value": "0B", "source": "" },
            "read_rate": { "value": "0GB/s", "source": "" },
            "write_rate": { "value": "1GB/s", "source": "" },
            "latency": { "value": "80us", "source": "" } } } } }"#;
        let said = refused(r#""name": "drives""#, own);
        assert!(said.contains("nvme-gen4.storage.capacity.value"), "{said}");
        assert!(said.contains("nvme-gen4.storage.read_rate.value"), "{said}");
        assert!(!said.contains("write_rate"), "{said}");
    }
}
