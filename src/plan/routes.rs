//! The routes of a plan, all in one table.

use super::RouteId;
use fabricsim_topology::{Hop, Route, Share};

/// Routes one after the other: a large machine has hundreds of thousands of a few links each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    hops: Vec<Hop>,
    /// Where the hops of each route end, and how much of its links' rate a byte takes up.
    ends: Vec<(usize, Share)>,
    /// One more than the largest number of a link.
    links: usize,
}

/// A route of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Laid<'r> {
    /// Each link once.
    pub hops: &'r [Hop],
    /// How much of its links' rate a byte takes up.
    pub load: Share,
}

impl Routes {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A route.
    ///
    /// # Panics
    /// If the id is of another plan.
    #[must_use]
    pub fn get(&self, id: RouteId) -> Laid<'_> {
        let index = id.0 as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, load) = self.ends[index];
        Laid {
            hops: &self.hops[start..end],
            load,
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Laid<'_>> + Clone {
        (0..self.ends.len() as u32).map(|id| self.get(RouteId(id)))
    }

    /// How many hops all routes have together.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.hops.len()
    }

    /// One more than the largest number of a link that a route crosses; 0 if none does.
    #[must_use]
    pub fn links(&self) -> usize {
        self.links
    }

    /// Adds a route.
    pub fn push(&mut self, hops: impl IntoIterator<Item = Hop>, load: Share) -> RouteId {
        let start = self.hops.len();
        self.hops.extend(hops);
        self.end(start, load)
    }

    /// Adds a route over one after the other; a link that several of them cross counts as often.
    pub fn push_joined(
        &mut self,
        parts: impl IntoIterator<Item = impl IntoIterator<Item = Hop>>,
        load: Share,
    ) -> RouteId {
        let start = self.hops.len();
        for part in parts {
            // A route has each link once, so that only those before it can have it, too.
            let before = self.hops.len();
            for hop in part {
                let known = &mut self.hops[start..before];
                match known.iter_mut().find(|h| h.link == hop.link) {
                    Some(known) => {
                        // Denominators are products of few small numbers: of rails, leaves, spines.
                        let both = known.share.plus(hop.share);
                        known.share = both.unwrap_or(known.share);
                    }
                    None => self.hops.push(hop),
                }
            }
        }
        self.end(start, load)
    }

    /// Adds all routes of another table, in their order.
    pub fn append(&mut self, other: &Routes) {
        let before = self.hops.len();
        self.hops.extend_from_slice(&other.hops);
        let ends = other.ends.iter();
        self.ends
            .extend(ends.map(|&(end, load)| (before + end, load)));
        self.links = self.links.max(other.links);
    }

    /// What was added since `start` is a route.
    fn end(&mut self, start: usize, load: Share) -> RouteId {
        let links = self.hops[start..].iter().map(|hop| hop.link.index() + 1);
        self.links = links.fold(self.links, usize::max);
        self.ends.push((self.hops.len(), load));
        RouteId(self.ends.len() as u32 - 1)
    }
}

impl FromIterator<Route> for Routes {
    fn from_iter<I: IntoIterator<Item = Route>>(routes: I) -> Self {
        let mut all = Routes::default();
        for route in routes {
            all.push(route.hops, route.load);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::LinkId;

    fn hop(link: u32, num: u32, den: u32) -> Hop {
        Hop {
            link: LinkId(link),
            share: Share { num, den },
        }
    }

    #[test]
    fn a_link_that_two_parts_cross_counts_twice() {
        let mut routes = Routes::default();
        routes.push([hop(7, 1, 1)], Share::WHOLE);
        let parts = [
            vec![hop(1, 1, 1), hop(2, 1, 2)],
            vec![hop(3, 1, 1)],
            vec![hop(2, 1, 3), hop(7, 1, 1)],
        ];
        let joined = routes.push_joined(parts.map(Vec::into_iter), Share { num: 3, den: 2 });
        let all = [hop(1, 1, 1), hop(2, 5, 6), hop(3, 1, 1), hop(7, 1, 1)];
        assert_eq!(routes.get(joined).hops, all);
        assert_eq!(routes.get(joined).load, Share { num: 3, den: 2 });
        assert_eq!(routes.get(RouteId(0)).hops, [hop(7, 1, 1)]);
        assert_eq!((routes.hops(), routes.links()), (5, 8));
    }

    #[test]
    fn tables_follow_each_other() {
        let one: Routes = [&[1, 2][..], &[3]]
            .into_iter()
            .map(|links| Route {
                hops: links.iter().map(|&l| hop(l, 1, 1)).collect(),
                ..Route::default()
            })
            .collect();
        let mut two = one.clone();
        two.append(&one);
        assert_eq!((two.len(), two.links()), (4, 4));
        assert_eq!(Routes::default().links(), 0);
        let links: Vec<Vec<u32>> = two
            .iter()
            .map(|r| r.hops.iter().map(|h| h.link.0).collect())
            .collect();
        assert_eq!(links, [vec![1, 2], vec![3], vec![1, 2], vec![3]]);
    }
}
