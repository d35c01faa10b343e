//! Laying kernels on symmetric windows onto the machine.

use super::super::algorithm::Algorithm;
use super::super::communicator::{Communicator, Planned};
use super::super::costs::UNLIMITED;
use super::super::error::NcclError;
use super::super::transport::Way;
use super::model::{bus_bytes, multiplier};
use fabricsim_collective::{
    Between, Collective, ConnId, HeadsProgram, HopKind, OneShotProgram, Part, Program, Role,
};
use fabricsim_plan::{RoleCosts, SliceCost, WorkerCosts};
use fabricsim_topology::Architecture;
use fabricsim_topology::architecture::SymmetricModel;
use fabricsim_units::{Bandwidth, Time};
use std::sync::Arc;

/// What is dealt to thread blocks (`NCCL_SYM_KERNEL_CELL_SIZE`).
const CELL: u64 = 1024;

/// The longest step of a worker: what counts slices has 32 bits.
const STEP: u64 = 1 << 30;

impl Communicator<'_> {
    /// The plan of a collective by a kernel on symmetric windows.
    pub(in super::super) fn symmetric(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
    ) -> Result<Planned, NcclError> {
        let copies = algorithm == Algorithm::SymCopy;
        let query = self.query(collective, algorithm, bytes);
        let blocks = query.map_or(1, |q| q.blocks);
        let parts = self.symmetric_parts(collective, algorithm, bytes, blocks);
        let (used, ranks) = (parts.len() as u64, u64::from(self.ranks()));
        self.expect(2 * ranks * ranks * used, 0)?;
        let (program, ways): (Arc<dyn Program>, Vec<Way>) = if algorithm.has_flags() {
            self.one_shot(collective, algorithm, bytes, parts)?
        } else {
            self.by_heads(collective, algorithm, bytes, parts)?
        };
        let costs = self.symmetric_costs(collective, algorithm, bytes);
        let started = if copies { 0 } else { used as u16 };
        let choice = (algorithm, algorithm.symmetric_protocol());
        self.planned(program, &ways, choice, costs, (started, used as u16))
    }

    /// What each thread block has of the data, or of each rank's block.
    fn symmetric_parts(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
        blocks: u16,
    ) -> Vec<Part> {
        let ranks = u64::from(self.ranks());
        let all = match collective {
            Collective::AllReduce => bytes,
            _ => bytes / ranks,
        };
        let each = all.div_ceil(u64::from(blocks)).next_multiple_of(CELL);
        let each = each.max(CELL);
        // Nothing is handed over before all of it is there: a step is all that a thread block has.
        let heads = !algorithm.has_flags() && collective == Collective::AllReduce;
        let chunk = |own: u64| {
            let shared = if heads { own.div_ceil(ranks) } else { own };
            shared.clamp(1, STEP / ranks).next_multiple_of(16)
        };
        (0..all.div_ceil(each).max(1))
            .map(|c| {
                let own = each.min(all - c * each);
                Part {
                    offset: c * each,
                    len: own,
                    chunk: chunk(own),
                }
            })
            .collect()
    }

    /// Everyone stores to everyone.
    fn one_shot(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let program = OneShotProgram::new(collective, bytes, self.ranks(), parts);
        let multicast = (algorithm == Algorithm::SymLlMulticast)
            .then(|| self.multicast_ways(false))
            .transpose()?;
        let ways = (0..program.connections())
            .map(|c| {
                let (from, to) = program.ends(ConnId(c));
                match &multicast {
                    // One store reaches all.
                    Some(ways) if to.0 == 0 => Ok(ways[from.index()][1]),
                    Some(ways) => Ok(ways[from.index()][1].carried()),
                    None => self.way(from.0, to.0, None, 0),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok((Arc::new(program), ways))
    }

    /// Each rank sees to its share: it loads that from all, and stores it to all.
    fn by_heads(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let ranks: Vec<u32> = (0..self.ranks()).collect();
        let host = [(ranks.clone(), ranks)];
        let program = HeadsProgram::new(collective, bytes, &host, Between::Nothing, parts);
        let both = collective == Collective::AllReduce;
        let multicast = (algorithm == Algorithm::SymMulticast)
            .then(|| self.multicast_ways(both))
            .transpose()?;
        let group = |way: Way, first: bool| if first { way } else { way.carried() };
        let mut ways = Vec::with_capacity(program.connections() as usize);
        for c in (0..program.connections()).map(ConnId) {
            let ends = program.connection(c);
            let (a, b) = (program.worker(ends.from).rank, program.worker(ends.to).rank);
            ways.push(match (program.kind(ends), &multicast) {
                (HopKind::ToHead { first }, Some(ways)) => group(ways[b.index()][0], first),
                (HopKind::FromHead { first }, Some(ways)) => group(ways[a.index()][1], first),
                (HopKind::ToHead { .. }, None) => self.way(a.0, b.0, None, 0)?.loaded(),
                _ => self.way(a.0, b.0, None, 0)?,
            });
        }
        Ok((Arc::new(program), ways))
    }

    /// By rank, through multicast memory: the sum of what all have, and what reaches all. Where `both`
    /// go on at the same time, loads and stores reach less of a port than its rate; either alone
    /// reaches what stores to a peer do (Megatron-LM PR 5596: 128 MiB gathered by 8 H100 in 363 us are
    /// 0.82 of the raw rate), but for what many ranks take away from both.
    fn multicast_ways(&mut self, both: bool) -> Result<Vec<[Way; 2]>, NcclError> {
        let members = self.gpus.clone();
        (0..members.len())
            .map(|rank| {
                let model = self.architectures[usize::from(self.rank_models[rank])];
                let ranks = members.len() as u32;
                let share = model.nvls.as_ref().map_or(1.0, |nvls| {
                    let reached = nvls.reached(ranks, true);
                    if both {
                        return reached;
                    }
                    let kept = reached / nvls.reached(1, true);
                    kept * self.wire_share(rank)
                });
                self.ways.multicast(members[rank], &members, share)
            })
            .collect()
    }

    /// What a rank's NVLinks carry of their raw rate.
    fn wire_share(&self, rank: usize) -> f64 {
        let peer = self.gpus[usize::from(rank == 0)];
        let route = self.ways.router().peer(self.gpus[rank], peer);
        let first = route.ok().and_then(|route| Some(route.hops.first()?.link));
        first.map_or(1.0, |link| {
            let raw = self.topology.raw_rate(link).bytes_per_sec();
            self.topology.rate(link).bytes_per_sec() as f64 / raw as f64
        })
    }

    fn symmetric_costs(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
    ) -> Vec<RoleCosts> {
        let ranks = self.ranks();
        // Bytes on the bus for each byte of a rank's share that its thread blocks see to.
        let share = bytes as f64 / f64::from(ranks);
        let bus = bus_bytes(algorithm, collective, bytes, ranks);
        let per_byte = bus / multiplier(algorithm, collective, ranks) / share.max(1.0);
        let models = self.architectures.iter();
        models
            .map(|model| match &model.symmetric {
                Some(symmetric) => {
                    kernel_costs(model, symmetric, (collective, algorithm), per_byte)
                }
                None => RoleCosts::same(Time::ZERO, FREE),
            })
            .collect()
    }
}

/// What others do, or nobody: links alone limit it.
const FREE: WorkerCosts = WorkerCosts {
    slice: SliceCost::flat(Time::ZERO),
    send_rate: UNLIMITED,
    local_rate: UNLIMITED,
    streams: 0,
};

/// A kernel whose thread blocks have `per_byte` bytes on the bus for each byte that they see to.
fn kernel_costs(
    model: &Architecture,
    symmetric: &SymmetricModel,
    (collective, algorithm): (Collective, Algorithm),
    per_byte: f64,
) -> RoleCosts {
    let block = match collective {
        Collective::AllReduce => symmetric.reduce_rate.value,
        _ => symmetric.gather_rate.value,
    };
    let rate = block.bytes_per_sec() as f64 / per_byte.max(1e-9);
    let rate = Bandwidth::from_bytes_per_sec((rate as u64).clamp(1, UNLIMITED.bytes_per_sec()));
    let moving = WorkerCosts {
        send_rate: rate,
        local_rate: rate,
        ..FREE
    };
    let launch = symmetric.launch.value;
    match algorithm {
        // Flags come with the data: all threads look at the same place of all ranks at once.
        Algorithm::SymLl | Algorithm::SymLlMulticast => {
            let slice = SliceCost {
                pass: model.ll.pass.value,
                doubling: model.ll.doubling.value,
                pass_time: model.ll.pass_time.value,
                ..SliceCost::default()
            };
            RoleCosts::same(launch, FREE).with(Role::Gather, WorkerCosts { slice, ..FREE })
        }
        Algorithm::SymCopy => {
            let start = symmetric.copy_start.as_ref();
            let start = start.map_or(Time::ZERO, |s| s.value);
            RoleCosts::same(launch + start, FREE)
        }
        // All wait for all before the first load or store, and after the last.
        _ => RoleCosts::same(launch + symmetric.barrier.value * 2, FREE)
            .with(Role::Up, moving)
            .with(Role::Down, moving),
    }
}
