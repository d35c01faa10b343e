//! From a training job to tasks on the streams of a machine's GPUs.

use super::compute::Gpu;
use super::costs::StageCosts;
use super::footprint;
use super::resolve::{Training, TrainingError, TrainingFault};
use super::script::{Calls, HOST_STREAMS, STREAMS, Slot, Writer};
use super::spec::DataParallelSpec;
use super::step::StepWriter;
use super::ways::{HostSide, Ways};
use crate::classes::{Classes, Kind};
use crate::exchanges::{AlikeNumbers, Exchanges, Moves, Operation, representatives};
use crate::model::ranks::Group as Dim;
use crate::model::{Coordinates, Dimension, RankMap};
use fabricsim_budget::{Budget, Held, Purpose};
use fabricsim_collective::Collective;
use fabricsim_nccl::Env;
use fabricsim_plan::job::{
    Actor, ActorId, Exchange, ExchangeId, Group, GroupId, HowMoved, Job, Movement,
};
use fabricsim_topology::{DeviceId, LinkId, RouteError, Topology};
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What writing and running tasks takes of which memory.
#[derive(Debug, Clone)]
pub struct TaskFootprint {
    /// Whose memory they have to fit.
    pub budget: Budget,
    /// Bytes of a task.
    pub task: u64,
    /// Bytes that each actor takes for each task of its script.
    pub of_actor: u64,
}

/// A job, and what its numbers stand for.
pub struct Lowered {
    /// The memory that it takes.
    pub held: Vec<Held>,
    /// Which communicators go without what they asked for, for people.
    pub fallen_back: Vec<String>,
    /// The job.
    pub job: Job,
    /// Which ranks behave alike.
    pub classes: Classes,
    /// The first rank of each class, in order of [`Job::actors`].
    pub representatives: Vec<u32>,
    /// Each rank's parts.
    pub places: RankMap,
    /// The GPU, as kernels see it.
    pub gpu: Gpu,
}

/// Communicators of one kind, and the slots in which their ranks have them.
struct Team {
    kind: Kind,
    /// Of the first rank of each group, and of the others.
    slots: (Slot, Slot),
}

/// What decides how a job is laid onto a machine beside the two.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Of routes that are chosen at random.
    pub seed: u64,
    /// By rank, where something else treats ranks differently, such as a fault: those with different
    /// marks are never alike.
    pub marks: &'a [u32],
    /// Links that are gone before the job begins: NCCL plans around them.
    pub dead: &'a [LinkId],
    /// Other jobs use the machine's links: no group is told by another one that is placed as it is,
    /// whose links between switches are others.
    pub shared: bool,
}

