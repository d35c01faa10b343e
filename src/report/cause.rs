//! What a time was spent on: causes with their parts, which add up to it, and sentences of them.
//!
//! A row, the sentence below a table, the page and the JSON all take theirs from one [`Causes`].

use super::numbers::{micros, percent, size};
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// What time is spent on.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Kernels start, or wait for the host to issue them.
    Launch,
    /// Data or credits are on their way.
    Latency,
    /// The protocol's own work for each slice: flags, fences, barriers, passes that are not full.
    Protocol,
    /// Network proxies handle messages.
    MessageHandling,
    /// Thread blocks copy and reduce as fast as they can.
    CopyRate,
    /// Single network connections carry all that they can.
    ConnectionRate,
    /// Links are full.
    Links {
        /// Which: a class such as `NVLink out of GPUs`, or one of them if it alone is full.
        links: String,
    },
    /// Waiting for data or free buffers of other ranks, where it is not known what these do.
    Waiting,
}

impl Cause {
    /// For people.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Cause::Launch => "kernel launch",
            Cause::Latency => "latency of links and network",
            Cause::Protocol => "protocol synchronisation",
            Cause::MessageHandling => "message handling of network proxies",
            Cause::CopyRate => "copy rate of NCCL's thread blocks",
            Cause::ConnectionRate => "rate of single network connections",
            Cause::Links { links } => links,
            Cause::Waiting => "waiting for other ranks",
        }
    }
}

/// A part of a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CausePart {
    /// What it was spent on.
    pub cause: Cause,
    /// Microseconds, six decimals: the parts of a whole add up to it in integer picoseconds.
    pub us: f64,
}

impl CausePart {
    /// The same in picoseconds.
    #[must_use]
    pub fn time(&self) -> Time {
        Time::from_picos((self.us * 1e6).round() as u64)
    }
}

/// From what the parts are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The chain of events that ends last, walked back from the finish.
    CriticalPath,
    /// The time of all thread blocks, scaled; what they wait for is taken to be what the network's
    /// proxies do, or without network what the other thread blocks do. Used where there are too many
    /// events to remember.
    WorkerTime,
}

/// What a time was spent on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Causes {
    /// From what they are known.
    pub method: Method,
    /// The largest first. They add up to the time that they explain.
    pub parts: Vec<CausePart>,
}

impl Causes {
    /// Of parts in any order; those of one cause become one, those of no time none.
    #[must_use]
    pub fn new(method: Method, parts: impl IntoIterator<Item = (Cause, Time)>) -> Self {
        let mut sums: Vec<(Cause, Time)> = Vec::new();
        for (cause, time) in parts {
            match sums.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, sum)) => *sum += time,
                None => sums.push((cause, time)),
            }
        }
        sums.retain(|&(_, time)| time > Time::ZERO);
        sums.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        let part = |(cause, time): (Cause, Time)| CausePart {
            cause,
            us: time.micros(),
        };
        Causes {
            method,
            parts: sums.into_iter().map(part).collect(),
        }
    }

    /// The time that they explain.
    #[must_use]
    pub fn total(&self) -> Time {
        self.parts.iter().map(CausePart::time).sum()
    }

    /// The parts by name, as differences are made of them.
    #[must_use]
    pub fn changes(&self) -> Vec<crate::Part> {
        let part = |part: &CausePart| crate::Part::new(part.cause.name(), part.time());
        self.parts.iter().map(part).collect()
    }

    /// The largest part: the bottleneck.
    #[must_use]
    pub fn largest(&self) -> Option<&CausePart> {
        self.parts.first()
    }

    /// The largest part in a few words: `NVLink out of GPUs (64 %)`.
    #[must_use]
    pub fn short(&self) -> String {
        match self.parts.first() {
            Some(part) => self.share(part, |name, share| format!("{name} ({share})")),
            None => "nothing to do".to_owned(),
        }
    }

    /// The largest parts in one clause: `NVLink out of GPUs 64 %, latency of … 20 %, the rest 16 %`.
    #[must_use]
    pub fn clause(&self) -> String {
        let whole = self.total();
        let worth = |part: &&CausePart| fraction(part.time(), whole) >= WORTH_IT;
        let told: Vec<&CausePart> = self.parts.iter().filter(worth).take(MOST_PARTS).collect();
        let rest = whole.saturating_sub(told.iter().map(|part| part.time()).sum());
        let parts = told.iter();
        let parts = parts.map(|part| self.share(part, |name, share| format!("{name} {share}")));
        let rest = (rest > Time::ZERO && fraction(rest, whole) >= 0.005)
            .then(|| format!("the rest {}", percent(fraction(rest, whole))));
        parts.chain(rest).collect::<Vec<_>>().join(", ")
    }

    fn share(&self, part: &CausePart, text: impl Fn(&str, &str) -> String) -> String {
        text(
            part.cause.name(),
            &percent(fraction(part.time(), self.total())),
        )
    }
}

