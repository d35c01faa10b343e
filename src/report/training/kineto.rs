//! A job's timeline as PyTorch's profiler (Kineto) would have written it: one file a rank, which
//! HolisticTraceAnalysis and other readers of PyTorch traces open.
//!
//! Kernels and communications are events of a stream of the GPU, each with the call that started
//! it. A communication's kernel runs from when its rank comes to it, as NCCL's does, though it may
//! wait for others first. The host's calls stand where the host made them, ahead of what they start
//! and as long as a launch takes; of a task of several kernels it is the first one's. Only the last
//! step is in a timeline, and is the only `ProfilerStep`.

use super::{JobSpan, JobTimeline, SpanKind};
use crate::communication::{Communication, Movement};
use crate::trace::{Events, exact_micros, text};
use crate::{ReportError, write_file};
use fabricsim_units::Time;
use flate2::{Compression, GzBuilder};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

/// PyTorch's default stream, and how far the numbers of others lie apart.
const FIRST_STREAM: u32 = 7;
const STREAMS_APART: u32 = 4;

/// The GPU's process, and the host's with the thread that starts kernels and, since it goes on
/// meanwhile, one for the host's own tasks.
const GPU: u32 = 0;
const HOST: u32 = 1_000;
const THREAD: u32 = 1_000;
const OWN_TASKS: u32 = 1_001;

/// Writes `rank-N.json.gz` into `folder`, which is there, for each rank of a timeline; for the second
/// job on its GPU `rank-N-2.json.gz`. Times are microseconds with up to six decimals, so picoseconds
/// are exact.
///
/// # Errors
/// A file that cannot be written.
pub fn write_kineto(timeline: &JobTimeline, folder: &Path) -> Result<(), ReportError> {
    for (index, (rank, gpu, _)) in timeline.ranks.iter().enumerate() {
        let spans = timeline.spans.iter();
        let trace = Trace {
            timeline,
            rank: *rank,
            gpu,
            spans: spans.filter(|span| span.rank as usize == index).collect(),
        };
        let json = |source| ReportError::Json {
            what: "a rank's profile",
            source: serde_json::Error::io(source),
        };
        // Neither a time nor a name in the header: same results, same bytes.
        let mut out = GzBuilder::new().write(Vec::new(), Compression::default());
        trace.write(&mut out).map_err(json)?;
        let bytes = out.finish().map_err(json)?;
        let name = match timeline.jobs_before(index) {
            0 => format!("rank-{rank}.json.gz"),
            before => format!("rank-{rank}-{}.json.gz", before + 1),
        };
        write_file(&folder.join(name), &bytes)?;
    }
    Ok(())
}

/// What one rank did.
struct Trace<'a> {
    timeline: &'a JobTimeline,
    rank: u32,
    gpu: &'a str,
    spans: Vec<&'a JobSpan>,
}

