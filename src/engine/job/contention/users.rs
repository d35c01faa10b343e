//! Which exchanges and transfers use which links, and how much of them.

use super::Scale;
use crate::job::rehearse::{Load, Rehearsed};
use fabricsim_plan::job::TransferRoute;
use fabricsim_topology::LinkId;
use fabricsim_units::{Bandwidth, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// An exchange on a link, or transfers of a route: how much of the link it uses when nothing holds
/// it up, and by how many transfers.
#[derive(Clone, Copy)]
pub(super) struct User {
    /// The exchange; behind those the route.
    pub(super) number: u32,
    pub(super) part: u32,
    streams: f64,
    /// From parts of the link to parts of [`Users::reference`]; one where links are compared by
    /// their parts.
    rate: f64,
}

/// No exchange gets less than so much of what another one gets for the same use.
const LEAST_PULL: f64 = 1.0 / 1024.0;

/// The parts of what an exchange takes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job) struct Phases {
    pub(in crate::job) before: Time,
    /// It asks for links.
    pub(in crate::job) moving: Time,
    pub(in crate::job) after: Time,
}

impl Phases {
    /// Of an exchange whose bytes take so many seconds on the link that has most to do.
    fn new(alone: &Rehearsed, busiest: f64) -> Self {
        let without_launch = alone.time.saturating_sub(alone.launch);
        let moving = Time::from_picos((busiest * 1e12).round() as u64).min(without_launch);
        let rest = without_launch - moving;
        let after = Time::from_picos(rest.picos() / 2);
        Phases {
            before: alone.time - moving - after,
            moving,
            after,
        }
    }
}

/// Who uses each link.
pub(super) struct Users {
    pub(super) of_link: BTreeMap<LinkId, Vec<User>>,
    /// By exchange.
    pub(super) phases: Vec<Phases>,
    /// By route: bytes per second of its narrowest link.
    pub(super) narrowest: Vec<f64>,
    /// By exchange and, behind those, route: bytes per second of the narrowest link of all routes;
    /// infinite if there are none. If jobs are apart, of all routes that it has to do with.
    pub(super) reference: Vec<f64>,
    /// By exchange and route: what stands for all that meet each other, directly or by others; the same
    /// for all if jobs are not apart.
    meets: Vec<u32>,
}

impl Users {
    pub(super) fn new(
        rehearsed: &[Rehearsed],
        routes: &[TransferRoute],
        rate: &impl Fn(LinkId) -> Bandwidth,
        (scale, apart): (Scale, bool),
    ) -> Self {
        let rate = |link| rate(link).bytes_per_sec() as f64;
        let narrowest: Vec<f64> = routes.iter().map(|r| narrowest(r, &rate)).collect();
        let count = rehearsed.len() + routes.len();
        let meets = match apart {
            true => meeting(rehearsed, routes),
            false => vec![0; count],
        };
        let mut least = vec![f64::INFINITY; count.max(1)];
        for (index, rate) in narrowest.iter().enumerate() {
            let own = &mut least[meets[rehearsed.len() + index] as usize];
            *own = own.min(*rate);
        }
        let reference = meets.iter().map(|&of| least[of as usize]).collect();
        let mut users = Users {
            of_link: BTreeMap::new(),
            phases: Vec::with_capacity(rehearsed.len()),
            narrowest,
            reference,
            meets,
        };
        let by_rate = |reference: f64, link| match reference.is_finite() {
            true => reference / rate(link),
            false => 1.0,
        };
        // Whoever makes a link lose takes from all who use it.
        let mut kept: FxHashMap<LinkId, f64> = FxHashMap::default();
        let loads = rehearsed.iter().flat_map(|alone| &alone.loads);
        for load in loads.filter(|load| load.kept < 1.0) {
            let least = kept.entry(load.link).or_insert(1.0);
            *least = least.min(load.kept);
        }
        // In seconds, on a link that does nothing else.
        let on_link = |load: &Load| {
            let kept = kept.get(&load.link).copied().unwrap_or(1.0);
            load.bytes / (rate(load.link) * kept)
        };
        for (index, alone) in rehearsed.iter().enumerate() {
            let moves =
                |load: &Load| on_link(load).max(load.bytes / load.pace.bytes_per_sec() as f64);
            let busiest = alone.loads.iter().map(moves).fold(0.0, f64::max);
            users.phases.push(Phases::new(alone, busiest));
            for load in &alone.loads {
                let part = on_link(load) / busiest * scale.full as f64;
                let of_rate = by_rate(users.reference[index], load.link);
                users.add(load.link, index, (part, load.streams), of_rate);
            }
        }
        for (index, route) in routes.iter().enumerate() {
            for (link, share) in hops(route) {
                let number = rehearsed.len() + index;
                let reference = users.reference[number];
                let part = share * reference / rate(link) * scale.full as f64;
                users.add(link, number, (part, share), by_rate(reference, link));
            }
        }
        users
    }

