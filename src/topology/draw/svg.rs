//! The machine as an SVG drawing for people.
//!
//! Switches of the network stand above the nodes, tier by tier; inside a node NICs, PCIe
//! switches, CPUs, GPUs and NVSwitches from above. One or two nodes are drawn in full;
//! of more, nodes with equal wiring share a card, and one node is drawn in full below.

use super::detail;
use super::dot::{fill, stroke};
use super::overview;
use super::page::Page;
use super::scene::{FAULT, escape, heat, line_width, text_width};
use crate::graph::{DeviceId, DeviceKind, LinkId, NodeId, Topology};
use crate::hardware::LinkFamily;
use fabricsim_units::text::xml;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// How a drawing looks.
#[derive(Clone, Copy, Default)]
pub struct Style<'a> {
    /// How busy a link was, from 0 to 1, or `None` if it was not watched. Given, it
    /// colours the lines from grey over yellow to red; a line that stands for several
    /// links shows the busiest.
    pub utilisation: Option<&'a dyn Fn(LinkId) -> Option<f64>>,
    /// In place of the topology's own title.
    pub title: Option<&'a str>,
    /// Lines carry their numbers, as `data-line`, for programs that colour them.
    pub numbered: bool,
    /// What is marked as faulty; of many nodes, the first one with such a thing is drawn in full.
    pub faulty: Option<Faulty<'a>>,
}

/// What is faulty.
#[derive(Clone, Copy)]
pub struct Faulty<'a> {
    /// Links, in either direction.
    pub link: &'a dyn Fn(LinkId) -> bool,
    /// Devices.
    pub device: &'a dyn Fn(DeviceId) -> bool,
}

impl Faulty<'_> {
    /// The first node with something faulty.
    fn node(&self, topology: &Topology) -> Option<NodeId> {
        let devices = topology.devices().map(|(id, _)| id);
        let device = devices.filter(|&id| (self.device)(id));
        let links = topology.links().map(|(id, _)| id);
        let ends = links.filter(|&id| (self.link)(id)).flat_map(|id| {
            let (from, to) = topology.ends(id);
            [from, to]
        });
        let nodes = device.chain(ends).filter_map(|id| topology.node_of(id));
        nodes.min()
    }
}

/// Draws the machine: a whole SVG document with text in any sans-serif face.
#[must_use]
pub fn svg(topology: &Topology, style: &Style<'_>) -> String {
    numbered_svg(topology, style).0
}

/// The same, and the links that each line stands for, in order of the lines' numbers.
#[must_use]
pub fn numbered_svg(topology: &Topology, style: &Style<'_>) -> (String, Vec<Vec<LinkId>>) {
    let (page, width, bottom) = page(topology, style, 96.0);
    let mut body = String::new();
    page.scene.write(&mut body, style);
    let (legend, height) = legend(topology, style, width, bottom + 34.0);
    let mut out = String::with_capacity(body.len() + legend.len() + 1000);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="sans-serif">"#
    );
    let _ = writeln!(
        out,
        r##"<rect width="100%" height="100%" fill="#ffffff"/>"##
    );
    let title = style.title.unwrap_or(&topology.title);
    let room = width - 48.0;
    let size = (20.0f64).min(20.0 * room / text_width(title, 20.0));
    let _ = writeln!(
        out,
        r##"<text x="24" y="38" font-size="{size:.1}" font-weight="bold" fill="#1d2733">{}</text>"##,
        escape(title)
    );
    let text = subtitle(topology);
    let size = (13.0f64).min(13.0 * room / text_width(&text, 13.0));
    let _ = writeln!(
        out,
        r##"<text x="24" y="62" font-size="{size:.1}" fill="#566070">{}</text>"##,
        escape(&text)
    );
    out.push_str(&body);
    out.push_str(&legend);
    out.push_str("</svg>\n");
    let lines = page.scene.lines.into_iter().map(|line| line.links);
    (xml(&out).into_owned(), lines.collect())
}

