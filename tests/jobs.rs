//! Training jobs against closed forms, and against what is published.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::calibration::{PublishedSteps, predict_steps};
use fabricsim::engine::job::{JobOptions, Rehearsed, Unseen, run_job};
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::plan::job::{
    Actor, Exchange, ExchangeId, Group, GroupId, GroupRole, Job, Kernels, Movement, Script,
    StreamId, StreamRole, Tag, Task, TaskId, Undisturbed, Work,
};
use fabricsim::report::communication::Communicator;
use fabricsim::report::training::{
    JobSpan, JobTimeline, SpanKind, StepResult, TrainingOutcome, median_error, rank_correlation,
};
use fabricsim::report::{JobResult, Outputs, Variant};
use fabricsim::units::{Bandwidth, Bytes, Time};
use fabricsim::workload::pipeline::Schedule;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::path::Path;

/// A pipeline whose passes take 1 us forward and 2 us backward in all chunks of a stage
/// together, and whose messages cost nothing.
fn pipeline(schedule: Schedule, stages: u32, micro_batches: u32, chunks: u32) -> Time {
    let nanos =
        |backward: bool| Time::from_nanos(1000 * (1 + u64::from(backward)) / u64::from(chunks));
    let last = stages * chunks - 1;
    // Groups: forward from each stage, then backward to each stage.
    let forward = |from: u32| GroupId(from);
    let backward = |to: u32| GroupId(stages + to);
    let mut job = Job {
        streams: vec![
            StreamRole::Compute,
            StreamRole::ForwardIn,
            StreamRole::ForwardOut,
            StreamRole::BackwardIn,
            StreamRole::BackwardOut,
        ],
        names: vec!["pass".into()],
        exchanges: vec![Exchange::free(
            "message",
            Movement::Send,
            Bytes::new(1),
            1.0,
        )],
        ..Job::default()
    };
    for group in 0..2 * stages {
        job.groups.push(Group {
            role: GroupRole::DataParallel,
            name: format!("{group}"),
            ranks: Vec::new(),
            members: Vec::new(),
            actors: 2,
            exchanges: vec![ExchangeId(0)],
        });
    }
    for stage in 0..stages {
        let mut tasks: Vec<Task> = Vec::new();
        let mut push = |stream: u8, work: Work, after: Option<TaskId>| {
            tasks.push(Task {
                stream: StreamId(stream),
                after: after.into_iter().collect::<SmallVec<[TaskId; 2]>>(),
                work,
                tag: Tag::default(),
            });
            TaskId(tasks.len() as u32 - 1)
        };
        let message = |slot: u16| Work::Communicate {
            group: slot,
            exchange: 0,
        };
        for pass in schedule.passes(stage, stages, micro_batches, chunks) {
            let virtual_stage = pass.chunk * stages + stage;
            let kernel = Work::Kernels(Kernels {
                compute: nanos(pass.backward),
                memory: Time::ZERO,
                launches: 1,
                ..Kernels::default()
            });
            let (receives, sends) = if pass.backward {
                (virtual_stage < last, virtual_stage > 0)
            } else {
                (virtual_stage > 0, virtual_stage < last)
            };
            let (input, output) = if pass.backward { (3, 4) } else { (1, 2) };
            let came = receives.then(|| push(input, message(u16::from(input) - 1), None));
            let done = push(0, kernel, came);
            if sends {
                push(output, message(u16::from(output) - 1), Some(done));
            }
        }
        let before = (stage + stages - 1) % stages;
        let next = (stage + 1) % stages;
        job.actors.push(Actor {
            rank: stage,
            alike: 1,
            script: Some(stage),
            sms: 100,
            launch: Time::ZERO,
            run_ahead: false,
            groups: vec![
                Some(forward(before)),
                Some(forward(stage)),
                Some(backward(stage)),
                Some(backward(before)),
            ],
        });
        let _ = next;
        job.scripts.push(Script { tasks });
    }
    let rate = |_| Bandwidth::from_gb_per_sec(1);
    let free = [Rehearsed::default()];
    let outcome = run_job(
        &job,
        &free,
        rate,
        &Undisturbed,
        JobOptions::default(),
        &mut Unseen,
    );
    outcome.unwrap().end
}

