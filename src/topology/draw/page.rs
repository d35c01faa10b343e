//! A page as it fills: tiles, and which devices each of them stands for.

use super::scene::{ARCH, Anchor, Frame, Line, Scene, Tile, ends, even, spread, text_width};
use crate::graph::{DeviceId, DeviceKind, LinkId, NodeId, Topology};
use crate::hardware::LinkFamily;
use std::collections::{BTreeMap, BTreeSet};

/// Height of a tile.
pub(super) const TILE: f64 = 34.0;
/// Between rows of tiles.
pub(super) const GAP: f64 = 54.0;
/// Between tiers of a fabric.
const TIER_GAP: f64 = 86.0;
/// Between two rows, more lines than this are drawn thinner.
const MANY_LINES: f64 = 48.0;
/// Switches of a tier that are drawn; the rest is only counted.
const SHOWN: usize = 16;
/// Room at the left for the names of rows.
pub(super) const MARGIN: f64 = 132.0;

/// See the module.
pub(super) struct Page<'t> {
    pub(super) topology: &'t Topology,
    pub(super) scene: Scene,
    /// The tile that stands for a device.
    pub(super) placed: BTreeMap<DeviceId, usize>,
    /// One direction of every wire.
    wires: Vec<(LinkId, DeviceId, DeviceId)>,
}

/// A row of switches of one tier.
struct Tier {
    shown: Vec<DeviceId>,
    all: usize,
}

impl<'t> Page<'t> {
    pub(super) fn new(topology: &'t Topology) -> Self {
        let wires = topology.links().step_by(2).map(|(id, _)| {
            let (from, to) = topology.ends(id);
            (id, from, to)
        });
        Page {
            topology,
            scene: Scene::default(),
            placed: BTreeMap::new(),
            wires: wires.collect(),
        }
    }

    /// Adds a tile for one device.
    pub(super) fn add(&mut self, device: DeviceId, x: f64, y: f64, width: f64, label: String) {
        let tile = Tile {
            x,
            y,
            width,
            height: TILE,
            kind: self.topology.device(device).kind,
            label,
            tip: self.topology.device_name(device),
            devices: vec![device],
        };
        self.placed.insert(device, self.scene.tiles.len());
        self.scene.tiles.push(tile);
    }

    /// What people call a device next to others of its kind.
    pub(super) fn label(&self, device: DeviceId) -> String {
        let d = self.topology.device(device);
        let stem = &self.topology.stems[d.stem as usize];
        let name = match d.kind {
            DeviceKind::Gpu => "GPU",
            DeviceKind::NvSwitch => "NVSwitch",
            DeviceKind::Cpu => "CPU",
            DeviceKind::PcieSwitch => "PCIe switch",
            DeviceKind::Nic => "NIC",
            // What is stored is told better by the name in the file: `nvme`, `pool`.
            DeviceKind::Switch | DeviceKind::Storage => stem,
        };
        format!("{name} {}", d.index)
    }

    /// Devices that share a wire with one of `devices`, each with those it shares with.
    fn neighbours(&self, devices: &BTreeSet<DeviceId>) -> BTreeMap<DeviceId, Vec<DeviceId>> {
        let mut map: BTreeMap<DeviceId, Vec<DeviceId>> = BTreeMap::new();
        for &(_, from, to) in &self.wires {
            if devices.contains(&from) {
                map.entry(to).or_default().push(from);
            }
            if devices.contains(&to) {
                map.entry(from).or_default().push(to);
            }
        }
        map
    }

    /// For each of a row, the middle of what it is wired to and is on the page already.
    fn wishes(
        &self,
        row: &[DeviceId],
        near: &BTreeMap<DeviceId, Vec<DeviceId>>,
    ) -> Vec<Option<f64>> {
        row.iter()
            .map(|device| near.get(device).and_then(|near| self.centre(near)))
            .collect()
    }

    /// The middle of the tiles of `devices`.
    fn centre(&self, devices: &[DeviceId]) -> Option<f64> {
        let at: Vec<f64> = devices
            .iter()
            .filter_map(|d| self.placed.get(d))
            .map(|&tile| self.scene.tiles[tile].x)
            .collect();
        (!at.is_empty()).then(|| at.iter().sum::<f64>() / at.len() as f64)
    }

    /// The width that a frame needs, without its margins.
    pub(super) fn width(&self, home: Home) -> f64 {
        let rows = self.rows(home);
        let widths = rows.iter().map(|row| row.len() as f64 * pitch(row.len()));
        let least = match home {
            Home::Node(_) => 300.0,
            Home::Server(_) => 100.0,
        };
        widths.fold(least, f64::max) + 24.0
    }