impl Trace<'_> {
    fn write(&self, mut out: impl Write) -> io::Result<()> {
        // HolisticTraceAnalysis looks for the rank in a line, with a space before the number.
        write!(
            out,
            "{{\"schemaVersion\":1,\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\": {},\"world_size\": {}}},\n\
             \"deviceProperties\":[{{\"id\":{GPU},\"name\":",
            self.rank, self.timeline.world
        )?;
        text(&mut out, self.gpu)?;
        out.write_all(
            b"}],\n\"baseTimeNanoseconds\":0,\"displayTimeUnit\":\"ns\",\"traceEvents\":[",
        )?;
        let mut events = Events::inside(out);
        self.names(&mut events)?;
        self.step(&mut events)?;
        let mut number = 0;
        for span in &self.spans {
            if span.end > span.came {
                number += 1;
                self.span(span, number, &mut events)?;
            }
        }
        events.finish()
    }

    fn names<W: Write>(&self, events: &mut Events<W>) -> io::Result<()> {
        let name = format!("rank {} {}", self.rank, self.gpu);
        events.name("process_name", u64::from(GPU), 0, &name)?;
        events.name("process_name", u64::from(HOST), 0, "python")?;
        events.name(
            "thread_name",
            u64::from(HOST),
            THREAD,
            "thread that starts kernels",
        )?;
        if self
            .spans
            .iter()
            .any(|span| matches!(self.runs(span), Runs::Host))
        {
            let host = u64::from(HOST);
            events.name("thread_name", host, OWN_TASKS, "the host's own tasks")?;
        }
        let streams: BTreeSet<u8> = self.spans.iter().map(|span| span.stream).collect();
        for id in streams {
            let known = self.timeline.streams.get(usize::from(id));
            let role = known.map_or("", String::as_str);
            let name = format!("stream {} {role}", stream(id));
            events.name("thread_name", u64::from(GPU), stream(id), name.trim_end())?;
        }
        Ok(())
    }

    /// The step that is shown: from the end of the one before.
    fn step<W: Write>(&self, events: &mut Events<W>) -> io::Result<()> {
        let (number, from, to) = match self.timeline.steps.as_slice() {
            [] => return Ok(()),
            [only] => (0, Time::ZERO, *only),
            [.., before, last] => (self.timeline.steps.len() - 1, *before, *last),
        };
        events.next()?;
        write!(
            events.out,
            "{{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#{number}\",\
             \"pid\":{HOST},\"tid\":{THREAD},\"ts\":{},\"dur\":{},\"args\":{{}}}}",
            exact_micros(from),
            exact_micros(to.saturating_sub(from))
        )
    }

    /// A task on the GPU with the call that started it, or one on the host.
    fn span<W: Write>(
        &self,
        span: &JobSpan,
        number: u32,
        events: &mut Events<W>,
    ) -> io::Result<()> {
        let runs = self.runs(span);
        let (call, category) = match runs {
            Runs::Host => {
                let during = (span.came, span.end);
                return on_host(span, ("cpu_op", &span.what), during, None, events);
            }
            Runs::Communication(_) => ("cudaLaunchKernelExC", "kernel"),
            Runs::Copy => ("cudaMemcpyAsync", "gpu_memcpy"),
            Runs::Kernels(_) => ("cudaLaunchKernel", "kernel"),
        };
        let during = span.launched;
        on_host(span, ("cuda_runtime", call), during, Some(number), events)?;
        arrow(span, number, events)?;
        events.next()?;
        let out = &mut events.out;
        write!(out, "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":")?;
        match runs {
            Runs::Communication(of) => text(out, &kernel_name(of))?,
            Runs::Copy => text(out, "Memcpy PtoP (Device -> Device)")?,
            Runs::Kernels(_) | Runs::Host => text(out, &span.what)?,
        }
        let stream = stream(span.stream);
        write!(
            out,
            ",\"pid\":{GPU},\"tid\":{stream},\"ts\":{},\"dur\":{},\"args\":{{\"External id\":{number},\
             \"queued\":0,\"device\":{GPU},\"context\":1,\"stream\":{stream},\"correlation\":{number}",
            exact_micros(span.came),
            exact_micros(span.end.saturating_sub(span.came)),
        )?;
        match runs {
            Runs::Communication(of) => communication(of, span, out)?,
            Runs::Copy => write!(out, ",\"bytes\":{}", span.bytes.get())?,
            Runs::Kernels(kernels) => write!(out, ",\"kernels\":{kernels}")?,
            Runs::Host => {}
        }
        out.write_all(b"}}")
    }

    fn runs(&self, span: &JobSpan) -> Runs<'_> {
        match (self.timeline.communication(span), span.kernels, span.kind) {
            (Some(of), _, _) => Runs::Communication(of),
            (None, Some(kernels), _) => Runs::Kernels(kernels),
            (None, None, SpanKind::Communication) => Runs::Copy,
            (None, None, _) => Runs::Host,
        }
    }
}

/// What a task is to the GPU.
#[derive(Clone, Copy)]
enum Runs<'a> {
    /// NCCL's kernel.
    Communication(&'a Communication),
    /// A copy engine.
    Copy,
    /// So many kernels.
    Kernels(u16),
    /// Nothing: it is the host's.
    Host,
}

