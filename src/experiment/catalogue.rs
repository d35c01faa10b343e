//! The scenarios that the program carries with it.

use super::error::ScenarioError;
use super::read::{Scenario, changed, parse, read};
use super::spec::{ScenarioSpec, TopologyRef};
use fabricsim_topology::error::candidates;
use fabricsim_topology::load::from_json;
use fabricsim_workload::model::presets;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A shipped scenario: its name and its text.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".json")))),*]
    };
}

/// Every shipped scenario, in the order in which `scenario list` shows them: collectives, then
/// training, then serving. A test holds that none of them refers to another file, so that a copy is whole.
const SHIPPED: &[(&str, &str)] = shipped![
    "allreduce-dgx-h100",
    "allreduce-superpod-4-nodes",
    "nvls-tree-16-nodes",
    "allreduce-bad-nic",
    "allgather-x86-h100-pcie",
    "alltoall-64-gpus",
    "ddp-buckets",
    "ddp-straggler",
    "sharp-vs-ring-32-nodes",
    "fsdp-70b-32gpu",
    "nic-flap",
    "moe-alltoall",
    "gpt3-175b-tp8-pp4-dp8",
    "nvl72-vs-dgx-h100-llama3-70b",
    "llama3-405b-16k",
    "two-jobs",
    "noisy-neighbour",
    "serve-split-llama3-70b",
    "serve-deepseek-v3",
    "serve-routing",
    "serve-beside-training",
    "kv-offload",
    "handover-storm",
];

/// The names of the shipped scenarios.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    SHIPPED.iter().map(|&(name, _)| name)
}

/// The text of a shipped scenario.
///
/// # Errors
/// [`ScenarioError::UnknownName`], with the closest names, if none is called that.
pub fn text(name: &str) -> Result<&'static str, ScenarioError> {
    let found = SHIPPED.iter().find(|&&(known, _)| known == name);
    found
        .map(|&(_, text)| text)
        .ok_or_else(|| ScenarioError::UnknownName {
            name: name.to_owned(),
            candidates: candidates(name, names()),
        })
}

/// Reads a scenario by its path or, if there is no such file, by its shipped name, and applies
/// `overrides` as [`read`] does. With it comes the folder that relative paths in it start at: the
/// file's, or the current one.
///
/// Text that ends in `.json` or holds a `/` is always a path.
///
/// # Errors
/// [`ScenarioError::UnknownName`], or as [`read`].
pub fn find(
    path_or_name: &Path,
    overrides: &[String],
) -> Result<(Scenario, PathBuf), ScenarioError> {
    match shipped_name(path_or_name) {
        Some(name) => Ok((parse(text(name)?, name, overrides)?, PathBuf::new())),
        None if path_or_name.is_dir() => Err(of_folder(path_or_name)),
        None => {
            let folder = path_or_name.parent().unwrap_or(Path::new(""));
            let scenario = read(path_or_name, overrides)?;
            Ok((scenario, folder.to_owned()))
        }
    }
}

/// A folder where a scenario belongs.
fn of_folder(folder: &Path) -> ScenarioError {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let json = paths.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    ScenarioError::Folder {
        path: folder.display().to_string(),
        results: folder.join("summary.json").is_file(),
        file: json.min().map(|path| path.display().to_string()),
    }
}

/// The error of a name where scenarios and models are both known: it names what is nearest of either.
#[must_use]
pub fn unknown_job(name: &str) -> ScenarioError {
    let mut near = candidates(name, presets::names());
    near.extend(candidates(name, names()));
    ScenarioError::UnknownJob {
        name: name.to_owned(),
        candidates: near,
    }
}

/// The text as the name of a shipped scenario; nothing if it is a path.
fn shipped_name(text: &Path) -> Option<&str> {
    let name = text.to_str()?;
    let looks_so = name.contains(['/', '\\']) || name.ends_with(".json");
    // Results may lie in a folder of the scenario's name.
    let folder_beside = text.is_dir() && names().any(|known| known == name);
    (!looks_so && (folder_beside || !text.exists())).then_some(name)
}

/// What `scenario list` says of a shipped scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// `collective`, `training` or `concurrent`.
    pub job: &'static str,
    /// Of a collective: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collective: Option<&'static str>,
    /// Of a job: the model, if it is one of the known ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The machines of its variants, each once.
    pub machines: Vec<Machine>,
    /// How many variants it compares; 0 for a single run.
    pub variants: usize,
    /// One line for people.
    pub title: String,
}