/// Lays a training job onto a machine, one rank to each of `gpus`.
///
/// `numbers` are those of its exchanges.
///
/// # Errors
/// A GPU of which too little is known, communications that cannot be planned, more than memory holds.
pub fn lower(
    training: &Training,
    topology: &Topology,
    gpus: &[DeviceId],
    env: &Env,
    around: Surroundings<'_>,
    numbers: &mut AlikeNumbers,
    footprint: &TaskFootprint,
) -> Result<Lowered, TrainingError> {
    let places = RankMap::new(&training.dims, &order(training)?)?;
    let gpu = gpu_of(training, topology, gpus)?;
    let costs = StageCosts::new(training, gpu.clone())?;
    let mut exchanges = Exchanges::new(topology, gpus, env, (around.seed, around.dead), numbers)
        .within(&footprint.budget);
    if around.shared {
        exchanges = exchanges.apart();
    }
    let teams = teams(training, &places, &mut exchanges);
    let machine = (topology, gpus);
    let ways = Ways::new(training, machine, (around.seed, around.dead), &places);
    let ways = ways.map_err(|fault| TrainingError::Faults(vec![fault]))?;
    let host_marks = ways.as_ref().map(|ways| ways.marks(&places));
    let duties = Duties::new(training, &places, host_marks.as_deref());
    let mark = |rank: usize| around.marks.get(rank).copied().unwrap_or(0);
    let colours = duties.of_rank.iter().enumerate();
    let colours = colours.map(|(rank, &duty)| u64::from(duty) << 32 | u64::from(mark(rank)));
    let colours: Vec<u64> = colours.collect();
    let kinds: Vec<&Kind> = teams.iter().map(|t| &t.kind).collect();
    let classes = Classes::new(&colours, &kinds);
    // The ways of a script's transfers are those of one rank.
    let duties = match ways {
        Some(_) => Duties::of_classes(&classes),
        None => duties,
    };
    let launch = match training.spec.data_parallel {
        // One process starts the kernels of all.
        DataParallelSpec::SingleProcess => {
            Time::from_picos(training.spec.host_launch().picos() * u64::from(places.world()))
        }
        _ => training.spec.host_launch(),
    };
    let process = (launch, training.spec.host.is_some());
    let mut job = Job {
        streams: STREAMS.to_vec(),
        actors: actors(&classes, &duties, (gpu.sms, process)),
        ..Job::default()
    };
    let mut hosts = vec![None; duties.first.len()];
    if let Some(ways) = &ways {
        job.streams.extend(HOST_STREAMS);
        for (host, &rank) in hosts.iter_mut().zip(&duties.first) {
            *host = Some(ways.of(rank, &mut job.transfer_routes).map_err(no_way)?);
        }
    }
    let writing = Writing {
        hosts: &hosts,
        training,
        places: &places,
        costs: &costs,
        shares: &expert_shares(training),
        teams: &teams,
    };
    let (calls, used, mut held) = writing.scripts(&duties, &mut job, footprint)?;
    job.names = calls.names;
    // What no script calls.
    job.exchanges
        .push(Exchange::free("", Movement::Send, Bytes::ZERO, 1.0));
    for (t, team) in teams.iter().enumerate() {
        for &group in &representatives(&classes, t) {
            let members = &team.kind.groups[group as usize];
            let slot = team.slots.0.side();
            let operations = &calls.operations[slot.index()];
            let needed: Vec<u16> = (0..operations.len() as u16)
                .filter(|&o| {
                    let used_by = |&r: &u32| &used[duties.of_rank[r as usize] as usize];
                    members.iter().map(used_by).any(|u| u.contains(&(slot, o)))
                })
                .collect();
            let wanted: Vec<Operation> = needed
                .iter()
                .map(|&o| operations[usize::from(o)].clone())
                .collect();
            let planned = if training.spec.free_communication {
                wanted.iter().map(free).collect()
            } else if wanted.is_empty() {
                Vec::new()
            } else {
                exchanges.plan(&team.kind, &classes.of_group[t], group, &wanted)?
            };
            let mut of_slot = vec![ExchangeId(0); operations.len()];
            for (&o, exchange) in needed.iter().zip(planned) {
                of_slot[usize::from(o)] = ExchangeId(job.exchanges.len() as u32);
                job.exchanges.push(exchange);
            }
            join(&mut job, &classes, (team, members), of_slot);
        }
    }
    let fallen_back = exchanges.fallen_back();
    held.extend(exchanges.into_held());
    Ok(Lowered {
        held,
        fallen_back,
        representatives: job.actors.iter().map(|actor| actor.rank).collect(),
        job,
        classes,
        places,
        gpu,
    })
}

/// Adds the group of these members to a job.
fn join(
    job: &mut Job,
    classes: &Classes,
    (team, members): (&Team, &[u32]),
    exchanges: Vec<ExchangeId>,
) {
    let id = GroupId(job.groups.len() as u32);
    let class = |&rank: &u32| classes.of_rank[rank as usize];
    let mut inside: Vec<u32> = members.iter().map(class).collect();
    inside.sort_unstable();
    inside.dedup();
    for member in members {
        let actor = &mut job.actors[class(member) as usize];
        actor.groups[team.slot(members, *member).index()] = Some(id);
    }
    job.groups.push(Group {
        role: team.slots.0.role(),
        name: team.kind.name.clone(),
        ranks: members.to_vec(),
        members: members.iter().map(|rank| ActorId(class(rank))).collect(),
        actors: inside.len() as u32,
        exchanges,
    });
}

/// One actor for each class: its first rank.
fn actors(
    classes: &Classes,
    duties: &Duties,
    (sms, (launch, run_ahead)): (u32, (Time, bool)),
) -> Vec<Actor> {
    let mut first = vec![u32::MAX; classes.ranks as usize];
    let mut alike = vec![0; classes.ranks as usize];
    for (rank, &class) in classes.of_rank.iter().enumerate() {
        let first = &mut first[class as usize];
        *first = (*first).min(rank as u32);
        alike[class as usize] += 1;
    }
    let actor = |(&rank, alike)| Actor {
        rank,
        alike,
        script: Some(duties.of_rank[rank as usize]),
        sms,
        launch,
        run_ahead,
        groups: vec![None; Slot::ALL.len()],
    };
    first.iter().zip(alike).map(actor).collect()
}

