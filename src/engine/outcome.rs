//! What a simulation finds out.

use super::resources::{ResourceId, Resources};
use fabricsim_collective::WorkerId;
use fabricsim_plan::Plan;
use fabricsim_topology::{LinkId, Share};
use fabricsim_units::{Bytes, Time};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Where a worker's time went: every picosecond from the start to the end of the
/// simulation is in exactly one part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bins {
    /// Kernel start and end.
    pub launch: Time,
    /// Data or credit was on its way.
    pub latency: Time,
    /// The sender had not posted the data yet.
    pub wait_data: Time,
    /// The receiver had not freed a slot yet.
    pub wait_credit: Time,
    /// Fencing and posting slices; passes of threads over bytes, as far as they take longer than the
    /// links do, or are not full.
    pub sync: Time,
    /// Bytes moved at the worker's own rate, that of its threads' passes included.
    pub at_cap: Time,
    /// Bytes moved as fast as a full resource allowed, by resource.
    pub limited: SmallVec<[(ResourceId, Time); 2]>,
    /// Of proxies: handling messages.
    pub message: Time,
    /// Done, while others were not.
    pub idle: Time,
}

impl Bins {
    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> Time {
        let limited: Time = self.limited.iter().map(|&(_, t)| t).sum();
        self.launch
            + self.latency
            + self.wait_data
            + self.wait_credit
            + self.sync
            + self.at_cap
            + limited
            + self.message
            + self.idle
    }
}

/// What a folded simulation was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// Classes of ranks.
    pub ranks: u32,
    /// For each worker of [`Outcome::workers`] how many there are like it, itself included.
    pub workers: Vec<u32>,
    /// The same of [`Outcome::proxies`].
    pub proxies: Vec<u32>,
    /// The same of the resources.
    pub resources: Vec<u32>,
    /// For each worker of the program the one of [`Outcome::workers`] that stands for it.
    pub of_worker: Vec<u32>,
}

/// The result of a simulation.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// When each rank finished each operation: `finish[operation][rank]`.
    pub finish: Vec<Vec<Time>>,
    /// Where each worker's time went, in the program's order of workers; of a folded run, that
    /// of one worker of each class.
    pub workers: Vec<Bins>,
    /// Where the time of each connection's proxy went, in the order of those that have one.
    pub proxies: Vec<Bins>,
    /// What the simulation was folded to, if it was.
    pub folded: Option<Folded>,
    /// Payload that each connection carried, all operations together.
    pub connection_bytes: Vec<u64>,
    /// What transfers shared.
    pub resources: Resources,
    /// Events handled.
    pub events: u64,
    /// Events that were known to repeat others, and jumped over.
    pub skipped: u64,
    /// Slices moved over a link or network.
    pub transfers: u64,
}

impl Outcome {
    /// Where the workers' time went, and how many workers' time it is.
    pub fn bins(&self) -> impl Iterator<Item = (&Bins, u32)> {
        let alike = |index| self.folded.as_ref().map_or(1, |f| f.workers[index]);
        self.workers
            .iter()
            .enumerate()
            .map(move |(i, b)| (b, alike(i)))
    }

    /// Where the time of one of the program's workers went.
    #[must_use]
    pub fn bins_of(&self, worker: WorkerId) -> Option<&Bins> {
        let folded = self.folded.as_ref();
        let index = match folded {
            Some(folded) => *folded.of_worker.get(worker.index())? as usize,
            None => worker.index(),
        };
        self.workers.get(index)
    }

    /// Where the proxies' time went, and how many proxies' time it is.
    pub fn proxy_bins(&self) -> impl Iterator<Item = (&Bins, u32)> {
        let alike = |index: usize| {
            let folded = self.folded.as_ref();
            folded.and_then(|f| f.proxies.get(index)).map_or(1, |&n| n)
        };
        self.proxies
            .iter()
            .enumerate()
            .map(move |(i, b)| (b, alike(i)))
    }

    /// When the last rank finished the last operation.
    #[must_use]
    pub fn end(&self) -> Time {
        self.finish_of(self.finish.len().saturating_sub(1))
    }

    /// When the last rank finished an operation.
    #[must_use]
    pub fn finish_of(&self, operation: usize) -> Time {
        self.finish
            .get(operation)
            .and_then(|f| f.iter().max().copied())
            .unwrap_or(Time::ZERO)
    }

    /// Bytes that crossed each link (protocol overhead included), all operations together.
    /// Fractions of a byte, which shares may leave, are rounded to the nearest.
    #[must_use]
    pub fn link_bytes(&self, plan: &Plan) -> BTreeMap<LinkId, Bytes> {
        self.carried(plan).collect()
    }

    /// [`Outcome::link_bytes`] one after the other, in order of the links.
    pub fn carried(&self, plan: &Plan) -> impl Iterator<Item = (LinkId, Bytes)> + use<> {
        Self::bytes_of_links(plan, &self.connection_bytes)
            .map(|(l, b)| (l, Bytes::new(b.round() as u64)))
    }

    /// Bytes that cross links of the connections' routes, in order of the links, if the
    /// connections carry so much payload.
    pub(super) fn bytes_of_links(
        plan: &Plan,
        connection_bytes: &[u64],
    ) -> impl Iterator<Item = (LinkId, f64)> + use<> {
        let mut of_route = vec![0u64; plan.routes.len()];
        for (connection, &bytes) in (0..plan.transports.len()).zip(connection_bytes) {
            for route in plan.transports.routes_of(connection).into_iter().flatten() {
                of_route[route.0 as usize] += bytes;
            }
        }
        let (num, den) = plan.protocol.wire;
        // By number, not in a map: a large machine has millions of hops.
        let used = plan.routes.iter().zip(&of_route).filter(|(_, b)| **b > 0);
        let mut of_link = vec![0.0; plan.routes.links()];
        for (route, &bytes) in used {
            // Links next to each other mostly carry as much.
            let mut part = (Share { num: 0, den: 1 }, 0.0);
            for hop in route.hops {
                if part.0 != hop.share {
                    let share = f64::from(hop.share.num) / f64::from(hop.share.den);
                    let bytes = bytes as f64 * share * f64::from(num) / f64::from(den);
                    part = (hop.share, bytes);
                }
                of_link[hop.link.index()] += part.1;
            }
        }
        let links = (0..).map(LinkId).zip(of_link);
        links.filter(|&(_, bytes)| bytes > 0.0)
    }
}
