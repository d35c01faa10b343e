//! The decision: which algorithm and protocol, and why not the others.

use super::algorithm::Algorithm;
use super::communicator::{Communicator, Forced, Planned};
use super::error::NcclError;
use fabricsim_collective::Collective;
use fabricsim_plan::ProtocolKind;
use fabricsim_topology::hardware::NicProtocol;

/// One line of the decision table.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: ProtocolKind,
    /// What NCCL expects: its fixed part and what it takes for this size, in microseconds,
    /// and GB/s of algorithm bandwidth; absent where NCCL has none.
    pub expected: Option<Expected>,
    /// Why it is not considered.
    pub excluded: Option<String>,
    /// It is what NCCL takes.
    pub chosen: bool,
}

/// What NCCL's cost model says of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Microseconds for this size.
    pub micros: f64,
    /// Microseconds whatever the size.
    pub latency: f64,
    /// GB/s.
    pub bandwidth: f64,
}

impl Communicator<'_> {
    /// Every algorithm and protocol for an operation of `bytes`, with what NCCL expects of
    /// it or why it is excluded, in the order in which NCCL looks at them.
    #[must_use]
    pub fn candidates(&self, collective: Collective, bytes: u64, forced: Forced) -> Vec<Candidate> {
        let mut all = Vec::new();
        let mut symmetric = self.symmetric_candidates(collective, bytes, forced);
        for algorithm in Algorithm::NCCL {
            for protocol in ProtocolKind::ALL {
                let setup = self.setup();
                let expected = setup
                    .micros(collective, algorithm, protocol, bytes)
                    .zip(setup.expectation(collective, algorithm, protocol))
                    .map(|(micros, e)| Expected {
                        micros,
                        latency: e.latency,
                        bandwidth: e.bandwidth,
                    });
                let excluded = self
                    .excluded(collective, algorithm, protocol, forced)
                    .or_else(|| {
                        expected
                            .is_none()
                            .then(|| "no bandwidth by the model".into())
                    });
                all.push(Candidate {
                    algorithm,
                    protocol,
                    expected,
                    excluded,
                    chosen: false,
                });
            }
        }
        let mut best: Option<(f64, usize)> = None;
        for (i, candidate) in all.iter().enumerate() {
            let Some(expected) = candidate.expected.filter(|_| candidate.excluded.is_none()) else {
                continue;
            };
            // The first of equals wins, as in NCCL.
            if best.is_none_or(|(micros, _)| expected.micros < micros) {
                best = Some((expected.micros, i));
            }
        }
        // Few thread blocks are asked for, whatever the model says.
        let env = self.env();
        if env.efficiency == Some(true)
            && env.zero_copy()
            && collective != Collective::AllReduce
            && let Some(i) = all.iter().position(|c| {
                c.algorithm == Algorithm::Nvls && c.excluded.is_none() && c.expected.is_some()
            })
        {
            best = Some((0.0, i));
        }
        // Where a kernel on symmetric windows can do it, NCCL does not ask what the others would take.
        // Of those that do without registration it is a guess that it does: tables of plain buffers do
        // not show kernels that are expected to take longer.
        let least = best.map_or(f64::INFINITY, |(micros, _)| micros);
        let mut decided = false;
        for kernel in symmetric.iter_mut().filter(|c| c.chosen) {
            let slower = kernel.expected.is_some_and(|e| e.micros > least);
            if slower && env.partly_registered {
                kernel.chosen = false;
                kernel.excluded = Some("expected to take longer than other algorithms".into());
            } else {
                decided = true;
            }
        }
        if let Some((_, i)) = best.filter(|_| !decided) {
            all[i].chosen = true;
        }
        [symmetric, all].concat()
    }

    fn excluded(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: ProtocolKind,
        forced: Forced,
    ) -> Option<String> {
        if forced.algorithm.is_some_and(|a| a != algorithm) {
            return Some("another algorithm is forced".into());
        }
        if forced.protocol.is_some_and(|p| p != protocol) {
            return Some("another protocol is forced".into());
        }
        let env = self.env();
        if forced.algorithm.is_none() && !env.allows_algorithm(collective, algorithm) {
            return Some("NCCL_ALGO".into());
        }
        if forced.protocol.is_none() && !env.allows_protocol(collective, protocol) {
            return Some("NCCL_PROTO".into());
        }
        // Naming LL128 forces it on even where it is not chosen by itself; naming PAT too.
        let named = match protocol {
            ProtocolKind::Ll128 => env.names_ll128(collective) || forced.protocol.is_some(),
            _ => algorithm == Algorithm::Pat && forced.algorithm.is_some(),
        };
        let why = self
            .setup()
            .excluded(collective, algorithm, protocol, named);
        if why.is_some() {
            return why;
        }
        // Published tables of gather and scatter with NVLS named and plain buffers are those
        // of the ring, to half a percent.
        let plain = collective != Collective::AllReduce && !env.zero_copy();
        (algorithm == Algorithm::Nvls && plain && forced.algorithm.is_none())
            .then(|| "buffers are not registered".into())
    }

    /// What NCCL's cost model expects of a plan of `bytes`, in microseconds.
    ///
    /// It has none of sends and receives; for those the stand-in is made of the same
    /// constants: a ring's base and network latency, and the busiest way out of a GPU or a
    /// host at the rate that NCCL's search believes in.
    #[must_use]
    pub fn expected(&self, collective: Collective, bytes: u64, planned: &Planned) -> Option<f64> {
        let setup = self.setup();
        let (algorithm, protocol) = (planned.algorithm, planned.protocol);
        if algorithm.is_symmetric() {
            return Some(self.query(collective, algorithm, bytes)?.micros);
        }
        if !collective.is_point_to_point() {
            return setup.micros(collective, algorithm, protocol, bytes);
        }
        setup.micros_of_sends(collective, protocol, bytes)
    }

    /// All ranks are joined by NVLink.
    #[must_use]
    pub fn one_domain(&self) -> bool {
        self.hosts.len() == 1 && self.graph.nvlink
    }

    /// What messages between hosts speak; `None` where there is one host.
    #[must_use]
    pub fn network(&self) -> Option<NicProtocol> {
        if self.hosts.len() < 2 {
            return None;
        }
        if self.ways.sockets().is_some() {
            return Some(NicProtocol::Tcp);
        }
        let mut doors = self.hosts.iter().flat_map(|host| &host.doors);
        let model = doors.find_map(|door| self.topology.nic_model(door.nic))?;
        Some(model.protocol)
    }

    /// NCCL's choice.
    pub(super) fn choose(
        &self,
        collective: Collective,
        bytes: u64,
        forced: Forced,
    ) -> Result<(Algorithm, ProtocolKind), NcclError> {
        let other = |a: &Algorithm| !Algorithm::NCCL.contains(a) && !a.is_symmetric();
        if let Some(other) = forced.algorithm.filter(other) {
            if !other.serves(collective) {
                return Err(NcclError::NothingLeft {
                    collective: collective.name(),
                    reason: format!("{other} does not do {collective}"),
                });
            }
            if other == Algorithm::CpuRing
                && let Some(protocol) = forced.protocol.filter(|&p| p != ProtocolKind::Simple)
            {
                return Err(NcclError::NothingLeft {
                    collective: collective.name(),
                    reason: format!("{other} goes over sockets, not with {protocol}"),
                });
            }
            // NCCL's cost model knows nothing of it.
            return Ok((other, forced.protocol.unwrap_or(ProtocolKind::Simple)));
        }
        let all = self.candidates(collective, bytes, forced);
        if let Some(c) = all.iter().find(|c| c.chosen) {
            return Ok((c.algorithm, c.protocol));
        }
        // What was asked for and is not there for this collective falls back to the ring:
        // NVLS for gather and scatter always, and everything before 2.24.
        let env = self.env();
        let nvls = env.allows_algorithm(collective, Algorithm::Nvls)
            && collective != Collective::AllReduce;
        if forced.algorithm.is_none() && (nvls || env.version.before(24)) {
            let ring = Forced {
                algorithm: Some(Algorithm::Ring),
                ..forced
            };
            let all = self.candidates(collective, bytes, ring);
            if let Some(c) = all.iter().find(|c| c.chosen) {
                return Ok((c.algorithm, c.protocol));
            }
        }
        // Nobody asked for the others.
        let asked = |c: &&Candidate| {
            forced.algorithm.is_none_or(|a| a == c.algorithm)
                && forced.protocol.is_none_or(|p| p == c.protocol)
        };
        let reasons = all.iter().filter(asked).filter_map(|c| {
            let why = c.excluded.as_ref()?;
            Some(format!("{} with {}: {why}", c.algorithm, c.protocol))
        });
        let reasons: Vec<String> = reasons.collect();
        Err(NcclError::NothingLeft {
            collective: collective.name(),
            reason: reasons.join("; "),
        })
    }
}
