//! Ways through switches that sum or copy, which a group of GPUs shares.

use super::{Kind, Way, Ways};
use crate::error::NcclError;
use fabricsim_topology::{DeviceId, Hop, LinkId, Route, Share, Shift};
use fabricsim_units::{Bandwidth, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whom switches serve: the head, the members, and the part of a port that they reach (its bits).
type Served = (DeviceId, Vec<DeviceId>, u64);

/// Ways of switches that sum or copy, up and down, as far as they were asked for.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Of the first node of its kind.
    number_of: FxHashMap<Served, u32>,
    all: Vec<[Route; 2]>,
    /// In the copies where they were asked for.
    moved: FxHashMap<(u32, Shift), [Way; 2]>,
}

impl Ways<'_> {
    /// Through NVSwitches with multicast memory: `[0]` the sum of what all `members` have,
    /// read by `head`; `[1]` what `head` stores, into all of them. Each member's link to the
    /// switches is crossed once, the head's own too, and its other direction once. Such loads and
    /// stores reach `port_share` of the links' raw rate: they take up more of them than their bytes.
    pub(crate) fn multicast(
        &mut self,
        head: DeviceId,
        members: &[DeviceId],
        port_share: f64,
    ) -> Result<[Way; 2], NcclError> {
        let (key, shift) = match self.copied_group(head, members) {
            Some(((head, members), shift)) => ((head, members, port_share.to_bits()), shift),
            None => {
                let key = (head, members.to_vec(), port_share.to_bits());
                (key, Shift::default())
            }
        };
        let number = match self.groups.number_of.get(&key) {
            Some(&number) => number,
            None => {
                // Errors name the devices that were asked for.
                let routes = self
                    .through_switches(key.0, &key.1, port_share)
                    .or_else(|_| self.through_switches(head, members, port_share))?;
                self.add_group(key, routes)
            }
        };
        Ok(self.group(number, shift))
    }

    /// A group as it is in the first node of its kind.
    fn copied_group(
        &self,
        head: DeviceId,
        members: &[DeviceId],
    ) -> Option<((DeviceId, Vec<DeviceId>), Shift)> {
        let (first, _, shift) = self.router.copied_peers(head, head)?;
        let there = |&member| Some(self.router.copied_peers(head, member)?.1);
        let members = members.iter().map(there).collect::<Option<_>>()?;
        Some(((first, members), shift))
    }

    fn through_switches(
        &self,
        head: DeviceId,
        members: &[DeviceId],
        port_share: f64,
    ) -> Result<[Route; 2], NcclError> {
        let other = |gpu| members.iter().copied().find(|&m| m != gpu).unwrap_or(gpu);
        let (mut reads, mut copies, mut latency) = (Union::default(), Union::default(), Time::ZERO);
        for &member in members {
            let away = self.router.peer(member, other(member))?;
            let back = self.router.peer(other(member), member)?;
            latency = latency.max(away.latency);
            let out = away
                .hops
                .iter()
                .filter(|h| self.topology.ends(h.link).0 == member);
            let into = back
                .hops
                .iter()
                .filter(|h| self.topology.ends(h.link).1 == member);
            for hop in out {
                reads.add(*hop);
                if member == head {
                    copies.add(*hop);
                }
            }
            for hop in into {
                copies.add(*hop);
                if member == head {
                    reads.add(*hop);
                }
            }
        }
        let loads = reads.0.keys().chain(copies.0.keys()).map(|&link| {
            let reached = self.topology.raw_rate(link).scaled(port_share);
            load(self.topology.rate(link), reached)
        });
        let load = loads.max_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
        Ok([reads, copies].map(|union| Route {
            load: load.unwrap_or_default(),
            ..union.route(latency)
        }))
    }

    /// Through a network whose switches sum: `[0]` what all `members` (each a GPU and its
    /// interface) send, summed on a tree of switches towards the first; `[1]` the sum, to all
    /// of them.
    pub(crate) fn reduction_tree(
        &mut self,
        members: &[(DeviceId, DeviceId)],
        flow: u64,
    ) -> Result<[Way; 2], NcclError> {
        let gpus = members.iter().map(|m| m.0).collect();
        let key = (members[0].1, gpus, 1f64.to_bits());
        if let Some(&number) = self.groups.number_of.get(&key) {
            return Ok(self.group(number, Shift::default()));
        }
        let root = members[0].1;
        let (mut up, mut down, mut latency) = (Union::default(), Union::default(), Time::ZERO);
        for &(gpu, nic) in members {
            let (_, memory) = self.to_memory(gpu, nic, true)?;
            let out = self.router.local(memory, nic)?;
            let back = self.router.local(nic, memory)?;
            let far = if nic == root { members[1].1 } else { root };
            let there = self.router.network(nic, far, flow)?;
            let here = self.router.network(far, nic, flow)?;
            let interface = self.topology.transit_latency(nic);
            latency = latency.max(out.latency + interface + there.latency);
            // The sums are formed before the last cable, towards `far`; and copied after the
            // first, from it.
            let own = |h: &&Hop| nic != root || self.topology.ends(h.link).0 == root;
            let last = |h: &&Hop| self.topology.ends(h.link).1 != far;
            up.extend(out.hops.iter());
            up.extend(there.hops.iter().filter(own).filter(last));
            let own = |h: &&Hop| nic != root || self.topology.ends(h.link).1 == root;
            let first = |h: &&Hop| self.topology.ends(h.link).0 != far;
            down.extend(here.hops.iter().filter(own).filter(first));
            down.extend(back.hops.iter());
        }
        let routes = [up, down].map(|union| union.route(latency));
        let number = self.add_group(key, routes);
        Ok(self.group(number, Shift::default()))
    }

    fn add_group(&mut self, key: Served, routes: [Route; 2]) -> u32 {
        let number = self.groups.all.len() as u32;
        self.groups.all.push(routes);
        self.groups.number_of.insert(key, number);
        number
    }

    /// The ways of a group that switches serve: what is loaded from it, and stored into it.
    fn group(&mut self, number: u32, shift: Shift) -> [Way; 2] {
        if let Some(&ways) = self.groups.moved.get(&(number, shift)) {
            return ways;
        }
        let latency = self.groups.all[number as usize][0].latency;
        let carried = Way {
            kind: self.kind(Kind::inside(latency, false)),
            ..Way::LOCAL
        };
        let routes = Arc::make_mut(&mut self.routes);
        let found = &self.groups.all[number as usize];
        let mut add = |route: &Route| Some(routes.push(shift.hops(&route.hops), route.load));
        let ways = [
            Way {
                load: add(&found[0]),
                ..carried
            },
            Way {
                store: add(&found[1]),
                ..carried
            },
        ];
        self.groups.moved.insert((number, shift), ways);
        ways
    }
}

