//! The tiers above the leaves.
//!
//! With switches of `k` ports: while there are at most `k` leaves, every leaf is joined to
//! every spine by the same number of cables. Beyond, `k/2` leaves and their spines form a
//! pod, and the spines of one position in all pods share a group of cores. Counts follow
//! from the cables that leave a leaf, `u`: a tier has the fewest switches that can take
//! them *and* divide `u` evenly, which is how the published reference designs come out
//! (NVIDIA DGX SuperPOD reference architectures for H100 and B200).

use super::{Cable, CableKind, End, Parts, Plan};
use crate::topology::error::Fault;
use crate::topology::template::{MAX_WIRES, too_many_wires};
use std::ops::Range;

/// How a leaf is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizing {
    pub(super) parts: Parts,
    /// Ports of a leaf for NICs.
    pub(super) down: u32,
    /// Bandwidth down over bandwidth up.
    pub(super) oversubscription: f64,
    /// Asked for by the file.
    pub(super) spines: Option<u32>,
    /// The field of the file that says `down`.
    pub(super) down_field: &'static str,
}

impl Sizing {
    /// What must hold even for one leaf.
    pub(super) fn check(&self, at: &str) -> Result<(), Fault> {
        if self.parts.radix < 2 {
            return Err(Fault::new(
                at,
                format!("a switch of {} ports", self.parts.radix),
                "a switch of at least 2 ports",
            ));
        }
        if self.down == 0 || self.down > self.parts.radix {
            return Err(Fault::new(
                format!("{at}.{}", self.down_field),
                self.down.to_string(),
                format!("1 to {}, the ports of the switch", self.parts.radix),
            ));
        }
        if !(self.oversubscription.is_finite() && self.oversubscription > 0.0) {
            return Err(Fault::new(
                format!("{at}.oversubscription"),
                self.oversubscription.to_string(),
                "a number above 0",
            ));
        }
        if self.spines == Some(0) {
            return Err(Fault::new(format!("{at}.spines"), "0", "at least 1"));
        }
        Ok(())
    }

    /// Cables from a leaf to the spines.
    fn uplinks(&self, at: &str) -> Result<u32, Fault> {
        let wanted = f64::from(self.down) * self.parts.rate_ratio / self.oversubscription;
        // Rounded up, but not by an error of floating point.
        let wanted = (wanted - 1e-9).ceil().max(1.0);
        let room = self.parts.radix - self.down;
        if wanted <= f64::from(room) {
            return Ok(wanted as u32);
        }
        Err(Fault::new(
            format!("{at}.{}", self.down_field),
            format!(
                "{} ports down and {wanted} up on a leaf of {} ports",
                self.down, self.parts.radix
            ),
            format!("fewer {}, or a higher oversubscription", self.down_field),
        ))
    }
}

/// Adds spines (and cores) above `leaves`, and their cables. A single leaf needs none.
pub(super) fn join(
    plan: &mut Plan,
    leaves: Range<u32>,
    sizing: &Sizing,
    at: &str,
) -> Result<(), Fault> {
    let count = leaves.len() as u32;
    if count < 2 {
        return Ok(());
    }
    let uplinks = sizing.uplinks(at)?;
    let cables = u64::from(count) * u64::from(uplinks);
    if cables > MAX_WIRES {
        return Err(too_many_wires(at, cables));
    }
    if count <= sizing.parts.radix {
        return two_tiers(plan, leaves, uplinks, sizing, at);
    }
    if sizing.spines.is_some() {
        return Err(Fault::new(
            format!("{at}.spines"),
            format!("a number of spines for {count} leaves, which need three tiers"),
            format!(
                "no `spines`, or at most {} leaves: the ports of a spine",
                sizing.parts.radix
            ),
        ));
    }
    three_tiers(plan, leaves, uplinks, sizing, at)
}

fn two_tiers(
    plan: &mut Plan,
    leaves: Range<u32>,
    uplinks: u32,
    sizing: &Sizing,
    at: &str,
) -> Result<(), Fault> {
    let radix = sizing.parts.radix;
    let count = leaves.len() as u32;
    let least = (count * uplinks).div_ceil(radix);
    let spines = match sizing.spines {
        Some(spines) if spines < least || !uplinks.is_multiple_of(spines) => {
            return Err(Fault::new(
                format!("{at}.spines"),
                format!("{spines} spines for {count} leaves with {uplinks} cables up each"),
                format!(
                    "at least {least}, and a divisor of {uplinks}: {}",
                    divisor_from(uplinks, least)
                ),
            ));
        }
        Some(spines) => spines,
        None => divisor_from(uplinks, least),
    };
    let first = plan.add_switches("spine", 1, spines);
    for leaf in leaves {
        connect(plan, leaf, first..first + spines, uplinks / spines);
    }
    Ok(())
}

fn three_tiers(
    plan: &mut Plan,
    leaves: Range<u32>,
    uplinks: u32,
    sizing: &Sizing,
    at: &str,
) -> Result<(), Fault> {
    let radix = sizing.parts.radix;
    let per_pod = radix / 2;
    let pods = (leaves.len() as u32).div_ceil(per_pod);
    if pods > radix {
        return Err(Fault::new(
            at,
            format!("{} leaves", leaves.len()),
            format!(
                "at most {}, which is what three tiers of {radix}-port switches join",
                radix * per_pod
            ),
        ));
    }
    // Every spine of a full pod has one cable to each of its leaves, and as many up.
    let (spines, up) = (uplinks, per_pod);
    let group = divisor_from(up, (pods * up).div_ceil(radix));
    let first_spine = plan.add_switches("spine", 1, pods * spines);
    let first_core = plan.add_switches("core", 2, spines * group);
    for leaf in leaves.clone() {
        let pod = (leaf - leaves.start) / per_pod;
        let spine = first_spine + pod * spines;
        connect(plan, leaf, spine..spine + spines, 1);
    }
    for spine in 0..pods * spines {
        let core = first_core + (spine % spines) * group;
        connect(plan, first_spine + spine, core..core + group, up / group);
    }
    Ok(())
}

fn connect(plan: &mut Plan, from: u32, to: Range<u32>, lanes: u32) {
    // Lanes are at most the ports of a switch, which `check::device_model` keeps in range.
    let lanes = u16::try_from(lanes).unwrap_or(u16::MAX);
    plan.cables.extend(to.map(|to| Cable {
        from: End::Switch(from),
        to,
        lanes,
        kind: CableKind::Switch,
    }));
}

/// The smallest divisor of `number` that is at least `least`, which is at most `number`.
fn divisor_from(number: u32, least: u32) -> u32 {
    (least.max(1)..=number)
        .find(|d| number.is_multiple_of(*d))
        .unwrap_or(number)
}
