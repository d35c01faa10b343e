//! A scenario whose every part has been checked, ready to run.

use super::error::ScenarioError;
use super::read::Scenario;
use super::refusal::{fault, refusal, refuse};
use super::spec::{CollectiveSpec, JobSpec, ScenarioSpec, SizesSpec, TopologyRef};
use fabricsim_collective::{Collective, MscclAlgorithm};
use fabricsim_fault::{FaultError, Faults};
use fabricsim_nccl::{
    Communicator, Env, Forced, GraphFile, NcclError, Registration, unknown_interfaces,
};
use fabricsim_topology::{
    DeviceId, Fault, Finding, Overrides, Topology, TopologyError, catalogue, expand_and_check, load,
};
use fabricsim_units::Bytes;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A checked scenario.
#[derive(Debug, Clone)]
pub struct ValidSpec {
    /// For people.
    pub title: String,
    /// The machine.
    pub topology: Topology,
    /// What is odd about the machine.
    pub findings: Vec<Finding>,
    /// Of a machine from a file of another program: what was assumed, left out or read otherwise
    /// than it looks.
    pub notes: Vec<String>,
    /// The GPUs that take part, by rank.
    pub gpus: Vec<DeviceId>,
    /// The collective.
    pub collective: Collective,
    /// Sizes as asked for, all above zero and none larger than a GPU's memory.
    pub sizes: Vec<u64>,
    /// What is forced in place of NCCL's choice.
    pub forced: Forced,
    /// One cold operation in place of back-to-back ones.
    pub isolated: bool,
    /// Tell why NCCL chooses what it does.
    pub why: bool,
    /// In place of NCCL's choice.
    pub msccl: Option<MscclAlgorithm>,
    /// Of an all-to-all-v: relative amounts.
    pub matrix: Option<Vec<Vec<f64>>>,
    /// The size (an index) that is recorded.
    pub traced: Option<usize>,
    /// What goes wrong.
    pub faults: Faults,
    /// NCCL's variables.
    pub env: Env,
    /// The seed.
    pub seed: u64,
    /// Where results go.
    pub outputs: PathBuf,
    /// The scenario as JSON.
    pub json: Value,
}

/// More sizes than anyone reads.
const MOST_SIZES: usize = 10_000;

/// Checks a scenario and builds its machine; a relative topology path starts at `folder`.
///
/// # Errors
/// Everything that is wrong with the scenario's values, or with its topology.
pub fn validate(scenario: Scenario, folder: &Path) -> Result<ValidSpec, ScenarioError> {
    let Scenario { spec, json, origin } = scenario;
    let mut faults = Vec::new();
    let JobSpec::Collective(job) = &spec.job else {
        let wrong = fault("job", "another job".into(), "`collective`");
        return Err(refusal(&origin, vec![wrong]));
    };
    check_name("name", &spec.name, &mut faults);
    if !spec.variants.is_empty() {
        faults.push(fault(
            "variants",
            "variants of a collective".into(),
            "none: they are of jobs",
        ));
    }
    if let Some(name) = &spec.baseline {
        let found = format!("`{name}`");
        faults.push(fault("baseline", found, "none: there are no variants"));
    }
    let sizes = sizes(&job.sizes, "job.collective.sizes", &mut faults);
    let traced = traced(job, &sizes, &mut faults);
    refuse(&origin, faults)?;
    let mut faults = Vec::new();
    let mut env = environment(&spec, job.registered, (folder, &origin), &mut faults)?;
    check_matrix(job, &mut faults);
    refuse(&origin, faults)?;
    let msccl = match &job.algorithm_file {
        None => None,
        Some(file) => Some(msccl(&folder.join(file), job.name)?),
    };

    let Machine {
        topology,
        findings,
        notes,
    } = machine(&spec.topology, spec.nodes, folder, &origin)?;
    env.warnings.extend(unknown_interfaces(&topology, &env));
    let memory = topology
        .gpus()
        .filter_map(|gpu| topology.gpu_model(gpu))
        .map(|model| model.memory.value)
        .min();
    if let Some(memory) = memory
        && let Some(&large) = sizes.iter().find(|&&size| size > memory.get())
    {
        let most = memory.get() as f64 / f64::from(1 << 30);
        let wrong = fault(
            "job.collective.sizes",
            Bytes::new(large).to_string(),
            format!("sizes that fit a GPU's memory of {most:.1} GiB"),
        );
        return Err(refusal(&origin, vec![wrong]));
    }
    let gpus = gpus(&topology, spec.gpus_per_node, &origin)?;
    let disturbed = Faults::resolve(&spec.faults, &topology, &gpus, spec.seed)
        .map_err(|FaultError { problems }| refusal(&origin, problems))?;
    let title = spec
        .title
        .unwrap_or_else(|| format!("{} on {}", job.name, topology.title));
    let outputs = spec
        .outputs
        .map_or_else(|| Path::new("runs").join(&spec.name), PathBuf::from);
    Ok(ValidSpec {
        title,
        findings,
        notes,
        topology,
        gpus,
        collective: job.name,
        sizes,
        forced: Forced {
            algorithm: job.algorithm,
            protocol: job.protocol,
        },
        isolated: job.isolated,
        why: job.why,
        msccl,
        matrix: job.matrix.clone(),
        traced,
        faults: disturbed,
        env,
        seed: spec.seed,
        outputs,
        json,
    })
}

