//! A training scenario whose every part has been checked, ready to run.

use super::memory::{capacity, memory_plan};
use crate::ScenarioError;
use crate::read::{Scenario, changed};
use crate::refusal::{fault, refusal, refuse};
use crate::spec::{JobSpec, ScenarioSpec};
use crate::valid::{Machine, check_name, environment, gpus, machine};
use fabricsim_fault::goodput::{Cluster, LongRunSpec};
use fabricsim_fault::{FaultError, Faults};
use fabricsim_nccl::{Env, unknown_interfaces};
use fabricsim_topology::error::nearest;
use fabricsim_topology::{DeviceId, Fault, Topology};
use fabricsim_units::Span;
use fabricsim_workload::model::peak_memory;
use fabricsim_workload::training::resolve::{Training, TrainingError, TrainingFault};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A checked training scenario, with all its variants.
pub struct ValidJob {
    /// For people.
    pub title: String,
    /// What is run, and compared if there are several.
    pub variants: Vec<ValidVariant>,
    /// The scenario of each, as JSON.
    pub specs: Vec<Value>,
    /// The one that the others are compared with: an index.
    pub baseline: usize,
    /// The seed.
    pub seed: u64,
    /// Where results go.
    pub outputs: PathBuf,
    /// The scenario as JSON.
    pub json: Value,
}

/// One job on one machine.
pub struct ValidVariant {
    /// Its name.
    pub name: String,
    /// The machine.
    pub topology: Topology,
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
    /// Dollars per GPU and hour.
    pub price: Option<f64>,
}

/// Checks a training scenario and builds the machines of all variants; relative paths start at
/// `folder`.
///
/// # Errors
/// Everything that is wrong with a variant's values.
pub fn validate_job(scenario: Scenario, folder: &Path) -> Result<ValidJob, ScenarioError> {
    let Scenario { spec, json, origin } = scenario;
    let mut faults = Vec::new();
    check_name("name", &spec.name, &mut faults);
    for (index, variant) in spec.variants.iter().enumerate() {
        let path = format!("variants[{index}].name");
        check_name(&path, &variant.name, &mut faults);
        if spec.variants[..index]
            .iter()
            .any(|v| v.name == variant.name)
        {
            faults.push(fault(
                &path,
                format!("`{}` again", variant.name),
                "another name",
            ));
        }
    }
    let baseline = baseline(&spec, &mut faults);
    refuse(&origin, faults)?;
    let mut variants = Vec::new();
    let mut specs = Vec::new();
    if spec.variants.is_empty() {
        variants.push(variant(&spec, spec.name.clone(), folder, &origin)?);
        specs.push(json.clone());
    }
    for (index, described) in spec.variants.iter().enumerate() {
        let mut base = json.clone();
        if let Value::Object(map) = &mut base {
            map.remove("variants");
            map.remove("baseline");
        }
        let origin = format!("{origin}, variant {}", described.name);
        let place = format!("variants[{index}].set");
        let changed = changed(&base, &origin, &place, &described.set)?;
        variants.push(variant(
            &changed.spec,
            described.name.clone(),
            folder,
            &origin,
        )?);
        specs.push(changed.json);
    }
    Ok(ValidJob {
        title: spec.title.unwrap_or_else(|| spec.name.clone()),
        specs,
        baseline,
        outputs: spec
            .outputs
            .map_or_else(|| Path::new("runs").join(&spec.name), PathBuf::from),
        variants,
        seed: spec.seed,
        json,
    })
}

/// Which variant the others are compared with.
fn baseline(spec: &ScenarioSpec, faults: &mut Vec<Fault>) -> usize {
    let Some(name) = &spec.baseline else { return 0 };
    let names = || spec.variants.iter().map(|v| v.name.as_str());
    names().position(|known| known == name).unwrap_or_else(|| {
        let listed: Vec<&str> = names().collect();
        faults.push(Fault {
            nearest: nearest(name, names()),
            ..fault(
                "baseline",
                format!("`{name}`"),
                match listed.as_slice() {
                    [] => "none: there are no variants".to_owned(),
                    listed => format!("the name of a variant: {}", listed.join(", ")),
                },
            )
        });
        0
    })
}

pub(super) fn variant(
    spec: &ScenarioSpec,
    name: String,
    folder: &Path,
    origin: &str,
) -> Result<ValidVariant, ScenarioError> {
    let mut faults = Vec::new();
    let JobSpec::Training(job) = &spec.job else {
        let wrong = fault("job", "another job".into(), "`training`");
        return Err(refusal(origin, vec![wrong]));
    };
    let mut env = environment(spec, None, (folder, origin), &mut faults)?;
    // Each rank of a training job has a process of its own.
    env.ranks_per_process = spec.ranks_per_process.unwrap_or(1);
    if let Some(price) = spec.dollars_per_gpu_hour
        && !(price.is_finite() && price > 0.0)
    {
        let wrong = fault("dollars_per_gpu_hour", price.to_string(), "more than 0");
        faults.push(wrong);
    }
    refuse(origin, faults)?;
    let Machine {
        topology,
        findings,
        notes,
    } = machine(&spec.topology, spec.nodes, folder, origin)?;
    env.warnings.extend(unknown_interfaces(&topology, &env));
    let gpus = gpus(&topology, spec.gpus_per_node, origin)?;
    let training = Training::new(job, gpus.len() as u32).map_err(|e| refused(origin, e))?;
    check_activations(&training, &topology, &gpus).map_err(|e| refused(origin, e))?;
    let resolved = Faults::resolve(&spec.faults, &topology, &gpus, spec.seed)
        .map_err(|FaultError { problems }| refusal(origin, problems))?;
    if let Some(long) = &spec.long_run {
        // What is wrong with it is to be known before the step is simulated.
        let cluster = cluster(&topology, gpus.len() as u32, Span::from_secs(1));
        if let Err(FaultError { mut problems }) = fabricsim_fault::goodput::Job::new(&cluster, long)
        {
            for problem in &mut problems {
                problem.path = format!("long_run.{}", problem.path);
            }
            refuse(origin, problems)?;
        }
    }
    Ok(ValidVariant {
        warnings: notes
            .iter()
            .cloned()
            .chain(findings.iter().map(ToString::to_string))
            .chain(env.warnings.iter().cloned())
            .collect(),
        notes,
        name,
        topology,
        gpus,
        training,
        faults: resolved,
        env,
        long_run: spec.long_run.clone(),
        price: spec.dollars_per_gpu_hour,
    })
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
    let kept = parts.activations.get().saturating_add(parts.logits.get());
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
fn refused(origin: &str, error: TrainingError) -> ScenarioError {
    match error {
        TrainingError::Faults(list) => {
            let faults = list.into_iter();
            let faults =
                faults.map(|f| fault(&format!("job.training.{}", f.path), f.found, f.expected));
            refusal(origin, faults.collect())
        }
        other => other.into(),
    }
}

/// What a job's long run is of, if a step takes so long.
pub(super) fn cluster(topology: &Topology, gpus: u32, step: Span) -> Cluster {
    let nodes = topology.nodes.len() as u32;
    let gpus_per_node = gpus / nodes.max(1);
    let first = topology.nodes.first();
    Cluster {
        nodes,
        gpus_per_node,
        nics_per_node: first.map_or(gpus_per_node, |node| node.nics.len() as u32),
        nvswitches_per_node: 0,
        step,
    }
}
