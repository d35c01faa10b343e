//! What a source of tasks is told, and what it writes.

use super::{Event, Run};
use crate::job::JobError;
use crate::job::outline::Outline;
use crate::job::run::steps::StepEnds;
use crate::job::state::ActorState;
use fabricsim_plan::job::{ActorId, Batch, Task, TaskSource, Work};
use fabricsim_units::Time;
use std::cmp::Reverse;

/// How often a source is asked in one instant at most: a source that goes on and on without time
/// passing never comes to an end.
const MAX_ASKED: u32 = 1 << 16;

/// One picosecond: a timer runs out after now.
const NEXT: Time = Time::from_picos(1);

impl<'j> Run<'j> {
    /// What there is to do at first.
    pub(super) fn begin(&mut self, source: &mut dyn TaskSource) -> Result<(), JobError> {
        let mut batch = std::mem::take(&mut self.batch);
        source.start(&mut batch);
        self.asks = !source.is_finished();
        let streams = self.job.streams.len();
        let scripts = self.job.scripts.iter();
        self.outlines = scripts.map(|s| Outline::of_script(s, streams)).collect();
        let mut scripted = vec![false; self.job.actors.len()];
        for &actor in &batch.scripts {
            let known = scripted.get_mut(actor.0 as usize);
            let known = known.ok_or_else(|| self.no_actor(actor))?;
            if std::mem::replace(known, true) {
                return Err(self.refused(format!("the script of actor {} twice", actor.0)));
            }
        }
        self.ends = StepEnds::new(self.job, &batch.scripts);
        for (actor, scripted) in self.job.actors.iter().zip(scripted) {
            let outline = match (scripted, actor.script) {
                (false, _) => {
                    self.outlines.push(Outline::open(streams));
                    self.outlines.len() - 1
                }
                (true, Some(script)) if script as usize >= self.job.scripts.len() => {
                    return Err(self.refused(format!("script {script}, which there is not")));
                }
                (true, Some(script)) => script as usize,
                (true, None) => {
                    let rank = actor.rank;
                    return Err(self.refused(format!("a script for rank {rank}, which has none")));
                }
            };
            let state = ActorState::new((outline, &self.outlines[outline]), streams);
            self.actors.push(state);
        }
        for index in 0..self.actors.len() {
            self.touch(ActorId(index as u32));
        }
        batch.scripts.clear();
        self.take(&mut batch)?;
        self.batch = batch;
        Ok(())
    }

    /// Tells the source what ended, if it is to be told, and takes what it writes; false if it
    /// was not.
    pub(super) fn ask(&mut self, source: &mut dyn TaskSource) -> Result<bool, JobError> {
        if !self.asks || (self.ended.is_empty() && self.fired.is_empty()) {
            return Ok(false);
        }
        if self.asked.0 != self.now {
            self.asked = (self.now, 0);
        }
        self.asked.1 += 1;
        if self.asked.1 > MAX_ASKED {
            return Err(JobError::NoProgress { at: self.now });
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.ended.sort_unstable();
        self.fired.sort_unstable();
        source.instant(self.now, &self.ended, &self.fired, &mut batch);
        self.ended.clear();
        self.fired.clear();
        self.asks = !source.is_finished();
        self.take(&mut batch)?;
        self.batch = batch;
        Ok(true)
    }

    /// Takes over what a source wrote, and empties it.
    fn take(&mut self, batch: &mut Batch) -> Result<(), JobError> {
        if let Some(actor) = batch.scripts.first() {
            let what = format!("the script of actor {}, not at the start", actor.0);
            return Err(self.refused(what));
        }
        for (actor, task) in batch.tasks.drain(..) {
            self.write(actor, task)?;
        }
        for (at, timer) in batch.timers.drain(..) {
            let at = at.max(self.now + NEXT);
            self.events.push(Reverse((at, Event::Timer(timer))));
            self.timers += 1;
        }
        if self.links_sleep && self.goes_on() {
            self.links_sleep = false;
            self.contention.links_changed(self.disturbances, self.now);
            self.watch_links();
        }
        Ok(())
    }

    /// Adds a task of an actor.
    fn write(&mut self, actor: ActorId, task: Task) -> Result<(), JobError> {
        let Some(me) = self.job.actors.get(actor.0 as usize) else {
            return Err(self.no_actor(actor));
        };
        let number = self.actors[actor.0 as usize].outline;
        let written = self.outlines[number].written();
        let what = format!("task {written} of actor {}", actor.0);
        if !self.outlines[number].is_open() {
            return Err(self.refused(format!("{what}, which does what its script says")));
        }
        if written == u32::MAX {
            return Err(self.refused(format!("more than {} tasks of one actor", u32::MAX)));
        }
        if usize::from(task.stream.0) >= self.job.streams.len() {
            let (stream, all) = (task.stream.0, self.job.streams.len());
            return Err(self.refused(format!("{what} on stream {stream} of {all}")));
        }
        if let Some(after) = task.after.iter().find(|after| after.0 >= written) {
            let after = after.0;
            return Err(self.refused(format!("{what}, to wait for task {after}, not written yet")));
        }
        let known = match task.work {
            Work::Communicate { group, exchange } => match me.groups.get(usize::from(group)) {
                None => false,
                Some(None) => true,
                Some(Some(id)) => {
                    let group = self.job.groups.get(id.0 as usize);
                    group.is_some_and(|g| usize::from(exchange) < g.exchanges.len())
                }
            },
            Work::Transfer { route, .. } => (route.0 as usize) < self.job.transfer_routes.len(),
            Work::Kernels(_) | Work::Wait(_) | Work::Synchronise => true,
        };
        if !known {
            return Err(self.refused(format!("{what}, which does what the job has not")));
        }
        let state = &mut self.actors[actor.0 as usize];
        let outline = &mut self.outlines[number];
        let looked = (state.done - state.looked_at) as usize;
        if looked > outline.held() / 2 {
            state.looked_at = state.done;
            let next: Vec<usize> = state.streams.iter().map(|s| s.next).collect();
            let dropped = outline.drop_done(&mut state.written(), |s| next[usize::from(s.0)]);
            if dropped {
                for stream in &mut state.streams {
                    stream.next = 0;
                }
            }
        }
        state.look |= 1 << task.stream.0;
        outline.push(task, &mut state.written(), self.now);
        outline.start(state.sync, self.now, me.launch);
        self.touch(actor);
        Ok(())
    }

    fn no_actor(&self, actor: ActorId) -> JobError {
        let all = self.job.actors.len();
        self.refused(format!(
            "tasks of actor {}, of which there are {all}",
            actor.0
        ))
    }

    fn refused(&self, what: String) -> JobError {
        JobError::Source { at: self.now, what }
    }
}
