//! What each worker and proxy did when.

use super::cast::{Cast, Place, Side};
use fabricsim_engine::probe::{ActorId, Cause, Slice};
use fabricsim_plan::Plan;
use fabricsim_report::record::{Activity, RankTrack, Span, Track};
use fabricsim_topology::Topology;
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;

/// What a span says; text is made only of what is kept to the end.
#[derive(Debug, Clone, Copy)]
enum Label {
    Name(&'static str),
    /// The rank waited for.
    DataFrom(u32),
    CreditFrom(u32),
    DataOnItsWay(u32),
    CreditOnItsWay(u32),
}

impl Label {
    fn text(self) -> String {
        match self {
            Label::Name(name) => name.to_owned(),
            Label::DataFrom(rank) => format!("waiting for data from rank {rank}"),
            Label::CreditFrom(rank) => format!("waiting for credit from rank {rank}"),
            Label::DataOnItsWay(rank) => format!("data from rank {rank} on its way"),
            Label::CreditOnItsWay(rank) => format!("credit from rank {rank} on its way"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Raw {
    start: Time,
    end: Time,
    bytes: u64,
    label: Label,
    track: Track,
    activity: Activity,
}

/// The spans of the lowest ranks, as many of them as the limit allows; of the first, if it alone is
/// too much, the beginning.
#[derive(Debug)]
pub(super) struct Spans {
    ranks: Vec<Vec<Raw>>,
    /// Those whose spans are kept, in order.
    kept: Vec<u32>,
    count: usize,
    limit: usize,
    /// The limit was met with one rank left.
    cut: bool,
    /// Up to when a worker's track is filled.
    filled: Vec<Time>,
    /// The same of proxies: all of one channel share a track.
    proxies: FxHashMap<(u32, u16), Time>,
}

impl Spans {
    pub(super) fn new(cast: &Cast, ranks: u32, limit: usize) -> Self {
        Spans {
            ranks: vec![Vec::new(); ranks as usize],
            kept: cast.ranks().into_iter().collect(),
            count: 0,
            limit,
            cut: false,
            filled: vec![Time::ZERO; cast.workers as usize],
            proxies: FxHashMap::default(),
        }
    }

    fn push(&mut self, rank: u32, raw: Raw) {
        if raw.start >= raw.end || !self.keeps(rank) || self.cut {
            return;
        }
        self.ranks[rank as usize].push(raw);
        self.count += 1;
        while self.count > self.limit {
            if self.kept.len() <= 1 {
                self.cut = true;
                return;
            }
            let Some(last) = self.kept.pop() else { return };
            self.count -= std::mem::take(&mut self.ranks[last as usize]).len();
        }
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
                    label: Label::Name("launch"),
                    track: Track::Worker(place.channel, place.lane),
                    activity: Activity::Launch,
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
                    label: Label::Name("finished"),
                    track: Track::Worker(place.channel, place.lane),
                    activity: Activity::Idle,
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
    }

    fn worker_slice(&mut self, cast: &Cast, slice: &Slice, place: Place) {
        let (wait, wait_for, late, late_for) = match slice.cause {
            Cause::Data(fifo) => {
                let peer = cast.peer(place, fifo, Side::Sender);
                let (wait, late) = (Label::DataFrom(peer), Label::DataOnItsWay(peer));
                (wait, Activity::WaitData, late, Activity::Latency)
            }
            Cause::Credit(fifo) => {
                let peer = cast.peer(place, fifo, Side::Receiver);
                let (wait, late) = (Label::CreditFrom(peer), Label::CreditOnItsWay(peer));
                (wait, Activity::WaitCredit, late, Activity::Latency)
            }
            Cause::After(_) => {
                let label = Label::Name("wait for another part of the kernel");
                (label, Activity::WaitData, label, Activity::WaitData)
            }
            Cause::Own | Cause::Launch => {
                let label = Label::Name("synchronise");
                (label, Activity::Sync, label, Activity::Sync)
            }
        };
        let track = Track::Worker(place.channel, place.lane);
        let pieces = [
            (slice.free, slice.posted, wait, wait_for, 0),
            (slice.posted, slice.start, late, late_for, 0),
            (
                slice.start,
                slice.end,
                Label::Name(slice.name),
                Activity::Stream,
                slice.moved,
            ),
            (
                slice.end,
                slice.done,
                Label::Name("synchronise"),
                Activity::Sync,
                0,
            ),
        ];
        for (start, end, label, activity, bytes) in pieces {
            self.push(
                place.rank,
                Raw {
                    start,
                    end,
                    bytes,
                    label,
                    track,
                    activity,
                },
            );
        }
    }

    /// Several connections of one channel may stream at once. As they share one track,
    /// what lies under an earlier span is cut off.
    fn proxy_slice(&mut self, cast: &Cast, slice: &Slice, place: Place) {
        let Place { rank, channel, .. } = place;
        let filled = self.proxies.entry((rank, channel)).or_default();
        let from = *filled;
        *filled = slice.end.max(from);
        let track = Track::Proxy(channel);
        let handling = Raw {
            start: cast.ready(slice).max(from),
            end: slice.start,
            bytes: 0,
            label: Label::Name("message"),
            track,
            activity: Activity::Sync,
        };
        self.push(rank, handling);
        let streaming = Raw {
            start: slice.start.max(from),
            end: slice.end,
            bytes: slice.moved,
            label: Label::Name(slice.name),
            track,
            activity: Activity::Stream,
        };
        self.push(rank, streaming);
    }

    /// The ranks kept, and their spans by start. Of a `whole` simulation, who has nothing left to do
    /// is idle up to its `end`.
    pub(super) fn finish(
        mut self,
        cast: &Cast,
        topology: &Topology,
        plan: &Plan,
        (end, whole): (Time, bool),
    ) -> (Vec<RankTrack>, Vec<Span>) {
        if whole {
            for worker in 0..cast.workers {
                self.idle(cast, worker, end);
            }
        }
        let tracks = self
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
                what: raw.label.text(),
                bytes: Bytes::new(raw.bytes),
                activity: raw.activity,
                start: raw.start,
                end: raw.end,
            }));
        }
        spans.sort_by_key(|span| (span.start, span.rank, span.track));
        (tracks, spans)
    }
}