/// Which ranks do the same: a duty has one script.
struct Duties {
    /// By rank.
    of_rank: Vec<u32>,
    /// By duty: the first rank that has it.
    first: Vec<u32>,
}

impl Duties {
    /// What a rank does depends on its stage; on its experts, if they are not equally popular; on
    /// being the one that has the weights; and on its place in its node, if the host has something to do.
    fn new(training: &Training, places: &RankMap, hosts: Option<&[u32]>) -> Duties {
        let unequal = !expert_shares(training).is_empty();
        let single = training.spec.data_parallel == DataParallelSpec::SingleProcess;
        let mut numbers: FxHashMap<(u32, u32, bool, u32), u32> = FxHashMap::default();
        let mut duties = Duties {
            of_rank: Vec::with_capacity(places.world() as usize),
            first: Vec::new(),
        };
        for rank in 0..places.world() {
            let at = places.coordinates(rank).unwrap_or_default();
            let key = (
                at.pp,
                if unequal {
                    expert_rank(training, at)
                } else {
                    0
                },
                single && at.dp == 0,
                hosts.map_or(0, |marks| marks[rank as usize]),
            );
            let number = *numbers.entry(key).or_insert(duties.first.len() as u32);
            if number as usize == duties.first.len() {
                duties.first.push(rank);
            }
            duties.of_rank.push(number);
        }
        duties
    }

    /// One for each class of ranks.
    fn of_classes(classes: &Classes) -> Duties {
        let mut first = vec![u32::MAX; classes.ranks as usize];
        for (rank, &class) in (0..).zip(&classes.of_rank) {
            let first = &mut first[class as usize];
            *first = (*first).min(rank);
        }
        Duties {
            of_rank: classes.of_rank.clone(),
            first,
        }
    }
}

/// A rank without links to its host or to drives.
fn no_way(error: RouteError) -> TrainingError {
    TrainingError::Faults(vec![TrainingFault {
        path: "offload".into(),
        found: error.to_string(),
        expected: "a machine whose links lead from GPUs to processors and drives".into(),
    }])
}

/// What scripts are written from.
struct Writing<'a> {
    /// By duty.
    hosts: &'a [Option<HostSide>],
    training: &'a Training,
    places: &'a RankMap,
    costs: &'a StageCosts,
    shares: &'a [f64],
    teams: &'a [Team],
}

/// Operations that scripts call, which of them each script does, and the memory of scripts.
type Written = (Calls, Vec<Vec<(Slot, u16)>>, Vec<Held>);

impl Writing<'_> {
    /// Writes a script for each duty, if all fit with what running them takes.
    fn scripts(
        &self,
        duties: &Duties,
        job: &mut Job,
        footprint: &TaskFootprint,
    ) -> Result<Written, TrainingError> {
        let memory = &footprint.budget.memory;
        let mut actors = vec![0u64; duties.first.len()];
        for script in job.actors.iter().filter_map(|actor| actor.script) {
            actors[script as usize] += 1;
        }
        let ranks = || duties.first.iter().copied().zip(self.hosts.iter().copied());
        let expected: Vec<u64> = ranks().map(|(rank, host)| self.tasks(rank, host)).collect();
        let parts = expected.iter().zip(&actors);
        let parts = parts.map(|(tasks, actors)| {
            tasks.saturating_mul(footprint.task + actors * footprint.of_actor)
        });
        let bytes = parts.fold(0, u64::saturating_add);
        let mut held = vec![memory.hold(Purpose::Tasks, bytes)?];
        let work = &footprint.budget.work;
        let counting = work.part("tasks written", expected.iter().sum());
        let mut calls = Calls::new();
        let mut used = Vec::with_capacity(duties.first.len());
        for ((rank, host), expected) in ranks().zip(expected) {
            let (at, load, has) = self.of(rank);
            let mut writer = Writer::new(&mut calls, has, expected as usize).counted(&counting);
            StepWriter::new(self.training, self.costs, &mut writer, at, load, host).steps();
            let (script, calls_of_script) = writer.finish();
            let more = (script.tasks.len() as u64).saturating_sub(expected);
            held.push(memory.hold(Purpose::Tasks, more * footprint.task)?);
            job.scripts.push(script);
            used.push(calls_of_script);
        }
        Ok((calls, used, held))
    }

    /// How many tasks the script of a rank has.
    fn tasks(&self, rank: u32, host: Option<HostSide>) -> u64 {
        let (at, load, has) = self.of(rank);
        footprint::tasks(self.training, self.costs, has, at, load, host)
    }

    /// Where a rank is, the load of its experts with all shares, and which communicators it has.
    fn of(&self, rank: u32) -> (Coordinates, (f64, &[f64]), [bool; Slot::ALL.len()]) {
        let at = self.places.coordinates(rank).unwrap_or_default();
        let share = self.shares.get(expert_rank(self.training, at) as usize);
        let load = share.map_or(1.0, |share| share * self.shares.len() as f64);
        let mut has = [false; Slot::ALL.len()];
        for team in self.teams {
            for group in team.kind.groups.iter().filter(|g| g.contains(&rank)) {
                has[team.slot(group, rank).index()] = true;
            }
        }
        (at, (load, self.shares), has)
    }
}

