//! Transfers that nothing tells apart: the same shared resources with the same weights, and as
//! fast alone. They always have the same rate, so that a group of them is shared for at once.

use super::{BY_CAP, FlowId};
use crate::resources::{PathId, ResourceId, Resources};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A group, an index into [`Groups::all`].
pub(crate) type GroupId = u32;

/// Transfers with one rate.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// Its uses, `uses.0..uses.1` of [`Groups::uses`].
    pub(super) uses: (u32, u32),
    /// The fastest that one could go alone, and what limits it then.
    pub(super) own: u64,
    pub(super) own_limit: ResourceId,
    pub(super) rate: u64,
    /// The full resource that limits it, or `BY_CAP`.
    pub(super) limit: ResourceId,
    /// What its members have together, as their resources know it.
    pub(super) load: u128,
    /// So many members that is of.
    pub(super) counted: u32,
    /// The solve that last saw it.
    pub(super) seen: u32,
    /// Those that flow.
    pub(super) members: SmallVec<[FlowId; 8]>,
}

/// What each member takes of a resource that can be full.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupUse {
    pub(super) resource: ResourceId,
    pub(super) weight: u32,
    /// Where the resource lists it, while the group has members.
    pub(super) place: u32,
}

/// What tells groups apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    own: u64,
    own_limit: ResourceId,
    uses: SmallVec<[(ResourceId, u32); 6]>,
}

/// All groups that were ever needed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    pub(super) uses: Vec<GroupUse>,
    /// By group, the part that it was last in, and the filling in which it was last settled;
    /// apart from all else, for they are asked for over and over.
    pub(super) parts: Vec<u64>,
    pub(super) settled: Vec<u64>,
    by_path: FxHashMap<(PathId, u64), GroupId>,
    by_key: FxHashMap<Key, GroupId>,
}

impl Groups {
    /// The group of transfers over `path` with this cap. Resources with room for all who may
    /// ever use them tell nobody apart.
    pub(super) fn find(
        &mut self,
        resources: &Resources,
        roomy: impl Fn(ResourceId) -> bool,
        path: PathId,
        cap: u64,
    ) -> GroupId {
        if let Some(&group) = self.by_path.get(&(path, cap)) {
            return group;
        }
        let (mut own, mut own_limit) = (cap, BY_CAP);
        for u in resources.path(path) {
            let alone = resources.all[u.resource as usize].capacity / u64::from(u.weight);
            if alone < own {
                (own, own_limit) = (alone, u.resource);
            }
        }
        let shared = resources.path(path).iter().filter(|u| !roomy(u.resource));
        let key = Key {
            own,
            own_limit,
            uses: shared.map(|u| (u.resource, u.weight)).collect(),
        };
        let group = match self.by_key.get(&key) {
            Some(&group) => group,
            None => self.add(key),
        };
        self.by_path.insert((path, cap), group);
        group
    }

    fn add(&mut self, key: Key) -> GroupId {
        let group = self.all.len() as GroupId;
        let first = self.uses.len() as u32;
        self.uses
            .extend(key.uses.iter().map(|&(resource, weight)| GroupUse {
                resource,
                weight,
                place: 0,
            }));
        self.all.push(Group {
            uses: (first, self.uses.len() as u32),
            own: key.own,
            own_limit: key.own_limit,
            rate: 0,
            limit: BY_CAP,
            load: 0,
            counted: 0,
            seen: 0,
            members: SmallVec::new(),
        });
        self.parts.push(0);
        self.settled.push(0);
        self.by_key.insert(key, group);
        group
    }

    /// What members of a group use.
    #[inline]
    pub(super) fn uses(&self, group: GroupId) -> &[GroupUse] {
        let (start, end) = self.all[group as usize].uses;
        &self.uses[start as usize..end as usize]
    }
}
