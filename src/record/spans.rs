//! What each worker and proxy did when.

use super::Limits;
use super::cast::{Cast, Place, Side};
use super::messages::{Messages, Part};
use fabricsim_engine::probe::{ActorId, Cause, Slice};
use fabricsim_plan::Plan;
use fabricsim_report::record::{Doing, MessageEnd, RankTrack, Span, Track};
use fabricsim_topology::Topology;
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

#[derive(Debug, Clone, Copy)]
struct Raw {
    start: Time,
    end: Time,
    bytes: u64,
    doing: Doing,
    track: Track,
}

/// The spans of the lowest ranks, as many of them as the limits allow; of the first, if it alone is
/// too much, the beginning.
#[derive(Debug)]
pub(super) struct Spans {
    ranks: Vec<Vec<Raw>>,
    /// Those whose spans are kept, in order.
    kept: Vec<u32>,
    count: usize,
    limits: Limits,
    /// The limit was met with one rank left.
    cut: bool,
    /// Up to when a worker's track is filled.
    filled: Vec<Time>,
    /// The same of proxies, all of one channel share a track, with when the span there begins that
    /// ends then.
    proxies: FxHashMap<(u32, u16), (Time, Time)>,
    messages: Messages,
}

/// What is left of the ranks that are kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) ranks: Vec<RankTrack>,
    /// By start.
    pub(super) spans: Vec<Span>,
    pub(super) messages: Vec<SmallVec<[MessageEnd; 3]>>,
}

impl Spans {
    pub(super) fn new(cast: &Cast, ranks: u32, limits: Limits) -> Self {
        Spans {
            ranks: vec![Vec::new(); ranks as usize],
            kept: cast.ranks().into_iter().collect(),
            count: 0,
            limits,
            cut: false,
            filled: vec![Time::ZERO; cast.workers as usize],
            proxies: FxHashMap::default(),
            messages: Messages::new(cast, ranks),
        }
    }

    /// Whether the span is kept, as yet.
    fn push(&mut self, rank: u32, raw: Raw) -> bool {
        if raw.start >= raw.end || !self.keeps(rank) || self.cut {
            return false;
        }
        self.ranks[rank as usize].push(raw);
        self.count += 1;
        while self.count > self.limits.spans {
            if self.kept.len() <= 1 {
                self.cut = true;
                break;
            }
            let Some(last) = self.kept.pop() else { break };
            self.count -= std::mem::take(&mut self.ranks[last as usize]).len();
            self.messages.forget(last);
        }
        self.keeps(rank)
    }

    fn keeps(&self, rank: u32) -> bool {
        self.kept.last().is_some_and(|&last| rank <= last)
    }

    pub(super) fn launch(&mut self, cast: &Cast, worker: ActorId, from: Time, to: Time) {
        self.idle(cast, worker, from);
        self.filled[worker as usize] = to;
        for place in cast.places(worker) {
            self.push(
                place.rank,
                Raw {
                    start: from,
                    end: to,
                    bytes: 0,
                    doing: Doing::Launch,
                    track: Track::Worker(place.channel, place.lane),
                },
            );
        }
    }

    /// A worker has nothing to do from where its track ends until then.
    fn idle(&mut self, cast: &Cast, worker: ActorId, until: Time) {
        let start = self.filled[worker as usize];
        for place in cast.places(worker) {
            self.push(
                place.rank,
                Raw {
                    start,
                    end: until,
                    bytes: 0,
                    doing: Doing::Finished,
                    track: Track::Worker(place.channel, place.lane),
                },
            );
        }
    }

    pub(super) fn slice(&mut self, cast: &Cast, slice: &Slice) {
        if !cast.is_proxy(slice.actor) {
            self.filled[slice.actor as usize] = slice.done;
        }
        for &place in cast.places(slice.actor) {
            if !self.keeps(place.rank) {
                continue;
            }
            if cast.is_proxy(slice.actor) {
                self.proxy_slice(cast, slice, place);
            } else {
                self.worker_slice(cast, slice, place);
            }
        }
        self.messages.count(slice);
    }

