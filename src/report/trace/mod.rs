//! Timelines as Chrome trace events, which Perfetto and `chrome://tracing` open.
//!
//! Every record becomes a [`Trace`]: one process per rank with a thread for each thing that it does
//! at once, complete events for spans, arrows for messages, counters for links, and processes for
//! the steps of a job and for what was wrong. What a span is called and what it carries follows
//! from its role alone. Written event by event: a trace may be larger than memory would like.

mod collective;
mod events;
mod job;
mod roles;

pub(crate) use events::{Events, exact_micros, text};

use crate::ReportError;
use fabricsim_units::Time;
use roles::Role;
use smallvec::SmallVec;
use std::io::{self, Write};

/// What a trace shows of a record: made of a collective's [`Timeline`](crate::record::Timeline) or
/// of a [`JobTimeline`](crate::training::JobTimeline).
pub struct Trace<'t> {
    /// What it does not show, if that is anything.
    note: Option<String>,
    ranks: Vec<Process>,
    /// When the steps of a job ended.
    steps: &'t [Time],
    /// What was wrong: where, what, from when, to when.
    disturbances: Vec<(&'t str, &'t str, Time, Time)>,
    slices: Box<dyn Iterator<Item = Slice<'t>> + 't>,
    arrows: Box<dyn Iterator<Item = Arrow> + 't>,
    counters: Vec<Counter>,
}

/// A rank.
struct Process {
    id: u64,
    name: String,
    /// Its threads, in order.
    threads: Vec<(u32, String)>,
}

/// Where an event stands.
#[derive(Clone, Copy)]
struct Place {
    process: u64,
    thread: u32,
}

/// A span of a thread.
struct Slice<'t> {
    place: Place,
    role: Role<'t>,
    start: Time,
    end: Time,
}

/// A message: its sender, whom it passes, and its receiver, each with a time in the span there that
/// the arrow belongs to.
struct Arrow {
    number: u32,
    ends: SmallVec<[(Place, Time); 3]>,
}

/// A value over time.
struct Counter {
    /// The process of its rank; none: that of all links.
    rank: Option<u64>,
    name: String,
    unit: &'static str,
    samples: Vec<(Time, String)>,
}

/// Perfetto takes process 0 for the idle task, so ranks start at 1.
fn process_of(rank: u32) -> u64 {
    u64::from(rank) + 1
}

/// Writes a record in the trace event format (a JSON object). Times are microseconds with up to six
/// decimals, so picoseconds are exact.
///
/// # Errors
/// What writing to `out` gives.
pub fn write_trace<'t>(of: impl Into<Trace<'t>>, out: impl Write) -> Result<(), ReportError> {
    of.into().write(out).map_err(|source| ReportError::Json {
        what: "the timeline",
        source: serde_json::Error::io(source),
    })
}

impl Trace<'_> {
    fn write(self, out: impl Write) -> io::Result<()> {
        let mut events = Events::begin(out, self.note.as_deref())?;
        // Processes of their own come after those of ranks.
        let last = self.ranks.iter().map(|process| process.id).max();
        let next = last.unwrap_or(process_of(0)) + 1;
        events.steps(next, self.steps)?;
        events.disturbances(next + 1, &self.disturbances)?;
        for rank in &self.ranks {
            events.name("process_name", rank.id, 0, &rank.name)?;
            events.sort("process_sort_index", rank.id, 0, rank.id)?;
            for (thread, name) in &rank.threads {
                events.name("thread_name", rank.id, *thread, name)?;
                events.sort("thread_sort_index", rank.id, *thread, u64::from(*thread))?;
            }
        }
        for slice in self.slices {
            events.slice(&slice)?;
        }
        for arrow in self.arrows {
            events.arrow(&arrow)?;
        }
        if self.counters.iter().any(|counter| counter.rank.is_none()) {
            events.name("process_name", next, 0, "links")?;
            events.sort("process_sort_index", next, 0, 0)?;
        }
        for counter in &self.counters {
            events.counter(counter.rank.unwrap_or(next), counter)?;
        }
        events.finish()
    }
}
