//! Jobs at once whose every part has been checked, ready to run.

use super::isolation::{left_to_others, rails_of};
use crate::collective::{What, check_matrix, check_memory, msccl, sizes};
use crate::error::ScenarioError;
use crate::fallback::fallen;
use crate::refusal::{fault, refusal, refuse};
use crate::serving::{ValidServing, serving_on};
use crate::site::{At, Site, site};
use crate::spec::{CollectiveSpec, ConcurrentSpec, Isolation, JobSpec, ScenarioSpec};
use crate::training::{choose_gathers, resolved};
use fabricsim_collective::{Collective, MscclAlgorithm};
use fabricsim_fault::Faults;
use fabricsim_nccl::{Env, Forced};
use fabricsim_topology::{DeviceId, Fault, LinkId, Topology};
use fabricsim_units::{Bandwidth, Bytes, Time};
use fabricsim_workload::training::resolve::Training;
use std::path::Path;
use std::sync::Arc;

/// Jobs at once that have been checked.
#[derive(Debug)]
pub struct ValidConcurrent {
    /// The machine.
    pub topology: Arc<Topology>,
    /// What is odd about it, and about NCCL's variables.
    pub warnings: Vec<String>,
    /// Of a machine from a file of another program: what was assumed.
    pub notes: Vec<String>,
    /// The GPU of each rank of the machine.
    pub gpus: Vec<DeviceId>,
    /// The jobs.
    pub jobs: Vec<ValidPart>,
    /// What goes wrong.
    pub faults: Faults,
    /// What each has for itself; nothing where that is not asked for.
    pub isolation: Option<Isolation>,
    /// The links that each job leaves to others, in their order.
    pub(super) left_to_others: Vec<Vec<LinkId>>,
}

/// One of the jobs.
#[derive(Debug)]
pub struct ValidPart {
    /// Its name.
    pub name: String,
    /// Its ranks on the machine, in order.
    pub ranks: Vec<u32>,
    /// The GPU of each.
    pub gpus: Vec<DeviceId>,
    /// Whether other jobs are on some of them, too.
    pub shares_gpus: bool,
    /// When it starts.
    pub start: Time,
    /// NCCL's variables.
    pub env: Env,
    /// What it does.
    pub work: PartWork,
}

/// What one of the jobs does.
#[derive(Debug)]
pub enum PartWork {
    /// Operations of a collective, one after the other.
    Collective(Box<Operations>),
    /// Steps of a training job.
    Training(Box<Training>),
    /// A model that answers requests.
    Serving(Box<ValidServing>),
    /// Bytes from GPU to GPU.
    Stream(Stream),
}

/// Bytes from the first half of a job's GPUs to the second.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    /// What each sends at once.
    pub bytes: Bytes,
    /// No faster than that.
    pub rate: Option<Bandwidth>,
    /// How often.
    pub repeat: u32,
}

/// Operations of a collective, at one size after the other.
#[derive(Debug)]
pub struct Operations {
    /// The collective.
    pub collective: Collective,
    /// Sizes as asked for, all above zero and none larger than a GPU's memory.
    pub sizes: Vec<u64>,
    /// How many operations of each.
    pub repeat: u32,
    /// Each takes what a single one takes that begins cold, not what it adds in a loop.
    pub isolated: bool,
    /// What is forced in place of NCCL's choice.
    pub forced: Forced,
    /// In place of NCCL's choice.
    pub msccl: Option<MscclAlgorithm>,
    /// Of an all-to-all-v: relative amounts.
    pub matrix: Option<Vec<Vec<f64>>>,
}

impl Operations {
    /// What is planned for each size.
    pub(super) fn what(&self) -> What<'_> {
        What {
            collective: self.collective,
            forced: self.forced,
            msccl: self.msccl.as_ref(),
            matrix: self.matrix.as_deref(),
        }
    }
}

/// Operations of each size, where the scenario does not say it.
const REPEAT: u32 = 10;
/// More operations of one job than are worth simulating.
const MOST_OPERATIONS: u64 = 100_000;
/// More jobs than anyone compares.
const MOST_JOBS: usize = 1000;

