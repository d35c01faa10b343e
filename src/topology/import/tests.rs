mod unsaid;

use super::*;
use crate::graph::{DeviceKind, NodeId, Topology};
use crate::{LinkFamily, Overrides, catalogue, expand, export, paths};
use proptest::prelude::*;

const TWO_SWITCHES: &str = include_str!("../../../tests/cases/import/two-switches.xml");
const MESH: &str = include_str!("../../../tests/cases/import/mesh.xml");
const SUPERCHIP: &str = include_str!("../../../tests/cases/import/superchip.xml");
const SKELETON: &str = include_str!("../../../tests/cases/import/skeleton.xml");
const PAIRS: &str = include_str!("../../../tests/cases/import/pairs.txt");
const BRIDGES: &str = include_str!("../../../tests/cases/import/bridges.txt");
const SUPERCHIP_SMI: &str = include_str!("../../../tests/cases/import/superchip.txt");
const CASES: [&str; 7] = [
    TWO_SWITCHES,
    MESH,
    SUPERCHIP,
    SKELETON,
    PAIRS,
    BRIDGES,
    SUPERCHIP_SMI,
];

/// Matrices do not say the GPUs' model; where it does not matter, it is one of these.
fn read(text: &str) -> Result<Imported, TopologyError> {
    read_as(text, unsaid_gpu(text))
}

fn unsaid_gpu(text: &str) -> Option<&'static str> {
    match (detect(text), text.contains("NV18")) {
        (Some(ForeignFormat::Smi), true) => Some("gb200"),
        (Some(ForeignFormat::Smi), false) => Some("a100-sxm-80gb"),
        _ => None,
    }
}

fn read_as(text: &str, gpu: Option<&str>) -> Result<Imported, TopologyError> {
    let options = ImportOptions {
        gpu: gpu.map(str::to_owned),
        nvlinks: None,
    };
    import(text, "case", "case.file", &options, catalogue::hardware())
}

fn machine(spec: &TopologySpec) -> Result<Topology, TopologyError> {
    expand(spec, catalogue::hardware(), &Overrides::default())
}

fn built(text: &str) -> (Imported, Topology) {
    let imported = read(text).unwrap_or_else(|error| panic!("{error}"));
    let topology = machine(&imported.spec).unwrap_or_else(|error| panic!("{error}"));
    (imported, topology)
}

/// What is between two devices, as nvidia-smi and NCCL call it.
fn between(topology: &Topology, from: &str, to: &str) -> (String, &'static str) {
    let matrix = paths::matrix(topology, NodeId(0));
    let find = |label: &str| matrix.devices.iter().position(|d| d.label == label);
    let cell = &matrix.cells[find(from).unwrap()][find(to).unwrap()];
    (cell.smi.clone(), cell.nccl.label())
}

fn check(topology: &Topology, cases: &[(&str, &str, &str, &str)]) {
    for &(from, to, smi, nccl) in cases {
        let found = between(topology, from, to);
        assert_eq!(found, (smi.to_owned(), nccl), "{from} to {to}");
    }
}

/// Import, export, import.
fn comes_back(text: &str) {
    let gpu = unsaid_gpu(text);
    comes_back_by(text, |text| read_as(text, gpu));
}

