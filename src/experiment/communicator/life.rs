//! What making one communicator takes, part by part.
//!
//! NCCL 2.30 `init.cc` and `bootstrap.cc`: each rank asks a root for its neighbour, the ranks join in a
//! ring over TCP, and what all have to know of each other goes round it three times: addresses, what each
//! rank is, and the channels that it found. A step of that is a message of a few KiB to the next rank, so
//! that its latency is what counts. `ncclCommSplit` needs no root: parents know each other.

use fabricsim_topology::bootstrap::BootstrapModel;
use fabricsim_units::Time;

/// A part of a communicator's making, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Loading NCCL's kernels.
    Kernels,
    /// Until the last rank has come.
    Arrival,
    /// Ranks ask the root for their neighbours.
    Root,
    /// What all have to know goes round the ring.
    AllGathers,
    /// What the host has.
    Topology,
    /// Channels.
    Graphs,
    /// Proxies and multicast; all else, if connecting is not left to the first operation.
    Connections,
    /// All ranks of the job meet in the framework's store, for each group of the kind.
    Store,
}

impl Part {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Part::Kernels => "kernels",
            Part::Arrival => "arrival",
            Part::Root => "root",
            Part::AllGathers => "all-gathers",
            Part::Topology => "topology",
            Part::Graphs => "graphs",
            Part::Connections => "connections",
            Part::Store => "store",
        }
    }
}

/// Whom ranks get their neighbours' addresses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acquaintance {
    /// From so many roots.
    Roots(u64),
    /// From those of the communicator that it is split off.
    Parent,
}

/// What a communicator's making depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Making {
    pub(super) ranks: u64,
    /// GPUs and NICs of the host with most.
    pub(super) devices: u64,
    pub(super) acquaintance: Acquaintance,
    /// It is the first one of its processes: kernels are loaded, and ranks come at different times.
    pub(super) first: bool,
    pub(super) cold: bool,
    pub(super) arrival: Time,
    /// From rank to rank, of a small message: to the root, and round the ring.
    pub(super) latency: Time,
    pub(super) step_latency: Time,
    /// The ring goes both ways at once (NCCL 2.28).
    pub(super) both_ways: bool,
    /// What connecting takes that is not left to the first operation.
    pub(super) connecting: Time,
    /// Barriers of all ranks in the store: how many, of how many ranks.
    pub(super) barriers: Option<(u64, u64, Time)>,
}

/// Ranks go round three times: addresses, peers, graphs.
const ALL_GATHERS: u64 = 3;
/// What a root does with a rank: it takes in the record, connects to the rank before, and sends it on.
const ROOT_MESSAGES: u64 = 3;

impl Making {
    /// All parts together.
    pub(super) fn time(&self, model: &BootstrapModel) -> Time {
        self.parts(model).iter().map(|(_, time, _)| *time).sum()
    }

    /// All parts, with what each is made of.
    pub(super) fn parts(&self, model: &BootstrapModel) -> Vec<(Part, Time, String)> {
        let mut parts = Vec::new();
        if self.first {
            let kernels = match self.cold {
                true => (model.kernels_cold.value, "the driver makes them first"),
                false => (model.kernels_warm.value, "the driver has them"),
            };
            parts.push((Part::Kernels, kernels.0, kernels.1.to_owned()));
            let why = format!("the last of {} ranks comes after the first one", self.ranks);
            parts.push((Part::Arrival, self.spread(), why));
        }
        if let Acquaintance::Roots(roots) = self.acquaintance {
            let why = format!(
                "{} ranks one after the other",
                self.ranks.div_ceil(roots.max(1))
            );
            parts.push((Part::Root, self.root(roots, model), why));
        }
        let steps = self.steps();
        let why = format!(
            "{ALL_GATHERS} times {steps} steps of {}",
            self.step_latency.human()
        );
        parts.push((
            Part::AllGathers,
            self.step_latency.times(ALL_GATHERS * steps),
            why,
        ));
        let topology = model.topology_per_device.value.times(self.devices);
        let why = format!("{} GPUs and NICs of a host", self.devices);
        parts.push((Part::Topology, topology, why));
        parts.push((
            Part::Graphs,
            model.graphs.value,
            "the search for channels".to_owned(),
        ));
        let why = match self.connecting {
            Time::ZERO => "proxies, memory for multicast",
            _ => "proxies, memory for multicast, rings and trees",
        };
        let connections = model.proxies.value + self.connecting;
        parts.push((Part::Connections, connections, why.to_owned()));
        if let Some((barriers, ranks, each)) = self.barriers {
            let operations = barriers * ranks * model.store_operations.value;
            let why = format!(
                "{barriers} barriers of {ranks} ranks, {} an operation",
                each.human()
            );
            parts.push((Part::Store, each.times(operations), why));
        }
        parts
    }

