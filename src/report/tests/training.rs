//! Results of jobs: what people read, what programs read, and the folder.

use super::training_samples::{self as samples, Pipeline};
use crate::communication::{Communication, Communicator, Movement};
use crate::comparison::{variants_page, variants_text};
use crate::nccl_profiler::EventMask;
use crate::training::{
    FlopCount, JobSpan, JobTimeline, KernelBound, KernelUse, MemoryPart, MessageEnd, SpanKind,
    TrainingOutcome, difference, job_timeline_svg,
};
use crate::{
    JobResult, Metrics, Outputs, Record, Recording, ReportError, Results, Summary, Variant,
    check_target, summary_json, summary_schema, write_results, write_trace,
};
use fabricsim_units::{Bytes, Time};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn files(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn results(summary: &Summary, timelines: &[(&str, JobTimeline)]) -> Results {
    let record = |(name, timeline): &(&str, JobTimeline)| Record {
        variant: (*name).to_owned(),
        recorded: Recording::Training(timeline.clone()),
        telemetry: None,
        events: EventMask::default(),
    };
    Results {
        summary: summary.clone(),
        records: timelines.iter().map(record).collect(),
    }
}

fn page(summary: &Summary, timelines: &[(&str, JobTimeline)]) -> Result<String, ReportError> {
    variants_page(summary, &results(summary, timelines))
}

fn write(
    target: &Path,
    summary: &Summary,
    timelines: &[(&str, JobTimeline)],
) -> Result<(), ReportError> {
    write_results(target, &results(summary, timelines), &Outputs::default())
}

fn outcome(variant: &mut Variant) -> Option<&mut TrainingOutcome> {
    match &mut variant.job {
        JobResult::Training(result) => Some(&mut result.outcome),
        _ => None,
    }
}

#[test]
fn the_table_of_one_variant_has_the_answer_first_and_aligned_rows() {
    let (summary, _) = samples::pipeline();
    let text = variants_text(&summary, None, false);
    for expected in [
        "# llama-70b (70.6 B parameters) on 16 GPUs, 2 nodes: 2 × DGX H100, 400 Gb/s InfiniBand",
        "# 16 GPUs → 2 classes, 1.23 M events",
        "\n\nThe pipeline's bubble costs most",
        "  step time              2.41 s",
        "  waiting: pipeline          1.16 s   24 %  ███████▎",
        "Memory of the fullest GPU, stage 0: 61 GiB of 80 GiB needed, fits, 19 GiB left",
        "slow GPU, 0.8 ×  node1/gpu0  from 100 ms to the end",
        "Goodput over a long run: 93.1 %",
        "  a checkpoint of 1 TiB, from 16 GPUs to 1 storage device, stops training for 1.20 s",
        "  copying it to the hosts takes 1.20 s, limited by links inside a server (node0/gpu0 > ",
        "  writing it takes 84.6 s, limited by storage (server0/nic0 > server0/pool0)",
        "  reading it, by all GPUs, takes 22.0 s, limited by a NIC (server0/nic0 > compute/leaf0)",
        "  a restart takes 117 s: processes 112 s, communicators 2.46 s, reading the checkpoint 3.00 s",
        "  leaf switch (18 nodes each)",
        "# warning: the optimiser's time",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let order = [
        "tensor parallel (8)  all-",
        "data parallel (8)",
        "pipeline 0→1 (2)",
    ];
    let places: Vec<_> = order.iter().map(|name| text.find(name).unwrap()).collect();
    assert!(places.is_sorted(), "what takes most time is first\n{text}");
    assert!(!text.contains('\u{1b}'));
    assert!(!text.lines().any(|line| line.ends_with(' ')), "{text}");
    // Colours change nothing but colours.
    let coloured = variants_text(&summary, None, true);
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), text);
}

