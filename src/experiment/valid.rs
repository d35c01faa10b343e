//! An experiment whose every part has been checked, ready to run.

use super::calls::{ValidCalls, calls};
use super::collective::{ValidCollective, collective};
use super::communicator::{ValidCommunicator, communicator};
use super::concurrent::{ValidConcurrent, concurrent};
use super::error::ScenarioError;
use super::job::JobKind;
use super::read::{Scenario, changed};
use super::refusal::{check_length, fault, refusal, refuse};
use super::serving::{ValidServing, serving};
use super::site::{At, Machines};
use super::spec::{JobSpec, ScenarioSpec};
use super::tariff::Tariff;
use super::training::{ValidTraining, training};
use fabricsim_report::sweep::{MOST_NAME, MOST_TITLE, MOST_VARIANTS};
use fabricsim_topology::error::nearest;
use fabricsim_topology::{DeviceId, Fault, Topology};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A checked scenario, with all its variants.
#[derive(Debug)]
pub struct ValidExperiment {
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
#[derive(Debug)]
pub struct ValidVariant {
    /// Its name among those compared; the scenario's if it is the only one.
    pub name: String,
    /// The job with its machine.
    pub job: ValidJob,
    /// What running the machine takes.
    pub tariff: Tariff,
}

/// A job that can be run.
#[derive(Debug)]
pub enum ValidJob {
    /// A collective at several sizes.
    Collective(Box<ValidCollective>),
    /// Steps of a training job.
    Training(Box<ValidTraining>),
    /// Several jobs at once.
    Concurrent(Box<ValidConcurrent>),
    /// A model that answers requests.
    Serving(Box<ValidServing>),
    /// Making communicators.
    Communicator(Box<ValidCommunicator>),
    /// What ranks call.
    Calls(Box<ValidCalls>),
}

impl ValidJob {
    /// What every kind does alike.
    pub(crate) fn kind(&self) -> &dyn JobKind {
        match self {
            ValidJob::Collective(job) => &**job,
            ValidJob::Training(job) => &**job,
            ValidJob::Concurrent(job) => &**job,
            ValidJob::Serving(job) => &**job,
            ValidJob::Communicator(job) => &**job,
            ValidJob::Calls(job) => &**job,
        }
    }
}

impl ValidVariant {
    /// The machine.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        self.job.kind().topology()
    }

    /// The GPUs that take part, each once.
    #[must_use]
    pub fn gpus(&self) -> Vec<DeviceId> {
        self.job.kind().gpus()
    }

    /// Of a machine from a file of another program: what was assumed, left out or read otherwise
    /// than it looks.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.job.kind().notes()
    }

    /// These, what is odd about the machine, and about NCCL's variables.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.job.kind().warnings()
    }
}

