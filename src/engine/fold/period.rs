//! What repeats along the ranks: a guess at who is like whom, and its proof.
//!
//! A large machine is one unit many times over, and a program on it often does in each unit
//! what it does in the others. If numbers of ranks that many apart, and all that belongs to
//! them, are classes whose members have the same neighbours class by class, then so few nodes
//! stand for all, and only these have to be refined: the coarsest partition of all is that of
//! the classes. Whether they are is looked at in one pass over all edges, so that a wrong guess
//! costs time and nothing else.

use super::refine::{Graph, mix, mix_in, partner, seen};
use super::scene::{Nodes, Scene};
use crate::resources::Use;

/// In place of a class: none yet.
pub(super) const NONE: u32 = u32::MAX;

/// A guess is tried with twice as many ranks so often.
const MOST_GUESSES: u32 = 3;

/// A single unit saves nothing.
const LEAST_UNITS: u32 = 2;

/// A proven guess at who is alike.
pub(super) struct Guess {
    /// The class of each node.
    pub(super) classes: Vec<u32>,
    /// One node for each class.
    pub(super) graph: Graph,
}

impl Guess {
    /// Whether there are so many times fewer nodes than things that they stand for.
    pub(super) fn saves(&self, least: usize) -> bool {
        self.graph.nodes() <= self.classes.len() / least
    }

    /// The colour of each node, found from those of its class; `None` if that takes too long.
    pub(super) fn colours(&self) -> Option<Vec<u32>> {
        let colours = self.graph.refine()?;
        let of_class = |&class: &u32| colours[class as usize];
        Some(self.classes.iter().map(of_class).collect())
    }
}

/// Classes that repeat with a unit of ranks; `None` if the ranks are not such units, as far as
/// one can see.
pub(super) fn guess(scene: &Scene<'_>, kinds: &[u64]) -> Option<Guess> {
    let program = scene.plan.program.as_ref();
    let ranks = program.ranks();
    let each = [program.workers(), program.connections()];
    if ranks == 0 || each.iter().any(|n| !n.is_multiple_of(ranks)) {
        return None;
    }
    let [workers, conns] = each.map(|n| n / ranks);
    let mut unit = Unit {
        ranks: period(&looks(scene, kinds, (ranks, workers, conns))),
        workers,
        conns,
    };
    for _ in 0..MOST_GUESSES {
        if !ranks.is_multiple_of(unit.ranks) || ranks / unit.ranks < LEAST_UNITS {
            return None;
        }
        let (classes, count) = unit.classes(scene);
        if let Some(graph) = proven(scene, kinds, &classes, count) {
            return Some(Guess { classes, graph });
        }
        unit.ranks *= 2;
    }
    None
}

/// How each rank looks: its kind, and those of its workers, connections, routes and resources,
/// and how many routes have these.
fn looks(scene: &Scene<'_>, kinds: &[u64], (ranks, workers, conns): (u32, u32, u32)) -> Vec<u64> {
    let nodes = scene.nodes;
    let mut users = vec![0u32; (nodes.all - nodes.resources) as usize];
    let routes = 0..scene.plan.routes.len() as u32;
    for u in routes.flat_map(|route| scene.resources.path(route)) {
        users[u.resource as usize] += 1;
    }
    let of_route = |route: u32| {
        let uses = scene.resources.path(route).iter();
        let one = |u: &Use| {
            let node = (nodes.resources + u.resource) as usize;
            let shared = if scene.roomy[u.resource as usize] {
                0
            } else {
                users[u.resource as usize]
            };
            mix_in(kinds[node], u64::from(u.weight) << 32 | u64::from(shared))
        };
        uses.map(one)
            .fold(kinds[(nodes.routes + route) as usize], u64::wrapping_add)
    };
    let range = |from: u32, index: u32, each: u32| {
        (from + index * each) as usize..(from + (index + 1) * each) as usize
    };
    (0..ranks)
        .map(|rank| {
            let mut look = kinds[rank as usize];
            for &kind in &kinds[range(nodes.workers, rank, workers)] {
                look = mix_in(look, kind);
            }
            for conn in range(0, rank, conns) {
                look = mix_in(look, kinds[nodes.conns as usize + conn]);
                for route in scene.plan.transports.routes_of(conn) {
                    look = mix_in(look, route.map_or(0, |r| mix(of_route(r.0))));
                }
            }
            look
        })
        .collect()
}

/// After how many of them `looks` repeats to its end; all of them, if it does not.
fn period(looks: &[u64]) -> u32 {
    let period = repeats_after(looks);
    if period > 0 && looks.len().is_multiple_of(period) {
        period as u32
    } else {
        looks.len() as u32
    }
}

/// After how many of them `looks` repeats, if only a part of it at its end; all of them, if it
/// does not.
pub(super) fn repeats_after(looks: &[u64]) -> usize {
    // The longest proper prefix of each prefix that is its end, too (Knuth, Morris, Pratt).
    let mut ends = vec![0usize; looks.len()];
    for at in 1..looks.len() {
        let mut len = ends[at - 1];
        while len > 0 && looks[at] != looks[len] {
            len = ends[len - 1];
        }
        ends[at] = len + usize::from(looks[at] == looks[len]);
    }
    looks.len() - ends.last().copied().unwrap_or(0)
}

