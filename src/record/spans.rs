//! What each worker and proxy did when.

use super::{Cast, Place};
use fabricsim_engine::FifoId;
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

/// The spans of the lowest ranks, as many of them as the limit allows.
#[derive(Debug)]
pub(super) struct Spans {
    ranks: Vec<Vec<Raw>>,
    /// Ranks below this are kept.
    kept: usize,
    count: usize,
    limit: usize,
    /// Up to when a worker's track is filled.
    filled: Vec<Time>,
    /// The same of proxies: all of one channel share a track.
    proxies: FxHashMap<(u32, u16), Time>,
}

impl Spans {
    pub(super) fn new(cast: &Cast, ranks: u32, limit: usize) -> Self {
        Spans {
            ranks: vec![Vec::new(); ranks as usize],
            kept: ranks as usize,
            count: 0,
            limit,
            filled: vec![Time::ZERO; cast.workers as usize],
            proxies: FxHashMap::default(),
        }
    }

    fn push(&mut self, rank: u32, raw: Raw) {
        if raw.start >= raw.end || rank as usize >= self.kept {
            return;
        }
        self.ranks[rank as usize].push(raw);
        self.count += 1;
        while self.count > self.limit && self.kept > 0 {
            self.kept -= 1;
            self.count -= std::mem::take(&mut self.ranks[self.kept]).len();
        }
    }

    pub(super) fn launch(&mut self, cast: &Cast, worker: ActorId, from: Time, to: Time) {
        self.idle(cast, worker, from);
        let Place {
            rank,
            channel,
            lane,
        } = cast.place[worker as usize];
        self.filled[worker as usize] = to;
        self.push(
            rank,
            Raw {
                start: from,
                end: to,
                bytes: 0,
                label: Label::Name("launch"),
                track: Track::Worker(channel, lane),
                activity: Activity::Launch,
            },
        );
    }

    /// A worker has nothing to do from where its track ends until then.
    fn idle(&mut self, cast: &Cast, worker: ActorId, until: Time) {
        let Place {
            rank,
            channel,
            lane,
        } = cast.place[worker as usize];
        let start = self.filled[worker as usize];
        self.push(
            rank,
            Raw {
                start,
                end: until,
                bytes: 0,
                label: Label::Name("finished"),
                track: Track::Worker(channel, lane),
                activity: Activity::Idle,
            },
        );
    }

    pub(super) fn slice(&mut self, cast: &Cast, slice: &Slice) {
        let Place {
            rank,
            channel,
            lane,
        } = cast.place[slice.actor as usize];
        if rank as usize >= self.kept {
            return;
        }
        if cast.is_proxy(slice.actor) {
            self.proxy_slice(cast, slice, rank, channel);
            return;
        }
        self.filled[slice.actor as usize] = slice.done;
        let ends = |fifo: FifoId| cast.ends[cast.connection[fifo as usize] as usize];
        let (wait, wait_for, late, late_for) = match slice.cause {
            Cause::Data(fifo) => {
                let peer = ends(fifo).0;
                let (wait, late) = (Label::DataFrom(peer), Label::DataOnItsWay(peer));
                (wait, Activity::WaitData, late, Activity::Latency)
            }
            Cause::Credit(fifo) => {
                let peer = ends(fifo).1;
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
        let track = Track::Worker(channel, lane);
        let pieces = [
            (slice.free, slice.posted, wait, wait_for, 0),
            (slice.posted, slice.start, late, late_for, 0),
            (
                slice.start,
                slice.end,
                Label::Name(slice.name),
                Activity::Stream,
                slice.bytes,
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
                rank,
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
    fn proxy_slice(&mut self, cast: &Cast, slice: &Slice, rank: u32, channel: u16) {
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
            bytes: slice.bytes,
            label: Label::Name(slice.name),
            track,
            activity: Activity::Stream,
        };
        self.push(rank, streaming);
    }

    /// The ranks kept, their spans by start, and how many ranks were left out.
    pub(super) fn finish(
        mut self,
        cast: &Cast,
        topology: &Topology,
        plan: &Plan,
        end: Time,
    ) -> (Vec<RankTrack>, Vec<Span>, u32) {
        for worker in 0..cast.workers {
            self.idle(cast, worker, end);
        }
        let ranks = plan.gpus.iter().take(self.kept).zip(0..);
        let tracks = ranks
            .map(|(&gpu, rank)| RankTrack {
                rank,
                name: topology.device_name(gpu),
            })
            .collect();
        let omitted = self.ranks.len() - self.kept;
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
        (tracks, spans, omitted as u32)
    }
}