/// The GPUs of a scenario, by rank.
///
/// # Errors
/// A node with fewer.
pub(super) fn gpus(
    topology: &Topology,
    gpus_per_node: Option<u32>,
    origin: &str,
) -> Result<Vec<DeviceId>, ScenarioError> {
    Communicator::gpus_of(topology, gpus_per_node).map_err(|error| match error {
        NcclError::GpusPerNode { asked, node, has } => {
            let (nodes, all) = (topology.nodes.len(), topology.gpus().count());
            let each = match nodes {
                1 => String::new(),
                _ => format!(
                    ", for each of the {nodes} nodes alike; without it all {all} GPUs take part"
                ),
            };
            let expected = format!("1 to {has}, the GPUs of {node}{each}");
            let wrong = fault("gpus_per_node", asked.to_string(), expected);
            refusal(origin, vec![wrong])
        }
        other => other.into(),
    })
}

/// NCCL's environment of a scenario that is read from `origin` in `folder`.
pub(super) fn environment(
    spec: &ScenarioSpec,
    registered: Option<Registration>,
    (folder, origin): (&Path, &str),
    faults: &mut Vec<Fault>,
) -> Result<Env, ScenarioError> {
    let variables = spec.environment.iter();
    let mut env = Env::parse(variables.map(|(name, value)| (name.as_str(), value.0.as_str())))
        .map_err(|error| error.in_file(&format!("{origin}, at environment.")))?;
    env.register(registered);
    if let Some(path) = &env.graph_file {
        let path = folder.join(path);
        let text = load::read_text(&path).map_err(|error| NcclError::Env {
            name: "NCCL_GRAPH_FILE".into(),
            value: path.display().to_string(),
            problem: error.to_string(),
        })?;
        env.graph = Some(GraphFile::parse(&text, &path.display().to_string())?);
    }
    match spec.ranks_per_process {
        None => {}
        Some(0) => faults.push(fault("ranks_per_process", "0".into(), "1 or more")),
        Some(ranks) => env.ranks_per_process = ranks,
    }
    if let Some(text) = &spec.nccl_version {
        match text.parse() {
            Ok(version) => env.version = version,
            Err(_) => faults.push(fault(
                "nccl_version",
                format!("`{text}`"),
                "a release of NCCL from 2.12 on, such as 2.27 or 2.29.7",
            )),
        }
    }
    Ok(env)
}

/// Reads an algorithm's file; it has to be for the collective.
fn msccl(path: &Path, collective: Collective) -> Result<MscclAlgorithm, ScenarioError> {
    let refused = |problem: String| ScenarioError::AlgorithmFile {
        path: path.display().to_string(),
        problem,
    };
    let text = load::read_text(path)?;
    let algorithm = MscclAlgorithm::parse(&text).map_err(|e| refused(e.to_string()))?;
    if algorithm.collective == collective {
        Ok(algorithm)
    } else {
        Err(refused(format!(
            "is for {}, but the job is {collective}",
            algorithm.collective
        )))
    }
}

fn check_matrix(job: &CollectiveSpec, faults: &mut Vec<Fault>) {
    let Some(rows) = &job.matrix else { return };
    let at = "job.collective.matrix";
    if job.name != Collective::AllToAllV {
        let found = format!("a matrix for {}", job.name);
        faults.push(fault(at, found, "none, or `all-to-all-v`"));
    }
    for (i, row) in rows.iter().enumerate() {
        if row.len() != rows.len() {
            let found = format!("{} entries", row.len());
            let expected = format!("{}, as many as there are rows", rows.len());
            faults.push(fault(&format!("{at}[{i}]"), found, expected));
        }
        if let Some(bad) = row.iter().find(|v| !v.is_finite() || **v < 0.0) {
            faults.push(fault(&format!("{at}[{i}]"), bad.to_string(), "0 or more"));
        }
    }
}

/// A machine, and what is worth knowing of it.
pub(super) struct Machine {
    pub(super) topology: Topology,
    pub(super) findings: Vec<Finding>,
    /// Of a file of another program: what was assumed.
    pub(super) notes: Vec<String>,
}

/// The machine of a scenario.
pub(super) fn machine(
    topology: &TopologyRef,
    nodes: Option<u32>,
    folder: &Path,
    origin: &str,
) -> Result<Machine, TopologyError> {
    let read;
    let mut notes = Vec::new();
    let (spec, name) = match topology {
        TopologyRef::Name(name) => {
            read = catalogue::find(name).map_err(|e| e.at(origin, "topology.name"))?;
            (&read, name.clone())
        }
        TopologyRef::Path(path) => {
            let path = folder.join(path);
            let found = load::read(&path)?;
            (read, notes) = (found.spec, found.notes);
            (&read, path.display().to_string())
        }
        TopologyRef::Inline(spec) => (&**spec, format!("{origin}, topology.inline")),
    };
    let (topology, findings) = expand_and_check(spec, catalogue::hardware(), &Overrides { nodes })
        .map_err(|error| match nodes {
            Some(nodes) => error.with_origin(&format!("{origin}, with {nodes} nodes of {name}")),
            None => error.with_origin(&name),
        })?;
    Ok(Machine {
        topology,
        findings,
        notes,
    })
}

