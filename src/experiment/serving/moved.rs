//! Hand-overs as they were, and what limits them.

use super::handover::narrowest;
use super::laid::Ran;
use super::times::millis;
use super::valid::ValidServing;
use fabricsim_report::serving::{HandoverUse, Percentiles};
use fabricsim_topology::{LinkFamily, LinkId};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// Hand-overs: how long they took, and what limits them.
pub(super) fn handover(valid: &ValidServing, ran: &Ran) -> Option<HandoverUse> {
    let moved = ran.served.records.iter().filter_map(|record| {
        let from = match record.reserved? > record.prefilled? {
            true => record.reserved?,
            false => record.prefilled?,
        };
        let wait = record.reserved?.saturating_sub(record.prefilled?);
        Some((record.handed_over?.saturating_sub(from), wait))
    });
    let moved: Vec<(Time, Time)> = moved.collect();
    let time_ms = Percentiles::of(moved.iter().map(|(time, _)| millis(*time)).collect())?;
    let wait_ms = Percentiles::of(moved.iter().map(|(_, wait)| millis(*wait)).collect())?;
    let routes = &ran.outcome.transfers[..ran.handover_routes];
    let bytes: u64 = routes.iter().map(|route| route.bytes.get()).sum();
    let count = moved.len() as u32;
    let sum = |of: fn(&fabricsim_engine::job::Traffic) -> f64| routes.iter().map(of).sum::<f64>();
    let (time, alone) = (sum(|r| r.time.seconds()), sum(|r| r.alone.seconds()));
    let slower = if alone > 0.0 { time / alone } else { 1.0 };
    let (binding, link) = binding(valid, ran, (slower, &wait_ms, &time_ms));
    let each = bytes as f64 / f64::from(count.max(1));
    Some(HandoverUse {
        count,
        bytes,
        alone_ms: time_ms.mean / slower.max(1.0),
        rate_gbs: if time_ms.mean > 0.0 {
            each / time_ms.mean / 1e6
        } else {
            0.0
        },
        time_ms,
        wait_ms,
        binding,
        link,
    })
}

/// What limits hand-overs: waiting for blocks, posting descriptors, or the link that they use longest.
fn binding(
    valid: &ValidServing,
    ran: &Ran,
    (slower, wait, time): (f64, &Percentiles, &Percentiles),
) -> (String, Option<String>) {
    let topology = &valid.topology;
    let mut busy: BTreeMap<LinkId, f64> = BTreeMap::new();
    let mut wire = 0.0;
    let mut own = 0.0;
    let routes = &ran.job.transfer_routes[..ran.handover_routes];
    for (route, moved) in routes.iter().zip(&ran.outcome.transfers) {
        let bytes = moved.bytes.get() as f64;
        for hop in &route.route.hops {
            let rate = topology.rate(hop.link).bytes_per_sec() as f64;
            *busy.entry(hop.link).or_default() += bytes * hop.share.as_f64() / rate;
        }
        wire += narrowest(topology, &route.route).map_or(0.0, |rate| bytes / rate);
        own += moved.alone.seconds();
    }
    let busiest = busy
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map(|(link, _)| *link);
    let name = busiest.map(|link| topology.link_name(link));
    if wait.mean > time.mean {
        return ("receiver pool".to_owned(), None);
    }
    // More of a transfer goes into posting and starting than into its bytes.
    if slower < 1.2 && own > 2.0 * wire {
        return ("posting".to_owned(), name);
    }
    let kind = match busiest.map(|link| topology.family(link)) {
        Some(LinkFamily::Nvlink) => "nvlink",
        Some(LinkFamily::Pcie) => "pcie",
        Some(LinkFamily::C2c) => "c2c",
        Some(LinkFamily::Socket) => "socket link",
        Some(LinkFamily::Network) => "network",
        None => "nothing",
    };
    (kind.to_owned(), name)
}
