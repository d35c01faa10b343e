//! Made-up results of the shape that runs have. The numbers are consistent with each
//! other, and with nothing else.

use crate::communication::{Communication, Communicator, Movement};
use crate::nccl_profiler::EventMask;
use crate::record::{
    Activity, Attribution, CollectiveResult, Doing, Lane, LinkSeries, LinkUse, MessageEnd, Part,
    PartKind, RankTrack, Row, Span, Timeline, Track,
};
use crate::{CollectiveView, JobResult, Metrics, Record, Recording, Results, Summary, Variant};
use fabricsim_units::{Bandwidth, Bytes, Time};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

pub(crate) const GPUS: u32 = 8;
pub(crate) const STEPS: u64 = 14;
pub(crate) const CHANNELS: u16 = 4;

/// An all-reduce of 64 MiB on a ring of eight GPUs, traced.
pub(crate) fn ring() -> (Summary, Timeline) {
    let timeline = ring_timeline();
    let row = row(64 << 20, "ring", "simple", 329.5);
    let mut summary = summary(vec![row]);
    let result = collective(&mut summary);
    result.traced_row = Some(0);
    result.bottleneck = "NVLink out of every GPU limits it: 71 % of the critical path is spent \
                          streaming at its full rate."
        .to_owned();
    result.attribution = Some(attribution(&timeline));
    result.links = timeline
        .links
        .iter()
        .map(|series| {
            let bytes = series.bytes.iter().sum::<f64>();
            let capacity = series.rate.bytes_per_sec() as f64 * timeline.end.seconds();
            LinkUse {
                faulty: false,
                name: series.name.clone(),
                family: series.family.clone(),
                bytes: Bytes::new(bytes.round() as u64),
                rate: series.rate,
                utilisation: bytes / capacity,
                alike: 1,
            }
        })
        .collect();
    (summary, timeline)
}

/// Sizes from 8 B to 8 GiB with protocols and algorithms that change on the way.
pub(crate) fn sweep() -> Summary {
    let rows = (3..=33).map(|power| {
        let bytes = 1u64 << power;
        let (algo, proto, peak) = match power {
            ..=15 => ("tree", "ll", 60.0),
            16..=20 => ("ring", "ll128", 330.0),
            21..=25 => ("ring", "simple", 370.0),
            _ => ("nvls", "simple", 480.0),
        };
        let seconds = 9.5e-6 + bytes as f64 * 1.75 / (peak * 1e9);
        row(bytes, algo, proto, seconds * 1e6)
    });
    let mut summary = summary(rows.collect());
    summary.warnings = vec![
        "NCCL_FOO is not a variable that fabricsim knows; it was ignored".to_owned(),
        "user buffers are not modelled: zero-copy paths of NCCL 2.28 are left out".to_owned(),
    ];
    summary
}

fn row(bytes: u64, algo: &str, proto: &str, time_us: f64) -> Row {
    let algbw = bytes as f64 / time_us / 1e3;
    Row {
        bytes,
        count: bytes / 4,
        time_us,
        algbw_gbs: algbw,
        busbw_gbs: algbw * 1.75,
        algo: algo.to_owned(),
        proto: proto.to_owned(),
        channels: if bytes < 1 << 16 { 4 } else { 24 },
        bound_us: bytes as f64 / 370e3,
        bound_cut: "ports of each GPU".to_owned(),
        bound_plain_us: bytes as f64 * 1.75 / 370e3,
        bound_plain_cut: "ports of each GPU".to_owned(),
        healthy_us: None,
        cause: String::new(),
        causes: None,
        fault_costs: Vec::new(),
        bottleneck: if bytes < 1 << 20 {
            "latency of hops".to_owned()
        } else {
            "NVLink out of each GPU".to_owned()
        },
        rank_classes: GPUS,
        worker_classes: GPUS * if bytes < 1 << 16 { 4 } else { 24 },
        events: 4_000 + bytes / 65_536,
        skipped: 0,
        wall_ms: 12.5,
    }
}

/// The results of the only variant.
pub(crate) fn collective(summary: &mut Summary) -> &mut CollectiveResult {
    match &mut summary.variants[0].job {
        JobResult::Collective(result) => result,
        _ => panic!("a collective"),
    }
}

/// A run of a summary's only variant.
pub(crate) fn results(summary: Summary, timeline: Timeline, drawing: &str) -> Results {
    let record = Record {
        variant: summary.variants[0].name.clone(),
        recorded: Recording::Collective {
            timeline,
            topology_svg: drawing.to_owned(),
        },
        telemetry: None,
        events: EventMask::default(),
    };
    Results {
        summary,
        records: vec![record],
    }
}

