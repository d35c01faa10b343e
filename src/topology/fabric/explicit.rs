//! Switches and cables one by one.

use super::{Cable, CableKind, End, Plan, PlannedSwitch, Port};
use crate::error::Fault;
use crate::models::Models;
use crate::selector::{self, SelectorPath};
use crate::spec::{ExplicitFabric, LinkSpec};
use crate::template::{MAX_WIRES, choose, lanes, pair, ranges, too_many_wires};
use std::collections::BTreeMap;

/// Finds devices of the whole machine by selector. A device that the file has but the
/// machine has not (for fewer nodes were asked for) is `None`.
pub(crate) type Lookup<'l> = &'l dyn Fn(&SelectorPath, &str) -> Result<Vec<Option<u32>>, Fault>;

/// Stands for a device that the machine has not.
const ABSENT: u32 = u32::MAX;
/// Added to switch numbers, so that both ends of a link are numbers of one kind.
const SWITCH: u32 = 1 << 31;

/// An explicit fabric and what it is to join.
pub(crate) struct Site<'s, 'a> {
    /// What the file says.
    pub(crate) shape: &'a ExplicitFabric,
    /// Its place in the file.
    pub(crate) at: String,
    /// The ports that must be cabled, and no others.
    pub(crate) ports: &'s [Port],
    /// Ports of one switch.
    pub(crate) radix: u32,
    /// Ports of one switch above tier 0.
    pub(crate) upper_radix: u32,
    /// Finds devices by selector.
    pub(crate) find: Lookup<'s>,
    /// The full name of a device.
    pub(crate) name_of: &'s dyn Fn(u32) -> String,
}

/// Plans the fabric, with all its faults.
pub(crate) fn plan<'a>(
    site: &Site<'_, 'a>,
    models: &mut Models<'a>,
    faults: &mut Vec<Fault>,
) -> Plan {
    let (shape, at, find) = (site.shape, site.at.as_str(), site.find);
    let before = faults.len();
    let mut plan = Plan {
        leaf_ports: shape.leaf_ports.unwrap_or(0),
        ..Plan::default()
    };
    if shape.switches == 0 || shape.switches > 1 << 16 {
        faults.push(Fault::new(
            format!("{at}.switches"),
            shape.switches.to_string(),
            "a number from 1 to 65536",
        ));
        return plan;
    }
    for (i, cable) in shape.cables.iter().enumerate() {
        let at = format!("{at}.cables[{i}]");
        let from = ends(&cable.from, shape.switches, &format!("{at}.from"), find);
        let to = ends(&cable.to, shape.switches, &format!("{at}.to"), find);
        let model = models.link(&cable.link, &format!("{at}.link"), faults);
        let lanes = lanes(cable, &at, faults);
        match (from, to) {
            (Ok(from), Ok(to)) => {
                if let (Some((model, _)), Some(lanes)) = (model, lanes)
                    && let Err(fault) = add(&mut plan, cable, &from, &to, model, lanes, &at)
                {
                    faults.push(fault);
                }
            }
            (from, to) => faults.extend([from.err(), to.err()].into_iter().flatten()),
        }
    }
    plan.switches = switches(shape, &plan.cables, at, faults);
    if faults.len() == before {
        check_ports(&plan, site, faults);
    }
    plan
}

/// The devices and switches that one end of a cable names.
fn ends(text: &str, switches: u32, at: &str, find: Lookup<'_>) -> Result<Vec<u32>, Fault> {
    let paths = selector::parse(text).map_err(|problem| {
        Fault::new(
            at,
            format!("`{text}`: {problem}"),
            "`switch[3]`, or a device by its full name such as `node0/nic3`",
        )
    })?;
    let mut found = Vec::new();
    for path in paths {
        if let [segment] = path.as_slice() {
            let Some((name, indices)) = choose(segment, |n| n == "switch") else {
                return Err(Fault::unknown(
                    at,
                    "fabric's switches (a device has a full name such as `node0/nic3`)",
                    &segment.name,
                    ["switch"].into_iter(),
                ));
            };
            for range in ranges(&indices, switches, name, at)? {
                found.extend(range.map(|i| SWITCH + i));
            }
        } else {
            found.extend(find(&path, at)?.into_iter().map(|d| d.unwrap_or(ABSENT)));
        }
    }
    Ok(found)
}

fn add(
    plan: &mut Plan,
    cable: &LinkSpec,
    from: &[u32],
    to: &[u32],
    model: u16,
    lanes: u16,
    at: &str,
) -> Result<(), Fault> {
    for (from, to) in pair(cable, from, to, at)? {
        if from == ABSENT || to == ABSENT {
            continue;
        }
        if to < SWITCH {
            return Err(Fault::new(
                format!("{at}.to"),
                format!("`{}`", cable.to),
                "a switch: devices stand at `from`",
            ));
        }
        if from == to {
            return Err(Fault::new(
                at,
                format!("a cable of `{}` to itself", cable.to),
                "two different ends",
            ));
        }
        if plan.cables.len() as u64 >= MAX_WIRES {
            return Err(too_many_wires(at, MAX_WIRES + 1));
        }
        plan.cables.push(Cable {
            from: if from < SWITCH {
                End::Device(from)
            } else {
                End::Switch(from - SWITCH)
            },
            to: to - SWITCH,
            lanes,
            kind: CableKind::Model(model),
        });
    }
    Ok(())
}

