//! Single events of a trace, as JSON.

use super::{Arrow, Counter, Slice};
use fabricsim_units::Time;
use std::io::{self, Write};

/// Separates events by commas.
pub(crate) struct Events<W> {
    pub(crate) out: W,
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
    pub(crate) fn inside(out: W) -> Self {
        Events { out, first: true }
    }

    /// Closes the trace.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    /// To be called before each event.
    pub(crate) fn next(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(separator)
    }

    /// A metadata event; `thread` is zero for those of a process, which ignore it.
    pub(crate) fn name(&mut self, kind: &str, pid: u64, thread: u32, name: &str) -> io::Result<()> {
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

    /// A process of the ends of steps.
    pub(super) fn steps(&mut self, process: u64, ends: &[Time]) -> io::Result<()> {
        for (step, at) in ends.iter().enumerate() {
            if step == 0 {
                self.name("process_name", process, 0, "steps")?;
                self.sort("process_sort_index", process, 0, 0)?;
            }
            self.next()?;
            write!(
                self.out,
                "{{\"ph\":\"i\",\"s\":\"g\",\"pid\":{process},\"tid\":0,\"ts\":{},\"name\":\"end of step {step}\"}}",
                exact_micros(*at)
            )?;
        }
        Ok(())
    }

    /// A process of what was wrong where, from when to when: a thread each, since they may overlap.
    pub(super) fn disturbances(
        &mut self,
        process: u64,
        all: &[(&str, &str, Time, Time)],
    ) -> io::Result<()> {
        for (index, &(place, what, from, to)) in all.iter().enumerate() {
            if index == 0 {
                self.name("process_name", process, 0, "disturbances")?;
                self.sort("process_sort_index", process, 0, 0)?;
            }
            let thread = index as u32 + 1;
            self.name("thread_name", process, thread, place)?;
            self.sort("thread_sort_index", process, thread, u64::from(thread))?;
            self.complete(process, thread, (what, "disturbance"), (from, to))?;
            self.out.write_all(b"}")?;
        }
        Ok(())
    }

    /// A span with what it carries.
    pub(super) fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let kind = (&*slice.role.name(), slice.role.category());
        let (process, thread) = (slice.place.process, slice.place.thread);
        self.complete(process, thread, kind, (slice.start, slice.end))?;
        self.out.write_all(b",\"args\":{")?;
        slice.role.tell(&mut Args {
            out: &mut self.out,
            first: true,
        })?;
        self.out.write_all(b"}}")
    }

    /// A complete event, but for what comes behind its duration.
    fn complete(
        &mut self,
        process: u64,
        thread: u32,
        (name, category): (&str, &str),
        (from, to): (Time, Time),
    ) -> io::Result<()> {
        self.next()?;
        let out = &mut self.out;
        write!(
            out,
            "{{\"ph\":\"X\",\"pid\":{process},\"tid\":{thread},\"name\":"
        )?;
        text(out, name)?;
        write!(
            out,
            ",\"cat\":\"{category}\",\"ts\":{},\"dur\":{}",
            exact_micros(from),
            exact_micros(to.saturating_sub(from))
        )
    }

    /// An arrow from its first end to its last.
    pub(super) fn arrow(&mut self, arrow: &Arrow) -> io::Result<()> {
        for (index, (place, at)) in arrow.ends.iter().enumerate() {
            // The end belongs to the span that it is in, not to the next one.
            let phase = match index {
                0 => "\"s\"",
                _ if index + 1 < arrow.ends.len() => "\"t\"",
                _ => "\"f\",\"bp\":\"e\"",
            };
            self.next()?;
            write!(
                self.out,
                "{{\"ph\":{phase},\"id\":{},\"pid\":{},\"tid\":{},\"name\":\"message\",\"cat\":\"message\",\"ts\":{}}}",
                arrow.number,
                place.process,
                place.thread,
                exact_micros(*at)
            )?;
        }
        Ok(())
    }

    /// A counter track.
    pub(super) fn counter(&mut self, process: u64, counter: &Counter) -> io::Result<()> {
        for (at, value) in &counter.samples {
            self.next()?;
            write!(
                self.out,
                "{{\"ph\":\"C\",\"pid\":{process},\"tid\":0,\"ts\":{},\"name\":",
                exact_micros(*at)
            )?;
            text(&mut self.out, &counter.name)?;
            write!(self.out, ",\"args\":{{\"{}\":{value}}}}}", counter.unit)?;
        }
        Ok(())
    }
}

/// What an event carries, value by value.
pub(super) struct Args<'w, W> {
    out: &'w mut W,
    first: bool,
}

impl<W: Write> Args<'_, W> {
    pub(super) fn number(&mut self, key: &str, value: impl Into<u64>) -> io::Result<()> {
        self.key(key)?;
        write!(self.out, "{}", value.into())
    }

    pub(super) fn text(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.key(key)?;
        text(self.out, value)
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        let comma = if self.first { "" } else { "," };
        self.first = false;
        write!(self.out, "{comma}\"{key}\":")
    }
}

/// Microseconds, exact to the picosecond, without going through a float.
pub(crate) fn exact_micros(time: Time) -> String {
    let (whole, picos) = (time.picos() / 1_000_000, time.picos() % 1_000_000);
    if picos == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{picos:06}");
    text.trim_end_matches('0').to_owned()
}

/// A string of JSON.
pub(crate) fn text(out: &mut impl Write, value: &str) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}
