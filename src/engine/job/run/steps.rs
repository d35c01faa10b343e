//! When the steps of scripts end.

use fabricsim_plan::job::{ActorId, Job};
use fabricsim_units::Time;

/// When steps end, and how many tasks of all actors each still has.
#[derive(Default)]
pub(super) struct StepEnds {
    ends: Vec<Time>,
    left: Vec<u64>,
}

impl StepEnds {
    /// Of these actors' scripts.
    pub(super) fn new(job: &Job, actors: &[ActorId]) -> Self {
        let mut of_script: Vec<Vec<u64>> = Vec::with_capacity(job.scripts.len());
        for script in &job.scripts {
            let mut counts = Vec::new();
            for task in &script.tasks {
                add(&mut counts, usize::from(task.tag.step), 1);
            }
            of_script.push(counts);
        }
        let mut left = Vec::new();
        let actors = actors.iter().map(|id| &job.actors[id.0 as usize]);
        for script in actors.filter_map(|actor| actor.script) {
            for (step, count) in of_script[script as usize].iter().enumerate() {
                add(&mut left, step, *count);
            }
        }
        StepEnds {
            ends: vec![Time::ZERO; left.len()],
            left,
        }
    }

    /// A task of a step is done.
    pub(super) fn note(&mut self, step: u16, now: Time) {
        let step = usize::from(step);
        self.ends[step] = self.ends[step].max(now);
        self.left[step] -= 1;
    }

    /// Whether only the last step has tasks left, and is not the only one.
    pub(super) fn last_remains(&self) -> bool {
        match self.left.as_slice() {
            [] | [_] => false,
            [before @ .., _] => before.iter().all(|left| *left == 0),
        }
    }

    pub(super) fn into_ends(self) -> Vec<Time> {
        self.ends
    }
}

fn add(counts: &mut Vec<u64>, step: usize, count: u64) {
    if counts.len() <= step {
        counts.resize(step + 1, 0);
    }
    counts[step] += count;
}
