//! Each of several jobs as tasks on its own ranks of the machine.

use super::stream::stream;
use super::valid::{Operations, PartWork, ValidConcurrent, ValidPart};
use crate::collective::timing::{Timing, time_of};
use crate::collective::{Conditions, plan_of};
use crate::error::ScenarioError;
use crate::footprint::{communications_footprint, task_footprints};
use crate::serving::{LaidServing, ValidServing, serving_footprint};
use crate::spec::Isolation;
use fabricsim_budget::{Budget, Held, Purpose};
use fabricsim_engine::job::{JobError, Rehearsed, rehearse};
use fabricsim_fault::Faults;
use fabricsim_nccl::{Communicator, Env, NcclError, Planned};
use fabricsim_plan::job::{
    Actor, ActorId, Exchange, ExchangeId, Group, GroupId, GroupRole, HowMoved, Job, Movement,
    Script, StreamId, StreamRole, Tag, Task, Work,
};
use fabricsim_topology::{LinkId, Router};
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::exchanges::AlikeNumbers;
use fabricsim_workload::training::lower::{Surroundings, lower};
use std::sync::Arc;

/// A job on its ranks of the machine, and what its communications take alone.
pub(super) struct Laid<'v> {
    pub(super) job: Job,
    pub(super) rehearsed: Vec<Rehearsed>,
    /// What it takes of memory.
    pub(super) held: Vec<Held>,
    /// The engines of one that serves, which write its tasks while time passes.
    pub(super) engines: Option<Engines<'v>>,
}

/// The engines of a job that serves.
pub(super) type Engines<'v> = (&'v ValidServing, LaidServing<'v>);

/// Lays one of the jobs onto the machine, around links that it leaves to others; the inner error is of communications that end without a
/// result, which is one of the job.
///
/// # Errors
/// What NCCL refuses, more than the memory of the budget holds.
pub(super) fn laid<'v>(
    valid: &ValidConcurrent,
    part: &'v ValidPart,
    left_to_others: &[LinkId],
    (seed, budget): (u64, &'v Budget),
) -> Result<Result<Laid<'v>, JobError>, ScenarioError> {
    let faults = valid.faults.of_part(&part.ranks);
    let mut dead: Vec<LinkId> = faults.gone_links().collect();
    dead.extend(left_to_others);
    let mut env = part.env.clone();
    if left_to_others.is_empty() && valid.isolation == Some(Isolation::Rails) {
        // With all of the network it has all interfaces, too.
        env.nics = None;
    }
    let (job, held, engines) = match &part.work {
        PartWork::Collective(operations) => {
            let router = Router::new(&valid.topology, seed).avoiding(dead);
            let job = collective(valid, (part, operations, &env), (&faults, router), budget)?;
            let held = tasks_held(&job, budget)?;
            (job, vec![held], None)
        }
        PartWork::Training(training) => {
            // Others may meet any rank's links, so that no rank can stand for another.
            let marks: Vec<u32> = (0..part.gpus.len() as u32).collect();
            let around = Surroundings {
                seed,
                marks: &marks,
                dead: &dead,
                shared: true,
            };
            let lowered = lower(
                training,
                &valid.topology,
                &part.gpus,
                &env,
                around,
                &mut AlikeNumbers::default(),
                &task_footprints(budget),
            )?;
            (lowered.job, lowered.held, None)
        }
        PartWork::Stream(of) => {
            let router = Router::new(&valid.topology, seed).avoiding(dead.iter().copied());
            let job = stream(valid, (part, of), (router, &dead))?;
            let held = tasks_held(&job, budget)?;
            (job, vec![held], None)
        }
        PartWork::Serving(served) => {
            let expected = serving_footprint(served, false);
            budget.memory.expect_all(&expected)?;
            let env = Env {
                nics: env.nics,
                ..served.env.clone()
            };
            let laid = LaidServing::new(served, (env, left_to_others), (seed, budget))?;
            (laid.job.clone(), Vec::new(), Some((&**served, laid)))
        }
    };
    let job = job.on_ranks(&part.ranks).delayed(part.start);
    budget
        .memory
        .expect_all(&communications_footprint(&job, budget))?;
    let rehearsed = rehearse(&job, |link| valid.topology.rate(link), budget);
    let rehearsed = rehearsed.and_then(|rehearsed| match &part.work {
        PartWork::Collective(operations) if !operations.isolated => {
            warm(valid, &job, rehearsed, budget)
        }
        PartWork::Collective(_)
        | PartWork::Training(_)
        | PartWork::Serving(_)
        | PartWork::Stream(_) => Ok(rehearsed),
    });
    Ok(rehearsed.map(|rehearsed| Laid {
        job,
        rehearsed,
        held,
        engines,
    }))
}

