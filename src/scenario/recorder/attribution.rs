//! Where the time went: of all workers, of each rank, of the critical path.

use super::critical_path::{Kind, Times};
use super::words::{self, Words};
use crate::collective::WorkerId;
use crate::engine::resources::ResourceId;
use crate::engine::{Bins, Outcome};
use crate::plan::Plan;
use crate::report::record::{Attribution, Part};
use crate::topology::{LinkId, Topology};
use crate::units::{Bandwidth, Bytes, Time};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Ranks that get an account of their own: more would fill a summary that nobody reads.
const MOST_RANKS: usize = 1_024;

/// A resource that has this part of its class's time is named.
const STANDS_FOR_CLASS: f64 = 0.6;
/// … if it holds up others this much more than the mean of its class does: where all are
/// alike, the path runs over one of them by chance.
const STANDS_OUT: f64 = 1.5;

/// What is to be told.
pub(super) struct Account<'a> {
    pub(super) topology: &'a Topology,
    pub(super) plan: &'a Plan,
    pub(super) outcome: &'a Outcome,
    /// How long each resource held up actors, in picoseconds.
    pub(super) held_up: &'a [u64],
}

/// A kind of part, with resources by what they are called.
type Label = (Kind, String);
/// Kinds of parts with their times. Resources that are called alike have one.
type Labelled = BTreeMap<Key, (Kind, Time)>;
/// A part's place in the order of kinds, and a resource's name.
type Key = (u8, String);

/// Where resources sort: after every other activity, before idleness.
const RESOURCES: u8 = 8;

/// The order in which kinds are listed.
fn order(kind: Kind) -> u8 {
    match kind {
        Kind::Launch => 0,
        Kind::Latency => 1,
        Kind::WaitData => 2,
        Kind::WaitCredit => 3,
        Kind::Sync => 4,
        Kind::Message => 5,
        Kind::Worker => 6,
        Kind::Connection => 7,
        Kind::Limited(_) => RESOURCES,
        Kind::Idle => 9,
    }
}

fn times_of(bins: &Bins) -> impl Iterator<Item = (Kind, Time)> {
    let limited = bins.limited.iter().map(|&(r, t)| (Kind::Limited(r), t));
    [
        (Kind::Launch, bins.launch),
        (Kind::Latency, bins.latency),
        (Kind::WaitData, bins.wait_data),
        (Kind::WaitCredit, bins.wait_credit),
        (Kind::Sync, bins.sync),
        (Kind::Worker, bins.at_cap),
        (Kind::Idle, bins.idle),
    ]
    .into_iter()
    .chain(limited)
    .filter(|(_, time)| *time > Time::ZERO)
}

fn fraction(time: Time, whole: Time) -> f64 {
    if whole == Time::ZERO {
        0.0
    } else {
        time.picos() as f64 / whole.picos() as f64
    }
}

/// Words for the resources that occur in times.
struct Names {
    of: FxHashMap<ResourceId, String>,
}

impl Names {
    fn label(&self, kind: Kind) -> Label {
        let name = match kind {
            Kind::Limited(resource) => self.of.get(&resource).cloned().unwrap_or_default(),
            _ => String::new(),
        };
        (kind, name)
    }

    fn labelled(&self, times: impl Iterator<Item = (Kind, Time)>) -> Labelled {
        let mut labelled = Labelled::new();
        for (kind, time) in times {
            let (kind, name) = self.label(kind);
            labelled
                .entry((order(kind), name))
                .or_insert((kind, Time::ZERO))
                .1 += time;
        }
        labelled
    }
}

