//! What the execution of jobs at once comes down to, for the report.

use super::valid::{PartWork, ValidConcurrent, ValidPart};
use crate::serving::{Medians, ValidServing};
use fabricsim_engine::job::{JobOutcome, Rehearsed};
use fabricsim_plan::job::{Job, JobPart};
use fabricsim_report::Change;
use fabricsim_report::concurrent::{ConcurrentJob, ConcurrentRow, SharedGpus, SharedLink};
use fabricsim_report::training::RankUse;
use fabricsim_topology::LinkId;
use fabricsim_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// When each size or step of a job ended, one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Ended {
    pub(super) rows: Vec<Time>,
    /// Of serving: what half of the requests see.
    pub(super) served: Option<Medians>,
}

impl Ended {
    /// How long each took, in picoseconds, from the end of the one before or the job's start.
    fn times(&self, start: Time) -> impl Iterator<Item = Time> {
        let before = std::iter::once(start).chain(self.rows.iter().copied());
        let each = self.rows.iter().zip(before);
        each.map(|(end, before)| end.saturating_sub(before))
    }
}

/// One job's results beside others and by itself.
pub(super) fn job_result(
    part: &ValidPart,
    ended: &Ended,
    alone: &Ended,
    shared: Option<SharedLink>,
) -> ConcurrentJob {
    if let PartWork::Serving(job) = &part.work {
        return served((part, job), (ended, alone), shared);
    }
    let times = ended.times(part.start).zip(alone.times(part.start));
    let times: Vec<(Time, Time)> = times.collect();
    let rows = times.iter().enumerate().map(|(index, &(time, alone))| {
        let (bytes, step, count) = match &part.work {
            PartWork::Collective(operations) => (
                operations.sizes.get(index).copied(),
                None,
                operations.repeat,
            ),
            PartWork::Stream(stream) => (Some(stream.bytes.get()), None, stream.repeat),
            PartWork::Training(_) | PartWork::Serving(_) => (None, Some(index as u32), 1),
        };
        let figures = Figures::new(time, alone, count);
        ConcurrentRow {
            bytes,
            step,
            what: None,
            count,
            time_us: figures.time_us,
            alone_us: figures.alone_us,
            slowdown: figures.slowdown,
        }
    });
    let rows: Vec<ConcurrentRow> = rows.collect();
    let headline = headline(part, &times);
    let (kind, what) = match &part.work {
        PartWork::Collective(operations) => ("collective", operations.collective.name()),
        PartWork::Training(training) => ("training", training.model_name.as_str()),
        PartWork::Serving(job) => ("serving", job.model_name.as_str()),
        PartWork::Stream(_) => ("stream", "bytes"),
    };
    ConcurrentJob {
        name: part.name.clone(),
        kind: kind.to_owned(),
        what: what.to_owned(),
        gpus: ranges(&part.ranks),
        start_us: part.start.micros(),
        end_us: ended.rows.last().map_or(0.0, |end| end.micros()),
        time_us: headline.time_us,
        alone_us: headline.alone_us,
        slowdown: headline.slowdown,
        rows,
        shared,
        shared_gpus: None,
        whole_us: None,
        kw: None,
        waterfall: None,
    }
}

/// What users of a serving job see: its first tokens tell it, tokens stand below.
fn served(
    (part, job): (&ValidPart, &ValidServing),
    (ended, alone): (&Ended, &Ended),
    shared: Option<SharedLink>,
) -> ConcurrentJob {
    let (beside, by_itself) = (
        ended.served.unwrap_or_default(),
        alone.served.unwrap_or_default(),
    );
    let row = |what: &str, time: Time, alone: Time| {
        let figures = Figures::new(time, alone, 1);
        ConcurrentRow {
            bytes: None,
            step: None,
            what: Some(what.to_owned()),
            count: job.requests.len() as u32,
            time_us: figures.time_us,
            alone_us: figures.alone_us,
            slowdown: figures.slowdown,
        }
    };
    let first = Figures::new(beside.first_token, by_itself.first_token, 1);
    ConcurrentJob {
        name: part.name.clone(),
        kind: "serving".to_owned(),
        what: job.model_name.clone(),
        gpus: ranges(&part.ranks),
        start_us: part.start.micros(),
        end_us: beside.end.micros(),
        time_us: first.time_us,
        alone_us: first.alone_us,
        slowdown: first.slowdown,
        rows: vec![
            row("first token", beside.first_token, by_itself.first_token),
            row("a token", beside.token, by_itself.token),
        ],
        shared,
        shared_gpus: None,
        whole_us: None,
        kw: None,
        waterfall: None,
    }
}

