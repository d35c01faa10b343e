//! A timeline as Chrome trace events, which Perfetto and `chrome://tracing` open.
//!
//! One process per GPU with a thread per channel and proxy, complete events for spans,
//! counter tracks for the links (each family as a whole, and what leaves each GPU), and a process
//! for what was wrong.
//! Written event by event: a trace may be larger than memory would like.

use super::record::{Activity, Lane, Timeline, Track};
use super::{ReportError, bins, numbers, recorded_sentence};
use fabricsim_units::Time;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Writes `timeline` in the trace event format (a JSON object). Times are microseconds
/// with up to six decimals, so picoseconds are exact.
///
/// # Errors
/// What writing to `out` gives.
pub fn write_trace(timeline: &Timeline, out: impl Write) -> Result<(), ReportError> {
    write_events(timeline, out).map_err(|source| ReportError::Json {
        what: "the timeline",
        source: serde_json::Error::io(source),
    })
}

fn write_events(timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let note = timeline.recorded.map(|r| recorded_sentence(&r));
    let mut events = Events::begin(out, note.as_deref())?;
    name_processes(timeline, &mut events)?;
    for span in &timeline.spans {
        events.next()?;
        let out = &mut events.out;
        write!(out, "{{\"ph\":\"X\",\"pid\":{}", pid(span.rank))?;
        write!(out, ",\"tid\":{},\"name\":", tid(span.track))?;
        text(out, &span.what)?;
        write!(
            out,
            ",\"cat\":\"{}\",\"ts\":{},\"dur\":{},\"args\":{{\"bytes\":{}}}}}",
            category(span.activity),
            exact_micros(span.start),
            exact_micros(span.end.saturating_sub(span.start)),
            span.bytes.get(),
        )?;
    }
    let links = links_process(timeline);
    let faults = timeline.faults.iter();
    let faults = faults.map(|f| (f.place.as_str(), f.what.as_str(), f.start, f.end));
    events.disturbances(links + 1, faults)?;
    family_counters(timeline, links, &mut events)?;
    gpu_counters(timeline, &mut events)?;
    events.finish()
}

/// Separates events by commas.
pub(super) struct Events<W> {
    pub(super) out: W,
    first: bool,
}

impl<W: Write> Events<W> {
    /// Opens the trace, with a note on what it does not show, if that is anything.
    pub(super) fn begin(mut out: W, note: Option<&str>) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",")?;
        if let Some(note) = note {
            out.write_all(b"\"otherData\":{\"recorded\":")?;
            text(&mut out, note)?;
            out.write_all(b"},")?;
        }
        out.write_all(b"\"traceEvents\":[")?;
        Ok(Events::inside(out))
    }

    /// Goes on behind the opening of a trace.
    pub(super) fn inside(out: W) -> Self {
        Events { out, first: true }
    }

    /// Closes the trace.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    /// To be called before each event.
    pub(super) fn next(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(separator)
    }

    /// A metadata event; `thread` is zero for those of a process, which ignore it.
    pub(super) fn name(&mut self, kind: &str, pid: u64, thread: u32, name: &str) -> io::Result<()> {
        self.next()?;
        let out = &mut self.out;
        write!(
            out,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{thread},\"name\":\"{kind}\",\"args\":{{\"name\":"
        )?;
        text(out, name)?;
        out.write_all(b"}}")
    }

    pub(super) fn sort(&mut self, kind: &str, pid: u64, thread: u32, index: u64) -> io::Result<()> {
        self.next()?;
        write!(
            self.out,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{thread},\"name\":\"{kind}\",\"args\":{{\"sort_index\":{index}}}}}"
        )
    }

    /// A process of what was wrong where, from when to when: a thread each, since they may overlap.
    pub(super) fn disturbances<'a>(
        &mut self,
        process: u64,
        all: impl Iterator<Item = (&'a str, &'a str, Time, Time)>,
    ) -> io::Result<()> {
        for (index, (place, what, from, to)) in all.enumerate() {
            if index == 0 {
                self.name("process_name", process, 0, "disturbances")?;
                self.sort("process_sort_index", process, 0, 0)?;
            }
            let thread = index as u32 + 1;
            self.name("thread_name", process, thread, place)?;
            self.sort("thread_sort_index", process, thread, u64::from(thread))?;
            self.next()?;
            write!(
                self.out,
                "{{\"ph\":\"X\",\"pid\":{process},\"tid\":{thread},\"name\":"
            )?;
            text(&mut self.out, what)?;
            write!(
                self.out,
                ",\"cat\":\"disturbance\",\"ts\":{},\"dur\":{}}}",
                exact_micros(from),
                exact_micros(to - from)
            )?;
        }
        Ok(())
    }

    /// A counter track: the value of each bin from its start, and zero at the end.
    /// A value equal to the one before is not repeated.
    fn counter(
        &mut self,
        timeline: &Timeline,
        pid: u64,
        name: &str,
        unit: &str,
        values: impl Iterator<Item = f64>,
    ) -> io::Result<()> {
        let mut last = None;
        let mut end = timeline.end;
        for (index, value) in values.enumerate() {
            let (start, bin_end) = bins::span(timeline, index);
            let value = numbers::trimmed(value, 3);
            if last.as_ref() != Some(&value) {
                self.sample(pid, name, unit, start, &value)?;
            }
            last = Some(value);
            end = end.max(bin_end);
        }
        match last.as_deref() {
            None | Some("0") => Ok(()),
            Some(_) => self.sample(pid, name, unit, end, "0"),
        }
    }

    fn sample(
        &mut self,
        pid: u64,
        name: &str,
        unit: &str,
        at: Time,
        value: &str,
    ) -> io::Result<()> {
        self.next()?;
        write!(
            self.out,
            "{{\"ph\":\"C\",\"pid\":{pid},\"tid\":0,\"ts\":{},\"name\":",
            exact_micros(at)
        )?;
        text(&mut self.out, name)?;
        write!(self.out, ",\"args\":{{\"{unit}\":{value}}}}}")
    }
}

