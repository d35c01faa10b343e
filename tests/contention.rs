//! Collectives at the same time: shares of links as a job's execution gives them to whole
//! collectives, against all of their slices simulated together.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::collective::Collective;
use fabricsim::engine::job::{JobOptions, Unseen, rehearse, run_job};
use fabricsim::engine::{Options, simulate_folded};
use fabricsim::nccl::{Algorithm, Communicator, Env, Forced};
use fabricsim::plan::job::{
    Actor, Exchange, ExchangeId, Group, GroupId, GroupRole, Job, Movement, Script, StreamId,
    StreamRole, Tag, Task, Undisturbed, Work,
};
use fabricsim::plan::{Joined, Plan, ProtocolKind};
use fabricsim::topology::{DeviceId, Overrides, Router, Topology, catalogue, expand};
use fabricsim::units::{Bytes, Time};
use smallvec::SmallVec;
use std::sync::Arc;

/// A collective: what, of how many MiB, on which GPUs.
#[derive(Clone)]
struct Part {
    what: Collective,
    algorithm: Option<Algorithm>,
    protocol: ProtocolKind,
    mebibytes: u64,
    gpus: Vec<usize>,
}

#[derive(Clone)]
struct Case {
    name: &'static str,
    topology: &'static str,
    nodes: u32,
    parts: [Part; 2],
    /// The second begins so much later.
    later: Time,
    /// docs/fidelity.md tells why it is far off.
    far: bool,
}

fn ring(what: Collective, mebibytes: u64, gpus: impl IntoIterator<Item = usize>) -> Part {
    Part {
        what,
        algorithm: Some(Algorithm::Ring),
        protocol: ProtocolKind::Simple,
        mebibytes,
        gpus: gpus.into_iter().collect(),
    }
}

fn all_to_all(mebibytes: u64, gpus: impl IntoIterator<Item = usize>) -> Part {
    Part {
        algorithm: None,
        ..ring(Collective::AllToAll, mebibytes, gpus)
    }
}