impl Team {
    /// The slot in which a rank of a group has it.
    fn slot(&self, group: &[u32], rank: u32) -> Slot {
        if group.first() == Some(&rank) {
            self.slots.0
        } else {
            self.slots.1
        }
    }
}

fn free(operation: &Operation) -> Exchange {
    let bus_factor = match &operation.moves {
        Moves::Collective(Collective::AllReduce) => 2.0,
        _ => 1.0,
    };
    Exchange {
        how: HowMoved::Free,
        ..Exchange::free(
            &operation.name,
            operation.moves.movement(),
            operation.bytes,
            bus_factor,
        )
    }
}

/// The GPUs of a job, as kernels see them: all of one kind, or the slowest of them.
pub(super) fn gpu_of(
    training: &Training,
    topology: &Topology,
    gpus: &[DeviceId],
) -> Result<Gpu, TrainingError> {
    let mut slowest: Option<Gpu> = None;
    let mut seen = Vec::new();
    for &id in gpus {
        let model = topology.device(id).model;
        if seen.contains(&model) {
            continue;
        }
        seen.push(model);
        let known = topology.gpu_model(id).zip(topology.architecture(id));
        let precision = (
            training.spec.precision,
            training.spec.flash_version.unwrap_or(2),
        );
        let gpu = known.and_then(|(m, a)| Gpu::new(m, a, precision));
        let gpu = gpu.ok_or_else(|| TrainingError::UnknownGpu {
            gpu: topology
                .gpu_model(id)
                .map_or_else(String::new, |m| m.title.clone()),
            fp8: precision.0 == super::spec::Precision::Fp8,
        })?;
        if slowest
            .as_ref()
            .is_none_or(|s| gpu.large_product() < s.large_product())
        {
            slowest = Some(gpu);
        }
    }
    slowest.ok_or_else(|| {
        TrainingError::Faults(vec![TrainingFault {
            path: "topology".into(),
            found: "no GPU".into(),
            expected: "at least one".into(),
        }])
    })
}

/// The part of tokens that goes to each expert-parallel rank; empty if all get the same.
fn expert_shares(training: &Training) -> Vec<f64> {
    let skew = training.spec.routing.skew;
    let ep = training.dims.ep as usize;
    let Some(experts) = training
        .model
        .experts
        .as_ref()
        .filter(|_| ep > 1 && skew > 0.0)
    else {
        return Vec::new();
    };
    let weight = |n: u64| ((n + 1) as f64).powf(-skew);
    let each = experts.count / ep as u64;
    let sums: Vec<f64> = (0..ep as u64)
        .map(|r| (r * each..(r + 1) * each).map(weight).sum())
        .collect();
    let all: f64 = sums.iter().sum();
    sums.into_iter().map(|s| s / all).collect()
}

