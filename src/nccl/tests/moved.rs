//! What environment variables move: traffic and bounds, as documented.

use super::*;
use fabricsim_topology::{DeviceKind, LinkFamily, LinkId, Topology};
use std::collections::BTreeMap;

/// One all-reduce: what was planned, its time, and the bytes on every link.
struct Moved {
    topology: Topology,
    planned: Planned,
    time: Time,
    links: BTreeMap<LinkId, Bytes>,
}

fn moved(name: &str, nodes: u32, bytes: u64, variables: &[(&str, &str)]) -> Moved {
    let topology = load(name, &Overrides { nodes: Some(nodes) }).unwrap();
    let env = Env::parse(variables.iter().copied()).unwrap();
    assert_eq!(env.warnings, Vec::<String>::new());
    let mut comm = Communicator::new(&topology, None, &env, 1).unwrap();
    let planned = comm
        .plan(Collective::AllReduce, bytes, Forced::default())
        .unwrap();
    verify(planned.plan.program.as_ref(), 2).unwrap();
    let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
    Moved {
        time: outcome.end(),
        links: outcome.link_bytes(&planned.plan),
        planned,
        topology,
    }
}

impl Moved {
    fn bus(&self) -> f64 {
        let ranks = self.planned.plan.gpus.len() as u32;
        let rate = Bandwidth::of(Bytes::new(self.planned.bytes), self.time).gb_per_sec();
        rate * Collective::AllReduce.bus_factor(ranks)
    }

    /// Bytes on links that satisfy a condition on their ends' kinds.
    fn between(&self, ends: impl Fn(DeviceKind, DeviceKind) -> bool) -> u64 {
        let kind = |d| self.topology.device(d).kind;
        self.links
            .iter()
            .filter(|(link, _)| {
                let (from, to) = self.topology.ends(**link);
                ends(kind(from), kind(to))
            })
            .map(|(_, bytes)| bytes.get())
            .sum()
    }

    fn over(&self, family: LinkFamily) -> u64 {
        let of = |l: &LinkId| self.topology.family(*l) == family;
        self.links
            .iter()
            .filter(|(l, _)| of(l))
            .map(|(_, b)| b.get())
            .sum()
    }

    /// Between leaves and spines.
    fn over_spines(&self) -> u64 {
        self.between(|a, b| a == DeviceKind::Switch && b == DeviceKind::Switch)
    }
}

const GIB: u64 = 1 << 30;

#[test]
fn nvls_and_its_absence() {
    let bytes = GIB;
    let nvls = moved("dgx-h100", 1, bytes, &[]);
    assert_eq!(nvls.planned.algorithm, Algorithm::Nvls);
    // Every port out: S (fetched by heads) and S/N (stored by its own head).
    let out = nvls.between(|a, b| a == DeviceKind::Gpu && b == DeviceKind::NvSwitch);
    assert_eq!(out, 8 * (bytes + bytes / 8));
    let into = nvls.between(|a, b| a == DeviceKind::NvSwitch && b == DeviceKind::Gpu);
    assert_eq!(into, out);
    let ring = moved("dgx-h100", 1, bytes, &[("NCCL_NVLS_ENABLE", "0")]);
    assert_eq!(ring.planned.algorithm, Algorithm::Ring);
    let out = ring.between(|a, b| a == DeviceKind::Gpu && b == DeviceKind::NvSwitch);
    assert_eq!(out, 8 * (2 * bytes * 7 / 8));
    // The ring is bound by 2 (N-1)/N S through a port, NVLS is not.
    assert!(
        ring.bus() < 371.3 && nvls.bus() > 371.3,
        "{} {}",
        ring.bus(),
        nvls.bus()
    );
}

#[test]
fn a_tree_can_be_named() {
    let tree = moved("dgx-h100", 1, GIB, &[("NCCL_ALGO", "Tree")]);
    assert_eq!(tree.planned.algorithm, Algorithm::Tree);
    // In a host S at the two ends of each chain, 2 S in the middle: 2 (N-1) S in all.
    let out = tree.between(|a, b| a == DeviceKind::Gpu && b == DeviceKind::NvSwitch);
    assert_eq!(out, 2 * 7 * GIB);
    let across = moved("dgx-h100", 2, GIB, &[("NCCL_ALGO", "Tree")]);
    // S in each direction between two hosts, half of what rings need.
    let nics = across.between(|a, b| a == DeviceKind::Nic && b == DeviceKind::Switch);
    assert_eq!(nics, 2 * GIB);
}

#[test]
fn ll_doubles_the_bytes() {
    let bytes = 64 << 20;
    let plain = moved(
        "dgx-a100",
        1,
        bytes,
        &[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "Simple")],
    );
    let flags = moved(
        "dgx-a100",
        1,
        bytes,
        &[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL")],
    );
    assert_eq!(flags.planned.protocol, ProtocolKind::Ll);
    let (a, b) = (
        plain.over(LinkFamily::Nvlink),
        flags.over(LinkFamily::Nvlink),
    );
    // Chunks are rounded to 16 bytes, and the two have chunks of other sizes.
    assert!((2 * a).abs_diff(b) < 1000, "{a} {b}");
    assert!(flags.bus() < 0.5 * 240.0, "{}", flags.bus());
}

