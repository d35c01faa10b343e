//! Sends and receives on machines: whom they reach, by which protocol, over which links.

use super::*;
use fabricsim_collective::{ConnId, Matrix, Rank, Role, WorkerId};
use fabricsim_topology::catalogue::hardware;
use fabricsim_topology::{DeviceKind, DeviceModel, Topology, catalogue, expand};

fn machine(nodes: u32) -> Topology {
    load("dgx-h100", &Overrides { nodes: Some(nodes) }).unwrap()
}

const MIB: u64 = 1 << 20;

/// Halves of two nodes meet over the network, S out of and into each of the 16 interfaces;
/// pairs stay inside nodes.
#[test]
fn mates_of_halves_are_on_the_other_node() {
    let topology = machine(2);
    let over = |collective| {
        let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
        let planned = comm.plan(collective, 4 * MIB, Forced::default()).unwrap();
        verify(planned.plan.program.as_ref(), 8).unwrap();
        let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
        let least = least(&comm, &planned);
        assert!(outcome.end() >= least && least > Time::ZERO, "{collective}");
        let kind = |d| topology.device(d).kind;
        let carried = outcome.link_bytes(&planned.plan).into_iter();
        let of = carried.filter(|(link, _)| {
            let (from, to) = topology.ends(*link);
            kind(from) == DeviceKind::Nic && kind(to) == DeviceKind::Switch
        });
        of.map(|(_, bytes)| bytes.get()).collect::<Vec<_>>()
    };
    assert_eq!(over(Collective::SendRecvHalves), vec![4 * MIB; 16]);
    let pairs = over(Collective::SendRecvPairs);
    assert_eq!(pairs.iter().sum::<u64>(), 0);
}

/// The largest message to another rank decides for all; a rank's message to itself is a copy.
#[test]
fn one_protocol_for_unequal_messages() {
    let topology = machine(1);
    let kind = |rows: [[u64; 3]; 3]| {
        let mut comm = Communicator::new(&topology, Some(3), &Env::default(), 1).unwrap();
        let rows: Vec<Vec<u64>> = rows.iter().map(|r| r.to_vec()).collect();
        let matrix = Matrix::new(&rows).unwrap();
        let planned = comm.plan_all_to_all_v(matrix).unwrap();
        verify(planned.plan.program.as_ref(), 8).unwrap();
        planned.protocol
    };
    let small = [[4096; 3]; 3];
    assert_eq!(kind(small), ProtocolKind::Ll);
    let mut one_large = small;
    one_large[0][2] = 8 * MIB;
    assert_eq!(kind(one_large), ProtocolKind::Simple);
    let mut much_kept = small;
    much_kept[1][1] = 8 * MIB;
    assert_eq!(kind(much_kept), ProtocolKind::Ll);
}

/// Ring shift, pairs and halves send what they say to whom they say.
#[test]
fn receivers_are_those_of_the_schedule() {
    let topology = machine(1);
    for collective in Collective::ALL
        .into_iter()
        .filter(|c| c.is_single_message())
    {
        for per_node in [1, 2, 5, 8] {
            let mut comm =
                Communicator::new(&topology, Some(per_node), &Env::default(), 1).unwrap();
            let planned = comm.plan(collective, 4 * MIB, Forced::default()).unwrap();
            let program = planned.plan.program.as_ref();
            verify(program, 8).unwrap();
            for c in 0..program.connections() {
                let ends = program.connection(ConnId(c));
                let (from, to) = (program.worker(ends.from).rank, program.worker(ends.to).rank);
                assert_eq!(collective.receiver(from, per_node), Some(to));
            }
            let sending =
                (0..per_node).filter(|&r| collective.receiver(Rank(r), per_node).is_some());
            assert_eq!(
                sending.count() as u32 % 2,
                if collective == Collective::SendRecv {
                    per_node % 2
                } else {
                    0
                }
            );
        }
    }
}

/// Ten nodes of two GPUs have eight channels, of which some get messages to three other nodes, two
/// to each; NCCL works on up to eight of a channel at once.
#[test]
fn all_messages_of_a_channel_go_on_at_once() {
    let topology = machine(10);
    let mut comm = Communicator::new(&topology, Some(2), &Env::default(), 1).unwrap();
    let planned = comm.plan(Collective::AllToAll, 1 << 30, Forced::default());
    let planned = planned.unwrap();
    let program = planned.plan.program.as_ref();
    assert_eq!(planned.channels, 8);
    let senders = (0..program.workers())
        .map(|w| program.worker(WorkerId(w)))
        .filter(|w| w.rank == Rank(0) && w.channel == 0 && w.role == Role::Send);
    assert_eq!(senders.count(), 6);
}

