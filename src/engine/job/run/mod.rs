//! The event loop of a job.

mod meetings;
mod sources;
mod steps;
mod tasks;
mod transfers;
mod turns;

use super::contention::{Contention, Flow};
use super::outline::Outline;
use super::rehearse::Rehearsed;
use super::state::{ActorState, GroupState, Kind};
use super::{Flowing, JobError, JobOutcome, JobProbe, Ledger, Moved, Traffic};
use fabricsim_budget::{Part, Stop, Work};
use fabricsim_plan::job::{
    ActorId, Batch, Ended, GroupId, Job, JobDisturbances, Scripted, StreamId, TaskSource, TimerId,
};
use fabricsim_topology::LinkId;
use fabricsim_units::{Bandwidth, Time};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use steps::StepEnds;
use transfers::Transfers;
use turns::Gpus;

/// How to run a job.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobOptions<'o> {
    /// A rank that waits for others in a communication longer than that ends the job, as
    /// NCCL's watchdog or a monitored barrier would.
    pub timeout: Option<Time>,
    /// By group, in place of `timeout`, of jobs that run at once; groups beyond have `timeout`.
    pub of_groups: &'o [Option<Time>],
    /// What meets on no link does not change each other's rounding: jobs that share nothing take what
    /// they take by themselves, to the picosecond.
    pub apart: bool,
    /// Ends the job before its time.
    pub stop: Option<&'o Stop>,
    /// Where it is said how many of the scripts' tasks are done.
    pub work: Option<&'o Work>,
}

impl JobOptions<'_> {
    /// How long ranks of a group wait for others.
    fn timeout_of(&self, group: GroupId) -> Option<Time> {
        let own = self.of_groups.get(group.0 as usize);
        own.copied().unwrap_or(self.timeout)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Kernels or a wait on a stream are done, if nothing changed since that version.
    Task(ActorId, StreamId, u32),
    /// A phase of a group's operation is over, likewise.
    Group(GroupId, u32),
    /// The process has started what comes next, or the GPU changes its speed.
    Look(ActorId),
    /// The first to come to an operation has waited for long.
    Patience(GroupId, u32),
    /// Links have other rates.
    Links,
    /// The first byte of a transfer arrives, or the last one, likewise.
    Transfer(u32, u32),
    /// A timer of the source runs out.
    Timer(TimerId),
}

/// An event and its time; the largest is the one that comes first. Compared by hand, for the
/// heap spends its time on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    at: Time,
    event: Event,
}

impl Due {
    fn new(at: Time, event: Event) -> Self {
        Due { at, event }
    }
}

impl Ord for Due {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match other.at.cmp(&self.at) {
            Ordering::Equal => other.event.cmp(&self.event),
            unequal => unequal,
        }
    }
}

impl PartialOrd for Due {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Run<'j> {
    job: &'j Job,
    rehearsed: &'j [Rehearsed],
    disturbances: &'j dyn JobDisturbances,
    options: JobOptions<'j>,
    counting: Option<Part>,
    /// Tasks of scripts that are done; told once an instant, for an atomic addition for each costs a tenth.
    tasks_done: u64,
    outlines: Vec<Outline<'j>>,
    actors: Vec<ActorState>,
    groups: Vec<GroupState>,
    /// Operations that each group has begun to gather for.
    rounds: Vec<u32>,
    contention: Contention,
    gpus: Gpus,
    events: BinaryHeap<Due>,
    touched: Vec<ActorId>,
    ready: Vec<GroupId>,
    speeds: Vec<(Flow, f64)>,
    ends: StepEnds,
    /// Where each actor's time had gone, and what groups had communicated, when the last step
    /// was the only one left.
    before_last: Option<(Vec<Ledger>, Vec<Vec<Traffic>>)>,
    traffic: Vec<Vec<Traffic>>,
    transfers: Transfers,
    /// By route.
    moved: Vec<Traffic>,
    /// Bytes that moved and were not shown to the probe yet; `None` if it does not want to see them.
    shown: Option<Vec<Moved>>,
    /// Whether the source is to be asked when tasks end.
    asks: bool,
    /// What it is to be told.
    ended: Vec<Ended>,
    fired: Vec<TimerId>,
    /// What it writes.
    batch: Batch,
    /// How often it was asked in the last instant in which it was.
    asked: (Time, u32),
    /// Timers that have not run out.
    timers: u64,
    /// Changes of links are not watched, for nothing goes on.
    links_sleep: bool,
    /// When the last task ended.
    last_end: Time,
    handled: u64,
    /// Kernels have begun that take longer than the clock goes.
    endless: bool,
    now: Time,
}

