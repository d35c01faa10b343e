//! Machines of many nodes: cards for groups of nodes, and one node in full below.

use super::page::{GAP, Home, MARGIN, Page, TILE};
use super::scene::{Anchor, Frame, Tile, even};
use crate::graph::{DeviceId, DeviceKind, NodeId, Topology};
use std::collections::BTreeMap;

/// The widest that cards may grow together.
const WIDEST: f64 = 1960.0;
/// A small mark for a device, and the room it takes.
const MARK: f64 = 13.0;
const MARK_PITCH: f64 = 17.0;
const CARD_PADDING: f64 = 14.0;

/// Nodes that are wired alike.
struct Group {
    nodes: Vec<NodeId>,
    /// Leaf switches that this group is the first to use.
    leaves: usize,
}

/// Draws the machine, one node of it in full. Returns the page with its right and bottom.
pub(super) fn draw(topology: &Topology, top: f64, faulty: Option<NodeId>) -> (Page<'_>, f64, f64) {
    let mut page = Page::new(topology);
    let nodes: Vec<NodeId> = (0..topology.nodes.len() as u32).map(NodeId).collect();
    let card = card_width(topology, NodeId(0));
    let domain = page.domain(&nodes[..1]);
    let one_domain = !domain.is_empty() && page.domain(&nodes) == domain;
    // Nodes of several NVLink domains are told apart best by domain.
    let singly = (nodes.len() as f64) * card <= WIDEST && (domain.is_empty() || one_domain);
    let groups: Vec<Group> = if singly || one_domain && nodes.len() <= 18 {
        let alone = |&node: &NodeId| Group {
            nodes: vec![node],
            leaves: 0,
        };
        nodes.iter().map(alone).collect()
    } else {
        groups(topology)
    };
    let own_leaves = groups.iter().map(|g| g.leaves).max().unwrap_or(0) as f64;
    let slot = (card + 14.0).max(own_leaves * 58.0 + 20.0).max(150.0);
    let most = if singly || one_domain {
        groups.len()
    } else {
        ((WIDEST / slot) as usize).max(2).min(groups.len())
    };
    let torn = groups.len() > most;
    // With a gap for those left out, before the last.
    let shown: Vec<&Group> = if torn {
        groups[..most - 1].iter().chain(groups.last()).collect()
    } else {
        groups.iter().collect()
    };
    let inset_width = page.width(Home::Node(faulty.unwrap_or(NodeId(0))));
    let servers = page.servers();
    let slots = shown.len() + usize::from(torn) + usize::from(!servers.is_empty());
    let slot = if singly || one_domain {
        card + 10.0
    } else {
        slot
    };
    let width = (slot * slots as f64)
        .max(inset_width)
        .max(domain.len() as f64 * 62.0)
        .max(620.0);
    let (left, right) = (MARGIN + 24.0, MARGIN + 24.0 + width);
    let card_top = top + page.fabric_height() + 6.0;
    let mut bottom = card_top;
    let mut xs = even(slots, left, right);
    if !servers.is_empty()
        && let Some(x) = xs.pop()
    {
        bottom = add_servers(&mut page, &servers, x, card_top);
    }
    if torn {
        let gap = xs.remove(xs.len() - 2);
        let left_out = groups.len() - shown.len();
        page.scene
            .caption(gap, card_top + 44.0, 22.0, Anchor::Middle, "…");
        let text = format!("{left_out} more");
        page.scene
            .caption(gap, card_top + 64.0, 12.0, Anchor::Middle, &text);
    }
    let merged = one_domain && singly_marks(topology);
    for (group, x) in shown.iter().zip(xs) {
        bottom = add_card(&mut page, group, x, card_top, merged).max(bottom);
    }
    page.fabrics(left, right, top);
    if one_domain {
        bottom = page.shared(&domain, left, right, bottom);
    }
    page.connect();
    let shown = (faulty, one_domain);
    let (right, bottom) = inset(&mut page, &domain, shown, (left, right), bottom);
    (page, right + 24.0, bottom)
}

/// Whether the cards' GPUs are one mark together: their lines to shared switches would be
/// too many.
fn singly_marks(topology: &Topology) -> bool {
    topology.gpus().count() > 16
}

/// One node in full, below the others: that with a fault, if there is one, or the first.
fn inset(
    page: &mut Page<'_>,
    domain: &[DeviceId],
    (faulty, drawn): (Option<NodeId>, bool),
    (left, right): (f64, f64),
    bottom: f64,
) -> (f64, f64) {
    let mut inner = Page::new(page.topology);
    let node = faulty.unwrap_or(NodeId(0));
    let width = inner.width(Home::Node(node));
    let title = match faulty {
        // Its frame has its name.
        Some(_) => "With a fault",
        None if page.topology.nodes.len() > 1 => "Inside one node",
        None => "Inside the node",
    };
    let top = bottom + GAP;
    let x = left + (right - left - width) / 2.0;
    inner
        .scene
        .caption(x, top - 8.0, 13.0, Anchor::Start, title);
    let mut bottom = inner.home(Home::Node(node), x, top);
    if !drawn && !domain.is_empty() {
        bottom = inner.shared(domain, left, right, bottom);
    }
    inner.connect();
    page.scene.frames.append(&mut inner.scene.frames);
    page.scene.lines.append(&mut inner.scene.lines);
    page.scene.tiles.append(&mut inner.scene.tiles);
    page.scene.captions.append(&mut inner.scene.captions);
    (right, bottom)
}

