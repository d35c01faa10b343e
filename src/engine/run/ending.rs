//! When nothing happens any more: what came of it, or why.

use super::Run;
use crate::actor::{Actor, Phase, add_limited};
use crate::error::SimError;
use crate::outcome::{Bins, Outcome};
use crate::probe::{ActorId, Probe};
use fabricsim_collective::{ConnId, Role};
use fabricsim_plan::RoleCosts;
use fabricsim_units::Time;

impl<P: Probe> Run<'_, '_, P> {
    pub(super) fn into_outcome(mut self) -> Result<Outcome, SimError> {
        if self.is_stopped() {
            return Err(SimError::Stopped);
        }
        let workers = self.workers as usize;
        let waiting = self.actors[..workers]
            .iter()
            .filter(|a| a.phase != Phase::Done)
            .count();
        if let Some(first) = self.actors[..workers]
            .iter()
            .position(|a| a.phase != Phase::Done)
        {
            if self.past_the_clock || self.passes_the_clock() {
                return Err(SimError::PastTheClock { at: self.now });
            }
            let place = self.plan.program.worker(self.cast.worker(first as u32));
            return Err(SimError::Stalled {
                at: self.now,
                waiting,
                rank: place.rank.0,
                channel: place.channel,
                why: self.why_stuck(first),
            });
        }
        let end = self
            .finish
            .iter()
            .flatten()
            .max()
            .copied()
            .unwrap_or(Time::ZERO);
        if end.is_past_the_clock() {
            return Err(SimError::PastTheClock { at: self.now });
        }
        if P::TRACKS
            && let Some(last) = self.finish.last()
            && let Some(rank) = last.iter().position(|&finish| finish == end)
        {
            let last = self.ranks[rank].latest_by;
            self.probe.finish(last);
        }
        let operations = self.finish.len() as u64;
        let bins = (0..workers)
            .map(|worker| self.bins(worker, operations, end))
            .collect();
        let proxies = (workers..self.actors.len())
            .map(|proxy| self.bins(proxy, 0, end))
            .collect();
        let fifos = &self.machinery.fifos;
        let connections = (0..self.plan.transports.len() as u32).map(ConnId);
        let carried = connections.map(|c| fifos.bytes(self.cast.queue(c)));
        Ok(Outcome {
            connection_bytes: carried.collect(),
            finish: self
                .finish
                .into_iter()
                .map(|f| self.cast.by_rank(f))
                .collect(),
            workers: bins,
            proxies,
            folded: self.cast.folded(),
            resources: self.machinery.resources,
            events: self.events,
            skipped: self.skipper.map_or(0, |s| s.skipped) + self.herded,
            transfers: self.transfers,
        })
    }

    fn bins(&mut self, worker: usize, operations: u64, end: Time) -> Bins {
        let (actor, cold) = (&self.actors[worker], &mut self.cold[worker]);
        let kind = usize::from(actor.class) / RoleCosts::PARTS;
        let costs = self.plan.costs.get(kind);
        let launch = costs.map_or(Time::ZERO, |costs| costs.launch);
        if actor.limited > Time::ZERO {
            add_limited(&mut cold.limited, actor.limited_by, actor.limited);
        }
        let mut limited = std::mem::take(&mut cold.limited);
        limited.sort_unstable();
        let bins = Bins {
            launch: launch.times(operations),
            latency: actor.latency,
            wait_data: actor.wait_data,
            wait_credit: actor.wait_credit,
            sync: actor.sync,
            at_cap: actor.at_cap,
            limited,
            idle: cold.idle + end.saturating_sub(actor.free),
            message: Time::ZERO,
        };
        if worker < self.workers as usize {
            return bins;
        }
        // What is left of a proxy's time it handles messages.
        let message = end.saturating_sub(bins.total());
        Bins { message, ..bins }
    }

    /// What keeps an actor from going on and, from one that waits to the next, what is behind it.
    fn why_stuck(&self, actor: usize) -> String {
        let mut seen = vec![actor];
        let (mut text, mut next) = self.waits_for(actor);
        let first = text.clone();
        while let Some(other) = next.filter(|other| !seen.contains(other)) {
            seen.push(other);
            (text, next) = self.waits_for(other);
        }
        match (seen.last(), next) {
            (Some(&last), None) if seen.len() > 1 => {
                let who = self.who(last);
                format!("waiting, through others, for {who}, which is {text}")
            }
            _ => first,
        }
    }

    /// Whether somebody would go on, but later than the clock goes.
    pub(super) fn passes_the_clock(&self) -> bool {
        let moves_on = |(id, actor): (u32, &Actor)| match actor.phase {
            Phase::Done => false,
            Phase::Waits | Phase::Scheduled => actor.free.is_past_the_clock(),
            Phase::Streams => {
                let rate = if self.machinery.is_free(actor.path) {
                    actor.cap
                } else {
                    self.sharing.rate(id).0
                };
                let end = actor.end_at(rate);
                end.is_some_and(Time::is_past_the_clock)
            }
        };
        (0..).zip(&self.actors).any(moves_on)
    }

    /// An actor, for people.
    fn who(&self, actor: usize) -> String {
        let place = |worker: usize| {
            let worker = self.cast.worker(worker as ActorId);
            self.plan.program.worker(worker)
        };
        let Some(proxy) = actor.checked_sub(self.workers as usize) else {
            let place = place(actor);
            return match place.role {
                Role::Switch => "an NVSwitch".to_owned(),
                _ => format!("rank {}", place.rank.0),
            };
        };
        let proxy = &self.machinery.proxies[proxy];
        let (from, _) = self.machinery.fifos.ends(proxy.takes);
        let (_, to) = self.machinery.fifos.ends(proxy.puts);
        let [from, to] = [from, to].map(|end| place(end as usize).rank.0);
        format!("the network from rank {from} to rank {to}")
    }

    /// What an actor waits for, and whom.
    fn waits_for(&self, actor: usize) -> (String, Option<usize>) {
        let (recv, send) = self.actors[actor].queues(&self.cold[actor]);
        let fifos = &self.machinery.fifos;
        if self.actors[actor].phase == Phase::Done {
            return ("done".to_owned(), None);
        }
        for &f in recv {
            if let (Some(sender), _) = fifos.missing(f) {
                let sender = sender as usize;
                let text = format!("waiting for data from {}", self.who(sender));
                return (text, Some(sender));
            }
        }
        for &f in send {
            if let (_, Some(receiver)) = fifos.missing(f) {
                let receiver = receiver as usize;
                let text = format!("waiting for a free slot at {}", self.who(receiver));
                return (text, Some(receiver));
            }
        }
        if let Some(after) = self.cold[actor].after.filter(|_| self.actors[actor].many) {
            let text = format!(
                "waiting for step {} of worker {} of its rank",
                after.steps, after.worker.0
            );
            return (text, Some(after.worker.index()));
        }
        let text = "in a transfer over a link without any bandwidth left";
        (text.to_owned(), None)
    }
}
