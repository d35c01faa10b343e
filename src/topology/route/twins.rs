//! Nodes that are copies of each other: what was found in one holds in all.
//!
//! A large machine is one node many times over, with devices and links in the same order. A
//! path inside a node is searched in the first of its kind, and moved to where it is asked for;
//! ties go to smaller numbers, whose order is the same in each copy.

use super::{Hop, Route, Router};
use crate::graph::{DeviceId, LinkId, Topology};
use crate::hardware::LinkFamily;
use crate::paths::PathType;
use fabricsim_units::Bandwidth;
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};

/// How far the numbers of a node's devices and links are behind those of the first node of its
/// kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Shift {
    devices: u32,
    links: u32,
}

impl Shift {
    /// A node's device, by that of the first node of its kind.
    #[must_use]
    pub fn device(self, first: DeviceId) -> DeviceId {
        DeviceId(first.0.wrapping_add(self.devices))
    }

    /// A node's links, by those of the first node of its kind.
    pub fn hops(self, hops: &[Hop]) -> impl ExactSizeIterator<Item = Hop> + '_ {
        hops.iter().map(move |hop| Hop {
            link: LinkId(hop.link.0.wrapping_add(self.links)),
            share: hop.share,
        })
    }

    /// The device of the first node of its kind, by a node's.
    fn back(self, device: DeviceId) -> DeviceId {
        DeviceId(device.0.wrapping_sub(self.devices))
    }
}

/// What a node is a copy of.
#[derive(Debug, Clone, Copy)]
struct Twin {
    /// The first node of its kind.
    shift: Shift,
    /// Its devices.
    range: (u32, u32),
    /// No NVLink leaves it.
    nvlink: bool,
}

/// A GPU's interfaces, as they are ranked.
type Ranked = Vec<(Bandwidth, PathType, DeviceId)>;

/// What was found in nodes that have copies.
#[derive(Debug, Default)]
pub(super) struct Twins {
    of_node: OnceCell<Vec<Option<Twin>>>,
    local: RefCell<FxHashMap<(DeviceId, DeviceId), Option<Route>>>,
    peer: RefCell<FxHashMap<(DeviceId, DeviceId), Option<Route>>>,
    ranked: RefCell<FxHashMap<DeviceId, Ranked>>,
    cpus: RefCell<FxHashMap<DeviceId, Option<DeviceId>>>,
}

impl Twin {
    fn there(self, device: DeviceId) -> DeviceId {
        self.shift.back(device)
    }

    fn here(self, device: DeviceId) -> DeviceId {
        self.shift.device(device)
    }

    fn has(self, device: DeviceId) -> bool {
        (self.range.0..self.range.1).contains(&device.0)
    }

    fn moved(self, route: &Route) -> Route {
        Route {
            hops: self.shift.hops(&route.hops).collect(),
            latency: route.latency,
            load: route.load,
        }
    }
}

impl Router<'_> {
    fn twin(&self, device: DeviceId) -> Option<Twin> {
        if !self.failed.is_empty() {
            return None;
        }
        let node = self.topology.node_of(device)?;
        let twins = self.twins.of_node.get_or_init(|| find(self.topology));
        twins[node.index()].filter(|twin| twin.has(device))
    }

    /// Two devices of a node as they are in the first node of its kind, and how far that one is
    /// away: paths between them over PCIe, C2C and sockets, models, ranked interfaces and their
    /// cables are the same in both. `None` where a node is a copy of no other, not even of itself,
    /// for more than the network joins it to others.
    #[must_use]
    pub fn copied(&self, a: DeviceId, b: DeviceId) -> Option<(DeviceId, DeviceId, Shift)> {
        let twin = self.twin(a).filter(|twin| twin.has(b))?;
        Some((twin.there(a), twin.there(b), twin.shift))
    }

    /// As [`Router::copied`], where NVLinks are the same, too.
    #[must_use]
    pub fn copied_peers(&self, a: DeviceId, b: DeviceId) -> Option<(DeviceId, DeviceId, Shift)> {
        let twin = self.twin(a).filter(|twin| twin.nvlink && twin.has(b))?;
        Some((twin.there(a), twin.there(b), twin.shift))
    }

    /// [`Router::search_local`], in the first node of its kind.
    pub(super) fn known_local(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        match self.twin(from).filter(|twin| twin.has(to)) {
            None => self.search_local(from, to),
            Some(twin) => {
                let ends = (twin.there(from), twin.there(to));
                let mut known = self.twins.local.borrow_mut();
                let route = known
                    .entry(ends)
                    .or_insert_with(|| self.search_local(ends.0, ends.1));
                route.as_ref().map(|route| twin.moved(route))
            }
        }
    }

    /// [`Router::search_peer`], in the first node of its kind.
    pub(super) fn known_peer(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        match self.twin(from).filter(|twin| twin.nvlink && twin.has(to)) {
            None => self.search_peer(from, to),
            Some(twin) => {
                let ends = (twin.there(from), twin.there(to));
                let mut known = self.twins.peer.borrow_mut();
                let route = known
                    .entry(ends)
                    .or_insert_with(|| self.search_peer(ends.0, ends.1));
                route.as_ref().map(|route| twin.moved(route))
            }
        }
    }

    /// [`Router::rank_nics`], in the first node of its kind.
    pub(super) fn known_nics(&self, gpu: DeviceId) -> Ranked {
        let Some(twin) = self.twin(gpu) else {
            return self.rank_nics(gpu);
        };
        let first = twin.there(gpu);
        let mut known = self.twins.ranked.borrow_mut();
        let ranked = known.entry(first).or_insert_with(|| self.rank_nics(first));
        let here = |&(rate, kind, nic): &(Bandwidth, PathType, DeviceId)| {
            let nic = twin.here(nic);
            (rate, kind, nic)
        };
        ranked.iter().map(here).collect()
    }

    /// [`Router::search_cpu`], in the first node of its kind.
    pub(super) fn known_cpu(&self, device: DeviceId) -> Option<DeviceId> {
        let Some(twin) = self.twin(device) else {
            return self.search_cpu(device);
        };
        let first = twin.there(device);
        let mut known = self.twins.cpus.borrow_mut();
        let cpu = *known.entry(first).or_insert_with(|| self.search_cpu(first));
        cpu.map(|cpu| twin.here(cpu))
    }
}

