use super::hardware::Hardware;
use super::spec::TopologySpec;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("topologies")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap()
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".json").map(str::to_owned)
        })
        .filter(|name| name != "hardware")
        .collect();
    names.sort();
    names
}

#[test]
fn the_shipped_files_are_read_and_bear_their_names() {
    let hardware: Hardware = serde_json::from_str(&read("hardware")).unwrap();
    assert!(!hardware.links.is_empty() && !hardware.devices.is_empty());
    for name in names() {
        let spec: TopologySpec =
            serde_json::from_str(&read(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(spec.name, name);
    }
}

/// What rings and copies were measured to reach, in GB/s: 18 NVLinks of Hopper 369–373, 12 of
/// Ampere 237–243, 18 of Blackwell 705–730, x16 of PCIe 24–26.8 and 54–57.4, NDR 49, HDR 24.5.
#[test]
fn usable_rates_lie_within_what_was_measured() {
    let hardware: Hardware = serde_json::from_str(&read("hardware")).unwrap();
    let cases = [
        ("nvlink3", 12, 237.0, 243.0),
        ("nvlink4", 18, 369.0, 373.0),
        ("nvlink5", 18, 705.0, 730.0),
        ("pcie3", 16, 12.0, 13.2),
        ("pcie4", 16, 24.0, 26.8),
        ("pcie5", 16, 54.0, 57.4),
        ("ib-hdr200", 1, 24.4, 24.6),
        ("ib-ndr400", 1, 48.8, 49.3),
    ];
    for (name, lanes, low, high) in cases {
        let rate = hardware.links[name].rate(lanes).gb_per_sec();
        assert!((low..=high).contains(&rate), "{name}: {rate}");
    }
}
