//! One slice: from all that it needs being there to its being passed on.

use super::Run;
use crate::actor::{NO_FIFO, Phase, add_limited};
use crate::machinery::Unshared;
use crate::path::{Gap, Link, NOTHING};
use crate::probe::{ActorId, Cause, Probe, Segment, Slice};
use crate::sharing::{Change, Limit};
use fabricsim_collective::After;
use fabricsim_units::{Bandwidth, Bytes, Time};

/// So much before the clock a worker may run ahead; farther on, others get their turn first.
const FAR_AHEAD: Time = Time::from_micros(1000);

impl<P: Probe> Run<'_, '_, P> {
    pub(super) fn share(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        self.sharing.solve(&mut changes);
        for &Change { flow, rate, limit } in &changes {
            let (new_rate, _) = self.sharing.rate(flow);
            if rate > 0 || limit != Limit::Cap {
                self.book(flow, self.now, (rate, limit));
            }
            let actor = &mut self.actors[flow as usize];
            actor.advance(rate, self.now);
            actor.generation += 1;
            if let Some(end) = actor.end_at(new_rate) {
                self.queue.push(end.picos(), (flow, actor.generation));
            }
        }
        self.changes = changes;
    }

    /// Puts streaming at one rate, from the actor's mark until `now`, into its bins.
    #[inline]
    pub(super) fn book(&mut self, id: ActorId, now: Time, (rate, limit): (u64, Limit)) {
        let time = now - self.actors[id as usize].mark;
        self.put_into_bin(id, limit, time);
        let actor = &self.actors[id as usize];
        if (P::ACTIVE || P::TRACKS) && time > Time::ZERO {
            let (path, start) = (actor.path, actor.mark);
            self.probe.segment(&Segment {
                actor: id,
                path,
                start,
                end: now,
                rate,
                limit,
            });
        }
    }

    #[inline]
    fn put_into_bin(&mut self, id: ActorId, limit: Limit, time: Time) {
        let actor = &mut self.actors[id as usize];
        match limit {
            Limit::Cap => actor.at_cap += time,
            Limit::Resource(resource) if resource == actor.limited_by => actor.limited += time,
            Limit::Resource(resource) => {
                let before = std::mem::replace(&mut actor.limited, time);
                let by = std::mem::replace(&mut actor.limited_by, resource);
                if before > Time::ZERO {
                    add_limited(&mut self.cold[id as usize].limited, by, before);
                }
            }
        }
    }