/// What each node is a copy of: itself, if of no other. `None` for nodes whose devices are not
/// next to each other, and for those that more than the network joins to others, NVLink aside.
fn find(topology: &Topology) -> Vec<Option<Twin>> {
    let nodes = topology.nodes.len();
    const NOWHERE: u32 = u32::MAX;
    let node_of: Vec<u32> = topology
        .devices()
        .map(|(id, _)| topology.node_of(id).map_or(NOWHERE, |node| node.0))
        .collect();
    let mut ranges: Vec<Option<(u32, u32)>> = vec![None; nodes];
    let mut closed = vec![true; nodes];
    let mut nvlink = vec![true; nodes];
    for (device, &node) in (0..).zip(&node_of) {
        let Some(range) = ranges.get_mut(node as usize) else {
            continue;
        };
        let range = range.get_or_insert((device, device));
        closed[node as usize] &= range.1 == device;
        range.1 = device + 1;
    }
    // The links out of each node, in order of their numbers.
    let mut links_of: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for (link, _) in topology.links() {
        let (from, to) = topology.ends(link);
        let (here, there) = (node_of[from.index()], node_of[to.index()]);
        if let Some(links) = links_of.get_mut(here as usize) {
            links.push(link.0);
        }
        if here != there {
            let open = match topology.family(link) {
                LinkFamily::Network => continue,
                LinkFamily::Nvlink => &mut nvlink,
                LinkFamily::Pcie | LinkFamily::C2c | LinkFamily::Socket => &mut closed,
            };
            for node in [here, there] {
                if let Some(flag) = open.get_mut(node as usize) {
                    *flag = false;
                }
            }
        }
    }
    let mut known: FxHashMap<Vec<u32>, (u32, u32)> = FxHashMap::default();
    let mut look: Vec<u32> = Vec::new();
    let mut cables: Vec<[u32; 3]> = Vec::new();
    (0..nodes)
        .map(|node| {
            let range = ranges[node].filter(|_| closed[node])?;
            let base = range.0;
            look.clear();
            cables.clear();
            look.push(u32::from(nvlink[node]));
            look.extend((range.0..range.1).map(|d| u32::from(topology.device(DeviceId(d)).model)));
            let of_node = &topology.nodes[node];
            for devices in [&of_node.gpus, &of_node.nics] {
                look.push(NOWHERE);
                look.extend(devices.iter().map(|d| d.0.wrapping_sub(base)));
            }
            let mut first_link = None;
            for &id in &links_of[node] {
                let (link, ends) = (topology.link(LinkId(id)), topology.ends(LinkId(id)));
                let (model, lanes) = (u32::from(link.model), u32::from(link.lanes));
                let from = ends.0.0 - base;
                let leaves = !(range.0..range.1).contains(&ends.1.0);
                if leaves {
                    // Where cables lead is another matter, and so are their numbers.
                    cables.push([from, model, lanes]);
                    continue;
                }
                let first = *first_link.get_or_insert(id);
                look.extend([id - first, from, ends.1.0 - base, model, lanes]);
            }
            cables.sort_unstable();
            look.push(NOWHERE);
            look.extend(cables.iter().flatten());
            let own = (base, first_link.unwrap_or(0));
            let first = match known.get(&look) {
                Some(&first) => first,
                None => {
                    known.insert(look.clone(), own);
                    own
                }
            };
            Some(Twin {
                shift: Shift {
                    devices: own.0.wrapping_sub(first.0),
                    links: own.1.wrapping_sub(first.1),
                },
                range,
                nvlink: nvlink[node],
            })
        })
        .collect()
}