/// From the call that started something on the GPU to that.
fn arrow<W: Write>(span: &JobSpan, number: u32, events: &mut Events<W>) -> io::Result<()> {
    for (phase, process, thread, at) in [
        ("\"s\"", HOST, THREAD, span.launched.0),
        ("\"f\",\"bp\":\"e\"", GPU, stream(span.stream), span.came),
    ] {
        events.next()?;
        write!(
            events.out,
            "{{\"ph\":{phase},\"id\":{number},\"pid\":{process},\"tid\":{thread},\"ts\":{},\
             \"cat\":\"ac2g\",\"name\":\"ac2g\"}}",
            exact_micros(at)
        )?;
    }
    Ok(())
}

/// An event of the host: one that starts something, under the number of that, or does something.
fn on_host<W: Write>(
    span: &JobSpan,
    (category, name): (&str, &str),
    (from, to): (Time, Time),
    starts: Option<u32>,
    events: &mut Events<W>,
) -> io::Result<()> {
    let thread = starts.map_or(OWN_TASKS, |_| THREAD);
    events.next()?;
    let out = &mut events.out;
    write!(out, "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":")?;
    text(out, name)?;
    write!(
        out,
        ",\"pid\":{HOST},\"tid\":{thread},\"ts\":{},\"dur\":{},\"args\":{{\"step\":{}",
        exact_micros(from),
        exact_micros(to.saturating_sub(from)),
        span.step
    )?;
    if let Some(number) = starts {
        write!(out, ",\"External id\":{number},\"correlation\":{number}")?;
    }
    out.write_all(b"}}")
}

/// What PyTorch tells of a communication's kernel; sizes as nccl-tests counts them, in bytes.
fn communication(of: &Communication, span: &JobSpan, out: &mut impl Write) -> io::Result<()> {
    let bytes = span.bytes.get();
    write!(
        out,
        ",\"Collective name\":\"{}\",\"In msg nelems\":{bytes},\"Out msg nelems\":{bytes},\
         \"dtype\":\"Byte\",\"Group size\":{},\"Process Group Name\":",
        collective_name(of.movement),
        of.ranks.len()
    )?;
    text(out, of.communicator.name())?;
    out.write_all(b",\"Process Group Description\":")?;
    text(out, &of.group)?;
    // A text, as PyTorch has it.
    write!(out, ",\"Process Group Ranks\":\"{:?}\"", of.ranks)?;
    if let Some(bucket) = span.bucket {
        write!(out, ",\"bucket\":{bucket}")?;
    }
    Ok(())
}

fn stream(id: u8) -> u32 {
    FIRST_STREAM + STREAMS_APART * u32::from(id)
}

/// The name under which PyTorch's process groups record an operation.
const fn collective_name(movement: Movement) -> &'static str {
    match movement {
        Movement::AllReduce => "allreduce",
        Movement::AllGather => "_allgather_base",
        Movement::ReduceScatter => "_reduce_scatter_base",
        Movement::Broadcast => "broadcast",
        Movement::Reduce => "reduce",
        Movement::AllToAll => "all_to_allv",
        Movement::Gather => "gather",
        Movement::Scatter => "scatter",
        Movement::SendReceive => "send_recv",
    }
}

/// The name of NCCL's kernel: `ncclDevKernel_AllReduce_Sum_RING_LL`. Sends and receives have one
/// for all.
fn kernel_name(of: &Communication) -> String {
    let operation = match of.movement {
        Movement::AllReduce => "AllReduce_Sum",
        Movement::AllGather => "AllGather",
        Movement::ReduceScatter => "ReduceScatter_Sum",
        Movement::Broadcast => "Broadcast",
        Movement::Reduce => "Reduce_Sum",
        Movement::AllToAll | Movement::Gather | Movement::Scatter | Movement::SendReceive => {
            return "ncclDevKernel_SendRecv".to_owned();
        }
    };
    let word = |name: &str| name.to_uppercase().replace('-', "_");
    let parts = [&of.algorithm, &of.protocol];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.fold(format!("ncclDevKernel_{operation}"), |name, part| {
        format!("{name}_{}", word(part))
    })
}