    /// If all that the next slice needs has a time, schedules (or does) its begin.
    pub(super) fn try_begin(&mut self, id: ActorId) {
        let actor = &mut self.actors[id as usize];
        // Who was woken twice may have run ahead to its end.
        if actor.phase != Phase::Waits {
            return;
        }
        let fifos = &mut self.machinery.fifos;
        // The latest data and credit, and the queues that they come by.
        let (mut data, mut credit) = ((Time::ZERO, NO_FIFO), (Time::ZERO, NO_FIFO));
        let mut known = true;
        let mut after = (Time::ZERO, None);
        if actor.many {
            let latest = |last: &mut (Time, u32), at: Option<Time>, fifo: u32| match at {
                Some(at) if last.1 == NO_FIFO || at > last.0 => *last = (at, fifo),
                Some(_) => {}
                None => known = false,
            };
            let mut latest = latest;
            let cold = &self.cold[id as usize];
            for &f in cold.recv.as_slice() {
                latest(&mut data, fifos.data_or_wait(f), f);
            }
            for &f in cold.send.as_slice() {
                latest(&mut credit, fifos.credit_or_wait(f), f);
            }
            if let Some(point) = cold.after {
                match self.reached(point, id) {
                    Some(at) => after = (at, Some(point.worker.0)),
                    None => known = false,
                }
            }
        } else {
            if actor.recv != NO_FIFO {
                match fifos.data_or_wait(actor.recv) {
                    Some(at) => data = (at, actor.recv),
                    None => known = false,
                }
            }
            if actor.send != NO_FIFO {
                match fifos.credit_or_wait(actor.send) {
                    Some(at) => credit = (at, actor.send),
                    None => known = false,
                }
            }
        }
        let actor = &mut self.actors[id as usize];
        let fifos = &mut self.machinery.fifos;
        if !known {
            actor.phase = Phase::Waits;
            return;
        }
        let free = actor.free;
        let ready = data.0.max(credit.0).max(after.0);
        let mut start = free.max(ready);
        if id >= self.workers {
            // The proxy's work on a message overlaps with the one before leaving, and part of it
            // with this one's.
            actor.slice = fifos.next_len(actor.recv);
            let class = &self.classes[usize::from(actor.class)];
            let cold = &mut self.cold[id as usize];
            let len = Bytes::new(actor.slice);
            let begun = ready.max(cold.busy_until);
            cold.busy_until = begun + class.message.work(len);
            start = free.max(begun + class.message.of(len));
        }
        // Waiting counts up to the later of data and credit: until the other side acted,
        // then for the news to arrive.
        let mut cause = Cause::Own;
        let mut posted = free;
        if ready > free && after.0 == ready {
            cause = after.1.map_or(Cause::Own, Cause::After);
            posted = ready;
            actor.wait_data += ready - free;
        } else if ready > free {
            let by_data = data.1 != NO_FIFO && (credit.1 == NO_FIFO || data.0 >= credit.0);
            let lag = if by_data {
                fifos.latency(data.1)
            } else {
                fifos.credit_latency(credit.1)
            };
            posted = ready.saturating_sub(lag).max(free);
            actor.latency += ready - posted;
            if by_data {
                cause = Cause::Data(data.1);
                actor.wait_data += posted - free;
            } else {
                cause = Cause::Credit(credit.1);
                actor.wait_credit += posted - free;
            }
        }
        actor.free = start;
        if P::TRACKS {
            self.note_cause(id, cause, start - free.max(ready));
        }
        if P::ACTIVE {
            let cold = &mut self.cold[id as usize];
            (cold.free, cold.posted) = (free, posted);
            if cause != Cause::Own || cold.cause != Cause::Launch {
                cold.cause = cause;
            }
        }
        let stretch = self.stretch(id);
        let actor = &mut self.actors[id as usize];
        let class = &self.classes[usize::from(actor.class)];
        let passes = || class.pass_rate.map(|rate| stretch.rate(rate));
        if let Some(goes) = self.machinery.unshared(actor.path, actor.cap, passes) {
            // Nothing that happens until then can change when it ends.
            actor.phase = Phase::Streams;
            actor.remaining = actor.slice * 1_000_000;
            actor.mark = start;
            let end = match goes {
                Unshared::At(rate, _) => actor.end_at(rate),
                Unshared::InPasses => Some(start),
            };
            let Some(end) = end else {
                actor.generation += 1;
                return;
            };
            if self.runs_ahead && end < self.now + FAR_AHEAD {
                self.events += 1;
                self.end(id, end);
                return;
            }
            actor.generation += 1;
            self.queue.push(end.picos(), (id, actor.generation));
            return;
        }
        actor.phase = Phase::Scheduled;
        if start <= self.now {
            self.begin(id);
        } else {
            actor.generation += 1;
            self.queue.push(start.picos(), (id, actor.generation));
        }
    }

    /// What the slice at hand comes after, and how long its handling takes.
    fn note_cause(&mut self, id: ActorId, cause: Cause, handling: Time) {
        let fifos = &self.machinery.fifos;
        let (before, gap, wait) = match cause {
            Cause::Data(fifo) => (fifos.posted_by(fifo), Gap::Data, fifos.latency(fifo)),
            Cause::Credit(fifo) => (
                fifos.freed_by(fifo),
                Gap::Credit,
                fifos.credit_latency(fifo),
            ),
            Cause::After(other) => (self.cold[other as usize].done_by, Gap::None, Time::ZERO),
            Cause::Own | Cause::Launch => (self.cold[id as usize].last, Gap::None, Time::ZERO),
        };
        let link = &mut self.cold[id as usize].link;
        if cause != Cause::Own || link.gap != Gap::Launch {
            (link.before, link.gap, link.wait) = (before, gap, wait);
        }
        link.handling = handling;
    }

    /// The slice at hand is over; the number by which others refer to it.
    fn note_end(&mut self, id: ActorId, (stream, sync, first): (Time, Time, Time), done: Time) {
        let cold = &mut self.cold[id as usize];
        let link = Link {
            stream,
            sync,
            lead: done.picos() as i64 - first.picos() as i64,
            proxy: id >= self.workers,
            ..cold.link
        };
        cold.last = self.probe.link(id, &link);
        cold.link.gap = Gap::None;
    }

