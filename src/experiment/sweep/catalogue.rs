//! The sweeps that the program carries with it.

use super::spec::{SweepSpec, parse_sweep};
use crate::error::ScenarioError;
use fabricsim_topology::error::candidates;
use serde::Serialize;

/// A shipped sweep: its name and its text.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../scenarios/sweeps/", $name, ".json")))),*]
    };
}

/// Every shipped sweep, in the order in which `sweep list` shows them: collectives, then jobs. A test
/// holds that none of them refers to another file, so that a copy is whole.
const SHIPPED: &[(&str, &str)] = shipped![
    "crossover",
    "oversubscription",
    "buckets",
    "layouts-llama3-70b",
    "straggler",
    "checkpoints",
    "split-or-not",
    "thousand-points",
];

/// The names of the shipped sweeps.
pub fn sweep_names() -> impl Iterator<Item = &'static str> + Clone {
    SHIPPED.iter().map(|&(name, _)| name)
}

/// The text of a shipped sweep.
///
/// # Errors
/// [`ScenarioError::UnknownSweep`], with the closest names, if none is called that.
pub fn sweep_text(name: &str) -> Result<&'static str, ScenarioError> {
    let found = SHIPPED.iter().find(|&&(known, _)| known == name);
    found
        .map(|&(_, text)| text)
        .ok_or_else(|| ScenarioError::UnknownSweep {
            name: name.to_owned(),
            candidates: candidates(name, sweep_names()),
        })
}

/// What `sweep list` says of a shipped sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SweepEntry {
    /// Its name.
    pub name: &'static str,
    /// Names of its axes; of one with parts those of all parts, each once.
    pub axes: Vec<String>,
    /// One line for people.
    pub title: String,
}

/// What there is to say of each shipped sweep.
///
/// # Errors
/// None: a test reads the files that are part of the program.
pub fn sweep_entries() -> Result<Vec<SweepEntry>, ScenarioError> {
    SHIPPED
        .iter()
        .map(|&(name, text)| Ok(entry(name, &parse_sweep(text, name)?)))
        .collect()
}

fn entry(name: &'static str, spec: &SweepSpec) -> SweepEntry {
    let mut axes: Vec<String> = Vec::new();
    for axis in spec.parts().iter().flat_map(|part| &part.axes) {
        if let Some(name) = axis.name.as_ref().or(axis.path.as_ref())
            && !axes.contains(name)
        {
            axes.push(name.clone());
        }
    }
    SweepEntry {
        name,
        axes,
        title: spec.title.clone().unwrap_or_else(|| name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machines;
    use crate::catalogue;
    use crate::spec::TopologyRef;
    use crate::sweep::{BaseRef, Sweep};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_file_of_the_folder_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            path.file_stem().unwrap().to_str().unwrap().to_owned()
        });
        let files: BTreeSet<String> = files.collect();
        let known: BTreeSet<String> = sweep_names().map(str::to_owned).collect();
        assert_eq!(known, files);
        assert_eq!(SHIPPED.len(), files.len());
        // `sweep run NAME` takes both.
        let both = catalogue::names().filter(|name| known.contains(*name));
        assert_eq!(both.count(), 0);
    }

    #[test]
    fn shipped_sweeps_are_right_and_refer_to_no_other_file() {
        for &(name, text) in SHIPPED {
            let spec = parse_sweep(text, name).unwrap();
            assert_eq!(spec.name, name);
            for part in spec.parts() {
                match part.base {
                    BaseRef::Path(path) => panic!("{name}: {path}"),
                    BaseRef::Name(_) => {}
                    BaseRef::Inline(base) => {
                        assert!(matches!(base.topology, TopologyRef::Name(_)), "{name}");
                    }
                }
            }
            let sweep = Sweep::new(spec, (Path::new(""), name), 10_000).unwrap();
            let info = sweep
                .info(None, &Machines::default(), (name, "build"))
                .unwrap();
            assert!(info.points > 1, "{name}");
        }
    }
}