/// The memory that a collective's tasks take, and what each actor has of them.
fn tasks_held(job: &Job, budget: &Budget) -> Result<Held, ScenarioError> {
    let footprint = task_footprints(budget);
    let tasks: usize = job.scripts.iter().map(|script| script.tasks.len()).sum();
    let each = footprint.task + job.actors.len() as u64 * footprint.of_actor;
    let bytes = (tasks as u64).saturating_mul(each);
    Ok(footprint.budget.memory.hold(Purpose::Tasks, bytes)?)
}

/// Operations that follow each other as in a benchmark's loop: each takes what it adds to those
/// before, and its kernels have been started when those are over.
fn warm(
    valid: &ValidConcurrent,
    job: &Job,
    cold: Vec<Rehearsed>,
    budget: &Budget,
) -> Result<Vec<Rehearsed>, JobError> {
    let timing = Timing {
        isolated: false,
        exact_full: budget.exact_full,
        threads: budget.threads as u32,
        memory: Some(&budget.memory),
        stop: Some(&budget.stop),
    };
    let of = |(exchange, cold): (&Exchange, Rehearsed)| {
        let Some(plan) = &exchange.plan else {
            return Ok(cold);
        };
        let timed = time_of(&valid.topology, plan, timing, None);
        let (time, outcome) = timed.map_err(|source| JobError::Exchange {
            exchange: exchange.name.clone(),
            source,
        })?;
        Ok(Rehearsed {
            time,
            launch: Time::ZERO,
            events: cold.events + outcome.events,
            ..cold
        })
    };
    job.exchanges.iter().zip(cold).map(of).collect()
}

/// Operations one after the other on one stream. All ranks do the same, so that one stands for all
/// where no other job is on their GPUs.
fn collective(
    valid: &ValidConcurrent,
    (part, operations, env): (&ValidPart, &Operations, &Env),
    (faults, router): (&Faults, Router<'_>),
    budget: &Budget,
) -> Result<Job, ScenarioError> {
    let refused = |source: NcclError| match faults.gone_links().next() {
        // Its ranks are those of the machine.
        Some(_) => ScenarioError::planned_around(&valid.faults, &source),
        None => source.into(),
    };
    let communicator = Communicator::of(&valid.topology, part.gpus.clone(), env, router);
    let communicator = communicator.map_err(refused)?;
    let mut communicator = communicator.within(&budget.estimating());
    let ranks = communicator.ranks();
    let mut job = Job {
        streams: vec![StreamRole::Compute, StreamRole::Collective],
        names: vec![operations.collective.name().to_owned()],
        ..Job::default()
    };
    let mut script = Script::default();
    for (index, &size) in operations.sizes.iter().enumerate() {
        let planned = plan_of(operations.what(), &mut communicator, size).map_err(refused)?;
        let task = Task {
            stream: StreamId(1),
            after: Default::default(),
            work: Work::Communicate {
                group: 0,
                exchange: index as u16,
            },
            // What is a step to training is a size here.
            tag: Tag {
                step: index as u16,
                ..Tag::default()
            },
        };
        let repeated = std::iter::repeat_n(task, operations.repeat as usize);
        script.tasks.extend(repeated);
        job.exchanges.push(exchange(
            (operations, size),
            (planned, index),
            ranks,
            faults,
        ));
    }
    job.scripts.push(script);
    let sms = job.exchanges.iter().map(|exchange| exchange.sms).max();
    let actors = match part.shares_gpus || budget.exact_full {
        true => ranks,
        false => 1,
    };
    job.actors = (0..actors)
        .map(|rank| Actor {
            rank,
            alike: ranks / actors,
            script: Some(0),
            sms: sms.unwrap_or(0),
            // Starting a kernel is a part of each plan.
            launch: Time::ZERO,
            run_ahead: false,
            groups: vec![Some(GroupId(0))],
        })
        .collect();
    job.groups.push(Group {
        role: GroupRole::Collective,
        name: part.name.clone(),
        ranks: (0..ranks).collect(),
        members: (0..ranks).map(|rank| ActorId(rank % actors)).collect(),
        actors,
        exchanges: (0..job.exchanges.len() as u32).map(ExchangeId).collect(),
    });
    Ok(job)
}

/// An operation of a size; a free one if rounding leaves nothing of it.
fn exchange(
    (operations, size): (&Operations, u64),
    (planned, index): (Option<Planned>, usize),
    ranks: u32,
    faults: &Faults,
) -> Exchange {
    let collective = operations.collective;
    let free = Exchange::free(
        collective.name(),
        Movement::Collective(collective),
        Bytes::new(size),
        collective.bus_factor(ranks),
    );
    let Some(planned) = planned else {
        return free;
    };
    // GPUs that are always slow are a part of the plan; links' rates are asked for while it runs.
    let plan = Conditions::slow_gpus(&planned.plan, faults).into_owned();
    let connections = plan.program.connections();
    Exchange {
        bytes: Bytes::new(planned.bytes),
        how: HowMoved::Planned(planned.algorithm.name(), planned.protocol),
        sms: u32::from(planned.channels),
        plan: Some(Arc::new(plan)),
        alike: index as u32,
        own: std::iter::once(0..connections).collect(),
        ..free
    }
}