    /// When `point` was reached; before that `None`, and `id` will be woken.
    fn reached(&mut self, point: After, id: ActorId) -> Option<Time> {
        let other = point.worker.index();
        if self.actors[other].steps_done() < point.steps {
            let waiters = &mut self.cold[other].waiters;
            if !waiters.contains(&id) {
                waiters.push(id);
                self.waiters += 1;
            }
            return None;
        }
        let cold = &self.cold[other];
        // If it has got further since, a whole step of it has ended by now.
        Some(if point.steps > cold.done_before {
            cold.done_at
        } else {
            Time::ZERO
        })
    }

    /// A worker's step is done, or its last.
    fn got_on(&mut self, id: ActorId, at: Time) {
        let cold = &mut self.cold[id as usize];
        (cold.done_at, cold.done_by) = (at, cold.last);
        if self.waiters > 0 {
            self.waiters -= cold.waiters.len() as u64;
            self.woken.extend(cold.waiters.drain(..));
        }
    }

    /// Bytes begin to move over links that others may use.
    pub(super) fn begin(&mut self, id: ActorId) {
        let actor = &mut self.actors[id as usize];
        actor.phase = Phase::Streams;
        actor.remaining = actor.slice * 1_000_000;
        actor.mark = self.now;
        let path = actor.path;
        if self.upset.is_some() {
            self.look_at_links(path);
        }
        let actor = &self.actors[id as usize];
        let resources = &self.machinery.resources;
        if self.regions.is_none() {
            // Which of several full resources is told as the limit goes by the order in which
            // rates are known: as long as it can, that stays what it was.
            self.sharing.start(resources, id, actor.path, actor.cap);
        } else {
            let rate = self
                .sharing
                .start_at_once(resources, id, actor.path, actor.cap);
            if rate.is_some() {
                self.expect_end(id);
            }
        }
    }