/// What tables of it are made from.
pub(crate) fn view(summary: &Summary) -> CollectiveView<'_> {
    summary.only_collective().unwrap()
}

fn summary(rows: Vec<Row>) -> Summary {
    let result = CollectiveResult {
        gpus_per_node: GPUS,
        ranks: GPUS,
        collective: "all-reduce".to_owned(),
        rows,
        traced_row: None,
        bottleneck: "Sizes up to 128 KiB wait for hops, larger ones for NVLink out of each GPU."
            .to_owned(),
        attribution: None,
        faults: Vec::new(),
        links: Vec::new(),
        recorded: None,
        decisions: Vec::new(),
        better_choice: None,
        beyond_tables: Vec::new(),
        falls: Vec::new(),
    };
    let spec = serde_json::json!({
        "topology": {"name": "dgx-h100", "nodes": 1},
        "collective": {"name": "all-reduce", "sizes": ["64MiB"]},
        "note": "</script><script>alert('not run')</script>",
    });
    let variant = Variant {
        name: "all-reduce".to_owned(),
        topology: "dgx-h100".to_owned(),
        topology_title: "DGX H100: 8 H100 SXM, 4 NVSwitch, 8 NDR 400G".to_owned(),
        nodes: 1,
        gpus: GPUS,
        differs: Vec::new(),
        no_effect: None,
        search: None,
        metrics: Metrics::of_collective(&result),
        job: JobResult::Collective(Box::new(result)),
    };
    Summary {
        variants: vec![variant],
        ..Summary::new("All-reduce on one DGX H100".to_owned(), 1, spec)
    }
}

/// Each GPU waits, streams and synchronises in turn; a straggler starts late.
fn ring_timeline() -> Timeline {
    let mut spans = Vec::new();
    let ns = Time::from_nanos;
    let mut end = Time::ZERO;
    for rank in 0..GPUS {
        for channel in 0..CHANNELS {
            let mut now = ns(0);
            let mut push = |doing, bytes, length: Time| {
                spans.push(Span {
                    rank,
                    track: Track::Worker(channel, Lane::Whole),
                    doing,
                    bytes: Bytes::new(bytes),
                    start: now,
                    end: now + length,
                });
                now += length;
            };
            push(Doing::Launch, 0, ns(4_100 + 37 * u64::from(rank)));
            for step in 0..STEPS {
                let what = match step {
                    0 => "send",
                    1..7 => "recv+reduce+send",
                    7 => "recv+reduce+copy+send",
                    8..13 => "recv+copy+send",
                    _ => "recv",
                };
                let wait =
                    900 + (u64::from(rank) * 173 + step * 61 + u64::from(channel) * 29) % 700;
                let (before, after) = ((rank + GPUS - 1) % GPUS, (rank + 1) % GPUS);
                push(Doing::WaitForData(before), 0, ns(wait));
                if step % 4 == 3 {
                    push(Doing::WaitForCredit(after), 0, ns(1_300));
                }
                push(Doing::DataOnItsWay(before), 0, ns(650));
                push(Doing::Synchronise, 0, ns(1_100));
                push(Doing::Moves(what), 2 << 20, Time::from_picos(18_431_416));
            }
            end = end.max(now);
        }
    }
    for rank in 0..GPUS {
        for channel in 0..CHANNELS {
            let of = |span: &&Span| {
                span.rank == rank && span.track == Track::Worker(channel, Lane::Whole)
            };
            let last = spans.iter().filter(of).map(|span| span.end).max();
            let start = last.unwrap_or(Time::ZERO);
            if start < end {
                spans.push(Span {
                    rank,
                    track: Track::Worker(channel, Lane::Whole),
                    doing: Doing::Finished,
                    bytes: Bytes::ZERO,
                    start,
                    end,
                });
            }
        }
    }
    spans.sort_by_key(|span| (span.start, span.rank, span.track));
    let bin = Time::from_micros(5);
    Timeline {
        operation: Some(Communication {
            movement: Movement::AllReduce,
            communicator: Communicator::Collective,
            group: String::new(),
            ranks: (0..GPUS).collect(),
            algorithm: "ring".to_owned(),
            protocol: "simple".to_owned(),
        }),
        messages: ring_messages(&spans),
        faults: Vec::new(),
        ranks: (0..GPUS)
            .map(|rank| RankTrack {
                rank,
                name: format!("node0/gpu{rank}"),
            })
            .collect(),
        links: ring_links(bin, end),
        spans,
        bin,
        end,
        ranks_omitted: 0,
        recorded: None,
    }
}