fn comes_back_by(text: &str, read: impl Fn(&str) -> Result<Imported, TopologyError>) {
    let first = read(text).unwrap_or_else(|error| panic!("{error}"));
    let topology = machine(&first.spec).unwrap_or_else(|error| panic!("{error}"));
    let written = match detect(text) {
        Some(ForeignFormat::Smi) => export::smi(&topology, NodeId(0)),
        _ => export::nccl_xml(&topology, NodeId(0)).unwrap(),
    };
    let again = read(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    let json = |imported: &Imported| export::to_json(&imported.spec);
    assert!(json(&again) == json(&first), "{}\n{written}", json(&first));
    // And as the program's own file.
    let own = crate::load::parse(&json(&first), "own").unwrap();
    assert_eq!(own, first.spec);
}

#[test]
fn import_and_export_are_each_others_inverse() {
    for text in CASES {
        comes_back(text);
    }
}

#[test]
fn an_nccl_dump_becomes_the_machine_it_tells_of() {
    let (imported, topology) = built(TWO_SWITCHES);
    assert_eq!(
        imported.spec.title,
        "4 × NVIDIA H100 SXM 80 GB, 4 NICs (imported)"
    );
    let count = |kind| topology.devices().filter(|(_, d)| d.kind == kind).count();
    assert_eq!(count(DeviceKind::NvSwitch), 2);
    assert_eq!(count(DeviceKind::Cpu), 2);
    // Two on CPU 0 (the one that leads nowhere is left out), three on CPU 1, one card.
    assert_eq!(count(DeviceKind::PcieSwitch), 6);
    check(
        &topology,
        &[
            ("GPU0", "GPU3", "NV18", "NVL"),
            // By the shortcut between switches and NVLink, past the x8 uplink.
            ("GPU0", "NIC0", "PXB", "PXN"),
            ("GPU1", "NIC0", "NODE", "PXN"),
            // Two levels of one chip are one switch to NCCL.
            ("GPU2", "NIC1", "PXB", "PIX"),
            ("GPU3", "NIC1", "PIX", "PIX"),
            ("NIC1", "NIC2", "PIX", "PIX"),
            ("NIC0", "NIC3", "NODE", "PHB"),
        ],
    );
    let notes = imported.notes.join("\n");
    assert!(
        notes.contains("\"64 GT/s\" is read as generation 3"),
        "{notes}"
    );
    assert!(
        notes.contains("without a speed count as 10 Gbit/s"),
        "{notes}"
    );
}

#[test]
fn nvlinks_between_gpus_are_taken_from_both_ends() {
    let (imported, topology) = built(MESH);
    check(
        &topology,
        &[
            ("GPU0", "GPU1", "NV4", "NVL"),
            ("GPU1", "GPU2", "NV8", "NVL"),
            ("GPU0", "GPU2", "SYS", "NVB"),
        ],
    );
    let notes = imported.notes.join("\n");
    assert!(notes.contains("which counts 0 back"), "{notes}");
    assert!(notes.contains("to itself"), "{notes}");
    // No GPU allows GPUDirect.
    let nic = topology.nodes[0].nics[0];
    assert!(!topology.nic_model(nic).unwrap().gpu_direct);
}

#[test]
fn superchips_keep_their_c2c() {
    let (_, topology) = built(SUPERCHIP);
    check(
        &topology,
        &[
            ("GPU0", "GPU1", "NV18", "NVL"),
            ("GPU0", "NIC0", "SYS", "P2C"),
            ("GPU0", "NIC1", "SYS", "PXN"),
        ],
    );
}

#[test]
fn places_only_are_filled_with_what_is_usual_and_told() {
    let (imported, topology) = built(SKELETON);
    assert_eq!(topology.nodes[0].gpus.len(), 2);
    // Only A100 have PCIe generation 4 and NVLink.
    check(&topology, &[("GPU0", "GPU1", "NV12", "NVL")]);
    let notes = imported.notes.join("\n");
    for words in [
        "taken as a100-sxm-40gb, by the PCIe generation (--gpu)",
        "names no NVLinks: taken as the 12 of a a100-sxm-40gb, to NVSwitches",
        "places of NICs only",
        "which CPUs",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let options = ImportOptions {
        gpu: Some("h100-sxm".into()),
        nvlinks: Some(18),
    };
    let hardware = catalogue::hardware();
    let imported = import(SKELETON, "case", "case.xml", &options, hardware).unwrap();
    let topology = machine(&imported.spec).unwrap();
    check(&topology, &[("GPU0", "GPU1", "NV18", "NVL")]);
}

#[test]
fn a_matrix_gives_the_matrix_again() {
    let (_, topology) = built(PAIRS);
    check(
        &topology,
        &[
            ("GPU0", "GPU1", "NV4", "NVL"),
            ("GPU0", "GPU2", "PXB", "PXB"),
            ("GPU0", "NIC0", "PIX", "PIX"),
            ("GPU0", "NIC1", "PXB", "PXB"),
            ("GPU3", "NIC0", "NODE", "PHB"),
            ("GPU3", "NIC2", "SYS", "SYS"),
        ],
    );
    let (_, topology) = built(BRIDGES);
    check(
        &topology,
        &[
            ("GPU0", "GPU1", "PHB", "PHB"),
            ("GPU0", "GPU2", "NODE", "PHB"),
            ("GPU1", "NIC0", "PIX", "PIX"),
            ("GPU0", "NIC0", "PHB", "PHB"),
            ("GPU0", "NIC1", "SYS", "SYS"),
        ],
    );
}

#[test]
fn peers_do_not_reach_each_other_through_a_host_bridge() {
    let (_, topology) = built(BRIDGES);
    let router = crate::Router::new(&topology, 0);
    let gpus = &topology.nodes[0].gpus;
    assert!(router.peer(gpus[0], gpus[1]).is_err());
    assert!(router.local(gpus[0], gpus[1]).is_ok());
    assert!(router.cpu_of(gpus[0]).is_some());
}

#[test]
fn what_does_not_fit_is_told_with_place_and_remedy() {
    let xml = TWO_SWITCHES;
    let cases = [
        (
            xml,
            "<system version=\"1\">",
            "<system version=\"7\">",
            "line 2",
            "version 1",
        ),
        (
            xml,
            "<system version=\"1\">",
            "<system version=\"2\">",
            "line 2",
            "RCCL",
        ),
        (
            xml,
            " numaid=\"1\"",
            " numa=\"1\"",
            "line 3",
            "did you mean `numa`",
        ),
        (
            xml,
            "numaid=\"1\"",
            "numaid=\"0\"",
            "line 29",
            "a second time",
        ),
        (
            xml,
            "\"GenuineIntel\"",
            "\"GenuineIntell\"",
            "line 3",
            "`GenuineIntel`?",
        ),
        (
            xml,
            "0000:83:00.0",
            "0000:82:00.0",
            "line 13",
            "a second time",
        ),
        (
            xml,
            "class=\"0x060400\"",
            "clas=\"0x060400\"",
            "line 4",
            "0x0604",
        ),
        (
            xml,
            "sm=\"90\"",
            "sm=\"53\"",
            "line 6",
            "compute capability 53",
        ),
        (
            xml,
            "dev=\"2\" sm",
            "dev=\"two\" sm",
            "line 7",
            "a number in `dev`",
        ),
        (
            xml,
            "dev=\"2\" sm",
            "dev=\"3\" sm",
            "line 21",
            "a second time",
        ),
        (
            xml,
            "count=\"9\"",
            "count=\"99999\"",
            "line 8",
            "at most 1000",
        ),
        (
            xml,
            "tclass=\"0x068000\"",
            "tclass=\"0x068001\"",
            "line 8",
            "NVLink to a CPU",
        ),
        (
            xml,
            "tclass=\"0x068000\"",
            "tclass=\"0x608000\"",
            "line 8",
            "`0x068000`?",
        ),
        (xml, "</system>", "</sistem>", "line", "no XML"),
        (
            xml,
            "<nvlink target=\"0000:f1:00.0\"",
            "<xgmi target=\"a\"",
            "line 8",
            "AMD",
        ),
        (
            BRIDGES,
            "PIX     SYS     0-3",
            "PIIX    SYS     0-3",
            "line 4, column 33",
            "`PIX`?",
        ),
        (
            BRIDGES,
            "NODE    PHB     SYS",
            "NODE    NODE    SYS",
            "line 3, column 33",
            "PHB",
        ),
        (
            BRIDGES,
            "GPU2    NODE    NODE",
            "GPU9    NODE    NODE",
            "line 5",
            "columns' devices",
        ),
        (
            BRIDGES,
            "NODE     X ",
            "NODE    PIX ",
            "line 5, column 25",
            "the device itself",
        ),
        (
            BRIDGES,
            "NODE    PHB     SYS     0-3             0",
            "NODE    PHB",
            "line 3",
            "5, one for",
        ),
        (
            PAIRS,
            "\tPXB\tNODE\tPIX\tPXB\tSYS",
            "\tPXB\tNODE\tPIX\tPHB\tSYS",
            "line 2",
            "PXB",
        ),
    ];
    for (text, from, to, place, words) in cases {
        let broken = text.replacen(from, to, 1);
        assert_ne!(broken, text, "{from}");
        let error = read(&broken).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("case.file"), "{error}");
        assert!(error.contains(place), "{from} > {to}: {error}");
        assert!(error.contains(words), "{from} > {to}: {error}");
    }
    let cases = [
        ("<graphs version=\"1\"/>", "a graph file"),
        ("<system version=\"1\"/>", "no `<cpu>`"),
        (
            "<system version=\"1\"><cpu numaid=\"0\"/></system>",
            "without GPUs",
        ),
        ("", "an empty file"),
        ("hello", "`hello`"),
        ("== ROCm System Management ==\nGPU0 GPU1", "rocm-smi"),
    ];
    for (text, words) in cases {
        let error = read(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let wish = ImportOptions {
        gpu: Some("h100-smx".into()),
        nvlinks: None,
    };
    let error = import(PAIRS, "x", "x.txt", &wish, catalogue::hardware()).unwrap_err();
    assert!(error.to_string().contains("`h100-sxm`?"), "{error}");
}

#[test]
fn own_machines_can_be_written_in_both_forms() {
    for name in catalogue::names() {
        let spec = catalogue::find(name).unwrap();
        let topology = machine(&spec).unwrap();
        let xml = export::nccl_xml(&topology, NodeId(0)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let smi = export::smi(&topology, NodeId(0));
        let gpus = topology.nodes[0].gpus.len();
        let gpu = topology.device(topology.nodes[0].gpus[0]).model;
        let gpu = topology.device_models[usize::from(gpu)].0.clone();
        // Of a GPU behind C2C that also shares a PCIe switch with a NIC, a matrix says what no
        // tree of switches gives: it is refused. The other form tells both links apart.
        let both_ways = topology.gpus().take(1).any(|gpu| {
            let links = topology.links_from(gpu);
            let has = |f| links.iter().any(|&(l, _)| topology.family(l) == f);
            has(LinkFamily::C2c) && has(LinkFamily::Pcie)
        });
        if both_ways {
            let error = read_as(&smi, Some(&gpu))
                .map(|_| ())
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("which follows from the other cells"),
                "{error}"
            );
        }
        let forms = [
            (Some(&xml), None),
            (Some(&smi).filter(|_| !both_ways), Some(&*gpu)),
        ];
        for (text, gpu) in forms {
            let Some(text) = text else { continue };
            let again = read_as(text, gpu).unwrap_or_else(|error| panic!("{name}: {error}"));
            let again = machine(&again.spec).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again.nodes[0].gpus.len(), gpus, "{name}");
            assert_eq!(
                again.nodes[0].nics.len(),
                topology.nodes[0].nics.len(),
                "{name}"
            );
            // What is printed of them is the same.
            let words = |t| {
                let matrix = paths::matrix(t, NodeId(0));
                let cells = matrix.cells.into_iter().flatten();
                cells.map(|cell| cell.smi).collect::<Vec<_>>()
            };
            assert_eq!(words(&again), words(&topology), "{name}\n{text}");
        }
        comes_back(&xml);
        if !both_ways {
            comes_back_by(&smi, |text| read_as(text, Some(&gpu)));
        }
    }
}

#[test]
fn deep_nesting_is_refused_before_it_costs_the_stack() {
    let text = format!(
        "<system version=\"1\">{}",
        "<pci busid=\"a\">".repeat(200_000)
    );
    let error = read(&text).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("nested"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        for start in ["", "<", "GPU0 ", "<system version=\"1\">"] {
            let _ = read(&format!("{start}{text}"));
        }
    }

    #[test]
    fn no_change_to_a_file_makes_it_panic(
        case in 0..CASES.len(),
        at in 0.0..1.0f64,
        length in 0..60usize,
        with in "[<>\"/ =a-zA-Z0-9\t\n.:]{0,12}",
    ) {
        let text = CASES[case];
        let bound = |at: usize| (0..=at.min(text.len())).rev().find(|&a| text.is_char_boundary(a)).unwrap_or(0);
        let start = bound((at * text.len() as f64) as usize);
        let end = bound(start + length).max(start);
        let changed = format!("{}{with}{}", &text[..start], &text[end..]);
        // What is read is a machine, or says why not, and comes back.
        if let Ok(imported) = read(&changed)
            && machine(&imported.spec).is_ok()
        {
            comes_back(&changed);
        }
    }

    #[test]
    fn no_truncated_file_makes_it_panic(case in 0..CASES.len(), at in 0.0..1.0f64) {
        let text = CASES[case];
        let end = (0..=(at * text.len() as f64) as usize).rev().find(|&a| text.is_char_boundary(a)).unwrap_or(0);
        let _ = read(&text[..end]);
    }
}
