//! From links to what can be a bottleneck.
//!
//! A [`Route`] lists every link that a transfer crosses. Most of them can never differ:
//! the four bundles from a GPU to its four NVSwitches carry the same transfers in the
//! same proportion as their rates, so one constraint stands for all. [`Resources`]
//! merges such links, exactly, and turns shares into integer weights, so that sharing
//! can be computed without rounding that depends on order.

use crate::topology::{LinkId, Route, Share};
use crate::units::Bandwidth;
use rustc_hash::FxHashMap;

/// Something that transfers share: one link, or several that always fill together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The links it stands for, in order of id.
    pub links: Vec<LinkId>,
    /// Capacity in units of which each transfer takes `weight` for each byte per second.
    pub capacity: u64,
}

/// A resource, an index into [`Resources::all`].
pub type ResourceId = u32;

/// What a transfer takes of one resource for each byte per second of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The resource.
    pub resource: ResourceId,
    /// Units of its capacity.
    pub weight: u32,
}

/// Paths as lists of [`Use`], and the resources behind them.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// The resources.
    pub all: Vec<Resource>,
    ranges: Vec<(u32, u32)>,
    uses: Vec<Use>,
}

/// A path, an index into [`Resources`]. The paths of routes come first, in their order.
pub type PathId = u32;

/// Above this, the least common multiple of shares' denominators is replaced by it, and
/// shares are rounded to it.
const LARGEST_UNIT: u64 = 1 << 20;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Resources {
    /// Builds the resources of `routes`. Each route's bytes are first multiplied by
    /// `wire.0 / wire.1` (protocol overhead) and by what a byte takes up of its links. `rate` gives what a link can carry.
    #[must_use]
    pub fn new(routes: &[Route], wire: (u32, u32), rate: impl Fn(LinkId) -> Bandwidth) -> Self {
        let crossings = Crossings::new(routes);
        let fraction = |share: Share, load: Share| {
            let num = u64::from(share.num) * u64::from(load.num) * u64::from(wire.0);
            let den = u64::from(share.den) * u64::from(load.den) * u64::from(wire.1);
            let common = gcd(num, den);
            (num / common, den / common)
        };
        // Links with the same transfers in the same proportion of their rates are one.
        let mut merged: FxHashMap<Vec<Crossing>, u32> = FxHashMap::default();
        let mut all: Vec<Resource> = Vec::new();
        let mut uses_of: Vec<(u32, Use)> = Vec::with_capacity(crossings.all.len());
        let (mut group, mut signature): (Vec<Crossing>, Vec<Crossing>) = (Vec::new(), Vec::new());
        for (link, crossed_by) in crossings.by_link() {
            let capacity = rate(link).bytes_per_sec();
            group.clear();
            group.extend(crossed_by.iter().map(|&(route, share)| {
                let (num, den) = fraction(share, routes[route as usize].load);
                (route, num, den)
            }));
            signature.clear();
            signature.extend(group.iter().map(|&(route, num, den)| {
                let common = gcd(num, capacity.max(1));
                (
                    route,
                    num / common,
                    den.saturating_mul(capacity.max(1) / common),
                )
            }));
            if let Some(&resource) = merged.get(&signature) {
                all[resource as usize].links.push(link);
                continue;
            }
            let resource = all.len() as u32;
            merged.insert(signature.clone(), resource);
            let (capacity, weights) = integer_weights(capacity, &group);
            let uses = group.iter().zip(weights);
            uses_of.extend(uses.map(|(&(route, ..), weight)| (route, Use { resource, weight })));
            all.push(Resource {
                links: vec![link],
                capacity,
            });
        }
        let (ranges, uses) = by_route(routes.len(), &uses_of);
        Resources { all, ranges, uses }
    }

    /// Adds a path of its own, such as the sum of two routes that fill together.
    pub fn add_path(&mut self, uses: impl Iterator<Item = Use>) -> PathId {
        let start = self.uses.len() as u32;
        self.uses.extend(uses);
        self.ranges.push((start, self.uses.len() as u32));
        self.ranges.len() as u32 - 1
    }

    /// The uses of several paths at once; a resource on two of them is used by both.
    pub fn add_sum(&mut self, paths: &[PathId]) -> PathId {
        let mut uses: Vec<Use> = paths
            .iter()
            .flat_map(|&p| self.path(p).iter().copied())
            .collect();
        uses.sort_unstable_by_key(|u| u.resource);
        let mut summed: Vec<Use> = Vec::with_capacity(uses.len());
        for u in uses {
            match summed.last_mut() {
                Some(last) if last.resource == u.resource => last.weight += u.weight,
                _ => summed.push(u),
            }
        }
        self.add_path(summed.into_iter())
    }

    /// What a path uses.
    #[must_use]
    #[inline]
    pub fn path(&self, path: PathId) -> &[Use] {
        let (start, end) = self.ranges[path as usize];
        &self.uses[start as usize..end as usize]
    }

    /// How many paths there are.
    #[must_use]
    pub fn paths(&self) -> usize {
        self.ranges.len()
    }
}

/// A route that crosses a link, and the numerator and denominator of its share.
type Crossing = (u32, u64, u64);

/// Which routes cross each link.
struct Crossings {
    /// By link: where its routes begin in `all`, and where the last one's end.
    starts: Vec<u32>,
    all: Vec<(u32, Share)>,
}

