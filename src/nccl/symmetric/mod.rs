//! Kernels on symmetric windows: buffers that every rank has at the same place of one address
//! space, so that a kernel loads from and stores to its peers' buffers, without FIFOs between.
//!
//! NCCL 2.30.7 `sym_kernels.cc`, `scheduler/symmetric_sched.cc`, `enqueue.cc`. Where one of the
//! kernels can do a call NCCL takes the best of them, whatever its other algorithms would take.
//! Left out: kernels of several hosts (GIN), those of the tensor memory accelerator
//! (`NCCL_SYM_TMA_ENABLE`), whose figures nobody has published, element types: a call is of four-byte floats, as nccl-tests' default.

mod lay;
mod model;

use super::algorithm::Algorithm;
use super::choice::{Candidate, Expected};
use super::communicator::{Communicator, Forced};
use super::registration::Registration;
use fabricsim_collective::Collective;
use fabricsim_plan::ProtocolKind;
use model::Query;

/// Ranks that share a buffer move less than so much over their ports in one call.
const MOST_BUS_BYTES: f64 = (64u64 << 30) as f64;
/// … and with flags in the data less than that.
const MOST_LL_BUS_BYTES: f64 = (2u64 << 30) as f64;
/// Bytes of an element.
const ELEMENT: u64 = 4;

impl Algorithm {
    /// NCCL's name of the kernel that does a collective on symmetric windows, as in
    /// `NCCL_SYM_KERNEL`.
    #[must_use]
    pub const fn symmetric_kernel(self, collective: Collective) -> Option<&'static str> {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        Some(match (self, collective) {
            (Algorithm::SymLl, AllReduce) => "AllReduce_AGxLL_R",
            (Algorithm::SymLlMulticast, AllReduce) => "AllReduce_AGxLLMC_R",
            (Algorithm::SymLoadStore, AllReduce) => "AllReduce_RSxLD_AGxST",
            (Algorithm::SymMulticast, AllReduce) => "AllReduce_RSxLDMC_AGxSTMC",
            (Algorithm::SymLl, AllGather) => "AllGather_LL",
            (Algorithm::SymLlMulticast, AllGather) => "AllGather_LLMC",
            (Algorithm::SymLoadStore, AllGather) => "AllGather_ST",
            (Algorithm::SymMulticast, AllGather) => "AllGather_STMC",
            (Algorithm::SymCopy, AllGather) => "copy engines",
            (Algorithm::SymLl, ReduceScatter) => "ReduceScatter_LL",
            (Algorithm::SymLoadStore, ReduceScatter) => "ReduceScatter_LD",
            (Algorithm::SymMulticast, ReduceScatter) => "ReduceScatter_LDMC",
            _ => return None,
        })
    }

    /// Every name in `NCCL_SYM_KERNEL`.
    pub(super) fn symmetric_kernels() -> impl Iterator<Item = &'static str> {
        let collectives = [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::ReduceScatter,
        ];
        let of = |c| {
            Algorithm::SYMMETRIC
                .into_iter()
                .filter(|&a| a != Algorithm::SymCopy)
                .filter_map(move |a| a.symmetric_kernel(c))
        };
        collectives.into_iter().flat_map(of)
    }

    /// Whether its data goes with flags.
    pub(super) const fn has_flags(self) -> bool {
        matches!(self, Algorithm::SymLl | Algorithm::SymLlMulticast)
    }

    /// Whether it needs multicast memory.
    const fn needs_multicast(self) -> bool {
        matches!(self, Algorithm::SymLlMulticast | Algorithm::SymMulticast)
    }

    /// The protocol that such a kernel is counted as.
    pub(super) const fn symmetric_protocol(self) -> ProtocolKind {
        if self.has_flags() {
            ProtocolKind::Ll
        } else {
            ProtocolKind::Simple
        }
    }
}

