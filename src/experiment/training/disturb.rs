//! A scenario's faults, as a job's execution asks for them.

use fabricsim_fault::{Faults, Work};
use fabricsim_plan::job::{ActorId, Job, JobDisturbances, Kernels, Tag, TaskId, Work as Task};
use fabricsim_topology::LinkId;
use fabricsim_units::Time;
use rustc_hash::FxHashMap;

/// Faults of a job.
pub(crate) struct Trouble<'f> {
    faults: &'f Faults,
    /// By actor: its script.
    scripts: Vec<Option<u32>>,
    /// By script: the number of each kernel in its micro-batch, by task.
    numbers: Vec<Vec<u32>>,
}

impl<'f> Trouble<'f> {
    pub(crate) fn new(faults: &'f Faults, job: &Job) -> Self {
        let number = |script: &fabricsim_plan::job::Script| {
            let mut seen: FxHashMap<(u16, Option<u16>), u32> = FxHashMap::default();
            let of = |task: &fabricsim_plan::job::Task| match task.work {
                Task::Kernels(_) => {
                    let count = seen
                        .entry((task.tag.step, task.tag.micro_batch))
                        .or_insert(0);
                    *count += 1;
                    *count - 1
                }
                _ => 0,
            };
            script.tasks.iter().map(of).collect()
        };
        Trouble {
            faults,
            scripts: job.actors.iter().map(|actor| actor.script).collect(),
            numbers: job.scripts.iter().map(number).collect(),
        }
    }
}

impl JobDisturbances for Trouble<'_> {
    fn speed(&self, rank: u32, at: Time) -> (f64, Option<Time>) {
        let rank = rank as usize;
        (
            self.faults.speed(rank, at),
            self.faults.next_speed_change(rank, at),
        )
    }

    fn kernels(
        &self,
        (actor, rank): (ActorId, u32),
        task: TaskId,
        tag: Tag,
        kernels: Kernels,
    ) -> Kernels {
        let at = rank as usize;
        if self.faults.is_plain(at) {
            return kernels;
        }
        let script = self.scripts[actor.0 as usize];
        let number = script.and_then(|s| self.numbers[s as usize].get(task.0 as usize));
        let number = number.copied().unwrap_or(0);
        let work = Work {
            step: u64::from(tag.step),
            micro_batch: u32::from(tag.micro_batch.unwrap_or(0)),
            kernel: number,
        };
        let stretch = self.faults.stretch(at, work);
        let longer = kernels.scaled(stretch);
        let first = tag.micro_batch == Some(0) && number == 0;
        let stall = if first {
            self.faults.loader_stall(at, u64::from(tag.step))
        } else {
            Time::ZERO
        };
        Kernels {
            memory: longer.memory + self.faults.delay(at, work) + stall,
            ..longer
        }
    }

    fn link(&self, link: LinkId, at: Time) -> f64 {
        self.faults.link_factor(link, at)
    }

    fn links(&self) -> Vec<LinkId> {
        self.faults.touched_links().collect()
    }

    fn next_link_change(&self, after: Time) -> Option<Time> {
        let links = self.faults.touched_links();
        links
            .filter_map(|l| self.faults.next_link_change(l, after))
            .min()
    }
}