/// Ranks after which all begins anew, and how many workers and connections each of them has.
struct Unit {
    ranks: u32,
    workers: u32,
    conns: u32,
}

impl Unit {
    /// The class of each node, and how many classes there are: one for each rank, worker and
    /// connection of a unit, and one for the routes and resources that such a connection has
    /// at one of its places.
    fn classes(&self, scene: &Scene<'_>) -> (Vec<u32>, u32) {
        let Nodes {
            workers,
            conns,
            routes,
            resources,
            all,
        } = scene.nodes;
        let mut classes: Vec<u32> = Vec::with_capacity(all as usize);
        let mut count = 0;
        let parts = [
            (workers, 1),
            (conns - workers, self.workers),
            (routes - conns, self.conns),
        ];
        for (size, each) in parts {
            let unit = self.ranks * each;
            classes.extend((0..size).map(|index| count + index % unit));
            count += unit;
        }
        classes.resize(all as usize, NONE);
        // What several connections have is told by the first place in the unit at which one
        // has it, wherever the units begin.
        let unit = (self.ranks * self.conns) as usize;
        let mut first = vec![NONE; (all - routes) as usize];
        let transports = &scene.plan.transports;
        for conn in 0..(routes - conns) as usize {
            for (slot, route) in transports.routes_of(conn).into_iter().enumerate() {
                if let Some(route) = route {
                    let place = &mut first[route.0 as usize];
                    *place = (*place).min(((conn % unit) * 3 + slot) as u32);
                }
            }
        }
        let mut known = vec![NONE; 3 * unit + 1];
        let (of_routes, of_resources) =
            classes[routes as usize..].split_at_mut((resources - routes) as usize);
        for (class, &place) in of_routes.iter_mut().zip(&first) {
            // Nobody has it: the last place.
            *class = number(&mut known, (place as usize).min(3 * unit), &mut count);
        }
        let base = of_routes.iter().copied().min().unwrap_or(0);
        let longest = (0..of_routes.len() as u32).map(|r| scene.resources.path(r).len());
        let longest = longest.max().unwrap_or(0).max(1);
        let mut first = vec![usize::MAX; of_resources.len()];
        for (route, &class) in (0..).zip(of_routes.iter()) {
            for (position, u) in scene.resources.path(route).iter().enumerate() {
                let place = &mut first[u.resource as usize];
                *place = (*place).min((class - base) as usize * longest + position);
            }
        }
        let places = (count - base) as usize * longest;
        let mut known = vec![NONE; places + 1];
        for (class, &place) in of_resources.iter_mut().zip(&first) {
            *class = number(&mut known, place.min(places), &mut count);
        }
        (classes, count)
    }
}

/// The class of a place, a new one if it has none.
fn number(known: &mut [u32], place: usize, count: &mut u32) -> u32 {
    let class = &mut known[place];
    if *class == NONE {
        *class = *count;
        *count += 1;
    }
    *class
}

/// The classes as a graph, if all members of each are of one kind and have the same neighbours,
/// class by class.
pub(super) fn proven(
    scene: &Scene<'_>,
    kinds: &[u64],
    classes: &[u32],
    count: u32,
) -> Option<Graph> {
    let mut first = vec![NONE; count as usize];
    for (node, &class) in (0..).zip(classes) {
        let first = &mut first[class as usize];
        *first = (*first).min(node);
        if kinds[*first as usize] != kinds[node as usize] {
            return None;
        }
    }
    let mut sums = vec![0u64; classes.len()];
    let mut sights: Vec<(u32, u32, u32)> = Vec::new();
    scene.each_edge(&mut |a, b, label| {
        for (node, other, label) in [(a, b, label), (b, a, partner(label))] {
            let (class, other) = (classes[node as usize], classes[other as usize]);
            let sum = &mut sums[node as usize];
            *sum = sum.wrapping_add(seen(label, other));
            if first[class as usize] == node {
                sights.push((class, other, label));
            }
        }
    });
    let mut nodes = sums.iter().zip(classes);
    let alike = nodes.all(|(&sum, &class)| sums[first[class as usize] as usize] == sum);
    let kind = |&node: &u32| kinds[node as usize];
    alike.then(|| Graph::of_classes(first.iter().map(kind).collect(), &sights))
}

#[cfg(test)]
mod tests {
    use super::{period, repeats_after};

    #[test]
    fn a_period_divides_the_whole() {
        assert_eq!(period(&[1]), 1);
        assert_eq!(period(&[7, 7, 7, 7]), 1);
        assert_eq!(period(&[1, 2, 3, 1, 2, 3]), 3);
        assert_eq!(period(&[1, 1, 2, 1, 1, 2, 1, 1, 2]), 3);
        // It begins anew, but not to the end.
        assert_eq!(period(&[1, 2, 1, 2, 1]), 5);
        assert_eq!(period(&[1, 2, 3, 4]), 4);
        assert_eq!(period(&[]), 0);
        assert_eq!(repeats_after(&[1, 2, 1, 2, 1]), 2);
        assert_eq!(repeats_after(&[1, 2, 3]), 3);
    }
}
