//! Engines on the machine, and what they take to serve.

use super::handover::{STREAMS, Ways, ways};
use super::links::{Failure, Network, PlannedLinks};
use super::tiers::tiers;
use super::valid::ValidServing;
use crate::error::ScenarioError;
use crate::training::Trouble;
use fabricsim_budget::Budget;
use fabricsim_engine::job::{JobError, JobOptions, JobOutcome, Unseen, run_source};
use fabricsim_fault::Faults;
use fabricsim_nccl::Env;
use fabricsim_plan::job::{Actor, ActorId, Job, StreamRole};
use fabricsim_record::telemetry::{Activity, Both};
use fabricsim_topology::{LinkId, serving};
use fabricsim_units::Time;
use fabricsim_workload::kernel::KernelLaw;
use fabricsim_workload::serving::blocks::{BlockPool, Tell};
use fabricsim_workload::serving::fleet::{
    Arrivals, Engine, Fleet, FleetPlan, FrontEnd, Handover, Role, Served, Tiers, Watch, has_tiers,
};
use fabricsim_workload::serving::load::MadeUp;
use fabricsim_workload::serving::model_cost::{ModelCost, PassWork, PoolCosts};
use fabricsim_workload::serving::pass_time::{GivenCost, GivenTime, PassCost};
use fabricsim_workload::serving::request::Request;
use fabricsim_workload::serving::scheduler::Scheduler;
use fabricsim_workload::serving::spec::{LoadSpec, PassTimeSpec, PoolRole};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Engines on the machine, before anything arrives.
pub(crate) struct LaidServing<'v> {
    valid: &'v ValidServing,
    budget: &'v Budget,
    /// The GPUs as actors without scripts, and the ways of transfers.
    pub(crate) job: Job,
    actors: FxHashMap<u32, ActorId>,
    handover: Handover,
    handover_routes: usize,
    tiers: Tiers,
    cost: Costs<'v>,
    pub(super) failure: Failure,
}

impl<'v> LaidServing<'v> {
    /// The engines of a job, around links that it leaves to others; NCCL has these variables.
    ///
    /// # Errors
    /// GPUs that no links join, tiers that are none.
    pub(crate) fn new(
        valid: &'v ValidServing,
        (env, left_to_others): (Env, &[LinkId]),
        (seed, budget): (u64, &'v Budget),
    ) -> Result<Self, ScenarioError> {
        let engines = valid.pools.iter().flat_map(|pool| &pool.engines);
        let mut ranks: Vec<u32> = engines.flatten().copied().collect();
        ranks.sort_unstable();
        let actors: FxHashMap<u32, ActorId> =
            ranks.iter().copied().zip((0..).map(ActorId)).collect();
        let gone = valid.faults.gone_links();
        let network = Network {
            env,
            without: gone.chain(left_to_others.iter().copied()).collect(),
        };
        let router = || network.router(&valid.topology, seed);
        let Ways {
            handover,
            mut routes,
        } = ways(valid, &actors, router())?;
        let handover_routes = routes.len();
        let tiers = tiers(valid, &actors, router(), &mut routes)?;
        let moves = !handover.legs.is_empty() || tiers.levels.iter().any(|own| !own.is_empty());
        let transfers = if moves { STREAMS } else { 0 };
        let job = Job {
            streams: std::iter::once(StreamRole::Compute)
                .chain((0..transfers).map(|_| StreamRole::KvTransfer))
                .collect(),
            names: vec!["pass".to_owned()],
            actors: ranks.iter().map(|&rank| actor(rank)).collect(),
            transfer_routes: routes,
            ..Job::default()
        };
        let failure = Failure::default();
        let cost = costs((valid, network), (seed, budget), &failure);
        Ok(LaidServing {
            valid,
            budget,
            job,
            actors,
            handover,
            handover_routes,
            tiers,
            cost,
            failure,
        })
    }

    /// The engines with all requests still to come.
    pub(crate) fn fleet(&mut self, keeps_passes: bool) -> Fleet<'_> {
        let actors = self.job.actors.len();
        let load = Load::all(self.valid, keeps_passes);
        self.fleet_of(load, actors)
    }

