//! Registered buffers: what is spared, and that the same bytes still cross the same links.

use super::*;
use fabricsim_topology::{DeviceKind, Topology};

/// One operation: what was planned, its time alone, and bytes by kinds of a link's ends.
struct Done {
    planned: Planned,
    time: Time,
    links: Vec<((DeviceKind, DeviceKind), u64)>,
}

impl Done {
    /// Bytes on each used link from one kind of device to another.
    fn over(&self, from: DeviceKind, to: DeviceKind) -> Vec<u64> {
        let of = self.links.iter().filter(|l| l.0 == (from, to) && l.1 > 0);
        of.map(|l| l.1).collect()
    }
}

fn machine(name: &str, nodes: u32) -> Topology {
    load(name, &Overrides { nodes: Some(nodes) }).unwrap()
}

fn done(
    topology: &Topology,
    per_node: u32,
    (collective, bytes): (Collective, u64),
    variables: &[(&str, &str)],
    registered: Option<Registration>,
) -> Done {
    let mut env = Env::parse(variables.iter().copied()).unwrap();
    env.register(registered);
    assert_eq!(env.warnings, Vec::<String>::new());
    let mut comm = Communicator::new(topology, Some(per_node), &env, 1).unwrap();
    let planned = comm.plan(collective, bytes, Forced::default()).unwrap();
    verify(planned.plan.program.as_ref(), 8).unwrap();
    let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
    let kind = |d| topology.device(d).kind;
    let links = outcome.link_bytes(&planned.plan).into_iter();
    let links = links.map(|(link, bytes)| {
        let (from, to) = topology.ends(link);
        ((kind(from), kind(to)), bytes.get())
    });
    Done {
        time: outcome.end(),
        links: links.collect(),
        planned,
    }
}

const LOCAL: Option<Registration> = Some(Registration::Local);
const MIB: u64 = 1 << 20;
const GPU: DeviceKind = DeviceKind::Gpu;
const SWITCH: DeviceKind = DeviceKind::NvSwitch;

/// nccl.md 5.8: out and in of a GPU S + S/N, S/N and S, S and S/N, registered or not.
#[test]
fn nvls_moves_what_the_closed_forms_say() {
    let topology = machine("dgx-h100", 1);
    let bytes = 256 * MIB;
    let efficient = [("NCCL_CTA_POLICY", "EFFICIENCY")];
    let share = bytes / 8;
    for (collective, out, into, channels) in [
        (Collective::AllReduce, bytes + share, bytes + share, 4),
        (Collective::AllGather, share, bytes, 4),
        (Collective::ReduceScatter, bytes, share, 5),
    ] {
        let done = done(&topology, 8, (collective, bytes), &efficient, LOCAL);
        assert_eq!(done.planned.algorithm, Algorithm::Nvls, "{collective}");
        assert_eq!(done.planned.channels, channels, "{collective}");
        let sum = |from, to| done.over(from, to).iter().sum::<u64>();
        assert_eq!(sum(GPU, SWITCH), 8 * out, "{collective}");
        assert_eq!(sum(SWITCH, GPU), 8 * into, "{collective}");
    }
}

/// NCCL takes few thread blocks, 4 in place of 16 on 8 H100 and 8 in place of 24 on 8 B200, because
/// they suffice: with large sizes they are never slower than those that copy.
#[test]
fn nvls_needs_fewer_thread_blocks() {
    for (machine_name, few_channels) in [("dgx-h100", 4), ("dgx-b200", 8)] {
        let topology = machine(machine_name, 1);
        for bytes in [32 * MIB, 256 * MIB, 4096 * MIB] {
            let done = |how| done(&topology, 8, (Collective::AllReduce, bytes), &[], how);
            let (plain, few) = (done(None), done(LOCAL));
            assert_eq!(few.planned.channels, few_channels, "{machine_name}");
            assert!(
                few.time <= plain.time,
                "{machine_name}, {bytes}: {} us registered, {} us plain",
                few.time.micros(),
                plain.time.micros()
            );
        }
    }
}

