//! Several processors: each simulates some of the machine's regions.
//!
//! The earliest event of all says how far regions with queues to those of other processors may go:
//! until a lookahead later, for what one does reaches others no sooner. Others may go somewhat
//! farther (`regions.rs`). Then the processors tell each other, in one letter each, what
//! happened at queues between their regions, and when the next event of theirs is. Nothing of a
//! result depends on when a region hears of what others did, as long as it is in time, so that the
//! number of processors makes no difference to any.

use super::regions::{MOST_ACTORS, Regions};
use super::{Cast, Options, Run};
use crate::actor::{Actor, Cold};
use crate::fifo::{Fifos, News};
use crate::footprint::Parts;
use crate::machinery::Machinery;
use crate::probe::{ActorId, Blind, Probe};
use fabricsim_budget::Held;
use fabricsim_plan::Plan;
use fabricsim_units::Time;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// With fewer actors, telling each other takes longer than simulating.
pub(crate) const FEWEST_ACTORS: usize = if cfg!(test) { 2 } else { 1 << 11 };

/// As it does with fewer events in a lookahead.
const FEWEST_EVENTS: u64 = if cfg!(test) { 1 } else { 1 << 11 };

/// What one processor has to tell another one after a lookahead.
struct Letter {
    news: Vec<News>,
    /// Nothing of the writer's happens before, nor has it told of anything earlier.
    next: u64,
    steps_begun: u64,
}

/// One processor's part.
struct Shard {
    number: u32,
    /// The shard of each actor.
    of: Vec<u32>,
    to: Vec<(u32, Sender<Letter>)>,
    from: Vec<Receiver<Letter>>,
}

/// What a shard has come to.
struct Done {
    of: Vec<u32>,
    actors: Vec<Actor>,
    cold: Vec<Cold>,
    fifos: Fifos,
    finish: Vec<Vec<Time>>,
    now: Time,
    past_the_clock: bool,
    events: u64,
    transfers: u64,
}

/// The shard of each actor: regions one after the other, as many actors in each shard.
fn shares(regions: &Regions, threads: usize) -> Vec<u32> {
    let mut size = vec![0usize; regions.count()];
    regions.of.iter().for_each(|&r| size[r as usize] += 1);
    let mut before = 0;
    let shard = |&size: &usize| {
        let middle = before + size / 2;
        before += size;
        (middle * threads / regions.of.len().max(1)) as u32
    };
    let of: Vec<u32> = size.iter().map(shard).collect();
    regions.of.iter().map(|&r| of[r as usize]).collect()
}