    fn worker_slice(&mut self, cast: &Cast, slice: &Slice, place: Place) {
        let (wait, late) = match slice.cause {
            Cause::Data(fifo) => {
                let peer = cast.peer(place, fifo, Side::Sender).rank;
                (Doing::WaitForData(peer), Doing::DataOnItsWay(peer))
            }
            Cause::Credit(fifo) => {
                let peer = cast.peer(place, fifo, Side::Receiver).rank;
                (Doing::WaitForCredit(peer), Doing::CreditOnItsWay(peer))
            }
            Cause::After(_) => (Doing::WaitForPart, Doing::WaitForPart),
            Cause::Own | Cause::Launch => (Doing::Synchronise, Doing::Synchronise),
        };
        let track = Track::Worker(place.channel, place.lane);
        let moves = Doing::Moves(slice.name);
        let pieces = [
            (slice.free, slice.posted, wait, 0),
            (slice.posted, slice.start, late, 0),
            (slice.start, slice.end, moves, slice.moved),
            (slice.end, slice.done, Doing::Synchronise, 0),
        ];
        for (start, end, doing, bytes) in pieces {
            let piece = Raw {
                start,
                end,
                bytes,
                doing,
                track,
            };
            if self.push(place.rank, piece) && doing == moves {
                let end = MessageEnd {
                    rank: place.rank,
                    track,
                    at: start,
                };
                self.messages.add(cast, (place, Part::Sends), slice, end);
                self.messages.add(cast, (place, Part::Receives), slice, end);
            }
        }
    }

    /// Several connections of one channel may stream at once. As they share one track,
    /// what lies under an earlier span is cut off.
    fn proxy_slice(&mut self, cast: &Cast, slice: &Slice, place: Place) {
        let Place { rank, channel, .. } = place;
        let key = (rank, channel);
        let (last, from) = self.proxies.get(&key).copied().unwrap_or_default();
        let track = Track::Proxy(channel);
        let handling = Raw {
            start: cast.ready(slice).max(from),
            end: slice.start,
            bytes: 0,
            doing: Doing::HandleMessage,
            track,
        };
        self.push(rank, handling);
        let streaming = Raw {
            start: slice.start.max(from),
            end: slice.end,
            bytes: slice.moved,
            doing: Doing::Moves(slice.name),
            track,
        };
        // Another one's span may be in its place.
        let covered = slice.start < slice.end && slice.end == from;
        let kept = self.push(rank, streaming);
        if slice.end > from {
            self.proxies.insert(key, (streaming.start, slice.end));
        }
        if kept || covered && !self.cut {
            let at = if kept {
                streaming.start
            } else {
                last.max(slice.start)
            };
            let end = MessageEnd { rank, track, at };
            self.messages.add(cast, (place, Part::Passes), slice, end);
        }
    }

    /// What was kept. Of a `whole` simulation, who has nothing left to do
    /// is idle up to its `end`.
    pub(super) fn finish(
        mut self,
        cast: &Cast,
        topology: &Topology,
        plan: &Plan,
        (end, whole): (Time, bool),
    ) -> Kept {
        if whole {
            for worker in 0..cast.workers {
                self.idle(cast, worker, end);
            }
        }
        let ranks = self
            .kept
            .iter()
            .filter_map(|&rank| {
                let gpu = plan.gpus.get(rank as usize)?;
                Some(RankTrack {
                    rank,
                    name: topology.device_name(*gpu),
                })
            })
            .collect();
        let mut spans: Vec<Span> = Vec::with_capacity(self.count);
        for (rank, raws) in self.ranks.into_iter().enumerate() {
            spans.extend(raws.into_iter().map(|raw| Span {
                rank: rank as u32,
                track: raw.track,
                doing: raw.doing,
                bytes: Bytes::new(raw.bytes),
                start: raw.start,
                end: raw.end,
            }));
        }
        spans.sort_by_key(|span| (span.start, span.rank, span.track));
        Kept {
            ranks,
            spans,
            messages: self.messages.finish(self.limits.messages),
        }
    }
}