impl Crossings {
    fn new(routes: &[Route]) -> Self {
        let hops = || {
            let routes = (0..).zip(routes);
            routes.flat_map(|(id, route)| route.hops.iter().map(move |hop| (id, hop)))
        };
        let links = hops().map(|(_, hop)| hop.link.index() + 1).max();
        let mut starts = vec![0u32; links.unwrap_or(0) + 2];
        hops().for_each(|(_, hop)| starts[hop.link.index() + 2] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        // Each start moves on to where the next link's routes begin.
        let mut all = vec![(0, Share::WHOLE); sum as usize];
        for (id, hop) in hops() {
            let next = &mut starts[hop.link.index() + 1];
            all[*next as usize] = (id, hop.share);
            *next += 1;
        }
        Crossings { starts, all }
    }

    /// The links that any route crosses, in order, each with its routes in their order.
    fn by_link(&self) -> impl Iterator<Item = (LinkId, &[(u32, Share)])> {
        let ranges = (0..).map(LinkId).zip(self.starts.windows(2));
        let routes = ranges.map(|(link, w)| (link, &self.all[w[0] as usize..w[1] as usize]));
        routes.filter(|(_, routes)| !routes.is_empty())
    }
}

/// The uses of each route, in the order in which they are given: where they begin and end, and
/// they themselves.
fn by_route(routes: usize, uses_of: &[(u32, Use)]) -> (Vec<(u32, u32)>, Vec<Use>) {
    let mut ranges = vec![(0u32, 0u32); routes];
    uses_of
        .iter()
        .for_each(|&(route, _)| ranges[route as usize].1 += 1);
    let mut sum = 0;
    for range in &mut ranges {
        let count = std::mem::replace(&mut range.1, sum);
        range.0 = sum;
        sum += count;
    }
    let nothing = Use {
        resource: 0,
        weight: 0,
    };
    let mut uses = vec![nothing; uses_of.len()];
    for &(route, one) in uses_of {
        let end = &mut ranges[route as usize].1;
        uses[*end as usize] = one;
        *end += 1;
    }
    (ranges, uses)
}

/// Shares as integers, and the capacity in the same unit.
fn integer_weights(capacity: u64, group: &[Crossing]) -> (u64, Vec<u32>) {
    let unit = group
        .iter()
        .try_fold(1u64, |lcm, &(.., den)| {
            (lcm / gcd(lcm, den))
                .checked_mul(den)
                .filter(|&l| l <= LARGEST_UNIT)
        })
        .unwrap_or(LARGEST_UNIT);
    let weights: Vec<u64> = group
        .iter()
        .map(|&(_, num, den)| {
            ((u128::from(num) * u128::from(unit)) / u128::from(den)).max(1) as u64
        })
        .collect();
    let common = weights.iter().fold(0, |g, &w| gcd(g, w)).max(1);
    let scaled = u128::from(capacity) * u128::from(unit) / u128::from(common);
    let capacity = u64::try_from(scaled).unwrap_or(u64::MAX);
    (
        capacity,
        weights
            .iter()
            .map(|w| u32::try_from(w / common).unwrap_or(u32::MAX))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Hop;

    fn route(hops: &[(u32, u32, u32)]) -> Route {
        Route {
            hops: hops
                .iter()
                .map(|&(link, num, den)| Hop {
                    link: LinkId(link),
                    share: Share { num, den },
                })
                .collect(),
            ..Route::default()
        }
    }

    #[test]
    fn links_that_fill_together_are_one_resource() {
        // 18 links spread 5/4/4/5 over four switches, up (0-3) and down (4-7): one
        // constraint, as long as nothing else crosses any of them.
        let hops: Vec<_> = [5, 4, 4, 5]
            .iter()
            .chain(&[5, 4, 4, 5])
            .enumerate()
            .map(|(i, &n)| (i as u32, n, 18))
            .collect();
        let rate = |l: LinkId| Bandwidth::from_gb_per_sec([5, 4, 4, 5][l.index() % 4]);
        let r = Resources::new(&[route(&hops)], (1, 1), rate);
        assert_eq!(r.all.len(), 1);
        // Weight 1, capacity 5 GB/s * 18 / 5.
        assert_eq!(
            r.path(0),
            [Use {
                resource: 0,
                weight: 1
            }]
        );
        assert_eq!(r.all[0].capacity, 18_000_000_000);
    }

    #[test]
    fn a_second_route_over_some_of_them_keeps_these_apart() {
        let rate = |_| Bandwidth::from_gb_per_sec(10);
        let r = Resources::new(
            &[route(&[(0, 1, 1), (1, 1, 1)]), route(&[(1, 1, 3)])],
            (2, 1),
            rate,
        );
        assert_eq!(r.all.len(), 2);
        assert_eq!(
            r.path(0),
            [
                Use {
                    resource: 0,
                    weight: 1
                },
                Use {
                    resource: 1,
                    weight: 3
                }
            ]
        );
        assert_eq!(
            r.path(1),
            [Use {
                resource: 1,
                weight: 1
            }]
        );
        // LL doubles the bytes: link 0 takes half of 10 GB/s payload.
        assert_eq!(r.all[0].capacity, 5_000_000_000);
        // Link 1: weights 2 and 2/3 are 3 and 1 in units of 2/3.
        assert_eq!(r.all[1].capacity, 15_000_000_000);
    }

    #[test]
    fn sums_add_up() {
        let rate = |_| Bandwidth::from_gb_per_sec(10);
        let mut r = Resources::new(
            &[route(&[(0, 1, 1)]), route(&[(0, 1, 2), (1, 1, 1)])],
            (1, 1),
            rate,
        );
        let sum = r.add_sum(&[0, 1]);
        assert_eq!(
            r.path(sum),
            [
                Use {
                    resource: 0,
                    weight: 3
                },
                Use {
                    resource: 1,
                    weight: 1
                }
            ]
        );
    }
}
