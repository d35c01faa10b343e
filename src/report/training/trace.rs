//! A job's timeline as Chrome trace events, which Perfetto and `chrome://tracing` open.
//!
//! One process per rank with a thread per stream, complete events for tasks and for the time
//! that a communication waits for others, an arrow from each sender of a message to its receiver,
//! the disturbances as a process of their own, and an instant event where a step ends.

use super::{Communication, Disturbance, JobSpan, JobTimeline, SpanKind};
use crate::ReportError;
use crate::perfetto::{Events, exact_micros, pid, text};
use fabricsim_units::{Bytes, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Writes `timeline` in the trace event format (a JSON object). Times are microseconds
/// with up to six decimals, so picoseconds are exact.
///
/// # Errors
/// What writing to `out` gives.
pub fn write_job_trace(timeline: &JobTimeline, out: impl Write) -> Result<(), ReportError> {
    write_events(timeline, out).map_err(|source| ReportError::Json {
        what: "the timeline",
        source: serde_json::Error::io(source),
    })
}

fn write_events(timeline: &JobTimeline, out: impl Write) -> io::Result<()> {
    let mut events = Events::begin(out, left_out(timeline).as_deref())?;
    // Processes of their own come after those of ranks.
    let processes = (0..timeline.ranks.len()).map(|place| process(timeline, place));
    let next = processes.max().unwrap_or(pid(0)) + 1;
    write_steps(timeline, next, &mut events)?;
    let disturbances = timeline.disturbances.iter().filter_map(|d| {
        let (from, to) = disturbed(d, timeline.end)?;
        Some((d.place.as_str(), d.what.as_str(), from, to))
    });
    events.disturbances(next + 1, disturbances)?;
    name_ranks(timeline, &mut events)?;
    // Where each thread is: events of a thread must not overlap.
    let mut ends: BTreeMap<(u32, u8), Time> = BTreeMap::new();
    let spans = timeline.spans.iter();
    for span in spans.filter(|span| is_traced(timeline, span.rank)) {
        let before = ends.entry((span.rank, span.stream)).or_default();
        if let Some(from) = waits_from(span, *before) {
            event(timeline, span, "waits for others", (from, span.start))
                .write("wait", &mut events)?;
        }
        event(timeline, span, &span.what, (span.start, span.end))
            .write(category(span.kind), &mut events)?;
        *before = span.end;
    }
    write_messages(timeline, &mut events)?;
    events.finish()
}

/// Whether the tasks of a rank are in the trace.
fn is_traced(timeline: &JobTimeline, rank: u32) -> bool {
    timeline.in_trace.is_empty() || timeline.in_trace.contains(&rank)
}

/// What is not in the trace, and how to get it; nothing if all is.
pub(super) fn left_out(timeline: &JobTimeline) -> Option<String> {
    let (traced, all) = (timeline.in_trace.len(), timeline.ranks.len());
    (traced > 0 && traced < all).then(|| {
        format!("The trace is of {traced} of {all} recorded ranks. --exact-full writes all.")
    })
}

/// Since when a communication waits for others, if it does; `before` is the end of the task
/// before it on its stream.
pub(super) fn waits_from(span: &JobSpan, before: Time) -> Option<Time> {
    let from = span.ready.max(before);
    (span.kind == SpanKind::Communication && from < span.start).then_some(from)
}

/// How a rank is named: `rank 0 node0/gpu0 (stage 0)`.
pub(super) fn rank_name((rank, gpu, part): &(u32, String, String)) -> String {
    match part.as_str() {
        "" => format!("rank {rank} {gpu}"),
        part => format!("rank {rank} {gpu} ({part})"),
    }
}

/// A disturbance's time, within that of the run; nothing if it is after that.
pub(super) fn disturbed(disturbance: &Disturbance, end: Time) -> Option<(Time, Time)> {
    let picos = |seconds: f64| Time::from_picos((seconds * 1e12).round().max(0.0) as u64);
    let from = picos(disturbance.from_s);
    let to = disturbance.to_s.map_or(end, picos).min(end);
    (from < to).then_some((from, to))
}

/// The kind's name in files.
pub(super) fn category(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Forward => "forward",
        SpanKind::Backward => "backward",
        SpanKind::Recompute => "recompute",
        SpanKind::Optimiser => "optimiser",
        SpanKind::Communication => "communication",
        SpanKind::Other => "other",
    }
}

/// An event of a task, or of its waiting.
struct Event<'a> {
    pid: u64,
    of: Option<&'a Communication>,
    span: &'a JobSpan,
    name: &'a str,
    during: (Time, Time),
}

fn event<'a>(
    timeline: &'a JobTimeline,
    span: &'a JobSpan,
    name: &'a str,
    during: (Time, Time),
) -> Event<'a> {
    Event {
        pid: process(timeline, span.rank as usize),
        of: timeline.communication(span),
        span,
        name,
        during,
    }
}