impl Account<'_> {
    /// The attribution, and what limits the run in one sentence.
    pub(super) fn tell(&self, path: Option<&Times>) -> (Attribution, String) {
        let mut total = Times::new();
        for bins in &self.outcome.workers {
            for (kind, time) in times_of(bins) {
                *total.entry(kind).or_default() += time;
            }
        }
        let names = self.names(path.unwrap_or(&total), &total);
        let all = names.labelled(total.into_iter());
        let path = path.map(|times| names.labelled(times.iter().map(|(&k, &t)| (k, t))));
        let sentence = match &path {
            Some(path) => sentence(path, "the critical path"),
            None => sentence(&all, "the workers' time"),
        };
        let ranks = self.ranks(&names, &all);
        let attribution = Attribution {
            total: parts(&all),
            critical_path: path.as_ref().map(parts).unwrap_or_default(),
            ranks,
        };
        (attribution, sentence)
    }

    /// How each resource that occurs is to be called: by its class, unless it stands out.
    fn names(&self, judged: &Times, total: &Times) -> Names {
        let mut words: BTreeMap<ResourceId, Words> = BTreeMap::new();
        let occurs = judged.keys().chain(total.keys());
        let held_up = self.held_up.iter().enumerate().filter(|(_, t)| **t > 0);
        let resources = occurs.filter_map(|kind| match kind {
            Kind::Limited(resource) => Some(*resource),
            _ => None,
        });
        for resource in resources.chain(held_up.map(|(r, _)| r as ResourceId)) {
            words.entry(resource).or_insert_with(|| {
                let all = &self.outcome.resources.all;
                let links = all.get(resource as usize).map_or(&[][..], |r| &r.links);
                words::describe(self.topology, links)
            });
        }
        let mut classes: BTreeMap<String, Vec<ResourceId>> = BTreeMap::new();
        for (&resource, words) in &words {
            classes.entry(words.class()).or_default().push(resource);
        }
        let mut of = FxHashMap::default();
        for (class, members) in &classes {
            let alone = self.stands_out(members, judged);
            for &member in members {
                let name = match alone {
                    Some(one) if one == member => words[&member].name.clone(),
                    Some(_) => words[&member].others(),
                    None => class.clone(),
                };
                of.insert(member, name);
            }
        }
        Names { of }
    }

    /// The member of a class that is to be named, if one is.
    fn stands_out(&self, members: &[ResourceId], judged: &Times) -> Option<ResourceId> {
        if let [only] = members {
            return Some(*only);
        }
        let judged = |r: ResourceId| judged.get(&Kind::Limited(r)).map_or(0, |t| t.picos());
        let all: u64 = members.iter().map(|&r| judged(r)).sum();
        let most = members
            .iter()
            .copied()
            .min_by_key(|&r| (Reverse(judged(r)), r))?;
        let held_up = |r: ResourceId| self.held_up.get(r as usize).copied().unwrap_or(0) as f64;
        let mean = members.iter().map(|&r| held_up(r)).sum::<f64>() / members.len() as f64;
        let stands_for_class = all > 0 && judged(most) as f64 >= STANDS_FOR_CLASS * all as f64;
        (stands_for_class && held_up(most) >= STANDS_OUT * mean).then_some(most)
    }

    /// The same parts as in `all`, of each rank.
    fn ranks(&self, names: &Names, all: &Labelled) -> Vec<Vec<Part>> {
        let program = self.plan.program.as_ref();
        let ranks = (program.ranks() as usize).min(MOST_RANKS);
        let mut times: Vec<Times> = vec![Times::new(); ranks];
        for (worker, bins) in (0..program.workers()).zip(&self.outcome.workers) {
            let rank = program.worker(WorkerId(worker)).rank.index();
            if let Some(own) = times.get_mut(rank) {
                for (kind, time) in times_of(bins) {
                    *own.entry(kind).or_default() += time;
                }
            }
        }
        let parts_of = |times: Times| {
            let mut own = names.labelled(times.into_iter());
            for (key, (kind, _)) in all {
                own.entry(key.clone()).or_insert((*kind, Time::ZERO));
            }
            let own = &own;
            ordered(all)
                .into_iter()
                .map(|(key, _)| part(key, own[key], sum(own)))
                .collect()
        };
        times.into_iter().map(parts_of).collect()
    }
}

fn sum(labelled: &Labelled) -> Time {
    labelled.values().map(|&(_, time)| time).sum()
}

/// In order of kind; resources by time.
fn ordered(labelled: &Labelled) -> Vec<(&Key, &(Kind, Time))> {
    let mut list: Vec<_> = labelled.iter().collect();
    list.sort_by_key(|&((order, _), &(_, time))| {
        let time = if *order == RESOURCES {
            time
        } else {
            Time::ZERO
        };
        (*order, Reverse(time))
    });
    list
}