    /// The devices of a node or a server, by rows from above. Drives stand beside the NICs of their node,
    /// for both hang from PCIe switches; of a server they are what it is there for.
    fn rows(&self, home: Home) -> [Vec<DeviceId>; ROWS.len()] {
        let mut rows = ROWS.map(|_| Vec::new());
        let storage = match home {
            Home::Node(_) => 0,
            Home::Server(_) => 3,
        };
        let mut drives = Vec::new();
        for (id, device) in self.topology.devices() {
            let own = match home {
                Home::Node(node) => self.topology.node_of(id) == Some(node),
                Home::Server(place) => device.place == place,
            };
            let row = ROWS.iter().position(|&kind| kind == device.kind);
            match row.filter(|_| own) {
                Some(row) => rows[row].push(id),
                None if own && device.kind == DeviceKind::Storage => drives.push(id),
                None => {}
            }
        }
        rows[storage].extend(drives);
        rows
    }

    /// Places with storage devices that are in no node: file servers.
    pub(super) fn servers(&self) -> Vec<u32> {
        let t = self.topology;
        let storage = t.devices().filter(|(_, d)| d.kind == DeviceKind::Storage);
        let outside = storage.filter(|&(id, _)| t.node_of(id).is_none());
        let places: BTreeSet<u32> = outside.map(|(_, device)| device.place).collect();
        places.into_iter().collect()
    }

    /// Draws a node or a server in full. Returns its bottom.
    pub(super) fn home(&mut self, home: Home, left: f64, top: f64) -> f64 {
        let right = left + self.width(home);
        let (inner_left, inner_right) = (left + 12.0, right - 12.0);
        let rows = self.rows(home);
        let all: BTreeSet<DeviceId> = rows.iter().flatten().copied().collect();
        let near = self.neighbours(&all);
        let mut y = top + 38.0;
        let mut tops = [0.0; ROWS.len()];
        for (row, at) in rows.iter().zip(&mut tops) {
            *at = y;
            if !row.is_empty() {
                y += TILE + GAP;
            }
        }
        let mut bottom = y - GAP + 16.0;
        // The GPUs' columns give the others theirs.
        for kind in [3, 1, 2, 0, 4] {
            let row = &rows[kind];
            let pitch = pitch(row.len());
            let evenly = even(row.len(), inner_left, inner_right);
            let (xs, width) = if kind >= 3 {
                (evenly, pitch - 14.0)
            } else {
                let direct = self.wishes(row, &near);
                let wanted: Vec<f64> = row
                    .iter()
                    .zip(&direct)
                    .zip(evenly)
                    .map(|((device, wish), else_at)| {
                        // What hangs on nothing below stands with its peers.
                        let near = near.get(device).map_or(&[][..], Vec::as_slice);
                        let peers = row.iter().zip(&direct).filter(|(d, _)| near.contains(d));
                        let peers: Vec<f64> = peers.filter_map(|(_, &wish)| wish).collect();
                        let peers = (!peers.is_empty())
                            .then(|| peers.iter().sum::<f64>() / peers.len() as f64);
                        wish.or(peers).unwrap_or(else_at)
                    })
                    .collect();
                // Many CPUs leave room for the lines that pass between them.
                let slim = kind == 2 && row.len() > 2;
                let pitch = if slim { 60.0 } else { pitch };
                let width = if slim { 44.0 } else { pitch - 14.0 };
                (spread(&wanted, pitch, inner_left, inner_right), width)
            };
            for (&device, x) in row.iter().zip(xs) {
                let label = self.label(device);
                self.add(device, x, tops[kind], width, label);
            }
        }
        // Links within the lowest row bend below it.
        let lowest = if rows[4].is_empty() {
            &rows[3]
        } else {
            &rows[4]
        };
        let meshed = self
            .wires
            .iter()
            .any(|(_, from, to)| lowest.contains(from) && lowest.contains(to));
        if meshed {
            bottom += 20.0 + (right - left) * 0.09;
        }
        self.scene.frames.push(Frame {
            x: left,
            y: top,
            width: right - left,
            height: bottom - top,
            many: false,
        });
        let name = match home {
            Home::Node(node) => self.topology.nodes[node.index()].name.clone(),
            Home::Server(place) => self.topology.places[place as usize].name.clone(),
        };
        self.scene
            .caption(left + 12.0, top + 22.0, 14.0, Anchor::Start, &name);
        bottom
    }

