//! What no collective between some GPUs of a machine can beat.

use crate::site::Site;
use fabricsim_collective::Collective;
use fabricsim_plan::{CutKind, Cuts, Operation};
use fabricsim_topology::DeviceId;
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::training::bound::Least;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Cuts are found once for each group.
pub(super) struct CollectiveBounds<'g> {
    site: &'g Site,
    cuts: Mutex<HashMap<Vec<DeviceId>, Arc<Cuts>>>,
}

impl<'g> CollectiveBounds<'g> {
    pub(super) fn new(site: &'g Site) -> Self {
        CollectiveBounds {
            site,
            cuts: Mutex::new(HashMap::new()),
        }
    }

    pub(super) fn of(&self, group: &[DeviceId], collective: Collective, bytes: Bytes) -> Least {
        let cuts = {
            let mut known = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
            let site = self.site;
            let new = || Arc::new(Cuts::of(&site.topology, group, site.env.shm_disable));
            Arc::clone(known.entry(group.to_vec()).or_insert_with(new))
        };
        let operation = Operation {
            collective,
            bytes: bytes.get(),
            matrix: None,
        };
        let bounds = cuts.bounds(operation);
        bounds.in_switches.map_or(Least::FREE, |cut| {
            let whole = cut.time();
            let waits = match cut.kind {
                CutKind::Gpu => whole,
                _ => Time::from_picos(whole.picos() / 2),
            };
            Least { whole, waits }
        })
    }
}
