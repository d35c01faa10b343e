//! What jobs are charged of shipped machines beside what was counted by hand.

use crate::bill::{Bill, Load, Part};
use crate::charge::{Basis, Taken};
use crate::{DeviceId, DeviceKind, Overrides, Topology, catalogue, expand, export, load};

fn machine(name: &str, nodes: u32) -> Topology {
    let spec = catalogue::find(name).unwrap();
    let nodes = Some(nodes);
    expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
}

fn first(machine: &Topology, gpus: usize) -> Vec<DeviceId> {
    machine.gpus().take(gpus).collect()
}

fn charged<'t>(machine: &'t Topology, gpus: &[DeviceId]) -> [Bill<'t>; 2] {
    let taken = Taken {
        gpus,
        nvlink_between_nodes: true,
    };
    [Basis::Share, Basis::Whole].map(|basis| machine.bill_of(taken, basis))
}

fn count(bill: &Bill<'_>, kind: DeviceKind) -> f64 {
    let lines = bill.lines.iter();
    let lines = lines.filter(|line| line.part == Part::Device(kind));
    lines.map(|line| line.count).sum()
}

fn busy(bill: &Bill<'_>) -> f64 {
    bill.power(Load::BUSY).whole().unwrap().watts()
}

fn near(found: f64, expected: f64) {
    let off = (found - expected).abs();
    assert!(off < 1e-3 * expected.max(1.0), "{found} is not {expected}");
}

/// Of a server of eight: 4 NVSwitches of 100 W, 2 CPUs of 462, 8 PCIe switches of 45, 8 NICs of 25,
/// and 10.6 % for fans and power supplies. Nothing of the 12 switches that 32 such servers have.
#[test]
fn a_gpu_of_a_server_is_charged_an_eighth_of_what_serves_eight() {
    let machine = machine("dgx-h100", 1);
    let rest = f64::from(4 * 100 + 2 * 462 + 8 * 45 + 8 * 25);
    for gpus in [1, 2, 8] {
        let [share, whole] = charged(&machine, &first(&machine, gpus));
        let part = gpus as f64 / 8.0;
        near(busy(&share), (8.0 * 700.0 + rest) * 1.106 * part);
        let servers = machine.bill().server_power(Load::BUSY).whole();
        assert_eq!(whole.power(Load::BUSY).whole(), servers);
        assert!((whole.gpus() - 8.0).abs() < 1e-9);
    }
}

/// Two servers have 16 of the 256 ports that the 8 leaves of their unit are built for: a sixteenth
/// of 12 switches of 783 W and of 256 cables up, and 16 cables of their own, with two transceivers of
/// 8 W each.
#[test]
fn two_servers_are_charged_their_ports_of_a_network_for_32() {
    let machine = machine("dgx-h100", 2);
    let [share, whole] = charged(&machine, &first(&machine, 16));
    let network = |bill: &Bill<'_>| bill.network_power(Load::BUSY).whole().unwrap().watts();
    near(
        network(&share),
        12.0 / 16.0 * 783.0 + (16.0 + 16.0) * 2.0 * 8.0,
    );
    near(network(&whole), 12.0 * 783.0 + (16.0 + 256.0) * 2.0 * 8.0);
    assert_eq!(whole.power(Load::BUSY), machine.bill().power(Load::BUSY));
    // Half of the GPUs of each: half of the ports.
    let half: Vec<DeviceId> = machine.gpus().step_by(2).collect();
    let [half, all] = charged(&machine, &half);
    near(2.0 * network(&half), network(&share));
    near(network(&all), network(&whole));
}

#[test]
fn who_fills_a_machine_is_charged_all_of_it() {
    for (name, nodes) in [("superpod-h100", 32), ("gb200-nvl72", 36)] {
        let machine = machine(name, nodes);
        let all = machine.bill();
        let gpus: Vec<DeviceId> = machine.gpus().collect();
        for bill in charged(&machine, &gpus) {
            near(busy(&bill), busy(&all));
            assert_eq!(bill.price(), all.price(), "{name}");
        }
    }
}

/// A tray has 4 of the 72 GPUs that 18 NVLink switches serve, which are all on for it.
#[test]
fn a_tray_is_charged_its_part_of_the_racks_switches() {
    let machine = machine("gb200-nvl72", 36);
    let [share, whole] = charged(&machine, &first(&machine, 4));
    near(count(&share, DeviceKind::NvSwitch), 1.0);
    near(count(&whole, DeviceKind::NvSwitch), 18.0);
    near(count(&whole, DeviceKind::Gpu), 4.0);
    near(count(&whole, DeviceKind::Cpu), 2.0);
    // The same where the machine has no other tray.
    let alone = self::machine("gb200-nvl72", 1);
    let [part, all] = charged(&alone, &first(&alone, 4));
    near(busy(&part), busy(&share));
    near(busy(&all), busy(&whole));
    // A rack is joined by NVLink, two are not.
    for (gpus, between, switches) in [
        (4, true, false),
        (72, true, false),
        (76, true, true),
        (72, false, true),
        (4, false, false),
    ] {
        let gpus = first(&machine, gpus);
        let taken = Taken {
            gpus: &gpus,
            nvlink_between_nodes: between,
        };
        for basis in [Basis::Share, Basis::Whole] {
            let bill = machine.bill_of(taken, basis);
            let found = count(&bill, DeviceKind::Switch) > 0.0;
            assert_eq!(found, switches, "{} {between} {basis:?}", gpus.len());
        }
    }
}

/// Four of 64 servers: an eighth of the 8 leaves of the first of two units, and a sixteenth of the 8
/// spines above both; the other unit's leaves may be off.
#[test]
fn only_switches_that_a_job_could_use_are_powered_for_it() {
    let machine = machine("superpod-h100", 64);
    assert!((count(&machine.bill(), DeviceKind::Switch) - 24.0).abs() < 1e-9);
    let [share, whole] = charged(&machine, &first(&machine, 32));
    near(count(&share, DeviceKind::Switch), 8.0 / 8.0 + 8.0 / 16.0);
    near(count(&whole, DeviceKind::Switch), 8.0 + 8.0);
}

#[test]
fn shares_of_all_jobs_are_no_more_than_the_machine() {
    for (name, nodes) in [("gh200-quad", 64), ("superpod-h100", 40), ("dgx-b200", 3)] {
        let machine = machine(name, nodes);
        let gpus: Vec<DeviceId> = machine.gpus().collect();
        let switches = count(&machine.bill(), DeviceKind::Switch);
        let mut sum = 0.0;
        for job in gpus.chunks(gpus.len() / 2 + 1) {
            let [share, whole] = charged(&machine, job);
            let [part, all] = [&share, &whole].map(|bill| count(bill, DeviceKind::Switch));
            assert!(
                part > 0.0 && part <= all && all <= switches,
                "{name}: {part} of {all}"
            );
            sum += part;
        }
        assert!(sum <= switches + 1e-9, "{name}: {sum} of {switches}");
    }
}

#[test]
fn an_exported_machine_is_charged_alike() {
    for name in ["dgx-h100", "gh200-quad", "gb200-nvl72"] {
        let machine = machine(name, 18);
        let text = export::to_json(&export::export(&machine));
        let spec = load::parse(&text, name).unwrap();
        let again = expand(&spec, catalogue::hardware(), &Overrides::default()).unwrap();
        let [one, other] = [&machine, &again].map(|m| {
            let gpus = first(m, 12);
            charged(m, &gpus).map(|bill| bill.power(Load::BUSY).known)
        });
        assert_eq!(one, other, "{name}");
    }
}
