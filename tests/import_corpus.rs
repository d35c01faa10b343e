//! Real files, where the folder with them stands beside the project.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::topology::import::{ImportOptions, Imported, import};
use fabricsim::topology::{NodeId, Overrides, Topology, catalogue, expand, export, paths};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of a folder beside the project; none, with a line that says so, if there is none.
fn corpus(folder: &str, ending: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        println!("skipped: there is no ../shared/{folder}");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn read(text: &str) -> Result<Imported, String> {
    let options = ImportOptions::default();
    import(text, "corpus", "FILE", &options, catalogue::hardware())
        .map_err(|error| error.to_string())
}

fn machine(imported: &Imported) -> Topology {
    expand(&imported.spec, catalogue::hardware(), &Overrides::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn assert_same(again: &Imported, first: &Imported, file: &str) {
    let (again, first) = (export::to_json(&again.spec), export::to_json(&first.spec));
    let differs = again.lines().zip(first.lines()).find(|(a, b)| a != b);
    assert!(again == first, "{file}: {differs:?}");
}

/// Why a file is refused, and which files may be.
const REFUSALS: &[(&str, &str)] = &[
    ("AMD GPUs", "there are no AMD GPUs among the models"),
    ("graph file", "a topology file (`<system>`)"),
    ("no `class`", "without `class`"),
    ("no GPU model", "a GPU that there is a model of"),
];

#[test]
fn every_topology_xml_is_imported_or_refused_for_a_reason_and_comes_back_the_same() {
    let mut refused: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut imported = Vec::new();
    for path in corpus("nccl-topologies", "xml") {
        let text = std::fs::read_to_string(&path).unwrap();
        match read(&text) {
            Ok(first) => {
                let topology = machine(&first);
                let xml = export::nccl_xml(&topology, NodeId(0))
                    .unwrap_or_else(|error| panic!("{}: {error}", name(&path)));
                let again = read(&xml).unwrap_or_else(|error| panic!("{}: {error}", name(&path)));
                assert_same(&again, &first, &name(&path));
                imported.push((name(&path), first));
            }
            Err(error) => {
                let class = REFUSALS.iter().find(|(_, words)| error.contains(words));
                let (class, _) = class.unwrap_or_else(|| panic!("{}: {error}", name(&path)));
                refused.entry(class).or_default().push(name(&path));
            }
        }
    }
    println!("imported: {}", imported.len());
    for (file, imported) in &imported {
        println!("  {file}: {}", imported.spec.title);
        for note in &imported.notes {
            println!("      {note}");
        }
    }
    for (class, files) in &refused {
        println!(
            "refused, {class}: {}\n  {}",
            files.len(),
            files.join("\n  ")
        );
    }
}

#[test]
fn every_smi_matrix_is_imported_and_printed_again_cell_by_cell() {
    for path in corpus("nvidia-smi-topo", "txt") {
        let text = std::fs::read_to_string(&path).unwrap();
        match read(&text) {
            Ok(first) => {
                let topology = machine(&first);
                let matrix = paths::matrix(&topology, NodeId(0));
                println!("{}: {}\n{matrix}", name(&path), first.spec.title);
                let smi = export::smi(&topology, NodeId(0));
                let again = read(&smi).unwrap_or_else(|error| panic!("{}: {error}", name(&path)));
                assert_same(&again, &first, &name(&path));
            }
            Err(error) => println!("{}: {error}", name(&path)),
        }
    }
}