/// All of one node's work is part of what two nodes do.
#[test]
fn two_nodes_are_no_faster_than_one() {
    for name in ["dgx-h100", "dgx-b200", "dgx-b300", "aws-p6-b300"] {
        for bytes in [64 * MIB, 2048 * MIB] {
            let of = (Collective::AllReduce, bytes);
            // As many thread blocks, which NCCL takes on several nodes of Blackwell.
            let variables: &[_] = match name {
                "dgx-h100" => &[],
                _ => &[("NCCL_NVLS_NCHANNELS", "32")],
            };
            let [one, two] = [1, 2].map(|nodes| {
                let topology = machine(name, nodes);
                done(&topology, 8, of, variables, None).time.micros()
            });
            assert!(one <= two, "{name}, {bytes}: one {one} us, two {two} us");
        }
    }
}

#[test]
fn variables_undo_registration() {
    let topology = machine("dgx-h100", 1);
    let of = (Collective::AllReduce, 64 * MIB);
    let time = |variables: &[(&str, &str)], how| done(&topology, 8, of, variables, how).time;
    let plain = time(&[], None);
    assert_ne!(time(&[], LOCAL), plain);
    assert_eq!(time(&[("NCCL_LOCAL_REGISTER", "0")], LOCAL), plain);
    let graph = Some(Registration::Graph);
    assert_eq!(time(&[], graph), time(&[], LOCAL));
    assert_eq!(time(&[("NCCL_GRAPH_REGISTER", "0")], graph), plain);
}

/// nccl.md 4.5: rings gather and sum without the last copy, but do not scatter without it.
#[test]
fn rings_spare_the_last_copy_where_nccl_does() {
    let topology = machine("dgx-h100", 1);
    let simple = [("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "Simple")];
    for (collective, spared) in [
        (Collective::AllReduce, true),
        (Collective::AllGather, true),
        (Collective::Broadcast, true),
        (Collective::ReduceScatter, false),
        (Collective::Reduce, false),
    ] {
        let of = (collective, 64 * MIB);
        let plain = done(&topology, 2, of, &simple, None);
        let registered = done(&topology, 2, of, &simple, LOCAL);
        assert_eq!(registered.time < plain.time, spared, "{collective}");
        assert_eq!(registered.links, plain.links, "{collective}");
    }
    let ll = [("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL")];
    let of = (Collective::AllReduce, MIB);
    let plain = done(&topology, 2, of, &ll, None);
    assert_eq!(done(&topology, 2, of, &ll, LOCAL).time, plain.time);
}

/// Interfaces read and write users' buffers: with one rank a host all-gathers, and sends as
/// long as there is no relay.
#[test]
fn interfaces_reach_users_buffers() {
    let topology = machine("dgx-h100", 2);
    let nics = |done: &Done| done.over(DeviceKind::Nic, DeviceKind::Switch);
    let gather = (Collective::AllGather, 64 * MIB);
    let simple = [("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "Simple")];
    let plain = done(&topology, 1, gather, &simple, None);
    let registered = done(&topology, 1, gather, &simple, LOCAL);
    assert!(registered.time < plain.time);
    assert_eq!(nics(&registered).iter().sum::<u64>(), 2 * 32 * MIB);
    assert_eq!(registered.links, plain.links);

    let halves = (Collective::SendRecvHalves, 16 * MIB);
    let plain = done(&topology, 8, halves, &[], None);
    let registered = done(&topology, 8, halves, &[], LOCAL);
    assert!(registered.time < plain.time);
    assert_eq!(nics(&registered), vec![16 * MIB; 8 * 2]);
    let program = registered.planned.plan.program.as_ref();
    let longest = (0..program.workers())
        .map(fabricsim_collective::WorkerId)
        .flat_map(|w| (0..program.steps(w)).map(move |i| program.step(w, i).len));
    // A message is a whole part: four channels to a peer.
    assert_eq!(longest.max(), Some(4 * MIB));

    // Relays (PXN) have buffers of their own.
    let all = (Collective::AllToAll, 64 * MIB);
    let plain = done(&topology, 8, all, &[], None);
    assert_eq!(done(&topology, 8, all, &[], LOCAL).time, plain.time);
    let inside = (Collective::SendRecvPairs, 64 * MIB);
    let plain = done(&topology, 8, inside, &[], None);
    let registered = done(&topology, 8, inside, &[], LOCAL);
    assert!(registered.time < plain.time);
    assert_eq!(registered.links, plain.links);
}
