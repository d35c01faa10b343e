//! The ring in host memory: over which links, and how slow.

use super::*;
use fabricsim_topology::{DeviceKind, LinkFamily, LinkId, NodeId, Topology, sockets};
use std::collections::BTreeMap;

const CPU_RING: Forced = Forced {
    algorithm: Some(Algorithm::CpuRing),
    protocol: None,
};
const MIB: u64 = 1 << 20;

struct Done {
    time: Time,
    links: BTreeMap<LinkId, Bytes>,
}

fn done(topology: &Topology, per_node: u32, collective: Collective, bytes: u64) -> Done {
    let mut comm = Communicator::new(topology, Some(per_node), &Env::default(), 1).unwrap();
    let planned = comm.plan(collective, bytes, CPU_RING).unwrap();
    verify(planned.plan.program.as_ref(), 2).unwrap();
    let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
    assert!(outcome.end() >= least(&comm, &planned));
    Done {
        time: outcome.end(),
        links: outcome.link_bytes(&planned.plan),
    }
}

fn machine(name: &str, nodes: u32) -> Topology {
    load(name, &Overrides { nodes: Some(nodes) }).unwrap()
}

/// S out of each GPU and S back; 2(N-1)/N S over the network in each direction; no NVLink.
#[test]
fn data_goes_to_the_host_round_and_back() {
    let topology = machine("dgx-h100", 4);
    let bytes = 64 * MIB;
    let done = done(&topology, 1, Collective::AllReduce, bytes);
    let kind = |d| topology.device(d).kind;
    let sum = |from: DeviceKind, to: DeviceKind| -> u64 {
        let of = done.links.iter().filter(|(link, _)| {
            let ends = topology.ends(**link);
            (kind(ends.0), kind(ends.1)) == (from, to)
        });
        of.map(|(_, bytes)| bytes.get()).sum()
    };
    let (gpu, switch) = (DeviceKind::Gpu, DeviceKind::PcieSwitch);
    assert_eq!([sum(gpu, switch), sum(switch, gpu)], [4 * bytes; 2]);
    let round = 4 * (2 * 3 * bytes / 4);
    assert_eq!(sum(DeviceKind::Nic, DeviceKind::Switch), round);
    assert_eq!(sum(DeviceKind::Switch, DeviceKind::Nic), round);
    let nvlink = |l: &&LinkId| topology.family(**l) == LinkFamily::Nvlink;
    assert_eq!(done.links.keys().filter(nvlink).count(), 0);
}

/// Large: one stream's rate for 2(N-1)/N S, and the copies. Small: 2(N-1) transfers.
#[test]
fn the_stream_is_what_limits() {
    let topology = machine("dgx-h100", 4);
    let model = sockets();
    let stream = model.stream_rate.value.bytes_per_sec() as f64;
    let large = done(&topology, 1, Collective::AllReduce, 1 << 30);
    let floor = 1.5 * (1u64 << 30) as f64 / stream;
    let seconds = large.time.seconds();
    assert!(
        seconds > floor && seconds < 1.15 * floor,
        "{seconds} {floor}"
    );
    let small = done(&topology, 1, Collective::AllReduce, 64);
    let hops = 6.0 * model.transfer_latency().micros();
    let micros = small.time.micros();
    assert!(micros > hops && micros < hops + 40.0, "{micros} {hops}");
    // Many ranks, of whose 62 steps at most 8 in a row cross the network.
    let many = done(&topology, 8, Collective::AllReduce, 512);
    let hops = 8.0 * model.transfer_latency().micros();
    let micros = many.time.micros();
    assert!(micros > hops && micros < hops + 150.0, "{micros} {hops}");
    // NCCL needs a fraction of it.
    let mut comm = Communicator::new(&topology, Some(1), &Env::default(), 1).unwrap();
    let nccl = comm.plan(Collective::AllReduce, 1 << 30, RING).unwrap();
    let outcome = simulate(&nccl.plan, |l| topology.rate(l), Options::default()).unwrap();
    assert!(outcome.end().seconds() * 5.0 < seconds);
}

