//! What a source of tasks is told, and what it writes.

use super::{Due, Event, Run};
use crate::job::JobError;
use crate::job::outline::{MIN_HELD, Outline};
use crate::job::run::steps::StepEnds;
use crate::job::state::ActorState;
use fabricsim_plan::job::{ActorId, Batch, Task, TaskSource, Work};
use fabricsim_units::Time;

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
            self.events.push(Due::new(at, Event::Timer(timer)));
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
        if self.job.actors.len() <= actor.0 as usize {
            return Err(self.no_actor(actor));
        }
        let number = self.actors[actor.0 as usize].outline;
        let written = self.outlines[number].written();
        if let Some(wrong) = self.wrong(actor, &task, written) {
            return Err(self.refused(format!("task {written} of actor {}{wrong}", actor.0)));
        }
        self.drop_done(actor);
        let launch = self.job.actors[actor.0 as usize].launch;
        let state = &mut self.actors[actor.0 as usize];
        let outline = &mut self.outlines[number];
        state.look |= 1 << task.stream.0;
        outline.push(task, &mut state.written(), self.now);
        outline.start(state.sync, self.now, launch);
        self.touch(actor);
        Ok(())
    }

    /// Why an actor cannot have a task behind so many, if it cannot.
    fn wrong(&self, actor: ActorId, task: &Task, written: u32) -> Option<String> {
        let me = &self.job.actors[actor.0 as usize];
        let outline = &self.outlines[self.actors[actor.0 as usize].outline];
        if !outline.is_open() {
            return Some(", which does what its script says".to_owned());
        }
        if written == u32::MAX {
            return Some(", which is one too many".to_owned());
        }
        let streams = self.job.streams.len();
        if usize::from(task.stream.0) >= streams {
            return Some(format!(" on stream {} of {streams}", task.stream.0));
        }
        if let Some(after) = task.after.iter().find(|after| after.0 >= written) {
            return Some(format!(", to wait for task {}, not written yet", after.0));
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
            Work::HostSync { stream, .. } => {
                stream.is_none_or(|stream| usize::from(stream.0) < self.job.streams.len())
            }
        };
        (!known).then(|| ", which does what the job has not".to_owned())
    }

    /// Drops an actor's tasks that are done, from time to time: when half of those that are held
    /// have become so since the last time.
    fn drop_done(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        let outline = &mut self.outlines[state.outline];
        let since = (state.done - state.looked_at) as usize;
        if since < MIN_HELD || 2 * since < outline.held() {
            return;
        }
        state.looked_at = state.done;
        let next: Vec<usize> = state.streams.iter().map(|s| s.next).collect();
        if outline.drop_done(&mut state.written(), |s| next[usize::from(s.0)]) {
            for stream in &mut state.streams {
                stream.next = 0;
            }
        }
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