/// Parts below this are not worth a mention …
const WORTH_IT: f64 = 0.03;
/// … and so many are enough.
const MOST_PARTS: usize = 4;

fn fraction(time: Time, whole: Time) -> f64 {
    if whole == Time::ZERO {
        0.0
    } else {
        time.picos() as f64 / whole.picos() as f64
    }
}

/// What a fault costs: the time with all faults less that with all but this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultCost {
    /// Its place in the list of faults, from 0.
    pub fault: usize,
    /// The ranks, links or devices, and what is wrong with them.
    pub description: String,
    /// Microseconds; negative if it is faster with the fault. `null` if without it nothing can be
    /// timed.
    pub cost_us: Option<f64>,
    /// Why it costs nothing, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<NoCost>,
}

/// Why a fault costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoCost {
    /// It begins after all is over.
    TooLate,
    /// Nothing crosses its links.
    NoTraffic,
    /// Nothing crosses its links, which lie between network switches: all stays below them.
    BelowTheSpines,
    /// Its links carry traffic, but it is over, or was away, whenever that would have had to wait.
    OutagesMissed,
    /// Others take at least as long: it is not on the critical path.
    OthersTakeLonger,
    /// NCCL plans without what has failed, and is as fast.
    PlannedAround,
    /// It touches no GPU that takes part.
    NotInvolved,
    /// Nothing goes another way: nothing leaves a node, or the machine has no faster one.
    SameWay,
}

impl NoCost {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            NoCost::TooLate => "it begins after all is over",
            NoCost::NoTraffic => "no traffic crosses these links",
            NoCost::BelowTheSpines => "all traffic stays below the switches that these links join",
            NoCost::OutagesMissed => "the outages met no traffic that had to wait for them",
            NoCost::OthersTakeLonger => "others take at least as long at the same time",
            NoCost::PlannedAround => "NCCL plans around what has failed and is as fast",
            NoCost::NotInvolved => "it touches no GPU that takes part",
            NoCost::SameWay => "nothing goes another way for it",
        }
    }
}

/// The fault that costs most, if one costs anything.
#[must_use]
pub fn culprit(costs: &[FaultCost]) -> Option<&FaultCost> {
    let cost = |fault: &FaultCost| fault.cost_us.unwrap_or(0.0);
    let costly = costs.iter().filter(|fault| cost(fault) > 0.0);
    costly.max_by(|a, b| {
        cost(a)
            .total_cmp(&cost(b))
            .then_with(|| b.fault.cmp(&a.fault))
    })
}

impl FaultCost {
    /// What it costs of a time, in words: `costs 114 µs of 330 µs`.
    #[must_use]
    pub fn outcome(&self, time_us: f64) -> String {
        match (self.cost_us, self.reason) {
            (Some(cost), _) if cost > 0.0 => {
                format!("costs {} of {}", micros(cost), micros(time_us))
            }
            (Some(cost), _) if cost < 0.0 => format!("makes it {} faster", micros(-cost)),
            (_, Some(reason)) => format!("costs nothing: {}", reason.text()),
            (Some(_), None) => "costs nothing".to_owned(),
            (None, None) => "without it nothing can be timed".to_owned(),
        }
    }
}

/// The same with what is wrong: `rank 3: GPU at 0.5 of its speed costs 114 µs of 330 µs`.
#[must_use]
pub fn price(fault: &FaultCost, time_us: f64) -> String {
    format!("{} {}", fault.description, fault.outcome(time_us))
}

/// What faults cost beside the culprit, sentence by sentence; empty for none.
#[must_use]
pub fn prices(costs: &[FaultCost], time_us: f64) -> String {
    let first = culprit(costs);
    let others = costs
        .iter()
        .filter(|fault| first.is_none_or(|first| first.fault != fault.fault));
    let mut text = first
        .into_iter()
        .chain(others)
        .map(|fault| price(fault, time_us))
        .collect::<Vec<_>>()
        .join("; ");
    if costs.iter().filter(|f| f.cost_us.is_some()).count() > 1 {
        text += " (each against a run with all the others)";
    }
    text
}

