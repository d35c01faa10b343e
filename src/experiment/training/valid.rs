//! A training job whose every part has been checked, ready to run.

use super::bucketing::choose_gathers;
use super::memory::{capacity, memory_plan};
use super::storage::Checkpoint;
use crate::ScenarioError;
use crate::allocation::nodes_of;
use crate::communicator::making_time;
use crate::refusal::{fault, refusal, refuse};
use crate::site::{At, Site, environment};
use crate::spec::ScenarioSpec;
use crate::tariff::Tariff;
use fabricsim_fault::goodput::{Cluster, CostSpec, LongRunSpec, SharedParts, StorageTimes};
use fabricsim_fault::{FaultError, Faults};
use fabricsim_nccl::Env;
use fabricsim_topology::{DeviceId, DeviceKind, Topology};
use fabricsim_units::Span;
use fabricsim_workload::model::peak_memory;
use fabricsim_workload::training::host_memory::host_use;
use fabricsim_workload::training::resolve::{Training, TrainingError, TrainingFault};
use fabricsim_workload::training::spec::TrainingSpec;
use std::sync::Arc;

/// A checked training job.
#[derive(Debug)]
pub struct ValidTraining {
    /// The machine.
    pub topology: Arc<Topology>,
    /// What is odd about it, and about NCCL's variables.
    pub warnings: Vec<String>,
    /// Of a machine from a file of another program: what was assumed.
    pub notes: Vec<String>,
    /// The GPU of each rank.
    pub gpus: Vec<DeviceId>,
    /// The job.
    pub training: Training,
    /// What goes wrong.
    pub faults: Faults,
    /// NCCL's variables.
    pub env: Env,
    /// A long run around the step.
    pub long_run: Option<LongRunSpec>,
    /// Its checkpoints, if they go to the machine's storage.
    pub(super) checkpoint: Option<Checkpoint>,
    /// Dollars per GPU and hour.
    pub price: Option<f64>,
}

/// Checks a training job and builds its machine.
///
/// # Errors
/// Everything that is wrong with the values of its scenario, or with its topology.
pub(crate) fn training(
    spec: &ScenarioSpec,
    job: &TrainingSpec,
    at: At<'_>,
) -> Result<ValidTraining, ScenarioError> {
    let At { folder, origin, .. } = at;
    let mut faults = Vec::new();
    let mut env = environment(spec, None, (folder, origin), &mut faults)?;
    // Each rank of a training job has a process of its own.
    env.ranks_per_process = spec.ranks_per_process.unwrap_or(1);
    refuse(origin, faults)?;
    let site = at
        .machines
        .of(spec, folder, origin)?
        .with(spec, env, origin)?;
    let Site { topology, gpus, .. } = &site;
    let mut training = resolved(job, "job.training", origin, (topology, gpus))?;
    choose_gathers(&mut training, (topology, gpus), &site.env)?;
    let mut warnings = site.warnings.clone();
    let mut checkpoint = None;
    if let Some(long) = &spec.long_run {
        // What is wrong with it is to be known before the step is simulated.
        let cluster = cluster(topology, gpus, Span::from_secs(1));
        if let Err(FaultError { mut problems }) = fabricsim_fault::goodput::Job::new(&cluster, long)
        {
            for problem in &mut problems {
                problem.path = format!("long_run.{}", problem.path);
            }
            refuse(origin, problems)?;
        }
        if let CostSpec::Storage(storage) = &long.checkpoint.cost {
            let machine = (&**topology, gpus.as_slice());
            checkpoint = Some(Checkpoint::new(storage, &training, machine, origin)?);
        }
        let absent = long.mtbf.keys().filter(|&&part| cluster.count(part) == 0);
        warnings.extend(absent.map(|part| {
            let kind = part.label();
            format!(
                "long_run.mtbf: no {kind} is known of {}, so none fails",
                topology.name
            )
        }));
    }
    let long_run = spec.long_run.clone();
    let long_run = long_run.map(|long| restarted(long, &training, &site));
    Ok(ValidTraining {
        warnings,
        notes: site.notes,
        price: Tariff::of(spec, origin)?.gpu_hour(&site.topology),
        topology: site.topology,
        gpus: site.gpus,
        training,
        faults: site.faults,
        env: site.env,
        long_run,
        checkpoint,
    })
}

