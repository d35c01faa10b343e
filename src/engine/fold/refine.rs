//! Colour refinement: the coarsest partition in which all members of a class have the same
//! neighbours, class by class.
//!
//! Each node has a sum over its neighbours of a hash of their colour and of what joins them.
//! When nodes get a new colour, only the sums of their neighbours change, and only these can
//! get new colours next. A class that falls apart keeps its colour for the largest part, so
//! that a node changes its colour seldom (Hopcroft's trick).

use rustc_hash::FxHashMap;

/// Nodes with neighbours.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Nodes that differ here are never in one class.
    kinds: Vec<u64>,
    /// Neighbours of each node, and what it sees them as.
    sees: Table,
    /// Who sees each node, and as what, where that is not who it sees itself.
    seen_by: Option<Table>,
}

/// Lists of neighbours, one for each node.
#[derive(Debug, Default)]
struct Table {
    starts: Vec<u32>,
    edges: Vec<(u32, u32)>,
}

impl Table {
    /// `each` calls back with a node and an entry of its list, the same each time that it is
    /// called.
    fn new(nodes: usize, each: impl Fn(&mut dyn FnMut(u32, (u32, u32)))) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        each(&mut |node, _| starts[node as usize] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        // Filled from the back, so that each start ends where its node's entries begin.
        let mut edges = vec![(0, 0); sum as usize];
        each(&mut |node, edge| {
            starts[node as usize] -= 1;
            edges[starts[node as usize] as usize] = edge;
        });
        Table { starts, edges }
    }

    fn of(&self, node: u32) -> &[(u32, u32)] {
        let (start, end) = (self.starts[node as usize], self.starts[node as usize + 1]);
        &self.edges[start as usize..end as usize]
    }
}

/// Refining may look at each edge so often before it is given up: a machine on which it takes
/// longer has little to fold.
const MOST_VISITS: usize = 64;

impl Graph {
    /// `each_edge` calls back with two nodes and what the first sees the second as, the same
    /// each time that it is called; the second sees the first as the label's [`partner`].
    pub(super) fn new(kinds: Vec<u64>, each_edge: impl Fn(&mut dyn FnMut(u32, u32, u32))) -> Self {
        let sees = Table::new(kinds.len(), |entry| {
            each_edge(&mut |a, b, label| {
                entry(a, (b, label));
                entry(b, (a, partner(label)));
            });
        });
        Graph {
            kinds,
            sees,
            seen_by: None,
        }
    }

    /// Of nodes of which each stands for several: `sights` are who sees whom as what, of one of
    /// those that it stands for.
    pub(super) fn of_classes(kinds: Vec<u64>, sights: &[(u32, u32, u32)]) -> Self {
        let nodes = kinds.len();
        Graph {
            kinds,
            sees: Table::new(nodes, |entry| {
                sights
                    .iter()
                    .for_each(|&(a, b, label)| entry(a, (b, label)));
            }),
            seen_by: Some(Table::new(nodes, |entry| {
                sights
                    .iter()
                    .for_each(|&(a, b, label)| entry(b, (a, label)));
            })),
        }
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.kinds.len()
    }

    /// Who sees a node, and as what: the second with these bits turned over.
    fn seen_by(&self, node: u32) -> (&[(u32, u32)], u32) {
        match &self.seen_by {
            Some(table) => (table.of(node), 0),
            None => (self.sees.of(node), partner(0)),
        }
    }

    /// The colour of each node; `None` if that would take too long.
    pub(super) fn refine(&self) -> Option<Vec<u32>> {
        let mut colours: Vec<u32> = Vec::with_capacity(self.kinds.len());
        let mut classes: Vec<Class> = Vec::new();
        let mut known: FxHashMap<u64, u32> = FxHashMap::default();
        for &kind in &self.kinds {
            let colour = *known.entry(kind).or_insert_with(|| {
                classes.push(Class::default());
                classes.len() as u32 - 1
            });
            classes[colour as usize].size += 1;
            colours.push(colour);
        }
        let mut sums: Vec<u64> = (0..colours.len() as u32)
            .map(|node| {
                let one = |&(other, label): &(u32, u32)| seen(label, colours[other as usize]);
                self.sees
                    .of(node)
                    .iter()
                    .map(one)
                    .fold(0, u64::wrapping_add)
            })
            .collect();
        let mut dirty: Vec<u32> = (0..colours.len() as u32).collect();
        let mut is_dirty = vec![false; colours.len()];
        let mut visits = 0;
        let mut round = Round::default();
        while !dirty.is_empty() {
            round.split(&dirty, &colours, &sums, &mut classes);
            dirty.clear();
            for (node, new) in round.moved.drain(..) {
                let old = std::mem::replace(&mut colours[node as usize], new);
                let (others, _) = self.seen_by(node);
                visits += others.len();
                for &(other, _) in others {
                    if !std::mem::replace(&mut is_dirty[other as usize], true) {
                        dirty.push(other);
                    }
                }
                round.repainted.push((node, old));
            }
            // Each neighbour knows the node by a label of its own.
            for (node, old) in round.repainted.drain(..) {
                let new = colours[node as usize];
                let (others, turned) = self.seen_by(node);
                for &(other, label) in others {
                    let label = label ^ turned;
                    let sum = &mut sums[other as usize];
                    *sum = sum
                        .wrapping_add(seen(label, new))
                        .wrapping_sub(seen(label, old));
                }
            }
            for &node in &dirty {
                is_dirty[node as usize] = false;
            }
            if visits > MOST_VISITS * self.sees.edges.len().max(1 << 16) {
                return None;
            }
        }
        Some(colours)
    }
}

/// What the other end of an edge with this label calls it: labels come in pairs.
pub(super) const fn partner(label: u32) -> u32 {
    label ^ 1
}

