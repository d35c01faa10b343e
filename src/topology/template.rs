//! A component, worked out once: its devices, wires and ports by relative number.
//!
//! Every instance of a component is a copy of one template, shifted. So a machine of
//! thousands of nodes resolves its selectors once.

use super::error::Fault;
use super::graph::DeviceKind;
use super::selector::{self, Indices, Segment};
use super::spec::{InstanceSpec, LinkSpec, Match};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// More devices and instances than this are refused, before any memory is taken for them.
pub(super) const MAX_DEVICES: u64 = 20_000_000;
/// More wires (of two directions each) than this are refused.
pub(super) const MAX_WIRES: u64 = 30_000_000;

/// A device of a template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) kind: DeviceKind,
    pub(super) model: u16,
    pub(super) stem: u16,
    pub(super) index: u16,
    /// Its place among the template's.
    pub(super) place: u32,
}

/// Both directions of one connection between devices, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) model: u16,
    pub(super) lanes: u16,
}

/// The template itself, or an instance within it.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    /// Relative name: empty for the template itself, `tray5`.
    pub(super) name: String,
    /// The node that it is or belongs to, counted within the template.
    pub(super) node: Option<u32>,
    /// The nodes inside it, counted within the template.
    pub(super) inside: Range<u32>,
    /// The price of its component, by number.
    pub(super) price: Option<u16>,
}

/// One copy of a component inside another.
#[derive(Debug, Clone)]
pub(super) struct Copy {
    /// Number of its first device.
    pub(super) base: u32,
    pub(super) template: Rc<Template>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) parts: Vec<Part>,
    pub(super) wires: Vec<Wire>,
    pub(super) spots: Vec<Spot>,
    /// How many nodes are inside.
    pub(super) nodes: u32,
    /// Devices by port group, in port order.
    pub(super) ports: BTreeMap<String, Vec<u32>>,
    /// Its own devices: first number and count.
    pub(super) devices: BTreeMap<String, (u32, u32)>,
    /// The instances directly within it, in order of number.
    pub(super) copies: BTreeMap<String, Vec<Copy>>,
}

impl Template {
    /// Devices and instances: what a copy costs.
    pub(super) fn size(&self) -> u64 {
        (self.parts.len() + self.spots.len()) as u64
    }

    /// The devices that a selector names, in its order.
    pub(super) fn select(&self, text: &str, at: &str, faults: &mut Vec<Fault>) -> Option<Vec<u32>> {
        let paths = match selector::parse(text) {
            Ok(paths) => paths,
            Err(problem) => {
                faults.push(Fault::new(
                    at,
                    format!("`{text}`: {problem}"),
                    "a selector such as `gpu[*]`, `gpu[0-3]` or `tray[*]/gpu[0]`",
                ));
                return None;
            }
        };
        let mut selected = Vec::new();
        for path in &paths {
            if let Err(fault) = self.resolve(path, 0, at, &mut selected) {
                faults.push(fault);
                return None;
            }
            // Checked at each step, so that repetition cannot fill the memory.
            if selected.len() > self.parts.len() {
                break;
            }
        }
        let mut sorted = selected.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|w| w[0] == w[1]) {
            faults.push(Fault::new(
                at,
                format!("`{text}`, which selects a device twice"),
                "each device once",
            ));
            return None;
        }
        Some(selected)
    }

    /// Adds the devices that `path` names, shifted by `base`.
    pub(super) fn resolve(
        &self,
        path: &[Segment],
        base: u32,
        at: &str,
        selected: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        let Some((segment, deeper)) = path.split_first() else {
            return Ok(());
        };
        if deeper.is_empty() {
            let Some((name, indices)) = choose(segment, |n| self.devices.contains_key(n)) else {
                let known = self.devices.keys().map(String::as_str);
                return Err(Fault::unknown(at, "devices here", &segment.name, known));
            };
            let (first, count) = self.devices[name];
            for range in ranges(&indices, count, name, at)? {
                selected.extend(range.map(|i| base + first + i));
            }
            return Ok(());
        }
        let Some((name, indices)) = choose(segment, |n| self.copies.contains_key(n)) else {
            let known = self.copies.keys().map(String::as_str);
            return Err(Fault::unknown(at, "instances here", &segment.name, known));
        };
        let copies = &self.copies[name];
        for range in ranges(&indices, copies.len() as u32, name, at)? {
            for i in range {
                let copy = &copies[i as usize];
                copy.template
                    .resolve(deeper, base + copy.base, at, selected)?;
            }
        }
        Ok(())
    }
}

/// A segment's name and numbers: `gpu[3]`, or `gpu3` as full names have it.
pub(super) fn choose(segment: &Segment, known: impl Fn(&str) -> bool) -> Option<(&str, Indices)> {
    if known(&segment.name) {
        return Some((&segment.name, segment.indices.clone()));
    }
    if !segment.bare {
        return None;
    }
    let (name, number) = selector::split_number(&segment.name, known)?;
    Some((name, Indices::Ranges(vec![(number, number)])))
}