    /// Draws the NVSwitches that several nodes share, below the nodes. Returns the bottom.
    pub(super) fn shared(&mut self, switches: &[DeviceId], left: f64, right: f64, top: f64) -> f64 {
        if switches.is_empty() {
            return top;
        }
        let y = top + GAP + 20.0;
        let pitch = pitch(switches.len()).min((right - left) / switches.len() as f64);
        let xs = even(switches.len(), left, right);
        for (&device, x) in switches.iter().zip(xs) {
            let label = if pitch < 70.0 {
                self.topology.device(device).index.to_string()
            } else {
                self.label(device)
            };
            self.add(device, x, y, pitch - 10.0, label);
        }
        self.row_name(
            y,
            &format!("{} NVSwitches", switches.len()),
            "shared by the nodes",
        );
        y + TILE
    }

    /// The NVSwitches of no single node that `nodes` have links to.
    pub(super) fn domain(&self, nodes: &[NodeId]) -> Vec<DeviceId> {
        let gpus: BTreeSet<DeviceId> = nodes
            .iter()
            .flat_map(|n| self.topology.nodes[n.index()].gpus.iter().copied())
            .collect();
        self.neighbours(&gpus)
            .into_keys()
            .filter(|&d| {
                self.topology.device(d).kind == DeviceKind::NvSwitch
                    && self.topology.node_of(d).is_none()
            })
            .collect()
    }

    fn row_name(&mut self, y: f64, name: &str, more: &str) {
        let x = 24.0;
        if more.is_empty() {
            self.scene
                .caption(x, y + TILE / 2.0 + 5.0, 13.0, Anchor::Start, name);
        } else {
            self.scene
                .caption(x, y + TILE / 2.0 - 2.0, 13.0, Anchor::Start, name);
            self.scene
                .caption(x, y + TILE / 2.0 + 14.0, 11.0, Anchor::Start, more);
        }
    }

    /// Draws the fabrics' switches above the NICs that are on the page, cores first.
    /// `top` is where they start; the NICs are expected at [`Page::fabric_height`] below.
    pub(super) fn fabrics(&mut self, left: f64, right: f64, top: f64) {
        let tiers = self.tiers();
        let count = tiers.len();
        let arches = self.arches();
        for (tier, row) in tiers.into_iter().enumerate() {
            let y = top + arches + (count - 1 - tier) as f64 * (TILE + TIER_GAP);
            let pitch = (98.0f64).min((right - left) / row.shown.len().max(1) as f64);
            let mut xs = even(row.shown.len(), left, right);
            if tier == 0 {
                let near = self.neighbours(&row.shown.iter().copied().collect());
                let above: Vec<f64> = row
                    .shown
                    .iter()
                    .zip(&xs)
                    .map(|(switch, &else_at)| {
                        let ports: Vec<DeviceId> = near
                            .iter()
                            .filter(|(_, of)| of.contains(switch))
                            .map(|(&port, _)| port)
                            .collect();
                        self.centre(&ports).unwrap_or(else_at)
                    })
                    .collect();
                // Leaves that every node uses would crowd in the middle.
                let span = above.iter().copied().fold(0.0, f64::max)
                    - above.iter().copied().fold(f64::INFINITY, f64::min);
                if row.shown.len() == 1 || span > (right - left) * 0.55 {
                    xs = spread(&above, pitch, left, right);
                }
            }
            let fits = row
                .shown
                .iter()
                .all(|&switch| text_width(&self.label(switch), 11.5) <= pitch - 18.0);
            for (&switch, x) in row.shown.iter().zip(xs) {
                let label = if fits {
                    self.label(switch)
                } else {
                    self.topology.device(switch).index.to_string()
                };
                self.add(switch, x, y, pitch - 10.0, label);
            }
            let name = ["leaf switches", "spine switches", "core switches"];
            let name = name.get(tier).copied().unwrap_or("switches");
            let grouped = self.topology.fabrics.iter().all(|f| !f.groups.is_empty());
            let name = match (count, row.all) {
                (1, 1) => "1 switch".to_owned(),
                (1, all) if grouped => format!("{all} switches"),
                (_, 1) => format!("1 {}", name.trim_end_matches("es")),
                (_, all) => format!("{all} {name}"),
            };
            let more = if row.shown.len() < row.all {
                format!("{} of them shown", row.shown.len())
            } else {
                String::new()
            };
            self.row_name(y, &name, &more);
        }
    }

    /// From the top of the highest tier to the top of the NICs.
    pub(super) fn fabric_height(&self) -> f64 {
        let tiers = self.topology.fabrics.iter().flat_map(|f| &f.tiers).max();
        let arches = self.arches();
        tiers.map_or(0.0, |&t| f64::from(t + 1) * (TILE + TIER_GAP) + arches)
    }

