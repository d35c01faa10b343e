//! Operations of groups: who has come, and how fast they go on.

use super::{Due, Event, Run};
use crate::job::contention::Flow;
use crate::job::state::{Going, Phase};
use crate::job::{Flowing, JobError, JobProbe, Moved, Waiting};
use fabricsim_plan::job::{ActorId, ExchangeId, GroupId, StreamId};
use fabricsim_units::{Bytes, Time};
use std::cmp::Reverse;

impl Run<'_> {
    /// An actor comes to an operation of a group, and holds its SMs from now on.
    pub(super) fn come(
        &mut self,
        actor: ActorId,
        stream: StreamId,
        group: GroupId,
        slot: u16,
    ) -> Result<(), JobError> {
        let known = &self.job.groups[group.0 as usize];
        let exchange = known.exchanges[usize::from(slot)];
        let state = &mut self.groups[group.0 as usize];
        match state.exchange {
            Some(first) if state.slot != slot => {
                let name = |e: ExchangeId| self.job.exchanges[e.0 as usize].name.clone();
                return Err(JobError::Mismatch {
                    group: known.name.clone(),
                    first: name(first),
                    other: name(exchange),
                });
            }
            _ => {
                state.slot = slot;
                state.exchange = Some(exchange);
            }
        }
        if state.come.is_empty() {
            self.rounds[group.0 as usize] += 1;
            if let Some(timeout) = self.options.timeout_of(group) {
                let event = Event::Patience(group, self.rounds[group.0 as usize]);
                self.events.push(Due::new(self.now + timeout, event));
            }
        }
        state.come.push((actor, stream, self.now));
        if state.come.len() as u32 == known.actors {
            self.ready.push(group);
        }
        let sms = self.job.exchanges[exchange.0 as usize].sms;
        self.actors[actor.0 as usize].held += sms;
        if sms > 0 {
            self.enter_gpu(actor);
        }
        self.pace(actor);
        Ok(())
    }

    /// All have come.
    pub(super) fn begin_group(&mut self, group: GroupId) {
        let now = self.now;
        let turns = self.turns_of_group(group);
        let state = &mut self.groups[group.0 as usize];
        // Who came last; if several did, the first of them by number.
        let last = state.come.iter().max_by_key(|c| (c.2, Reverse(c.0)));
        let last = last.map(|c| c.0);
        let Some(exchange) = state.exchange else {
            return;
        };
        let phases = self.contention.phases(exchange);
        let whole = self.rehearsed[exchange.0 as usize].time;
        state.going = Some(Going {
            begun: now,
            phase: Phase::Before,
            left: phases.map_or(whole, |phases| phases.before).picos() as f64,
            since: now,
            speed: 0.0,
            turns,
        });
        let come = state.come.clone();
        for (actor, stream, _) in come {
            let me = &mut self.actors[actor.0 as usize];
            me.settle(now);
            let idled = std::mem::take(&mut me.idled[usize::from(stream.0)]);
            if let Some(last) = last.filter(|&l| l != actor && idled > Time::ZERO) {
                *me.ledger.waited_for.entry(last).or_default() += idled;
            }
            if let Some(running) = &mut me.streams[usize::from(stream.0)].running {
                running.begun = now;
            }
            self.touch(actor);
        }
        self.go_on(group, turns);
    }

    /// A phase of a group's operation is over.
    pub(super) fn end_phase(&mut self, group: GroupId, probe: &mut dyn JobProbe) {
        let state = &mut self.groups[group.0 as usize];
        let (Some(going), Some(exchange)) = (&mut state.going, state.exchange) else {
            return;
        };
        let next = self.contention.phases(exchange).and_then(|phases| {
            Some(match going.phase {
                Phase::Before => (Phase::Moving, phases.moving),
                Phase::Moving => (Phase::After, phases.after),
                Phase::After => return None,
            })
        });
        let (over, turns) = (going.phase, going.turns);
        let (begun, since, left) = (going.begun, going.since, going.left);
        if let Some((phase, whole)) = next {
            (going.phase, going.left) = (phase, whole.picos() as f64);
            (going.since, going.speed) = (self.now, 0.0);
        }
        if over == Phase::Moving {
            self.contention.stop(Flow::Group(group));
            self.show_rest(exchange, (since, left));
        } else if next.is_none() && over == Phase::Before {
            self.show_whole(exchange, begun);
        }
        match next {
            Some((Phase::Moving, _)) => self.contention.start(group, exchange, turns),
            Some(_) => self.go_on(group, turns),
            None => self.end_group(group, probe),
        }
    }

    /// What was left of an operation's bytes has moved since then.
    fn show_rest(&mut self, exchange: ExchangeId, (since, left): (Time, f64)) {
        let whole = self.contention.parts(exchange).moving.picos() as f64;
        let part = if whole > 0.0 { left / whole } else { 1.0 };
        self.show(Flowing::Exchange(exchange), since, part);
    }

    /// All bytes of an operation that meets no other have moved: in the middle of its time, as those
    /// of operations that do.
    fn show_whole(&mut self, exchange: ExchangeId, begun: Time) {
        let Some(shown) = &mut self.shown else {
            return;
        };
        let parts = self.contention.parts(exchange);
        let all = (parts.before + parts.moving + parts.after).picos().max(1) as f64;
        let took = self.now.saturating_sub(begun).picos() as f64;
        let at = |time: Time| begun + Time::from_picos((took * time.picos() as f64 / all) as u64);
        shown.push(Moved {
            what: Flowing::Exchange(exchange),
            from: at(parts.before),
            to: at(parts.before + parts.moving),
            part: 1.0,
        });
    }

    /// A phase of a group's operation goes on at this part of its full speed.
    pub(super) fn go_on(&mut self, group: GroupId, speed: f64) {
        let now = self.now;
        let state = &mut self.groups[group.0 as usize];
        let Some(going) = &mut state.going else {
            return;
        };
        let gone = now.saturating_sub(going.since).picos() as f64 * going.speed;
        let gone = gone.min(going.left);
        let moves = (going.phase == Phase::Moving).then_some((state.exchange, going.since));
        going.left -= gone;
        going.since = now;
        going.speed = speed;
        state.version += 1;
        if speed > 0.0 {
            let rest = Time::from_picos((going.left / speed).round() as u64);
            let event = Event::Group(group, state.version);
            self.events.push(Due::new(now + rest, event));
        }
        if let Some((Some(exchange), since)) = moves {
            let whole = self.contention.parts(exchange).moving.picos().max(1) as f64;
            self.show(Flowing::Exchange(exchange), since, gone / whole);
        }
    }

    fn end_group(&mut self, group: GroupId, probe: &mut dyn JobProbe) {
        let state = self.groups[group.0 as usize].take();
        let (Some(going), Some(exchange)) = (state.going, state.exchange) else {
            return;
        };
        let known = &self.job.exchanges[exchange.0 as usize];
        let traffic = &mut self.traffic[group.0 as usize][usize::from(state.slot)];
        traffic.count += 1;
        traffic.time += self.now.saturating_sub(going.begun);
        traffic.alone += self.rehearsed[exchange.0 as usize].time;
        traffic.bytes = Bytes::new(traffic.bytes.get() + known.bytes.get());
        for (actor, stream, _) in state.come {
            let me = &mut self.actors[actor.0 as usize];
            me.held -= known.sms;
            me.ledger.communication[usize::from(stream.0)] += self.now.saturating_sub(going.begun);
            if known.sms > 0 {
                self.leave_gpu(actor);
            }
            self.end_task(actor, stream, probe);
            self.pace(actor);
        }
    }

    pub(super) fn waiting(&self, group: GroupId) -> Waiting {
        let known = &self.job.groups[group.0 as usize];
        let state = &self.groups[group.0 as usize];
        // All ranks of the group, also those for which another stands.
        let here = |actor: &ActorId| state.come.iter().any(|c| c.0 == *actor);
        let members = || known.ranks.iter().zip(&known.members);
        let pick = |wanted: bool| {
            let found = members().filter(|(_, a)| here(a) == wanted);
            let mut ranks: Vec<u32> = found.map(|(&rank, _)| rank).collect();
            ranks.sort_unstable();
            ranks
        };
        let exchange = state.exchange;
        Waiting {
            group,
            name: known.name.clone(),
            exchange: exchange.map_or_else(String::new, |e| {
                self.job.exchanges[e.0 as usize].name.clone()
            }),
            come: pick(true),
            missing: pick(false),
        }
    }
}