/// All communicators of a job.
fn teams(training: &Training, places: &RankMap, exchanges: &mut Exchanges<'_>) -> Vec<Team> {
    let dims = training.dims;
    let mut teams = Vec::new();
    let mut add = |name: &str, groups: Vec<Vec<u32>>, slots: (Slot, Slot)| {
        if groups.first().is_some_and(|g| g.len() > 1) {
            teams.push(Team {
                kind: exchanges.kind(name, groups),
                slots,
            });
        }
    };
    let both = |slot| (slot, slot);
    add(
        "tensor parallel",
        places.groups(Dim::Tp),
        both(Slot::Tensor),
    );
    add(
        "context parallel",
        places.groups(Dim::Cp),
        both(Slot::Context),
    );
    let data = places.groups(Dim::DpCp);
    let (shards, replicas) = divided(&data, training.shard_group);
    add("shards", shards, both(Slot::Shard));
    add("replicas", replicas, both(Slot::Replica));
    add("data parallel", data, both(Slot::Data));
    if training.model.experts.is_some() {
        add(
            "expert parallel",
            places.groups(Dim::Ep),
            both(Slot::Expert),
        );
        let data = places.groups(Dim::ExpertDp);
        let (shards, replicas) = divided(&data, training.expert_shards());
        add("expert shards", shards, both(Slot::ExpertShard));
        add("expert replicas", replicas, both(Slot::ExpertReplica));
        add("expert data parallel", data, both(Slot::ExpertData));
    }
    if dims.pp > 1 {
        let wraps = dims.virtual_stages > 1;
        let pipelines = places.groups(Dim::Pp);
        for stage in 0..dims.pp {
            let next = (stage + 1) % dims.pp;
            if next == 0 && !wraps {
                continue;
            }
            let pairs = |from: u32, to: u32| -> Vec<Vec<u32>> {
                pipelines
                    .iter()
                    .map(|p| vec![p[from as usize], p[to as usize]])
                    .collect()
            };
            add(
                &format!("pipeline {stage}→{next}"),
                pairs(stage, next),
                (Slot::ForwardOut, Slot::ForwardIn),
            );
            add(
                &format!("pipeline {next}→{stage}"),
                pairs(next, stage),
                (Slot::BackwardOut, Slot::BackwardIn),
            );
        }
        if training.model.tied_embeddings {
            let last = dims.pp as usize - 1;
            let ends = pipelines.iter().map(|p| vec![p[0], p[last]]).collect();
            add("embedding", ends, both(Slot::Embedding));
        }
    }
    // All ranks of a replica that have the same part of the sequence.
    let mut model: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for rank in 0..places.world() {
        let at = places.coordinates(rank).unwrap_or_default();
        model.entry((at.dp, at.cp)).or_default().push(rank);
    }
    add(
        "model parallel",
        model.into_values().collect(),
        both(Slot::Model),
    );
    teams
}

/// The ranks of each group that divide weights among `shard` of them, nearest first, and those that have
/// the same part; none if all of a group do.
fn divided(groups: &[Vec<u32>], shard: u32) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let shard = shard as usize;
    if groups.first().is_none_or(|group| shard >= group.len()) {
        return (Vec::new(), Vec::new());
    }
    let parts = groups
        .iter()
        .flat_map(|g| g.chunks(shard).map(<[u32]>::to_vec));
    let same = |group: &Vec<u32>, part: usize| -> Vec<u32> {
        group.iter().copied().skip(part).step_by(shard).collect()
    };
    let replicas = groups
        .iter()
        .flat_map(|g| (0..shard).map(move |part| same(g, part)));
    (parts.collect(), replicas.collect())
}

/// Which of the expert-parallel ranks one is: they are neighbours among the replicas of a stage.
fn expert_rank(training: &Training, at: Coordinates) -> u32 {
    (at.dp * training.dims.cp + at.cp) % training.dims.ep
}

/// The order of dimensions, as it is written: `tp-cp-ep-dp-pp`.
pub(super) fn order(training: &Training) -> Result<Vec<Dimension>, TrainingError> {
    let Some(order) = &training.spec.parallel.order else {
        return Ok(Dimension::MEGATRON.to_vec());
    };
    let named = |name: &str| Dimension::MEGATRON.into_iter().find(|d| d.name() == name);
    order
        .split('-')
        .map(named)
        .collect::<Option<Vec<Dimension>>>()
        .ok_or_else(|| {
            TrainingError::Faults(vec![TrainingFault {
                path: "parallel.order".into(),
                found: order.clone(),
                expected: "tp, cp, ep, dp and pp joined by `-`, such as `tp-cp-ep-dp-pp`".into(),
            }])
        })
}
