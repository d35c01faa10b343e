//! Paths between GPUs over NVLink: direct links, or through NVSwitches.

use super::spread::{Edge, Levels};
use super::{Route, Router};
use crate::graph::{DeviceId, DeviceKind, LinkId};
use crate::hardware::LinkFamily;
use petgraph::Direction;
use rustc_hash::FxHashMap;

impl Router<'_> {
    /// All shortest NVLink paths at once. They pass NVSwitches, never GPUs.
    pub(crate) fn nvlink(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        let up = self.nvlinks(from, Direction::Outgoing);
        let down = self.nvlinks(to, Direction::Incoming);
        if up.is_empty() || down.is_empty() {
            return None;
        }
        let levels = direct(from, to, &up)
            .or_else(|| self.one_switch(from, to, &up, &down))
            .or_else(|| self.many_switches(from, to))?;
        Some(levels.spread(self.topology))
    }

    /// NVLinks that leave or enter a device, by far end.
    fn nvlinks(&self, device: DeviceId, direction: Direction) -> Vec<(DeviceId, LinkId)> {
        let mut links: Vec<_> = self
            .links_of(device, direction)
            .filter(|&(link, _)| self.topology.family(link) == LinkFamily::Nvlink)
            .map(|(link, far)| (far, link))
            .collect();
        links.sort_unstable();
        links
    }

    /// The switches that both GPUs are joined to; `up` and `down` are sorted by switch.
    fn one_switch(
        &self,
        from: DeviceId,
        to: DeviceId,
        up: &[(DeviceId, LinkId)],
        down: &[(DeviceId, LinkId)],
    ) -> Option<Levels> {
        let mut switches = Vec::with_capacity(up.len());
        let (mut ups, mut downs) = (Vec::with_capacity(up.len()), Vec::with_capacity(down.len()));
        let mut rest = down;
        for group in up.chunk_by(|a, b| a.0 == b.0) {
            let switch = group[0].0;
            rest = &rest[rest.partition_point(|&(far, _)| far < switch)..];
            let matching = &rest[..rest.partition_point(|&(far, _)| far == switch)];
            if matching.is_empty() || self.topology.device(switch).kind != DeviceKind::NvSwitch {
                continue;
            }
            let position = switches.len() as u32;
            switches.push(switch);
            ups.extend(group.iter().map(|&(_, link)| Edge {
                from: 0,
                link,
                to: position,
            }));
            downs.extend(matching.iter().map(|&(_, link)| Edge {
                from: position,
                link,
                to: 0,
            }));
        }
        (!switches.is_empty()).then(|| Levels {
            devices: vec![vec![from], switches, vec![to]],
            edges: vec![ups, downs],
        })
    }

    /// Breadth first from the source, then back from the destination: for machines whose
    /// NVSwitches are joined to each other, as in DGX-2.
    fn many_switches(&self, from: DeviceId, to: DeviceId) -> Option<Levels> {
        let mut distance: FxHashMap<DeviceId, usize> = FxHashMap::default();
        distance.insert(from, 0);
        let mut front = vec![from];
        let mut length = 0;
        while !distance.contains_key(&to) {
            length += 1;
            let mut next = Vec::new();
            for device in front {
                for (far, _) in self.nvlinks(device, Direction::Outgoing) {
                    let passable = self.topology.device(far).kind == DeviceKind::NvSwitch;
                    if (far == to || passable) && !distance.contains_key(&far) {
                        distance.insert(far, length);
                        next.push(far);
                    }
                }
            }
            if next.is_empty() {
                return None;
            }
            front = next;
        }
        let mut levels = Levels {
            devices: vec![vec![to]],
            edges: Vec::new(),
        };
        let mut level = vec![to];
        for before in (0..length).rev() {
            let mut links = Vec::new();
            for (position, &device) in level.iter().enumerate() {
                for (far, link) in self.nvlinks(device, Direction::Incoming) {
                    if distance.get(&far) == Some(&before) {
                        links.push((far, link, position as u32));
                    }
                }
            }
            links.sort_unstable();
            level = links.iter().map(|&(far, _, _)| far).collect();
            level.dedup();
            let edges = links
                .into_iter()
                .map(|(far, link, to)| Edge {
                    from: level.partition_point(|&device| device < far) as u32,
                    link,
                    to,
                })
                .collect();
            levels.devices.push(level.clone());
            levels.edges.push(edges);
        }
        levels.devices.reverse();
        levels.edges.reverse();
        Some(levels)
    }
}

fn direct(from: DeviceId, to: DeviceId, up: &[(DeviceId, LinkId)]) -> Option<Levels> {
    let edges: Vec<Edge> = up
        .iter()
        .filter(|&&(far, _)| far == to)
        .map(|&(_, link)| Edge {
            from: 0,
            link,
            to: 0,
        })
        .collect();
    (!edges.is_empty()).then(|| Levels {
        devices: vec![vec![from], vec![to]],
        edges: vec![edges],
    })
}