/// Checks jobs at once and builds their machine.
///
/// # Errors
/// Everything that is wrong with the values of their scenario, or with its topology.
pub(crate) fn concurrent(
    spec: &ScenarioSpec,
    jobs: &[ConcurrentSpec],
    at: At<'_>,
) -> Result<ValidConcurrent, ScenarioError> {
    let At { folder, origin, .. } = at;
    let mut faults = Vec::new();
    check_list(spec, jobs, &mut faults);
    refuse(origin, faults)?;
    let site = site(spec, at)?;
    let ranks = ranks_of(jobs, &site, origin)?;
    let mut of_gpu = vec![0; site.gpus.len()];
    for &rank in ranks.iter().flatten() {
        of_gpu[rank as usize] += 1;
    }
    let mut valid = Vec::with_capacity(jobs.len());
    for (index, (job, ranks)) in jobs.iter().zip(ranks).enumerate() {
        let at = format!("job.concurrent[{index}]");
        let mut part = part(spec, (job, &at), ranks, &site, (folder, origin))?;
        if let Some(rails) = rails_of(&site.topology, (index, jobs.len()), spec.isolation) {
            if part.env.nics.is_some() {
                let found = "NCCL_IB_HCA beside rails of each job";
                let expected = "one of both: rails are dealt to jobs in turns";
                let wrong = fault("isolation", found.into(), expected);
                return Err(refusal(origin, vec![wrong]));
            }
            part.env.nics = Some(rails);
        }
        part.shares_gpus = part.ranks.iter().any(|&rank| of_gpu[rank as usize] > 1);
        valid.push(part);
    }
    let left_to_others = left_to_others(&site.topology, jobs.len(), spec.isolation)
        .map_err(|wrong| refusal(origin, vec![wrong]))?;
    Ok(ValidConcurrent {
        isolation: spec.isolation,
        left_to_others,
        topology: site.topology,
        warnings: site.warnings,
        notes: site.notes,
        gpus: site.gpus,
        jobs: valid,
        faults: site.faults,
    })
}

/// What can be said of the list without its machine.
fn check_list(spec: &ScenarioSpec, jobs: &[ConcurrentSpec], faults: &mut Vec<Fault>) {
    if jobs.is_empty() || jobs.len() > MOST_JOBS {
        let found = match jobs.len() {
            0 => "no job".to_owned(),
            count => format!("{count} jobs"),
        };
        faults.push(fault(
            "job.concurrent",
            found,
            format!("1 to {MOST_JOBS} jobs"),
        ));
    }
    if spec.long_run.is_some() {
        let found = "a long run of several jobs";
        let expected = "none beside `job.concurrent`: a long run is of one training job";
        faults.push(fault("long_run", found.into(), expected));
    }
    for (index, job) in jobs.iter().enumerate() {
        let at = |field: &str| format!("job.concurrent[{index}].{field}");
        if job.name.trim().is_empty() {
            faults.push(fault(&at("name"), "no name".into(), "a name"));
        } else if jobs[..index].iter().any(|other| other.name == job.name) {
            let found = format!("`{}` again", job.name);
            faults.push(fault(&at("name"), found, "another name"));
        }
        if let (JobSpec::Serving(_), Some(_)) = (&job.job, job.start) {
            let found = "a start of serving";
            let expected = "none: requests say when they arrive";
            faults.push(fault(&at("start"), found.into(), expected));
        }
        if let JobSpec::Concurrent(_) = &job.job {
            let found = "jobs at once within jobs at once";
            let expected =
                "a job of the kind `collective`, `training` or `serving`; put all into one list";
            faults.push(fault(&at("job.concurrent"), found.into(), expected));
        }
        match (job.repeat, &job.job) {
            (Some(0), _) => faults.push(fault(&at("repeat"), "0".into(), "1 or more")),
            (Some(_), JobSpec::Serving(_)) => {
                let found = "a number of operations of serving";
                let expected = "none: `job.serving.requests` says how many requests there are";
                faults.push(fault(&at("repeat"), found.into(), expected));
            }
            (Some(_), JobSpec::Training(_)) => {
                let found = "a number of operations of training";
                let expected = "none: `job.training.steps` says how many steps there are";
                faults.push(fault(&at("repeat"), found.into(), expected));
            }
            _ => {}
        }
    }
}

/// The ranks of each job.
fn ranks_of(
    jobs: &[ConcurrentSpec],
    site: &Site,
    origin: &str,
) -> Result<Vec<Vec<u32>>, ScenarioError> {
    let mut faults = Vec::new();
    let mut all = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        let at = format!("job.concurrent[{index}].gpus");
        match job.gpus.resolve(&site.topology, &site.gpus, &at) {
            Ok(ranks) => all.push(ranks.into_iter().map(|rank| rank as u32).collect()),
            Err(wrong) => faults.push(wrong),
        }
    }
    refuse(origin, faults)?;
    Ok(all)
}

