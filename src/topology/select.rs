//! Devices and links of a built machine, by selector.
//!
//! The language is that of the topology file's selectors, on full names: `node[0-3]/gpu[*]`,
//! `node2/nic5`, `rack0/tray[*]/gpu[1]`, `compute/leaf[0]`; several are joined by commas. What
//! names a place selects everything in it: `node2`, `rack0`, `compute` (a fabric's switches).
//! `compute/rail2` are the leaves of a rail, one of each unit.
//!
//! The places before a name may be left out where only one place has it: `leaf2` and `rail2` of a
//! machine with one fabric; not `nic2`, which every node has.
//!
//! Links are selected by their ends: `node0/nic3 > compute` is one direction,
//! `node0/nic3 <> compute` both; devices alone mean all links from and to them. Of parallel cables
//! that count singly, `compute/leaf0 > compute/spine1 #3` is one.

use super::error::Fault;
use super::graph::{DeviceId, LinkId, Topology};
use super::selector::{self, Indices, Segment};
use super::tiers;
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
        all.extend(found(topology, &segments, path)?.devices);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// A selector of devices or links with every name in full: of `leaf2` `compute/leaf2`. As it stands if
/// it is that already, or names nothing.
#[must_use]
pub fn in_full(topology: &Topology, text: &str) -> String {
    let mut short = false;
    let mut side = |text: &str| -> String {
        let name = |segments: Vec<Segment>| {
            let own = written(&segments);
            match found(topology, &segments, "") {
                Ok(Found { under, .. }) if !under.is_empty() => {
                    short = true;
                    format!("{under}/{own}")
                }
                _ => own,
            }
        };
        let paths = selector::parse(text.trim()).unwrap_or_default();
        paths.into_iter().map(name).collect::<Vec<_>>().join(",")
    };
    let (ends, cable) = text.rsplit_once('#').unwrap_or((text, ""));
    let mut full = match (ends.split_once("<>"), ends.split_once('>')) {
        (Some((a, b)), _) => format!("{} <> {}", side(a), side(b)),
        (None, Some((a, b))) => format!("{} > {}", side(a), side(b)),
        (None, None) => side(ends),
    };
    if !cable.is_empty() {
        full += &format!(" #{}", cable.trim());
    }
    if short { full } else { text.to_owned() }
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

/// What a part of a selector names.
struct Found {
    devices: Vec<DeviceId>,
    /// The places before it, if it leaves them out.
    under: String,
}

/// What a part of a selector names by its full name, or by one without the places before it if only one
/// place has it.
fn found(topology: &Topology, segments: &[Segment], path: &str) -> Result<Found, Fault> {
    let rails = rails(topology, segments);
    let devices = matching(topology, segments, 0, &rails);
    if !devices.is_empty() {
        let under = String::new();
        return Ok(Found { devices, under });
    }
    let deepest = topology.places.iter().map(|place| parts(&place.name).len());
    let deepest = deepest.max().unwrap_or(0);
    let inside = (1..=deepest).map(|left_out| {
        let devices = matching(topology, segments, left_out, &rails);
        devices.into_iter().map(move |device| (left_out, device))
    });
    let inside: Vec<(usize, DeviceId)> = inside.flatten().collect();
    let mut first: BTreeMap<String, DeviceId> = BTreeMap::new();
    for &(left_out, device) in &inside {
        let place = &topology.places[topology.device(device).place as usize];
        let under = parts(&place.name)[..left_out].join("/");
        let first = first.entry(under).or_insert(device);
        *first = device.min(*first);
    }
    let mut under: Vec<(DeviceId, String)> = first.into_iter().map(|(u, d)| (d, u)).collect();
    under.sort_unstable();
    match under.len() {
        0 => Err(unknown(topology, segments, path)),
        1 => Ok(Found {
            devices: inside.into_iter().map(|(_, device)| device).collect(),
            under: under.remove(0).1,
        }),
        _ => Err(ambiguous(segments, &under, path)),
    }
}

/// A name that several places have, with how it is written in full.
fn ambiguous(segments: &[Segment], under: &[(DeviceId, String)], path: &str) -> Fault {
    let name = written(segments);
    let full = |(_, under): &(DeviceId, String)| format!("`{under}/{name}`");
    let ends = match under {
        [first, .., last] => format!("{} … {}", full(first), full(last)),
        _ => String::new(),
    };
    let stem = |(_, under): &(DeviceId, String)| {
        under
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned()
    };
    let all = match under.first().map(&stem) {
        Some(first) if under.iter().all(|u| stem(u) == first) => {
            format!("; `{first}[*]/{name}` for all of them")
        }
        _ => String::new(),
    };
    Fault::new(
        path,
        format!("`{name}`, which {} places have", under.len()),
        format!("one of them by its full name: {ends}{all}"),
    )
}

/// The rail of each leaf, if a name speaks of rails.
fn rails(topology: &Topology, segments: &[Segment]) -> BTreeMap<DeviceId, u32> {
    let speaks = segments
        .last()
        .is_some_and(|last| last.name.starts_with(RAIL));
    let fabrics = topology.fabrics.iter().filter(|_| speaks);
    fabrics
        .flat_map(|fabric| tiers::rails(topology, fabric))
        .collect()
}

/// What leaves are called by the rail that they take.
const RAIL: &str = "rail";

/// Devices that segments name, from the places that are `left_out` on.
fn matching(
    topology: &Topology,
    segments: &[Segment],
    left_out: usize,
    rails: &BTreeMap<DeviceId, u32>,
) -> Vec<DeviceId> {
    // How many segments a place uses up; `None` where it does not match.
    let used: Vec<Option<usize>> = topology
        .places
        .iter()
        .map(|place| {
            let all = parts(&place.name);
            let parts = all.get(left_out..)?;
            let fits = parts
                .iter()
                .zip(segments)
                .all(|(part, segment)| part_fits(segment, part, place.fabric.is_some()));
            fits.then(|| parts.len().min(segments.len()))
        })
        .collect();
    topology
        .devices()
        .filter(|(id, device)| match used[device.place as usize] {
            None => false,
            Some(used) => match &segments[used..] {
                [] => true,
                [last] => {
                    let stem = &topology.stems[device.stem as usize];
                    let rail = rails.get(id);
                    device_fits(last, stem, u32::from(device.index))
                        || rail.is_some_and(|&rail| device_fits(last, RAIL, rail))
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
    let none = BTreeMap::new();
    let matched = (0..segments.len())
        .rev()
        .find(|&count| count == 0 || !matching(topology, &segments[..count], 0, &none).is_empty())
        .unwrap_or(0);
    let segment = &segments[matched];
    let known = names_under(topology, &segments[..matched]);
    let asked = segment
        .name
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .to_owned();
    let largest_of = |known: &Known<'_>, name: &str| known.get(name).copied().flatten();
    let both = [segment.name.as_str(), asked.as_str()];
    let of_known = both
        .into_iter()
        .find_map(|name| Some((name, largest_of(&known, name)?)));
    if let Some((name, largest)) = of_known {
        return Fault::new(
            path,
            format!("`{}`, which the machine does not have", one(segment)),
            format!("`{name}[0-{largest}]`"),
        );
    }
    // A name without its place, of which one place has others.
    let fabrics = topology.fabrics.iter().filter(|_| segments.len() == 1);
    let mut inside = fabrics.flat_map(|fabric| {
        let place = selector::parse(&fabric.name).unwrap_or_default().concat();
        let known = names_under(topology, &place);
        let of_known = both
            .into_iter()
            .find_map(|name| Some((name, largest_of(&known, name)?)));
        of_known.map(|(name, largest)| format!("`{}/{name}[0-{largest}]`", fabric.name))
    });
    if let Some(full) = inside.next() {
        return Fault::new(
            path,
            format!("`{}`, which the machine does not have", one(segment)),
            full,
        );
    }
    let name = if segment.bare { &asked } else { &segment.name };
    Fault::unknown(path, "names there", name, known.keys().copied())
}

/// Names with the largest number of each that is numbered.
type Known<'t> = BTreeMap<&'t str, Option<u32>>;

/// Names at the level under places that segments name.
fn names_under<'t>(topology: &'t Topology, places: &[Segment]) -> Known<'t> {
    let mut known: Known<'t> = BTreeMap::new();
    let mut add = |name, number: Option<u32>| {
        let largest = known.entry(name).or_insert(number);
        *largest = (*largest).max(number);
    };
    for (_, device) in topology.devices() {
        let place = &topology.places[device.place as usize];
        let parts = parts(&place.name);
        let under = parts
            .iter()
            .zip(places)
            .all(|(part, segment)| part_fits(segment, part, place.fabric.is_some()));
        if !under {
            continue;
        }
        if parts.len() == places.len() {
            let stem = &topology.stems[device.stem as usize];
            add(stem, Some(u32::from(device.index)));
        } else if let Some(&part) = parts.get(places.len()) {
            let stem = part.trim_end_matches(|c: char| c.is_ascii_digit());
            match number_after(part, stem) {
                Some(number) if place.fabric.is_none() => add(stem, Some(number)),
                _ => add(part, None),
            }
        }
    }
    if let [place] = places {
        let fabrics = topology.fabrics.iter();
        let mut fabrics = fabrics.filter(|fabric| part_fits(place, &fabric.name, true));
        if let Some(fabric) = fabrics.next() {
            for rail in tiers::rails(topology, fabric).into_values() {
                add(RAIL, Some(rail));
            }
        }
    }
    known
}

/// A selector of devices as it is written.
fn written(segments: &[Segment]) -> String {
    let all: Vec<String> = segments.iter().map(one).collect();
    all.join("/")
}

fn one(segment: &Segment) -> String {
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
#[path = "select_tests.rs"]
mod tests;
