//! What makes the difference between two collectives, where they differ in more than one factor: one
//! factor after the other takes the second one's value, and each time is simulated.
//!
//! The order is fixed: faults of the first go, then the machine (with NCCL's environment) changes, then
//! the algorithm, then the protocol, and faults of the second come. The change of the machine, under one
//! algorithm and protocol, is told by causes; each other step is one part.

use super::prices::healthy;
use super::run::time_at;
use super::valid::ValidCollective;
use fabricsim_budget::Budget;
use fabricsim_collective::Collective;
use fabricsim_nccl::{Algorithm, Forced};
use fabricsim_plan::ProtocolKind;
use fabricsim_report::cause::{CausePart, Causes};
use fabricsim_report::record::Row;
use fabricsim_report::{Change, Part, Waterfall, waterfall};
use fabricsim_units::Time;

/// One of the two that are compared: its job and the row that it is compared by.
#[derive(Clone, Copy)]
pub(super) struct Side<'s> {
    pub(super) name: &'s str,
    pub(super) job: &'s ValidCollective,
    pub(super) size: u64,
    pub(super) row: &'s Row,
    /// Whether both sides have the same faults.
    pub(super) same_faults: bool,
}

/// A time with its causes.
struct Timed {
    time: Time,
    parts: Vec<Part>,
}

impl Timed {
    fn of(causes: &Causes) -> Self {
        let part = |part: &CausePart| Part::new(part.cause.name(), part.time());
        Timed {
            time: causes.total(),
            parts: causes.parts.iter().map(part).collect(),
        }
    }
}

/// The waterfall from one collective to another; nothing where one moves nothing.
pub(super) fn between(from: Side<'_>, to: Side<'_>, budget: &Budget) -> Option<Waterfall> {
    let (first, last) = (
        Timed::of(from.row.causes.as_ref()?),
        Timed::of(to.row.causes.as_ref()?),
    );
    let same_faults = from.same_faults;
    // Both without their faults, where these differ.
    let sound = |side: Side<'_>| match same_faults || side.job.faults.is_empty() {
        true => Some(Timed::of(side.row.causes.as_ref()?)),
        false => timed(&healthy(side.job), side.size, None, budget),
    };
    let (before, after) = (sound(from)?, sound(to)?);
    let mut parts = vec![lump("faults of", from.name, first.time, before.time)];
    let mut order = Vec::new();
    if first.time != before.time {
        order.push("the first one's faults go");
    }
    let mut at = before;
    let plan = |row: &Row| (row.algo.clone(), row.proto.clone());
    let ((algo, proto), (to_algo, to_proto)) = (plan(from.row), plan(to.row));
    let forced = |algo: &str, proto: &str| -> Option<Forced> {
        Some(Forced {
            algorithm: Some(Algorithm::ALL.into_iter().find(|a| a.name() == algo)?),
            protocol: Some(ProtocolKind::ALL.into_iter().find(|p| p.name() == proto)?),
        })
    };
    let may_force = to.job.msccl.is_none() && from.job.msccl.is_none();
    let may_force = may_force && has_choice(to.job.collective);
    let target = match same_faults {
        true => to.job.clone(),
        false => healthy(to.job),
    };
    let with = |algo: &str, proto: &str| -> Option<Timed> {
        timed(&target, to.size, Some(forced(algo, proto)?), budget)
    };
    let mut by_cause = Vec::new();
    let mut rest = "algorithm and protocol";
    if may_force && (&algo, &proto) != (&to_algo, &to_proto) {
        if let Some(moved) = with(&algo, &proto) {
            by_cause = causes(&at, &moved);
            at = moved;
            order.push("the machine changes");
            if algo != to_algo
                && proto != to_proto
                && let Some(moved) = with(&to_algo, &proto)
            {
                let what = format!("algorithm: {algo} → {to_algo}");
                parts.push(Part {
                    cause: what,
                    time: change(at.time, moved.time),
                });
                order.push("the algorithm changes");
                at = moved;
                rest = "protocol";
            } else if algo == to_algo {
                rest = "protocol";
            } else if proto == to_proto {
                rest = "algorithm";
            }
            let what = match rest {
                "protocol" => format!("protocol: {proto} → {to_proto}"),
                "algorithm" => format!("algorithm: {algo} → {to_algo}"),
                _ => format!("algorithm and protocol: {algo} {proto} → {to_algo} {to_proto}"),
            };
            parts.push(Part {
                cause: what,
                time: change(at.time, after.time),
            });
            order.push(match rest {
                "protocol" => "the protocol changes",
                "algorithm" => "the algorithm changes",
                _ => "algorithm and protocol change",
            });
        } else {
            by_cause = causes(&at, &after);
        }
    } else {
        by_cause.extend(causes(&at, &after));
        if !order.is_empty() || after.time != last.time {
            order.push("the machine changes");
        }
    }
    parts.extend(by_cause);
    parts.push(lump("faults of", to.name, after.time, last.time));
    if after.time != last.time {
        order.push("the second one's faults come");
    }
    Some(joined(&from, &to, first.time, parts, &order))
}

/// Whether NCCL has algorithms to choose from.
fn has_choice(collective: Collective) -> bool {
    !matches!(
        collective,
        Collective::AllToAll
            | Collective::AllToAllV
            | Collective::SendRecv
            | Collective::SendRecvPairs
            | Collective::SendRecvHalves
            | Collective::Gather
            | Collective::Scatter
    )
}

fn change(from: Time, to: Time) -> Change {
    Change(to.picos() as i64 - from.picos() as i64)
}

fn lump(what: &str, name: &str, from: Time, to: Time) -> Part {
    Part {
        cause: format!("{what} {name}"),
        time: change(from, to),
    }
}

/// The changes of each cause.
fn causes(from: &Timed, to: &Timed) -> Vec<Part> {
    waterfall(("", &from.parts), ("", &to.parts)).parts
}

/// A size under some choice, with its causes; nothing if it cannot be had.
fn timed(
    job: &ValidCollective,
    size: u64,
    forced: Option<Forced>,
    budget: &Budget,
) -> Option<Timed> {
    let causes = time_at(job, size, forced, budget).ok()??;
    Some(Timed::of(&causes))
}

/// The parts as a waterfall, the largest first; those of nothing left out.
fn joined(
    from: &Side<'_>,
    to: &Side<'_>,
    begin: Time,
    parts: Vec<Part>,
    order: &[&str],
) -> Waterfall {
    let start = [Part::new("", begin)];
    let mut parts: Vec<Part> = parts.into_iter().filter(|p| p.time != Change(0)).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.time.0.unsigned_abs()));
    let total = parts.iter().map(|part| part.time.0).sum();
    let order = (order.len() > 1).then(|| format!("In this order: {}.", order.join(", ")));
    Waterfall {
        total: Change(total),
        parts,
        order,
        ..waterfall((from.name, &start), (to.name, &start))
    }
}
