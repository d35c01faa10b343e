//! From what the engine tells to what a report shows: [`record`] looks inside one
//! simulation and makes of it a timeline, the use of links over time, and where the workers'
//! time went.
//!
//! Memory is bounded by [`Limits`], whatever the size of the machine: spans by leaving
//! out whole ranks, bins of time by doubling their width. Of a large machine one worker is looked at
//! for all that are alike, and only so many of its slices; where the time went and what links
//! carried is of the whole operation all the same. Bytes are those on the wire, protocol overhead
//! included.

mod attribution;
mod cast;
mod causes;
mod kinds;
mod limits;
mod link_use;
mod messages;
mod names;
mod spans;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod words;

pub use attribution::label;
pub use causes::causes;
pub use limits::Limits;

use cast::Cast;
use fabricsim_engine::probe::{ActorId, Probe, Segment, Slice};
use fabricsim_engine::{FifoId, Options, Outcome, SimError, Watched};
use fabricsim_engine::{simulate_folded, simulate_with, watch};
use fabricsim_plan::Plan;
use fabricsim_report::record::{Attribution, LinkUse, Recorded, Timeline};
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::{Bandwidth, Time};
use link_use::RowUse;
use smallvec::SmallVec;
use spans::Spans;
use std::ops::Range;

/// What faults leave of a link's rate, in the mean over a span; `None` if none touches the link.
pub type RateLeft<'l> = &'l dyn Fn(LinkId, Range<Time>) -> Option<Bandwidth>;

/// What was recorded, for the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What happened when.
    pub timeline: Timeline,
    /// Where the workers' time went. The critical path is left empty: it is the row's.
    pub attribution: Attribution,
    /// Every link that carried anything, in order of id; of a large machine one of each kind.
    pub links: Vec<LinkUse>,
    /// How much that is, if it is not all.
    pub recorded: Option<Recorded>,
}

/// Simulates one operation of `plan`, and what was recorded of it.
///
/// # Errors
/// As [`fabricsim_engine::simulate`].
pub fn record(
    (topology, plan): (&Topology, &Plan),
    rate: impl Fn(LinkId) -> Bandwidth,
    mut options: Options<'_>,
    limits: Limits,
    left: RateLeft<'_>,
) -> Result<(Record, Outcome), SimError> {
    let mut recorder = Recorder::new(plan, limits);
    if limits == Limits::WHOLE {
        let outcome = simulate_with(plan, rate, options, &mut recorder)?;
        let record = recorder.finish(topology, &outcome, left);
        return Ok((record, outcome));
    }
    let again = Options {
        operations: options.operations,
        threads: options.threads,
        memory: options.memory,
        stop: options.stop,
        disturbances: options.disturbances,
        progress: options.progress.as_mut().map(|p| &mut **p as _),
    };
    let outcome = simulate_folded(plan, &rate, again)?;
    let seen = watch(plan, rate, options, &mut recorder)?;
    let record = recorder.finish_part(topology, &outcome, seen, left);
    Ok((record, outcome))
}

/// A stretch of the slice that an actor is at.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: Time,
    end: Time,
    rate: u64,
}

/// Collects what the engine tells it; hand it to [`fabricsim_engine::simulate_with`], or to
/// [`fabricsim_engine::watch`].
pub struct Recorder<'p> {
    plan: &'p Plan,
    limits: Limits,
    cast: Cast,
    /// Of the slice that each actor is at.
    stretches: Vec<SmallVec<[Stretch; 1]>>,
    spans: Spans,
    rows: RowUse,
    slices: usize,
}

impl<'p> Recorder<'p> {
    /// Ready to record a simulation of `plan`.
    #[must_use]
    pub fn new(plan: &'p Plan, limits: Limits) -> Self {
        Self::of(Cast::new(plan), plan, limits)
    }

    fn of(cast: Cast, plan: &'p Plan, limits: Limits) -> Self {
        let bins = limits.bins.min(limits.row_cells / cast.rows.max(1));
        Recorder {
            plan,
            limits,
            stretches: vec![SmallVec::new(); cast.actors()],
            spans: Spans::new(&cast, plan.program.ranks(), limits),
            rows: RowUse::new(cast.rows, bins),
            slices: 0,
            cast,
        }
    }

