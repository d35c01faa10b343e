//! What a file does not say, or says as no machine has it.

use super::*;

/// Places of two GPUs with such links, and CPUs.
fn places(speed: &str, cpu: &str) -> String {
    SKELETON.replace("16 GT/s", speed).replace(
        "numaid=\"0\"",
        &format!("numaid=\"0\" arch=\"x86_64\" {cpu}"),
    )
}

const SAPPHIRE_RAPIDS: &str = "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"";
const GENOA: &str = "vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"17\"";

#[test]
fn gpus_are_not_guessed_across_generations() {
    let said = |text: &str, file: &str| {
        let options = ImportOptions::default();
        import(text, "case", file, &options, catalogue::hardware())
            .map(|imported| {
                imported.spec.components["node"].devices["gpu"]
                    .model
                    .clone()
            })
            .map_err(|error| error.to_string())
    };
    // H100 and B200 have PCIe 5; machines with Sapphire Rapids have H100.
    let text = places("32.0 GT/s PCIe", SAPPHIRE_RAPIDS);
    assert_eq!(said(&text, "topo.xml").unwrap(), "h100-sxm");
    let text = places("32.0 GT/s PCIe", GENOA);
    let error = said(&text, "topo.xml").unwrap_err();
    assert!(
        error.contains("topo.xml, line 6") && error.contains("--gpu MODEL"),
        "{error}"
    );
    assert!(
        error.contains("h100-sxm") && error.contains("b200"),
        "{error}"
    );
    assert!(
        !error.contains("pcie") && !error.contains("a100"),
        "{error}"
    );
    assert_eq!(said(&text, "some/b200-vm.xml").unwrap(), "b200");
    let error = said(&places("64.0 GT/s PCIe", GENOA), "topo.xml").unwrap_err();
    assert!(error.contains("v100") && !error.contains("t4"), "{error}");
    // A matrix: six links only a V100 has, eight no model, eighteen several.
    let matrix = |links: u32| {
        format!(
            "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV{links}\tPIX\nGPU1\tNV{links}\t X \tPIX\nNIC0\tPIX\tPIX\t X \n"
        )
    };
    assert_eq!(said(&matrix(6), "m.txt").unwrap(), "v100-sxm2-32gb");
    let error = said(&matrix(8), "m.txt").unwrap_err();
    assert!(
        error.contains("with 8 NVLinks each") && error.contains("a100-sxm-80gb"),
        "{error}"
    );
    assert!(!error.contains("v100"), "{error}");
    assert_eq!(said(&matrix(8), "8xa800.txt").unwrap(), "a100-sxm-80gb");
    let error = said(&matrix(18), "m.txt").unwrap_err();
    assert!(
        error.contains("h100-sxm") && error.contains("b200"),
        "{error}"
    );
    let error = said("\tGPU0\nGPU0\t X \n", "gb10-spark-1gpu.txt").unwrap_err();
    assert!(
        error.contains("without NVLinks") && error.contains("l40s"),
        "{error}"
    );
}

#[test]
fn nvlinks_that_are_left_out_are_those_of_the_model() {
    let text = places("32.0 GT/s PCIe", SAPPHIRE_RAPIDS);
    let (imported, topology) = built(&text);
    check(&topology, &[("GPU0", "GPU1", "NV18", "NVL")]);
    let notes = imported.notes.join("\n");
    assert!(
        notes.contains("the file names no NVLinks: taken as the 18 of a h100-sxm"),
        "{notes}"
    );
    // A PCIe card has none, and of a V100 the wiring is not known.
    for (model, note) in [
        ("h100-pcie", None),
        (
            "v100-sxm2-32gb",
            Some("how they join the GPUs is not known"),
        ),
    ] {
        let imported = read_as(&text, Some(model)).unwrap();
        check(
            &machine(&imported.spec).unwrap(),
            &[("GPU0", "GPU1", "PIX", "PIX")],
        );
        let notes = imported.notes.join("\n");
        assert_eq!(
            notes.contains("names no NVLinks"),
            note.is_some(),
            "{notes}"
        );
        assert!(notes.contains(note.unwrap_or_default()), "{notes}");
    }
    // Asked for otherwise.
    let options = ImportOptions {
        gpu: None,
        nvlinks: Some(0),
    };
    let imported = import(&text, "case", "case.xml", &options, catalogue::hardware()).unwrap();
    check(
        &machine(&imported.spec).unwrap(),
        &[("GPU0", "GPU1", "PIX", "PIX")],
    );
}

#[test]
fn nics_keep_their_rdma_names() {
    let names = |text: &str| {
        let (_, topology) = built(text);
        let nics = topology.nodes[0].nics.iter();
        nics.map(|&nic| topology.rdma_name(nic).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let some = |names: &[&str]| {
        names
            .iter()
            .map(|n| Some((*n).to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(PAIRS), some(&["mlx_a", "mlx_b", "mlx_c"]));
    let legend = format!("{BRIDGES}\nNIC Legend:\n\n  NIC0: mlx5_2\n  NIC1: mlx5_0\n");
    assert_eq!(names(&legend), some(&["mlx5_2", "mlx5_0"]));
    comes_back(&legend);
    assert_eq!(names(BRIDGES), [None, None]);
    let dump = "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\"><pci busid=\"0000:01:00.0\" class=\"0x030200\" \
        link_speed=\"\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\"/></pci><pci busid=\"0000:02:00.0\" class=\"0x020700\" \
        link_speed=\"\" link_width=\"16\"><nic><net name=\"mlx5_7\" dev=\"0\" speed=\"400000\" port=\"1\" gdr=\"1\"/></nic></pci></cpu></system>";
    assert_eq!(names(dump), some(&["mlx5_7"]));
}

#[test]
fn what_no_machine_has_is_refused() {
    let speed = "link_speed=\"16 GT/s\"";
    for (from, to, words) in [
        ("0002:00:00.0", "NaN", "a bus number in hexadecimal"),
        (speed, "link_speed=\"4294967295\"", "a speed such as"),
    ] {
        let error = read(&SKELETON.replacen(from, to, 1))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
    // Switches that nothing leads to are none.
    let none = "<nvlink target=\"0000:f9:00.0\" count=\"0\" tclass=\"0x068000\"/></gpu>";
    let (_, topology) = built(&TWO_SWITCHES.replacen("</gpu>", none, 1));
    let switches = topology
        .devices()
        .filter(|(_, d)| d.kind == DeviceKind::NvSwitch);
    assert_eq!(switches.count(), 2);
    for (file, name) in [
        ("../../x.txt", "x"),
        ("a/<script>.xml", "script"),
        ("\u{1b}[2J.xml", "2J"),
        ("..", "imported"),
        ("my dump.xml", "my-dump"),
    ] {
        assert_eq!(name_of(std::path::Path::new(file)), name);
        assert!(is_name(name));
    }
    assert!(!is_name("../x") && !is_name("-rf") && !is_name(""));
}
