//! A collective whose every part has been checked, ready to run.

use crate::error::ScenarioError;
use crate::refusal::{fault, refuse};
use crate::site::{At, Site, environment};
use crate::spec::{CollectiveSpec, ScenarioSpec, SizesSpec};
use fabricsim_collective::{Collective, MscclAlgorithm};
use fabricsim_fault::Faults;
use fabricsim_nccl::{Env, Forced};
use fabricsim_topology::{DeviceId, Fault, Topology, load};
use fabricsim_units::Bytes;
use std::path::Path;
use std::sync::Arc;

/// A checked collective.
#[derive(Debug, Clone)]
pub struct ValidCollective {
    /// For people.
    pub title: String,
    /// The machine.
    pub topology: Arc<Topology>,
    /// What is odd about it, and about NCCL's variables.
    pub warnings: Vec<String>,
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
    /// The size (an index) that is recorded, if anything is.
    pub traced: Option<usize>,
    /// What goes wrong.
    pub faults: Faults,
    /// NCCL's variables.
    pub env: Env,
    /// The seed.
    pub seed: u64,
}

/// More sizes than anyone reads.
const MOST_SIZES: usize = 10_000;

/// Checks a collective and builds its machine.
///
/// # Errors
/// Everything that is wrong with the values of its scenario, or with its topology.
pub(crate) fn collective(
    spec: &ScenarioSpec,
    job: &CollectiveSpec,
    at: At<'_>,
) -> Result<ValidCollective, ScenarioError> {
    let At { folder, origin, .. } = at;
    let mut faults = Vec::new();
    let place = "job.collective";
    let sizes = sizes(&job.sizes, &format!("{place}.sizes"), &mut faults);
    let traced = traced(job, &sizes, &mut faults);
    refuse(origin, faults)?;
    let mut faults = Vec::new();
    let mut env = environment(spec, job.registered, (folder, origin), &mut faults)?;
    env.cuda_graph = job.cuda_graph;
    env.partly_registered = !job.unregistered.is_empty();
    if env.partly_registered && env.registered.is_none() {
        let expected = "nothing, for no rank's buffers are: say `registered` as well";
        let ranks = &job.unregistered;
        faults.push(fault(
            &format!("{place}.unregistered"),
            format!("{ranks:?}"),
            expected,
        ));
    }
    check_matrix(job, place, &mut faults);
    refuse(origin, faults)?;
    let msccl = match &job.algorithm_file {
        None => None,
        Some(file) => Some(msccl(&folder.join(file), job.name)?),
    };
    let machine = at.machines.of(spec, folder, origin)?;
    let mut faults = Vec::new();
    check_memory(
        &sizes,
        &machine.topology,
        &format!("{place}.sizes"),
        &mut faults,
    );
    refuse(origin, faults)?;
    let Site {
        topology,
        notes,
        warnings,
        gpus,
        faults,
        env,
    } = machine.with(spec, env, origin)?;
    if let Some(rank) = job.unregistered.iter().find(|&&r| r as usize >= gpus.len()) {
        let expected = format!("ranks below {}, those that take part", gpus.len());
        let wrong = fault(&format!("{place}.unregistered"), rank.to_string(), expected);
        refuse(origin, vec![wrong])?;
    }
    Ok(ValidCollective {
        title: format!("{} on {}", job.name, topology.title),
        topology,
        warnings,
        notes,
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
        faults,
        env,
        seed: spec.seed,
    })
}

/// No size, which stands at this place, is larger than a GPU's memory.
pub(crate) fn check_memory(sizes: &[u64], topology: &Topology, at: &str, faults: &mut Vec<Fault>) {
    let memory = topology
        .gpus()
        .filter_map(|gpu| topology.gpu_model(gpu))
        .map(|model| model.memory.value)
        .min();
    if let Some(memory) = memory
        && let Some(&large) = sizes.iter().find(|&&size| size > memory.get())
    {
        let most = memory.get() as f64 / f64::from(1 << 30);
        faults.push(fault(
            at,
            Bytes::new(large).to_string(),
            format!("sizes that fit a GPU's memory of {most:.1} GiB"),
        ));
    }
}

/// Reads an algorithm's file; it has to be for the collective.
pub(crate) fn msccl(path: &Path, collective: Collective) -> Result<MscclAlgorithm, ScenarioError> {
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

/// A matrix is of an all-to-all-v and square.
pub(crate) fn check_matrix(job: &CollectiveSpec, at: &str, faults: &mut Vec<Fault>) {
    let Some(rows) = &job.matrix else { return };
    let at = &format!("{at}.matrix");
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

/// The sizes that are meant, as nccl-tests goes through them.
pub(crate) fn sizes(spec: &SizesSpec, at: &str, faults: &mut Vec<Fault>) -> Vec<u64> {
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