    fn add(&mut self, link: LinkId, number: usize, (part, streams): (f64, f64), rate: f64) {
        if part >= 1.0 {
            self.of_link.entry(link).or_default().push(User {
                number: number as u32,
                part: part as u32,
                streams,
                rate,
            });
        }
    }

    /// The ratio of transfers to use of each of so many where it uses a link most, as part of the
    /// largest.
    pub(super) fn pulls(&self, count: usize) -> Vec<f64> {
        let mut busiest = vec![(0, 1.0); count];
        for user in self.of_link.values().flatten() {
            let most = &mut busiest[user.number as usize];
            if user.part > most.0 {
                *most = (user.part, user.streams / f64::from(user.part) * user.rate);
            }
        }
        let mut largest = vec![0.0_f64; count.max(1)];
        for (&(part, pull), &of) in busiest.iter().zip(&self.meets) {
            if part > 0 {
                let largest = &mut largest[of as usize];
                *largest = largest.max(pull);
            }
        }
        let part = |((part, pull), &of): ((u32, f64), &u32)| match part {
            0 => 1.0,
            _ => pull / largest[of as usize],
        };
        // A share of a thousandth is none: weights stay whole numbers of some size.
        let pulls = busiest.into_iter().zip(&self.meets).map(part);
        pulls.map(|pull: f64| pull.max(LEAST_PULL)).collect()
    }
}

/// Of each exchange and route the first one that it meets, on any link or by others: a number each.
fn meeting(rehearsed: &[Rehearsed], routes: &[TransferRoute]) -> Vec<u32> {
    fn first(meets: &mut [u32], mut number: u32) -> u32 {
        while meets[number as usize] != number {
            let next = meets[number as usize];
            meets[number as usize] = meets[next as usize];
            number = next;
        }
        number
    }
    let count = (rehearsed.len() + routes.len()) as u32;
    let mut meets: Vec<u32> = (0..count).collect();
    let mut of_link: FxHashMap<LinkId, u32> = FxHashMap::default();
    let of_exchanges = (0..).zip(rehearsed).flat_map(|(number, alone)| {
        let links = alone.loads.iter().map(|load| load.link);
        links.map(move |link| (number, link))
    });
    let of_routes = (rehearsed.len() as u32..)
        .zip(routes)
        .flat_map(|(number, route)| {
            let links = route.route.hops.iter().map(|hop| hop.link);
            links.map(move |link| (number, link))
        });
    for (number, link) in of_exchanges.chain(of_routes) {
        let other = *of_link.entry(link).or_insert(number);
        let (a, b) = (first(&mut meets, number), first(&mut meets, other));
        meets[a.max(b) as usize] = a.min(b);
    }
    (0..count).map(|number| first(&mut meets, number)).collect()
}

/// The links of a route, with how much of their rate each byte takes up.
fn hops(route: &TransferRoute) -> impl Iterator<Item = (LinkId, f64)> {
    let load = f64::from(route.route.load.num) / f64::from(route.route.load.den);
    let hops = route.route.hops.iter();
    hops.map(move |hop| {
        let share = f64::from(hop.share.num) / f64::from(hop.share.den);
        (hop.link, share * load)
    })
}

fn narrowest(route: &TransferRoute, rate: &impl Fn(LinkId) -> f64) -> f64 {
    let rates = hops(route).map(|(link, share)| rate(link) / share);
    rates.fold(f64::INFINITY, f64::min)
}
