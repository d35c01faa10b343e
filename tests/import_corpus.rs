//! Real files, where the folder with them stands beside the project.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::nccl::GraphFile;
use fabricsim::topology::import::{ImportOptions, Imported, import};
use fabricsim::topology::{
    DeviceModel, NodeId, Overrides, Topology, catalogue, expand, export, paths,
};
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

fn read(text: &str, file: &str) -> Result<Imported, String> {
    read_as(text, file, None)
}

/// With the model of all GPUs.
fn read_as(text: &str, file: &str, gpu: Option<String>) -> Result<Imported, String> {
    let options = ImportOptions { gpu, nvlinks: None };
    import(text, "corpus", file, &options, catalogue::hardware()).map_err(|error| error.to_string())
}

/// The model of the GPUs of an imported file.
fn gpu_of(imported: &Imported) -> String {
    imported.spec.components["node"].devices["gpu"]
        .model
        .clone()
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

/// Why a file is refused: words of the message, and whether a file may be refused so.
struct Refusal {
    class: &'static str,
    words: &'static str,
    /// Reviewed: the file's name and text are such that the reason is right.
    is_right: fn(&str, &str) -> bool,
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        class: "AMD GPUs, of which there are no models",
        words: "there are no AMD GPUs among the models",
        is_right: |name, text| {
            let amd = text.contains("gcn=") || text.contains("ROCm");
            amd && (name.starts_with("rccl-") || name.contains("-amd-"))
        },
    },
    Refusal {
        class: "a graph file, no topology",
        words: "a graph file (`<graphs>`)",
        is_right: |_, text| text.contains("<graphs") && !text.contains("<system"),
    },
    Refusal {
        class: "no classes: nothing tells a GPU from a NIC",
        words: "without `class`",
        is_right: |_, text| !text.contains("<gpu") && text.matches("class=").count() == 0,
    },
    Refusal {
        class: "a GPU of which there is no model",
        words: "a GPU that there is a model of",
        is_right: |_, text| {
            // Workstation cards and their like, none of which has an `sm` of a shipped model.
            let hardware = &catalogue::hardware().devices;
            let known = hardware.values().filter_map(|model| match model {
                DeviceModel::Gpu(gpu) => Some(gpu.compute_capability),
                _ => None,
            });
            let mut known = known.map(|sm| format!("sm=\"{sm}\""));
            text.contains("<gpu") && !known.any(|sm| text.contains(&sm))
        },
    },
];

fn refusal(name: &str, text: &str, error: &str) -> &'static str {
    let found = REFUSALS.iter().find(|class| error.contains(class.words));
    let found = found.unwrap_or_else(|| panic!("{name}: {error}"));
    assert!((found.is_right)(name, text), "{name}: {error}");
    // Told with file, line and column.
    assert!(error.starts_with(&format!("{name}, line ")), "{error}");
    found.class
}

fn tell(refused: &BTreeMap<&str, Vec<String>>) {
    for (class, files) in refused {
        println!(
            "refused, {class}: {}\n  {}",
            files.len(),
            files.join("\n  ")
        );
    }
}

#[test]
fn every_topology_xml_is_imported_or_refused_for_a_reason_and_comes_back_the_same() {
    let mut refused: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut imported = 0;
    let files = corpus("nccl-topologies", "xml");
    for path in &files {
        let (text, file) = (std::fs::read_to_string(path).unwrap(), name(path));
        let first = match read(&text, &file) {
            Ok(first) => first,
            Err(error) => {
                let class = refusal(&file, &text, &error);
                refused.entry(class).or_default().push(file);
                continue;
            }
        };
        imported += 1;
        println!("{file}: {}", first.spec.title);
        for note in &first.notes {
            println!("    {note}");
        }
        let topology = machine(&first);
        // As many GPUs and network devices as the file has, in one form or the other.
        let count = |words: &str| text.matches(words).count();
        let gpus = [count("<gpu "), count("class=\"0x03")];
        let nics = [count("<net "), count("class=\"0x02")];
        let node = &topology.nodes[0];
        let told = |counts: [usize; 2]| counts.into_iter().find(|&n| n > 0).unwrap_or(0);
        assert_eq!(node.gpus.len(), told(gpus), "{file}");
        assert_eq!(node.nics.len(), told(nics), "{file}");
        let xml = export::nccl_xml(&topology, NodeId(0));
        let xml = xml.unwrap_or_else(|error| panic!("{file}: {error}"));
        let again = read_as(&xml, &file, None).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_same(&again, &first, &file);
    }
    println!("imported: {imported} of {}", files.len());
    tell(&refused);
    if !files.is_empty() {
        assert!(imported >= 23, "{imported}");
    }
}

/// Cells of a matrix by row and column label, read without the importer.
fn cells(text: &str) -> Vec<(String, String, String)> {
    let mut columns: Vec<String> = Vec::new();
    let mut cells = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else {
            continue;
        };
        if columns.is_empty() {
            if *first == "GPU0" {
                let labels = words.iter().take_while(|word| **word != "CPU");
                columns = labels.map(|word| (*word).to_owned()).collect();
            }
        } else if columns.iter().any(|label| label == first) {
            for (column, cell) in columns.iter().zip(&words[1..]) {
                cells.push(((*first).to_owned(), column.clone(), (*cell).to_owned()));
            }
        }
    }
    cells
}

