//! What a time was spent on: from the critical path of what was simulated or, where that was too
//! much to remember, from the time of all workers and proxies.

use super::names::Names;
use fabricsim_engine::path::{Kind, Times, scaled};
use fabricsim_engine::resources::ResourceId;
use fabricsim_engine::{Bins, Outcome};
use fabricsim_report::cause::{Cause, Causes, Method};
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// Times of many workers together, in picoseconds.
type Sums = BTreeMap<Kind, u128>;

/// The causes of `time`, one of the operations of `outcome`, whose critical path is `path`; if that
/// is of several of them, its parts are taken to be those of one. `faulty` says of which links a
/// fault takes something away.
#[must_use]
pub fn causes(
    topology: &Topology,
    (outcome, path): (&Outcome, Option<&Times>),
    time: Time,
    faulty: &dyn Fn(LinkId) -> bool,
) -> Causes {
    let (method, sums) = match path {
        Some(path) => {
            let sums = path.iter().map(|(&k, t)| (k, u128::from(t.picos())));
            (Method::CriticalPath, sums.collect())
        }
        None => (Method::WorkerTime, of_workers(outcome)),
    };
    let mut judged: BTreeMap<ResourceId, u128> = BTreeMap::new();
    for (&kind, &picos) in &sums {
        if let Kind::Limited(resource) = kind {
            judged.insert(resource, picos);
        }
    }
    let names = Names::new(topology, outcome, &judged, faulty);
    let parts = scaled(&sums, time);
    if parts.is_empty() {
        return Causes::new(method, [(Cause::Waiting, time)]);
    }
    let parts = parts
        .into_iter()
        .map(|(kind, time)| (cause(kind, &names), time));
    Causes::new(method, parts)
}

pub(super) fn cause(kind: Kind, names: &Names) -> Cause {
    match kind {
        Kind::Launch => Cause::Launch,
        Kind::Latency => Cause::Latency,
        Kind::Sync => Cause::Protocol,
        Kind::Message => Cause::MessageHandling,
        Kind::CopyRate => Cause::CopyRate,
        Kind::ConnectionRate => Cause::ConnectionRate,
        Kind::Limited(resource) => Cause::Links {
            links: names.of(resource),
        },
    }
}

/// What workers do, and what they wait for: what the network's proxies do or, without network, what
/// the other workers do.
fn of_workers(outcome: &Outcome) -> Sums {
    let mut own = Sums::new();
    let mut waits = 0u128;
    for (bins, count) in outcome.bins() {
        add(&mut own, (bins, count), Kind::CopyRate);
        let waited = bins.wait_data + bins.wait_credit;
        waits += u128::from(waited.picos()) * u128::from(count);
    }
    let mut network = Sums::new();
    for proxy in outcome.proxy_bins() {
        add(&mut network, proxy, Kind::ConnectionRate);
    }
    let met = if network.is_empty() {
        own.clone()
    } else {
        network
    };
    let sum: u128 = met.values().sum();
    for (kind, picos) in met {
        // Of shares below 2^-32 nobody hears.
        let share = (picos << 32) / sum.max(1);
        *own.entry(kind).or_default() += ((waits >> 16) * share) >> 16;
    }
    own
}

fn add(sums: &mut Sums, (bins, count): (&Bins, u32), own: Kind) {
    let limited = bins.limited.iter().map(|&(r, t)| (Kind::Limited(r), t));
    let times = [
        (Kind::Launch, bins.launch),
        (Kind::Latency, bins.latency),
        (Kind::Sync, bins.sync),
        (Kind::Message, bins.message),
        (own, bins.at_cap),
    ];
    for (kind, time) in times.into_iter().chain(limited) {
        if time > Time::ZERO {
            let picos = u128::from(time.picos()) * u128::from(count);
            *sums.entry(kind).or_default() += picos;
        }
    }
}