#[test]
fn every_machine_has_a_ring_in_its_hosts() {
    for (name, nodes, per_node) in [
        ("gb200-nvl72", 3, 2),
        ("x86-h100-pcie", 1, 8),
        ("x86-h100-pcie", 2, 3),
        ("t4-pcie", 2, 4),
        ("dgx-a100", 1, 1),
    ] {
        let topology = machine(name, nodes);
        for collective in Collective::KERNELS {
            let done = done(&topology, per_node, collective, 3 * MIB + 48);
            assert!(done.time > Time::ZERO, "{name} {collective}");
        }
    }
    let topology = machine("dgx-h100", 1);
    let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
    let ll = Forced {
        protocol: Some(ProtocolKind::Ll),
        ..CPU_RING
    };
    let error = comm.plan(Collective::AllReduce, MIB, ll).err().unwrap();
    assert!(error.to_string().contains("sockets"), "{error}");
}

const SOCKET: (&str, &str) = ("NCCL_NET", "Socket");

/// What NCCL's ring takes over sockets, and the links that it loads.
fn over_sockets(topology: &Topology, per_node: u32, more: &[(&str, &str)], bytes: u64) -> Done {
    let variables = more.iter().copied().chain([SOCKET]);
    let env = Env::parse(variables).unwrap();
    let mut comm = Communicator::new(topology, Some(per_node), &env, 1).unwrap();
    let planned = comm.plan(Collective::AllReduce, bytes, RING).unwrap();
    let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
    Done {
        time: outcome.end(),
        links: outcome.link_bytes(&planned.plan),
    }
}

/// NCCL's sockets: all that leaves a GPU for the network goes through the host, and a proxy thread
/// that sends and receives has half a core for each.
#[test]
fn nccl_over_sockets_goes_through_the_host() {
    let topology = machine("dgx-h100", 4);
    let bytes = 256 * MIB;
    let done = over_sockets(&topology, 1, &[("NCCL_MAX_NCHANNELS", "1")], bytes);
    let (kind, model) = (|d| topology.device(d).kind, sockets());
    let to_host = done.links.iter().filter(|(link, _)| {
        let ends = topology.ends(**link);
        (kind(ends.0), kind(ends.1)) == (DeviceKind::PcieSwitch, DeviceKind::Cpu)
    });
    // What the GPU stores there, and what the interface writes, and back.
    let round = 4 * (2 * 3 * bytes / 4);
    assert_eq!(
        to_host.map(|(_, bytes)| bytes.get()).sum::<u64>(),
        2 * round
    );
    let core = model.stream_rate.value.bytes_per_sec() as f64;
    let floor = 1.5 * bytes as f64 / (core / 2.0);
    let seconds = done.time.seconds();
    assert!(
        seconds > floor && seconds < 1.1 * floor,
        "{seconds} {floor}"
    );
    // Helper threads of its own for each direction.
    let threads = [("NCCL_MAX_NCHANNELS", "1"), ("NCCL_SOCKET_NTHREADS", "4")];
    let helped = over_sockets(&topology, 1, &threads, bytes).time.seconds();
    let floor = 1.5 * bytes as f64 / (4.0 * model.tcp.helper_rate.value.bytes_per_sec() as f64);
    assert!(helped > floor && helped < 1.2 * floor, "{helped} {floor}");
}

/// Six hops in a row of four ranks, each a kernel's latency, and twice a waking thread with helpers.
#[test]
fn small_messages_wait_for_kernels() {
    let topology = machine("dgx-h100", 4);
    let tcp = &sockets().tcp;
    let micros = |more: &[_], bytes| over_sockets(&topology, 1, more, bytes).time.micros();
    let small = micros(&[], 8);
    let hops = 6.0 * tcp.latency.value.micros();
    assert!(small > hops && small < hops + 60.0, "{small} {hops}");
    let helpers = [("NCCL_SOCKET_NTHREADS", "2")];
    // With up to 128 bytes the header carries them.
    assert!((micros(&helpers, 8) - small).abs() < 0.1);
    let more = micros(&helpers, 4096) - micros(&[], 4096);
    let woken = 12.0 * tcp.helper_wake.value.micros();
    assert!(more > woken - 0.1 && more < woken + 2.0, "{more} {woken}");
}