fn part(key: &Key, (kind, time): (Kind, Time), whole: Time) -> Part {
    Part {
        what: words::part(kind, || key.1.clone()),
        time,
        fraction: fraction(time, whole),
    }
}

fn parts(labelled: &Labelled) -> Vec<Part> {
    let whole = sum(labelled);
    let ordered = ordered(labelled).into_iter();
    ordered
        .map(|(key, &value)| part(key, value, whole))
        .collect()
}

/// The largest parts in words; waiting after the end is none.
fn sentence(labelled: &Labelled, whole: &str) -> String {
    let mut list: Vec<_> = labelled
        .iter()
        .filter(|(_, (kind, time))| *kind != Kind::Idle && *time > Time::ZERO)
        .collect();
    list.sort_by_key(|&(_, &(_, time))| Reverse(time));
    let sum = sum(labelled);
    let shares: Vec<_> = list
        .into_iter()
        .map(|((_, name), &(kind, time))| {
            let (subject, verb) = words::clause(kind, name);
            (subject, verb, fraction(time, sum))
        })
        .collect();
    words::sentence(&shares, whole)
}

/// A link used this much of the time is what limits, whatever workers say.
const BUSY: f64 = 0.6;

/// A few words for a table row, from the outcome alone: the busiest links if they are
/// busy indeed, otherwise what took most of the workers' time, waiting aside.
#[must_use]
pub fn short_bottleneck(
    topology: &Topology,
    plan: &Plan,
    outcome: &Outcome,
    left: impl Fn(LinkId) -> Option<Bandwidth>,
) -> String {
    let mut busiest = None;
    let rate_of = topology.rates();
    // What carries no more, and no slower, than the busiest so far need not be worked out.
    let mut most = (Bytes::ZERO, Bandwidth::from_bytes_per_sec(u64::MAX));
    for (link, bytes) in outcome.carried(plan) {
        let rate = left(link).unwrap_or_else(|| rate_of(link));
        if busiest.is_some() && bytes <= most.0 && rate >= most.1 {
            continue;
        }
        let time = rate.time_for(bytes);
        if busiest.is_none_or(|(longest, _)| time > longest) {
            busiest = Some((time, link));
            most = (bytes, rate);
        }
    }
    let bare = |name: String| {
        let rest = name.strip_prefix("the ").map(str::to_owned);
        rest.unwrap_or(name)
    };
    let class = |links: &[_]| bare(words::describe(topology, links).class());
    if let Some((time, link)) = busiest {
        let used = fraction(time, outcome.end());
        if used >= BUSY {
            let used = used.min(1.0) * 100.0;
            if left(link).is_some() {
                let name = bare(words::describe(topology, &[link]).name);
                return format!("{name}, {used:.0} % used of what its fault leaves");
            }
            return format!("{}, {used:.0} % used", class(&[link]));
        }
    }
    let mut classes: FxHashMap<ResourceId, String> = FxHashMap::default();
    let mut times: BTreeMap<String, u128> = BTreeMap::new();
    let mut waits = 0;
    let all = outcome.bins().flat_map(|(bins, workers)| {
        times_of(bins)
            .map(move |(kind, time)| (kind, u128::from(time.picos()) * u128::from(workers)))
    });
    for (kind, time) in all {
        let name = match kind {
            Kind::Launch => "launch",
            Kind::Latency => "latency",
            Kind::Sync => "slice synchronisation",
            Kind::Worker => "workers' own rate",
            Kind::Limited(resource) => classes.entry(resource).or_insert_with(|| {
                let all = &outcome.resources.all;
                all.get(resource as usize)
                    .map_or_else(String::new, |r| class(&r.links))
            }),
            Kind::WaitData | Kind::WaitCredit => {
                waits += time;
                continue;
            }
            Kind::Idle | Kind::Message | Kind::Connection => continue,
        };
        match times.get_mut(name) {
            Some(sum) => *sum += time,
            None => {
                times.insert(name.to_owned(), time);
            }
        }
    }
    let active: u128 = times.values().sum();
    let network = plan.transports.kinds().iter().any(|t| t.network.is_some());
    if network && waits > active {
        return "waiting for the network".to_owned();
    }
    let most = times.into_iter().min_by_key(|(_, time)| Reverse(*time));
    most.map_or_else(|| "nothing to do".to_owned(), |(name, _)| name)
}