impl Event<'_> {
    fn write<W: Write>(&self, category: &str, events: &mut Events<W>) -> io::Result<()> {
        events.next()?;
        let (start, end) = self.during;
        let out = &mut events.out;
        let thread = u32::from(self.span.stream) + 1;
        write!(
            out,
            "{{\"ph\":\"X\",\"pid\":{},\"tid\":{thread},\"name\":",
            self.pid
        )?;
        text(out, self.name)?;
        write!(
            out,
            ",\"cat\":\"{category}\",\"ts\":{},\"dur\":{},\"args\":{{",
            exact_micros(start),
            exact_micros(end.saturating_sub(start)),
        )?;
        if let Some(micro_batch) = self.span.micro_batch {
            write!(out, "\"micro_batch\":{micro_batch},")?;
        }
        let (chunk, step) = (self.span.chunk, self.span.step);
        write!(out, "\"chunk\":{chunk},\"step\":{step}")?;
        if category == "communication" {
            self.communication(out)?;
        }
        if category == "wait" {
            out.write_all(b",\"for\":")?;
            text(out, &self.span.what)?;
        }
        out.write_all(b"}}")
    }

    /// What is moved, between whom and how.
    fn communication(&self, out: &mut impl Write) -> io::Result<()> {
        if self.span.bytes > Bytes::ZERO {
            write!(out, ",\"bytes\":{}", self.span.bytes.get())?;
        }
        if let Some(of) = self.of {
            let (movement, communicator) = (of.movement.name(), of.communicator.name());
            write!(
                out,
                ",\"operation\":\"{movement}\",\"communicator\":\"{communicator}\",\"group\":"
            )?;
            text(out, &of.group)?;
            write!(out, ",\"ranks\":{}", of.ranks.len())?;
            if !of.algorithm.is_empty() {
                out.write_all(b",\"algorithm\":")?;
                text(out, &of.algorithm)?;
                out.write_all(b",\"protocol\":")?;
                text(out, &of.protocol)?;
            }
        }
        if let Some(bucket) = self.span.bucket {
            write!(out, ",\"bucket\":{bucket}")?;
        }
        Ok(())
    }
}

/// An arrow for each message both of whose ends are shown.
fn write_messages<W: Write>(timeline: &JobTimeline, events: &mut Events<W>) -> io::Result<()> {
    let mut ends: BTreeMap<u32, [Option<&JobSpan>; 2]> = BTreeMap::new();
    for span in &timeline.spans {
        if let Some(end) = span.message {
            ends.entry(end.number).or_default()[usize::from(end.sends)] = Some(span);
        }
    }
    for (number, ends) in ends {
        if let [Some(receiver), Some(sender)] = ends {
            // An arrow belongs to the span in which its end is, and viewers count nanoseconds.
            let inside = Time::from_nanos(2);
            let arrives = receiver.start.max(receiver.end.saturating_sub(inside));
            for (span, phase, at) in [
                (sender, "\"s\"", sender.start),
                (receiver, "\"f\",\"bp\":\"e\"", arrives),
            ] {
                events.next()?;
                write!(
                    events.out,
                    "{{\"ph\":{phase},\"id\":{number},\"pid\":{},\"tid\":{},\"name\":\"message\",\"cat\":\"message\",\"ts\":{}}}",
                    process(timeline, span.rank as usize),
                    u32::from(span.stream) + 1,
                    exact_micros(at)
                )?;
            }
        }
    }
    Ok(())
}

/// The process of what is shown at a place: that of its rank, or one behind those of all ranks where
/// another job's is on the same GPU.
fn process(timeline: &JobTimeline, place: usize) -> u64 {
    let Some(&(rank, _, _)) = timeline.ranks.get(place) else {
        return pid(place as u32);
    };
    let ranks = timeline.ranks.iter().map(|(rank, _, _)| *rank);
    let behind = pid(ranks.clone().max().unwrap_or(0));
    pid(rank) + behind * timeline.jobs_before(place) as u64
}

fn name_ranks<W: Write>(timeline: &JobTimeline, events: &mut Events<W>) -> io::Result<()> {
    let threads: BTreeSet<(u32, u8)> = timeline
        .spans
        .iter()
        .map(|span| (span.rank, span.stream))
        .collect();
    let ranks = (0..).zip(&timeline.ranks);
    for (index, shown) in ranks.filter(|&(index, _)| is_traced(timeline, index)) {
        let process = process(timeline, index as usize);
        events.name("process_name", process, 0, &rank_name(shown))?;
        events.sort("process_sort_index", process, 0, process)?;
        for &(_, stream) in threads.range((index, 0)..=(index, u8::MAX)) {
            let thread = u32::from(stream) + 1;
            let name = stream_name(timeline, stream);
            events.name("thread_name", process, thread, &name)?;
            events.sort("thread_sort_index", process, thread, u64::from(thread))?;
        }
    }
    Ok(())
}

/// A stream's name, or its number if it has none.
pub(super) fn stream_name(timeline: &JobTimeline, stream: u8) -> String {
    let known = timeline.streams.get(usize::from(stream));
    known.map_or_else(|| format!("stream {stream}"), Clone::clone)
}

fn write_steps<W: Write>(
    timeline: &JobTimeline,
    process: u64,
    events: &mut Events<W>,
) -> io::Result<()> {
    if timeline.steps.is_empty() {
        return Ok(());
    }
    events.name("process_name", process, 0, "steps")?;
    events.sort("process_sort_index", process, 0, 0)?;
    for (step, at) in timeline.steps.iter().enumerate() {
        events.next()?;
        write!(
            events.out,
            "{{\"ph\":\"i\",\"s\":\"g\",\"pid\":{process},\"tid\":0,\"ts\":{},\"name\":\"end of step {step}\"}}",
            exact_micros(*at)
        )?;
    }
    Ok(())
}
