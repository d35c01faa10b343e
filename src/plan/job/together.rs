//! Sources of tasks of jobs that run at once, as one source.

use super::{
    ActorId, Batch, Ended, Job, JobPart, Scripted, TaskSource, TimerId, TransferRouteId, Work,
};
use fabricsim_units::Time;

/// Timers of each source have numbers of their own below this.
const TIMERS: u64 = 1 << 40;

/// The scripts of a job, and sources of some of its parts beside them.
pub struct Together<'s> {
    scripted: Scripted,
    sources: Vec<(JobPart, &'s mut dyn TaskSource)>,
    own: Batch,
    ended: Vec<Ended>,
    timers: Vec<TimerId>,
}

impl<'s> Together<'s> {
    /// The scripts of a job, and sources of parts of it that have none.
    #[must_use]
    pub fn new(job: &Job, sources: Vec<(JobPart, &'s mut dyn TaskSource)>) -> Self {
        Together {
            scripted: Scripted::of(job),
            sources,
            own: Batch::default(),
            ended: Vec::new(),
            timers: Vec::new(),
        }
    }
}

/// What a source wrote, as the whole job numbers it.
fn take(index: usize, part: &JobPart, own: &mut Batch, out: &mut Batch) {
    let actor = |ActorId(actor): ActorId| ActorId(actor + part.actors.start as u32);
    for (of, mut task) in own.tasks.drain(..) {
        task.stream = part.streams[usize::from(task.stream.0)];
        if let Work::Transfer { route, .. } = &mut task.work {
            *route = TransferRouteId(route.0 + part.routes.start as u32);
        }
        out.tasks.push((actor(of), task));
    }
    out.scripts.extend(own.scripts.drain(..).map(actor));
    let timers = own.timers.drain(..);
    out.timers
        .extend(timers.map(|(at, TimerId(id))| (at, TimerId(index as u64 * TIMERS + id))));
}

impl TaskSource for Together<'_> {
    fn start(&mut self, out: &mut Batch) {
        self.scripted.start(out);
        for (index, (part, source)) in self.sources.iter_mut().enumerate() {
            source.start(&mut self.own);
            take(index, part, &mut self.own, out);
        }
    }

    fn instant(&mut self, now: Time, ended: &[Ended], timers: &[TimerId], out: &mut Batch) {
        for (index, (part, source)) in self.sources.iter_mut().enumerate() {
            self.ended.clear();
            let mine = ended
                .iter()
                .filter(|ended| part.actors.contains(&(ended.actor.0 as usize)));
            self.ended.extend(mine.map(|ended| Ended {
                actor: ActorId(ended.actor.0 - part.actors.start as u32),
                ..*ended
            }));
            self.timers.clear();
            let first = index as u64 * TIMERS;
            let mine = timers
                .iter()
                .filter(|timer| timer.0 / TIMERS == index as u64);
            self.timers
                .extend(mine.map(|timer| TimerId(timer.0 - first)));
            let any = !(self.ended.is_empty() && self.timers.is_empty());
            if any && !source.is_finished() {
                source.instant(now, &self.ended, &self.timers, &mut self.own);
                take(index, part, &mut self.own, out);
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.sources.iter().all(|(_, source)| source.is_finished())
    }
}