/// A fault that costs less than this part of the time is not what limits it.
const BLAMED: f64 = 0.01;

/// The fault that limits a time, if one does.
fn blamed(faults: &[FaultCost], time_us: f64) -> Option<&FaultCost> {
    let costs = |fault: &&FaultCost| fault.cost_us.unwrap_or(0.0) >= BLAMED * time_us;
    culprit(faults).filter(costs)
}

/// What limits a time: the name of its largest cause and a few words, or those of the fault that costs
/// most, if one costs anything to speak of.
#[must_use]
pub fn headline(causes: &Causes, faults: &[FaultCost], time_us: f64) -> (String, String) {
    match blamed(faults, time_us) {
        Some(fault) => (fault.description.clone(), price(fault, time_us)),
        None => {
            let cause = causes.largest();
            let name = cause.map_or_else(String::new, |part| part.cause.name().to_owned());
            (name, causes.short())
        }
    }
}

/// What limits a time, in one sentence or two: `causes` of an operation of so many bytes, and what
/// faults cost it.
#[must_use]
pub fn sentence(bytes: u64, causes: &Causes, faults: &[FaultCost]) -> String {
    let size = size(bytes as f64);
    let time_us = causes.total().micros();
    let parts = causes.clause();
    let of = match causes.method {
        Method::CriticalPath => "critical path",
        Method::WorkerTime => "time of all thread blocks",
    };
    let costs = prices(faults, time_us);
    if blamed(faults, time_us).is_some() {
        return format!("At {size}: {costs}. Of the {of}: {parts}.");
    }
    let own = format!("At {size}, {}: {parts} of the {of}.", micros(time_us));
    if faults.is_empty() {
        own
    } else {
        format!("{own} Faults: {costs}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn links(name: &str) -> Cause {
        Cause::Links { links: name.into() }
    }

    #[test]
    fn the_largest_part_is_named_first_and_parts_add_up() {
        let causes = Causes::new(
            Method::CriticalPath,
            [
                (Cause::Launch, us(10)),
                (links("NVLink out of GPUs"), us(40)),
                (Cause::CopyRate, us(25)),
                (links("NVLink out of GPUs"), us(24)),
                (Cause::Latency, us(1)),
                (Cause::Protocol, Time::ZERO),
            ],
        );
        assert_eq!(causes.total(), us(100));
        assert_eq!(causes.parts.len(), 4);
        assert_eq!(causes.short(), "NVLink out of GPUs (64 %)");
        assert_eq!(
            causes.clause(),
            "NVLink out of GPUs 64 %, copy rate of NCCL's thread blocks 25 %, kernel launch 10 %, \
             the rest 1.0 %"
        );
        let json = serde_json::to_value(&causes.parts[0]).unwrap();
        assert_eq!(json["cause"]["kind"], "links");
        assert_eq!(json["us"], 64.0);
    }

    #[test]
    fn picoseconds_survive_microseconds() {
        let odd = Time::from_picos(123_456_789_012_347);
        let causes = Causes::new(Method::WorkerTime, [(Cause::Launch, odd)]);
        assert_eq!(causes.total(), odd);
        assert_eq!(Causes::new(Method::WorkerTime, []).short(), "nothing to do");
    }

    #[test]
    fn the_dearest_fault_is_the_culprit_and_others_say_why_not() {
        let fault = |fault, cost_us, reason| FaultCost {
            fault,
            description: format!("rank {fault}: slow"),
            cost_us,
            reason,
        };
        let costs = [
            fault(0, Some(0.0), Some(NoCost::OthersTakeLonger)),
            fault(1, Some(114.0), None),
            fault(2, Some(3.0), None),
        ];
        assert_eq!(culprit(&costs).unwrap().fault, 1);
        assert_eq!(
            prices(&costs, 330.0),
            "rank 1: slow costs 114 µs of 330 µs; rank 0: slow costs nothing: others take at least \
             as long at the same time; rank 2: slow costs 3.00 µs of 330 µs (each against a run \
             with all the others)"
        );
        assert!(culprit(&costs[..1]).is_none());
    }
}
