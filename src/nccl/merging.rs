//! Ports of switches out of which several others send at once.
//!
//! Messages of an all-to-all come to a port from all sides, whenever their senders have them:
//! now too many for it, now too few. Rings and trees send to a port from one or two others, in step
//! with each other; what theirs reach is in the rates of links.

use super::communicator::Communicator;
use super::transport::Way;
use fabricsim_plan::Merged;
use fabricsim_topology::LinkId;
use rustc_hash::{FxHashMap, FxHashSet};

impl Communicator<'_> {
    /// What merging leaves of the rates of links that these ways cross.
    pub(super) fn merged(&self, ways: &[Way]) -> Merged {
        let topology = self.topology;
        let mut seen = FxHashSet::default();
        let mut known: FxHashSet<(LinkId, LinkId)> = FxHashSet::default();
        let mut ports: FxHashMap<LinkId, u32> = FxHashMap::default();
        let routes = ways.iter().flat_map(Way::routes).flatten();
        for route in routes.filter(|&route| seen.insert(route)) {
            let hops = self.ways.routes.get(route).hops;
            for out in hops {
                let (switch, _) = topology.ends(out.link);
                let merges = topology
                    .switch_model(switch)
                    .is_some_and(|m| m.merging.is_some());
                if !merges {
                    continue;
                }
                let into = hops.iter().filter(|h| topology.ends(h.link).1 == switch);
                for port in into {
                    if known.insert((out.link, port.link)) {
                        *ports.entry(out.link).or_default() += 1;
                    }
                }
            }
        }
        let kept = ports.into_iter().filter(|&(_, count)| count > 1);
        kept.filter_map(|(link, count)| {
            let model = topology.switch_model(topology.ends(link).0)?;
            Some((link, model.merged(count)))
        })
        .collect()
    }
}
