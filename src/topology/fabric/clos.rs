//! The tiers above the leaves.
//!
//! With spines of `k` ports: while there are at most `k` leaves (or the leaves of a pod, where
//! the file says how many), every leaf is joined to every spine by the same number of cables.
//! Beyond, `k/2` leaves and their spines form a pod, and the spines of one position in all
//! pods share a group of cores. Counts follow
//! from the cables that leave a leaf, `u`: a tier has the fewest switches that can take
//! them *and* divide `u` evenly, which is how the published reference designs come out
//! (NVIDIA DGX SuperPOD reference architectures for H100 and B200).

use super::{MAX_SWITCHES, Parts, Plan};
use crate::error::Fault;
use crate::template::{MAX_WIRES, too_many_wires};
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
    /// Asked for by the file.
    pub(super) leaves_per_pod: Option<u32>,
    /// Bandwidth down over bandwidth up of a spine below cores.
    pub(super) core_oversubscription: f64,
    /// The field of the file that says `down`.
    pub(super) down_field: &'static str,
}

impl Sizing {
    /// What must hold even for one leaf.
    pub(super) fn check(&self, at: &str) -> Result<(), Fault> {
        for radix in [self.parts.radix, self.parts.upper_radix] {
            if radix < 2 {
                return Err(Fault::new(
                    at,
                    format!("a switch of {radix} ports"),
                    "a switch of at least 2 ports",
                ));
            }
        }
        if self.down == 0 || self.down > self.parts.radix {
            return Err(Fault::new(
                format!("{at}.{}", self.down_field),
                self.down.to_string(),
                format!("1 to {}, the ports of the switch", self.parts.radix),
            ));
        }
        for (field, value) in [
            ("oversubscription", self.oversubscription),
            ("core_oversubscription", self.core_oversubscription),
        ] {
            if !(value > 0.0 && value <= 1e6) {
                return Err(Fault::new(
                    format!("{at}.{field}"),
                    value.to_string(),
                    "a number above 0, at most 1000000",
                ));
            }
        }
        if self.spines == Some(0) {
            return Err(Fault::new(format!("{at}.spines"), "0", "at least 1"));
        }
        let most = self.parts.upper_radix - 1;
        if let Some(leaves) = self.leaves_per_pod
            && !(1..=most).contains(&leaves)
        {
            return Err(Fault::new(
                format!("{at}.leaves_per_pod"),
                leaves.to_string(),
                format!("1 to {most}: a spine has a cable to each, and one up"),
            ));
        }
        Ok(())
    }

    /// Cables from a leaf to the spines.
    fn uplinks(&self, at: &str) -> Result<u32, Fault> {
        let wanted = f64::from(self.down) * self.parts.rate_ratio / self.oversubscription;
        let wanted = rounded_up(wanted);
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
    let most = sizing.leaves_per_pod.unwrap_or(sizing.parts.upper_radix);
    if count <= most {
        return two_tiers(plan, leaves, uplinks, sizing, at);
    }
    if sizing.spines.is_some() {
        return Err(Fault::new(
            format!("{at}.spines"),
            format!("a number of spines for {count} leaves, which need three tiers"),
            format!("no `spines`, or at most {most} leaves: what two tiers join"),
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
    let radix = sizing.parts.upper_radix;
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
    let radix = sizing.parts.upper_radix;
    let per_pod = sizing.leaves_per_pod.unwrap_or(radix / 2);
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
    // Every spine of a full pod has one cable to each of its leaves, and as many up, unless
    // the file wants fewer.
    let spines = uplinks;
    let wanted = rounded_up(f64::from(per_pod) / sizing.core_oversubscription);
    if wanted > f64::from(radix - per_pod) {
        return Err(Fault::new(
            format!("{at}.core_oversubscription"),
            format!("{per_pod} ports down and {wanted} up on a spine of {radix} ports"),
            "a higher core_oversubscription, or fewer leaves_per_pod",
        ));
    }
    let up = wanted as u32;
    let group = divisor_from(up, (pods * up).div_ceil(radix));
    let switches = u64::from(pods) * u64::from(spines) + u64::from(spines) * u64::from(group);
    let cables = u64::from(pods) * u64::from(spines) * u64::from(group);
    if switches > MAX_SWITCHES || cables > MAX_WIRES {
        return Err(Fault::new(
            at,
            format!("{switches} spines and cores"),
            format!("at most {MAX_SWITCHES}"),
        ));
    }
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
    for to in to {
        plan.add_trunk(from, to, lanes);
    }
}

/// A number of cables: not more by an error of floating point, and at least one.
fn rounded_up(wanted: f64) -> f64 {
    (wanted - 1e-9).ceil().max(1.0)
}

/// The smallest divisor of `number` that is at least `least`, which is at most `number`.
fn divisor_from(number: u32, least: u32) -> u32 {
    (least.max(1)..=number)
        .find(|d| number.is_multiple_of(*d))
        .unwrap_or(number)
}