fn part(
    spec: &ScenarioSpec,
    (job, at): (&ConcurrentSpec, &str),
    ranks: Vec<u32>,
    site: &Site,
    (folder, origin): (&Path, &str),
) -> Result<ValidPart, ScenarioError> {
    let gpus: Vec<DeviceId> = ranks.iter().map(|&rank| site.gpus[rank as usize]).collect();
    let mut env = fallen(&site.env, &site.faults).into_owned();
    let work = match &job.job {
        JobSpec::Collective(asked) => {
            env.register(asked.registered.or(spec.registered));
            env.partly_registered = !asked.unregistered.is_empty();
            env.cuda_graph = asked.cuda_graph;
            check_steady((job, &ranks), site, origin)?;
            let at = format!("{at}.job.collective");
            let repeat = job.repeat.unwrap_or(REPEAT);
            let operations = operations((asked, repeat), &at, &site.topology, (folder, origin))?;
            PartWork::Collective(Box::new(operations))
        }
        JobSpec::Training(asked) => {
            // Each rank of a training job has a process of its own.
            env.ranks_per_process = spec.ranks_per_process.unwrap_or(1);
            let at = format!("{at}.job.training");
            let mut training = resolved(asked, &at, origin, (&site.topology, &gpus))?;
            choose_gathers(&mut training, (&site.topology, &gpus), &env)?;
            PartWork::Training(Box::new(training))
        }
        JobSpec::Serving(asked) => {
            let site = Site {
                topology: Arc::clone(&site.topology),
                notes: Vec::new(),
                warnings: Vec::new(),
                gpus: gpus.clone(),
                faults: site.faults.of_part(&ranks),
                env: env.clone(),
            };
            let served = serving_on(spec, (asked, false), site, (folder, origin));
            let served = served.map_err(|error| error.below(at))?;
            PartWork::Serving(Box::new(served))
        }
        JobSpec::Stream(asked) => {
            let mut faults = Vec::new();
            let at = |field: &str| format!("{at}.{field}");
            if ranks.len() < 2 || !ranks.len().is_multiple_of(2) {
                let found = format!("{} GPUs of a stream", ranks.len());
                let expected = "an even number: the first half sends to the second half";
                faults.push(fault(&at("gpus"), found, expected));
            }
            if asked.bytes == Bytes::ZERO {
                let wrong = fault(&at("job.stream.bytes"), "0".into(), "more than 0");
                faults.push(wrong);
            }
            refuse(origin, faults)?;
            PartWork::Stream(Stream {
                bytes: asked.bytes,
                rate: asked.rate,
                repeat: job.repeat.unwrap_or(1),
            })
        }
        // Jobs at once are refused before.
        JobSpec::Concurrent(_) | JobSpec::Communicator(_) | JobSpec::Calls(_) => {
            let found = format!("a job of the kind `{}`", job.job.kind());
            let wrong = fault(at, found, "a collective, training, serving or a stream");
            return Err(refusal(origin, vec![wrong]));
        }
    };
    Ok(ValidPart {
        name: job.name.clone(),
        ranks,
        gpus,
        shares_gpus: false,
        start: job.start.unwrap_or(Time::ZERO),
        env,
        work,
    })
}

/// Refuses faults of a collective's GPUs that its plan cannot tell.
fn check_steady(
    (job, ranks): (&ConcurrentSpec, &[u32]),
    site: &Site,
    origin: &str,
) -> Result<(), ScenarioError> {
    let mut changing = ranks.iter().filter_map(|&rank| {
        let place = site.faults.unsteady_of(rank as usize)?;
        Some((rank as usize, place))
    });
    let Some((rank, place)) = changing.next() else {
        return Ok(());
    };
    let name = site.topology.device_name(site.gpus[rank]);
    let found = format!(
        "a fault of GPU {rank} ({name}), on which the collective `{}` runs, that changes with time or \
         is drawn",
        job.name
    );
    let expected = "beside other jobs GPUs of a collective that are as slow all of the time; faults \
                    of links may change, and so may those of a training job's GPUs";
    Err(refusal(
        origin,
        vec![fault(&format!("faults[{place}]"), found, expected)],
    ))
}

fn operations(
    (job, repeat): (&CollectiveSpec, u32),
    at: &str,
    topology: &Topology,
    (folder, origin): (&Path, &str),
) -> Result<Operations, ScenarioError> {
    let mut faults = Vec::new();
    let sizes = sizes(&job.sizes, &format!("{at}.sizes"), &mut faults);
    check_matrix(job, at, &mut faults);
    check_memory(&sizes, topology, &format!("{at}.sizes"), &mut faults);
    let count = sizes.len() as u64 * u64::from(repeat);
    if count > MOST_OPERATIONS {
        let found = format!("{count} operations, {repeat} of each size");
        let expected = format!("at most {MOST_OPERATIONS}: fewer sizes, or a smaller `repeat`");
        faults.push(fault(&format!("{at}.sizes"), found, expected));
    }
    for (field, given) in [("why", job.why), ("trace", job.trace.is_some())] {
        if given {
            let found = format!("`{field}` of one of several jobs");
            let expected = "none: a collective that is a job by itself can tell that";
            faults.push(fault(&format!("{at}.{field}"), found, expected));
        }
    }
    refuse(origin, faults)?;
    let msccl = match &job.algorithm_file {
        None => None,
        Some(file) => Some(msccl(&folder.join(file), job.name)?),
    };
    Ok(Operations {
        collective: job.name,
        sizes,
        repeat,
        isolated: job.isolated,
        forced: Forced {
            algorithm: job.algorithm,
            protocol: job.protocol,
        },
        msccl,
        matrix: job.matrix.clone(),
    })
}