#[test]
fn the_table_of_several_marks_the_best_and_tells_what_failed() {
    let text = variants_text(&samples::comparison(), None, false);
    let line = |start: &str| {
        let found = text
            .lines()
            .find(|line| line.trim_start().starts_with(start));
        found
            .unwrap_or_else(|| panic!("{start}\n{text}"))
            .to_owned()
    };
    assert!(line("step time").contains("2.41 s   "), "{text}");
    assert!(line("step time").contains("2.05 s*"), "{text}");
    assert!(line("step time").ends_with("failed"), "{text}");
    assert!(
        line("exposed communication").matches('*').count() == 0,
        "equal: none is better"
    );
    assert!(
        line("memory needed").contains("97 GiB of 80 GiB, too much"),
        "{text}"
    );
    assert!(
        text.contains("PP 4: more! failed: all-gather of weights: rank 3"),
        "{text}"
    );
    assert!(
        text.trim_end()
            .lines()
            .rev()
            .nth(1)
            .unwrap()
            .contains("is fastest"),
        "{text}"
    );
}

/// What the allocator holds free is not needed, and fills no memory up.
#[test]
fn need_and_reserve_of_memory_are_told_apart() {
    let mut result = samples::result(1.0);
    result
        .memory
        .parts
        .push((MemoryPart::Reserve, Bytes::from_gib(19)));
    result.memory.total = Bytes::from_gib(80);
    result.memory.reserve = Bytes::from_gib(19);
    let outcome = TrainingOutcome::Ran(Box::new(result));
    let summary = samples::summary(vec![samples::variant("full", "", outcome)], "");
    let metrics = &summary.variants[0].metrics;
    assert_eq!(metrics.memory_gib, Some(61.0));
    assert_eq!(metrics.memory_reserve_gib, Some(19.0));
    let text = variants_text(&summary, None, false);
    let told = "61 GiB of 80 GiB needed, fits, 19 GiB left, of which 19 GiB are held in reserve";
    assert!(text.contains(told), "{text}");
}

#[test]
fn what_does_not_fit_is_last_and_best_at_nothing() {
    let ran = |step, gib| {
        let mut result = samples::result(step);
        result.memory.total = Bytes::from_gib(gib);
        result.memory.fits = gib <= 80;
        TrainingOutcome::Ran(Box::new(result))
    };
    let variants = vec![
        samples::variant("slow", "tp 8", ran(3.0, 61)),
        samples::variant("too-large", "tp 4", ran(1.0, 107)),
        samples::variant("fast", "tp 2", ran(2.0, 62)),
    ];
    let summary = samples::summary(variants, "");
    assert_eq!(summary.best.as_deref(), Some("fast"));
    assert_eq!(summary.baseline.as_deref(), Some("slow"));
    let text = variants_text(&summary, None, false);
    let names = text
        .lines()
        .find(|line| line.trim_start().starts_with("slow  "));
    let names: Vec<_> = names.unwrap().split_whitespace().collect();
    assert_eq!(names, ["slow", "fast", "too-large"], "{text}");
    assert!(
        text.contains("does not fit") && text.contains("2.00 s*"),
        "{text}"
    );
    assert!(!text.contains("1.00 s*"), "{text}");
    let html = page(&summary, &[]).unwrap();
    let tiles = html.split_once("f those that fit into memory, ").unwrap().1;
    assert!(tiles.starts_with("<strong>fast</strong>"), "{tiles}");
    // Nothing has won where nothing fits.
    let variants = vec![
        samples::variant("a", "tp 8", ran(3.0, 90)),
        samples::variant("b", "tp 8", ran(2.0, 90)),
    ];
    let summary = samples::summary(variants, "");
    assert_eq!(summary.best, None);
    let text = variants_text(&summary, None, false);
    assert!(!text.contains('*'), "{text}");
    page(&summary, &[]).unwrap();
}

