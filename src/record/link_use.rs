//! How much each link carried, and when.
//!
//! While the simulation runs, bytes are kept by row: a route's or, where one queue stands for
//! several connections, a queue's. There are few of those beside links, and all links of a row's
//! routes carry their share of it. When it ends is not known then, so bins begin narrow, and
//! neighbours are merged whenever there are too many.

use super::{RateLeft, Stretch};
use fabricsim_engine::Outcome;
use fabricsim_engine::probe::Slice;
use fabricsim_plan::Plan;
use fabricsim_report::record::{LinkSeries, LinkUse};
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::{Bandwidth, Bytes, Time};
use std::collections::BTreeMap;

/// Width of bins at first.
const FIRST_WIDTH: u64 = 1_000;

/// Bytes of each row by bin of time.
#[derive(Debug)]
pub(super) struct RowUse {
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

impl RowUse {
    pub(super) fn new(rows: usize, bins: usize) -> Self {
        RowUse {
            width: FIRST_WIDTH,
            bins: bins.max(1),
            rows: vec![Vec::new(); rows],
        }
    }

    /// A slice crossed a row's routes: all of its bytes that moved, spread over time as they streamed.
    pub(super) fn add_slice(&mut self, row: u32, slice: &Slice, stretches: &[Stretch]) {
        let moved = |s: &Stretch| s.rate as f64 * (s.end - s.start).picos() as f64;
        let all: f64 = stretches.iter().map(moved).sum();
        if all > 0.0 {
            let scale = slice.moved as f64 / all;
            for s in stretches {
                self.add(row, s.start, s.end, moved(s) * scale);
            }
        } else {
            self.add(row, slice.start, slice.end, slice.moved as f64);
        }
    }

    fn add(&mut self, row: u32, start: Time, end: Time, bytes: f64) {
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
        let cells = &mut self.rows[row as usize];
        if cells.len() <= last {
            cells.resize(last + 1, 0.0);
        }
        let per_picosecond = bytes / (end - start) as f64;
        for (bin, cell) in cells.iter_mut().enumerate().take(last + 1).skip(first) {
            let from = start.max(bin as u64 * self.width);
            let to = end.min((bin as u64 + 1) * self.width);
            *cell += per_picosecond * (to - from) as f64;
        }
    }

    /// Bins wide enough for so many of them up to `end`; how many there are.
    pub(super) fn merge(&mut self, end: Time, most: usize) -> usize {
        while end.picos().div_ceil(self.width) > most.max(1) as u64 {
            self.width *= 2;
            self.rows.iter_mut().for_each(merge_pairs);
        }
        end.picos().div_ceil(self.width).max(1) as usize
    }

    pub(super) fn width(&self) -> Time {
        Time::from_picos(self.width)
    }

    /// The bytes of a row, by bin.
    pub(super) fn row(&self, row: u32) -> &[f64] {
        &self.rows[row as usize]
    }

    /// Routes' bytes as those of their links. Every row reaches up to `end`; there are no more than
    /// so many cells.
    pub(super) fn into_links(mut self, plan: &Plan, end: Time, cells: usize) -> Links {
        let used: BTreeMap<LinkId, ()> = plan
            .routes
            .iter()
            .zip(&self.rows)
            .filter(|(_, row)| !row.is_empty())
            .flat_map(|(route, _)| route.hops.iter().map(|hop| (hop.link, ())))
            .collect();
        let most = self.bins.min((cells / used.len().max(1)).max(1));
        let count = self.merge(end, most);
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
            width: self.width(),
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
        let until = (self.width, end);
        let rows = self.rows.into_iter();
        rows.map(|(link, bytes)| one(topology, (link, bytes), until, left))
            .collect()
    }
}

/// A link's use, in bins of this width up to the end.
pub(super) fn one(
    topology: &Topology,
    (link, bytes): (LinkId, Vec<f64>),
    (width, end): (Time, Time),
    left: RateLeft<'_>,
) -> LinkSeries {
    let width = width.picos();
    let span = |bin: usize| {
        let start = bin as u64 * width;
        let until = (start + width).min(end.picos().max(start + 1));
        Time::from_picos(start)..Time::from_picos(until)
    };
    LinkSeries {
        name: topology.link_name(link),
        from: topology.device_name(topology.ends(link).0),
        family: topology.family(link).label().to_owned(),
        rate: topology.rate(link),
        left: (0..bytes.len())
            .map_while(|bin| left(link, span(bin)))
            .collect(),
        bytes,
        alike: 1,
    }
}

/// What a link carried from start to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) link: LinkId,
    pub(super) bytes: Bytes,
    /// What faults leave of its rate.
    pub(super) rate: Bandwidth,
    pub(super) faulty: bool,
    pub(super) utilisation: f64,
    /// Of how many links it is told.
    pub(super) alike: u32,
}

impl Load {
    /// With a name.
    pub(super) fn named(self, topology: &Topology) -> LinkUse {
        LinkUse {
            name: topology.link_name(self.link),
            family: topology.family(self.link).label().to_owned(),
            bytes: self.bytes,
            rate: self.rate,
            faulty: self.faulty,
            utilisation: self.utilisation,
            alike: self.alike,
        }
    }
}

/// What each link carried that carried anything, in order of link.
pub(super) fn loads(
    topology: &Topology,
    plan: &Plan,
    outcome: &Outcome,
    left: RateLeft<'_>,
) -> Vec<Load> {
    let end = outcome.end();
    let seconds = end.seconds();
    let load = |(link, bytes): (LinkId, Bytes)| {
        let left = left(link, Time::ZERO..end);
        let rate = left.unwrap_or_else(|| topology.rate(link));
        let most = rate.bytes_per_sec() as f64 * seconds;
        Load {
            link,
            bytes,
            rate,
            faulty: left.is_some(),
            utilisation: if most > 0.0 {
                bytes.get() as f64 / most
            } else {
                0.0
            },
            alike: 1,
        }
    };
    outcome.carried(plan).map(load).collect()
}
