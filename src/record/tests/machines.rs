//! What NCCL would do on machines of the catalogue: every record is consistent.

use super::*;
use fabricsim_nccl::{Communicator, Env, Forced};

#[test]
fn records_of_nccls_plans_are_consistent() {
    for (name, nodes, per_node, bytes) in [
        ("dgx-h100", 1, None, 8),
        ("dgx-h100", 1, None, 64 << 20),
        ("dgx-h100", 2, None, 4 << 20),
        ("dgx-a100", 2, Some(2), 1 << 20),
        ("gb200-nvl72", 2, None, 1 << 20),
        ("x86-h100-pcie", 2, None, 2 << 20),
    ] {
        let t = machine(name, nodes);
        let mut comm = Communicator::new(&t, per_node, &Env::default(), 1).unwrap();
        for collective in [Collective::AllReduce, Collective::AllGather] {
            let planned = comm.plan(collective, bytes, Forced::default()).unwrap();
            let (record, outcome) = record(&t, &planned.plan, 2);
            assert_consistent(&t, &planned.plan, &record, &outcome);
            let again = super::record(&t, &planned.plan, 2).0;
            assert_eq!(record, again);
        }
    }
}

#[test]
fn resources_are_named_by_where_their_links_lead() {
    let t = machine("dgx-h100", 2);
    let named = |links: &[LinkId]| {
        let words = words::describe(&t, links);
        (words.name.clone(), words.class(), words.others())
    };
    let text = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    let gpus: Vec<_> = t.gpus().collect();
    let route = Router::new(&t, 0).peer(gpus[3], gpus[4]).unwrap();
    let links: Vec<LinkId> = route.hops.iter().map(|h| h.link).collect();
    let (up, down): (Vec<_>, Vec<_>) = links.iter().partition(|l| t.ends(**l).0 == gpus[3]);
    assert_eq!(
        named(&up),
        text(
            "NVLink out of node0/gpu3",
            "NVLink out of GPUs",
            "NVLink out of other GPUs"
        )
    );
    assert_eq!(named(&down).0, "NVLink into node0/gpu4");
    assert_eq!(named(&links).0, "NVLink from node0/gpu3 to node0/gpu4");
    assert_eq!(named(&links).2, "NVLink between other GPUs");
    let (one, class, _) = named(&up[..1]);
    assert!(
        one.starts_with("NVLink from node0/gpu3 to node0/nvswitch"),
        "{one}"
    );
    assert_eq!(class, "NVLink out of GPUs");
    let nic = t.nodes[1].nics[2];
    let cable = t.links_from(nic).into_iter();
    let cable: Vec<LinkId> = cable
        .map(|(l, _)| l)
        .filter(|&l| t.family(l) == fabricsim_topology::LinkFamily::Network)
        .collect();
    assert_eq!(
        named(&cable),
        text(
            "network out of node1/nic2",
            "network out of NICs",
            "network out of other NICs"
        )
    );
}
