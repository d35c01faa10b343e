use super::*;
use crate::catalogue;
use crate::model_checks;

#[test]
fn the_parts_file_is_sound_and_names_only_models_that_exist() {
    let parts = file();
    let mut faults = Vec::new();
    model_checks::hardware(&parts.hardware, &mut faults);
    assert!(faults.is_empty(), "{faults:?}");
    let shipped = catalogue::hardware();
    let device = |name: &String| {
        shipped.devices.contains_key(name) || parts.hardware.devices.contains_key(name)
    };
    let link =
        |name: &String| shipped.links.contains_key(name) || parts.hardware.links.contains_key(name);
    for rule in &parts.cpus {
        assert!(rule.models.iter().any(device), "{rule:?}");
        assert!(link(&rule.socket_link), "{rule:?}");
    }
    for rule in parts.nics.iter().filter(|rule| rule.speed.is_none()) {
        assert!(rule.models.iter().any(device), "{rule:?}");
    }
    let mut parts_in_use = Parts::new(shipped);
    for generation in &parts.generations {
        assert!(link(&generation.nvlink), "{generation:?}");
        assert!(device(&generation.nvswitch), "{generation:?}");
        assert!(parts_in_use.pcie(generation.megatransfers, 16).is_some());
    }
    assert!(parts.generations.is_sorted_by_key(|g| g.sm));
}

#[test]
fn every_pcie_generation_has_a_link() {
    let mut parts = Parts::new(catalogue::hardware());
    let names: Vec<String> = [2500, 5000, 8000, 16000, 32000, 64000]
        .into_iter()
        .map(|rate| parts.pcie(rate, 16).unwrap().link)
        .collect();
    assert_eq!(
        names,
        ["pcie1", "pcie2", "pcie3", "pcie4", "pcie5", "pcie6"]
    );
    assert_eq!(parts.pcie(17, 16), None);
}

#[test]
fn gpus_are_found_by_device_number_then_by_capability_and_form() {
    let parts = Parts::new(catalogue::hardware());
    let find = |device, sm, nvlinks| {
        let clues = GpuClues {
            device,
            sm,
            nvlinks,
            c2c: false,
        };
        parts.gpu(&clues).map(|(name, _)| name)
    };
    assert_eq!(find(Some("0x2330"), Some(90), 0).unwrap(), "h100-sxm");
    assert_eq!(find(Some("0x20B2"), None, 12).unwrap(), "a100-sxm-80gb");
    assert_eq!(find(None, Some(90), 18).unwrap(), "h100-sxm");
    assert_eq!(find(None, Some(90), 0).unwrap(), "h100-pcie");
    assert_eq!(find(None, Some(52), 0), None);
    assert_eq!(find(None, None, 0), None);
}
