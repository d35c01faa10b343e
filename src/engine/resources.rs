//! From links to what can be a bottleneck.
//!
//! A route lists every link that a transfer crosses. Most of them can never differ:
//! the four bundles from a GPU to its four NVSwitches carry the same transfers in the
//! same proportion as their rates, so one constraint stands for all. [`Resources`]
//! merges such links, exactly, and turns shares into integer weights, so that sharing
//! can be computed without rounding that depends on order.

use fabricsim_plan::{RouteId, Routes};
use fabricsim_topology::{LinkId, Share};
use fabricsim_units::Bandwidth;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::Hasher;

/// Something that transfers share: one link, or several that always fill together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The links it stands for, in order of id.
    pub links: SmallVec<[LinkId; 4]>,
    /// Capacity in units of which each transfer takes `weight` for each byte per second.
    pub capacity: u64,
    /// Its links' rate may be less at times.
    pub changes: bool,
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
    /// `wire.0 / wire.1` (protocol overhead) and by what a byte takes up of its links. `rate` gives
    /// what a link can carry.
    #[must_use]
    pub fn new(routes: &Routes, wire: (u32, u32), rate: impl Fn(LinkId) -> Bandwidth) -> Self {
        Self::with_changing(routes, wire, rate, |_| false)
    }

    /// As [`Resources::new`]; each link that `changes` is a resource of its own.
    #[must_use]
    pub fn with_changing(
        routes: &Routes,
        wire: (u32, u32),
        rate: impl Fn(LinkId) -> Bandwidth,
        changes: impl Fn(LinkId) -> bool,
    ) -> Self {
        let crossings = Crossings::new(routes);
        // Links with the same transfers in the same proportion of their rates are one.
        let mut merged = Merged::default();
        let mut ratios = Ratios::new(wire);
        let mut all: Vec<Resource> = Vec::new();
        let mut uses_of: Vec<(u32, Use)> = Vec::with_capacity(crossings.all.len());
        let mut group: Vec<Crossing> = Vec::new();
        // The two directions of cables alternate, and the cables of a bundle follow each other:
        // most links are crossed as the one before the last is.
        let nobody: &[(u32, Share)] = &[];
        let mut before = [(nobody, 0, 0); 2];
        for (link, crossed_by) in crossings.by_link() {
            let capacity = rate(link).bytes_per_sec();
            let changes = changes(link);
            let known = before
                .iter()
                .find(|b| !changes && b.1 == capacity && b.0 == crossed_by)
                .map(|b| b.2);
            let resource = known.unwrap_or_else(|| {
                group.clear();
                merged.begin();
                for &(route, share) in crossed_by {
                    let load = routes.get(RouteId(route)).load;
                    let (num, den, ratio) = ratios.of(share, load, capacity);
                    group.push((route, num, den));
                    merged.add(route, ratio);
                }
                let next = all.len() as u32;
                let resource = if changes {
                    merged.add_alone(next)
                } else {
                    merged.find_or(next)
                };
                if resource == next {
                    let own = integer_weights(capacity, &group, |route, weight| {
                        uses_of.push((route, Use { resource, weight }));
                    });
                    all.push(Resource {
                        links: SmallVec::new(),
                        capacity: own,
                        changes,
                    });
                }
                resource
            });
            all[resource as usize].links.push(link);
            if !changes {
                before = [before[1], (crossed_by, capacity, resource)];
            }
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
    fn new(routes: &Routes) -> Self {
        let hops = || {
            let routes = (0..).zip(routes.iter());
            routes.flat_map(|(id, route)| route.hops.iter().map(move |hop| (id, hop)))
        };
        let mut starts = vec![0u32; routes.links() + 2];
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

/// Resources by what crosses them: routes, and in which proportion to the links' rates.
#[derive(Default)]
struct Merged {
    /// The crossings of each resource, one resource after the other, and then those of the link
    /// that is looked at.
    crossings: Vec<(u32, u32)>,
    /// Where those of each resource begin.
    starts: Vec<usize>,
    /// The last resource with a hash, and the one before it with the same.
    last: FxHashMap<u64, ResourceId>,
    same_hash: Vec<Option<ResourceId>>,
}

impl Merged {
    /// A link is looked at.
    fn begin(&mut self) {
        self.starts.push(self.crossings.len());
    }

    /// It is crossed by a route, in this proportion to its rate.
    fn add(&mut self, route: u32, ratio: u32) {
        self.crossings.push((route, ratio));
    }

    /// The link is the resource `next`, and none that is crossed as it is will be.
    fn add_alone(&mut self, next: ResourceId) -> ResourceId {
        self.same_hash.push(None);
        next
    }

    /// The resource that is crossed as the link is: `next` if there is none.
    fn find_or(&mut self, next: ResourceId) -> ResourceId {
        let own = self.starts.last().copied().unwrap_or(0);
        let mut hasher = FxHasher::default();
        for &(route, ratio) in &self.crossings[own..] {
            hasher.write_u64(u64::from(route) << 32 | u64::from(ratio));
        }
        let hash = hasher.finish();
        let first = self.last.get(&hash).copied();
        let mut known = first;
        while let Some(resource) = known {
            let index = resource as usize;
            if self.crossings[self.starts[index]..self.starts[index + 1]] == self.crossings[own..] {
                self.crossings.truncate(own);
                self.starts.pop();
                return resource;
            }
            known = self.same_hash[index];
        }
        self.last.insert(hash, next);
        self.same_hash.push(first);
        next
    }
}

/// What transfers take of links, in lowest terms.
struct Ratios {
    wire: (u32, u32),
    /// Proportions to a link's rate, numbered as they occur.
    known: FxHashMap<(u64, u64), u32>,
    /// The last question and its answer: most are asked again at once.
    last: Option<(Asked, Answer)>,
}

/// A share of a route's bytes, its load, and a link's rate.
type Asked = (Share, Share, u64);

/// A fraction, and the number of its proportion to the link's rate.
type Answer = (u64, u64, u32);

impl Ratios {
    fn new(wire: (u32, u32)) -> Self {
        Ratios {
            wire,
            known: FxHashMap::default(),
            last: None,
        }
    }

    /// What a byte of a route with this load takes of a link that so much of it crosses: as a
    /// fraction, and the number of its proportion to the link's rate.
    fn of(&mut self, share: Share, load: Share, capacity: u64) -> Answer {
        let asked = (share, load, capacity);
        if let Some((last, answer)) = self.last
            && last == asked
        {
            return answer;
        }
        let num = u64::from(share.num) * u64::from(load.num) * u64::from(self.wire.0);
        let den = u64::from(share.den) * u64::from(load.den) * u64::from(self.wire.1);
        let common = gcd(num, den);
        let (num, den) = (num / common, den / common);
        let capacity = capacity.max(1);
        let common = gcd(num, capacity);
        let ratio = (num / common, den.saturating_mul(capacity / common));
        let next = self.known.len() as u32;
        let number = *self.known.entry(ratio).or_insert(next);
        let answer = (num, den, number);
        self.last = Some((asked, answer));
        answer
    }
}

/// Shares as integers, told route by route, and the capacity in the same unit.
fn integer_weights(capacity: u64, group: &[Crossing], mut weigh: impl FnMut(u32, u32)) -> u64 {
    let unit = match group {
        [(_, num, den), others @ ..] if others.iter().all(|o| (o.1, o.2) == (*num, *den)) => {
            (*den).min(LARGEST_UNIT)
        }
        _ => group
            .iter()
            .try_fold(1u64, |lcm, &(.., den)| {
                (lcm / gcd(lcm, den))
                    .checked_mul(den)
                    .filter(|&l| l <= LARGEST_UNIT)
            })
            .unwrap_or(LARGEST_UNIT),
    };
    let weight = |&(_, num, den): &Crossing| {
        ((u128::from(num) * u128::from(unit)) / u128::from(den)).max(1) as u64
    };
    let common = group.iter().fold(0, |g, c| match weight(c) {
        w if w == g => g,
        w => gcd(g, w),
    });
    let common = common.max(1);
    for crossing in group {
        let scaled = weight(crossing) / common;
        weigh(crossing.0, u32::try_from(scaled).unwrap_or(u32::MAX));
    }
    let scaled = u128::from(capacity) * u128::from(unit) / u128::from(common);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::{Hop, Route};

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
        let r = Resources::new(&Routes::from_iter([route(&hops)]), (1, 1), rate);
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
        let routes = [route(&[(0, 1, 1), (1, 1, 1)]), route(&[(1, 1, 3)])];
        let r = Resources::new(&routes.into_iter().collect(), (2, 1), rate);
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
    fn links_need_not_be_neighbours_to_be_one() {
        // One route over links 0 and 4; others over those between.
        let routes = [
            route(&[(0, 1, 2), (4, 1, 2)]),
            route(&[(1, 1, 1)]),
            route(&[(2, 1, 1)]),
            route(&[(3, 1, 2)]),
        ];
        let rate = |_| Bandwidth::from_gb_per_sec(10);
        let r = Resources::new(&routes.into_iter().collect(), (1, 1), rate);
        let links: Vec<Vec<u32>> = r
            .all
            .iter()
            .map(|r| r.links.iter().map(|l| l.0).collect())
            .collect();
        assert_eq!(links, [vec![0, 4], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn sums_add_up() {
        let rate = |_| Bandwidth::from_gb_per_sec(10);
        let routes = [route(&[(0, 1, 1)]), route(&[(0, 1, 2), (1, 1, 1)])];
        let mut r = Resources::new(&routes.into_iter().collect(), (1, 1), rate);
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