/// Runs the scripts of a job whose communications have been rehearsed.
///
/// # Errors
/// A job that hangs, ranks that wait for too long.
///
/// # Panics
/// If the job has no stream, or more than 64.
pub fn run_job(
    job: &Job,
    rehearsed: &[Rehearsed],
    rate: impl Fn(LinkId) -> Bandwidth,
    disturbances: &dyn JobDisturbances,
    options: JobOptions<'_>,
    probe: &mut dyn JobProbe,
) -> Result<JobOutcome, JobError> {
    let mut scripted = Scripted::of(job);
    run_source(
        job,
        &mut scripted,
        rehearsed,
        rate,
        disturbances,
        options,
        probe,
    )
}

/// Runs what a source of tasks writes, while it writes it; communications have been rehearsed.
///
/// # Errors
/// A job that hangs, ranks that wait for too long; a source that writes what makes no sense, or
/// nothing more without being finished.
///
/// # Panics
/// If the job has no stream, or more than 64.
pub fn run_source(
    job: &Job,
    source: &mut dyn TaskSource,
    rehearsed: &[Rehearsed],
    rate: impl Fn(LinkId) -> Bandwidth,
    disturbances: &dyn JobDisturbances,
    options: JobOptions<'_>,
    probe: &mut dyn JobProbe,
) -> Result<JobOutcome, JobError> {
    let streams = job.streams.len();
    assert!((1..=64).contains(&streams), "a job has 1 to 64 streams");
    let contention = Contention::new(job, rehearsed, &rate, disturbances, options.apart);
    let mut run = Run::new(job, rehearsed, contention, disturbances, options);
    run.shown = probe.sees_bytes().then(Vec::new);
    run.begin(source)?;
    run.watch_links();
    run.instant(source)?;
    while let Some(&Due { at, .. }) = run.events.peek() {
        if at.is_past_the_clock() {
            break;
        }
        if run.options.stop.is_some_and(Stop::is_now) {
            return Err(JobError::Stopped);
        }
        run.now = at;
        while let Some(&Due { at: time, event }) = run.events.peek() {
            if time > at {
                break;
            }
            run.events.pop();
            run.handled += 1;
            run.handle(event, probe)?;
        }
        run.instant(source)?;
        if let Some(counting) = &run.counting {
            counting.reach(run.tasks_done);
        }
        for moved in run.shown.iter_mut().flat_map(|shown| shown.drain(..)) {
            probe.moved(moved);
        }
        run.mark_last_step();
    }
    run.finish()
}

/// Tasks of all scripts, of all who have them.
fn tasks(job: &Job) -> u64 {
    let scripts = job.actors.iter().filter_map(|actor| actor.script);
    let tasks = |script: u32| {
        job.scripts
            .get(script as usize)
            .map_or(0, |script| script.tasks.len())
    };
    scripts.map(|script| tasks(script) as u64).sum()
}

impl<'j> Run<'j> {
    /// Nothing has begun.
    fn new(
        job: &'j Job,
        rehearsed: &'j [Rehearsed],
        contention: Contention,
        disturbances: &'j dyn JobDisturbances,
        options: JobOptions<'j>,
    ) -> Self {
        let traffic = |slots: usize| vec![Traffic::default(); slots];
        Run {
            job,
            rehearsed,
            disturbances,
            options,
            counting: options
                .work
                .map(|work| work.part("tasks simulated", tasks(job))),
            tasks_done: 0,
            outlines: Vec::new(),
            actors: Vec::with_capacity(job.actors.len()),
            groups: vec![GroupState::default(); job.groups.len()],
            rounds: vec![0; job.groups.len()],
            contention,
            gpus: Gpus::new(job),
            events: BinaryHeap::new(),
            touched: Vec::new(),
            ready: Vec::new(),
            speeds: Vec::new(),
            ends: StepEnds::default(),
            before_last: None,
            traffic: job
                .groups
                .iter()
                .map(|g| traffic(g.exchanges.len()))
                .collect(),
            transfers: Transfers::default(),
            moved: traffic(job.transfer_routes.len()),
            shown: None,
            asks: false,
            ended: Vec::new(),
            fired: Vec::new(),
            batch: Batch::default(),
            asked: (Time::ZERO, 0),
            timers: 0,
            links_sleep: false,
            last_end: Time::ZERO,
            handled: 0,
            endless: false,
            now: Time::ZERO,
        }
    }
}