/// The machine's shapes from `top` on, with their right and bottom.
pub(super) fn page<'t>(
    topology: &'t Topology,
    style: &Style<'_>,
    top: f64,
) -> (Page<'t>, f64, f64) {
    match topology.nodes.len() {
        0..=2 => detail::draw(topology, top),
        _ => overview::draw(topology, top, style.faulty.and_then(|f| f.node(topology))),
    }
}

fn subtitle(topology: &Topology) -> String {
    let number = |n: usize, one: &str| {
        let plural = if n == 1 { "" } else { "s" };
        format!("{n} {one}{plural}")
    };
    let mut parts = vec![
        number(topology.nodes.len(), "node"),
        number(topology.gpus().count(), "GPU"),
    ];
    for fabric in &topology.fabrics {
        let tiers = |tier| fabric.tiers.iter().filter(|&&t| t == tier).count();
        let names = ["leaf", "spine", "core"];
        let counts: Vec<String> = (0u8..)
            .zip(names)
            .filter(|&(tier, _)| tiers(tier) > 0)
            .map(|(tier, name)| match (tiers(tier), name) {
                (1, name) => format!("1 {name}"),
                (n, "leaf") => format!("{n} leaves"),
                (n, name) => format!("{n} {name}s"),
            })
            .collect();
        let switches = match fabric.group_count() {
            0 => counts.join(", "),
            groups => format!(
                "{} in {}",
                match fabric.switches.len() {
                    1 => "1 switch".to_owned(),
                    switches => format!("{switches} switches"),
                },
                number(groups, "group")
            ),
        };
        parts.push(format!(
            "{} fabric of {}: {switches}",
            fabric.name,
            number(fabric.ports.len(), "port"),
        ));
    }
    parts.join("  ·  ")
}

/// One entry of the legend: its drawing at the origin, and its text.
struct Entry {
    mark: String,
    text: String,
}

/// The legend from `top` on, and the page's bottom.
fn legend(topology: &Topology, style: &Style<'_>, width: f64, top: f64) -> (String, f64) {
    let mut entries = device_entries(topology);
    entries.extend(link_entries(topology, style));
    entries.extend(style.faulty.map(|_| Entry {
        mark: format!(
            r#"<path d="M2 0H28" stroke="{FAULT}" stroke-width="2.4" stroke-dasharray="5 4"/>"#
        ),
        text: "faulty".to_owned(),
    }));
    let (mut x, mut y) = (24.0, top + 10.0);
    let mut out = format!(
        "<path d=\"M24 {0:.1}H{1:.1}\" stroke=\"#d5dae1\"/>\n",
        top - 12.0,
        width - 24.0
    );
    for entry in &entries {
        let needs = 44.0 + text_width(&entry.text, 12.0);
        if x > 24.0 && x + needs > width - 12.0 {
            x = 24.0;
            y += 24.0;
        }
        let _ = writeln!(
            out,
            r##"<g transform="translate({x:.1} {y:.1})">{}<text x="34" y="4.5" font-size="12" fill="#1d2733">{}</text></g>"##,
            entry.mark,
            escape(&entry.text)
        );
        x += needs + 14.0;
    }
    if !topology.graph.raw_edges().is_empty() {
        y += 22.0;
        let _ = writeln!(
            out,
            r##"<text x="24" y="{:.1}" font-size="11" fill="#566070">Rates are what payload can use of one line in one direction; lanes and parallel cables are one line.</text>"##,
            y + 4.0
        );
    }
    y += 20.0;
    if style.utilisation.is_some() {
        for step in 0..40 {
            let share = f64::from(step) / 39.0;
            let _ = writeln!(
                out,
                r#"<rect x="{:.1}" y="{y:.1}" width="5.2" height="10" fill="{}"/>"#,
                24.0 + 5.0 * f64::from(step),
                heat(share)
            );
        }
        let _ = writeln!(
            out,
            r##"<text x="236" y="{:.1}" font-size="12" fill="#1d2733">use of the busiest direction, 0 to 100 %; palest: not watched</text>"##,
            y + 9.5
        );
        y += 24.0;
    }
    (out, y + 6.0)
}

