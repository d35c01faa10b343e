//! Transfers: bytes that flow over links, each at its share of them.

use super::{Due, Event, Run};
use crate::job::contention::Flow;
use crate::job::state::Phase;
use crate::job::{Flowing, JobProbe};
use fabricsim_plan::job::{ActorId, StreamId, TransferRoute, TransferRouteId};
use fabricsim_units::{Bytes, Time};

/// A transfer that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moving {
    of: (ActorId, StreamId),
    route: TransferRouteId,
    bytes: Bytes,
    /// Bytes per second by itself.
    own: f64,
    begun: Time,
    phase: Phase,
    /// Bytes that have not arrived, at `since`.
    left: f64,
    since: Time,
    /// Bytes per second.
    speed: f64,
    /// An event that was foreseen with another version is void.
    version: u32,
}

impl Moving {
    fn what(&self) -> Flowing {
        Flowing::Transfer(self.route, self.bytes)
    }
}

/// Transfers that are under way, in slots that are used again.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    slots: Vec<Option<Moving>>,
    free: Vec<u32>,
    /// Versions that were used.
    versions: u32,
}

impl Transfers {
    /// Whether an event of a transfer still stands for what it was foreseen for.
    pub(super) fn is_foreseen(&self, slot: u32, version: u32) -> bool {
        let moving = self.slots.get(slot as usize).copied().flatten();
        moving.is_some_and(|moving| moving.version == version)
    }

    /// One whose bytes do not move on: whose it is, and its size.
    pub(super) fn stuck(&self) -> Option<(ActorId, Bytes)> {
        let mut all = self.slots.iter().flatten();
        all.next().map(|moving| (moving.of.0, moving.bytes))
    }
}

/// What a transfer goes at if nothing else uses its links: bytes per second.
fn own_speed(route: &TransferRoute, narrowest: f64, bytes: Bytes, messages: u32) -> f64 {
    let bytes = bytes.get() as f64;
    let posting = f64::from(messages) * route.message.seconds();
    let by_rate = route
        .rate
        .map_or(0.0, |rate| bytes / rate.bytes_per_sec() as f64);
    let own = bytes / (posting + by_rate);
    own.min(narrowest)
}

impl Run<'_> {
    /// A transfer begins: at first nothing of it has arrived.
    pub(super) fn begin_transfer(
        &mut self,
        of: (ActorId, StreamId),
        id: TransferRouteId,
        bytes: Bytes,
        messages: u32,
    ) {
        let route = &self.job.transfer_routes[id.0 as usize];
        let slot = self.transfers.free.pop().unwrap_or_else(|| {
            self.transfers.slots.push(None);
            self.transfers.slots.len() as u32 - 1
        });
        self.transfers.versions = self.transfers.versions.wrapping_add(1);
        let version = self.transfers.versions;
        // Messages without bytes take their time, too.
        let mut first = route.route.latency;
        if bytes == Bytes::ZERO {
            first += route.message.times(u64::from(messages));
        }
        self.transfers.slots[slot as usize] = Some(Moving {
            of,
            route: id,
            bytes,
            own: own_speed(route, self.contention.narrowest(id), bytes, messages),
            begun: self.now,
            phase: Phase::Before,
            left: bytes.get() as f64,
            since: self.now,
            speed: 0.0,
            version,
        });
        let event = Event::Transfer(slot, version);
        self.events.push(Due::new(self.now + first, event));
    }

    /// The first byte of a transfer arrives, or the last one.
    pub(super) fn end_transfer_phase(&mut self, slot: u32, probe: &mut dyn JobProbe) {
        let Some(moving) = &mut self.transfers.slots[slot as usize] else {
            return;
        };
        if moving.phase == Phase::Before && moving.bytes > Bytes::ZERO {
            moving.phase = Phase::Moving;
            moving.since = self.now;
            let (route, own) = (moving.route, moving.own);
            if !self.contention.start_transfer(slot, route, own) {
                self.transfer_goes_at(slot, own);
            }
            return;
        }
        let moving = *moving;
        if moving.phase == Phase::Moving {
            self.contention.stop(Flow::Transfer(slot));
            let part = moving.left / moving.bytes.get().max(1) as f64;
            self.show(moving.what(), moving.since, part);
        }
        self.transfers.slots[slot as usize] = None;
        self.transfers.free.push(slot);
        let took = self.now.saturating_sub(moving.begun);
        let route = &self.job.transfer_routes[moving.route.0 as usize];
        let alone = match moving.bytes {
            Bytes::ZERO => took,
            bytes => route.route.latency + flows(bytes.get() as f64, moving.own),
        };
        let sum = &mut self.moved[moving.route.0 as usize];
        sum.count += 1;
        sum.time += took;
        sum.alone += alone;
        sum.bytes = Bytes::new(sum.bytes.get() + moving.bytes.get());
        let (actor, stream) = moving.of;
        let me = &mut self.actors[actor.0 as usize];
        me.ledger.communication[usize::from(stream.0)] += took;
        self.end_task(actor, stream, probe);
    }

    /// A transfer goes on at so many bytes per second.
    pub(super) fn transfer_goes_at(&mut self, slot: u32, speed: f64) {
        let now = self.now;
        let Some(moving) = &mut self.transfers.slots[slot as usize] else {
            return;
        };
        let gone = now.saturating_sub(moving.since).seconds() * moving.speed;
        let gone = gone.min(moving.left);
        let part = gone / moving.bytes.get().max(1) as f64;
        let shown = (moving.what(), moving.since, part);
        moving.left -= gone;
        moving.since = now;
        moving.speed = speed;
        self.transfers.versions = self.transfers.versions.wrapping_add(1);
        moving.version = self.transfers.versions;
        if speed > 0.0 {
            let event = Event::Transfer(slot, moving.version);
            let at = now + flows(moving.left, speed);
            self.events.push(Due::new(at, event));
        }
        self.show(shown.0, shown.1, shown.2);
    }
}

/// How long bytes flow at a speed of bytes per second.
fn flows(bytes: f64, speed: f64) -> Time {
    Time::from_picos((bytes / speed * 1e12).round() as u64)
}
