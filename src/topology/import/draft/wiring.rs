//! The wires of a node, as entries of a topology file.

use super::super::parts::{PEER, Parts, Use};
use super::{Draft, Far, Name, Names};
use crate::spec::{DeviceSpec, LinkSpec, Match};
use std::collections::BTreeMap;

/// The wires of a node by kind: which names they join and by what.
pub(super) struct Wires {
    kinds: Vec<(Kind, Vec<(u32, u32)>)>,
}

/// The names at both ends, and the wire.
type Kind = (String, String, Use);

impl Wires {
    pub(super) fn of(draft: &Draft, names: &Names, parts: &mut Parts<'_>) -> Self {
        let mut wires = Wires { kinds: Vec::new() };
        for (&(gpu, far), &count) in &draft.nvlinks {
            let far = match far {
                Far::Gpu(other) => &names.gpus[other],
                Far::Switch(switch) => &names.nvswitches[switch],
            };
            let wire = parts.wire(&draft.nvlink, count);
            wires.add(&names.gpus[gpu], far, &wire);
        }
        for (gpu, name) in draft.gpus.iter().zip(&names.gpus) {
            if let Some((cpu, wire)) = &gpu.c2c {
                wires.add(name, &names.cpus[*cpu], wire);
            }
            if let Some((up, wire)) = &gpu.slot {
                wires.add(name, &names.up(*up), wire);
            }
        }
        for (nic, name) in draft.nics.iter().zip(&names.nics) {
            wires.add(name, &names.up(nic.up), &nic.wire);
        }
        for (forwarder, name) in draft.forwarders.iter().zip(&names.forwarders) {
            wires.add(name, &names.up(forwarder.up), &forwarder.wire);
        }
        for &(a, b) in &draft.peers {
            let wire = parts.wire(PEER, 1);
            wires.add(&names.forwarders[a], &names.forwarders[b], &wire);
        }
        if let Some(socket) = &draft.socket {
            for (number, from) in names.cpus.iter().enumerate() {
                for to in &names.cpus[number + 1..] {
                    wires.add(from, to, socket);
                }
            }
        }
        wires
    }

    fn add(&mut self, from: &Name, to: &Name, wire: &Use) {
        let kind = (from.0.clone(), to.0.clone(), wire.clone());
        let pair = (from.1, to.1);
        match self.kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, pairs)) => pairs.push(pair),
            None => self.kinds.push((kind, vec![pair])),
        }
    }

    /// As few entries as are easy to read: one for pairs, else one for all devices with the
    /// same far ends.
    pub(super) fn specs(self, devices: &BTreeMap<String, DeviceSpec>) -> Vec<LinkSpec> {
        let mut specs = Vec::new();
        for ((from, to, wire), pairs) in self.kinds {
            let text = |name: &String, numbers: &[u32]| {
                let names: Vec<Name> = numbers.iter().map(|&n| (name.clone(), n)).collect();
                selector(&names, devices)
            };
            let mut add = |near: &[u32], far: &[u32], pairing| {
                specs.push(LinkSpec {
                    comment: None,
                    from: text(&from, near),
                    to: text(&to, far),
                    link: wire.link.clone(),
                    lanes: wire.lanes,
                    pairing,
                });
            };
            let (near, far): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
            if pairs.len() > 1 && distinct(&near) && distinct(&far) {
                add(&near, &far, Match::Each);
                continue;
            }
            // Far ends by near end, then near ends by equal sets of far ends; and the other
            // way round where several share one far end.
            let mut by_far: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for &(near, far) in &pairs {
                by_far.entry(far).or_default().push(near);
            }
            let mut products: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
            for (far, near) in by_far {
                match products.iter_mut().find(|(other, _)| *other == near) {
                    Some((_, fars)) => fars.push(far),
                    None => products.push((near, vec![far])),
                }
            }
            for (near, far) in products {
                add(&near, &far, Match::All);
            }
        }
        specs
    }
}

fn distinct(numbers: &[u32]) -> bool {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Devices as a selector; all of a name as `gpu[*]`.
pub(super) fn selector(names: &[Name], devices: &BTreeMap<String, DeviceSpec>) -> String {
    let mut groups: Vec<(&str, Vec<u32>)> = Vec::new();
    for (name, number) in names {
        match groups.last_mut() {
            Some((last, numbers)) if last == name => numbers.push(*number),
            _ => groups.push((name, vec![*number])),
        }
    }
    let texts: Vec<String> = groups
        .iter()
        .map(|(name, numbers)| {
            let count = devices.get(*name).map_or(0, |device| device.count);
            if count > 1 && numbers.iter().copied().eq(0..count) {
                format!("{name}[*]")
            } else {
                format!("{name}[{}]", ranges(numbers))
            }
        })
        .collect();
    texts.join(", ")
}

fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, high)) if *high + 1 == number => *high = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts: Vec<String> = ranges
        .iter()
        .map(|&(low, high)| {
            if low == high {
                low.to_string()
            } else {
                format!("{low}-{high}")
            }
        })
        .collect();
    texts.join(",")
}