fn cases() -> Vec<Case> {
    use Collective::{AllGather, AllReduce, ReduceScatter};
    let rail = || (0..4).map(|n| n * 8);
    let case = |name, topology, nodes, parts| Case {
        name,
        topology,
        nodes,
        parts,
        later: Time::ZERO,
        far: false,
    };
    let later = |micros, case| Case {
        later: Time::from_micros(micros),
        ..case
    };
    let with = |protocol, part: Part| Part { protocol, ..part };
    vec![
        case(
            "two gradient sums of one rail, as large as each other",
            "dgx-h100",
            4,
            [ring(AllReduce, 64, rail()), ring(AllReduce, 64, rail())],
        ),
        case(
            "two gradient sums of one rail, 1 : 4",
            "dgx-h100",
            4,
            [ring(AllReduce, 32, rail()), ring(AllReduce, 128, rail())],
        ),
        case(
            "weights gathered while gradients are scattered",
            "dgx-h100",
            4,
            [
                ring(AllGather, 256, rail()),
                ring(ReduceScatter, 256, rail()),
            ],
        ),
        case(
            "a sum over all beside one inside a node",
            "dgx-h100",
            4,
            [ring(AllReduce, 256, 0..32), ring(AllReduce, 256, 0..8)],
        ),
        case(
            "two sums in one NVLink domain",
            "dgx-h100",
            1,
            [ring(AllReduce, 128, 0..8), ring(AllReduce, 128, 0..8)],
        ),
        case(
            "tokens of experts in two layers, 1 : 2",
            "dgx-h100",
            4,
            [all_to_all(64, 0..32), all_to_all(128, 0..32)],
        ),
        case(
            "tokens of all GPUs beside those of every other",
            "dgx-h100",
            2,
            [all_to_all(64, 0..16), all_to_all(64, (0..8).map(|g| 2 * g))],
        ),
        case(
            "a sum on PCIe beside one over half of its GPUs",
            "x86-h100-pcie",
            1,
            [ring(AllReduce, 64, 0..8), ring(AllReduce, 64, 0..4)],
        ),
        // Half of their time, or more, asks nothing of a link.
        case(
            "few tokens",
            "dgx-h100",
            4,
            [all_to_all(16, 0..32), all_to_all(16, 0..32)],
        ),
        later(
            140,
            case(
                "few tokens, a quarter later",
                "dgx-h100",
                4,
                [all_to_all(16, 0..32), all_to_all(16, 0..32)],
            ),
        ),
        later(
            190,
            case(
                "few tokens, a third later",
                "dgx-h100",
                4,
                [all_to_all(16, 0..32), all_to_all(16, 0..32)],
            ),
        ),
        later(
            140,
            case(
                "few tokens, then many",
                "dgx-h100",
                4,
                [all_to_all(16, 0..32), all_to_all(64, 0..32)],
            ),
        ),
        case(
            "a small sum beside a large one",
            "dgx-h100",
            4,
            [ring(AllReduce, 4, rail()), ring(AllReduce, 32, rail())],
        ),
        later(
            70,
            case(
                "small sums inside a node, half later",
                "dgx-h100",
                1,
                [ring(AllReduce, 16, 0..8), ring(AllReduce, 16, 0..8)],
            ),
        ),
        case(
            "sums with LL inside a node",
            "dgx-h100",
            1,
            [0, 1].map(|_| with(ProtocolKind::Ll, ring(AllReduce, 32, 0..8))),
        ),
        case(
            "sums with LL128 inside a node",
            "dgx-h100",
            1,
            [0, 1].map(|_| with(ProtocolKind::Ll128, ring(AllReduce, 32, 0..8))),
        ),
        case(
            "sums with LL128 of one rail",
            "dgx-h100",
            4,
            [0, 1].map(|_| with(ProtocolKind::Ll128, ring(AllReduce, 8, rail()))),
        ),
        // Large enough that links, not the fences before messages, set the pace of both together.
        case(
            "sums with LL128 over all",
            "dgx-b200",
            4,
            [0, 1].map(|_| with(ProtocolKind::Ll128, ring(AllReduce, 512, 0..32))),
        ),
        case(
            "messages of two layers to the next node",
            "dgx-h100",
            4,
            [0, 1].map(|_| Part {
                what: Collective::SendRecv,
                ..all_to_all(64, rail())
            }),
        ),
        case(
            "sums of one rail over connections slower than the network",
            "azure-ndv4",
            4,
            [0, 1].map(|_| ring(AllReduce, 64, rail())),
        ),
        Case {
            far: true,
            ..case(
                "sums of one rail over TCP",
                "gcp-a3-high",
                4,
                [0, 1].map(|_| ring(AllReduce, 64, rail())),
            )
        },
        later(
            100,
            case(
                "gradients scattered in a rack, then weights gathered in a part of it",
                "gb200-nvl72",
                18,
                [
                    ring(ReduceScatter, 324, [0, 8, 16, 24]),
                    ring(AllGather, 144, 0..8),
                ],
            ),
        ),
        case(
            "sums with LL of one rail",
            "dgx-h100",
            4,
            [0, 1].map(|_| with(ProtocolKind::Ll, ring(AllReduce, 1, rail()))),
        ),
    ]
}

fn plan(topology: &Topology, env: &Env, part: &Part) -> Plan {
    let gpus: Vec<DeviceId> = topology.nodes.iter().flat_map(|n| n.gpus.clone()).collect();
    let own = part.gpus.iter().map(|&g| gpus[g]).collect();
    let mut communicator = Communicator::of(topology, own, env, Router::new(topology, 0)).unwrap();
    let forced = Forced {
        algorithm: part.algorithm,
        protocol: Some(part.protocol),
    };
    let planned = communicator.plan(part.what, part.mebibytes << 20, forced);
    planned.unwrap().plan
}

/// The same, begun at several times about the given one: how far off a pair is depends on where in
/// their loops they meet.
fn beginnings(case: Case) -> Vec<Case> {
    let parts: &[u32] = match case.later {
        Time::ZERO => &[100],
        _ => &[86, 93, 100, 107, 114],
    };
    let begun = |&part: &u32| Case {
        later: Time::from_picos(case.later.picos() * u64::from(part) / 100),
        ..case.clone()
    };
    parts.iter().map(begun).collect()
}