    fn fleet_of<'f>(&'f mut self, load: Load<'f>, actors: usize) -> Fleet<'f> {
        let valid = self.valid;
        // Where requests come without end, who watches says when it is enough.
        let requests = load.more.is_none().then_some(load.requests.len() as u64);
        let counting = requests.map(|requests| self.budget.work.part("requests served", requests));
        Fleet::new(FleetPlan {
            counting,
            engines: engines(valid, &self.actors),
            requests: load.requests,
            more: load.more,
            watch: load.watch,
            arrivals: load.arrivals,
            routing: valid.spec.routing,
            handover: self.handover.clone(),
            front_end: front_end(valid),
            tiers: self.tiers.clone(),
            cost: self.cost.as_dyn(),
            counted_from: load.counted_from,
            keeps_passes: load.keeps_passes,
            memory: self.budget.memory.clone(),
            actors,
        })
    }

    /// Serves a load, as tasks of a job that is this one's.
    pub(super) fn serve<'f>(
        &'f mut self,
        job: &Job,
        load: Load<'f>,
        activity: Option<&mut Activity<'_>>,
    ) -> (Served, Result<JobOutcome, JobError>) {
        let (valid, budget, failure) = (self.valid, self.budget, self.failure.clone());
        let mut fleet = self.fleet_of(load, job.actors.len());
        let outcome = run((valid, budget), job, &mut fleet, activity);
        let served = fleet.into_served();
        if let Some(refused) = served.gaps.refused() {
            failure.borrow_mut().get_or_insert(refused.into());
        }
        (served, outcome)
    }

    /// Whether all communications of engines could be simulated.
    ///
    /// # Errors
    /// What NCCL refused.
    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// What was served.
    ///
    /// # Errors
    /// What NCCL refused of an engine's communications.
    pub(super) fn ran(self, served: Served, outcome: JobOutcome) -> Result<Ran, ScenarioError> {
        self.check()?;
        Ok(Ran {
            work: self.cost.work(),
            served,
            outcome,
            job: self.job,
            handover_routes: self.handover_routes,
        })
    }
}

/// Requests that have been served, and what that took.
pub(super) struct Ran {
    pub(super) served: Served,
    pub(super) outcome: JobOutcome,
    pub(super) job: Job,
    /// So many routes of the job are those of hand-overs; those of tiers come behind them.
    pub(super) handover_routes: usize,
    /// By pool, of those whose passes are made of kernels.
    pub(super) work: Vec<PassWork>,
}

/// What engines are to serve.
pub(super) struct Load<'f> {
    pub(super) arrivals: Arrivals,
    pub(super) requests: Vec<Request>,
    /// Those that follow, without end.
    pub(super) more: Option<MadeUp>,
    /// Who says when it is enough.
    pub(super) watch: Option<&'f mut dyn Watch>,
    /// Times between tokens are kept from this request on.
    pub(super) counted_from: u32,
    pub(super) keeps_passes: bool,
}

impl Load<'_> {
    /// All requests of a job.
    pub(super) fn all(valid: &ValidServing, keeps_passes: bool) -> Self {
        Load {
            arrivals: arrivals(valid),
            requests: valid.requests.clone(),
            more: None,
            watch: None,
            counted_from: valid.spec.warm_up,
            keeps_passes,
        }
    }
}

fn run(
    (valid, budget): (&ValidServing, &Budget),
    job: &Job,
    fleet: &mut Fleet<'_>,
    activity: Option<&mut Activity<'_>>,
) -> Result<JobOutcome, JobError> {
    let rate = |link| valid.topology.rate(link);
    let faults: &Faults = &valid.faults;
    let trouble = Trouble::new(faults, job);
    let options = JobOptions {
        stop: Some(&budget.stop),
        ..JobOptions::default()
    };
    let mut unseen = Unseen;
    let mut probe = Both(&mut unseen, activity);
    run_source(job, fleet, &[], rate, &trouble, options, &mut probe)
}

/// A GPU, whose tasks come while time passes.
fn actor(rank: u32) -> Actor {
    Actor {
        rank,
        alike: 1,
        script: None,
        sms: 1,
        launch: Time::ZERO,
        run_ahead: false,
        groups: Vec::new(),
    }
}

pub(super) const fn role(role: PoolRole) -> Role {
    match role {
        PoolRole::Both => Role::Both,
        PoolRole::Prefill => Role::Prefill,
        PoolRole::Decode => Role::Decode,
    }
}