/// How much of a link's `rate` a byte takes up where no more than `reached` can be had: to a
/// thousandth.
fn load(rate: Bandwidth, reached: Bandwidth) -> Share {
    let thousandths = rate.bytes_per_sec().saturating_mul(1000) / reached.bytes_per_sec().max(1);
    let num = thousandths.clamp(1000, 1_000_000);
    Share::reduced(num, 1000).expect("at most a million thousandths")
}

/// Links that one stream crosses, each once.
#[derive(Debug, Default)]
struct Union(BTreeMap<LinkId, Share>);

impl Union {
    fn add(&mut self, hop: Hop) {
        let share = self.0.entry(hop.link).or_insert(hop.share);
        if hop.share.as_f64() > share.as_f64() {
            *share = hop.share;
        }
    }

    fn extend<'h>(&mut self, hops: impl Iterator<Item = &'h Hop>) {
        hops.for_each(|h| self.add(*h));
    }

    fn route(self, latency: Time) -> Route {
        let hops = self.0.into_iter().map(|(link, share)| Hop { link, share });
        Route {
            hops: hops.collect(),
            latency,
            ..Route::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_that_reach_less_of_a_link_take_up_more_of_it() {
        let rate = |gb| Bandwidth::from_gb_per_sec(gb);
        let share = |num, den| Share { num, den };
        assert_eq!(load(rate(100), rate(50)), share(2, 1));
        assert_eq!(load(rate(400), rate(300)), share(1333, 1000));
        assert_eq!(load(rate(100), rate(120)), Share::WHOLE);
    }
}