/// Every port has a cable, no other device has, and no switch has more than it can take.
fn check_ports(plan: &Plan, site: &Site<'_, '_>, faults: &mut Vec<Fault>) {
    let Site {
        shape,
        at,
        ports,
        radix,
        upper_radix,
        name_of,
        ..
    } = site;
    let room = |switch: usize| match plan.switches.get(switch) {
        Some(planned) if planned.tier > 0 => *upper_radix,
        _ => *radix,
    };
    let mut cabled: BTreeMap<u32, bool> = ports.iter().map(|p| (p.device, false)).collect();
    let mut taken = vec![0u64; shape.switches as usize];
    for cable in &plan.cables {
        taken[cable.to as usize] += u64::from(cable.lanes);
        match cable.from {
            End::Switch(from) => taken[from as usize] += u64::from(cable.lanes),
            End::Device(device) => match cabled.get_mut(&device) {
                Some(has) => *has = true,
                None => {
                    faults.push(Fault::new(
                        format!("{at}.cables"),
                        format!(
                            "a cable at `{}`, which is not among the ports",
                            name_of(device)
                        ),
                        "devices of the fabric's port group",
                    ));
                    return;
                }
            },
        }
    }
    if let Some((&device, _)) = cabled.iter().find(|&(_, &has)| !has) {
        faults.push(Fault::new(
            format!("{at}.cables"),
            format!(
                "no cable at `{}`, which is among the ports",
                name_of(device)
            ),
            "a cable for each port",
        ));
    }
    // One switch alone is the exported form of `single_switch`, whose ports are not counted.
    if shape.switches > 1
        && let Some((switch, count)) = taken
            .iter()
            .enumerate()
            .find(|&(switch, &n)| n > u64::from(room(switch)))
    {
        faults.push(Fault::new(
            format!("{at}.cables"),
            format!("{count} cables at `switch[{switch}]`"),
            format!("at most {}, the ports of the switch", room(switch)),
        ));
    }
}

/// The switches' names and tiers: as the file says, or by their distance from the ports.
fn switches(
    shape: &ExplicitFabric,
    cables: &[Cable],
    at: &str,
    faults: &mut Vec<Fault>,
) -> Vec<PlannedSwitch> {
    let count = shape.switches as usize;
    if shape.tiers.is_empty() {
        let switch = |tier| PlannedSwitch {
            stem: "switch".to_owned(),
            tier,
            group: None,
        };
        return distances(cables, count).into_iter().map(switch).collect();
    }
    let mut switches = Vec::with_capacity(count);
    for (i, run) in shape.tiers.iter().enumerate() {
        if let Err(problem) = selector::check_name(&run.name) {
            faults.push(Fault::new(
                format!("{at}.tiers[{i}].name"),
                problem,
                "letters, digits, `_`, `-` and `.`",
            ));
        }
        // One more than fits is enough to see that the sum is wrong.
        let room = (count + 1).saturating_sub(switches.len());
        switches.extend((0..room.min(run.count as usize)).map(|_| PlannedSwitch {
            stem: run.name.clone(),
            tier: run.tier,
            group: run.group,
        }));
    }
    if switches.len() != count {
        let sum: u64 = shape.tiers.iter().map(|run| u64::from(run.count)).sum();
        faults.push(Fault::new(
            format!("{at}.tiers"),
            format!("{sum} switches in all"),
            format!("{count}, as `switches` says"),
        ));
    }
    switches.truncate(count);
    switches
}

/// Tiers as distances from the nearest port: 0 for a switch that a port is plugged into.
fn distances(cables: &[Cable], count: usize) -> Vec<u8> {
    let mut tiers = vec![u8::MAX; count];
    let mut neighbours = vec![Vec::new(); count];
    let mut front = Vec::new();
    for cable in cables {
        let to = cable.to as usize;
        match cable.from {
            End::Switch(from) => {
                neighbours[from as usize].push(to);
                neighbours[to].push(from as usize);
            }
            End::Device(_) if tiers[to] > 0 => {
                tiers[to] = 0;
                front.push(to);
            }
            End::Device(_) => {}
        }
    }
    let mut tier = 0u8;
    while !front.is_empty() {
        tier = tier.saturating_add(1);
        let mut next = Vec::new();
        for &from in &front {
            for &to in &neighbours[from] {
                if tiers[to] == u8::MAX && tier < u8::MAX {
                    tiers[to] = tier;
                    next.push(to);
                }
            }
        }
        front = next;
    }
    // Switches that no port can reach stand with the leaves.
    tiers
        .into_iter()
        .map(|t| if t == u8::MAX { 0 } else { t })
        .collect()
}