    /// The room above the switches for links within a row.
    fn arches(&self) -> f64 {
        let tier_of = self.tier_of();
        let level = self.wires.iter().any(|(_, from, to)| {
            tier_of
                .get(from)
                .is_some_and(|tier| tier_of.get(to) == Some(tier))
        });
        if level { ARCH * 0.75 } else { 0.0 }
    }

    fn tier_of(&self) -> BTreeMap<DeviceId, u8> {
        self.topology
            .fabrics
            .iter()
            .flat_map(|f| f.switches.iter().copied().zip(f.tiers.iter().copied()))
            .collect()
    }

    /// The tiers of all fabrics, from the leaves up, as far as they lead to devices shown.
    fn tiers(&self) -> Vec<Tier> {
        let t = self.topology;
        let tier_of = self.tier_of();
        let mut below: BTreeSet<DeviceId> = self
            .placed
            .keys()
            .copied()
            .filter(|&d| t.device(d).kind == DeviceKind::Nic)
            .collect();
        let highest = tier_of.values().max().copied();
        let mut tiers = Vec::new();
        for tier in 0..highest.map_or(0, |h| h + 1) {
            let all = tier_of.values().filter(|&&x| x == tier).count();
            let mut shown: Vec<DeviceId> = self
                .neighbours(&below)
                .into_keys()
                .filter(|d| tier_of.get(d) == Some(&tier))
                .collect();
            let most = if tier == 0 { 2 * SHOWN } else { SHOWN };
            if shown.len() > most {
                // Evenly over all, so that each pod and each group of cores is there.
                let count = shown.len();
                shown = (0..most).map(|i| shown[i * count / most]).collect();
            }
            below = shown.iter().copied().collect();
            tiers.push(Tier { shown, all });
        }
        tiers
    }

    /// Adds a line for each pair of tiles with links between what they stand for.
    pub(super) fn connect(&mut self) {
        let mut pairs: BTreeMap<(usize, usize, LinkFamily), (f64, Vec<LinkId>)> = BTreeMap::new();
        for &(id, from, to) in &self.wires {
            let (Some(&a), Some(&b)) = (self.placed.get(&from), self.placed.get(&to)) else {
                continue;
            };
            if a == b {
                continue;
            }
            let family = self.topology.family(id);
            let rate = self.topology.rate(id).gb_per_sec();
            let pair = pairs.entry((a.min(b), a.max(b), family)).or_default();
            pair.0 = pair.0.max(rate);
            pair.1.extend([id, LinkId(id.0 + 1)]);
        }
        // Few lines stay strong next to a thicket elsewhere: counted by rows.
        let tiles = &self.scene.tiles;
        let row = |tile: usize| (tiles[tile].y * 10.0) as i64;
        let mut crowd: BTreeMap<(i64, i64), usize> = BTreeMap::new();
        for &(a, b, _) in pairs.keys() {
            *crowd.entry((row(a), row(b))).or_default() += 1;
        }
        let mut lines = Vec::with_capacity(pairs.len());
        for ((a, b, family), (rate, links)) in pairs {
            let (from, to) = (&tiles[a], &tiles[b]);
            if from.label.is_empty() && to.label.is_empty() {
                continue;
            }
            let between = tiles.iter().any(|t| {
                (t.y - from.y).abs() < 1.0 && t.x > from.x.min(to.x) && t.x < from.x.max(to.x)
            });
            let (start, end, sag) = ends(from, to, !between);
            lines.push(Line {
                from: start,
                to: end,
                sag,
                family,
                rate,
                links,
                thin: (MANY_LINES / crowd[&(row(a), row(b))] as f64)
                    .sqrt()
                    .clamp(0.25, 1.0),
            });
        }
        self.scene.lines.extend(lines);
    }
}

/// What a frame holds.
#[derive(Clone, Copy)]
pub(super) enum Home {
    /// A node.
    Node(NodeId),
    /// A place that is in no node and stores data, by number.
    Server(u32),
}

/// The rows of a node, from above; storage devices are in one of them.
const ROWS: [DeviceKind; 5] = [
    DeviceKind::Nic,
    DeviceKind::PcieSwitch,
    DeviceKind::Cpu,
    DeviceKind::Gpu,
    DeviceKind::NvSwitch,
];

/// The room for one of `count` tiles in a row.
fn pitch(count: usize) -> f64 {
    if count > 8 { 92.0 } else { 116.0 }
}
