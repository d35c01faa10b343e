//! What makes the difference between two collectives, where they differ in more than one factor: one
//! factor after the other takes the second one's value, and each time is simulated.
//!
//! The order is fixed: faults of the first go, then the machine (with NCCL's environment) changes, then
//! the algorithm, then the protocol, and faults of the second come. The change of the machine, under one
//! algorithm and protocol, is told by causes; each other step is one part.

use super::trial::Trial;
use super::valid::ValidCollective;
use fabricsim_budget::Budget;
use fabricsim_nccl::{Algorithm, Forced};
use fabricsim_plan::ProtocolKind;
use fabricsim_report::record::Row;
use fabricsim_report::{Change, Part, Waterfall, waterfall};

/// One of the two that are compared: its job and the row that it is compared by.
#[derive(Clone, Copy)]
pub(super) struct Side<'s> {
    pub(super) name: &'s str,
    pub(super) job: &'s ValidCollective,
    pub(super) size: u64,
    pub(super) row: &'s Row,
}

impl Side<'_> {
    /// The parts of its time.
    fn parts(&self) -> Option<Vec<Part>> {
        Some(self.row.causes.as_ref()?.changes())
    }

    /// The same without its faults.
    fn healthy(&self, budget: &Budget) -> Option<Vec<Part>> {
        if self.job.faults.is_empty() {
            return self.parts();
        }
        let trial = Trial::new(self.job, self.job.faults.healthy(), budget);
        timed(&mut trial.ok()?, self.size, self.job.forced)
    }
}

/// From one time to another, change by change.
struct Way {
    /// The parts of the time that it has come to.
    at: Vec<Part>,
    changes: Vec<Part>,
    order: Vec<&'static str>,
}

impl Way {
    /// To a time of the same algorithm and protocol, by causes.
    fn by_cause(&mut self, what: &'static str, to: Vec<Part>) {
        self.changes
            .extend(waterfall(("", &self.at), ("", &to)).parts);
        self.order.push(what);
        self.at = to;
    }

    /// To a time that one thing makes.
    fn by(&mut self, cause: String, what: &'static str, to: Vec<Part>) {
        let time = Change(sum(&to) - sum(&self.at));
        self.changes.push(Part { cause, time });
        self.order.push(what);
        self.at = to;
    }

    /// To the time of a side with its faults, or without them; no step, where they change nothing.
    fn by_fault(&mut self, side: &Side<'_>, what: &'static str, to: Vec<Part>) {
        if sum(&to) == sum(&self.at) {
            self.at = to;
        } else {
            self.by(format!("faults of {}", side.name), what, to);
        }
    }

    /// The changes as a waterfall, the largest first; those of nothing left out.
    fn waterfall(self, from: Side<'_>, to: Side<'_>, begin: &[Part]) -> Waterfall {
        let mut parts = self.changes;
        parts.retain(|part| part.time != Change(0));
        parts.sort_by_key(|part| std::cmp::Reverse(part.time.0.unsigned_abs()));
        let order = self.order.join(", ");
        Waterfall {
            total: Change(sum(&parts)),
            parts,
            order: (self.order.len() > 1).then(|| format!("In this order: {order}.")),
            ..waterfall((from.name, begin), (to.name, begin))
        }
    }
}

fn sum(parts: &[Part]) -> i64 {
    parts.iter().map(|part| part.time.0).sum()
}

/// The waterfall from one collective to another, which have the `same_faults` or not; nothing where
/// one moves nothing.
pub(super) fn between(
    from: Side<'_>,
    to: Side<'_>,
    same_faults: bool,
    budget: &Budget,
) -> Option<Waterfall> {
    let (begin, end) = (from.parts()?, to.parts()?);
    let mut way = Way {
        at: begin.clone(),
        changes: Vec::new(),
        order: Vec::new(),
    };
    // The second one without its faults, where these are not those of both.
    let mut target = end.clone();
    if !same_faults {
        way.by_fault(&from, "the first one's faults go", from.healthy(budget)?);
        target = to.healthy(budget)?;
    }
    change_machine(&mut way, (from, to), (target, same_faults), budget);
    way.by_fault(&to, "the second one's faults come", end);
    Some(way.waterfall(from, to, &begin))
}

/// From the first one's machine, algorithm and protocol to the second one's, which then takes
/// `target`.
fn change_machine(
    way: &mut Way,
    (from, to): (Side<'_>, Side<'_>),
    (target, same_faults): (Vec<Part>, bool),
    budget: &Budget,
) {
    const MACHINE: &str = "the machine changes";
    let (old, new) = (choice(from.row), choice(to.row));
    let chooses = |side: &Side<'_>| side.job.msccl.is_none();
    let free = chooses(&from) && chooses(&to) && !to.job.collective.is_point_to_point();
    let faults = match same_faults {
        true => to.job.faults.clone(),
        false => to.job.faults.healthy(),
    };
    let trial = || Trial::new(to.job, faults, budget).ok();
    // Where NCCL cannot be made to do on the second machine what it does on the first one, or does
    // the same there anyway, all of it is the machine's.
    let forced = match (old, new) {
        (Some(old), Some(new)) if free && old != new => Some((old, new)),
        _ => None,
    };
    let first = forced.and_then(|(old, new)| {
        let mut trial = trial()?;
        let moved = timed(&mut trial, to.size, forced_to(old))?;
        Some((old, new, trial, moved))
    });
    let Some((old, new, mut trial, moved)) = first else {
        way.by_cause(MACHINE, target);
        return;
    };
    way.by_cause(MACHINE, moved);
    let (algorithm, protocol) = (old.0 != new.0, old.1 != new.1);
    let names = |old: &str, new: &str| format!("{old} → {new}");
    let algorithms = names(old.0.name(), new.0.name());
    let protocols = names(old.1.name(), new.1.name());
    let between = match algorithm && protocol {
        true => timed(&mut trial, to.size, forced_to((new.0, old.1))),
        false => None,
    };
    let apart = between.is_some();
    if let Some(between) = between {
        way.by(
            format!("algorithm: {algorithms}"),
            "the algorithm changes",
            between,
        );
    }
    let (cause, what) = match (algorithm && !apart, protocol) {
        (true, false) => (format!("algorithm: {algorithms}"), "the algorithm changes"),
        (false, _) => (format!("protocol: {protocols}"), "the protocol changes"),
        (true, true) => (
            format!(
                "algorithm and protocol: {} {} → {} {}",
                old.0.name(),
                old.1.name(),
                new.0.name(),
                new.1.name()
            ),
            "algorithm and protocol change",
        ),
    };
    way.by(cause, what, target);
}

/// An algorithm and a protocol.
type Choice = (Algorithm, ProtocolKind);

/// What a row was done by.
fn choice(row: &Row) -> Option<Choice> {
    let algorithm = Algorithm::ALL.into_iter().find(|a| a.name() == row.algo);
    let protocol = ProtocolKind::ALL
        .into_iter()
        .find(|p| p.name() == row.proto);
    Some((algorithm?, protocol?))
}

fn forced_to((algorithm, protocol): Choice) -> Forced {
    Forced {
        algorithm: Some(algorithm),
        protocol: Some(protocol),
    }
}

/// The parts of what a size takes; nothing if it cannot be had.
fn timed(trial: &mut Trial<'_>, size: u64, forced: Forced) -> Option<Vec<Part>> {
    Some(trial.time(size, forced).ok()??.changes())
}