/// The numbers selected out of `count`.
pub(super) fn ranges(
    indices: &Indices,
    count: u32,
    name: &str,
    at: &str,
) -> Result<Vec<Range<u32>>, Fault> {
    let all = [(0, count.saturating_sub(1))];
    let list = match indices {
        Indices::All if count == 0 => return Ok(Vec::new()),
        Indices::All => all.as_slice(),
        Indices::Ranges(list) => list,
    };
    list.iter()
        .map(|&(low, high)| {
            if high < count {
                Ok(low..high + 1)
            } else {
                let last = count.saturating_sub(1);
                Err(Fault::new(
                    at,
                    format!("`{name}[{high}]`"),
                    match count {
                        1 => format!("`{name}[0]`, the only one"),
                        _ => format!("a number from 0 to {last}"),
                    },
                ))
            }
        })
        .collect()
}

/// Pairs up the two ends of a link; a fault if they do not fit.
pub(super) fn pair(
    link: &LinkSpec,
    from: &[u32],
    to: &[u32],
    at: &str,
) -> Result<Vec<(u32, u32)>, Fault> {
    // Only a fault that is told elsewhere leaves an end empty.
    if from.is_empty() || to.is_empty() {
        return Ok(Vec::new());
    }
    let pairs: Vec<(u32, u32)> = match link.pairing {
        Match::Each if from.len() != to.len() => {
            return Err(Fault::new(
                format!("{at}.match"),
                format!(
                    "`each` between {} devices of `{}` and {} of `{}`",
                    from.len(),
                    link.from,
                    to.len(),
                    link.to
                ),
                "the same number at both ends",
            ));
        }
        Match::Each => from.iter().copied().zip(to.iter().copied()).collect(),
        Match::All => {
            let count = from.len() as u64 * to.len() as u64;
            if count > MAX_WIRES {
                return Err(too_many_wires(at, count));
            }
            from.iter()
                .flat_map(|&f| to.iter().map(move |&t| (f, t)))
                .collect()
        }
    };
    Ok(pairs)
}

/// The lanes of a link, in the range that a [`super::graph::Link`] can hold.
pub(super) fn lanes(link: &LinkSpec, at: &str, faults: &mut Vec<Fault>) -> Option<u16> {
    match u16::try_from(link.lanes) {
        Ok(lanes) if lanes > 0 => Some(lanes),
        _ => {
            faults.push(Fault::new(
                format!("{at}.lanes"),
                link.lanes.to_string(),
                "a number from 1 to 65535",
            ));
            None
        }
    }
}

/// A fault of size.
pub(super) fn too_many_wires(at: &str, count: u64) -> Fault {
    Fault::new(
        at,
        format!("{count} wires"),
        format!("at most {MAX_WIRES} in one machine"),
    )
}

/// A fault of size.
pub(super) fn too_many_devices(at: &str, count: u64) -> Fault {
    Fault::new(
        at,
        format!("{count} devices and instances"),
        format!("at most {MAX_DEVICES} in one machine"),
    )
}

impl Template {
    pub(super) fn add_copies(
        &mut self,
        instance: &InstanceSpec,
        inner: &Rc<Template>,
        in_node: bool,
    ) {
        // Instances of one name share one numbering, whatever component each is.
        let copies = self.copies.entry(instance.name.clone()).or_default();
        for _ in 0..instance.count {
            let name = format!("{}{}", instance.name, copies.len());
            let base = self.parts.len() as u32;
            copies.push(Copy {
                base,
                template: Rc::clone(inner),
            });
            let spot_base = self.spots.len() as u32;
            let node_base = self.nodes;
            self.parts.extend(inner.parts.iter().map(|part| Part {
                place: part.place + spot_base,
                ..*part
            }));
            self.wires.extend(inner.wires.iter().map(|wire| Wire {
                from: wire.from + base,
                to: wire.to + base,
                ..*wire
            }));
            self.spots.extend(inner.spots.iter().map(|spot| Spot {
                name: join(&name, &spot.name),
                node: if in_node {
                    Some(0)
                } else {
                    spot.node.map(|n| n + node_base)
                },
                inside: if in_node {
                    0..1
                } else {
                    spot.inside.start + node_base..spot.inside.end + node_base
                },
                price: spot.price,
            }));
            for (group, members) in &inner.ports {
                self.ports
                    .entry(group.clone())
                    .or_default()
                    .extend(members.iter().map(|m| m + base));
            }
            self.nodes += inner.nodes;
        }
        self.spots[0].inside = 0..self.nodes;
    }
}

/// A relative name behind its prefix.
pub(super) fn join(prefix: &str, name: &str) -> String {
    if name.is_empty() {
        prefix.to_owned()
    } else {
        format!("{prefix}/{name}")
    }
}