    /// The last byte has moved at `now`, which may lie in the future: pass the slice on, give the
    /// slot back, go on.
    pub(super) fn end(&mut self, id: ActorId, now: Time) {
        let actor = &self.actors[id as usize];
        let stretch = self.stretch(id);
        let class = &self.classes[usize::from(actor.class)];
        let passes = || class.pass_rate.map(|rate| stretch.rate(rate));
        let goes = self.machinery.unshared(actor.path, actor.cap, passes);
        match goes {
            Some(Unshared::At(rate, limit)) => self.book(id, now, (rate, limit)),
            Some(Unshared::InPasses) => {}
            None => {
                let known = self.sharing.rate(id);
                self.book(id, now, known);
                self.sharing.stop(id);
            }
        }
        let path = self.actors[id as usize].path;
        self.transfers += u64::from(path != self.machinery.nowhere);
        let proxy = id >= self.workers;
        let actor = &mut self.actors[id as usize];
        let class = &mut self.classes[usize::from(actor.class)];
        let len = actor.slice;
        let mut done = now;
        // When the first part of the slice is passed on, and when all of it is.
        let posted;
        // By how much later a proxy learns of it.
        let mut fence = Time::ZERO;
        // What of its time after `now` is copying.
        let mut copied = Time::ZERO;
        if proxy {
            let at = now + class.later.of(Bytes::new(len));
            posted = (at, at);
        } else {
            let mut sync = stretch.time(class.cost_of(len));
            if class.slice.hidden {
                let alone = Bandwidth::from_bytes_per_sec(actor.cap).time_for(Bytes::new(len));
                done = now.max(actor.free + alone + sync);
                posted = (done, done);
            } else if class.slice.pass == Bytes::ZERO {
                done += sync;
                posted = (done, done);
            } else {
                // Passes go on while bytes move, and pass them on as they come; nobody learns of
                // the past.
                let start = actor.free;
                let (in_passes, passes) = class.passes_of(len);
                let lead = sync - stretch.time(in_passes);
                if actor.many && class.streams > 0 {
                    let streams = self.cold[id as usize].streams.max(class.streams);
                    let picos = sync.times(u64::from(streams)).picos();
                    sync = Time::from_picos(picos / u64::from(class.streams));
                }
                done = now.max(start + sync);
                posted = if class.slice.together {
                    (done, done)
                } else {
                    let last = Time::from_picos((sync - lead).picos() / passes);
                    let first = now.max(start + lead);
                    (first, first.max(done - last))
                };
            }
            if class.slice.fence > Time::ZERO && actor.left == 0 {
                let sends = if actor.many {
                    &self.cold[id as usize].send[..]
                } else {
                    std::slice::from_ref(&actor.send)
                };
                let fifos = &self.machinery.fifos;
                if sends
                    .iter()
                    .any(|&fifo| fifo != NO_FIFO && fifos.is_sized(fifo))
                {
                    fence = stretch.time(class.slice.fence);
                    done += fence;
                }
            }
            // Threads that nothing else holds up copy as long as their passes are full.
            let copies = match goes {
                Some(Unshared::InPasses) => {
                    let (in_passes, passes) = class.passes_of(len);
                    let full = u128::from(class.slice.pass.get()) * u128::from(passes);
                    let copying = stretch.time(in_passes);
                    let copies = u128::from(copying.picos()) * u128::from(len) / full.max(1);
                    Time::from_picos(copies as u64).min(done - now)
                }
                _ => Time::ZERO,
            };
            actor.at_cap += copies;
            actor.sync += done - now - copies;
            copied = copies;
        }
        if P::TRACKS {
            let start = self.actors[id as usize].free;
            let stream = now.saturating_sub(start) + copied;
            self.note_end(id, (stream, done - now - copied, posted.0 + fence), done);
        }
        let actor = &mut self.actors[id as usize];
        if P::ACTIVE {
            let cold = &mut self.cold[id as usize];
            let (recv, send) = actor.queues(cold);
            let mut end = now;
            // Bytes move as long as the passes do.
            let time = done - actor.free;
            if goes == Some(Unshared::InPasses) && time > Time::ZERO {
                end = done;
                self.probe.segment(&Segment {
                    actor: id,
                    path,
                    start: actor.free,
                    end,
                    rate: (u128::from(len) * 1_000_000_000_000 / u128::from(time.picos())) as u64,
                    limit: Limit::Cap,
                });
            }
            self.probe.slice(&Slice {
                actor: id,
                free: cold.free,
                posted: cold.posted,
                start: actor.free,
                end,
                done,
                cause: cold.cause,
                bytes: actor.slice,
                moved: actor.slice,
                name: cold.name,
                recv,
                send,
            });
            cold.cause = Cause::Own;
        }
        actor.free = done;
        actor.phase = Phase::Waits;
        let slice = actor.slice;
        let by = if P::TRACKS {
            self.cold[id as usize].last
        } else {
            NOTHING
        };
        let actor = &self.actors[id as usize];
        if actor.many {
            for k in 0..self.cold[id as usize].recv.len() {
                let fifo = self.cold[id as usize].recv.as_slice()[k];
                let woken = self.machinery.fifos.take(fifo, done, by);
                self.wake(woken, done);
            }
            let last = self.cold[id as usize].send.len().saturating_sub(1);
            for k in 0..=last {
                let cold = &self.cold[id as usize];
                let Some(&fifo) = cold.send.as_slice().get(k) else {
                    break;
                };
                let own = cold.last_part.filter(|_| k == last).unwrap_or(slice);
                let late = match self.machinery.fifos.is_sized(fifo) {
                    true => fence,
                    false => Time::ZERO,
                };
                let posted = (posted.0 + late, posted.1 + late);
                let woken = self.machinery.fifos.post(fifo, posted, (own, by));
                self.wake(woken, posted.0);
            }
        } else {
            let (recv, send) = (actor.recv, actor.send);
            if recv != NO_FIFO {
                let woken = self.machinery.fifos.take(recv, done, by);
                self.wake(woken, done);
            }
            if send != NO_FIFO {
                let posted = (posted.0 + fence, posted.1 + fence);
                let woken = self.machinery.fifos.post(send, posted, (slice, by));
                self.wake(woken, posted.0);
            }
        }
        if !proxy {
            let actor = &mut self.actors[id as usize];
            if actor.left > 0 {
                actor.slice = actor.slice.min(actor.left);
                actor.left -= actor.slice;
            } else {
                let more = self.fetch(id);
                if !more {
                    self.actors[id as usize].phase = Phase::Done;
                }
                if self.waits_inside {
                    self.got_on(id, done);
                }
                if !more {
                    self.worker_done(id, done);
                    return;
                }
            }
        }
        self.ended.push(id);
    }
}
