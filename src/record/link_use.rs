//! How much each link carried, and when.
//!
//! While the simulation runs, bytes are kept by route: there are few of those beside
//! links, and all links of a route carry their share of it. When it ends is not known
//! then, so bins begin narrow, and neighbours are merged whenever there are too many.

use super::{RateLeft, Stretch};
use fabricsim_engine::Outcome;
use fabricsim_engine::probe::Slice;
use fabricsim_plan::Plan;
use fabricsim_report::record::{LinkSeries, LinkUse};
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// Width of bins at first.
const FIRST_WIDTH: u64 = 1_000;

/// Links times bins that a timeline may hold: beyond it, bins are merged further, so
/// that `links.csv` of a large machine stays readable.
const MOST_CELLS: usize = 1_000_000;

/// Payload of each route by bin of time.
#[derive(Debug)]
pub(super) struct RouteUse {
    width: u64,
    bins: usize,
    rows: Vec<Vec<f64>>,
}

/// Bytes of links by bin of time.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) width: Time,
    rows: BTreeMap<LinkId, Vec<f64>>,
}

fn merge_pairs(row: &mut Vec<f64>) {
    let half = row.len().div_ceil(2);
    for bin in 0..half {
        row[bin] = row[2 * bin] + row.get(2 * bin + 1).copied().unwrap_or(0.0);
    }
    row.truncate(half);
}

impl RouteUse {
    pub(super) fn new(routes: usize, bins: usize) -> Self {
        RouteUse {
            width: FIRST_WIDTH,
            bins: bins.max(1),
            rows: vec![Vec::new(); routes],
        }
    }

    /// A slice crossed a route: all of its bytes, spread over time as they streamed.
    pub(super) fn add_slice(&mut self, route: u32, slice: &Slice, stretches: &[Stretch]) {
        let moved = |s: &Stretch| s.rate as f64 * (s.end - s.start).picos() as f64;
        let all: f64 = stretches.iter().map(moved).sum();
        if all > 0.0 {
            let scale = slice.bytes as f64 / all;
            for s in stretches {
                self.add(route, s.start, s.end, moved(s) * scale);
            }
        } else {
            self.add(route, slice.start, slice.end, slice.bytes as f64);
        }
    }

    fn add(&mut self, route: u32, start: Time, end: Time, bytes: f64) {
        let start = start.picos();
        let end = end.picos().max(start + 1);
        while end.div_ceil(self.width) > self.bins as u64 {
            self.width *= 2;
            self.rows.iter_mut().for_each(merge_pairs);
        }
        let (first, last) = (
            (start / self.width) as usize,
            ((end - 1) / self.width) as usize,
        );
        let row = &mut self.rows[route as usize];
        if row.len() <= last {
            row.resize(last + 1, 0.0);
        }
        let per_picosecond = bytes / (end - start) as f64;
        for (bin, cell) in row.iter_mut().enumerate().take(last + 1).skip(first) {
            let from = start.max(bin as u64 * self.width);
            let to = end.min((bin as u64 + 1) * self.width);
            *cell += per_picosecond * (to - from) as f64;
        }
    }

    /// Routes' bytes as those of their links. Every row reaches up to `end`.
    pub(super) fn into_links(mut self, plan: &Plan, end: Time) -> Links {
        let used: BTreeMap<LinkId, ()> = plan
            .routes
            .iter()
            .zip(&self.rows)
            .filter(|(_, row)| !row.is_empty())
            .flat_map(|(route, _)| route.hops.iter().map(|hop| (hop.link, ())))
            .collect();
        let most = self.bins.min((MOST_CELLS / used.len().max(1)).max(1));
        while end.picos().div_ceil(self.width) > most as u64 {
            self.width *= 2;
            self.rows.iter_mut().for_each(merge_pairs);
        }
        let count = end.picos().div_ceil(self.width).max(1) as usize;
        let wire = f64::from(plan.protocol.wire.0) / f64::from(plan.protocol.wire.1);
        let mut rows: BTreeMap<LinkId, Vec<f64>> = used
            .into_keys()
            .map(|link| (link, vec![0.0; count]))
            .collect();
        for (route, bytes) in plan.routes.iter().zip(&self.rows) {
            if bytes.is_empty() {
                continue;
            }
            for hop in route.hops {
                let factor = hop.share.as_f64() * wire;
                if let Some(row) = rows.get_mut(&hop.link) {
                    for (cell, bytes) in row.iter_mut().zip(bytes) {
                        *cell += bytes * factor;
                    }
                }
            }
        }
        Links {
            width: Time::from_picos(self.width),
            rows,
        }
    }
}

impl Links {
    /// With names, in order of link. The last bin ends with the operation.
    pub(super) fn series(
        self,
        topology: &Topology,
        end: Time,
        left: RateLeft<'_>,
    ) -> Vec<LinkSeries> {
        let width = self.width.picos();
        let span = |bin: usize| {
            let start = bin as u64 * width;
            let until = (start + width).min(end.picos().max(start + 1));
            Time::from_picos(start)..Time::from_picos(until)
        };
        self.rows
            .into_iter()
            .map(|(link, bytes)| LinkSeries {
                name: topology.link_name(link),
                family: topology.family(link).label().to_owned(),
                rate: topology.rate(link),
                left: (0..bytes.len())
                    .map_while(|bin| left(link, span(bin)))
                    .collect(),
                bytes,
            })
            .collect()
    }
}

/// What each link carried from start to end; utilisation is of what faults leave of its rate.
pub(super) fn totals(
    topology: &Topology,
    plan: &Plan,
    outcome: &Outcome,
    left: RateLeft<'_>,
) -> Vec<LinkUse> {
    let end = outcome.end();
    let seconds = end.seconds();
    outcome
        .link_bytes(plan)
        .into_iter()
        .map(|(link, bytes)| {
            let left = left(link, Time::ZERO..end);
            let rate = left.unwrap_or_else(|| topology.rate(link));
            let most = rate.bytes_per_sec() as f64 * seconds;
            LinkUse {
                name: topology.link_name(link),
                family: topology.family(link).label().to_owned(),
                bytes,
                rate,
                faulty: left.is_some(),
                utilisation: if most > 0.0 {
                    bytes.get() as f64 / most
                } else {
                    0.0
                },
            }
        })
        .collect()
}