#[test]
fn a_difference_of_other_work_is_of_as_many_tokens_per_gpu() {
    let variant = |name: &str, gpus, step| {
        let result = TrainingOutcome::Ran(Box::new(samples::result(step)));
        let variant = samples::variant(name, "tp 8", result);
        let JobResult::Training(result) = &variant.job else {
            panic!("a training job");
        };
        Variant {
            gpus,
            metrics: Metrics::of_training(result, gpus),
            ..variant
        }
    };
    let one = variant("one", 16, 2.0);
    // Twice the GPUs for the same tokens in half the time: nothing is gained or lost.
    let same = difference(&one, &variant("two", 32, 1.0)).unwrap();
    assert_eq!((same.total.0, same.parts.len()), (0, 0), "{same:?}");
    let less = difference(&one, &variant("two", 32, 1.25)).unwrap();
    assert_eq!(less.total.0, 500_000_000_000);
    let sum: i64 = less.parts.iter().map(|part| part.time.0).sum();
    assert_eq!(sum, less.total.0);
}

#[test]
fn many_variants_are_shown_below_each_other() {
    let ran = || TrainingOutcome::Ran(Box::new(samples::result(2.0)));
    let many: Vec<Variant> = (0..20)
        .map(|index| samples::variant(&format!("variant {index}"), "tp 8", ran()))
        .collect();
    let text = variants_text(&samples::summary(many, ""), None, false);
    assert!(text.matches("step time").count() > 1, "{text}");
    let table = text.lines().filter(|line| !line.starts_with('#'));
    assert!(
        table.map(|line| line.chars().count()).max().unwrap() <= 122,
        "{text}"
    );
}