/// A machine that a scenario runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// A shipped topology.
    pub topology: String,
    /// So many nodes in place of what the topology says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
}

/// What there is to say of each shipped scenario.
///
/// # Errors
/// None: a test reads the files that are part of the program.
pub fn entries() -> Result<Vec<Entry>, ScenarioError> {
    SHIPPED
        .iter()
        .map(|&(name, text)| entry(name, text))
        .collect()
}

fn entry(name: &'static str, text: &str) -> Result<Entry, ScenarioError> {
    let specs = with_variants(name, text)?;
    let base = &specs[0];
    let mut machines: Vec<Machine> = Vec::new();
    // With variants the scenario itself is not run.
    for spec in specs.iter().skip(usize::from(specs.len() > 1)) {
        let machine = Machine {
            topology: match &spec.topology {
                TopologyRef::Name(name) | TopologyRef::Path(name) => name.clone(),
                TopologyRef::Inline(spec) => spec.name.clone(),
            },
            nodes: spec.nodes,
        };
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    Ok(Entry {
        name,
        job: base.job.kind(),
        collective: base.job.collective().map(|job| job.name.name()),
        model: base.job.model().map(str::to_owned),
        machines,
        variants: base.variants.len(),
        title: base.title.clone().unwrap_or_else(|| name.to_owned()),
    })
}

/// What a scenario's text says, and then what each of its variants says.
fn with_variants(name: &str, text: &str) -> Result<Vec<ScenarioSpec>, ScenarioError> {
    let spec: ScenarioSpec = from_json(text, name)?;
    let json: Value = from_json(text, name)?;
    let variants: Vec<_> = spec.variants.iter().map(|variant| &variant.set).collect();
    let changed = variants.into_iter().map(|set| {
        let scenario = changed(&json, name, "variants", set)?;
        Ok(scenario.spec)
    });
    let changed: Vec<ScenarioSpec> = changed.collect::<Result<_, ScenarioError>>()?;
    Ok(std::iter::once(spec).chain(changed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_the_folder_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let entries = std::fs::read_dir(folder).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        // Sweeps have a folder and a list of their own.
        let files = files.filter(|path| path.is_file());
        let files = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
        let files: BTreeSet<String> = files.collect();
        let known: BTreeSet<String> = names().map(str::to_owned).collect();
        assert_eq!(known, files);
        assert_eq!(SHIPPED.len(), files.len());
    }

    /// What the program carries is the scenario's file alone: a copy of it works anywhere.
    #[test]
    fn shipped_scenarios_refer_to_no_other_file() {
        for &(name, text) in SHIPPED {
            for spec in with_variants(name, text).unwrap_or_else(|e| panic!("{e}")) {
                assert_eq!(spec.name, name);
                assert!(!matches!(spec.topology, TopologyRef::Path(_)), "{name}");
                if let Some(job) = spec.job.collective() {
                    assert_eq!(job.algorithm_file, None, "{name}");
                }
                let files = spec.environment.keys().filter(|key| key.ends_with("_FILE"));
                assert_eq!(files.count(), 0, "{name}");
                assert_eq!(spec.outputs, None, "{name}");
            }
        }
    }

    #[test]
    fn an_entry_says_what_runs_where() {
        let entries = entries().unwrap_or_else(|e| panic!("{e}"));
        let of = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap();
        let machine = |topology: &str, nodes| Machine {
            topology: topology.to_owned(),
            nodes,
        };
        let first = of("allreduce-dgx-h100");
        assert_eq!(first.collective, Some("all-reduce"));
        assert_eq!(first.machines, [machine("dgx-h100", None)]);
        let two = of("nvl72-vs-dgx-h100-llama3-70b");
        assert_eq!((two.job, two.variants), ("training", 3));
        assert_eq!(two.model.as_deref(), Some("llama3-70b"));
        let both = [
            machine("dgx-h100", Some(9)),
            machine("gb200-nvl72", Some(18)),
        ];
        assert_eq!(two.machines, both);
    }

    #[test]
    fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
        let error = find(Path::new("dpp-buckets"), &[]).unwrap_err().to_string();
        assert!(error.contains("did you mean `ddp-buckets`?"), "{error}");
        assert!(error.contains("scenario list"), "{error}");
        let error = find(Path::new("ddp-buckets.json"), &[]).unwrap_err();
        assert!(matches!(error, ScenarioError::Input(_)), "{error}");
    }
}
