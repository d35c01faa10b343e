use super::*;
use crate::{Overrides, catalogue, expand};

fn machine(name: &str, nodes: u32) -> Topology {
    let nodes = Some(nodes);
    let spec = catalogue::find(name).unwrap();
    expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
}

#[test]
fn selectors_find_devices_by_their_full_names() {
    let topology = machine("superpod-h100", 4);
    let names = |text: &str| -> Vec<String> {
        let found = devices(&topology, text, "x").unwrap();
        found.iter().map(|&id| topology.device_name(id)).collect()
    };
    let gpu = topology.device_name(topology.nodes[2].gpus[5]);
    assert_eq!(names(&gpu), std::slice::from_ref(&gpu));
    let (node, _) = gpu.split_once("/gpu").unwrap();
    assert_eq!(names(&format!("{node}/gpu[5]")), std::slice::from_ref(&gpu));
    assert_eq!(names(&format!("{node}/gpu")).len(), 8);
    let inside = names(node);
    assert!(8 < inside.len());
    assert!(inside.iter().all(|name| name.starts_with(node)));
    let fabric = &topology.fabrics[0];
    assert_eq!(names(&fabric.name).len(), fabric.switches.len());
}

#[test]
fn links_are_named_by_their_ends() {
    let topology = machine("superpod-h100", 4);
    let nic = topology.device_name(topology.nodes[0].nics[0]);
    let fabric = &topology.fabrics[0].name;
    let out = links(&topology, &format!("{nic} > {fabric}"), "x").unwrap();
    let both = links(&topology, &format!("{nic} <> {fabric}"), "x").unwrap();
    let all = links(&topology, &nic, "x").unwrap();
    assert_eq!((out.len(), both.len()), (1, 2));
    assert!(both.len() < all.len());
    assert!(topology.link_name(out[0]).starts_with(&nic));
}

/// Names as reports write them select what they name.
#[test]
fn parallel_cables_are_named_one_by_one_where_flows_are_hashed() {
    let mut spec = catalogue::find("superpod-h100").unwrap();
    let machine = |spec: &_| {
        let nodes = Some(64);
        expand(spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
    };
    let bundled = machine(&spec);
    for fabric in spec.fabrics.values_mut() {
        fabric.routing = crate::spec::RoutingPolicy::Ecmp;
    }
    let single = machine(&spec);
    let both = "compute/leaf0 <> compute/spine0";
    assert_eq!(links(&bundled, both, "x").unwrap().len(), 2);
    let all = links(&single, both, "x").unwrap();
    assert_eq!(all.len(), 8);
    for &link in &all {
        let name = single.link_name(link);
        assert_eq!(links(&single, &name, "x").unwrap(), [link], "{name}");
    }
    let fault = links(&single, "compute/leaf0 > compute/spine0 #4", "x").unwrap_err();
    assert!(fault.expected.contains("is 4 of them"), "{fault}");
    assert!(links(&bundled, "compute/leaf0 > compute/spine0 #0", "x").is_err());
}

/// What is unique is found without its place; what is not names all places that have it.
#[test]
fn names_without_their_places_are_found_where_one_place_has_them() {
    let topology = machine("superpod-h100", 64);
    let names = |text: &str| -> Vec<String> {
        let found = devices(&topology, text, "x").unwrap();
        found.iter().map(|&id| topology.device_name(id)).collect()
    };
    assert_eq!(names("leaf2"), ["compute/leaf2"]);
    assert_eq!(names("leaf[2-3],spine1").len(), 3);
    assert_eq!(names("rail2"), ["compute/leaf2", "compute/leaf10"]);
    assert_eq!(names("compute/rail[2]"), names("rail2"));
    assert_eq!(names("compute/rail").len(), 16);
    let full = |text: &str| in_full(&topology, text);
    assert_eq!(full("leaf2"), "compute/leaf2");
    assert_eq!(
        full("leaf2 <> spine0 #1"),
        "compute/leaf2 <> compute/spine0 #1"
    );
    assert_eq!(full("node1/nic2,leaf[0-1]"), "node1/nic2,compute/leaf[0-1]");
    for text in [
        "compute/leaf2",
        "node0/nic3  >  compute",
        "nonsense",
        "nic2",
        "node[0-3]",
    ] {
        assert_eq!(full(text), text);
    }
    let fault = devices(&topology, "nic2", "x").unwrap_err();
    assert_eq!(fault.found, "`nic2`, which 64 places have");
    let expected = "one of them by its full name: `node0/nic2` … `node63/nic2`; \
                    `node[*]/nic2` for all of them";
    assert_eq!(fault.expected, expected);
    for (text, expected) in [
        ("leaf99", "`compute/leaf[0-15]`"),
        ("rail8", "`compute/rail[0-7]`"),
        ("compute/rail8", "`rail[0-7]`"),
    ] {
        assert_eq!(
            devices(&topology, text, "x").unwrap_err().expected,
            expected
        );
    }
    // One node's alone need no place.
    let one = machine("dgx-h100", 1);
    assert_eq!(devices(&one, "nic2", "x").unwrap().len(), 1);
}

#[test]
fn what_names_nothing_says_what_could_have_been_meant() {
    let topology = machine("dgx-h100", 1);
    let cases = [
        ("node0/gpu[8]", "`gpu[0-7]`", None),
        ("node0/gpu9", "`gpu[0-7]`", None),
        ("nod0/gpu1", "names there", Some("node")),
        ("node0/gpo[1]", "names there", Some("gpu")),
        ("node0/nvswitsh", "names there", Some("nvswitch")),
        ("node0/gpu[", "by their full names", None),
    ];
    for (text, expected, nearest) in cases {
        let fault = devices(&topology, text, "faults[0].link.on").unwrap_err();
        assert_eq!(fault.path, "faults[0].link.on");
        assert!(fault.expected.contains(expected), "{text}: {fault}");
        assert_eq!(fault.nearest.as_deref(), nearest, "{text}: {fault}");
    }
    let fault = links(&topology, "node0/gpu0 > node0/nic0", "x").unwrap_err();
    assert!(fault.expected.contains("has links to node0/"), "{fault}");
}
