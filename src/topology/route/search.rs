//! Searches through a fabric's switches, breadth first, each as far as it was needed.

use crate::graph::LinkId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// No such port or switch, and no distance, in tables by device or switch.
pub(super) const NONE: u32 = u32::MAX;

/// Neighbours by switch, in one table.
#[derive(Debug, Default)]
pub(super) struct Adjacency {
    starts: Vec<u32>,
    links: Vec<(u32, LinkId)>,
}

impl Adjacency {
    /// Of so many switches, joined by these links: near end, far end.
    pub(super) fn new(switches: usize, mut links: Vec<(u32, u32, LinkId)>) -> Self {
        links.sort_unstable();
        let mut starts = vec![0; switches + 1];
        for &(near, _, _) in &links {
            starts[near as usize + 1] += 1;
        }
        let mut before = 0;
        for start in &mut starts {
            before += *start;
            *start = before;
        }
        let links = links.into_iter().map(|(_, far, link)| (far, link));
        Adjacency {
            starts,
            links: links.collect(),
        }
    }

    pub(super) fn of(&self, switch: u32) -> &[(u32, LinkId)] {
        let switch = switch as usize;
        &self.links[self.starts[switch] as usize..self.starts[switch + 1] as usize]
    }

    /// The links between two switches, parallel ones where cables count singly; a switch's links
    /// are in order of far end.
    pub(super) fn cables(&self, from: u32, to: u32) -> &[(u32, LinkId)] {
        let links = self.of(from);
        let start = links.partition_point(|&(far, _)| far < to);
        let count = links[start..].partition_point(|&(far, _)| far == to);
        &links[start..start + count]
    }

    /// The first link between two switches.
    pub(super) fn link(&self, from: u32, to: u32) -> Option<LinkId> {
        self.cables(from, to).first().map(|&(_, link)| link)
    }
}

/// Breadth-first searches from sets of switches; each set of the fabric's ports has one.
#[derive(Debug, Default)]
pub(super) struct Searches {
    groups: FxHashMap<SmallVec<[u32; 2]>, usize>,
    searches: Vec<Search>,
}

impl Searches {
    /// The number of the group of switches that these links are of.
    pub(super) fn group(&mut self, links: &[(u32, LinkId)]) -> usize {
        let mut switches: SmallVec<[u32; 2]> = links.iter().map(|&(switch, _)| switch).collect();
        switches.dedup();
        let next = self.searches.len();
        let searches = &mut self.searches;
        *self.groups.entry(switches).or_insert_with_key(|switches| {
            searches.push(Search {
                distance: Vec::new(),
                order: switches.to_vec(),
                ends: vec![switches.len()],
            });
            next
        })
    }

    /// The search from a group, ready to grow in a fabric of so many switches.
    pub(super) fn get(&mut self, group: usize, switches: usize) -> &mut Search {
        let search = &mut self.searches[group];
        if search.distance.is_empty() {
            search.distance = vec![0; switches];
            for &switch in &search.order {
                search.distance[switch as usize] = 1;
            }
        }
        search
    }

    pub(super) fn search(&self, group: usize) -> &Search {
        &self.searches[group]
    }
}

/// A breadth-first search as far as it was needed.
#[derive(Debug)]
pub(super) struct Search {
    /// By switch, plus one: 0 where it has not come yet, so that memory is touched only where it
    /// has. Empty before the first use.
    distance: Vec<u32>,
    /// Switches as they were reached.
    order: Vec<u32>,
    /// By distance: where in `order` the switches at that distance end.
    ends: Vec<usize>,
}

impl Search {
    pub(super) fn grow(&mut self, level: usize, links: &Adjacency) {
        while self.ends.len() <= level {
            let next = self.ends.len();
            let mut position = next.checked_sub(2).map_or(0, |before| self.ends[before]);
            let end = self.order.len();
            while position < end {
                for &(far, _) in links.of(self.order[position]) {
                    let distance = &mut self.distance[far as usize];
                    if *distance == 0 {
                        *distance = next as u32 + 1;
                        self.order.push(far);
                    }
                }
                position += 1;
            }
            self.ends.push(self.order.len());
        }
    }

    pub(super) fn level(&self, level: usize) -> &[u32] {
        let start = level.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.order[start..self.ends[level]]
    }

    pub(super) fn is_at(&self, switch: u32, distance: u32) -> bool {
        self.distance_of(switch) == distance
    }

    pub(super) fn distance_of(&self, switch: u32) -> u32 {
        match self.distance.get(switch as usize) {
            None | Some(0) => NONE,
            Some(distance) => distance - 1,
        }
    }
}
