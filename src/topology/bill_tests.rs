//! Bills of shipped machines beside what was counted by hand and measured.

use crate::bill::{Bill, Load, Part};
use crate::compact::{Changes, compact};
use crate::{DeviceKind, Medium, Overrides, Topology, catalogue, expand, export, load};
use fabricsim_units::{Money, Power};

fn machine(name: &str, nodes: Option<u32>) -> Topology {
    let spec = catalogue::find(name).unwrap();
    expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
}

fn changed(name: &str, set: &[&str]) -> Topology {
    let changes = Changes {
        set: set.iter().map(|&set| set.to_owned()).collect(),
        ..Changes::default()
    };
    let text = compact(name, &changes).unwrap();
    let spec = load::parse(&text, name).unwrap();
    expand(&spec, catalogue::hardware(), &Overrides::default()).unwrap()
}

fn count(bill: &Bill<'_>, part: Part) -> u64 {
    let lines = bill.lines.iter().filter(|line| line.part == part);
    lines.map(|line| line.count as u64).sum()
}

/// A unit of a SuperPOD, by hand: 32 servers of 8 NICs on 8 leaves, one a rail, whose 32 free
/// ports each go to 4 spines of 64 ports. The same 8 leaves, 4 spines and 256 cables to NICs are in
/// an order for 256 H100 (vitextech.com).
#[test]
fn a_superpods_network_is_as_counted_by_hand() {
    let machine = machine("superpod-h100", Some(32));
    let bill = machine.bill();
    assert_eq!(count(&bill, Part::Device(DeviceKind::Gpu)), 256);
    assert_eq!(count(&bill, Part::Device(DeviceKind::Cpu)), 64);
    assert_eq!(count(&bill, Part::Device(DeviceKind::Nic)), 256);
    assert_eq!(count(&bill, Part::Device(DeviceKind::NvSwitch)), 128);
    assert_eq!(count(&bill, Part::Device(DeviceKind::Switch)), 8 + 4);
    let cables = count(&bill, Part::Cable(Some(Medium::Optical)));
    assert_eq!(cables, 256 + 256);
    assert_eq!(count(&bill, Part::Transceiver), 2 * cables);
    assert_eq!(count(&bill, Part::Whole), 32);
    assert_eq!(bill.racks, None);
}

/// A rack, by hand: 18 trays of 4 GPUs, 2 Grace and 4 NICs, 9 switch trays of two chips; 4 rails
/// of 18 ports each, a leaf for each rail, whose 72 cables up fill two spines of 64.
#[test]
fn a_racks_parts_are_as_counted_by_hand() {
    let machine = machine("gb200-nvl72", None);
    let bill = machine.bill();
    assert_eq!(count(&bill, Part::Device(DeviceKind::Gpu)), 72);
    assert_eq!(count(&bill, Part::Device(DeviceKind::Cpu)), 36);
    assert_eq!(count(&bill, Part::Device(DeviceKind::Nic)), 72);
    assert_eq!(count(&bill, Part::Device(DeviceKind::NvSwitch)), 18);
    assert_eq!(count(&bill, Part::Device(DeviceKind::Switch)), 4 + 2);
    // NVLink's cables are the rack's.
    assert_eq!(count(&bill, Part::Cable(Some(Medium::Optical))), 72 + 72);
    assert_eq!(bill.racks, Some(1));
    assert_eq!(count(&bill, Part::Whole), 1);
}

/// Measured at most: 8.4 kW in training near full use, 82 % of the 10.2 kW on the plate (Latif et
/// al., IEEE Access 13, arXiv 2412.08602). What the plate has more is no part's: fans at full
/// speed, drives, NICs for storage and management, and a margin.
#[test]
fn a_server_of_eight_h100_draws_what_was_measured() {
    let machine = machine("dgx-h100", None);
    let servers = machine.bill().server_power(Load::BUSY).whole().unwrap();
    let kw = servers.kilowatts();
    assert!((kw / 8.4 - 1.0).abs() < 0.05, "{kw} kW");
    assert!(kw < 10.2, "{kw} kW");
}

/// About 120 kW, as NVIDIA said at GTC 2024.
#[test]
fn a_rack_of_72_draws_about_120_kw() {
    let machine = machine("gb200-nvl72", None);
    let bill = machine.bill();
    let kw = bill.server_power(Load::BUSY).whole().unwrap().kilowatts();
    assert!((kw / 120.0 - 1.0).abs() < 0.1, "{kw} kW");
    // The network stands outside: 6 switches and 288 transceivers.
    let network = bill.network_power(Load::BUSY).whole().unwrap();
    assert_eq!(network, Power::from_watts(6 * 783 + 288 * 8));
}