#[test]
fn the_bubble_of_a_pipeline_is_what_the_formula_says() {
    // (m + p - 1)(tf + tb): Huang et al. 2019, Narayanan et al. 2021.
    for (p, m) in [(4u32, 8u32), (8, 32), (2, 2), (5, 7)] {
        let time = Time::from_micros(u64::from(m + p - 1) * 3);
        assert_eq!(pipeline(Schedule::Gpipe, p, m, 1), time);
        assert_eq!(pipeline(Schedule::OneForwardOneBackward, p, m, 1), time);
    }
    // Interleaved: the bubble is v times smaller.
    for (p, m, v) in [(4u32, 8u32, 2u32), (8, 32, 4), (2, 6, 5)] {
        let ideal = u64::from(m) * 3000;
        let bubble = u64::from(p - 1) * 3000 / u64::from(v);
        assert_eq!(
            pipeline(Schedule::Interleaved, p, m, v),
            Time::from_nanos(ideal + bubble)
        );
    }
}

fn run(text: &str) -> Vec<(String, TrainingOutcome)> {
    let scenario = parse(text, "test.json", &[]).unwrap();
    let job = validate(scenario, Path::new("")).unwrap();
    let outputs = Outputs::default();
    let results = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    results.summary.variants.into_iter().map(outcome).collect()
}

fn outcome(variant: Variant) -> (String, TrainingOutcome) {
    match variant.job {
        JobResult::Training(result) => (variant.name, result.outcome),
        _ => panic!("a training job"),
    }
}

fn steps(text: &str) -> BTreeMap<String, StepResult> {
    run(text)
        .into_iter()
        .map(|(name, result)| match result {
            TrainingOutcome::Ran(result) => (name, *result),
            TrainingOutcome::Failed(error) => panic!("{name}: {error}"),
        })
        .collect()
}

/// A model whose ends are small beside its layers.
const SHAPE: &str = r#"{"shape": {"layers": 8, "hidden": 4096, "heads": 32, "ffn": 16384,
    "vocabulary": 512, "sequence": 1024}}"#;

fn job(more: &str, variants: &str) -> String {
    format!(
        r#"{{"name": "t", "topology": {{"name": "dgx-h100"}},
        "job": {{"training": {{"model": {SHAPE}, "global_batch": 8, "steps": 1 {more}}}}},
        "variants": {variants}}}"#
    )
}

/// Bytes that a GPU sends for a communicator's operations, rings taken.
fn sent(result: &StepResult, what: &str) -> f64 {
    let bytes = |c: &fabricsim::report::training::CollectiveUse| {
        let ranks = f64::from(c.ranks);
        let ring = (ranks - 1.0) / ranks;
        let factor = if c.what.starts_with("all-reduce") {
            2.0
        } else {
            1.0
        };
        factor * ring * c.bytes.get() as f64 * f64::from(c.count)
    };
    let all = result.collectives.iter();
    all.filter(|c| c.group == what).map(bytes).sum()
}

#[test]
fn fsdp_moves_half_as_much_again_as_ddp() {
    let results = steps(&job(
        r#", "gradient_bytes": 2"#,
        r#"[{"name": "ddp", "set": {}},
            {"name": "fsdp", "set": {"job.training.data_parallel": {"fsdp": {}}}}]"#,
    ));
    let ratio = sent(&results["fsdp"], "data parallel") / sent(&results["ddp"], "data parallel");
    // The ends are gathered once, not twice.
    assert!((ratio - 1.5).abs() < 0.01, "{ratio}");
    // ZeRO paper: 2 bytes × parameters × 2 (n-1)/n.
    let parameters = 8.0 * (4.0 + 8.0) * 4096.0 * 4096.0;
    let expected = 2.0 * parameters * 2.0 * 7.0 / 8.0;
    let ddp = sent(&results["ddp"], "data parallel");
    assert!((ddp / expected - 1.0).abs() < 0.01, "{ddp} {expected}");
}

#[test]
fn tensor_parallelism_moves_four_all_reduces_a_layer() {
    let results = steps(&job(
        r#", "parallel": {"tp": 8}"#,
        r#"[{"name": "tp", "set": {}},
            {"name": "sp", "set": {"job.training.parallel.sequence_parallel": true}}]"#,
    ));
    let tp = &results["tp"];
    let sums = tp
        .collectives
        .iter()
        .find(|c| c.what.starts_with("all-reduce of act"))
        .unwrap();
    // b s h of 2 bytes; four a layer and micro-batch, one for the embedding and one for the head.
    assert_eq!(sums.bytes, Bytes::new(1024 * 4096 * 2));
    assert_eq!(sums.count, 8 * (4 * 8 + 2));
    // Korthikanti et al. 2022: sequence parallelism moves as much, but for the inputs that are
    // gathered once more.
    let sp = &results["sp"];
    let again: f64 = sp
        .collectives
        .iter()
        .filter(|c| c.what == "all-gather of inputs")
        .map(|c| f64::from(c.count) * c.bytes.get() as f64 * 7.0 / 8.0)
        .sum();
    let ratio = (sent(sp, "tensor parallel") - again) / sent(tp, "tensor parallel");
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
}