#[test]
fn without_peer_access_everything_goes_through_hosts() {
    let plain = moved("dgx-h100", 1, 64 << 20, &[("NCCL_ALGO", "Ring")]);
    assert_eq!(plain.over(LinkFamily::Pcie), 0);
    let variables = [("NCCL_ALGO", "Ring"), ("NCCL_P2P_DISABLE", "1")];
    let staged = moved("dgx-h100", 1, 64 << 20, &variables);
    assert_eq!(staged.over(LinkFamily::Nvlink), 0);
    assert!(staged.over(LinkFamily::Pcie) > 0);
    // Each GPU's PCIe link carries all that it sends and all that it receives.
    assert!(
        staged.bus() < 0.3 * plain.bus(),
        "{} {}",
        staged.bus(),
        plain.bus()
    );
    // A level that NVLink satisfies changes nothing.
    let level = moved(
        "dgx-h100",
        1,
        64 << 20,
        &[("NCCL_ALGO", "Ring"), ("NCCL_P2P_LEVEL", "NVL")],
    );
    assert_eq!((level.time, &level.links), (plain.time, &plain.links));
}

#[test]
fn cross_nic_decides_who_leaves_its_rail() {
    let with = |value| {
        moved(
            "dgx-h100",
            4,
            GIB,
            &[("NCCL_ALGO", "Ring"), ("NCCL_CROSS_NIC", value)],
        )
    };
    let (same, any, paired) = (with("0"), with("1"), with("2"));
    // Rails meet in spines only.
    assert_eq!(same.over_spines(), 0);
    assert_eq!(paired.over_spines(), 0);
    assert!(any.over_spines() > 0);
    // Getting back to the interface where it entered costs a ring one more NVLink hop.
    assert!(same.over(LinkFamily::Nvlink) > paired.over(LinkFamily::Nvlink));
    let rails = |m: &Moved| {
        let nics: std::collections::BTreeSet<_> = m
            .links
            .keys()
            .map(|&l| m.topology.ends(l).0)
            .filter(|&d| m.topology.device(d).kind == DeviceKind::Nic)
            .collect();
        nics.len() / 4
    };
    assert_eq!((rails(&same), rails(&any), rails(&paired)), (8, 8, 8));
}

#[test]
fn interfaces_can_be_restricted() {
    let variables = [
        ("NCCL_ALGO", "Ring"),
        ("NCCL_IB_HCA", "nic0,nic1,nic2,nic3"),
    ];
    let four = moved("dgx-h100", 2, GIB, &variables);
    let used: std::collections::BTreeSet<String> = four
        .links
        .keys()
        .map(|&l| four.topology.ends(l).0)
        .filter(|&d| four.topology.device(d).kind == DeviceKind::Nic)
        .map(|d| four.topology.device_name(d))
        .collect();
    assert_eq!(used.len(), 8, "{used:?}");
    assert!(
        used.iter().all(|n| n.ends_with(['0', '1', '2', '3'])),
        "{used:?}"
    );
    // Four interfaces of 49 GB/s.
    assert!(four.bus() < 4.0 * 50.0, "{}", four.bus());
    let eight = moved("dgx-h100", 2, GIB, &[("NCCL_ALGO", "Ring")]);
    assert!(
        eight.bus() > 1.6 * four.bus(),
        "{} {}",
        eight.bus(),
        four.bus()
    );
}

#[test]
fn without_gpudirect_everything_goes_through_hosts() {
    let direct = moved("dgx-h100", 2, GIB, &[("NCCL_ALGO", "Ring")]);
    let cpu = |a, b| a == DeviceKind::Cpu || b == DeviceKind::Cpu;
    assert_eq!(direct.between(cpu), 0);
    let variables = [("NCCL_ALGO", "Ring"), ("NCCL_NET_GDR_LEVEL", "LOC")];
    let staged = moved("dgx-h100", 2, GIB, &variables);
    // Into host memory and out of it again, on both sides.
    let network = staged.between(|a, b| a == DeviceKind::Nic && b == DeviceKind::Switch);
    assert!(staged.between(cpu) >= 4 * network);
    assert!(staged.bus() <= direct.bus());
}

/// In DGX-1's mesh not all GPUs are joined: NCCL sends through one that is joined to both.
#[test]
fn nvlink_reaches_through_other_gpus() {
    let all_to_all = |variables: &[(&str, &str)]| {
        let topology = load("dgx-1-v100", &Overrides { nodes: Some(1) }).unwrap();
        let env = Env::parse(variables.iter().copied()).unwrap();
        let mut comm = Communicator::new(&topology, None, &env, 1).unwrap();
        let planned = comm
            .plan(Collective::AllToAll, 64 << 20, Forced::default())
            .unwrap();
        let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
        let links = outcome.link_bytes(&planned.plan);
        Moved {
            time: outcome.end(),
            links,
            planned,
            topology,
        }
    };
    let through = all_to_all(&[]);
    assert_eq!(through.over(LinkFamily::Pcie), 0);
    let without = all_to_all(&[("NCCL_NVB_DISABLE", "1")]);
    assert!(without.over(LinkFamily::Pcie) > 0);
    assert!(without.over(LinkFamily::Nvlink) < through.over(LinkFamily::Nvlink));
}