/// A job's own time, as its results tell it first.
pub(super) fn time_of(part: &ValidPart, ended: &Ended) -> Change {
    let micros = match &part.work {
        PartWork::Serving(_) => ended.served.unwrap_or_default().first_token.micros(),
        _ => {
            let times: Vec<(Time, Time)> = ended.times(part.start).map(|t| (t, t)).collect();
            headline(part, &times).time_us
        }
    };
    Change((micros * 1e6).round() as i64)
}

/// What so many operations or steps together took, beside others and by themselves, for each.
struct Figures {
    time_us: f64,
    alone_us: f64,
    slowdown: f64,
}

impl Figures {
    fn new(time: Time, alone: Time, count: u32) -> Self {
        let mean = |time: Time| Time::round_micros(time.micros() / f64::from(count.max(1)));
        Figures {
            time_us: mean(time),
            alone_us: mean(alone),
            slowdown: match alone {
                Time::ZERO => 1.0,
                alone => time.picos() as f64 / alone.picos() as f64,
            },
        }
    }
}

/// What a job is told by: the operations of its largest size, or all of its steps.
fn headline(part: &ValidPart, times: &[(Time, Time)]) -> Figures {
    match &part.work {
        PartWork::Collective(operations) => {
            let sized = times.iter().zip(&operations.sizes);
            let largest = sized.max_by_key(|(_, size)| **size);
            let &(time, alone) = largest.map_or(&(Time::ZERO, Time::ZERO), |(times, _)| times);
            Figures::new(time, alone, operations.repeat)
        }
        PartWork::Stream(stream) => {
            let &(time, alone) = times.last().unwrap_or(&(Time::ZERO, Time::ZERO));
            Figures::new(time, alone, stream.repeat)
        }
        PartWork::Training(_) | PartWork::Serving(_) => {
            let time = times.iter().map(|(time, _)| *time).sum();
            let alone = times.iter().map(|(_, alone)| *alone).sum();
            Figures::new(time, alone, times.len() as u32)
        }
    }
}

/// Ranks in order as text: `0-7, 16`.
fn ranges(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(u32::to_string).collect(),
    });
    text.collect::<Vec<_>>().join(", ")
}