/// A long run whose restarts take what making the job's communicators does, if they are to.
fn restarted(mut long: LongRunSpec, training: &Training, site: &Site) -> LongRunSpec {
    let Some(parts) = &mut long.restart_parts else {
        return long;
    };
    if !parts.make_communicators {
        return long;
    }
    let parallel = &training.spec.parallel;
    let sizes = [
        ("tp", parallel.tp),
        ("cp", parallel.cp),
        ("pp", parallel.pp),
    ];
    let sizes = sizes.into_iter().filter(|(_, size)| *size > 1);
    let sizes = sizes.map(|(name, size)| format!("{name}{size}"));
    let mut groups: Vec<String> = std::iter::once("world".to_owned()).chain(sizes).collect();
    groups.push("dp".to_owned());
    let time = making_time(&site.topology, &site.gpus, &site.env, &groups);
    // A layout that is valid divides its GPUs.
    parts.communicators = time.ok().map(|time| Span::from_nanos(time.picos() / 1000));
    parts.make_communicators = false;
    long
}

/// The training job at a place of the scenario, for these GPUs.
///
/// # Errors
/// What is wrong with its values.
pub(crate) fn resolved(
    job: &TrainingSpec,
    at: &str,
    origin: &str,
    (topology, gpus): (&Topology, &[DeviceId]),
) -> Result<Training, ScenarioError> {
    let refused = |error| refused(origin, at, error);
    let training = Training::new(job, gpus.len() as u32).map_err(refused)?;
    check_activations(&training, topology, gpus).map_err(refused)?;
    host_use(&training, (topology, gpus)).map_err(refused)?;
    Ok(training)
}

/// More than so many times what a GPU's memory holds is a slip of the pen, and would be simulated
/// for hours.
const MOST_TIMES_MEMORY: u64 = 16;

/// Activations of a GPU, which grow with sequence and micro-batch, are not far more than its
/// memory.
fn check_activations(
    training: &Training,
    topology: &Topology,
    gpus: &[DeviceId],
) -> Result<(), TrainingError> {
    let (_, parts) = peak_memory(&training.model, &memory_plan(training))?;
    let capacity = capacity(topology, gpus);
    let kept = parts
        .activations
        .get()
        .saturating_add(parts.transient.get());
    if kept <= capacity.get().saturating_mul(MOST_TIMES_MEMORY) {
        return Ok(());
    }
    let long = training.spec.sequence.is_some();
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    Err(TrainingError::Faults(vec![TrainingFault {
        path: if long { "sequence" } else { "micro_batch" }.into(),
        found: format!(
            "micro-batches of {} × {} tokens, of which a GPU keeps {}",
            training.batch.sequences,
            training.batch.tokens,
            gib(kept)
        ),
        expected: format!(
            "at most {MOST_TIMES_MEMORY} times the memory of a GPU of {}: shorter sequences, \
             more `parallel.cp`, `recompute`",
            gib(capacity.get())
        ),
    }]))
}

/// A training job's faults, at their places in the scenario.
fn refused(origin: &str, at: &str, error: TrainingError) -> ScenarioError {
    match error {
        TrainingError::Faults(list) => {
            let faults = list.into_iter();
            let faults = faults.map(|f| fault(&format!("{at}.{}", f.path), f.found, f.expected));
            refusal(origin, faults.collect())
        }
        other => other.into(),
    }
}

/// What a job's long run is of, if a step takes so long.
pub(super) fn cluster(topology: &Topology, gpus: &[DeviceId], step: Span) -> Cluster {
    let nodes = nodes_of(topology, gpus.iter().copied());
    let gpus_per_node = gpus.len() as u32 / nodes.max(1);
    let first = topology.nodes.first();
    let nvswitches = topology.devices();
    let nvswitches = nvswitches.filter(|(_, device)| device.kind == DeviceKind::NvSwitch);
    Cluster {
        nodes,
        gpus_per_node,
        nics_per_node: first.map_or(gpus_per_node, |node| node.nics.len() as u32),
        nvswitches: nvswitches.count() as u32,
        shared: SharedParts::of(topology),
        step,
        storage: StorageTimes::default(),
    }
}
