//! The tasks of actors, as execution asks for them: of a script, for all actors that do it; or of
//! one actor, growing as a source writes more and shrinking as they end.

use fabricsim_plan::job::{Script, StreamId, Task, TaskId, Work};
use fabricsim_units::Time;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Bytes that a task takes: itself, and what its script comes down to.
#[must_use]
pub const fn task_footprint() -> u64 {
    // Its place on its stream, what waits for it, for how many it waits, and kernels before it.
    (size_of::<Task>() + 4 + 4 * 3 + 2 + 4) as u64
}

/// Tasks that are held at least before any are dropped.
pub(super) const MIN_HELD: usize = 64;

/// Tasks and what follows from them. Tables begin at the first task that is held.
pub(super) struct Outline<'j> {
    /// The number of the first task that is held; all before it are done.
    first: u32,
    tasks: Cow<'j, [Task]>,
    /// Tasks of each stream, in order.
    pub(super) of_stream: Vec<Vec<TaskId>>,
    dependents: Dependents,
    /// For how many each task waits. Of tasks that are written one by one, actors know it.
    pub(super) waits: Vec<u16>,
    /// Tasks that are synchronisations.
    pub(super) syncs: Vec<TaskId>,
    issue: Issue,
}

/// Who waits for each task.
enum Dependents {
    /// One task after the other, and where each one's end.
    Packed(Vec<TaskId>, Vec<u32>),
    /// Of each.
    Each(Vec<SmallVec<[TaskId; 2]>>),
}

/// When the process starts each task.
enum Issue {
    /// Kernels that it has started before each task since it began.
    Launches(Vec<u32>),
    /// The time of each task, as far as that is known; and when it will have started all of them.
    At(Vec<Time>, Time),
}

/// Kernels that the process starts for a task.
fn launches(work: Work) -> u32 {
    match work {
        Work::Kernels(kernels) => u32::from(kernels.launches),
        Work::Communicate { .. } => 1,
        Work::Transfer { .. } | Work::Wait(_) | Work::Synchronise | Work::HostSync { .. } => 0,
    }
}

/// Kernels that the process starts before a task can begin, its own among them.
fn starts(work: Work) -> u64 {
    match work {
        Work::Kernels(_) | Work::Communicate { .. } | Work::Synchronise => 1,
        Work::Transfer { .. } | Work::Wait(_) | Work::HostSync { .. } => 0,
    }
}

impl<'j> Outline<'j> {
    /// All tasks of a script.
    pub(super) fn of_script(script: &'j Script, streams: usize) -> Self {
        let count = script.tasks.len();
        let mut of_stream = vec![Vec::new(); streams];
        let mut ends = vec![0u32; count];
        let mut waits = vec![0; count];
        let mut launched = Vec::with_capacity(count);
        let mut syncs = Vec::new();
        let mut so_far = 0u32;
        for (index, task) in script.tasks.iter().enumerate() {
            let id = TaskId(index as u32);
            launched.push(so_far);
            so_far += launches(task.work);
            if task.work.is_sync() {
                syncs.push(id);
            } else {
                of_stream[usize::from(task.stream.0)].push(id);
            }
            waits[index] = task.after.len() as u16;
            for before in &task.after {
                ends[before.0 as usize] += 1;
            }
        }
        // From how many there are of each to where each one's begin; then they move on to where
        // they end as they are filled in.
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut dependents = vec![TaskId(0); sum as usize];
        for (index, task) in script.tasks.iter().enumerate() {
            for before in &task.after {
                let place = &mut ends[before.0 as usize];
                dependents[*place as usize] = TaskId(index as u32);
                *place += 1;
            }
        }
        Outline {
            first: 0,
            tasks: Cow::Borrowed(&script.tasks),
            of_stream,
            dependents: Dependents::Packed(dependents, ends),
            waits,
            syncs,
            issue: Issue::Launches(launched),
        }
    }

    /// None yet: they are written one by one.
    pub(super) fn open(streams: usize) -> Self {
        Outline {
            first: 0,
            tasks: Cow::Owned(Vec::new()),
            of_stream: vec![Vec::new(); streams],
            dependents: Dependents::Each(Vec::new()),
            waits: Vec::new(),
            syncs: Vec::new(),
            issue: Issue::At(Vec::new(), Time::ZERO),
        }
    }