/// When each ends: slices together; whole collectives that share links; each alone.
fn ends(case: &Case) -> [[Time; 2]; 3] {
    let nodes = Overrides {
        nodes: Some(case.nodes),
    };
    let spec = catalogue::find(case.topology).unwrap();
    let topology = expand(&spec, catalogue::hardware(), &nodes).unwrap();
    let env = Env::default();
    let mut plans = case
        .parts
        .each_ref()
        .map(|part| plan(&topology, &env, part));
    let first = plans[0].gpus.len();
    let rate = |link| topology.rate(link);
    let options = Options {
        operations: 1,
        ..Options::default()
    };
    for costs in &mut plans[1].costs {
        costs.launch += case.later;
    }
    let both = Plan::side_by_side(plans.to_vec(), &mut Joined::default()).unwrap();
    let outcome = simulate_folded(&both, rate, options).unwrap();
    let last = |times: &[Time]| times.iter().copied().max().unwrap();
    let finish = &outcome.finish[0];
    let together = [last(&finish[..first]), last(&finish[first..]) - case.later];
    for costs in &mut plans[1].costs {
        costs.launch = costs.launch - case.later;
    }

    let mut job = Job {
        streams: vec![StreamRole::Compute, StreamRole::DataParallel],
        names: vec!["part".into()],
        ..Job::default()
    };
    let task = |stream, work| Task {
        stream: StreamId(stream),
        after: SmallVec::new(),
        work,
        tag: Tag::default(),
    };
    let meet = |group| Work::Communicate { group, exchange: 0 };
    job.scripts.push(Script {
        tasks: vec![
            task(0, meet(0)),
            task(1, Work::Wait(case.later)),
            task(1, meet(1)),
        ],
    });
    job.actors.push(Actor {
        rank: 0,
        alike: 1,
        script: Some(0),
        sms: 132,
        launch: Time::ZERO,
        run_ahead: false,
        groups: vec![Some(GroupId(0)), Some(GroupId(1))],
    });
    for (number, plan) in plans.into_iter().enumerate() {
        job.groups.push(Group {
            role: GroupRole::DataParallel,
            name: number.to_string(),
            ranks: vec![0],
            members: Vec::new(),
            actors: 1,
            exchanges: vec![ExchangeId(number as u32)],
        });
        let connections = plan.transports.len() as u32;
        job.exchanges.push(Exchange {
            plan: Some(Arc::new(plan)),
            alike: number as u32,
            own: std::iter::once(0..connections).collect(),
            ..Exchange::free(&number.to_string(), Movement::Send, Bytes::new(1), 1.0)
        });
    }
    let rehearsed = rehearse(&job, rate, &Budget::default()).unwrap();
    let none = JobOptions::default();
    let outcome = run_job(&job, &rehearsed, rate, &Undisturbed, none, &mut Unseen).unwrap();
    let shared = [0, 1].map(|g: usize| outcome.traffic[g][0].time);
    let alone = [0, 1].map(|g: usize| rehearsed[g].time);
    [together, shared, alone]
}

#[test]
fn shares_of_whole_collectives_are_near_what_their_slices_get() {
    let (mut errors, mut near, mut far) = (Vec::new(), 0.0f64, 0.0f64);
    for case in cases() {
        println!("{}", case.name);
        let (name, far_off) = (case.name, case.far);
        let (mut off, mut met, mut apart) = ([0.0; 2], 0.0, 0.0);
        let begun = beginnings(case);
        for case in &begun {
            let [together, shared, alone] = ends(case);
            let sum = |times: [Time; 2]| (times[0] + times[1]).seconds();
            met += sum(together);
            apart += sum(alone);
            for part in 0..2 {
                let error = shared[part].seconds() / together[part].seconds() - 1.0;
                println!(
                    "  alone {:>9}, together {:>9}, shared {:>9}: {:+.1} %",
                    alone[part].human(),
                    together[part].human(),
                    shared[part].human(),
                    error * 100.0
                );
                off[part] += error.abs() / begun.len() as f64;
            }
        }
        // They do get in each other's way.
        assert!(met > 1.1 * apart, "{name}");
        for error in off {
            errors.push(error);
            let most = if far_off { &mut far } else { &mut near };
            *most = most.max(error);
        }
    }
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    assert!(median < 0.01 && near < 0.10, "{errors:.3?}");
    assert!(far < 0.15, "{far:.3}");
}