impl ValidExperiment {
    /// The notes of all variants, each once.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        once(self.variants.iter().flat_map(ValidVariant::notes))
    }

    /// The warnings of all variants, each once.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        once(self.variants.iter().flat_map(ValidVariant::warnings))
    }

    /// The collective of an experiment that has no other variant.
    #[must_use]
    pub fn only_collective(&self) -> Option<&ValidCollective> {
        match self.variants.as_slice() {
            [only] => match &only.job {
                ValidJob::Collective(job) => Some(job),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Each text once, in the order in which they come.
fn once<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for text in texts {
        if !known.contains(text) {
            known.push(text.clone());
        }
    }
    known
}

/// Checks a scenario and builds the machines of all variants; relative paths start at `folder`.
///
/// # Errors
/// Everything that is wrong with the values of a variant, or with its topology.
pub fn validate(scenario: Scenario, folder: &Path) -> Result<ValidExperiment, ScenarioError> {
    validate_on(&Machines::default(), scenario, folder)
}

/// As [`validate`], with machines that others have built.
///
/// # Errors
/// As [`validate`].
pub fn validate_on(
    machines: &Machines,
    scenario: Scenario,
    folder: &Path,
) -> Result<ValidExperiment, ScenarioError> {
    let Scenario { spec, json, origin } = scenario;
    let mut faults = Vec::new();
    check_name("name", &spec.name, &mut faults);
    let given = spec.title.as_deref().unwrap_or_default();
    check_length("title", given, MOST_TITLE, &mut faults);
    if spec.variants.len() > MOST_VARIANTS {
        let found = format!("{} variants", spec.variants.len());
        let expected = format!(
            "at most {MOST_VARIANTS}: points along axes are run by `fabricsim sweep run --over`"
        );
        return Err(refusal(&origin, vec![fault("variants", found, expected)]));
    }
    for (index, variant) in spec.variants.iter().enumerate() {
        let path = format!("variants[{index}].name");
        check_name(&path, &variant.name, &mut faults);
        let before = &spec.variants[..index];
        if before.iter().any(|other| other.name == variant.name) {
            let found = format!("`{}` again", variant.name);
            faults.push(fault(&path, found, "another name"));
        }
    }
    let baseline = baseline(&spec, &mut faults);
    refuse(&origin, faults)?;
    let mut variants = Vec::new();
    let mut specs = Vec::new();
    if spec.variants.is_empty() {
        let at = At {
            folder,
            origin: &origin,
            machines,
        };
        variants.push(variant(&spec, spec.name.clone(), at)?);
        specs.push(json.clone());
    }
    let mut base = json.clone();
    if let Value::Object(map) = &mut base {
        map.remove("variants");
        map.remove("baseline");
    }
    for (index, described) in spec.variants.iter().enumerate() {
        let origin = format!("{origin}, variant {}", described.name);
        let place = format!("variants[{index}].set");
        let changed = changed(&base, &origin, &place, &described.set)?;
        check_kind(&spec.job, &changed.spec.job, (&origin, &place))?;
        let at = At {
            folder,
            origin: &origin,
            machines,
        };
        variants.push(variant(&changed.spec, described.name.clone(), at)?);
        specs.push(changed.json);
    }
    let title = spec
        .title
        .clone()
        .unwrap_or_else(|| title(&spec, &variants));
    Ok(ValidExperiment {
        title,
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

/// What an experiment is called that has no title: what it does on which machine, of a collective
/// alone; else its name.
fn title(spec: &ScenarioSpec, variants: &[ValidVariant]) -> String {
    match variants {
        [
            ValidVariant {
                job: ValidJob::Collective(job),
                ..
            },
        ] => job.title.clone(),
        _ => spec.name.clone(),
    }
}

/// One job with its machine.
fn variant(spec: &ScenarioSpec, name: String, at: At<'_>) -> Result<ValidVariant, ScenarioError> {
    let tariff = Tariff::of(spec, at.origin)?;
    if let (Some(_), false) = (spec.isolation, matches!(spec.job, JobSpec::Concurrent(_))) {
        let found = format!("isolation of a job of the kind `{}`", spec.job.kind());
        let wrong = fault(
            "isolation",
            found,
            "none: it is between jobs of `job.concurrent`",
        );
        return Err(refusal(at.origin, vec![wrong]));
    }
    let job = match &spec.job {
        JobSpec::Collective(job) => ValidJob::Collective(Box::new(collective(spec, job, at)?)),
        JobSpec::Training(job) => ValidJob::Training(Box::new(training(spec, job, at)?)),
        JobSpec::Concurrent(jobs) => ValidJob::Concurrent(Box::new(concurrent(spec, jobs, at)?)),
        JobSpec::Serving(job) => ValidJob::Serving(Box::new(serving(spec, job, at)?)),
        JobSpec::Calls(job) => ValidJob::Calls(Box::new(calls(spec, job, at)?)),
        JobSpec::Communicator(job) => {
            ValidJob::Communicator(Box::new(communicator(spec, job, at)?))
        }
        JobSpec::Stream(_) => {
            let found = "a job of the kind `stream`";
            let expected = "a stream is traffic beside other jobs: one of `job.concurrent`";
            let wrong = fault("job", found.into(), expected);
            return Err(refusal(at.origin, vec![wrong]));
        }
    };
    Ok(ValidVariant { name, job, tariff })
}

/// Variants have the same kind of job: others have nothing to be compared by.
fn check_kind(
    base: &JobSpec,
    job: &JobSpec,
    (origin, place): (&str, &str),
) -> Result<(), ScenarioError> {
    if base.kind() == job.kind() {
        return Ok(());
    }
    let found = format!("a job of the kind `{}`", job.kind());
    let expected = format!("`{}`, which the scenario has", base.kind());
    Err(refusal(origin, vec![fault(place, found, expected)]))
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
fn check_name(path: &str, name: &str, faults: &mut Vec<Fault>) {
    check_length(path, name, MOST_NAME, faults);
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