#[test]
fn one_slow_gpu_slows_all_and_is_named() {
    let results = steps(&job(
        r#", "free_communication": true, "kernel_launch": "0us""#,
        r#"[{"name": "healthy", "set": {}},
            {"name": "slow", "set": {"faults": [{"slow_gpu": {"ranks": 5, "speed": 0.8}}]}}]"#,
    ));
    let ratio = results["slow"].step_s / results["healthy"].step_s;
    assert!((ratio - 1.25).abs() < 1e-6, "{ratio}");
    let culprit = &results["slow"].culprits[0];
    assert_eq!((culprit.rank, culprit.gpu.as_str()), (5, "node0/gpu5"));
    assert!(results["healthy"].culprits.is_empty());
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let results = run(&job(
        r#", "timeout": "1s""#,
        r#"[{"name": "dies", "set": {"faults": [{"failed": {"devices": "node[0]/gpu[3]", "at": "1ms"}}]}}]"#,
    ));
    let TrainingOutcome::Failed(error) = &results[0].1 else {
        panic!("{results:?}");
    };
    assert!(
        error.contains("ranks 0, 1, 2, 4, 5, 6, 7 have come, ranks 3 have not"),
        "{error}"
    );
    assert!(error.contains("node0/gpu3"), "{error}");
}