impl<P: Probe> Run<'_, '_, P> {
    /// Simulates on several processors, if that is wanted and worth it; false, and nothing done,
    /// otherwise. `pace` tells how many events there are in how much time, if that is known. What is
    /// worth several processors is too much for a critical path, on however many it runs: each of
    /// them would know its own part of the slices only.
    pub(super) fn run_in_shards(&mut self, pace: Option<(u64, Time)>) -> bool {
        let threads = self.options.threads as usize;
        let few = self.actors.len() < FEWEST_ACTORS;
        // How much those have to do who are left of a fold cannot be told by their number.
        let unknown = pace.is_none() && self.cast.is_folded();
        if (threads < 2 && !P::TRACKS) || few || unknown {
            return false;
        }
        let Some(regions) = self.regions(MOST_ACTORS) else {
            return false;
        };
        let dense = |(events, time): (u64, Time)| {
            let in_lookaheads = u128::from(events) * u128::from(regions.lookahead.picos());
            in_lookaheads >= u128::from(FEWEST_EVENTS) * u128::from(time.picos())
        };
        if !pace.is_none_or(dense) {
            return false;
        }
        self.probe.give_up();
        if threads < 2 {
            return false;
        }
        let held = self.others_that_fit(threads.min(regions.count()) - 1);
        let threads = held.len() + 1;
        if threads < 2 {
            return false;
        }
        let of = shares(&regions, threads);
        let mut shards: Vec<Shard> = (0..threads as u32)
            .map(|number| Shard {
                number,
                of: of.clone(),
                to: Vec::new(),
                from: Vec::new(),
            })
            .collect();
        for from in 0..threads {
            for to in (0..threads).filter(|&to| to != from) {
                let (sender, receiver) = channel();
                shards[from].to.push((to as u32, sender));
                shards[to].from.push(receiver);
            }
        }
        let plan = self.plan;
        let (operations, disturbances) = (self.options.operations, self.options.disturbances);
        let own = shards.remove(0);
        let others = shards.into_iter();
        let others: Vec<_> = others
            .map(|s| (s, (self.machinery.clone(), self.cast.clone())))
            .collect();
        let others = thread::scope(|scope| {
            let others = others.into_iter().map(|(shard, parts)| {
                scope.spawn(move || {
                    let options = Options {
                        operations,
                        disturbances,
                        ..Options::default()
                    };
                    apart(plan, parts, options, shard)
                })
            });
            let others: Vec<_> = others.collect();
            self.run_shard(&own, regions);
            // Whoever waits for a letter learns that none will come.
            drop(own);
            let joined = others.into_iter().map(|thread| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect::<Vec<_>>()
        });
        for (other, number) in others.into_iter().zip(1..) {
            self.join(other, number);
        }
        true
    }

    /// Memory of further threads, at most so many: each has tables of its own.
    fn others_that_fit(&self, most: usize) -> Vec<Option<Held>> {
        let workers = u64::from(self.workers);
        let networks = self.actors.len() as u64 - workers;
        let parts = Parts {
            workers,
            networks,
            connections: self.machinery.fifos.count() as u64 - networks,
        };
        let fit = (0..most).map_while(|_| parts.hold(self.options.memory).ok());
        fit.collect()
    }

    /// Simulates what belongs to a shard.
    fn run_shard(&mut self, shard: &Shard, mut regions: Box<Regions>) {
        regions.leave_others(|actor| shard.of[actor as usize] == shard.number);
        for fifo in 0..self.machinery.fifos.count() {
            let (from, to) = self.machinery.fifos.ends(fifo);
            if shard.of[from as usize] != shard.of[to as usize] {
                self.machinery.fifos.part(fifo);
            }
        }
        self.begin_those(|actor| shard.of[actor as usize] == shard.number);
        self.divide(regions);
        self.runs_ahead = true;
        let mut told = 0;
        while let Some((first, steps)) = self.exchange(shard) {
            if first == u64::MAX {
                break;
            }
            self.turns_from(first);
            if self.events - told > super::PROGRESS_EVERY {
                told = self.events;
                if let Some(tell) = self.options.progress.as_mut() {
                    tell(self.steps_begun + steps, self.steps_total);
                }
                if self.is_stopped() {
                    break;
                }
            }
        }
        self.end_turns();
    }

    /// Tells all others what happened here, and hears from them. Returns when the next event of all
    /// is, and how many steps the others have begun; nothing if one of them is gone.
    fn exchange(&mut self, shard: &Shard) -> Option<(u64, u64)> {
        let own = self.regions.as_mut().and_then(|r| r.due());
        let news = std::mem::take(&mut self.machinery.fifos.news);
        let told = news.iter().map(|news| news.at.picos());
        let next = told.chain(own).min().unwrap_or(u64::MAX);
        let mut news_to: Vec<Vec<News>> = vec![Vec::new(); shard.to.len() + 1];
        for news in news {
            let (from, to) = self.machinery.fifos.ends(news.fifo);
            let other = if news.put.is_some() { to } else { from };
            news_to[shard.of[other as usize] as usize].push(news);
        }
        for (number, to) in &shard.to {
            let letter = Letter {
                news: std::mem::take(&mut news_to[*number as usize]),
                next,
                steps_begun: self.steps_begun,
            };
            to.send(letter).ok()?;
        }
        let (mut first, mut steps) = (next, 0);
        for from in &shard.from {
            let letter = from.recv().ok()?;
            first = first.min(letter.next);
            steps += letter.steps_begun;
            for news in letter.news {
                let woken = self.machinery.fifos.hear(news);
                if let Some((id, regions)) = woken.zip(self.regions.as_mut()) {
                    regions.tell(id, news.at);
                }
            }
        }
        Some((first, steps))
    }

    /// Puts what another shard has come to, to what this one has.
    fn join(&mut self, other: Done, number: u32) {
        let all = other.actors.into_iter().zip(other.cold).enumerate();
        for (id, (actor, cold)) in all.filter(|&(id, _)| other.of[id] == number) {
            (self.actors[id], self.cold[id]) = (actor, cold);
        }
        // Who takes no part in a shard has finished nothing in it.
        for (own, theirs) in self.finish.iter_mut().zip(other.finish) {
            for (own, theirs) in own.iter_mut().zip(theirs) {
                *own = theirs.max(*own);
            }
        }
        self.machinery.fifos.join(&other.fifos);
        self.now = self.now.max(other.now);
        self.past_the_clock |= other.past_the_clock;
        self.events += other.events;
        self.transfers += other.transfers;
    }

    /// Starts the ranks and proxies that are wanted.
    pub(super) fn begin_those(&mut self, wanted: impl Fn(ActorId) -> bool) {
        for rank in 0..self.ranks.len() {
            let (first, last) = self.ranks[rank].workers;
            // A rank without workers is done at once, wherever.
            if first == last || wanted(self.rank_workers[first as usize]) {
                self.launch(rank);
            }
        }
        for proxy in (self.workers..self.actors.len() as u32).filter(|&p| wanted(p)) {
            self.try_begin(proxy);
        }
        self.quiet_instant();
    }
}

/// Another processor's shard.
fn apart(
    plan: &Plan,
    (machinery, cast): (Machinery, Cast),
    options: Options<'_>,
    shard: Shard,
) -> Done {
    let mut blind = Blind;
    let mut run = Run::new(plan, machinery, cast, options, &mut blind);
    run.by_group = true;
    if let Some(regions) = run.regions(MOST_ACTORS) {
        run.run_shard(&shard, regions);
    }
    let past_the_clock = run.passes_the_clock();
    Done {
        of: shard.of,
        actors: run.actors,
        cold: run.cold,
        fifos: run.machinery.fifos,
        finish: run.finish,
        now: run.now,
        past_the_clock,
        events: run.events,
        transfers: run.transfers,
    }
}
