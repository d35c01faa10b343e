//! Requests arrive, and are done.

use super::{Arrivals, DRAIN, Fleet, FrontEnd, QUEUED, Role, Seen};
use crate::serving::record::RequestRecord;
use crate::serving::scheduler::Live;
use fabricsim_plan::job::{Batch, TimerId};
use fabricsim_units::Time;

/// Requests that are made up at a time.
const AT_A_TIME: usize = 1024;

impl Fleet<'_> {
    /// The first requests.
    pub(super) fn begin(&mut self, out: &mut Batch) {
        match self.arrivals {
            Arrivals::Open { .. } => {
                self.arrive_until(Time::ZERO, out);
            }
            Arrivals::Closed { concurrency } => {
                for _ in 0..concurrency {
                    self.next_arrives(Time::ZERO, out);
                }
            }
        }
    }

    /// All that arrive until now; a timer for the next one, or for the end of time behind the last one.
    pub(super) fn arrive_until(&mut self, now: Time, out: &mut Batch) {
        let Arrivals::Open { drain } = self.arrivals else {
            return;
        };
        let before = self.next;
        while let Some(arrival) = self.next_arrival() {
            if arrival > now {
                out.timers.push((arrival, TimerId(u64::from(self.next))));
                self.timers += 1;
                return;
            }
            self.next_arrives(now, out);
        }
        if self.next > before && self.open > 0 {
            out.timers.push((now + drain, DRAIN));
            self.timers += 1;
        }
    }

    /// When the next request arrives, if there is one; more are made up where they go on.
    fn next_arrival(&mut self) -> Option<Time> {
        if self.next as usize == self.requests.len() {
            self.go_on();
        }
        self.requests
            .get(self.next as usize)
            .map(|request| request.arrival)
    }

    /// More requests, of a load without end; none where not one so far could run.
    fn go_on(&mut self) {
        let Some(more) = &mut self.more else { return };
        if !self.served.records.is_empty() && self.served.records.iter().all(|r| r.refused) {
            self.more = None;
            return;
        }
        let before = self.requests.len();
        self.requests.extend(more.take(AT_A_TIME));
        let count = self.requests.len();
        self.open += (count - before) as u32;
        self.served.records.resize_with(count, Default::default);
        self.places.resize_with(count, Default::default);
    }

    /// The next request arrives, if there is one; those that could never run are refused.
    pub(super) fn next_arrives(&mut self, now: Time, out: &mut Batch) {
        while self.next_arrival().is_some() {
            let request = self.next;
            self.next += 1;
            self.served.records[request as usize].arrived = Some(now);
            if self.fits(request) {
                if self.front_end != FrontEnd::default() {
                    let tokens = self.requests[request as usize].input;
                    let takes = self.front_end.per_token.times(tokens.into());
                    let mut read = now + takes;
                    if let Some(server) = self.read.iter_mut().min() {
                        *server = now.max(*server) + takes;
                        read = *server;
                    }
                    let queued = TimerId(QUEUED + u64::from(request));
                    out.timers.push((read + self.front_end.latency, queued));
                    self.timers += 1;
                } else {
                    self.is_queued(request, now);
                }
                return;
            }
            self.served.records[request as usize].refused = true;
            self.close();
            self.look();
            if matches!(self.arrivals, Arrivals::Open { .. }) {
                return;
            }
        }
    }

    /// One request less is to be served.
    fn close(&mut self) {
        self.open -= 1;
        if let Some(counting) = &self.counting {
            counting.add(1);
        }
    }

    /// Shows the records to who watches, once so many of the first requests are over.
    fn look(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let records = &self.served.records;
        let over = |r: &RequestRecord| r.finished.is_some() || r.refused;
        while records.get(self.over as usize).is_some_and(over) {
            self.over += 1;
        }
        // A few may be passed over again and again: they are not waited for.
        let under_way = self.open - (self.requests.len() as u32 - self.next);
        let done = self.next - under_way;
        self.over = self.over.max(done.saturating_sub(2 * under_way));
        let passes = self.served.pass_count + self.parts / 32 + 10 * self.travelled;
        if self.over < self.next_look {
            // What no look comes to ends, too.
            self.is_enough |= passes > watch.most_passes();
            return;
        }
        let seen = Seen {
            requests: &self.requests,
            records,
            over: self.over,
            passes,
        };
        match watch.look(seen) {
            Some(next) => self.next_look = next.max(self.over + 1),
            None => self.is_enough = true,
        }
    }

    /// Whether every engine has blocks enough for all tokens of a request, if it were alone.
    fn fits(&self, request: u32) -> bool {
        let request = &self.requests[request as usize];
        self.workers.iter().all(|worker| {
            let tokens = match worker.engine.role {
                Role::Prefill => request.input,
                // The last token is not fed back.
                Role::Both | Role::Decode => request.input + request.output - 1,
            };
            let mut pools = worker.engine.parts.iter().map(|part| &part.pool);
            pools.all(|pool| pool.blocks_for(tokens) <= pool.total())
        })
    }

    /// A request is through the front end: it is sent to the engine of its prompt; where the engine that generates has
    /// to have reserved blocks before, to that one first.
    pub(super) fn is_queued(&mut self, request: u32, now: Time) {
        self.served.records[request as usize].queued = Some(now);
        if self.handover.is_pushed() && self.routing.has_generators() {
            self.is_to_come(request);
        } else {
            self.wait_for_prompt(request);
        }
    }

    /// A request waits for its prompt to be computed.
    pub(super) fn wait_for_prompt(&mut self, request: u32) {
        let (engine, part) = self.routing.prompt(request, &self.requests, &self.workers);
        self.served.records[request as usize].engines[0] = Some(engine);
        let of = &self.requests[request as usize];
        let worker = &mut self.workers[engine as usize];
        let output = match worker.engine.role {
            Role::Prefill => 1,
            Role::Both | Role::Decode => of.output,
        };
        let scheduler = &mut worker.engine.parts[usize::from(part)];
        let id = scheduler.add(Live {
            request,
            tokens: of.input,
            prompt: of.input,
            output,
            ..Live::default()
        });
        scheduler.waiting.push_back(id);
        let is_first = scheduler.waiting.len() == 1;
        self.places[request as usize].prompt = Some((engine, part, id));
        // Requests are let in one after the other: behind one that was not, nothing is to be decided.
        if is_first || self.has_tiers(engine) {
            self.touch(engine);
        }
    }

    /// A request has all its tokens.
    pub(super) fn is_done(&mut self, request: u32, now: Time, out: &mut Batch) {
        self.served.records[request as usize].finished = Some(now);
        self.close();
        self.look();
        if matches!(self.arrivals, Arrivals::Closed { .. }) {
            self.next_arrives(now, out);
        }
    }
}