/// A well mixed hash of a neighbour (the finisher of SplitMix64, twice).
pub(super) fn seen(label: u32, colour: u32) -> u64 {
    mix(mix(u64::from(label) << 32 | u64::from(colour)))
}

/// A bijection of 64 bits in which every bit depends on every other.
pub(super) const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Adds to a hash of a sequence.
pub(super) const fn mix_in(hash: u64, value: u64) -> u64 {
    mix(hash.rotate_left(23) ^ mix(value))
}

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    size: u32,
    /// The sum that its members had when they were last looked at.
    sum: u64,
    /// Of a round: how many of it are looked at, and the largest group.
    looked_at: u32,
    largest: u32,
}

/// Scratch of one round.
#[derive(Debug, Default)]
struct Round {
    /// Members of one class with the same sum.
    groups: Vec<Group>,
    group_of: Vec<u32>,
    known: FxHashMap<(u32, u64), u32>,
    /// Nodes with their new colours, then with their old ones.
    moved: Vec<(u32, u32)>,
    repainted: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Group {
    colour: u32,
    sum: u64,
    size: u32,
    new: u32,
}

impl Round {
    /// Finds the nodes among `dirty` that need a new colour.
    fn split(&mut self, dirty: &[u32], colours: &[u32], sums: &[u64], classes: &mut Vec<Class>) {
        self.groups.clear();
        self.group_of.clear();
        // Clearing costs what there is room for, and rounds get small.
        if self.known.capacity() > 16 * dirty.len() + 64 {
            self.known = FxHashMap::default();
        }
        self.known.clear();
        for &node in dirty {
            let (colour, sum) = (colours[node as usize], sums[node as usize]);
            let groups = &mut self.groups;
            let group = *self.known.entry((colour, sum)).or_insert_with(|| {
                groups.push(Group {
                    colour,
                    sum,
                    size: 0,
                    new: colour,
                });
                groups.len() as u32 - 1
            });
            self.groups[group as usize].size += 1;
            self.group_of.push(group);
            classes[colour as usize].looked_at += 1;
        }
        for (index, group) in self.groups.iter().enumerate() {
            let class = &mut classes[group.colour as usize];
            let largest = self.groups.get(class.largest as usize);
            let first = largest.is_none_or(|l| l.colour != group.colour);
            if first || largest.is_some_and(|l| l.size < group.size) {
                class.largest = index as u32;
            }
        }
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            let class = &mut classes[group.colour as usize];
            // Members that nothing happened to keep the colour and the sum; else the largest
            // group keeps it.
            let rest = class.looked_at < class.size;
            let keeps = if rest {
                group.sum == class.sum
            } else {
                class.largest as usize == index
            };
            if keeps {
                continue;
            }
            group.new = classes.len() as u32;
            classes.push(Class {
                size: group.size,
                sum: group.sum,
                ..Class::default()
            });
        }
        for index in 0..self.groups.len() {
            let group = &self.groups[index];
            let class = &mut classes[group.colour as usize];
            if group.new == group.colour {
                class.sum = group.sum;
            } else {
                class.size -= group.size;
            }
            class.looked_at = 0;
        }
        for (&node, &group) in dirty.iter().zip(&self.group_of) {
            let new = self.groups[group as usize].new;
            if new != colours[node as usize] {
                self.moved.push((node, new));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn colours(kinds: &[u64], edges: &[(u32, u32, u32)]) -> Vec<u32> {
        let graph = Graph::new(kinds.to_vec(), |edge| {
            edges.iter().for_each(|&(a, b, label)| edge(a, b, label));
        });
        graph.refine().unwrap()
    }

    fn count(colours: &[u32]) -> usize {
        colours.iter().collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn a_circle_is_one_class_and_a_chain_is_told_by_distances() {
        let circle: Vec<_> = (0..12).map(|i| (i, (i + 1) % 12, 0)).collect();
        assert_eq!(count(&colours(&[0; 12], &circle)), 1);
        // Directed: every place in a chain is its own. One that stands out tells all apart.
        assert_eq!(count(&colours(&[0; 12], &circle[..11])), 12);
        let mut kinds = [0; 12];
        kinds[5] = 1;
        assert_eq!(count(&colours(&kinds, &circle)), 12);
        // Two of them, opposite to each other, leave pairs.
        kinds[11] = 1;
        let pairs = colours(&kinds, &circle);
        assert_eq!(count(&pairs), 6);
        assert!((0..6).all(|i| pairs[i] == pairs[i + 6]));
    }

    #[test]
    fn labels_and_numbers_of_neighbours_count() {
        // 0 sees 1 and 2 as the same, 3 sees 4 and 5 differently.
        let edges = [(0, 1, 0), (0, 2, 0), (3, 4, 0), (3, 5, 2)];
        let found = colours(&[0, 1, 1, 0, 1, 1], &edges);
        assert_eq!(found[1], found[2]);
        assert_ne!(found[0], found[3]);
        assert_ne!(found[4], found[5]);
        let hubs = colours(&[0, 0, 1, 1, 1], &[(0, 2, 0), (1, 3, 0), (1, 4, 0)]);
        assert_ne!(hubs[0], hubs[1]);
        assert_ne!(hubs[2], hubs[3]);
        assert_eq!(hubs[3], hubs[4]);
    }

    #[test]
    fn a_long_chain_does_not_take_long() {
        let ring: Vec<_> = (0..50_000).map(|i| (i, (i + 1) % 50_000, 0)).collect();
        let mut kinds = vec![0; 50_000];
        kinds[7] = 1;
        assert_eq!(count(&colours(&kinds, &ring)), 50_000);
    }
}
