//! Links of a large machine: one of those that are alike stands for all.

use super::cast::Cast;
use super::link_use::{Load, RowUse, one};
use super::{Limits, RateLeft};
use fabricsim_plan::Plan;
use fabricsim_report::record::LinkSeries;
use fabricsim_topology::{DeviceId, LinkFamily, LinkId, Topology};
use fabricsim_units::{Bandwidth, Bytes, Time};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Bins that a series has at least, where there are too many links: fewer of them have one of their own.
const FEWEST_BINS: usize = 50;

/// Links that cross the same rows as often carry as much at all times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    family: LinkFamily,
    rate: Bandwidth,
    /// A sum over all rows that does not depend on their order; twice 64 bits, so that two kinds are
    /// not taken for one.
    rows: [u64; 2],
    /// A link with a series of its own.
    alone: Option<LinkId>,
}

/// One of each kind of links.
#[derive(Debug)]
struct Class {
    first: LinkId,
    count: u32,
    /// It has one whatever it carried.
    alone: bool,
    bytes: f64,
}

/// Links of one family and rate without a series of their own.
#[derive(Debug, Default)]
struct Others {
    links: u32,
    /// How often all of them together carry what rows do.
    weights: BTreeMap<u32, f64>,
}

/// What is asked of links over time.
pub(super) struct Watched<'a> {
    pub(super) topology: &'a Topology,
    pub(super) plan: &'a Plan,
    pub(super) cast: &'a Cast,
    pub(super) limits: Limits,
    /// Up to when.
    pub(super) end: Time,
    pub(super) left: RateLeft<'a>,
    /// GPUs of which each link out has a series.
    pub(super) gpus: BTreeSet<DeviceId>,
}

/// A number that has nothing to do with those near it.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number ^ (number >> 32)
}