/// The seven others of a node meet at each GPU's port, and nodes at each interface's; of two nodes
/// all that comes to an interface comes from one, and of a ring shift all that comes to a GPU.
#[test]
fn ports_lose_where_several_send_through_them() {
    let kept = |nodes, collective, from: DeviceKind, to: DeviceKind| {
        let topology = machine(nodes);
        let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
        let plan = comm
            .plan(collective, 1 << 30, Forced::default())
            .unwrap()
            .plan;
        let kind = |d| topology.device(d).kind;
        let links = topology.links().map(|(link, _)| link);
        let into = links.filter(|&link| {
            let ends = topology.ends(link);
            (kind(ends.0), kind(ends.1)) == (from, to)
        });
        let mut kept: Vec<u64> = into
            .map(|link| {
                let whole = topology.rate(link);
                let rate = plan.merged.rate(link, whole).gb_per_sec();
                (rate / whole.gb_per_sec() * 1e4).round() as u64
            })
            .collect();
        kept.dedup();
        kept
    };
    let merging = |name: &str| match &hardware().devices[name] {
        DeviceModel::Nvswitch(model) | DeviceModel::Switch(model) => {
            model.merged(1) - model.merged(2)
        }
        _ => panic!("{name} is a switch"),
    };
    let part = |lost: f64| ((1.0 - lost) * 1e4).round() as u64;
    let (gpu, nvswitch) = (DeviceKind::Gpu, DeviceKind::NvSwitch);
    let (nic, switch) = (DeviceKind::Nic, DeviceKind::Switch);
    // Half of what many lose is lost by two.
    let seven = part(2.0 * merging("nvswitch3") * 6.0 / 7.0);
    assert_eq!(kept(1, Collective::AllToAll, nvswitch, gpu), [seven]);
    assert_eq!(kept(1, Collective::AllToAll, gpu, nvswitch), [part(0.0)]);
    assert_eq!(kept(1, Collective::SendRecv, nvswitch, gpu), [part(0.0)]);
    assert_eq!(kept(1, Collective::AllGather, nvswitch, gpu), [part(0.0)]);
    assert_eq!(kept(2, Collective::AllToAll, switch, nic), [part(0.0)]);
    let three = part(2.0 * merging("quantum-2") * 2.0 / 3.0);
    assert_eq!(kept(4, Collective::AllToAll, switch, nic), [three]);
}

/// What proxies take to begin is paid where messages leave the node, and not by LL.
#[test]
fn sends_start_later_over_a_network() {
    let sends = hardware().architectures["hopper"].point_to_point.as_ref();
    let (kernel, network) = (sends.unwrap().launch.value, &sends.unwrap().network_start);
    let more = network.as_ref().unwrap().value;
    assert!(more > Time::ZERO);
    let starts = |nodes, bytes| {
        let topology = machine(nodes);
        let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
        let planned = comm
            .plan(Collective::SendRecv, bytes, Forced::default())
            .unwrap();
        (planned.protocol, planned.plan.costs[0].launch)
    };
    assert_eq!(starts(1, MIB), (ProtocolKind::Simple, kernel));
    assert_eq!(starts(2, MIB), (ProtocolKind::Simple, kernel + more));
    let (protocol, start) = starts(1, 1024);
    assert_eq!(protocol, ProtocolKind::Ll);
    assert!(start < kernel + more);
}

/// Four interfaces of a GPU that NCCL takes for one carry a fourth of each message; of two that it
/// knows, channels take one after the other.
#[test]
fn sends_use_all_interfaces_of_a_gpu() {
    let carried = |name: &str, rails: bool| {
        let mut hardware = hardware().clone();
        for model in hardware.devices.values_mut() {
            if let DeviceModel::Nic(nic) = model {
                nic.rails = nic.rails.take().filter(|_| rails);
            }
        }
        let spec = catalogue::find(name).unwrap();
        let topology = expand(&spec, &hardware, &Overrides { nodes: Some(2) }).unwrap();
        let mut comm = Communicator::new(&topology, Some(1), &Env::default(), 1).unwrap();
        let planned = comm
            .plan(Collective::SendRecv, 64 * MIB, Forced::default())
            .unwrap();
        let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
        let carried = outcome.link_bytes(&planned.plan).into_iter();
        let of = carried.filter(|(link, _)| {
            let (from, to) = topology.ends(*link);
            let kind = |d| topology.device(d).kind;
            kind(from) == DeviceKind::Nic && kind(to) == DeviceKind::Switch
        });
        let bytes = of.map(|(_, bytes)| bytes.get()).filter(|&b| b > 0);
        bytes.collect::<Vec<_>>()
    };
    assert_eq!(carried("aws-p5", true), vec![16 * MIB; 8]);
    // Of a GPU that is alone below its switch all are.
    assert_eq!(carried("aws-p5en", true), vec![16 * MIB; 8]);
    let alone = carried("aws-p5", false);
    assert_eq!((alone.len(), alone.iter().sum::<u64>()), (8, 128 * MIB));
}
