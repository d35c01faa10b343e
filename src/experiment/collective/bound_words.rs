//! What the cuts of a bound are called.

use fabricsim_plan::{Cut, CutKind, Direction};

/// The links that a cut is made of, in a few words; nothing where nothing has to move.
pub(super) fn of(cut: Option<Cut>) -> String {
    cut.map_or(String::new(), |cut| {
        format!("{} {}", links(cut.kind), of_which(cut))
    })
}

fn links(kind: CutKind) -> &'static str {
    match kind {
        CutKind::Gpu => "ports",
        CutKind::NvlinkGroup => "PCIe or C2C ports",
        CutKind::PcieSwitch | CutKind::Socket => "links",
        CutKind::Node | CutKind::NvlinkDomain => "NICs",
        CutKind::Leaves | CutKind::Pod => "uplinks",
        CutKind::SwitchGroup => "global links",
    }
}

fn of_which(cut: Cut) -> String {
    let (one, all) = match cut.kind {
        CutKind::Gpu => ("a GPU", "all GPUs"),
        CutKind::NvlinkGroup => ("GPUs that NVLinks join", "all GPUs that NVLinks join"),
        CutKind::PcieSwitch => ("GPUs below a PCIe switch", "all PCIe switches"),
        CutKind::Socket => ("a CPU socket", "all CPU sockets"),
        CutKind::Node => ("a node", "all nodes"),
        CutKind::NvlinkDomain => ("an NVLink domain", "all NVLink domains"),
        CutKind::Leaves => ("nodes below common leaf switches", "all leaf switches"),
        CutKind::Pod => ("a pod", "all pods"),
        CutKind::SwitchGroup => ("a group of switches", "all groups of switches"),
    };
    match cut.direction {
        Direction::Out => format!("out of {one}"),
        Direction::Into => format!("into {one}"),
        Direction::Between => format!("of {all}"),
    }
}
