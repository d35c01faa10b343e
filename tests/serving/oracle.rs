//! One engine with given times of passes, beside an independent scheduler and in closed form.

use fabricsim::budget::Memory;
use fabricsim::engine::job::{JobOptions, Unseen, run_source};
use fabricsim::plan::job::{Actor, ActorId, Job, StreamRole, Undisturbed};
use fabricsim::units::{Bandwidth, Time};
use fabricsim::workload::serving::blocks::BlockPool;
use fabricsim::workload::serving::fleet::{
    Arrivals, Engine, Fleet, FleetPlan, FrontEnd, Handover, Role, Routing, Served, Tiers,
};
use fabricsim::workload::serving::pass_time::{GivenCost, GivenTime, MixedPass};
use fabricsim::workload::serving::policy::PolicyKind;
use fabricsim::workload::serving::request::Request;
use fabricsim::workload::serving::scheduler::{Limits, Scheduler};

/// One engine with given times of passes.
#[derive(Clone, Copy)]
struct Case {
    input: u32,
    output: u32,
    requests: u32,
    arrivals: Arrivals,
    /// From one arrival to the next.
    every: Time,
    time: GivenTime,
    mixed: MixedPass,
    budget: u32,
    blocks: u32,
}

fn ms(ms: f64) -> Time {
    Time::from_picos((ms * 1e9) as u64)
}

const FIXED: GivenTime = GivenTime::Fixed {
    prefill: Time::from_picos(50_000_000_000),
    decode: Time::from_picos(10_000_000_000),
};

fn serve(case: Case, policy: PolicyKind) -> Served {
    let limits = Limits::plain(case.budget, 256, true);
    let requests = (0..case.requests)
        .map(|k| Request::new(case.every.times(u64::from(k)), case.input, case.output))
        .collect();
    let mut cost = GivenCost {
        time: case.time,
        mixed: case.mixed,
    };
    let engine = Engine {
        role: Role::Both,
        policy,
        stages: vec![ActorId(0)],
        parts: vec![Scheduler::new(
            limits,
            BlockPool::new(case.blocks, 16, false),
        )],
    };
    let mut fleet = Fleet::new(FleetPlan {
        counting: None,
        engines: vec![engine],
        requests,
        more: None,
        watch: None,
        arrivals: case.arrivals,
        routing: Routing::LeastLoaded,
        handover: Handover::default(),
        front_end: FrontEnd::default(),
        tiers: Tiers::default(),
        cost: &mut cost,
        counted_from: 0,
        keeps_passes: false,
        memory: Memory::unlimited(),
        actors: 1,
    });
    let job = Job {
        streams: vec![StreamRole::Compute],
        names: vec!["pass".to_owned()],
        actors: vec![Actor {
            rank: 0,
            alike: 1,
            script: None,
            sms: 132,
            launch: Time::ZERO,
            run_ahead: false,
            groups: Vec::new(),
        }],
        ..Job::default()
    };
    let rate = |_| Bandwidth::from_bytes_per_sec(1);
    let options = JobOptions::default();
    run_source(
        &job,
        &mut fleet,
        &[],
        rate,
        &Undisturbed,
        options,
        &mut Unseen,
    )
    .expect("it ends");
    fleet.into_served()
}