/// Of each job: of the links that it shares with jobs that run at the same time the one that all of
/// them together use longest.
pub(super) fn shared_links(
    valid: &ValidConcurrent,
    (job, rehearsed): (&Job, &[Rehearsed]),
    (parts, ended): (&[JobPart], &[Ended]),
    outcome: &JobOutcome,
) -> Vec<Option<SharedLink>> {
    // Seconds of each job on each link, at the link's rate.
    let mut busy: BTreeMap<LinkId, BTreeMap<usize, f64>> = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        for group in part.groups.clone() {
            let done = job.groups[group]
                .exchanges
                .iter()
                .zip(&outcome.traffic[group]);
            for (exchange, done) in done {
                for load in &rehearsed[exchange.0 as usize].loads {
                    let rate = valid.topology.rate(load.link).bytes_per_sec() as f64 * load.kept;
                    let seconds = f64::from(done.count) * load.bytes / rate;
                    let of_link = busy.entry(load.link).or_default();
                    *of_link.entry(index).or_default() += seconds;
                }
            }
        }
    }
    for (index, part) in parts.iter().enumerate() {
        for route in part.routes.clone() {
            let bytes = outcome.transfers[route].bytes.get() as f64;
            for hop in &job.transfer_routes[route].route.hops {
                let rate = valid.topology.rate(hop.link).bytes_per_sec() as f64;
                let of_link = busy.entry(hop.link).or_default();
                *of_link.entry(index).or_default() += bytes * hop.share.as_f64() / rate;
            }
        }
    }
    let meet = meet(valid, ended);
    let of_job = |index: usize| {
        let shared = busy.iter().filter_map(|(link, users)| {
            let own = *users.get(&index).filter(|seconds| **seconds > 0.0)?;
            let others = users.iter().filter(|(other, seconds)| {
                **other != index && **seconds > 0.0 && meet(index, **other)
            });
            let (with, seconds): (Vec<usize>, Vec<f64>) = others.unzip();
            (!with.is_empty()).then(|| (*link, with, own + seconds.iter().sum::<f64>()))
        });
        let longest = shared.max_by(|a, b| a.2.total_cmp(&b.2).then(b.0.cmp(&a.0)));
        longest.map(|(link, with, seconds)| SharedLink {
            link: valid.topology.link_name(link),
            with: with
                .into_iter()
                .map(|other| valid.jobs[other].name.clone())
                .collect(),
            busy_us: Time::round_micros(seconds * 1e6),
        })
    };
    (0..parts.len()).map(of_job).collect()
}

/// Whether two jobs ran at the same time: those of which one begins when the other is over share
/// nothing.
fn meet(valid: &ValidConcurrent, ended: &[Ended]) -> impl Fn(usize, usize) -> bool {
    let times: Vec<(Time, Time)> = valid.jobs.iter().zip(ended).map(span).collect();
    move |a, b| times[a].0 < times[b].1 && times[b].0 < times[a].1
}

/// Of each job: the GPUs on which others run at the same time, and those.
pub(super) fn shared_gpus(valid: &ValidConcurrent, ended: &[Ended]) -> Vec<Option<SharedGpus>> {
    let mut on_gpu: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, part) in valid.jobs.iter().enumerate() {
        for &rank in &part.ranks {
            on_gpu.entry(rank).or_default().push(index);
        }
    }
    let meet = meet(valid, ended);
    let of_job = |(index, part): (usize, &ValidPart)| {
        let mut with: BTreeSet<usize> = BTreeSet::new();
        let own = part.ranks.iter().copied();
        let gpus: Vec<u32> = own
            .filter(|rank| {
                let others = on_gpu.get(rank).into_iter().flatten();
                let others = others.filter(|&&other| other != index && meet(index, other));
                let others: Vec<usize> = others.copied().collect();
                with.extend(&others);
                !others.is_empty()
            })
            .collect();
        (!gpus.is_empty()).then(|| SharedGpus {
            gpus: ranges(&gpus),
            with: with.iter().map(|&o| valid.jobs[o].name.clone()).collect(),
        })
    };
    valid.jobs.iter().enumerate().map(of_job).collect()
}

/// From when to when a job ran.
fn span((part, ended): (&ValidPart, &Ended)) -> (Time, Time) {
    (part.start, ended.rows.last().copied().unwrap_or(part.start))
}

/// The actors of all jobs, as a timeline names them.
pub(super) fn ranks(valid: &ValidConcurrent, job: &Job, parts: &[JobPart]) -> Vec<RankUse> {
    let of_part = |(part, own): (&ValidPart, &JobPart)| -> Vec<RankUse> {
        let actors = job.actors[own.actors.clone()].iter();
        let actors = actors.map(|actor| RankUse {
            rank: actor.rank,
            gpu: valid.topology.device_name(valid.gpus[actor.rank as usize]),
            part: part.name.clone(),
            alike: actor.alike,
            time: Vec::new(),
        });
        actors.collect()
    };
    valid.jobs.iter().zip(parts).flat_map(of_part).collect()
}
