//! A worker's way through its program: kernels start, steps are loaded, operations end.

use super::Run;
use crate::actor::{Alike, MOST_SLICE, NO_FIFO, Phase};
use crate::fifo::FifoId;
use crate::path::{Gap, Link};
use crate::probe::{ActorId, Cause, Probe};
use crate::resources::PathId;
use fabricsim_collective::{After, Step, WorkerId};
use fabricsim_plan::Protocol;
use fabricsim_units::Time;
use smallvec::SmallVec;

impl<P: Probe> Run<'_, '_, P> {
    /// Starts a rank's next operation, or notes that none is left.
    pub(super) fn launch(&mut self, rank: usize) {
        loop {
            let state = &self.ranks[rank];
            if state.operation as usize >= self.finish.len() {
                return;
            }
            let (first, last) = state.workers;
            let idle_until = state.latest;
            let kind =
                &self.plan.costs[usize::from(self.plan.rank_costs[self.cast.rank(rank).index()])];
            let issue = &self.plan.issue;
            let ready = issue.begins(self.cast.rank(rank).0, state.operation, idle_until);
            let begins = ready + self.delay(rank, state.operation);
            // One kernel: all parts of a thread block start together.
            let free = begins + kind.launch;
            self.ranks[rank].running = 0;
            for i in first..last {
                let worker = self.rank_workers[i as usize];
                let behind = if kind.apart == Time::ZERO {
                    Time::ZERO
                } else {
                    let worker = self.cast.worker(worker);
                    kind.behind(self.plan.program.worker(worker).channel)
                };
                let (start, free) = (begins + behind, free + behind);
                let actor = &mut self.actors[worker as usize];
                self.cold[worker as usize].idle += start.saturating_sub(actor.free);
                if P::TRACKS {
                    self.cold[worker as usize].link = Link {
                        before: self.ranks[rank].latest_by,
                        gap: Gap::Launch,
                        wait: free.saturating_sub(idle_until),
                        ..Link::default()
                    };
                }
                if P::ACTIVE {
                    self.probe.launch(worker, start, free);
                    self.cold[worker as usize].cause = Cause::Launch;
                }
                actor.free = free;
                actor.next_step = 0;
                self.alike[worker as usize].until = 0;
                self.note_done(worker, 0);
                self.forget_stretch(worker);
                if self.fetch(worker) {
                    self.ranks[rank].running += 1;
                    self.actors[worker as usize].phase = Phase::Waits;
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
            let link = Link {
                before: state.latest_by,
                gap: Gap::Launch,
                wait: free.saturating_sub(idle_until),
                ..Link::default()
            };
            self.finish[state.operation as usize][rank] = free;
            let state = &mut self.ranks[rank];
            if P::TRACKS {
                state.latest_by = self.probe.link(ActorId::MAX, &link);
            }
            state.latest = free;
            state.operation += 1;
        }
    }

    /// Loads a worker's next step that moves anything; false if none is left.
    pub(super) fn fetch(&mut self, id: ActorId) -> bool {
        let actor = &mut self.actors[id as usize];
        let alike = self.alike[id as usize];
        if actor.next_step < alike.until {
            actor.next_step += 1;
            self.steps_begun += 1;
            actor.slice = alike.slice;
            actor.left = alike.len - alike.slice;
            return true;
        }
        let program = self.plan.program.as_ref();
        let worker = self.cast.worker(id);
        let done_before = actor.next_step.saturating_sub(1);
        while actor.next_step < actor.steps {
            let step = program.step(worker, u64::from(actor.next_step));
            actor.next_step += 1;
            self.steps_begun += 1;
            if step.len == 0 {
                continue;
            }
            let class = &self.classes[usize::from(actor.class)];
            let rate = if step.send.is_empty() {
                class.local_rate
            } else {
                class.send_rate
            };
            let stretch = self.new_stretch(id);
            // Who may be slower at the next step is asked at each.
            let repeats = self.repeats && self.keeps_stretch(id);
            let actor = &mut self.actors[id as usize];
            actor.cap = stretch.rate(rate);
            if P::ACTIVE {
                self.cold[id as usize].name = step.name();
            }
            let simple = step.recv.len() <= 1
                && step.send.len() <= 1
                && step.deal.is_none()
                && step.after.is_none();
            if !simple {
                debug_assert!(step.after.is_none() || self.waits_inside);
                self.note_done(id, done_before);
                self.load_many(id, step);
                return true;
            }
            actor.slice = first_slice(self.protocol, step.len);
            actor.left = step.len - actor.slice;
            actor.many = false;
            if repeats {
                let at_hand = u64::from(actor.next_step - 1);
                let same = program.same_after(worker, at_hand, 1);
                let until = (u64::from(actor.next_step) + same).min(u64::from(actor.steps));
                self.alike[id as usize] = Alike {
                    len: step.len,
                    slice: actor.slice,
                    until: until as u32,
                };
            }
            let (cast, incoming) = (&self.cast, &self.machinery.incoming);
            let recv = step.recv.single().map(|c| cast.queue(c) as usize);
            actor.recv = recv.map_or(NO_FIFO, |queue| incoming[queue]);
            actor.send = step.send.single().map_or(NO_FIFO, |c| cast.queue(c));
            let queues = (actor.recv, actor.send);
            self.actors[id as usize].path = self.path_between(queues);
            self.note_done(id, done_before);
            return true;
        }
        self.note_done(id, done_before);
        false
    }

    /// For those who wait for a worker: how many of its steps were done before the last.
    #[inline]
    fn note_done(&mut self, id: ActorId, done_before: u32) {
        if self.waits_inside {
            self.cold[id as usize].done_before = done_before;
        }
    }

    /// A step with several queues on one side, or one that waits for another worker.
    fn load_many(&mut self, id: ActorId, step: Step) {
        let step = step.trimmed();
        let actor = &mut self.actors[id as usize];
        let cold = &mut self.cold[id as usize];
        let machinery = &self.machinery;
        let cast = &self.cast;
        let recv = step.recv.iter().map(|c| cast.queue(c) as usize);
        let recv = recv.map(|queue| machinery.incoming[queue]);
        let send = step.send.iter().map(|c| cast.queue(c));
        if cast.is_folded() {
            distinct(&mut cold.recv, recv);
            distinct(&mut cold.send, send);
        } else {
            // Loops: to collect is not always inlined.
            cold.recv.clear();
            for queue in recv {
                cold.recv.push(queue);
            }
            cold.send.clear();
            for queue in send {
                cold.send.push(queue);
            }
        }
        cold.after = step.after.map(|after| After {
            worker: WorkerId(cast.actor(after.worker)),
            ..after
        });
        let most = self.classes[usize::from(actor.class)].streams;
        let local = [step.source, step.addend, step.target];
        cold.streams = (step.recv.len() + step.send.len() + local.iter().flatten().count()) as u32;
        if most > 0 && cold.streams > most {
            actor.cap = (actor.cap * u64::from(most) / u64::from(cold.streams)).max(1);
        }
        cold.last_part = None;
        actor.many = true;
        // All parts of a dealt chunk move at once, in one slice.
        actor.slice = match step.deal {
            Some(deal) => {
                let parts = step.len.div_ceil(deal.each.max(1)).max(1);
                actor.cap = (actor.cap / parts).max(1);
                cold.last_part = Some(step.len - (parts - 1) * deal.each);
                actor.left = 0;
                deal.each.min(step.len)
            }
            None => {
                let slice = first_slice(self.protocol, step.len);
                actor.left = step.len - slice;
                slice
            }
        };
        let mut paths: SmallVec<[PathId; 4]> = SmallVec::new();
        for &fifo in cold.recv.as_slice() {
            if let Some(path) = machinery.load_path[fifo as usize] {
                paths.push(path);
            }
        }
        for &fifo in cold.send.as_slice() {
            if let Some(path) = machinery.store_path[fifo as usize] {
                paths.push(path);
            }
        }
        self.actors[id as usize].path = self.path_of(paths);
    }

    /// What a worker's load from one queue and its store into another use.
    pub(super) fn path_between(&mut self, (recv, send): (FifoId, FifoId)) -> PathId {
        let load = (recv != NO_FIFO).then(|| self.machinery.load_path[recv as usize]);
        let store = (send != NO_FIFO).then(|| self.machinery.store_path[send as usize]);
        match (load.flatten(), store.flatten()) {
            (None, None) => self.machinery.nowhere,
            (Some(path), None) | (None, Some(path)) => path,
            (Some(load), Some(store)) => self.path_of(SmallVec::from_slice(&[load, store])),
        }
    }

    /// What a step's loads and stores use together.
    fn path_of(&mut self, paths: SmallVec<[PathId; 4]>) -> PathId {
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

    /// A worker's rank, by its number among those that take part.
    pub(super) fn rank_of(&self, worker: ActorId) -> u32 {
        let rank = self.plan.program.worker(self.cast.worker(worker)).rank;
        self.cast.part_of(rank)
    }

    pub(super) fn worker_done(&mut self, id: ActorId, at: Time) {
        self.actors[id as usize].phase = Phase::Done;
        let rank = self.rank_of(id) as usize;
        let state = &mut self.ranks[rank];
        // Until the first of them ends, it is when the kernel before ended.
        if P::TRACKS && (at >= state.latest) {
            state.latest_by = self.cold[id as usize].last;
        }
        state.latest = state.latest.max(at);
        state.running -= 1;
        if state.running == 0 {
            self.finish[state.operation as usize][rank] = state.latest;
            state.operation += 1;
            self.launch(rank);
        }
    }
}

/// Each queue once: connections that are alike share one.
fn distinct(list: &mut SmallVec<[FifoId; 4]>, queues: impl Iterator<Item = FifoId>) {
    list.clear();
    for queue in queues {
        if !list.contains(&queue) {
            list.push(queue);
        }
    }
}

/// Bytes of the first slice of a chunk.
fn first_slice(protocol: Protocol, chunk: u64) -> u64 {
    protocol.slice_len(chunk).min(MOST_SLICE).min(chunk)
}