fn device_entries(topology: &Topology) -> Vec<Entry> {
    let mut titles: BTreeMap<DeviceKind, BTreeSet<&str>> = BTreeMap::new();
    for (_, device) in topology.devices() {
        let title = topology.device_models[device.model as usize].1.title();
        titles.entry(device.kind).or_default().insert(title);
    }
    titles
        .into_iter()
        .map(|(kind, titles)| {
            let titles: Vec<&str> = titles.into_iter().take(3).collect();
            Entry {
                mark: format!(
                    r##"<rect x="4" y="-7" width="22" height="14" rx="3" fill="{}" stroke="#6b7480"/>"##,
                    fill(kind)
                ),
                text: format!("{}: {}", kind.label(), titles.join(", ")),
            }
        })
        .collect()
}

/// Lines of a family in the legend; of more rates the lowest and the highest.
const MOST_LINES: usize = 4;

/// A line for each rate of each family, as thick as it is drawn: which devices it joins, by how many
/// lanes, and the rate of one direction, rounded to what is read off a drawing.
fn link_entries(topology: &Topology, style: &Style<'_>) -> Vec<Entry> {
    type Joined = (DeviceKind, DeviceKind, u16);
    let mut rates: BTreeMap<LinkFamily, BTreeMap<u64, BTreeSet<Joined>>> = BTreeMap::new();
    for (id, link) in topology.links().step_by(2) {
        let (from, to) = topology.ends(id);
        let (a, b) = (topology.device(from).kind, topology.device(to).kind);
        let rate = topology.rate(id).gb_per_sec().round() as u64;
        let of_family = rates.entry(topology.family(id)).or_default();
        let joined = (a.min(b), a.max(b), link.lanes);
        of_family.entry(rate).or_default().insert(joined);
    }
    let mut entries = Vec::new();
    for (family, rates) in rates {
        let colour = match style.utilisation {
            Some(_) => "#8a929d",
            None => stroke(family),
        };
        let count = rates.len();
        for (index, (rate, joined)) in rates.into_iter().enumerate() {
            let between = count.saturating_sub(2);
            if count > MOST_LINES && (1..=between).contains(&index) {
                continue;
            }
            let more = match (count > MOST_LINES, index) {
                (true, 0) => format!(", {between} rates between"),
                _ => String::new(),
            };
            entries.push(Entry {
                mark: format!(
                    r#"<path d="M2 0H28" stroke="{colour}" stroke-width="{:.1}"/>"#,
                    line_width(rate as f64, 1.0)
                ),
                text: format!(
                    "{}, {}: {rate} GB/s{more}",
                    family.label(),
                    ends(family, &joined)
                ),
            });
        }
    }
    entries
}

/// What links of one rate join: `GPU – NVSwitch, 4 lanes`.
fn ends(family: LinkFamily, joined: &BTreeSet<(DeviceKind, DeviceKind, u16)>) -> String {
    let many = match family {
        LinkFamily::Network => "cables",
        _ => "lanes",
    };
    let pairs: BTreeSet<_> = joined.iter().map(|&(a, b, _)| (a, b)).collect();
    let lanes: BTreeSet<u16> = joined.iter().map(|&(_, _, lanes)| lanes).collect();
    let mut named: Vec<String> = pairs
        .iter()
        .take(3)
        .map(|(a, b)| format!("{} – {}", a.label(), b.label()))
        .collect();
    if pairs.len() > named.len() {
        named.push("…".to_owned());
    }
    let lanes = match (lanes.first(), lanes.last()) {
        (Some(1), Some(1)) | (None, _) | (_, None) => String::new(),
        (Some(first), Some(last)) if first == last => format!(", {first} {many}"),
        (Some(first), Some(last)) => format!(", {first} to {last} {many}"),
    };
    named.join(" and ") + &lanes
}