/// Without GPUDirect a GPU asks host memory for what has come: a way up PCIe for each hop. On one node
/// alone, half as often; other bytes go as before.
#[test]
fn staging_costs_a_request_for_each_hop() {
    let topology = machine("dgx-h100", 2);
    let micros = |env: &Env, bytes| {
        let mut comm = Communicator::new(&topology, Some(1), env, 1).unwrap();
        let planned = comm.plan(Collective::AllReduce, bytes, RING).unwrap();
        let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
        outcome.end().micros()
    };
    let level = Env::parse([("NCCL_NET_GDR_LEVEL", "LOC")]).unwrap();
    let nodes: Vec<NodeId> = topology
        .gpus()
        .filter_map(|gpu| topology.node_of(gpu))
        .collect();
    let staged = |nodes: &[NodeId]| Env {
        staged: nodes.to_vec(),
        ..Env::default()
    };
    let all = staged(&[nodes[0], nodes[nodes.len() - 1]]);
    let one = staged(&nodes[..1]);
    let direct = micros(&Env::default(), 8);
    let (small, large) = (micros(&level, 8), micros(&level, 256 * MIB));
    // Two hops, 0.52 us each less the two PCIe links that a GPU is farther than the CPU.
    assert!(
        small > direct + 0.2 && small < direct + 1.5,
        "{small} {direct}"
    );
    assert!((micros(&all, 8) - small).abs() < 0.01);
    let half = micros(&one, 8) - direct;
    assert!(
        (half - (small - direct) / 2.0).abs() < 0.1,
        "{half} {small} {direct}"
    );
    assert!(large > 1.5 * micros(&Env::default(), 256 * MIB));
}

/// With Gloo what leaves a host is its ring; what stays in one is NCCL's.
#[test]
fn gloo_takes_the_ring_of_processes() {
    let env = Env {
        gloo: true,
        ..Env::default()
    };
    let plan = |nodes, collective| {
        let topology = machine("dgx-h100", nodes);
        let mut comm = Communicator::new(&topology, Some(2), &env, 1).unwrap();
        comm.plan(collective, MIB, Forced::default())
            .unwrap()
            .algorithm
    };
    assert_eq!(plan(2, Collective::AllReduce), Algorithm::CpuRing);
    assert_ne!(plan(1, Collective::AllReduce), Algorithm::CpuRing);
    assert_eq!(plan(2, Collective::AllToAll), Algorithm::PointToPoint);
}

/// Threads on another socket stage there: all bytes cross the link between sockets. On one core, a
/// proxy thread has 0.73 of it. NCCL may ignore what the launcher did.
#[test]
fn threads_far_away_or_on_one_core_are_slower() {
    let topology = machine("dgx-h100", 2);
    let done = |binding, ignored: &str| {
        let env = Env {
            binding,
            ..Env::parse([SOCKET, ("NCCL_IGNORE_CPU_AFFINITY", ignored)]).unwrap()
        };
        let mut comm = Communicator::new(&topology, Some(1), &env, 1).unwrap();
        let planned = comm.plan(Collective::AllReduce, 64 * MIB, RING).unwrap();
        let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
        let links = outcome.link_bytes(&planned.plan);
        let between = links
            .iter()
            .filter(|(l, _)| topology.family(**l) == LinkFamily::Socket);
        let between: u64 = between.map(|(_, bytes)| bytes.get()).sum();
        (outcome.end().seconds(), between)
    };
    let (near, none) = done(Binding::Near, "0");
    let (_, crossed) = done(Binding::Far, "0");
    assert_eq!(none, 0);
    // Out of the GPU and to the interface, and back, on two nodes.
    assert_eq!(crossed, 2 * 4 * 64 * MIB);
    let (shared, _) = done(Binding::OneCore, "0");
    let part = sockets().shared_core.value;
    assert!((near / shared - part).abs() < 0.02, "{near} {shared}");
    for binding in [Binding::Far, Binding::OneCore] {
        assert_eq!(done(binding, "1"), (near, 0));
    }
}