fn card_width(topology: &Topology, node: NodeId) -> f64 {
    let node = &topology.nodes[node.index()];
    let marks = node.gpus.len().max(node.nics.len()) as f64 * MARK_PITCH;
    marks.max(52.0) + 2.0 * CARD_PADDING
}

/// Consecutive nodes with the same leaves. Without a fabric each NVLink domain, that is
/// each outermost place, is a group.
fn groups(topology: &Topology) -> Vec<Group> {
    let leaf_of: BTreeMap<DeviceId, DeviceId> = topology
        .fabrics
        .iter()
        .flat_map(|f| &f.switches)
        .flat_map(|&switch| {
            topology
                .links_from(switch)
                .into_iter()
                .filter(|&(_, to)| topology.device(to).kind == DeviceKind::Nic)
                .map(move |(_, nic)| (nic, switch))
        })
        .collect();
    let mut groups: Vec<(Vec<DeviceId>, &str, Group)> = Vec::new();
    let mut used: std::collections::BTreeSet<DeviceId> = std::collections::BTreeSet::new();
    for (i, node) in topology.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let mut leaves: Vec<DeviceId> = node
            .nics
            .iter()
            .filter_map(|nic| leaf_of.get(nic).copied())
            .collect();
        leaves.sort_unstable();
        leaves.dedup();
        let outer = node.name.split_once('/').map_or("", |(outer, _)| outer);
        match groups.last_mut() {
            Some((same, place, group)) if *same == leaves && *place == outer => {
                group.nodes.push(id);
            }
            _ => {
                let own = leaves.iter().filter(|&&leaf| used.insert(leaf)).count();
                let group = Group {
                    nodes: vec![id],
                    leaves: own,
                };
                groups.push((leaves, outer, group));
            }
        }
    }
    groups.into_iter().map(|(_, _, group)| group).collect()
}

/// Draws one card around `x` for all file servers: their NICs above, what they store below. Returns its
/// bottom.
fn add_servers(page: &mut Page<'_>, servers: &[u32], x: f64, top: f64) -> f64 {
    let t = page.topology;
    let mut y = top + 12.0;
    let width = 52.0 + 2.0 * CARD_PADDING;
    for kind in [DeviceKind::Nic, DeviceKind::Storage] {
        let own = t.devices().filter(|(_, device)| {
            device.kind == kind && servers.binary_search(&device.place).is_ok()
        });
        let own: Vec<DeviceId> = own.map(|(id, _)| id).collect();
        if !own.is_empty() {
            add_mark(page, kind, (x, y), width - 2.0 * CARD_PADDING, own);
            y += MARK + 8.0;
        }
    }
    let bottom = y + 6.0;
    page.scene.frames.push(Frame {
        x: x - width / 2.0,
        y: top,
        width,
        height: bottom - top,
        many: servers.len() > 1,
    });
    let name = |place: &u32| t.places[*place as usize].name.as_str();
    let (bold, range) = match servers {
        [] => (String::new(), String::new()),
        [one] => (name(one).to_owned(), String::new()),
        [first, .., last] => (
            format!("× {} servers", servers.len()),
            format!("{} … {}", name(first), name(last)),
        ),
    };
    add_texts(page, x, bottom, card_texts(&bold, &range, width))
}