#[test]
fn what_is_unknown_stays_unknown() {
    let machine = machine("dgx-a100", None);
    let bill = machine.bill();
    let power = bill.power(Load::BUSY);
    assert_eq!(power.whole(), None);
    // 6 NVSwitches, 8 NUMA nodes, 4 PCIe switches, 8 NICs.
    assert_eq!(power.unknown, 6 + 8 + 4 + 8);
    let price = bill.price();
    assert_eq!(price.whole(), None);
    // 12 switches, 168 cables and their transceivers; the server has a price as a whole.
    assert_eq!(price.unknown, 12 + 168 + 336);
    assert_eq!(price.known, Money::from_dollars(200_000));
    assert_eq!(bill.price_of(true).whole(), Some(price.known));
}

#[test]
fn a_file_of_ones_own_changes_watts_and_prices() {
    let before = machine("dgx-h100", None);
    let before = before.bill();
    let after = changed(
        "dgx-h100",
        &[
            "hardware.devices.h100-sxm.gpu.power.busy.value=500W",
            "hardware.devices.quantum-2.switch.price.value=50000USD",
            "hardware.links.ib-ndr400.cable.medium.value=copper",
            "components.dgx-h100.price=null",
        ],
    );
    let after = after.bill();
    let less = 8.0 * 0.2 * 1.106;
    let kw = |bill: &Bill<'_>| bill.server_power(Load::BUSY).known.kilowatts();
    assert!((kw(&before) - kw(&after) - less).abs() < 1e-9);
    assert_eq!(count(&after, Part::Transceiver), 0);
    assert_eq!(count(&after, Part::Cable(Some(Medium::Copper))), 264);
    let network = Money::from_dollars(12 * 50_000 + 264 * 1280);
    assert_eq!(after.price_of(false).whole(), Some(network));
    // Part by part now: GPUs have a price, 22 others in the server have none.
    let servers = after.price_of(true);
    assert_eq!(servers.known, Money::from_dollars(8 * 30_000));
    assert_eq!(servers.unknown, 4 + 2 + 8 + 8);
    let overhead = changed("dgx-h100", &["hardware.server_overhead.value=0"]);
    let plain = overhead.bill().server_power(Load::IDLE).whole().unwrap();
    let parts = 8.0 * 142.0 + 4.0 * 100.0 + 2.0 * 140.8 + 8.0 * (45.0 + 15.0);
    assert!((plain.watts() - parts).abs() < 1e-9, "{plain}");
}

#[test]
fn between_idle_and_busy_it_goes_by_the_share_of_time() {
    let machine = machine("dgx-h100", None);
    let bill = machine.bill();
    let of = |gpus| bill.power(Load { gpus, rest: 1.0 }).whole().unwrap();
    let (none, half, all) = (of(0.0), of(0.5), of(1.0));
    assert_eq!(all, bill.power(Load::BUSY).whole().unwrap());
    let middle = (none.watts() + all.watts()) / 2.0;
    assert!((half.watts() - middle).abs() < 0.01);
    let difference = 8.0 * (700.0 - 142.0) * 1.106;
    assert!((all.watts() - none.watts() - difference).abs() < 0.01);
}

#[test]
fn an_exported_machine_has_the_same_bill() {
    for name in ["dgx-a100", "gb200-nvl72", "gh200-quad"] {
        let machine = machine(name, None);
        let text = export::to_json(&export::export(&machine));
        let spec = load::parse(&text, name).unwrap();
        let again = expand(&spec, catalogue::hardware(), &Overrides::default()).unwrap();
        let (bill, again) = (machine.bill(), again.bill());
        assert_eq!(bill.power(Load::BUSY), again.power(Load::BUSY), "{name}");
        assert_eq!(bill.price(), again.price(), "{name}");
        assert_eq!(bill.racks, again.racks, "{name}");
    }
}

#[test]
fn an_overhead_is_a_part() {
    let changes = Changes {
        set: vec!["hardware.server_overhead.value=1.5".to_owned()],
        ..Changes::default()
    };
    let said = compact("dgx-h100", &changes).unwrap_err().to_string();
    assert!(said.contains("hardware.server_overhead.value"), "{said}");
    assert!(said.contains("from 0 to 1"), "{said}");
}

/// Prices age: each says of when it is, or that this is not known.
#[test]
fn every_price_has_a_date_and_a_source() {
    let has_year = |source: &str| {
        let words = source.split(|c: char| !c.is_ascii_digit());
        words
            .into_iter()
            .any(|word| word.len() == 4 && word.starts_with("20"))
    };
    let check = |what: &str, source: &str| {
        let dated = has_year(source) || source.contains("undated");
        assert!(dated, "{what}: {source}");
    };
    for name in catalogue::names() {
        let spec = catalogue::find(name).unwrap();
        let machine = expand(&spec, catalogue::hardware(), &Overrides::default()).unwrap();
        for line in machine.bill().lines {
            if let Some(price) = line.price.known() {
                check(&format!("{name}, {}", line.model), &price.source);
            }
        }
        for gpu in machine.gpus() {
            let hour = machine.gpu_model(gpu).unwrap().price_per_hour.as_ref();
            hour.iter().for_each(|hour| check(name, &hour.source));
        }
    }
}