impl Run<'_> {
    /// Bytes moved until now, for who looks.
    fn show(&mut self, what: Flowing, from: Time, part: f64) {
        if let (Some(shown), true) = (&mut self.shown, part > 0.0) {
            let to = self.now;
            shown.push(Moved {
                what,
                from,
                to,
                part,
            });
        }
    }

    fn touch(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        if !state.touched {
            state.touched = true;
            self.touched.push(actor);
        }
    }

    fn handle(&mut self, event: Event, probe: &mut dyn JobProbe) -> Result<(), JobError> {
        match event {
            Event::Task(actor, stream, _) if self.ends_something(event) => {
                self.end_task(actor, stream, probe);
            }
            Event::Group(group, _) if self.ends_something(event) => self.end_phase(group, probe),
            Event::Task(..) | Event::Group(..) => {}
            Event::Look(actor) => {
                if self.left(actor) > 0 {
                    self.actors[actor.0 as usize].look = u64::MAX;
                    self.pace(actor);
                    self.touch(actor);
                }
            }
            Event::Patience(group, round) => {
                let state = &self.groups[group.0 as usize];
                let waits = !state.come.is_empty() && state.going.is_none();
                if waits && self.rounds[group.0 as usize] == round {
                    return Err(JobError::TimedOut {
                        at: self.now,
                        after: self.options.timeout_of(group).unwrap_or(Time::ZERO),
                        waiting: self.waiting(group),
                    });
                }
            }
            Event::Links => {
                self.contention.links_changed(self.disturbances, self.now);
                // Only while something goes on: else a flapping link would keep a job that hangs
                // alive for ever.
                if self.goes_on() {
                    self.watch_links();
                } else {
                    self.links_sleep = true;
                }
            }
            Event::Transfer(slot, _) if self.ends_something(event) => {
                self.end_transfer_phase(slot, probe);
            }
            Event::Transfer(..) => {}
            Event::Timer(timer) => {
                self.timers -= 1;
                self.fired.push(timer);
            }
        }
        Ok(())
    }

    /// Foresees the next change of a link.
    fn watch_links(&mut self) {
        if let Some(at) = self.disturbances.next_link_change(self.now) {
            self.events.push(Due::new(at, Event::Links));
        }
    }

    /// Whether there are tasks that are not done, or timers that will have some written.
    fn goes_on(&self) -> bool {
        self.timers > 0 || self.anything_left()
    }

    /// Tasks of an actor that are not done.
    fn left(&self, actor: ActorId) -> u32 {
        let state = &self.actors[actor.0 as usize];
        self.outlines[state.outline].written() - state.done
    }

    fn anything_left(&self) -> bool {
        (0..self.actors.len() as u32).any(|a| self.left(ActorId(a)) > 0)
    }

    /// All that begins at this instant.
    fn instant(&mut self, source: &mut dyn TaskSource) -> Result<(), JobError> {
        self.begin_all()?;
        while self.ask(source)? {
            self.begin_all()?;
        }
        self.take_turns();
        let mut speeds = std::mem::take(&mut self.speeds);
        self.contention.speeds(&mut speeds);
        for &(flow, speed) in &speeds {
            match flow {
                Flow::Group(group) => self.go_on(group, speed),
                Flow::Transfer(slot) => self.transfer_goes_at(slot, speed),
            }
        }
        self.speeds = speeds;
        Ok(())
    }

    /// Begins what can begin.
    fn begin_all(&mut self) -> Result<(), JobError> {
        loop {
            let mut touched = std::mem::take(&mut self.touched);
            touched.sort_unstable();
            for &actor in &touched {
                self.actors[actor.0 as usize].touched = false;
                self.begin_tasks(actor)?;
            }
            for &actor in &touched {
                self.book(actor);
            }
            touched.clear();
            if self.touched.is_empty() {
                self.touched = touched;
            }
            let mut ready = std::mem::take(&mut self.ready);
            ready.sort_unstable();
            for &group in &ready {
                self.begin_group(group);
            }
            ready.clear();
            if self.ready.is_empty() {
                self.ready = ready;
            }
            if self.touched.is_empty() && self.ready.is_empty() {
                return Ok(());
            }
        }
    }

    /// Keeps where time has gone until the last step is the only one left.
    fn mark_last_step(&mut self) {
        if self.before_last.is_none() && self.ends.last_remains() {
            let now = self.now;
            let ledgers = self.actors.iter_mut().map(|state| {
                state.settle(now);
                state.ledger.clone()
            });
            self.before_last = Some((ledgers.collect(), self.traffic.clone()));
        }
    }

    /// Whether what an event was foreseen for still goes on.
    fn ends_something(&self, event: Event) -> bool {
        match event {
            Event::Task(actor, stream, version) => {
                let running = self.actors[actor.0 as usize].streams[usize::from(stream.0)].running;
                running.is_some_and(|r| match r.kind {
                    Kind::Kernels { version: v, .. } => v == version,
                    // What kernels before it were to take has a version.
                    Kind::Wait => version == 0,
                    Kind::Communication(_) | Kind::Transfer => false,
                })
            }
            Event::Group(group, version) => {
                let state = &self.groups[group.0 as usize];
                state.going.is_some() && state.version == version
            }
            Event::Transfer(slot, version) => self.transfers.is_foreseen(slot, version),
            Event::Timer(_) => true,
            Event::Look(_) | Event::Patience(..) | Event::Links => false,
        }
    }

    fn finish(mut self) -> Result<JobOutcome, JobError> {
        // Only what is later than the clock goes is still held.
        let mut held = self.events.iter();
        let ends = held.any(|&Due { event, .. }| self.ends_something(event));
        if ends || (self.endless && self.anything_left()) {
            return Err(JobError::PastTheClock { at: self.now });
        }
        for (index, state) in self.groups.iter().enumerate() {
            if let (Some(_), Some(exchange)) = (state.going, state.exchange) {
                return Err(JobError::NoPath {
                    at: self.now,
                    exchange: self.job.exchanges[exchange.0 as usize].name.clone(),
                    group: self.job.groups[index].name.clone(),
                });
            }
        }
        if let Some((actor, bytes)) = self.transfers.stuck() {
            return Err(JobError::NoPath {
                at: self.now,
                exchange: format!("a transfer of {bytes}"),
                group: format!("rank {}", self.job.actors[actor.0 as usize].rank),
            });
        }
        if self.anything_left() {
            let groups = (0..self.groups.len() as u32).map(GroupId);
            let gathering = groups.filter(|g| !self.groups[g.0 as usize].come.is_empty());
            return Err(JobError::Hangs {
                at: self.now,
                waiting: gathering.map(|g| self.waiting(g)).collect(),
            });
        }
        if self.asks {
            return Err(JobError::Stalls { at: self.now });
        }
        let steps = self.ends.into_ends();
        let end = self.last_end;
        for state in &mut self.actors {
            state.settle(end);
        }
        let ledgers: Vec<Ledger> = self.actors.into_iter().map(|a| a.ledger).collect();
        let (last_step, last_traffic) = match self.before_last {
            None => (ledgers.clone(), self.traffic.clone()),
            Some((before, traffic)) => {
                let both = ledgers.iter().zip(&before);
                let ledgers = both.map(|(all, before)| all.since(before)).collect();
                let groups = self.traffic.iter().zip(traffic);
                let since = |(all, before): (&Vec<Traffic>, Vec<Traffic>)| {
                    let slots = all.iter().zip(before);
                    slots.map(|(all, before)| all.since(before)).collect()
                };
                (ledgers, groups.map(since).collect())
            }
        };
        Ok(JobOutcome {
            end,
            steps,
            ledgers,
            last_step,
            last_traffic,
            traffic: self.traffic,
            transfers: self.moved,
            events: self.handled,
        })
    }
}