/// Draws a card around `x`. Returns its bottom.
fn add_card(page: &mut Page<'_>, group: &Group, x: f64, top: f64, merged: bool) -> f64 {
    let t = page.topology;
    let first = group.nodes[0];
    let width = card_width(t, first);
    let nodes: Vec<_> = group.nodes.iter().map(|n| &t.nodes[n.index()]).collect();
    let mut y = top + 12.0;
    let row = |page: &mut Page<'_>, kind, y: f64, columns: Vec<Vec<DeviceId>>, share: f64| {
        let count = columns.len();
        let xs = even(
            count,
            x - width / 2.0 + CARD_PADDING,
            x + width / 2.0 - CARD_PADDING,
        );
        for (devices, x) in columns.into_iter().zip(xs) {
            add_mark(page, kind, (x, y), share, devices);
        }
    };
    let column = |of: &dyn Fn(usize) -> Vec<DeviceId>, count: usize| -> Vec<Vec<DeviceId>> {
        (0..count).map(of).collect()
    };
    let nics = nodes.iter().map(|n| n.nics.len()).max().unwrap_or(0);
    if nics > 0 {
        let of = |i: usize| {
            nodes
                .iter()
                .filter_map(|n| n.nics.get(i).copied())
                .collect()
        };
        row(page, DeviceKind::Nic, y, column(&of, nics), MARK);
        y += MARK + 8.0;
    }
    if merged {
        // Lines to the shared switches leave below, so the name stands inside.
        let name = nodes[0].name.rsplit('/').next().unwrap_or_default();
        y += 10.0;
        page.scene.caption(x, y, 12.0, Anchor::Middle, name);
        y += 8.0;
    }
    let gpus = nodes.iter().map(|n| n.gpus.len()).max().unwrap_or(0);
    if gpus > 0 && merged {
        let all: Vec<DeviceId> = nodes.iter().flat_map(|n| n.gpus.iter().copied()).collect();
        let tile = Tile {
            x,
            y,
            width: width - 2.0 * CARD_PADDING + 6.0,
            height: 22.0,
            kind: DeviceKind::Gpu,
            label: format!("{gpus} GPUs"),
            tip: t.nodes[first.index()].name.clone(),
            devices: all.clone(),
        };
        let number = page.scene.tiles.len();
        page.scene.tiles.push(tile);
        page.placed.extend(all.into_iter().map(|gpu| (gpu, number)));
        y += 22.0 + 8.0;
    } else if gpus > 0 {
        let of = |i: usize| {
            nodes
                .iter()
                .filter_map(|n| n.gpus.get(i).copied())
                .collect()
        };
        row(page, DeviceKind::Gpu, y, column(&of, gpus), MARK);
        y += MARK + 8.0;
    }
    let switches = if merged {
        0
    } else {
        let own = |d: DeviceId| t.node_of(d) == Some(first);
        let own = t
            .devices()
            .filter(|&(id, d)| d.kind == DeviceKind::NvSwitch && own(id))
            .count();
        if own > 0 {
            own
        } else {
            page.domain(&group.nodes[..1]).len()
        }
    };
    if switches > 0 {
        let xs = even(
            switches,
            x - width / 2.0 + CARD_PADDING,
            x + width / 2.0 - CARD_PADDING,
        );
        let each = (width - 2.0 * CARD_PADDING) / switches as f64;
        for x in xs {
            add_mark(
                page,
                DeviceKind::NvSwitch,
                (x, y),
                (each - 3.0).max(2.0),
                Vec::new(),
            );
        }
        y += MARK + 8.0;
    }
    let bottom = y + 6.0;
    page.scene.frames.push(Frame {
        x: x - width / 2.0,
        y: top,
        width,
        height: bottom - top,
        many: group.nodes.len() > 1,
    });
    if merged {
        return bottom;
    }
    let first = nodes[0].name.as_str();
    let last = nodes[nodes.len() - 1].name.as_str();
    let (bold, range) = match nodes.len() {
        1 => (first.to_owned(), String::new()),
        n => (format!("× {n} nodes"), format!("{first} … {last}")),
    };
    add_texts(page, x, bottom, card_texts(&bold, &range, width))
}

/// Writes lines below a card. Returns their bottom.
fn add_texts(page: &mut Page<'_>, x: f64, bottom: f64, lines: Vec<(f64, String)>) -> f64 {
    let mut text_y = bottom;
    for (size, text) in lines {
        text_y += size + 3.0;
        page.scene.caption(x, text_y, size, Anchor::Middle, &text);
    }
    text_y + 4.0
}

/// The lines of text below a card; long names of inner nodes are cut at the slash.
fn card_texts(bold: &str, range: &str, width: f64) -> Vec<(f64, String)> {
    let mut lines = Vec::new();
    for (size, text) in [(13.0, bold), (11.0, range)] {
        if text.is_empty() {
            continue;
        }
        let fits = super::scene::text_width(text, size) <= width + 8.0;
        match text.split_once('/') {
            Some((outer, inner)) if !fits && !inner.contains('…') => {
                lines.push((size - 1.0, outer.to_owned()));
                lines.push((size - 1.0, inner.to_owned()));
            }
            _ => match text.split_once(" … ") {
                Some((first, last)) if !fits => {
                    lines.push((size, format!("{first} …")));
                    lines.push((size, last.to_owned()));
                }
                _ => lines.push((size, text.to_owned())),
            },
        }
    }
    lines
}

fn add_mark(
    page: &mut Page<'_>,
    kind: DeviceKind,
    (x, y): (f64, f64),
    width: f64,
    devices: Vec<DeviceId>,
) {
    let tip = match devices.as_slice() {
        [] => kind.label().to_owned(),
        [one] => page.topology.device_name(*one),
        [first, .., last] => format!(
            "{} … {}",
            page.topology.device_name(*first),
            page.topology.device_name(*last)
        ),
    };
    let number = page.scene.tiles.len();
    page.scene.tiles.push(Tile {
        x,
        y,
        width,
        height: MARK.min(TILE),
        kind,
        label: String::new(),
        tip,
        devices: devices.clone(),
    });
    page.placed.extend(devices.into_iter().map(|d| (d, number)));
}