#[test]
fn a_switch_that_failed_before_is_planned_around_and_one_that_fails_is_a_hang() {
    let failed = |at: &str| {
        let fault =
            format!(r#"[{{"failed": {{"devices": "node[0]/nvswitch[1]", "at": "{at}"}}}}]"#);
        job(
            "",
            &format!(r#"[{{"name": "well"}}, {{"name": "f", "set": {{"faults": {fault}}}}}]"#),
        )
    };
    let before = steps(&failed("0us"));
    assert!(before["f"].step_s > before["well"].step_s);
    let later = run(&failed("1ms"));
    let TrainingOutcome::Failed(error) = &later[1].1 else {
        panic!("{later:?}");
    };
    assert!(error.contains("a link that is down"), "{error}");
}

#[test]
fn a_nic_that_flaps_is_seen() {
    let text = r#"{"name": "t", "topology": {"name": "dgx-h100"}, "nodes": 2,
        "job": {"training": {"model": {"preset": "llama3-8b"}, "sequence": 2048,
            "global_batch": 16, "steps": 1, "data_parallel": {"fsdp": {}}}},
        "variants": [{"name": "well"},
            {"name": "flaps", "set": {"faults": [{"flap": {"links": "node[0]/nic[2]",
                "from": "50ms", "down": "40ms", "up": "60ms", "count": 1}}]}}]}"#;
    let results = steps(text);
    let (well, flaps) = (&results["well"], &results["flaps"]);
    let longer = flaps.step_s - well.step_s;
    assert!((0.005..0.2).contains(&longer), "{longer}");
    assert_eq!(flaps.disturbances.len(), 1);
    assert!((flaps.disturbances[0].from_s - 0.05).abs() < 1e-9);
    let slowed = |r: &StepResult| {
        let all = r.collectives.iter();
        all.map(|c| (c.time_us - c.alone_us) * f64::from(c.count))
            .sum::<f64>()
    };
    assert!(slowed(flaps) > slowed(well) + 1000.0);
}

fn timeline(text: &str) -> JobTimeline {
    let scenario = parse(text, "test.json", &[]).unwrap();
    let job = validate(scenario, Path::new("")).unwrap();
    let outputs = Outputs::default();
    let run = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    run.job_timelines()[0].1.clone()
}

#[test]
fn spans_of_communications_say_what_they_move_between_whom() {
    // DDP's gradients are numbered by bucket, and add up to all gradients.
    let ddp = timeline(&job("", "[]"));
    let data: Vec<_> = ddp
        .spans
        .iter()
        .filter(|span| span.kind == SpanKind::Communication)
        .collect();
    for (number, span) in data.iter().enumerate() {
        assert_eq!(span.bucket, Some(number as u16));
        let of = ddp.communication(span).unwrap();
        assert_eq!(of.movement.name(), "all-reduce");
        assert_eq!(of.communicator, Communicator::DataParallel);
        assert_eq!(of.ranks, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(!of.algorithm.is_empty() && !of.protocol.is_empty());
    }
    // 4 (n h² of attention + 2 · 4 h² of the MLP) layers, and both ends, by 4 bytes.
    let gradients: u64 = data.iter().map(|span| span.bytes.get()).sum();
    let matrices = 8 * 12 * 4096 * 4096 * 4;
    let rest = gradients.checked_sub(matrices).unwrap();
    assert!(rest < matrices / 100, "{rest}");

    // Each message of a pipeline has two ends at the same time, on two ranks.
    let pipeline = timeline(&job(r#", "parallel": {"tp": 4, "pp": 2}"#, "[]"));
    let mut ends: BTreeMap<u32, Vec<&JobSpan>> = BTreeMap::new();
    for span in &pipeline.spans {
        assert_eq!(span.bucket, None);
        assert_eq!(
            span.communication.is_some(),
            span.kind == SpanKind::Communication
        );
        if let Some(end) = span.message {
            ends.entry(end.number).or_default().push(span);
        }
    }
    // Eight micro-batches, there and back, of all four pipelines or those that stand for them.
    assert!(!ends.is_empty() && ends.len().is_multiple_of(16));
    let shown: BTreeMap<u32, u32> = (0..).zip(pipeline.ranks.iter().map(|r| r.0)).collect();
    for both in ends.values() {
        let [one, other] = both[..] else {
            panic!("{both:?}");
        };
        assert_eq!(
            (one.start, one.end, one.bytes),
            (other.start, other.end, other.bytes)
        );
        let of = pipeline.communication(one).unwrap();
        assert_eq!(of.communicator, Communicator::Pipeline);
        for span in [one, other] {
            let sends = span.message.unwrap().sends;
            assert_eq!(shown[&span.rank], of.ranks[usize::from(!sends)]);
        }
    }
}

#[test]
fn buckets_can_be_too_large_and_too_small() {
    let path = Path::new("scenarios/ddp-buckets.json");
    let text = std::fs::read_to_string(path).unwrap();
    let results = steps(&text);
    let time = |name: &str| results[name].step_s;
    let best = results.values().map(|r| r.step_s).fold(f64::MAX, f64::min);
    assert!(time("256KiB") > best && time("one-bucket") > 1.02 * best);
    assert!(time("25MiB") < time("one-bucket") && time("25MiB") < time("no-overlap"));
}

#[test]
fn folded_jobs_take_as_long_as_full_ones() {
    // Which GPU of its node a rank has makes a difference, which of two replicas it is does not.
    let text = job(
        r#", "parallel": {"tp": 8, "pp": 2}, "data_parallel": {"zero": {}}"#,
        "[]",
    );
    let text = text.replace(r#""variants""#, r#""nodes": 4, "variants""#);
    let run = |full: bool| {
        let job = validate(parse(&text, "t", &[]).unwrap(), Path::new("")).unwrap();
        let budget = Budget {
            exact_full: full,
            ..Budget::default()
        };
        let outputs = Outputs::of([]);
        let run = experiment::run(&job, &budget, &outputs, &mut Silent).unwrap();
        match outcome(run.summary.variants.into_iter().next().unwrap()).1 {
            TrainingOutcome::Ran(result) => *result,
            TrainingOutcome::Failed(error) => panic!("{error}"),
        }
    };
    let (folded, full) = (run(false), run(true));
    assert_eq!((folded.ranks.len(), full.ranks.len()), (16, 32));
    assert_eq!(folded.step_s, full.step_s);
}

/// The published steps that take no long simulation.
#[test]
fn published_steps_are_predicted_as_well_as_before() {
    let steps = PublishedSteps::read(Path::new("validation/training.json")).unwrap();
    let only = [
        "22B",
        "175B-seqsel",
        "mpt-7b",
        "mpt-30b-h100",
        "sc21-1.7",
        "sc21-7.5",
    ];
    let only: Vec<String> = only.map(str::to_owned).to_vec();
    let tables = predict_steps(&steps, &only, &Budget::default(), &|| {}).unwrap();
    let median = median_error(&tables).unwrap();
    assert!(median <= 0.08, "median error {median}");
    let layouts = [
        "bs0220-n42",
        "bs0220-n40",
        "bs0220-n44-l77-h14336-dp4-pp11-mb8",
    ];
    let only: Vec<String> = layouts.map(str::to_owned).to_vec();
    let sweep = predict_steps(&steps, &only, &Budget::default(), &|| {}).unwrap();
    assert!(rank_correlation(&sweep[0]).unwrap() >= 0.8);
}
