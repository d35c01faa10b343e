//! Where tasks come from: written beforehand, or decided while time passes.

use super::{ActorId, Job, Task, TaskId};
use fabricsim_units::Time;

/// Where the tasks of a job come from.
///
/// What a source answers may depend on what it is told and on its own seed alone: then the same
/// job gives the same results, whatever the order in which an engine handles the events of an
/// instant.
pub trait TaskSource {
    /// What there is to do at first, at time zero.
    fn start(&mut self, out: &mut Batch);

    /// What is to be done next. Called once in each instant in which tasks ended or timers ran
    /// out, after all of them are settled: `ended` is in order of actor and task, `timers` in
    /// order of their numbers. Called again in the same instant only if tasks that it wrote took
    /// no time. Not called any more once it is finished.
    fn instant(&mut self, now: Time, ended: &[Ended], timers: &[TimerId], out: &mut Batch);

    /// Whether it has written all that it ever will, and waits for no timer.
    fn is_finished(&self) -> bool;
}

/// A task that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ended {
    /// Whose.
    pub actor: ActorId,
    /// Which: an actor's tasks are numbered in the order in which they were written, from 0.
    pub task: TaskId,
}

/// A timer, under the number that its source gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u64);

/// What a source writes at a time.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Actors that begin what their script says, see [`super::Actor::script`]. Only at the start,
    /// and an actor with a script gets no other tasks.
    pub scripts: Vec<ActorId>,
    /// Tasks, behind those that the actor already has. A task waits for tasks of the same actor
    /// that were written before it.
    pub tasks: Vec<(ActorId, Task)>,
    /// Timers, with the times at which they run out: after now, or else in the next picosecond.
    pub timers: Vec<(Time, TimerId)>,
}

impl Batch {
    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty() && self.tasks.is_empty() && self.timers.is_empty()
    }

    /// Empties it, for the next time.
    pub fn clear(&mut self) {
        self.scripts.clear();
        self.tasks.clear();
        self.timers.clear();
    }
}

/// A source that has written all its tasks beforehand: the scripts of a job.
#[derive(Debug, Clone)]
pub struct Scripted {
    actors: Vec<ActorId>,
}

impl Scripted {
    /// All scripts of a job.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let actors = (0..).map(ActorId).zip(&job.actors);
        let scripted = actors.filter(|(_, actor)| actor.script.is_some());
        Scripted {
            actors: scripted.map(|(id, _)| id).collect(),
        }
    }
}

impl TaskSource for Scripted {
    fn start(&mut self, out: &mut Batch) {
        out.scripts.extend_from_slice(&self.actors);
    }

    fn instant(&mut self, _: Time, _: &[Ended], _: &[TimerId], _: &mut Batch) {}

    fn is_finished(&self) -> bool {
        true
    }
}