    /// Puts together what was recorded. `outcome` is that of the recorded simulation.
    #[must_use]
    pub fn finish(self, topology: &Topology, outcome: &Outcome, left: RateLeft<'_>) -> Record {
        let (plan, end) = (self.plan, outcome.end());
        let kept = self.spans.finish(&self.cast, topology, plan, (end, true));
        let links = self.rows.into_links(plan, end, self.limits.cells);
        let timeline = Timeline {
            operation: None,
            ranks_omitted: plan.program.ranks() - kept.ranks.len() as u32,
            ranks: kept.ranks,
            spans: kept.spans,
            messages: kept.messages,
            bin: links.width,
            links: links.series(topology, end, left),
            faults: Vec::new(),
            end,
            recorded: None,
        };
        let loads = link_use::loads(topology, plan, outcome, left).into_iter();
        Record {
            timeline,
            attribution: attribution((topology, plan, outcome), self.limits, left),
            links: loads.map(|load| load.named(topology)).collect(),
            recorded: None,
        }
    }

    /// The same of a simulation whose beginning was seen, and whose outcome is that of another one,
    /// without anybody looking.
    fn finish_part(
        self,
        topology: &Topology,
        outcome: &Outcome,
        seen: Watched,
        left: RateLeft<'_>,
    ) -> Record {
        let (plan, limits) = (self.plan, self.limits);
        let (end, whole) = (seen.until, seen.whole);
        let kept = self.spans.finish(&self.cast, topology, plan, (end, whole));
        let gpus = kept
            .ranks
            .iter()
            .filter_map(|r| plan.gpus.get(r.rank as usize));
        let watched = kinds::Watched {
            topology,
            plan,
            cast: &self.cast,
            limits,
            end,
            left,
            gpus: gpus.copied().collect(),
        };
        let (bin, links) = watched.series(self.rows);
        let loads = link_use::loads(topology, plan, outcome, left);
        let (loads, links_left_out) = kinds::alike(topology, loads, limits.links);
        let attribution = attribution((topology, plan, outcome), limits, left);
        let all = plan.program.ranks();
        let recorded = Recorded {
            until: end,
            end: outcome.end(),
            gpus: kept.ranks.len() as u32,
            accounts: attribution.ranks.len() as u32,
            ranks: all,
            links_left_out,
        };
        let timeline = Timeline {
            operation: None,
            ranks: kept.ranks,
            spans: kept.spans,
            messages: kept.messages,
            links,
            faults: Vec::new(),
            bin,
            end,
            ranks_omitted: all - recorded.gpus,
            recorded: Some(recorded),
        };
        Record {
            timeline,
            attribution,
            links: loads.into_iter().map(|l| l.named(topology)).collect(),
            recorded: Some(recorded),
        }
    }
}

fn attribution(
    (topology, plan, outcome): (&Topology, &Plan, &Outcome),
    limits: Limits,
    left: RateLeft<'_>,
) -> Attribution {
    let end = outcome.end();
    let account = attribution::Account {
        topology,
        plan,
        outcome,
        ranks: limits.accounts,
    };
    account.tell(&|link| left(link, Time::ZERO..end).is_some())
}

impl Probe for Recorder<'_> {
    const ACTIVE: bool = true;

    fn alike(&mut self, workers: &[ActorId], queues: &[FifoId]) {
        let cast = Cast::folded(self.plan, workers, queues, self.limits.gpus);
        *self = Self::of(cast, self.plan, self.limits);
    }

    fn enough(&self) -> bool {
        self.slices >= self.limits.slices
    }

    fn slice(&mut self, slice: &Slice) {
        let stretches = std::mem::take(&mut self.stretches[slice.actor as usize]);
        for row in self.cast.rows(slice) {
            self.rows.add_slice(row, slice, &stretches);
        }
        self.spans.slice(&self.cast, slice);
        self.slices += 1;
    }

    fn segment(&mut self, segment: &Segment) {
        self.stretches[segment.actor as usize].push(Stretch {
            start: segment.start,
            end: segment.end,
            rate: segment.rate,
        });
    }

    fn launch(&mut self, actor: ActorId, from: Time, to: Time) {
        self.spans.launch(&self.cast, actor, from, to);
    }
}