/// The label that stands for a device of the file in a matrix of ours.
fn labels(text: &str) -> BTreeMap<String, String> {
    let header = text
        .lines()
        .find(|line| line.trim_start().starts_with("GPU0"));
    let words = header.into_iter().flat_map(str::split_whitespace);
    let words: Vec<&str> = words.take_while(|word| *word != "CPU").collect();
    let gpus = words.iter().filter(|word| word.starts_with("GPU")).count();
    let label = |(at, word): (usize, &&str)| match at.checked_sub(gpus) {
        None => ((*word).to_owned(), format!("GPU{at}")),
        Some(nic) => ((*word).to_owned(), format!("NIC{nic}")),
    };
    words.iter().enumerate().map(label).collect()
}

#[test]
fn every_smi_matrix_is_imported_and_given_again_cell_by_cell() {
    let mut refused: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut imported, mut compared, mut unsaid) = (0, 0, 0);
    let files = corpus("nvidia-smi-topo", "txt");
    for path in &files {
        let (text, file) = (std::fs::read_to_string(path).unwrap(), name(path));
        let first = match read(&text, &file) {
            // Several generations fit: with any of their models the wiring is the same.
            Err(error) if error.contains("does not say the model") => {
                unsaid += 1;
                println!("{file}: {error}");
                let fitting = error.split("what fits: ").nth(1).unwrap();
                let last = fitting.split(", ").last().unwrap().trim().to_owned();
                read_as(&text, &file, Some(last)).unwrap_or_else(|error| panic!("{file}: {error}"))
            }
            Ok(first) => first,
            Err(error) => {
                let class = refusal(&file, &text, &error);
                refused.entry(class).or_default().push(file);
                continue;
            }
        };
        imported += 1;
        println!("{file}: {}", first.spec.title);
        let topology = machine(&first);
        let matrix = paths::matrix(&topology, NodeId(0));
        let labels = labels(&text);
        let at = |label: &String| {
            let device = |d: &paths::MatrixDevice| d.label == labels[label];
            matrix.devices.iter().position(device).unwrap()
        };
        let told = cells(&text);
        assert!(!told.is_empty(), "{file}");
        for (row, column, cell) in &told {
            let ours = &matrix.cells[at(row)][at(column)];
            assert_eq!(ours.smi, *cell, "{file}: {row} to {column}");
            // NCCL names the same way, apart from its own improvements.
            let nccl = ours.nccl.label();
            let fits: &[&str] = match cell.as_str() {
                "X" => &["LOC"],
                "PIX" => &["PIX"],
                "PXB" => &["PXB", "PXN"],
                "PHB" | "NODE" => &["PHB", "NVB", "PXN"],
                "SYS" => &["SYS", "NVB", "PXN", "P2C", "PHB"],
                _ => &["NVL"],
            };
            assert!(
                fits.contains(&nccl),
                "{file}: {row} to {column}: {cell}, {nccl}"
            );
        }
        compared += told.len();
        let smi = export::smi(&topology, NodeId(0));
        let again = read_as(&smi, &file, Some(gpu_of(&first)))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_same(&again, &first, &file);
    }
    println!(
        "imported: {imported} of {}, {unsaid} with a model that they do not say; {compared} cells compared",
        files.len()
    );
    tell(&refused);
    if !files.is_empty() {
        assert!(imported >= 24, "{imported}");
    }
}

/// No machine is there in both forms, but two are built from the same parts: eight H100 behind
/// switch chips of two levels, which nvidia-smi prints as PXB.
#[test]
fn an_xml_of_two_level_switches_prints_what_such_machines_print() {
    for path in corpus("nccl-topologies", "xml") {
        if name(&path) != "oci-hpc-H100-topology.xml" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let imported = read(&text, &name(&path)).unwrap();
        let matrix = paths::matrix(&machine(&imported), NodeId(0));
        for gpu in 0..8 {
            for other in 0..8 {
                let word = if other == gpu { "X" } else { "NV18" };
                assert_eq!(matrix.cells[gpu][other].smi, word);
            }
            for nic in 0..16 {
                let cell = &matrix.cells[gpu][8 + nic];
                let word = match (nic / 2 == gpu, nic / 8 == gpu / 4) {
                    (true, _) => ("PXB", "PIX"),
                    (false, true) => ("NODE", "PXN"),
                    (false, false) => ("SYS", "PXN"),
                };
                assert_eq!((cell.smi.as_str(), cell.nccl.label()), word, "{matrix}");
            }
        }
    }
}

#[test]
fn every_graph_file_is_read_whole() {
    let mut read = 0;
    for path in corpus("nccl-topologies", "xml") {
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("<graphs") {
            continue;
        }
        let file = GraphFile::parse(&text, &name(&path)).unwrap_or_else(|e| panic!("{e}"));
        let channels = file.graphs.iter().map(|graph| graph.channels.len());
        assert_eq!(channels.sum::<usize>(), text.matches("<channel>").count());
        read += 1;
    }
    println!("graph files: {read}");
}