impl Communicator<'_> {
    /// Every kernel on symmetric windows with what NCCL expects of it, or why it is not considered;
    /// nothing if the buffers are not registered as such.
    pub(super) fn symmetric_candidates(
        &self,
        collective: Collective,
        bytes: u64,
        forced: Forced,
    ) -> Vec<Candidate> {
        let asked = self.env().registered == Some(Registration::Symmetric);
        let named = forced.algorithm.is_some_and(Algorithm::is_symmetric);
        if !asked && !named || collective.is_point_to_point() {
            return Vec::new();
        }
        let whole = self.no_windows();
        let mut all: Vec<Candidate> = Algorithm::SYMMETRIC
            .into_iter()
            .filter(|a| a.symmetric_kernel(collective).is_some())
            .map(|algorithm| {
                let query = self.query(collective, algorithm, bytes);
                let protocol = algorithm.symmetric_protocol();
                let excluded = whole
                    .clone()
                    .or_else(|| self.no_kernel(collective, algorithm, bytes, forced));
                Candidate {
                    algorithm,
                    protocol,
                    expected: query.map(|q| Expected {
                        micros: q.micros,
                        latency: q.latency,
                        bandwidth: bytes as f64 / 1e3 / (q.micros - q.latency).max(1e-3),
                    }),
                    excluded,
                    chosen: false,
                }
            })
            .collect();
        let picked = all
            .iter()
            .enumerate()
            .filter(|(_, c)| c.excluded.is_none())
            // Where copy engines may do it, they do; the first of equals wins.
            .map(|(i, c)| {
                let query = self.query(collective, c.algorithm, bytes);
                (query.map_or(0.0, |q| q.weighed()), i)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, i)) = picked {
            all[i].chosen = true;
        }
        all
    }

    /// Why no kernel on symmetric windows does a call, if none does.
    #[must_use]
    pub fn no_symmetric_kernel(&self, collective: Collective, bytes: u64) -> Option<String> {
        let all = self.symmetric_candidates(collective, bytes, Forced::default());
        if all.iter().any(|c| c.chosen) {
            return None;
        }
        let first = all.into_iter().find_map(|c| c.excluded);
        Some(first.unwrap_or_else(|| format!("there is no such kernel of {collective}")))
    }

    /// What NCCL expects of a kernel; `None` of one that it has no model of.
    pub(super) fn query(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
    ) -> Option<Query> {
        let env = self.env();
        model::query(model::Call {
            algorithm,
            collective,
            bytes,
            ranks: self.ranks(),
            compute_capability: self.setup().compute_capability,
            blocks: env.symmetric.blocks,
            least_blocks: env.min_channels.unwrap_or(1),
            most_blocks: env.max_channels.unwrap_or(u16::MAX),
        })
    }

    /// Why no kernel on symmetric windows is there for any call.
    fn no_windows(&self) -> Option<String> {
        let env = self.env();
        if env.version.before(27) {
            return Some("symmetric windows came with NCCL 2.27".into());
        }
        if !env.symmetric.windows {
            return Some("NCCL_WIN_ENABLE=0".into());
        }
        if env.registered != Some(Registration::Symmetric) {
            return Some("buffers are not registered as symmetric windows".into());
        }
        if self.hosts.len() > 1 {
            return Some(format!(
                "{} NVLink domains: kernels on symmetric windows load and store by NVLink",
                self.hosts.len()
            ));
        }
        if self.ranks() < 2 {
            return Some("one rank".into());
        }
        if !self.all_joined() {
            return Some("not every pair of GPUs is joined by NVLink".into());
        }
        if self.architectures.iter().any(|m| m.symmetric.is_none()) {
            return Some("this generation of GPUs has no figures of such kernels".into());
        }
        None
    }

    /// Every GPU reaches every other one by NVLink, without a GPU between.
    fn all_joined(&self) -> bool {
        let pairs = |i: usize| self.gpus[i + 1..].iter().map(move |&b| (self.gpus[i], b));
        self.graph.nvlink
            && (0..self.gpus.len())
                .flat_map(pairs)
                .all(|(a, b)| self.joined(a, b) && self.joined(b, a))
    }

    /// Why one kernel does not do a call.
    fn no_kernel(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
        forced: Forced,
    ) -> Option<String> {
        let (env, setup) = (self.env(), self.setup());
        if forced.algorithm.is_some_and(|a| a != algorithm) {
            return Some("another algorithm is forced".into());
        }
        if forced
            .protocol
            .is_some_and(|p| p != algorithm.symmetric_protocol())
        {
            return Some("another protocol is forced".into());
        }
        let kernel = algorithm.symmetric_kernel(collective)?;
        if env.symmetric.kernel.is_some_and(|named| named != kernel) {
            return Some("NCCL_SYM_KERNEL".into());
        }
        if env.partly_registered && !(collective == Collective::AllReduce && algorithm.has_flags())
        {
            return Some("buffers of some ranks are not registered".into());
        }
        let copied = self.copies(collective, bytes);
        match (algorithm == Algorithm::SymCopy, copied) {
            (true, Err(why)) => return Some(why),
            (false, Ok(())) if forced.algorithm.is_none() => {
                return Some("copy engines do it (NCCL_SYM_CE_THRESHOLD)".into());
            }
            _ => {}
        }
        if algorithm.needs_multicast() {
            if let Err(why) = &setup.nvls {
                return Some(why.clone());
            }
            if self.ranks() < 3 {
                return Some("two ranks have no use for multicast memory".into());
            }
        }
        let bus = model::bus_bytes(algorithm, collective, bytes, self.ranks());
        let (flags, limit) = match algorithm.has_flags() {
            true => ("with flags in the data ", MOST_LL_BUS_BYTES),
            false => ("", MOST_BUS_BYTES),
        };
        (bus >= limit).then(|| {
            let gib = limit / f64::from(1u32 << 30);
            format!("{flags}less than {gib:.0} GiB may cross a port in one call")
        })
    }

    /// Whether copy engines do a call, or why not.
    fn copies(&self, collective: Collective, bytes: u64) -> Result<(), String> {
        let env = self.env();
        if collective != Collective::AllGather {
            return Err("copy engines only gather".into());
        }
        if self.setup().compute_capability < 100 {
            return Err("before Blackwell copy engines are not used".into());
        }
        if env.version.before(29) {
            return Err("copy engines gather since NCCL 2.29".into());
        }
        if env.symmetric.kernel.is_some() {
            return Err("NCCL_SYM_KERNEL".into());
        }
        let elements = bytes / u64::from(self.ranks().max(1)) / ELEMENT;
        let enough = env.symmetric.copy_threshold;
        if elements <= enough {
            return Err(format!(
                "at most {enough} elements of a rank (NCCL_SYM_CE_THRESHOLD)"
            ));
        }
        Ok(())
    }
}
