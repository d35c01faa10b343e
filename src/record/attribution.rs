//! Where the time of all workers went, and that of each rank's.

use super::causes;
use super::names::Names;
use fabricsim_collective::WorkerId;
use fabricsim_engine::path::Kind;
use fabricsim_engine::resources::ResourceId;
use fabricsim_engine::{Bins, Outcome};
use fabricsim_plan::Plan;
use fabricsim_report::cause::Cause;
use fabricsim_report::record::{Attribution, Part, PartKind};
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::Time;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a worker's time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Working(Kind),
    WaitData,
    WaitCredit,
    Idle,
}

/// Parts by what they are called.
type Labelled = BTreeMap<String, (PartKind, Time)>;

/// What is to be told.
pub(super) struct Account<'a> {
    pub(super) topology: &'a Topology,
    pub(super) plan: &'a Plan,
    pub(super) outcome: &'a Outcome,
    /// Ranks that get an account of their own.
    pub(super) ranks: usize,
}

fn times_of(bins: &Bins) -> impl Iterator<Item = (Doing, Time)> {
    let limited = bins.limited.iter();
    let limited = limited.map(|&(r, t)| (Doing::Working(Kind::Limited(r)), t));
    [
        (Doing::Working(Kind::Launch), bins.launch),
        (Doing::Working(Kind::Latency), bins.latency),
        (Doing::WaitData, bins.wait_data),
        (Doing::WaitCredit, bins.wait_credit),
        (Doing::Working(Kind::Sync), bins.sync),
        (Doing::Working(Kind::CopyRate), bins.at_cap),
        (Doing::Idle, bins.idle),
    ]
    .into_iter()
    .chain(limited)
    .filter(|(_, time)| *time > Time::ZERO)
}

/// What a cause is called as a part of some time.
#[must_use]
pub fn label(cause: &Cause) -> String {
    match cause {
        Cause::Links { links } => format!("limited by {links}"),
        other => other.name().to_owned(),
    }
}

fn labelled(times: impl Iterator<Item = (Doing, Time)>, names: &Names) -> Labelled {
    let mut labelled = Labelled::new();
    for (doing, time) in times {
        let (kind, name) = match doing {
            Doing::Working(kind) => {
                let cause = causes::cause(kind, names);
                (PartKind::from(&cause), label(&cause))
            }
            Doing::WaitData => (PartKind::WaitData, "waiting for data".to_owned()),
            Doing::WaitCredit => (PartKind::WaitCredit, "waiting for credit".to_owned()),
            Doing::Idle => (PartKind::Idle, "finished".to_owned()),
        };
        labelled.entry(name).or_insert((kind, Time::ZERO)).1 += time;
    }
    labelled
}

fn parts(labelled: &Labelled, order: &[(String, PartKind)]) -> Vec<Part> {
    let whole: Time = labelled.values().map(|(_, time)| *time).sum();
    let part = |(what, kind): &(String, PartKind)| {
        let time = labelled.get(what).map_or(Time::ZERO, |(_, time)| *time);
        Part {
            what: what.clone(),
            kind: *kind,
            time,
            fraction: if whole == Time::ZERO {
                0.0
            } else {
                time.picos() as f64 / whole.picos() as f64
            },
        }
    };
    order.iter().map(part).collect()
}

impl Account<'_> {
    /// The attribution; the critical path is told by the row's causes.
    pub(super) fn tell(&self, faulty: &dyn Fn(LinkId) -> bool) -> Attribution {
        let mut total: BTreeMap<Doing, Time> = BTreeMap::new();
        for (bins, count) in self.outcome.bins() {
            for (doing, time) in times_of(bins) {
                *total.entry(doing).or_default() += time.times(u64::from(count));
            }
        }
        let mut judged: BTreeMap<ResourceId, u128> = BTreeMap::new();
        for (doing, time) in &total {
            if let Doing::Working(Kind::Limited(resource)) = doing {
                judged.insert(*resource, u128::from(time.picos()));
            }
        }
        let names = Names::new(self.topology, self.outcome, &judged, faulty);
        let all = labelled(total.into_iter(), &names);
        let mut order: Vec<(&String, &(PartKind, Time))> = all.iter().collect();
        order.sort_by_key(|(name, (_, time))| (Reverse(*time), *name));
        let order = order
            .into_iter()
            .map(|(name, (kind, _))| (name.clone(), *kind));
        let order: Vec<(String, PartKind)> = order.collect();
        Attribution {
            total: parts(&all, &order),
            critical_path: Vec::new(),
            ranks: self.ranks(&names, &order),
        }
    }

    /// The same parts of each rank.
    fn ranks(&self, names: &Names, order: &[(String, PartKind)]) -> Vec<Vec<Part>> {
        let program = self.plan.program.as_ref();
        let ranks = (program.ranks() as usize).min(self.ranks);
        let mut times: Vec<BTreeMap<Doing, Time>> = vec![BTreeMap::new(); ranks];
        for worker in (0..program.workers()).map(WorkerId) {
            let rank = program.worker(worker).rank.index();
            if let (Some(own), Some(bins)) = (times.get_mut(rank), self.outcome.bins_of(worker)) {
                for (doing, time) in times_of(bins) {
                    *own.entry(doing).or_default() += time;
                }
            }
        }
        let of = |times: BTreeMap<Doing, Time>| parts(&labelled(times.into_iter(), names), order);
        times.into_iter().map(of).collect()
    }
}
