//! Which ranks of a job behave alike.
//!
//! Colour refinement: ranks start with a colour for what they do and what disturbs them, groups
//! with one for where they are on the machine; then a group takes part of its colour from its
//! ranks and a rank from its groups, until no colour splits any more. Ranks of one colour then do
//! the same, at the same times, in groups of the same colours: one of them stands for all.

use rustc_hash::FxHashMap;

/// Communicators of one kind: each rank is in one of them at most.
#[derive(Debug, Clone, Default)]
pub struct Kind {
    /// What they are, for people.
    pub name: String,
    /// Ranks of each, in order.
    pub groups: Vec<Vec<u32>>,
    /// A colour for the place of each group on the machine: groups with different ones are
    /// never alike.
    pub places: Vec<u32>,
    /// For each group those that share a node with it, itself too, in order.
    pub beside: Vec<Vec<u32>>,
    /// A number for the place of those together; as `places`, but the same for all of them.
    pub sets: Vec<u32>,
}

/// The classes of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// The class of each rank.
    pub of_rank: Vec<u32>,
    /// How many classes there are.
    pub ranks: u32,
    /// The class of each group of each kind; numbers begin anew with each kind.
    pub of_group: Vec<Vec<u32>>,
    /// How many classes each kind has.
    pub groups: Vec<u32>,
}

impl Classes {
    /// The coarsest classes that fit `colours` of ranks and the places of groups.
    #[must_use]
    pub fn new(colours: &[u64], kinds: &[&Kind]) -> Self {
        let mut memberships: Vec<Vec<(u32, u32)>> = vec![Vec::new(); colours.len()];
        for (k, kind) in kinds.iter().enumerate() {
            for (g, group) in kind.groups.iter().enumerate() {
                for &rank in group {
                    memberships[rank as usize].push((k as u32, g as u32));
                }
            }
        }
        let (mut of_rank, mut count) = numbered(colours.iter());
        loop {
            let of_group: Vec<(Vec<u32>, u32)> = kinds
                .iter()
                .map(|kind| {
                    let signature = |(group, place): (&Vec<u32>, &u32)| {
                        let mut members: Vec<u32> =
                            group.iter().map(|&r| of_rank[r as usize]).collect();
                        members.sort_unstable();
                        (*place, members)
                    };
                    let signatures: Vec<_> = kind
                        .groups
                        .iter()
                        .zip(&kind.places)
                        .map(signature)
                        .collect();
                    numbered(signatures.iter())
                })
                .collect();
            let signature = |rank: usize| {
                let groups = memberships[rank].iter();
                let groups: Vec<(u32, u32)> = groups
                    .map(|&(k, g)| (k, of_group[k as usize].0[g as usize]))
                    .collect();
                (of_rank[rank], groups)
            };
            let signatures: Vec<_> = (0..colours.len()).map(signature).collect();
            let (finer, more) = numbered(signatures.iter());
            if more == count {
                let (of_group, groups) = of_group.into_iter().unzip();
                return Classes {
                    of_rank,
                    ranks: count,
                    of_group,
                    groups,
                };
            }
            (of_rank, count) = (finer, more);
        }
    }
}

/// Numbers for values, equal for equal ones, in the order in which they first appear; and how
/// many there are.
fn numbered<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> (Vec<u32>, u32) {
    let mut known: FxHashMap<T, u32> = FxHashMap::default();
    let numbers = values
        .map(|value| {
            let next = known.len() as u32;
            *known.entry(value).or_insert(next)
        })
        .collect();
    (numbers, known.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 ranks: tensor groups of 2, data-parallel groups of 4, two pipeline stages.
    fn kinds() -> Vec<Kind> {
        let kind = |name: &str, groups: Vec<Vec<u32>>| Kind {
            name: name.into(),
            places: vec![0; groups.len()],
            groups,
            ..Kind::default()
        };
        let tp = (0..8).map(|g| vec![2 * g, 2 * g + 1]).collect();
        let dp = (0..4)
            .map(|g| (0..4).map(|k| g / 2 * 8 + g % 2 + 2 * k).collect())
            .collect();
        let pp = (0..8).map(|r| vec![r, r + 8]).collect();
        vec![kind("tp", tp), kind("dp", dp), kind("pp", pp)]
    }

    #[test]
    fn stages_are_the_only_classes_of_an_even_job() {
        let colours: Vec<u64> = (0..16).map(|r| r / 8).collect();
        let classes = Classes::new(&colours, &kinds().iter().collect::<Vec<_>>());
        assert_eq!(classes.ranks, 2);
        assert_eq!(classes.groups, vec![2, 2, 1]);
    }

    #[test]
    fn one_slow_rank_splits_those_that_meet_it() {
        let colours: Vec<u64> = (0..16).map(|r| if r == 3 { 9 } else { r / 8 }).collect();
        let classes = Classes::new(&colours, &kinds().iter().collect::<Vec<_>>());
        let of = |r: usize| classes.of_rank[r];
        // Its tensor neighbour, those of its data-parallel group, and their neighbours.
        assert!(of(2) != of(3) && of(2) != of(0) && of(1) != of(0));
        assert_eq!(of(0), of(4));
        assert_eq!(of(1), of(5));
        assert_eq!(of(8), of(12));
        assert_eq!(classes.ranks, 8);
    }
}
