use super::*;
use crate::catalogue_tests::{built, built_from};

fn first(topology: &Topology) -> PathMatrix {
    matrix(topology, NodeId(0))
}

/// `GPU0 NIC1` as nvidia-smi and NCCL call it.
fn at(matrix: &PathMatrix, from: &str, to: &str) -> (String, &'static str) {
    let find = |label: &str| {
        matrix
            .devices
            .iter()
            .position(|device| device.label == label)
            .unwrap()
    };
    let cell = &matrix.cells[find(from)][find(to)];
    (cell.smi.clone(), cell.nccl.label())
}

fn check(matrix: &PathMatrix, cases: &[(&str, &str, &str, &str)]) {
    for &(from, to, smi, nccl) in cases {
        assert_eq!(
            at(matrix, from, to),
            (smi.to_owned(), nccl),
            "{from} to {to}\n{matrix}"
        );
    }
}

#[test]
fn dgx_h100_is_all_nvlink_with_a_nic_beside_each_gpu() {
    let matrix = first(&built("dgx-h100", None));
    for from in 0..8 {
        for to in 0..8 {
            let (smi, nccl) = if from == to {
                ("X", "LOC")
            } else {
                ("NV18", "NVL")
            };
            check(
                &matrix,
                &[(&format!("GPU{from}"), &format!("GPU{to}"), smi, nccl)],
            );
        }
    }
    // A DGX H100 prints PXB for PIX: its switches are two in one case, which NCCL flattens.
    check(
        &matrix,
        &[
            ("GPU0", "NIC0", "PIX", "PIX"),
            ("GPU0", "NIC3", "NODE", "PXN"),
            ("NIC3", "GPU0", "NODE", "PHB"),
            ("GPU0", "NIC4", "SYS", "PXN"),
            ("GPU7", "NIC7", "PIX", "PIX"),
            ("NIC0", "NIC1", "NODE", "PHB"),
            ("NIC0", "NIC7", "SYS", "SYS"),
        ],
    );
    assert_eq!(matrix.devices[5].cpu.as_deref(), Some("node0/cpu1"));
    let bandwidth = matrix.cells[0][1].bandwidth.unwrap().gb_per_sec();
    assert!(
        (bandwidth - 18.0 * 25.0 * 0.825).abs() < 1e-6,
        "{bandwidth}"
    );
}

#[test]
fn dgx_a100_shares_two_nics_between_two_gpus() {
    let matrix = first(&built("dgx-a100", None));
    check(
        &matrix,
        &[
            ("GPU0", "GPU7", "NV12", "NVL"),
            ("GPU0", "NIC0", "PIX", "PIX"),
            ("GPU0", "NIC1", "PIX", "PIX"),
            ("GPU1", "NIC0", "PIX", "PIX"),
            ("GPU0", "NIC2", "SYS", "PXN"),
            ("NIC2", "GPU0", "SYS", "SYS"),
        ],
    );
}

#[test]
fn sockets_separate_pcie_gpus() {
    let matrix = first(&built("x86-h100-pcie", None));
    check(
        &matrix,
        &[
            ("GPU0", "GPU1", "PIX", "PIX"),
            ("GPU0", "GPU2", "NODE", "PHB"),
            ("GPU0", "GPU4", "SYS", "SYS"),
            ("GPU3", "GPU7", "SYS", "SYS"),
            ("GPU0", "NIC0", "PIX", "PIX"),
            ("GPU2", "NIC0", "NODE", "PHB"),
            ("GPU2", "NIC1", "SYS", "SYS"),
        ],
    );
}

#[test]
fn grace_reaches_nics_through_c2c() {
    let matrix = first(&built("gb200-nvl72", None));
    check(
        &matrix,
        &[
            ("GPU0", "GPU3", "NV18", "NVL"),
            ("GPU0", "NIC0", "SYS", "P2C"),
            ("GPU1", "NIC1", "SYS", "P2C"),
            ("GPU0", "NIC2", "SYS", "PXN"),
            ("NIC2", "GPU0", "SYS", "SYS"),
        ],
    );
}

#[test]
fn a_gpu_between_makes_nvb() {
    let text = r#"{
        "name": "chain", "title": "t", "source": "test",
        "components": { "box": { "node": true,
            "devices": { "gpu": { "model": "h100-sxm", "count": 3 }, "cpu": { "model": "xeon-8480c" } },
            "links": [
                { "from": "gpu[*]", "to": "cpu", "link": "pcie5", "lanes": 16 },
                { "from": "gpu[0-1]", "to": "gpu[1-2]", "link": "nvlink4", "lanes": 2, "match": "each" } ] } },
        "instances": [ { "name": "node", "component": "box" } ] }"#;
    let topology = built_from(&serde_json::from_str(text).unwrap(), None);
    check(
        &first(&topology),
        &[
            ("GPU0", "GPU1", "NV2", "NVL"),
            ("GPU0", "GPU2", "NODE", "NVB"),
        ],
    );
}

#[test]
fn matrices_are_printed_as_nvidia_smi_does_and_as_json() {
    let matrix = first(&built("x86-h100-pcie", None));
    let text = matrix.to_string();
    let row = text.lines().find(|line| line.starts_with("GPU2 ")).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        [
            "GPU2",
            "NODE",
            "NODE",
            "X",
            "PIX",
            "SYS",
            "SYS",
            "SYS",
            "SYS",
            "NODE",
            "SYS",
            "node0/cpu0"
        ]
    );
    assert!(text.contains("Legend:"));
    let json = serde_json::to_value(&matrix).unwrap();
    assert_eq!(json["cells"][0][2]["nccl"], "PHB");
    assert_eq!(json["devices"][8]["label"], "NIC0");
}
