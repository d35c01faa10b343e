//! A worker's way through its program: kernels start, steps are loaded, operations end.

use super::Run;
use crate::collective::{ConnId, Peers, WorkerId};
use crate::engine::actor::Phase;
use crate::engine::probe::{ActorId, Cause, Probe};
use crate::engine::resources::PathId;
use crate::units::Time;
use smallvec::SmallVec;

impl<P: Probe> Run<'_, '_, P> {
    /// Starts a rank's next operation, or notes that none is left.
    pub(super) fn launch(&mut self, rank: usize) {
        loop {
            let state = &mut self.ranks[rank];
            if state.operation as usize >= self.finish.len() {
                return;
            }
            let (first, last) = state.workers;
            let idle_until = state.latest;
            let launch = self.plan.costs[usize::from(self.plan.rank_costs[rank])].launch;
            let free = idle_until + launch;
            state.running = 0;
            for i in first..last {
                let worker = self.rank_workers[i as usize];
                let actor = &mut self.actors[worker as usize];
                self.cold[worker as usize].idle += idle_until.saturating_sub(actor.free);
                if P::ACTIVE {
                    self.probe.launch(worker, idle_until, free);
                    self.cold[worker as usize].cause = Cause::Launch;
                }
                actor.free = free;
                actor.next_step = 0;
                if self.fetch(worker) {
                    self.ranks[rank].running += 1;
                    self.woken.push(worker);
                } else {
                    self.actors[worker as usize].phase = Phase::Done;
                }
            }
            let state = &mut self.ranks[rank];
            if state.running > 0 {
                state.latest = free;
                return;
            }
            self.finish[state.operation as usize][rank] = free;
            state.latest = free;
            state.operation += 1;
        }
    }

    /// Loads a worker's next step that moves anything; false if none is left.
    pub(super) fn fetch(&mut self, id: ActorId) -> bool {
        let program = self.plan.program.as_ref();
        let actor = &mut self.actors[id as usize];
        while actor.next_step < actor.steps {
            let step = program.step(WorkerId(id), u64::from(actor.next_step));
            actor.next_step += 1;
            self.steps_begun += 1;
            if step.len == 0 {
                continue;
            }
            let class = &self.classes[usize::from(actor.class)];
            actor.cap = if step.send.is_empty() {
                class.local_rate
            } else {
                class.send_rate
            };
            let slice_len = self
                .protocol
                .slice_len(step.len)
                .min(u64::from(u32::MAX - 15));
            actor.slice_len = slice_len as u32;
            actor.slice = slice_len.min(step.len) as u32;
            actor.left = step.len - u64::from(actor.slice);
            let recv = step
                .recv
                .map(|c| ConnId(self.machinery.incoming[c.index()]));
            let cold = &mut self.cold[id as usize];
            if P::ACTIVE {
                cold.name = step.name();
            }
            actor.set_queues(cold, recv, step.send);
            let path = self.path_of(recv, step.send);
            self.actors[id as usize].path = path;
            return true;
        }
        false
    }

    /// What a step's loads and stores use together.
    fn path_of(&mut self, recv: Peers, send: Peers) -> PathId {
        let loads = recv
            .as_slice()
            .iter()
            .filter_map(|f| self.machinery.load_path[f.index()]);
        let stores = send
            .as_slice()
            .iter()
            .filter_map(|f| self.machinery.store_path[f.index()]);
        let paths: SmallVec<[PathId; 4]> = loads.chain(stores).collect();
        match paths.as_slice() {
            [] => self.machinery.nowhere,
            [path] => *path,
            _ => {
                let machinery = &mut self.machinery;
                *self
                    .sums
                    .entry(paths)
                    .or_insert_with_key(|paths| machinery.add_sum(paths))
            }
        }
    }

    pub(super) fn worker_done(&mut self, id: ActorId, at: Time) {
        self.actors[id as usize].phase = Phase::Done;
        let rank = self.plan.program.worker(WorkerId(id)).rank.index();
        let state = &mut self.ranks[rank];
        state.latest = state.latest.max(at);
        state.running -= 1;
        if state.running == 0 {
            self.finish[state.operation as usize][rank] = state.latest;
            state.operation += 1;
            self.launch(rank);
        }
    }
}