/// Perfetto takes process 0 for the idle task, so ranks start at 1.
pub(super) fn pid(rank: u32) -> u64 {
    u64::from(rank) + 1
}

/// Tracks of one channel: parts of its thread block, and its proxy.
const TRACKS: u32 = 5 + 3 * 256 + 1;

/// A channel's proxy is listed below its thread block.
pub(super) fn tid(track: Track) -> u32 {
    match track {
        Track::Worker(channel, lane) => {
            let lane = match lane {
                Lane::Whole => 0,
                Lane::Up => 1,
                Lane::Down => 2,
                Lane::Scatter => 3,
                Lane::Gather => 4,
                Lane::Send(k) => 5 + u32::from(k),
                Lane::Receive(k) => 5 + 256 + u32::from(k),
                Lane::Switch(k) => 5 + 512 + u32::from(k),
            };
            u32::from(channel) * TRACKS + 1 + lane
        }
        Track::Proxy(channel) => u32::from(channel) * TRACKS + TRACKS,
    }
}

/// A track's name as people read it: `channel 3`, `channel 3 proxy`.
pub(super) fn track_name(track: Track) -> String {
    match track {
        Track::Worker(channel, lane) => match lane {
            Lane::Whole => format!("channel {channel}"),
            Lane::Up => format!("channel {channel} up"),
            Lane::Down => format!("channel {channel} down"),
            Lane::Scatter => format!("channel {channel} scatter"),
            Lane::Gather => format!("channel {channel} gather"),
            Lane::Send(k) => format!("channel {channel} send {k}"),
            Lane::Receive(k) => format!("channel {channel} receive {k}"),
            Lane::Switch(k) => format!("channel {channel} switch {k}"),
        },
        Track::Proxy(channel) => format!("channel {channel} proxy"),
    }
}

fn name_processes<W: Write>(timeline: &Timeline, events: &mut Events<W>) -> io::Result<()> {
    for track in &timeline.ranks {
        let name = format!("rank {}: {}", track.rank, track.name);
        events.name("process_name", pid(track.rank), 0, &name)?;
        events.sort("process_sort_index", pid(track.rank), 0, pid(track.rank))?;
    }
    let threads: BTreeSet<_> = timeline.spans.iter().map(|s| (s.rank, s.track)).collect();
    let named: BTreeSet<u32> = timeline.ranks.iter().map(|track| track.rank).collect();
    let mut unnamed = BTreeSet::new();
    for (rank, track) in threads {
        if !named.contains(&rank) && unnamed.insert(rank) {
            events.name("process_name", pid(rank), 0, &format!("rank {rank}"))?;
        }
        let thread = tid(track);
        events.name("thread_name", pid(rank), thread, &track_name(track))?;
        events.sort("thread_sort_index", pid(rank), thread, u64::from(thread))?;
    }
    Ok(())
}

/// The process of the links' counters: after those of ranks.
fn links_process(timeline: &Timeline) -> u64 {
    let spans = timeline.spans.iter().map(|span| span.rank);
    let ranks = timeline.ranks.iter().map(|track| track.rank).chain(spans);
    pid(ranks.max().unwrap_or(0)) + 1
}

fn family_counters<W: Write>(
    timeline: &Timeline,
    links: u64,
    events: &mut Events<W>,
) -> io::Result<()> {
    let families = bins::families(timeline);
    if families.is_empty() {
        return Ok(());
    }
    events.name("process_name", links, 0, "links")?;
    events.sort("process_sort_index", links, 0, 0)?;
    for family in families {
        let percent = |values: &[f64]| -> Vec<f64> { values.iter().map(|v| v * 100.0).collect() };
        let tracks = [
            ("busiest link", "%", percent(&family.max)),
            ("mean of links", "%", percent(&family.mean)),
            (
                "all links",
                "GB/s",
                family.rate.iter().map(|rate| rate / 1e9).collect(),
            ),
        ];
        for (what, unit, values) in tracks {
            let name = format!("{}: {what}, {unit}", family.name);
            events.counter(timeline, links, &name, unit, values.into_iter())?;
        }
    }
    Ok(())
}

fn gpu_counters<W: Write>(timeline: &Timeline, events: &mut Events<W>) -> io::Result<()> {
    for family in bins::families(timeline) {
        let senders = bins::senders(timeline, family.name);
        for track in &timeline.ranks {
            if let Some(rates) = senders.get(track.name.as_str()) {
                let name = format!("{} out, GB/s", family.name);
                let values = rates.iter().map(|rate| rate / 1e9);
                events.counter(timeline, pid(track.rank), &name, "GB/s", values)?;
            }
        }
    }
    Ok(())
}

/// The activity's name in files.
pub(super) fn category(activity: Activity) -> &'static str {
    match activity {
        Activity::Launch => "launch",
        Activity::Latency => "latency",
        Activity::WaitData => "wait_data",
        Activity::WaitCredit => "wait_credit",
        Activity::Sync => "sync",
        Activity::Stream => "stream",
        Activity::Idle => "idle",
    }
}

/// Microseconds, exact to the picosecond, without going through a float.
pub(super) fn exact_micros(time: Time) -> String {
    let (whole, picos) = (time.picos() / 1_000_000, time.picos() % 1_000_000);
    if picos == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{picos:06}");
    text.trim_end_matches('0').to_owned()
}

/// A string of JSON.
pub(super) fn text(out: &mut impl Write, value: &str) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}