/// The columns of the published table, in ms and tokens/s.
fn columns(served: &Served) -> [f64; 8] {
    let ms = |time: Time| time.seconds() * 1e3;
    let mut ttft: Vec<f64> = Vec::new();
    let (mut tpot, mut latency, mut tokens) = (0.0, 0.0, 0.0);
    for record in &served.records {
        let (Some(arrived), Some(first), Some(last)) =
            (record.arrived, record.first_token, record.finished)
        else {
            continue;
        };
        ttft.push(ms(first.saturating_sub(arrived)));
        tpot += ms(last.saturating_sub(first)) / f64::from(record.generated - 1);
        latency += ms(last.saturating_sub(arrived));
        tokens += f64::from(record.generated);
    }
    ttft.sort_by(f64::total_cmp);
    let count = ttft.len() as f64;
    let mut gaps: Vec<(f64, u64)> = served
        .gaps
        .iter()
        .map(|g| (ms(g.time), u64::from(g.count)))
        .collect();
    gaps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: u64 = gaps.iter().map(|gap| gap.1).sum();
    let rank = (all as f64 * 0.99).ceil() as u64;
    let mut seen = 0;
    let p99 = gaps.iter().find(|gap| {
        seen += gap.1;
        seen >= rank
    });
    let nearest = |p: f64| ttft[((count * p).ceil() as usize).max(1) - 1];
    [
        ms(served.end),
        ttft.iter().sum::<f64>() / count,
        nearest(0.5),
        nearest(0.99),
        tpot / count,
        p99.map_or(0.0, |gap| gap.0),
        latency / count,
        tokens / ms(served.end) * 1e3,
    ]
}

/// What AISimulate 0.12.0.dev2 gives (NVIDIA's replay of vLLM's scheduler, Apache-2.0, measured with the published
/// package): duration, TTFT mean, p50 and p99, TPOT mean, ITL p99 (in steps of 0.04 %), latency mean, tokens/s.
#[test]
fn passes_that_add_up_agree_with_an_independent_scheduler() {
    let fixed = Case {
        input: 1024,
        output: 16,
        requests: 4,
        arrivals: Arrivals::Closed { concurrency: 1 },
        every: Time::ZERO,
        time: FIXED,
        mixed: MixedPass::Sum,
        budget: 8192,
        blocks: 4096,
    };
    let closed = |concurrency, requests| Case {
        arrivals: Arrivals::Closed { concurrency },
        requests,
        ..fixed
    };
    let polynomial = GivenTime::Polynomial {
        prefill: [16.50142, 1.518344e-2, 4.209989e-7],
        decode: [5.74, 54.01, -25.74],
        least: 1.0,
    };
    let cases = [
        (
            "c1",
            closed(1, 4),
            [840.0, 60.0, 60.0, 60.0, 10.0, 10.0, 210.0, 76.1905],
        ),
        (
            "c4",
            closed(4, 12),
            [630.0, 60.0, 60.0, 60.0, 10.0, 10.0, 210.0, 304.7619],
        ),
        (
            "c16",
            closed(16, 48),
            [950.0, 73.75, 60.0, 180.0, 15.9028, 60.0, 312.2917, 808.4211],
        ),
        (
            "chunked",
            Case {
                input: 8192,
                budget: 2048,
                ..closed(4, 12)
            },
            [3340.0, 405.0, 300.0, 990.0, 45.8333, 60.0, 1092.5, 57.485],
        ),
        (
            "tight",
            Case {
                output: 256,
                blocks: 140,
                ..closed(4, 12)
            },
            [
                24060.0, 3251.6667, 3990.0, 4310.0, 14.8497, 10.0, 7038.3333, 127.6808,
            ],
        ),
        (
            "rate",
            Case {
                requests: 50,
                arrivals: Arrivals::Open { drain: ms(1e6) },
                every: ms(500.0),
                ..fixed
            },
            [24710.0, 60.0, 60.0, 60.0, 10.0, 10.0, 210.0, 32.3756],
        ),
        (
            "polynomial",
            Case {
                output: 128,
                time: polynomial,
                ..closed(4, 12)
            },
            [
                3794.4527, 94.7711, 94.7711, 94.7711, 9.213, 9.4027, 1264.8176, 404.8015,
            ],
        ),
    ];
    let mut wrong = String::new();
    for (name, case, expected) in cases {
        let found = columns(&serve(case, PolicyKind::Vllm));
        let near = found
            .iter()
            .zip(&expected)
            .all(|(f, e)| (f / e - 1.0).abs() < 1e-3);
        if !near {
            wrong += &format!("{name}: {found:?}\n  {expected:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
