//! Devices and links of a built machine, by selector.
//!
//! The language is that of the topology file's selectors, on full names: `node[0-3]/gpu[*]`,
//! `node2/nic5`, `rack0/tray[*]/gpu[1]`, `compute/leaf[0]`; several are joined by commas. What
//! names a place selects everything in it: `node2`, `rack0`, `compute` (a fabric's switches).
//!
//! Links are selected by their ends: `node0/nic3 > compute` is one direction,
//! `node0/nic3 <> compute` both; devices alone mean all links from and to them. Of parallel cables
//! that count singly, `compute/leaf0 > compute/spine1 #3` is one.

use super::error::Fault;
use super::graph::{DeviceId, LinkId, Topology};
use super::selector::{self, Indices, Segment};
use std::collections::BTreeMap;

/// The devices that a selector names, in order of id. `path` is the place in the file that an
/// error tells.
///
/// # Errors
/// Text that is no selector, or a part of it that names no device.
pub fn devices(topology: &Topology, text: &str, path: &str) -> Result<Vec<DeviceId>, Fault> {
    let broken = |problem: String| {
        Fault::new(
            path,
            format!("`{text}`: {problem}"),
            "devices by their full names, such as `node[0-3]/gpu[*]`",
        )
    };
    let mut all = Vec::new();
    for segments in selector::parse(text).map_err(broken)? {
        let found = matching(topology, &segments);
        if found.is_empty() {
            return Err(unknown(topology, &segments, path));
        }
        all.extend(found);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The links that a selector names, in order of id. `path` is the place in the file that an
/// error tells.
///
/// # Errors
/// Text that is no selector, a part of it that names no device, or devices without a link
/// between them.
pub fn links(topology: &Topology, text: &str, path: &str) -> Result<Vec<LinkId>, Fault> {
    let whole = text;
    let (text, cable) = match text.rsplit_once('#').map(|(t, n)| (t, n.trim().parse())) {
        Some((text, Ok(number))) => (text, Some(number)),
        _ => (text, None),
    };
    let (ends, both) = match (text.split_once("<>"), text.split_once('>')) {
        (Some(ends), _) => (Some(ends), true),
        (None, Some(ends)) => (Some(ends), false),
        (None, None) => (None, true),
    };
    let mask = |text: &str| -> Result<Vec<bool>, Fault> {
        let mut mask = vec![false; topology.device_count()];
        for device in devices(topology, text.trim(), path)? {
            mask[device.index()] = true;
        }
        Ok(mask)
    };
    let mut found: Vec<LinkId> = match ends {
        None => {
            let chosen = mask(text)?;
            let at_end = |id| {
                let (from, to) = topology.ends(id);
                chosen[from.index()] || chosen[to.index()]
            };
            ids(topology).filter(|&id| at_end(id)).collect()
        }
        Some((from, to)) => {
            let (near, far) = (mask(from)?, mask(to)?);
            let between = |id| {
                let (from, to) = topology.ends(id);
                let forward = near[from.index()] && far[to.index()];
                forward || (both && far[from.index()] && near[to.index()])
            };
            ids(topology).filter(|&id| between(id)).collect()
        }
    };
    let joined = found.len();
    if let Some(number) = cable {
        found.retain(|&id| topology.cable_number(id) == Some(number));
    }
    if found.is_empty() && joined > 0 {
        return Err(Fault::new(
            path,
            format!("`{whole}`, which is no cable"),
            format!(
                "a number only where parallel cables count singly (ECMP); without it, `{}` is {joined} of them",
                text.trim()
            ),
        ));
    }
    if found.is_empty() {
        let first = ends.map_or(text, |(from, _)| from).trim();
        return Err(unlinked(topology, text, first, path));
    }
    Ok(found)
}

fn ids(topology: &Topology) -> impl Iterator<Item = LinkId> {
    topology.links().map(|(id, _)| id)
}

fn unlinked(topology: &Topology, text: &str, first: &str, path: &str) -> Fault {
    let near = devices(topology, first, path).unwrap_or_default();
    let mut joined: Vec<String> = near
        .iter()
        .take(1)
        .flat_map(|&device| topology.links_from(device))
        .map(|(_, far)| topology.device_name(far))
        .collect();
    joined.truncate(8);
    let expected = match near.first() {
        Some(&device) if !joined.is_empty() => format!(
            "the ends of a link; `{}` has links to {}",
            topology.device_name(device),
            joined.join(", ")
        ),
        _ => "the ends of a link".to_owned(),
    };
    Fault::new(path, format!("`{text}`, which is no link"), expected)
}

fn matching(topology: &Topology, segments: &[Segment]) -> Vec<DeviceId> {
    // How many segments a place uses up; `None` where it does not match.
    let used: Vec<Option<usize>> = topology
        .places
        .iter()
        .map(|place| {
            let parts = parts(&place.name);
            let fits = parts
                .iter()
                .zip(segments)
                .all(|(part, segment)| part_fits(segment, part, place.fabric.is_some()));
            fits.then(|| parts.len().min(segments.len()))
        })
        .collect();
    topology
        .devices()
        .filter(|(_, device)| match used[device.place as usize] {
            None => false,
            Some(used) => match &segments[used..] {
                [] => true,
                [last] => {
                    let stem = &topology.stems[device.stem as usize];
                    device_fits(last, stem, u32::from(device.index))
                }
                _ => false,
            },
        })
        .map(|(id, _)| id)
        .collect()
}

fn parts(name: &str) -> Vec<&str> {
    name.split('/').filter(|part| !part.is_empty()).collect()
}

fn includes(indices: &Indices, number: u32) -> bool {
    match indices {
        Indices::All => true,
        Indices::Ranges(ranges) => ranges.iter().any(|&(a, b)| (a..=b).contains(&number)),
    }
}

fn device_fits(segment: &Segment, stem: &str, number: u32) -> bool {
    (segment.name == stem && includes(&segment.indices, number))
        || (segment.bare && number_after(&segment.name, stem) == Some(number))
}

fn part_fits(segment: &Segment, part: &str, fabric: bool) -> bool {
    (segment.bare && segment.name == part)
        || (!fabric
            && number_after(part, &segment.name)
                .is_some_and(|number| includes(&segment.indices, number)))
}

/// The number that follows `stem` in `text`, as full names write it.
fn number_after(text: &str, stem: &str) -> Option<u32> {
    let digits = text.strip_prefix(stem)?;
    let plain = digits == "0" || !digits.starts_with('0');
    let only = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (plain && only).then(|| digits.parse().ok()).flatten()
}

/// Which segment names nothing, and what it could have named.
fn unknown(topology: &Topology, segments: &[Segment], path: &str) -> Fault {
    let matched = (0..segments.len())
        .rev()
        .find(|&count| count == 0 || !matching(topology, &segments[..count]).is_empty())
        .unwrap_or(0);
    let segment = &segments[matched];
    // Names at this level under what matched, with the largest number of each.
    let mut known: BTreeMap<&str, Option<u32>> = BTreeMap::new();
    let mut add = |name, number: Option<u32>| {
        let largest = known.entry(name).or_insert(number);
        *largest = (*largest).max(number);
    };
    for (_, device) in topology.devices() {
        let place = &topology.places[device.place as usize];
        let parts = parts(&place.name);
        let under = parts
            .iter()
            .zip(&segments[..matched])
            .all(|(part, segment)| part_fits(segment, part, place.fabric.is_some()));
        if !under {
            continue;
        }
        if parts.len() == matched {
            let stem = &topology.stems[device.stem as usize];
            add(stem, Some(u32::from(device.index)));
        } else if let Some(&part) = parts.get(matched) {
            let stem = part.trim_end_matches(|c: char| c.is_ascii_digit());
            match number_after(part, stem) {
                Some(number) if place.fabric.is_none() => add(stem, Some(number)),
                _ => add(part, None),
            }
        }
    }
    let asked = segment
        .name
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .to_owned();
    let of_known = [segment.name.as_str(), asked.as_str()]
        .into_iter()
        .find_map(|name| Some((name, (*known.get(name)?)?)));
    match of_known {
        Some((name, largest)) => Fault::new(
            path,
            format!("`{}`, which the machine does not have", written(segment)),
            format!("`{name}[0-{largest}]`"),
        ),
        None => {
            let name = if segment.bare { &asked } else { &segment.name };
            Fault::unknown(path, "names there", name, known.keys().copied())
        }
    }
}

fn written(segment: &Segment) -> String {
    match &segment.indices {
        Indices::All if segment.bare => segment.name.clone(),
        Indices::All => format!("{}[*]", segment.name),
        Indices::Ranges(ranges) => {
            let ranges: Vec<String> = ranges
                .iter()
                .map(|(low, high)| match low == high {
                    true => low.to_string(),
                    false => format!("{low}-{high}"),
                })
                .collect();
            format!("{}[{}]", segment.name, ranges.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, catalogue, expand};

    fn machine(name: &str, nodes: u32) -> Topology {
        let nodes = Some(nodes);
        let spec = catalogue::find(name).unwrap();
        expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
    }

    #[test]
    fn selectors_find_devices_by_their_full_names() {
        let topology = machine("superpod-h100", 4);
        let names = |text: &str| -> Vec<String> {
            let found = devices(&topology, text, "x").unwrap();
            found.iter().map(|&id| topology.device_name(id)).collect()
        };
        let gpu = topology.device_name(topology.nodes[2].gpus[5]);
        assert_eq!(names(&gpu), std::slice::from_ref(&gpu));
        let (node, _) = gpu.split_once("/gpu").unwrap();
        assert_eq!(names(&format!("{node}/gpu[5]")), std::slice::from_ref(&gpu));
        assert_eq!(names(&format!("{node}/gpu")).len(), 8);
        let inside = names(node);
        assert!(8 < inside.len());
        assert!(inside.iter().all(|name| name.starts_with(node)));
        let fabric = &topology.fabrics[0];
        assert_eq!(names(&fabric.name).len(), fabric.switches.len());
    }

    #[test]
    fn links_are_named_by_their_ends() {
        let topology = machine("superpod-h100", 4);
        let nic = topology.device_name(topology.nodes[0].nics[0]);
        let fabric = &topology.fabrics[0].name;
        let out = links(&topology, &format!("{nic} > {fabric}"), "x").unwrap();
        let both = links(&topology, &format!("{nic} <> {fabric}"), "x").unwrap();
        let all = links(&topology, &nic, "x").unwrap();
        assert_eq!((out.len(), both.len()), (1, 2));
        assert!(both.len() < all.len());
        assert!(topology.link_name(out[0]).starts_with(&nic));
    }

    /// Names as reports write them select what they name.
    #[test]
    fn parallel_cables_are_named_one_by_one_where_flows_are_hashed() {
        let mut spec = catalogue::find("superpod-h100").unwrap();
        let machine = |spec: &_| {
            let nodes = Some(64);
            expand(spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
        };
        let bundled = machine(&spec);
        for fabric in spec.fabrics.values_mut() {
            fabric.routing = crate::spec::RoutingPolicy::Ecmp;
        }
        let single = machine(&spec);
        let both = "compute/leaf0 <> compute/spine0";
        assert_eq!(links(&bundled, both, "x").unwrap().len(), 2);
        let all = links(&single, both, "x").unwrap();
        assert_eq!(all.len(), 8);
        for &link in &all {
            let name = single.link_name(link);
            assert_eq!(links(&single, &name, "x").unwrap(), [link], "{name}");
        }
        let fault = links(&single, "compute/leaf0 > compute/spine0 #4", "x").unwrap_err();
        assert!(fault.expected.contains("is 4 of them"), "{fault}");
        assert!(links(&bundled, "compute/leaf0 > compute/spine0 #0", "x").is_err());
    }

    #[test]
    fn what_names_nothing_says_what_could_have_been_meant() {
        let topology = machine("dgx-h100", 1);
        let cases = [
            ("node0/gpu[8]", "`gpu[0-7]`", None),
            ("node0/gpu9", "`gpu[0-7]`", None),
            ("nod0/gpu1", "names there", Some("node")),
            ("node0/gpo[1]", "names there", Some("gpu")),
            ("node0/nvswitsh", "names there", Some("nvswitch")),
            ("node0/gpu[", "by their full names", None),
        ];
        for (text, expected, nearest) in cases {
            let fault = devices(&topology, text, "faults[0].link.on").unwrap_err();
            assert_eq!(fault.path, "faults[0].link.on");
            assert!(fault.expected.contains(expected), "{text}: {fault}");
            assert_eq!(fault.nearest.as_deref(), nearest, "{text}: {fault}");
        }
        let fault = links(&topology, "node0/gpu0 > node0/nic0", "x").unwrap_err();
        assert!(fault.expected.contains("has links to node0/"), "{fault}");
    }
}
