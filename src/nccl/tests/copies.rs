//! What is found once for all copies of a node or a host is what is found in each.

use super::*;
use crate::hosts::hosts;
use fabricsim_topology::Router;

/// A router without failed links looks at each node by itself if it has been told of failures.
fn by_itself(topology: &fabricsim_topology::Topology) -> Router<'_> {
    Router::new(topology, 7).avoiding([])
}

#[test]
fn hosts_that_are_alike_have_the_same_doors() {
    for (name, nodes) in [("dgx-h100", 5), ("gh200-quad", 4), ("gb200-nvl72", 36)] {
        let topology = load(name, &Overrides { nodes: Some(nodes) }).unwrap();
        let gpus: Vec<_> = topology.gpus().collect();
        let env = Env::default();
        let copied = hosts(&topology, &Router::new(&topology, 7), &gpus, &env);
        let each = hosts(&topology, &by_itself(&topology), &gpus, &env);
        assert!((0..).zip(&each).all(|(index, host)| host.like == index));
        let copies = copied.iter().filter(|host| host.shift > 0).count();
        let apart = name == "gb200-nvl72";
        let expected = if apart { 0 } else { copied.len() - 1 };
        assert_eq!(copies, expected, "{name}");
        for (copy, own) in copied.iter().zip(&each) {
            assert_eq!((&copy.nics, &copy.doors), (&own.nics, &own.doors), "{name}");
        }
    }
}

#[test]
fn plans_do_not_depend_on_what_is_known_of_copies() {
    let cases = [
        ("superpod-h100", 34, Collective::AllReduce),
        ("dgx-h100", 4, Collective::AllToAll),
        ("x86-h100-pcie", 3, Collective::AllReduce),
        ("l40s-pcie", 3, Collective::AllToAll),
        ("dgx-1-v100", 3, Collective::AllReduce),
        ("gh200-quad", 5, Collective::AllToAll),
    ];
    for (name, nodes, collective) in cases {
        let topology = load(name, &Overrides { nodes: Some(nodes) }).unwrap();
        let gpus: Vec<_> = topology.gpus().collect();
        let plan = |router| {
            let mut comm =
                Communicator::of(&topology, gpus.clone(), &Env::default(), router).unwrap();
            let planned = comm.plan(collective, 1 << 20, Forced::default()).unwrap();
            planned.plan
        };
        let (copied, each) = (plan(Router::new(&topology, 7)), plan(by_itself(&topology)));
        assert_eq!(copied.routes, each.routes, "{name}");
        assert!(
            copied.transports.iter().eq(each.transports.iter()),
            "{name}"
        );
        let kinds = copied.transports.kinds().len();
        assert!(kinds < 20, "{name}: {kinds} kinds of transports");
    }
}

#[test]
fn rates_of_many_links_are_those_of_each() {
    let topology = load("x86-h100-pcie", &Overrides { nodes: Some(2) }).unwrap();
    let rates = topology.rates();
    for (link, _) in topology.links() {
        assert_eq!(rates(link), topology.rate(link));
    }
}
