//! Processes that share a GPU, which runs the kernels of one of them at a time.
//!
//! Actors of one rank are processes on one GPU. While several have kernels there, those of
//! communications included, the GPU goes from one to the next, and each has an equal part of the
//! time. Here each goes on at that part of its speed all of the time. A communication goes on as the
//! rank does that has the least, and asks for no more of links.

use super::Run;
use crate::job::contention::Flow;
use crate::job::state::{Kind, Phase};
use fabricsim_plan::job::{ActorId, GroupId, Job};
use std::collections::BTreeMap;

/// GPUs that several processes share.
pub(super) struct Gpus {
    /// By actor: its GPU, if it shares it.
    of_actor: Vec<Option<u32>>,
    shared: Vec<SharedGpu>,
    /// Those on which processes have come and gone in this instant.
    changed: Vec<u32>,
}

/// A GPU that several processes share.
#[derive(Default)]
struct SharedGpu {
    processes: Vec<ActorId>,
    /// How many of them have kernels on it.
    busy: u32,
    /// How many they share it with, as their speeds have it.
    among: u32,
}

impl Gpus {
    /// Nothing is on them.
    pub(super) fn new(job: &Job) -> Self {
        let mut of_rank: BTreeMap<u32, Vec<ActorId>> = BTreeMap::new();
        for (id, actor) in (0..).map(ActorId).zip(&job.actors) {
            of_rank.entry(actor.rank).or_default().push(id);
        }
        let shared = of_rank.into_values().filter(|all| all.len() > 1);
        let shared: Vec<SharedGpu> = shared
            .map(|processes| SharedGpu {
                processes,
                ..SharedGpu::default()
            })
            .collect();
        let mut of_actor = vec![None; job.actors.len()];
        for (index, gpu) in (0..).zip(&shared) {
            for actor in &gpu.processes {
                of_actor[actor.0 as usize] = Some(index);
            }
        }
        Gpus {
            of_actor,
            shared,
            changed: Vec::new(),
        }
    }

    /// The part of its GPU's time that an actor has.
    pub(super) fn turns(&self, actor: ActorId) -> f64 {
        match self.of_actor[actor.0 as usize] {
            Some(gpu) => 1.0 / f64::from(self.shared[gpu as usize].among.max(1)),
            None => 1.0,
        }
    }

    /// One more or one fewer has kernels on the GPU of an actor.
    fn count(&mut self, actor: ActorId, change: i32) {
        if let Some(gpu) = self.of_actor[actor.0 as usize] {
            let shared = &mut self.shared[gpu as usize];
            shared.busy = shared.busy.saturating_add_signed(change);
            self.changed.push(gpu);
        }
    }
}

impl Run<'_> {
    /// An actor has one more kernel on its GPU, or communication.
    pub(super) fn enter_gpu(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        state.on_gpu += 1;
        if state.on_gpu == 1 {
            self.gpus.count(actor, 1);
        }
    }

    /// An actor has one kernel less on its GPU, or communication.
    pub(super) fn leave_gpu(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        state.on_gpu -= 1;
        if state.on_gpu == 0 {
            self.gpus.count(actor, -1);
        }
    }

    /// The part of its speed that the turns of its processes leave of a group's operation.
    pub(super) fn turns_of_group(&self, group: GroupId) -> f64 {
        if self.gpus.shared.is_empty() {
            return 1.0;
        }
        let come = self.groups[group.0 as usize].come.iter();
        come.map(|&(actor, _, _)| self.gpus.turns(actor))
            .fold(1.0, f64::min)
    }

    /// At the end of an instant: processes on GPUs where others have come or gone change speed.
    pub(super) fn take_turns(&mut self) {
        if self.gpus.changed.is_empty() {
            return;
        }
        let mut gpus = std::mem::take(&mut self.gpus.changed);
        gpus.sort_unstable();
        gpus.dedup();
        let mut actors = Vec::new();
        for &gpu in &gpus {
            let shared = &mut self.gpus.shared[gpu as usize];
            // Who begins the next kernel at once has not been away.
            if shared.busy != shared.among {
                shared.among = shared.busy;
                actors.extend_from_slice(&shared.processes);
            }
        }
        let mut groups = Vec::new();
        for &actor in &actors {
            self.pace(actor);
            let streams = self.actors[actor.0 as usize].streams.iter();
            groups.extend(streams.filter_map(|stream| match stream.running?.kind {
                Kind::Communication(group) => Some(group),
                _ => None,
            }));
        }
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            self.group_takes_turns(group);
        }
        gpus.clear();
        self.gpus.changed = gpus;
    }

    /// A group's operation goes on as its processes have their turns now.
    fn group_takes_turns(&mut self, group: GroupId) {
        let turns = self.turns_of_group(group);
        let state = &mut self.groups[group.0 as usize];
        let (Some(going), Some(exchange)) = (&mut state.going, state.exchange) else {
            return;
        };
        if going.turns == turns {
            return;
        }
        going.turns = turns;
        if going.phase == Phase::Moving {
            // Links say how fast it goes on, as when it began to move.
            self.go_on(group, 0.0);
            self.contention.stop(Flow::Group(group));
            self.contention.start(group, exchange, turns);
        } else {
            self.go_on(group, turns);
        }
    }
}
