//! Which communicators of a job get the network's streaming trees (SHARP), and which find them held.
//!
//! Each communicator with CollNet locks the tree of each interface that it uses when it is made, for
//! as long as it lives (NVIDIA SHARP 3.0 and later: exclusive lock by default; NCCL's plugin sets
//! `SHARP_COLL_LOCK_ON_COMM_INIT`). One that comes later and wants an interface of another's gets
//! none at all: NCCL then runs over rings and trees. Communicators come in the order in which a job
//! makes them; those of the same ranks are one.

use crate::classes::Kind;
use fabricsim_topology::DeviceId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Groups whose trees are others' get another colour: they never behave as those that have theirs.
const REFUSED: u32 = 1 << 31;

/// Who holds an interface's tree: a kind's name, and the group's ranks.
type Holder = (Arc<str>, Arc<[u32]>);

/// The trees of a job's interfaces.
#[derive(Debug, Default)]
pub(super) struct Trees {
    held: FxHashMap<DeviceId, Holder>,
    /// By kind and group: whose trees they would have needed.
    refused: FxHashMap<(String, u32), Arc<str>>,
    /// By kind, of those that had something to sum: how many of how many, and because of whom.
    fallen: BTreeMap<String, (usize, usize, Arc<str>)>,
}

impl Trees {
    /// Gives the communicators of a kind their trees, as far as there are; `nic` is a rank's interface.
    pub(super) fn claim(&mut self, kind: &mut Kind, mut nic: impl FnMut(u32) -> Option<DeviceId>) {
        let name: Arc<str> = kind.name.as_str().into();
        for (group, ranks) in (0..).zip(&kind.groups) {
            let ranks: Arc<[u32]> = ranks.as_slice().into();
            let mut nics: Vec<DeviceId> = ranks.iter().filter_map(|&rank| nic(rank)).collect();
            nics.sort_unstable();
            nics.dedup();
            let other = nics.iter().find_map(|nic| {
                let held = self.held.get(nic).filter(|(_, own)| *own != ranks);
                held.map(|(holder, _)| Arc::clone(holder))
            });
            match other {
                Some(holder) => {
                    self.refused.insert((kind.name.clone(), group), holder);
                }
                None => {
                    for nic in nics {
                        let own = || (Arc::clone(&name), Arc::clone(&ranks));
                        self.held.entry(nic).or_insert_with(own);
                    }
                }
            }
        }
        let refused: Vec<bool> = (0..kind.groups.len() as u32)
            .map(|group| self.refused.contains_key(&(kind.name.clone(), group)))
            .collect();
        for (group, beside) in kind.beside.iter().enumerate() {
            if refused[group] {
                kind.places[group] |= REFUSED;
            }
            if beside.iter().any(|&g| refused[g as usize]) {
                kind.sets[group] |= REFUSED;
            }
        }
    }

    /// Why a group has no trees, if it wanted some. A warning if it has something to sum.
    pub(super) fn refusal(&mut self, kind: &Kind, group: u32, sums: bool) -> Option<String> {
        let holder = self.refused.get(&(kind.name.clone(), group))?;
        if sums && !self.fallen.contains_key(&kind.name) {
            let of = |g: &u32| self.refused.contains_key(&(kind.name.clone(), *g));
            let all = kind.groups.len();
            let count = (0..all as u32).filter(of).count();
            let because = Arc::clone(holder);
            self.fallen.insert(kind.name.clone(), (count, all, because));
        }
        Some(format!(
            "SHARP: Streaming Tree lock failed: {holder} holds the trees of its interfaces"
        ))
    }

    /// For people: who goes without sums in the network.
    pub(super) fn warnings(&self) -> Vec<String> {
        let line = |(kind, (count, all, holder)): (&String, &(usize, usize, Arc<str>))| {
            let whose = if **holder == *kind.as_str() {
                "others of them hold".to_owned()
            } else {
                format!("{holder} holds")
            };
            format!(
                "{count} of {all} communicators of {kind} go without CollNet: {whose} the streaming \
                 trees of their interfaces (SHARP: \"Streaming Tree lock failed\")"
            )
        };
        self.fallen.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, groups: &[&[u32]]) -> Kind {
        let count = groups.len();
        Kind {
            name: name.to_owned(),
            groups: groups.iter().map(|g| g.to_vec()).collect(),
            places: vec![0; count],
            beside: vec![(0..count as u32).collect(); count],
            sets: vec![0; count],
        }
    }

    #[test]
    fn who_comes_first_holds_an_interface() {
        let mut trees = Trees::default();
        let own = |rank: u32| Some(DeviceId(rank));
        let mut data = kind("data", &[&[0, 2], &[1, 3]]);
        trees.claim(&mut data, own);
        assert_eq!(data.places, [0, 0]);
        // The same ranks again are the same communicator.
        let mut shards = kind("shards", &[&[0, 2]]);
        trees.claim(&mut shards, own);
        assert_eq!(trees.refusal(&shards, 0, true), None);
        let mut ends = kind("ends", &[&[0, 3], &[4, 5]]);
        trees.claim(&mut ends, own);
        assert_eq!(ends.places, [REFUSED, 0]);
        assert_eq!(trees.refusal(&ends, 1, true), None);
        let why = trees.refusal(&ends, 0, true).unwrap();
        assert!(why.contains("data holds"), "{why}");
        let warnings = trees.warnings();
        assert!(
            warnings[0].starts_with("1 of 2 communicators of ends"),
            "{warnings:?}"
        );
    }

    #[test]
    fn two_that_share_an_interface_cannot_both_have_its_tree() {
        let mut trees = Trees::default();
        let mut data = kind("data", &[&[0, 2], &[1, 3]]);
        trees.claim(&mut data, |rank| Some(DeviceId(rank / 2)));
        assert_eq!(data.places, [0, REFUSED]);
        assert_eq!(data.sets, [REFUSED, REFUSED]);
    }
}