/// Whether Windows takes a name for a device, whatever stands behind its first dot ("Naming Files,
/// Paths, and Namespaces" of its documentation).
fn is_device(name: &str) -> bool {
    let stem = name
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_uppercase();
    let numbered = |device: &str| {
        let number = stem.strip_prefix(device);
        number.is_some_and(|number| number.len() == 1 && number.as_bytes()[0].is_ascii_digit())
    };
    ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str()) || numbered("COM") || numbered("LPT")
}

/// Names become folders, so they hold nothing that a path gives a meaning to.
pub(super) fn check_name(path: &str, name: &str, faults: &mut Vec<Fault>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(plain) {
        faults.push(fault(
            path,
            format!("`{name}`"),
            "letters, digits, `-`, `_` and `.`, not starting with `.` or `-`",
        ));
    } else if is_device(name) || name.ends_with('.') {
        faults.push(fault(
            path,
            format!("`{name}`, which names no folder on Windows"),
            "a name that every system takes for a folder",
        ));
    }
}

/// The sizes that are meant, as nccl-tests goes through them.
fn sizes(spec: &SizesSpec, at: &str, faults: &mut Vec<Fault>) -> Vec<u64> {
    let before = faults.len();
    let mut wrong = |field: &str, found: String, expected: &str| {
        faults.push(fault(&format!("{at}{field}"), found, expected));
    };
    if let Some(list) = &spec.list {
        if spec.from.is_some() || spec.to.is_some() || spec.factor.is_some() || spec.step.is_some()
        {
            wrong(".list", "a list and a range".into(), "one of the two");
        }
        if list.is_empty() || list.len() > MOST_SIZES {
            let found = format!("{} sizes", list.len());
            wrong(".list", found, &format!("1 to {MOST_SIZES} sizes"));
        }
        if let Some(place) = list.iter().position(|&size| size == Bytes::ZERO) {
            wrong(&format!(".list[{place}]"), "0B".into(), "at least 1B");
        }
        return list.iter().map(|size| size.get()).collect();
    }
    let (Some(from), Some(to)) = (spec.from, spec.to) else {
        let found = match (spec.from, spec.to) {
            (None, None) => "neither",
            (Some(_), _) => "no `to`",
            (None, Some(_)) => "no `from`",
        };
        wrong("", found.into(), "`from` and `to`, or a `list`");
        return Vec::new();
    };
    if from == Bytes::ZERO {
        wrong(".from", "0B".into(), "at least 1B");
    }
    if to < from {
        wrong(".to", to.to_string(), &format!("at least `from`, {from}"));
    }
    match (spec.factor, spec.step) {
        (Some(_), Some(_)) => wrong(".step", "a step and a factor".into(), "one of the two"),
        (Some(factor @ (0 | 1)), None) => wrong(".factor", factor.to_string(), "at least 2"),
        (None, Some(Bytes::ZERO)) => wrong(".step", "0B".into(), "at least 1B"),
        _ => {}
    }
    let next = |size: u64| match spec.step {
        Some(step) => size.checked_add(step.get()),
        None => size.checked_mul(spec.factor.unwrap_or(2)),
    };
    if faults.len() > before {
        return Vec::new();
    }
    let sizes: Vec<u64> = std::iter::successors(Some(from.get()), |&size| next(size))
        .take_while(|&size| size <= to.get())
        .take(MOST_SIZES + 1)
        .collect();
    if sizes.len() > MOST_SIZES {
        faults.push(fault(
            &format!("{at}.step"),
            format!("more than {MOST_SIZES} sizes"),
            format!("a step that leaves at most {MOST_SIZES}"),
        ));
    }
    sizes
}

/// The index of the size that is recorded: the one asked for, or the (first) largest.
fn traced(job: &CollectiveSpec, sizes: &[u64], faults: &mut Vec<Fault>) -> Option<usize> {
    match job.trace {
        None => {
            let largest = sizes.iter().max()?;
            sizes.iter().position(|size| size == largest)
        }
        Some(asked) => {
            let found = sizes.iter().position(|&size| size == asked.get());
            if found.is_none() && !sizes.is_empty() {
                let near = sizes.iter().min_by_key(|&&size| size.abs_diff(asked.get()));
                let near = near.map_or(Bytes::ZERO, |&size| Bytes::new(size));
                faults.push(fault(
                    "job.collective.trace",
                    asked.to_string(),
                    format!("one of the sizes, such as {near}"),
                ));
            }
            found
        }
    }
}