impl Watched<'_> {
    /// The width of bins, the series of the busiest of each kind of links in order of the links, then
    /// one for each family and rate of all others, with what these carried in the mean.
    pub(super) fn series(&self, mut rows: RowUse) -> (Time, Vec<LinkSeries>) {
        let (classes, class_of) = self.classes(&rows);
        let most = (self.limits.cells / FEWEST_BINS).max(1);
        let kept = self.kept(&classes, most);
        let mut others: BTreeMap<(&str, Bandwidth), Others> = BTreeMap::new();
        for class in classes.iter().filter(|c| !kept.contains_key(&c.first)) {
            others.entry(self.group(class.first)).or_default().links += class.count;
        }
        let count = rows.merge(
            self.end,
            self.limits
                .bins
                .min(self.limits.cells / (kept.len() + others.len()).max(1)),
        );
        let wire = self.wire();
        let mut series_bytes: Vec<Vec<f64>> = vec![vec![0.0; count]; kept.len()];
        self.cast.each_hop(self.plan, |row, link, share| {
            let Some(class) = class_of[link.index()].map(|c| &classes[c as usize]) else {
                return;
            };
            if class.first != link {
                return;
            }
            match kept.get(&link) {
                Some(&place) => {
                    for (cell, bytes) in series_bytes[place].iter_mut().zip(rows.row(row)) {
                        *cell += bytes * share * wire;
                    }
                }
                None => {
                    if let Some(of_group) = others.get_mut(&self.group(link)) {
                        *of_group.weights.entry(row).or_default() += share * f64::from(class.count);
                    }
                }
            }
        });
        let counts: FxHashMap<LinkId, u32> = classes.iter().map(|c| (c.first, c.count)).collect();
        let until = (rows.width(), self.end);
        let mut series: Vec<LinkSeries> = kept
            .into_keys()
            .zip(series_bytes)
            .map(|(link, bytes)| LinkSeries {
                alike: counts.get(&link).copied().unwrap_or(1),
                ..one(self.topology, (link, bytes), until, self.left)
            })
            .collect();
        let others = others.into_iter();
        series.extend(others.map(|(group, others)| self.mean(group, &others, (&rows, count))));
        (rows.width(), series)
    }

    /// What links without a series of their own carried in the mean.
    fn mean(
        &self,
        (family, rate): (&str, Bandwidth),
        others: &Others,
        (rows, count): (&RowUse, usize),
    ) -> LinkSeries {
        let links = others.links;
        let mut bytes = vec![0.0; count];
        for (&row, weight) in &others.weights {
            let each = weight * self.wire() / f64::from(links);
            for (cell, bytes) in bytes.iter_mut().zip(rows.row(row)) {
                *cell += bytes * each;
            }
        }
        LinkSeries {
            // They have no sender in common: a group by itself.
            from: format!("mean of {links} other links"),
            name: format!("mean of {links} other links"),
            family: family.to_owned(),
            rate,
            left: Vec::new(),
            bytes,
            alike: links,
        }
    }

    fn wire(&self) -> f64 {
        let (num, den) = self.plan.protocol.wire;
        f64::from(num) / f64::from(den)
    }

    fn group(&self, link: LinkId) -> (&'static str, Bandwidth) {
        let family = self.topology.family(link).label();
        (family, self.topology.rate(link))
    }

    /// Links by kind, in order of the first of each; and the kind of each link that carried anything.
    fn classes(&self, rows: &RowUse) -> (Vec<Class>, Vec<Option<u32>>) {
        let mut sums: Vec<Option<[u64; 2]>> = vec![None; self.plan.routes.links()];
        self.cast.each_hop(self.plan, |row, link, share| {
            if rows.row(row).is_empty() {
                return;
            }
            let own = mixed(mixed(u64::from(row) + 1) ^ share.to_bits());
            let sum = sums[link.index()].get_or_insert([0; 2]);
            sum[0] = sum[0].wrapping_add(own);
            sum[1] = sum[1].wrapping_add(mixed(own));
        });
        let mut known: FxHashMap<Kind, u32> = FxHashMap::default();
        let mut classes: Vec<Class> = Vec::new();
        let mut class_of = vec![None; sums.len()];
        for ((link, sum), of) in (0..).map(LinkId).zip(sums).zip(&mut class_of) {
            let Some(rows) = sum else { continue };
            let alone = self.gpus.contains(&self.topology.ends(link).0)
                || (self.left)(link, Time::ZERO..self.end).is_some();
            let kind = Kind {
                family: self.topology.family(link),
                rate: self.topology.rate(link),
                rows,
                alone: alone.then_some(link),
            };
            let class = *known.entry(kind).or_insert_with(|| {
                classes.push(Class {
                    first: link,
                    count: 0,
                    alone,
                    bytes: 0.0,
                });
                classes.len() as u32 - 1
            });
            classes[class as usize].count += 1;
            *of = Some(class);
        }
        self.cast.each_hop(self.plan, |row, link, share| {
            if let Some(class) = class_of[link.index()].map(|c: u32| &mut classes[c as usize])
                && class.first == link
            {
                class.bytes += share * rows.row(row).iter().sum::<f64>();
            }
        });
        (classes, class_of)
    }

    /// The links with a series, with their places among those: of the first so many classes by use.
    fn kept(&self, classes: &[Class], most: usize) -> BTreeMap<LinkId, usize> {
        let mut order: Vec<&Class> = classes.iter().collect();
        let busy = |class: &Class| class.bytes / self.topology.rate(class.first).gb_per_sec();
        order.sort_by(|a, b| {
            let alone = b.alone.cmp(&a.alone);
            let busier = busy(b).total_cmp(&busy(a));
            alone.then(busier).then(a.first.cmp(&b.first))
        });
        let kept: BTreeSet<LinkId> = order.iter().take(most).map(|class| class.first).collect();
        kept.into_iter().zip(0..).collect()
    }
}

/// Of links of the same family and rate that carried as much the first, with how many these are: the
/// busiest of them, and how many links were left out.
pub(super) fn alike(topology: &Topology, loads: Vec<Load>, most: usize) -> (Vec<Load>, u64) {
    let mut place: FxHashMap<(LinkFamily, Bandwidth, Bytes, bool), usize> = FxHashMap::default();
    let mut kinds: Vec<Load> = Vec::new();
    for load in loads {
        let same = (
            topology.family(load.link),
            load.rate,
            load.bytes,
            load.faulty,
        );
        let at = *place.entry(same).or_insert_with(|| {
            kinds.push(Load { alike: 0, ..load });
            kinds.len() - 1
        });
        kinds[at].alike += load.alike;
    }
    kinds.sort_by(|a, b| {
        let faulty = b.faulty.cmp(&a.faulty);
        faulty.then(b.utilisation.total_cmp(&a.utilisation))
    });
    let left_out = kinds.iter().skip(most).map(|load| u64::from(load.alike));
    let left_out = left_out.sum();
    kinds.truncate(most);
    kinds.sort_by_key(|load| load.link);
    (kinds, left_out)
}
