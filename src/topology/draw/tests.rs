//! What drawings must show; how they look was judged by eye.

use super::*;
use crate::topology::tests::{build, pair, rack, server};
use crate::topology::{LinkId, Topology};

fn drawn(topology: &Topology) -> String {
    svg(topology, &Style::default())
}

#[test]
#[ignore = "writes pictures to look at"]
fn pictures() {
    let folder = std::env::temp_dir().join("fabricsim-pictures");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, topology) in samples() {
        std::fs::write(folder.join(format!("{name}.svg")), drawn(&topology)).unwrap();
    }
}

fn samples() -> Vec<(String, Topology)> {
    use crate::topology::{Overrides, catalogue, expand};
    let mut list = vec![
        ("server".to_owned(), build(&server(), 1)),
        ("rack".to_owned(), build(&rack(), 18)),
        ("pair".to_owned(), build(&pair(), 1)),
    ];
    for (name, nodes) in [
        ("dgx-h100", 1),
        ("dgx-h100", 2),
        ("dgx-h100", 4),
        ("dgx-a100", 1),
        ("gb200-nvl72", 18),
        ("gb200-nvl72", 72),
        ("gb200-nvl72", 1),
        ("superpod-h100", 64),
        ("superpod-h100", 127),
        ("superpod-h100", 2048),
        ("x86-h100-pcie", 1),
    ] {
        let spec = catalogue::find(name).unwrap();
        let nodes = Some(nodes);
        let topology = expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap();
        list.push((format!("{name}-{}", topology.nodes.len()), topology));
    }
    list
}