/// What each GPU sends is the next one's in the step after.
fn ring_messages(spans: &[Span]) -> Vec<SmallVec<[MessageEnd; 3]>> {
    let mut moving: BTreeMap<(u32, Track), Vec<Time>> = BTreeMap::new();
    let moves = spans
        .iter()
        .filter(|span| matches!(span.doing, Doing::Moves(_)));
    for span in moves {
        let track = moving.entry((span.rank, span.track)).or_default();
        track.push(span.start);
    }
    let mut messages = Vec::new();
    for (&(rank, track), sent) in &moving {
        let next = (rank + 1) % GPUS;
        for (&at, &then) in sent.iter().zip(&moving[&(next, track)][1..]) {
            let end = |rank, at| MessageEnd { rank, track, at };
            messages.push(smallvec![end(rank, at), end(next, then)]);
        }
    }
    messages
}

fn ring_links(bin: Time, end: Time) -> Vec<LinkSeries> {
    let bins = end.picos().div_ceil(bin.picos());
    let mut links = Vec::new();
    let mut add = |name: String, family: &str, rate: Bandwidth, share: f64| {
        let number = links.len() as u64;
        let bytes = (0..bins).map(|index| {
            let left = end.picos() - index * bin.picos();
            let width = Time::from_picos(left.min(bin.picos())).seconds();
            let wobble = ((index * 7 + number * 3) % 11) as f64 / 11.0;
            let ramp = (index as f64 / 2.0).min(1.0);
            width * rate.bytes_per_sec() as f64 * share * ramp * (0.8 + 0.2 * wobble)
        });
        let bytes = bytes.collect();
        links.push(LinkSeries {
            left: Vec::new(),
            from: name.split(" > ").next().unwrap_or_default().to_owned(),
            name,
            family: family.to_owned(),
            rate,
            bytes,
            alike: 1,
        });
    };
    for gpu in 0..GPUS {
        for switch in 0..4 {
            let name = format!("node0/gpu{gpu} > node0/nvswitch{switch}");
            add(name, "NVLink", Bandwidth::from_gb_per_sec(100), 0.95);
            let name = format!("node0/nvswitch{switch} > node0/gpu{gpu}");
            add(name, "NVLink", Bandwidth::from_gb_per_sec(100), 0.93);
        }
        let name = format!("node0/gpu{gpu} > node0/pcie{}", gpu / 2);
        add(name, "PCIe", Bandwidth::from_gb_per_sec(54), 0.22);
    }
    links
}

fn attribution(timeline: &Timeline) -> Attribution {
    let name = |activity| match activity {
        Activity::Launch => "launch",
        Activity::Latency => "latency of hops",
        Activity::WaitData => "waiting for data",
        Activity::WaitCredit => "waiting for credit",
        Activity::Sync => "synchronising slices",
        Activity::Stream => "limited by NVLink out of node0/gpu3",
        Activity::Idle => "finished",
    };
    let kind = |activity| match activity {
        Activity::Launch => PartKind::Launch,
        Activity::Latency => PartKind::Latency,
        Activity::WaitData => PartKind::WaitData,
        Activity::WaitCredit => PartKind::WaitCredit,
        Activity::Sync => PartKind::Protocol,
        Activity::Stream => PartKind::Limited,
        Activity::Idle => PartKind::Idle,
    };
    let order = [
        Activity::Launch,
        Activity::Latency,
        Activity::WaitData,
        Activity::WaitCredit,
        Activity::Sync,
        Activity::Stream,
        Activity::Idle,
    ];
    let parts = |chosen: &dyn Fn(&Span) -> bool| -> Vec<Part> {
        let all = || timeline.spans.iter().filter(|span| chosen(span));
        let total: Time = all().map(|span| span.end - span.start).sum();
        order
            .into_iter()
            .map(|activity| {
                let of = all().filter(|span| span.doing.activity() == activity);
                let time: Time = of.map(|span| span.end - span.start).sum();
                Part {
                    what: name(activity).to_owned(),
                    kind: kind(activity),
                    time,
                    fraction: time.picos() as f64 / total.picos() as f64,
                }
            })
            .collect()
    };
    Attribution {
        total: parts(&|_| true),
        critical_path: parts(&|span| span.rank == 7 && span.track == Track::Worker(3, Lane::Whole)),
        ranks: (0..GPUS)
            .map(|rank| parts(&move |span| span.rank == rank))
            .collect(),
    }
}