    /// Whether tasks may still be written.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.issue, Issue::At(..))
    }

    /// Tasks that were ever written.
    #[inline]
    pub(super) fn written(&self) -> u32 {
        self.first + self.tasks.len() as u32
    }

    /// Tasks that are held.
    pub(super) fn held(&self) -> usize {
        self.tasks.len()
    }

    /// Where tables have a task that is held.
    #[inline]
    pub(super) fn index(&self, task: TaskId) -> usize {
        (task.0 - self.first) as usize
    }

    /// A task that is held.
    #[inline]
    pub(super) fn task(&self, task: TaskId) -> &Task {
        &self.tasks[self.index(task)]
    }

    /// Who waits for a task that is held.
    #[inline]
    pub(super) fn dependents(&self, task: TaskId) -> &[TaskId] {
        let index = self.index(task);
        match &self.dependents {
            Dependents::Packed(list, ends) => {
                let before = index.checked_sub(1);
                let start = before.map_or(0, |before| ends[before]);
                &list[start as usize..ends[index] as usize]
            }
            Dependents::Each(of) => &of[index],
        }
    }

    /// Kernels that the process has started before a task, since it began. Of tasks that are
    /// written one by one their times are known in its stead.
    pub(super) fn launches_before(&self, task: TaskId) -> u32 {
        match &self.issue {
            Issue::Launches(before) => before[self.index(task)],
            Issue::At(..) => 0,
        }
    }

    /// When the process has started a task that takes it `launch` for each kernel.
    #[inline]
    pub(super) fn issued(&self, task: TaskId, host: HostAt, launch: Time) -> Time {
        let index = self.index(task);
        match &self.issue {
            Issue::Launches(before) => {
                if self.is_before(task, host) {
                    return host.passed_at;
                }
                let since = u64::from(before[index] - host.launches);
                host.base + launch.times(since + starts(self.tasks[index].work))
            }
            Issue::At(times, _) => times.get(index).copied().unwrap_or(Time::MAX),
        }
    }

    /// When the process has started the last kernel of a task.
    pub(super) fn all_issued(&self, task: TaskId, host: HostAt, launch: Time) -> Time {
        let more = u64::from(launches(self.task(task).work).saturating_sub(1));
        match &self.issue {
            Issue::Launches(_) if self.is_before(task, host) => host.passed_at,
            _ => self.issued(task, host, launch) + launch.times(more),
        }
    }

    /// When the process comes to a synchronisation that it has not passed, all others before it passed.
    pub(super) fn arrives(&self, sync: TaskId, host: HostAt, launch: Time) -> Time {
        let index = self.index(sync);
        match &self.issue {
            Issue::Launches(before) => {
                host.base + launch.times(u64::from(before[index].saturating_sub(host.launches)))
            }
            Issue::At(_, free) => *free,
        }
    }

    /// Whether a task was started before the synchronisation that the process passed last.
    fn is_before(&self, task: TaskId, host: HostAt) -> bool {
        let passed = host.passed.checked_sub(1);
        let passed = passed.and_then(|passed| self.syncs.get(passed));
        passed.is_some_and(|sync| task < *sync)
    }

    /// Whether nothing is left on a stream before a task, of whose tasks `next` have begun and none runs.
    pub(super) fn is_drained(&self, (stream, next): (StreamId, usize), before: TaskId) -> bool {
        let tasks = &self.of_stream[usize::from(stream.0)];
        tasks.get(next).is_none_or(|next| *next > before)
    }
}

/// How far a process is.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostAt {
    /// When it passed the last synchronisation: all before it were started by then.
    pub(super) passed_at: Time,
    /// When it went on after that, no longer busy.
    pub(super) base: Time,
    /// Kernels that it had started by then.
    pub(super) launches: u32,
    /// Synchronisations that it has passed.
    pub(super) passed: usize,
}

/// What an actor knows of tasks that are written one by one.
pub(super) struct Written<'a> {
    /// For how many each task that is held still waits; [`DONE`] if it is done.
    pub(super) waits: &'a mut Vec<u16>,
    /// Since when each has all that it waits for.
    pub(super) freed: &'a mut Vec<Time>,
    /// How many synchronisations that are held the process has passed.
    pub(super) sync: &'a mut usize,
}

/// In place of what a task waits for: it is done.
pub(super) const DONE: u16 = u16::MAX;

impl Outline<'_> {
    /// Adds a task behind all others.
    pub(super) fn push(&mut self, task: Task, written: &mut Written<'_>, now: Time) {
        let id = TaskId(self.written());
        let mut waits = 0;
        for &before in &task.after {
            let held = before.0.checked_sub(self.first);
            let index = held.map(|index| index as usize);
            if let (Some(index), Dependents::Each(of)) = (index, &mut self.dependents)
                && written.waits[index] != DONE
            {
                of[index].push(id);
                waits += 1;
            }
        }
        written.waits.push(waits);
        written.freed.push(now);
        if let Dependents::Each(of) = &mut self.dependents {
            of.push(SmallVec::new());
        }
        if task.work.is_sync() {
            self.syncs.push(id);
        } else {
            self.of_stream[usize::from(task.stream.0)].push(id);
        }
        self.tasks.to_mut().push(task);
    }

    /// The process goes on starting tasks, up to the next synchronisation that it has not passed.
    pub(super) fn start(&mut self, passed: usize, now: Time, launch: Time) {
        let stop = self.syncs.get(passed).copied();
        let stop = stop.map_or(self.tasks.len(), |sync| self.index(sync));
        let Issue::At(times, free) = &mut self.issue else {
            return;
        };
        if times.len() < stop {
            *free = (*free).max(now);
        }
        for task in &self.tasks[times.len().min(stop)..stop] {
            times.push(*free + launch.times(starts(task.work)));
            *free += launch.times(u64::from(launches(task.work)));
        }
    }

    /// Drops the tasks that are done before the first that is not, if they are many; then tables
    /// of streams begin at what comes `next` there, and it is true.
    pub(super) fn drop_done(
        &mut self,
        written: &mut Written<'_>,
        next: impl Fn(StreamId) -> usize,
    ) -> bool {
        let done = written.waits.iter().take_while(|&&waits| waits == DONE);
        let done = done.count();
        let (Dependents::Each(dependents), Issue::At(times, _)) =
            (&mut self.dependents, &mut self.issue)
        else {
            return false;
        };
        if done < MIN_HELD || 2 * done < self.tasks.len() {
            return false;
        }
        self.first += done as u32;
        self.tasks.to_mut().drain(..done);
        written.waits.drain(..done);
        written.freed.drain(..done);
        dependents.drain(..done);
        times.drain(..done.min(times.len()));
        self.syncs.drain(..*written.sync);
        *written.sync = 0;
        for (stream, tasks) in (0u8..).map(StreamId).zip(&mut self.of_stream) {
            tasks.drain(..next(stream));
        }
        true
    }
}
