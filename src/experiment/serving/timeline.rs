//! What happened when on the engines: passes, and KV caches on their way.

use super::valid::ValidServing;
use fabricsim_report::training::{JobSpan, JobTimeline, SpanKind};
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::serving::fleet::{Passes, Served};
use fabricsim_workload::serving::spec::PoolRole;

/// Streams of hand-overs beside that of passes: those that go on at the same time are below each other.
const MAX_LANES: usize = 8;

/// The timeline, and what it leaves out.
pub(super) fn timeline(valid: &ValidServing, served: &Served) -> (JobTimeline, Option<String>) {
    let mut ranks = Vec::new();
    for pool in &valid.pools {
        let role = match pool.role {
            PoolRole::Both => "engine",
            PoolRole::Prefill => "prompts",
            PoolRole::Decode => "generates",
        };
        for (number, engine) in pool.engines.iter().enumerate() {
            let Some(&first) = engine.first() else {
                continue;
            };
            let gpu = valid.topology.device_name(valid.gpus[first as usize]);
            ranks.push((first, gpu, format!("{role} {number}")));
        }
    }
    let passes = &served.passes;
    let until = passes.after_first.unwrap_or(served.end);
    let mut spans: Vec<JobSpan> = passes
        .first
        .iter()
        .map(|pass| {
            let what = match (pass.prompt_tokens, pass.decodes) {
                (0, decodes) => format!("{decodes} tokens"),
                (prompts, 0) => format!("prompts: {prompts} tokens"),
                (prompts, decodes) => format!("prompts: {prompts} tokens, {decodes} tokens"),
            };
            let kind = match pass.prompt_tokens {
                0 => SpanKind::Other,
                _ => SpanKind::Forward,
            };
            span(
                (pass.engine, 0),
                (what, kind),
                (pass.begun, pass.ended),
                Bytes::ZERO,
            )
        })
        .collect();
    let lanes = moved(valid, served, until, &mut spans);
    spans.sort_by_key(|span| (span.end, span.rank, span.stream));
    let streams = std::iter::once("passes".to_owned());
    let streams = streams.chain((0..lanes).map(|lane| format!("KV caches arrive {lane}")));
    let world = valid
        .pools
        .iter()
        .map(|p| p.gpus() * p.engines.len() as u32);
    let timeline = JobTimeline {
        streams: streams.collect(),
        world: world.sum(),
        ranks,
        spans,
        end: until,
        ..JobTimeline::default()
    };
    let is_cut = passes.after_first.is_some();
    let first = Passes::FIRST;
    let told = is_cut.then(|| format!("Timelines have the first {first} passes alone."));
    (timeline, told)
}

/// Hand-overs until then, each on the first lane of its engine that is free; returns how many lanes there are.
fn moved(valid: &ValidServing, served: &Served, until: Time, spans: &mut Vec<JobSpan>) -> usize {
    let mut all: Vec<(Time, Time, u32, u32)> = (0u32..)
        .zip(&served.records)
        .filter_map(|(request, record)| {
            let begun = record.reserved?.max(record.prefilled?);
            let ended = record.handed_over?;
            (ended <= until).then_some((begun, ended, record.engines[1]?, request))
        })
        .collect();
    all.sort_unstable();
    let engines = valid.pools.iter().map(|pool| pool.engines.len()).sum();
    let mut busy: Vec<Vec<Time>> = vec![Vec::new(); engines];
    let mut most = 0;
    for (begun, ended, engine, request) in all {
        let lanes = &mut busy[engine as usize];
        let free = lanes.iter().position(|&until| until <= begun);
        let lane = match free {
            Some(lane) => lane,
            None if lanes.len() < MAX_LANES => {
                lanes.push(Time::ZERO);
                lanes.len() - 1
            }
            // More go on at once than are worth showing.
            None => continue,
        };
        lanes[lane] = ended;
        most = most.max(lane + 1);
        let tokens = served.requests[request as usize].input;
        let what = format!("request {request}: {tokens} tokens");
        let kind = SpanKind::Communication;
        spans.push(span(
            (engine, lane as u8 + 1),
            (what, kind),
            (begun, ended),
            Bytes::ZERO,
        ));
    }
    most
}

fn span(
    (rank, stream): (u32, u8),
    (what, kind): (String, SpanKind),
    (start, end): (Time, Time),
    bytes: Bytes,
) -> JobSpan {
    JobSpan {
        rank,
        stream,
        what,
        kind,
        bytes,
        communication: None,
        bucket: None,
        message: None,
        micro_batch: None,
        chunk: 0,
        step: 0,
        kernels: None,
        launched: (start, start),
        ready: start,
        came: start,
        start,
        end,
    }
}