    /// From the first to the last of ranks that come after exponential times: mean × (1 + 1/2 + … + 1/(N−1)).
    fn spread(&self) -> Time {
        let harmonic: f64 = (1..self.ranks).map(|k| 1.0 / k as f64).sum();
        Time::from_picos((self.arrival.picos() as f64 * harmonic) as u64)
    }

    /// Until the last rank has its neighbour's address. Above a number of ranks the i-th of a root waits before it
    /// asks, so that the root's queue is short.
    fn root(&self, roots: u64, model: &BootstrapModel) -> Time {
        let ranks = self.ranks.div_ceil(roots.max(1));
        let each = self.latency.times(ROOT_MESSAGES);
        let served = each.times(ranks);
        if ranks <= model.stagger_above.value {
            return served;
        }
        let last =
            (ranks - 1) as u128 * 1_000_000_000_000 / u128::from(model.stagger_rate.value.max(1));
        served.max(Time::from_picos(last as u64) + each)
    }

    /// Steps of a ring all-gather.
    const fn steps(&self) -> u64 {
        match self.both_ways {
            true => self.ranks / 2,
            false => self.ranks.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::bootstrap::bootstrap;

    fn making(ranks: u64) -> Making {
        Making {
            ranks,
            devices: 16,
            acquaintance: Acquaintance::Roots(1),
            first: true,
            cold: false,
            arrival: bootstrap().arrival.value,
            latency: Time::from_micros(75),
            step_latency: Time::from_micros(75),
            both_ways: true,
            connecting: Time::ZERO,
            barriers: None,
        }
    }

    fn of(making: Making, part: Part) -> f64 {
        let parts = making.parts(bootstrap());
        let mut own = parts.iter().filter(|(known, _, _)| *known == part);
        own.next().map_or(0.0, |(_, time, _)| time.seconds())
    }

    #[test]
    fn one_root_serves_one_rank_after_the_other() {
        // 8 × 3 × 75 µs.
        assert!((of(making(8), Part::Root) - 1.8e-3).abs() < 1e-12);
        // As many roots as there are hundreds: a hundredth.
        let scaled = Making {
            acquaintance: Acquaintance::Roots(100),
            ..making(12_800)
        };
        assert!((of(scaled, Part::Root) - 128.0 * 225e-6).abs() < 1e-9);
        // A split has none.
        let split = Making {
            acquaintance: Acquaintance::Parent,
            ..making(64)
        };
        assert!(
            split
                .parts(bootstrap())
                .iter()
                .all(|(part, _, _)| *part != Part::Root)
        );
    }

    /// The last of 98,304 ranks of one root asks after 14.0 s (NCCL's own rule).
    #[test]
    fn many_ranks_of_a_root_come_staggered() {
        let quick = Making {
            latency: Time::from_nanos(1),
            ..making(98_304)
        };
        assert!((of(quick, Part::Root) - 98_303.0 / 7000.0).abs() < 1e-6);
        let few = Making {
            latency: Time::from_nanos(1),
            ..making(256)
        };
        assert!(of(few, Part::Root) < 1e-6);
    }

    #[test]
    fn a_ring_both_ways_takes_half_the_steps() {
        let one_way = Making {
            both_ways: false,
            ..making(384)
        };
        assert!((of(one_way, Part::AllGathers) - 3.0 * 383.0 * 75e-6).abs() < 1e-12);
        assert!((of(making(384), Part::AllGathers) - 3.0 * 192.0 * 75e-6).abs() < 1e-12);
        // ⌈N/2⌉ exchanges less the last one where N is odd: 7 ranks need 3 both ways.
        assert!((of(making(7), Part::AllGathers) - 3.0 * 3.0 * 75e-6).abs() < 1e-12);
    }

    /// 8 B200: from 0.03 s on the last rank to 0.84 s on the first (NVIDIA/nccl issue 1646).
    #[test]
    fn the_first_rank_waits_for_the_last() {
        let spread = of(making(8), Part::Arrival);
        assert!((spread / 0.81 - 1.0).abs() < 0.02, "{spread}");
        assert_eq!(of(making(1), Part::Arrival), 0.0);
    }
}