/// The engines of all pools, in order.
fn engines(valid: &ValidServing, actors: &FxHashMap<u32, ActorId>) -> Vec<Engine> {
    let engine = &valid.spec.engine;
    let mut engines = Vec::new();
    for pool in &valid.pools {
        let role = role(pool.role);
        let tell = match &engine.tiers {
            Some(tiers) if has_tiers(role) => tiers.write.tell(),
            _ => Tell::Nothing,
        };
        let stage = (pool.parallel.tp() * pool.parallel.attention_dp) as usize;
        for ranks in &pool.engines {
            let blocks = BlockPool::new(pool.blocks, engine.block_tokens(), engine.prefix_cache);
            let blocks = blocks.telling(tell);
            let parts = pool.parallel.attention_dp as usize;
            engines.push(Engine {
                role,
                policy: engine.policy,
                stages: ranks
                    .iter()
                    .step_by(stage)
                    .map(|rank| actors[rank])
                    .collect(),
                parts: vec![Scheduler::new(pool.limits, blocks); parts],
            });
        }
    }
    engines
}

fn arrivals(valid: &ValidServing) -> Arrivals {
    match &valid.spec.load {
        LoadSpec::Closed(load) => Arrivals::Closed {
            concurrency: load.concurrency,
        },
        _ => Arrivals::Open {
            drain: valid.spec.drain.unwrap_or(super::requests::DRAIN),
        },
    }
}

/// What a request takes before it is queued; nothing where times are given.
fn front_end(valid: &ValidServing) -> FrontEnd {
    let engine = &valid.spec.engine;
    let own = match engine.pass_time {
        PassTimeSpec::Kernels(_) => {
            let own = &serving().engines[engine.policy.name()];
            (own.per_request.value, own.per_prompt_token.value)
        }
        PassTimeSpec::Fixed(_) | PassTimeSpec::Polynomial(_) => Default::default(),
    };
    FrontEnd {
        latency: engine.front_end.unwrap_or(own.0),
        per_token: engine.front_end_per_token.unwrap_or(own.1),
    }
}

/// What passes take.
enum Costs<'v> {
    Given(GivenCost),
    Kernels(PoolCosts<'v>),
}

impl Costs<'_> {
    fn as_dyn(&mut self) -> &mut dyn PassCost {
        match self {
            Costs::Given(cost) => cost,
            Costs::Kernels(costs) => costs,
        }
    }

    /// What passes of each pool did; nothing where times are given.
    fn work(&self) -> Vec<PassWork> {
        match self {
            Costs::Given(_) => Vec::new(),
            Costs::Kernels(costs) => costs.pools.iter().map(|pool| pool.work).collect(),
        }
    }
}

fn costs<'v>(
    (valid, network): (&'v ValidServing, Network),
    (seed, budget): (u64, &'v Budget),
    failure: &Failure,
) -> Costs<'v> {
    let engine = &valid.spec.engine;
    let given = |time| {
        Costs::Given(GivenCost {
            time,
            mixed: engine.pass_cost,
        })
    };
    match &engine.pass_time {
        PassTimeSpec::Fixed(times) => given(GivenTime::Fixed {
            prefill: times.prefill,
            decode: times.decode,
        }),
        PassTimeSpec::Polynomial(times) => given(GivenTime::Polynomial {
            prefill: times.prefill,
            decode: times.decode,
            least: times.decode_min,
        }),
        PassTimeSpec::Kernels(_) => {
            let network = Rc::new(network);
            let mut of_engine = Vec::new();
            let mut pools = Vec::new();
            for pool in &valid.pools {
                let Some(first) = pool.engines.first() else {
                    continue;
                };
                let gpu = first.first().map(|&rank| valid.gpus[rank as usize]);
                let gpu = gpu.and_then(|gpu| valid.topology.gpu_model(gpu));
                // Checked before.
                let Some(law) = gpu.and_then(KernelLaw::new) else {
                    continue;
                };
                of_engine.extend(pool.engines.iter().map(|_| pools.len()));
                let stage = pool.parallel.tp() * pool.parallel.attention_dp;
                let links = PlannedLinks::new(
                    (valid, Rc::clone(&network)),
                    (first, pool.parallel.tp(), stage),
                    (seed, budget),
                    failure.clone(),
                );
                pools.push(ModelCost::new(pool.shape.clone(), law, Box::new(links)));
            }
            Costs::Kernels(PoolCosts { pools, of_engine })
        }
    }
}