#[test]
fn summaries_come_back_from_json_and_are_of_the_schema() {
    let schema = serde_json::to_value(summary_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for summary in [samples::pipeline().0, samples::comparison()] {
        let text = summary_json(&summary).unwrap();
        assert!(text.ends_with("}\n"));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(validator.is_valid(&value), "{text}");
        let back: Summary = serde_json::from_str(&text).unwrap();
        assert_eq!(back, summary);
    }
    let clean = samples::pipeline().0.reproducible();
    assert!(summary_json(&clean).unwrap().contains("\"wall_ms\": 0.0"));
}

#[test]
fn numbers_that_are_not_finite_are_refused_with_their_place() {
    let mut summary = samples::comparison();
    let Some(TrainingOutcome::Ran(result)) = outcome(&mut summary.variants[1]) else {
        panic!("the sample ran");
    };
    result.ranks[1].time[2].share = f64::NAN;
    let error = summary_json(&summary).unwrap_err().to_string();
    assert!(
        error.contains("variants[1].ran.ranks[1].time[2].share"),
        "{error}"
    );
    assert!(page(&summary, &[]).is_err());
}

fn events(timeline: &JobTimeline) -> Vec<Value> {
    let mut text = Vec::new();
    write_trace(timeline, &mut text).unwrap();
    let trace: Value = serde_json::from_slice(&text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn a_trace_names_its_threads_shows_waiting_and_overlaps_nowhere() {
    let timeline = samples::pipeline().1;
    let events = events(&timeline);
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let named = |kind: &str, event: &Value| {
        of("M").any(|name| {
            let same = |field: &str| name[field] == event[field];
            name["name"] == kind && same("pid") && (kind == "process_name" || same("tid"))
        })
    };
    let mut threads: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for event in of("X") {
        assert!(
            named("process_name", event) && named("thread_name", event),
            "{event}"
        );
        let number = |field: &str| event[field].as_f64().unwrap();
        let key = (number("pid") as u64, number("tid") as u64);
        let during = (number("ts"), number("ts") + number("dur"));
        threads.entry(key).or_default().push(during);
    }
    for spans in threads.values_mut() {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 5e-7));
    }
    let waits = of("X").filter(|event| event["name"] == "waits for others");
    let all: Vec<_> = waits.collect();
    assert!(
        all.iter()
            .any(|wait| wait["args"]["for"] == "all-reduce of gradients")
    );
    assert_eq!(
        of("X").count(),
        timeline.spans.len() + all.len() + timeline.disturbances.len()
    );
    assert_eq!(of("i").count(), timeline.steps.len());
    let names: Vec<_> = of("M").map(|event| event["args"]["name"].clone()).collect();
    assert!(names.contains(&"rank 8 node1/gpu0 (stage 1)".into()));
    assert!(names.contains(&"disturbances".into()));
}

#[test]
fn a_message_is_an_arrow_from_its_sender_to_its_receiver() {
    let span = |rank: u32, stream: u8, sends: bool| JobSpan {
        rank,
        stream,
        what: "activations".into(),
        kind: SpanKind::Communication,
        bytes: Bytes::new(4096),
        communication: Some(0),
        bucket: None,
        message: Some(MessageEnd { number: 7, sends }),
        micro_batch: Some(2),
        chunk: 0,
        step: 0,
        kernels: None,
        launched: (Time::ZERO, Time::ZERO),
        ready: Time::from_micros(10),
        came: Time::from_micros(10),
        start: Time::from_micros(10),
        end: Time::from_micros(15),
    };
    let mut timeline = JobTimeline {
        streams: vec!["compute".into(), "forward out".into(), "forward in".into()],
        ranks: vec![
            (0, "node0/gpu0".into(), "stage 0".into()),
            (8, "node1/gpu0".into(), "stage 1".into()),
        ],
        communications: vec![Communication {
            movement: Movement::SendReceive,
            communicator: Communicator::Pipeline,
            group: "pipeline 0→1".into(),
            ranks: vec![0, 8],
            algorithm: "p2p".into(),
            protocol: "simple".into(),
        }],
        spans: vec![span(0, 1, true), span(1, 2, false)],
        end: Time::from_micros(15),
        ..JobTimeline::default()
    };
    let written = events(&timeline);
    let of = |phase: &str| written.iter().find(|event| event["ph"] == phase).unwrap();
    let (from, to) = (of("s"), of("f"));
    assert_eq!((&from["pid"], &from["tid"]), (&1.into(), &2.into()));
    assert_eq!((&to["pid"], &to["tid"]), (&9.into(), &3.into()));
    assert_eq!(
        (from["ts"].as_f64(), to["ts"].as_f64()),
        (Some(10.0), Some(14.998))
    );
    assert_eq!((&from["id"], &to["id"]), (&7.into(), &7.into()));
    let args = &of("X")["args"];
    let told = serde_json::json!({
        "micro_batch": 2, "chunk": 0, "step": 0, "bytes": 4096, "operation": "send-recv",
        "communicator": "pipeline", "group": "pipeline 0→1", "ranks": 2, "algorithm": "p2p",
        "protocol": "simple"
    });
    assert_eq!(*args, told);
    // An end that is not shown has no arrow.
    timeline.spans.pop();
    assert!(events(&timeline).iter().all(|event| event["ph"] != "s"));
}

#[test]
fn the_picture_stays_small_and_numbers_micro_batches() {
    let small = job_timeline_svg(&samples::pipeline().1);
    roxmltree::Document::parse(&small).unwrap();
    for expected in [
        "The last of 2 steps",
        ">7</text>",
        "rank 8",
        "slow GPU, 0.8 ×",
        "data parallel",
        "ms",
    ] {
        assert!(small.contains(expected), "{expected}");
    }
    let large = Pipeline::timeline(40, 250, 1);
    let drawing = job_timeline_svg(&large);
    roxmltree::Document::parse(&drawing).unwrap();
    assert!(drawing.len() < 1_000_000, "{}", drawing.len());
    assert!(drawing.contains("32 of 40 classes of ranks"));
    let page = page(&samples::pipeline().0, &[("70b", large)]).unwrap();
    assert!(page.len() < 5_000_000, "{}", page.len());
}

#[test]
fn nothing_recorded_is_drawn_without_complaint() {
    for timeline in [
        JobTimeline::default(),
        JobTimeline {
            ranks: vec![(0, "node0/gpu0".into(), String::new())],
            steps: vec![Time::ZERO],
            ..JobTimeline::default()
        },
    ] {
        let drawing = job_timeline_svg(&timeline);
        roxmltree::Document::parse(&drawing).unwrap();
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
        events(&timeline);
        page(&samples::pipeline().0, &[("70b", timeline)]).unwrap();
    }
}

#[test]
fn a_page_has_the_tables_of_kernels_if_they_were_asked_for() {
    let (mut summary, timelines) = samples::pipeline();
    let timelines = [("pipeline", timelines)];
    let without = page(&summary, &timelines).unwrap();
    assert!(!without.contains("bound by"));
    let Some(TrainingOutcome::Ran(result)) = outcome(&mut summary.variants[0]) else {
        panic!("it ran")
    };
    let kernel = |index: u64| KernelUse {
        name: format!("mlp_up_{index}<b>"),
        count: 1280,
        time_us: 250.0,
        bound: KernelBound::Memory,
        share_of_peak: 0.625,
        memory_gbs: 1500.0,
        share: 0.01,
    };
    result.kernels = (0..42).map(kernel).collect();
    result.flop_counts = vec![FlopCount {
        convention: "palm".to_owned(),
        counts: "6 for each parameter".to_owned(),
        flops: 5e15,
        utilisation: Some(0.431),
    }];
    let page = page(&summary, &timelines).unwrap();
    // 42 × 1280 × 250 µs.
    let heading = "<h2>Kernels<span class=\"aside\">of a step on a GPU of the first stage: 13.4 s with all SMs</span></h2>";
    let row = "<tr><td>mlp_up_0&lt;b&gt;</td><td class=\"number\">1\u{a0}280</td><td class=\"number\">320 ms</td>\
               <td class=\"number\">250 µs</td><td class=\"number\">1.0 %</td><td>memory</td>\
               <td class=\"number\">62 %</td><td class=\"number\">1500</td></tr>";
    let convention = "<tr><td>palm</td><td class=\"number\">43 %</td><td class=\"number\">5000</td>\
                      <td>6 for each parameter</td></tr>";
    for expected in [heading, row, convention, "2 more are in summary.json."] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(page.contains("mlp_up_39&lt;") && !page.contains("mlp_up_40&lt;"));
}

#[test]
fn a_page_shows_the_comparison_and_escapes_names() {
    let mut summary = samples::comparison();
    summary.variants[0].name = "<b>pp</b>".into();
    let timelines = [("pp 4, more", samples::pipeline().1)];
    let page = page(&summary, &timelines).unwrap();
    assert!(!page.contains("<b>pp</b>") && page.contains("&lt;b&gt;pp&lt;/b&gt;"));
    assert!(page.contains("PP 4: more! failed"));
    assert_eq!(page.matches("<script type=\"application/json\"").count(), 1);
    assert!(page.contains("waits for others"));
}

#[test]
fn timelines_of_what_is_compared_are_on_one_axis_from_their_beginnings() {
    let (long, short) = (Pipeline::timeline(4, 8, 2), Pipeline::timeline(2, 4, 2));
    let length = |timeline: &JobTimeline| (timeline.steps[1] - timeline.steps[0]).picos();
    let expected = [length(&short), length(&long)];
    assert!(expected[0] < expected[1]);
    let timelines = [("pp 2", short), ("pp 4, more", long)];
    let page = page(&samples::comparison(), &timelines).unwrap();
    let section = page.split("<h2>Timelines").nth(1).unwrap();
    let data = section
        .split("<script type=\"application/json\">")
        .nth(1)
        .unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    assert_eq!(
        (&data["begin"], &data["end"]),
        (&0.into(), &expected[1].into())
    );
    let ranks = data["ranks"].as_array().unwrap().iter();
    let ranks: Vec<&str> = ranks.map(|rank| rank.as_str().unwrap()).collect();
    let ends = data["ends"].as_array().unwrap().iter();
    let ends: Vec<u64> = ends.map(|end| end.as_u64().unwrap()).collect();
    assert_eq!(ranks.len(), 6);
    for (rank, end) in ranks.iter().zip(&ends) {
        let length = expected[usize::from(rank.starts_with("pp 4, more, "))];
        assert_eq!(*end, length, "{rank}");
    }
    // Each lane begins after 0 and ends within its own run.
    for lane in data["lanes"].as_array().unwrap() {
        let numbers = lane["spans"].as_array().unwrap().iter();
        let numbers: Vec<i64> = numbers.map(|number| number.as_i64().unwrap()).collect();
        let spans = numbers.chunks(5);
        let last: i64 = spans.map(|span| span[3] + span[4]).sum();
        let end = ends[lane["rank"].as_u64().unwrap() as usize];
        assert!(numbers[3] >= 0 && 0 < last && last as u64 <= end, "{lane}");
    }
}

#[test]
fn a_jobs_folder_is_whole_reproducible_and_replaces_runs_only() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("run");
    let timeline = samples::pipeline().1;
    let names = ["pp 2", "pp 4, more", "PP 4: more!", "…"];
    let timelines: Vec<_> = names.iter().map(|name| (*name, timeline.clone())).collect();
    let summary = samples::comparison();
    write(&target, &summary, &timelines).unwrap();
    assert_eq!(
        files(&target),
        [
            "points.csv",
            "report.html",
            "summary.json",
            "timeline-3.json",
            "timeline-3.svg",
            "timeline-pp-4-more-2.json",
            "timeline-pp-4-more-2.svg",
            "timeline-pp-4-more.json",
            "timeline-pp-4-more.svg",
            "timeline.json",
            "timeline.svg",
        ]
    );
    let page = fs::read(target.join("report.html")).unwrap();
    check_target(&target).unwrap();
    write(&target, &summary, &timelines).unwrap();
    assert_eq!(fs::read(target.join("report.html")).unwrap(), page);

    // A run of a collective takes its place, and the other way round.
    let (ring, traced) = super::samples::ring();
    let run = super::samples::results(ring, traced, "");
    write_results(&target, &run, &Outputs::default()).unwrap();
    assert!(files(&target).contains(&"bandwidth.svg".to_owned()));
    write(&target, &summary, &timelines[..1]).unwrap();
    assert_eq!(
        files(&target),
        [
            "points.csv",
            "report.html",
            "summary.json",
            "timeline.json",
            "timeline.svg"
        ]
    );

    fs::write(target.join("timeline-.json"), "mine").unwrap();
    let error = write(&target, &summary, &timelines).unwrap_err();
    assert!(matches!(error, ReportError::Foreign { .. }), "{error}");
    assert_eq!(fs::read(target.join("timeline-.json")).unwrap(), b"mine");
}

#[test]
fn a_trace_of_some_ranks_says_so() {
    let mut timeline = Pipeline::timeline(4, 8, 1);
    let all = timeline.ranks.len();
    timeline.in_trace = [0, 3].into();
    let mut text = Vec::new();
    write_trace(&timeline, &mut text).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let sentence = format!("The trace is of 2 of {all} recorded ranks. --exact-full writes all.");
    assert_eq!(trace["otherData"]["recorded"], sentence);
    let ends = [0, all - 1].map(|rank| u64::from(timeline.ranks[rank].0) + 1);
    let tasks = trace["traceEvents"].as_array().unwrap().iter();
    let tasks = tasks.filter(|event| event["args"]["step"].is_u64());
    let of: std::collections::BTreeSet<u64> = tasks.filter_map(|e| e["pid"].as_u64()).collect();
    assert_eq!(Vec::from_iter(of), ends);
}
