//! Why a variant takes as long as the one that it is compared with: from what links carried.

use super::causes::LinkClass;
use super::valid::ValidTraining;
use fabricsim_engine::job::{JobOutcome, Rehearsed};
use fabricsim_plan::job::Job;
use fabricsim_topology::LinkFamily;
use rustc_hash::FxHasher;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// What was counted in the run of a variant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    /// Equal for jobs whose ranks do the same, with messages of the same size and kind.
    tasks: u64,
    /// The machine's links.
    classes: BTreeMap<LinkClass, Links>,
    /// Links that faults touch: whether there are any, and whether they carried anything.
    touched: bool,
    touched_carried: bool,
    /// Faults that are on in the time that was simulated only later or never.
    late: Vec<String>,
}

/// Links of a class.
#[derive(Debug, Clone, Default)]
struct Links {
    count: u64,
    /// Bytes per second of all together.
    rate: u128,
    /// Whether the job moved anything over any of them.
    carried: bool,
}

impl Counted {
    /// Whether anything went over links between switches of a network.
    pub(super) fn climbs(&self) -> bool {
        let class = LinkClass {
            family: LinkFamily::Network,
            between_switches: true,
        };
        self.classes.get(&class).is_some_and(|links| links.carried)
    }
}

pub(super) fn count(
    variant: &ValidTraining,
    job: &Job,
    rehearsed: &[Rehearsed],
    outcome: &JobOutcome,
) -> Counted {
    let topology = &variant.topology;
    let mut counted = Counted {
        tasks: digest(job),
        touched: variant.faults.touched_links().next().is_some(),
        late: variant.faults.not_before(outcome.end).collect(),
        ..Counted::default()
    };
    let rate = topology.rates();
    for (link, _) in topology.links() {
        let links = counted
            .classes
            .entry(LinkClass::of(topology, link))
            .or_default();
        links.count += 1;
        links.rate += u128::from(rate(link).bytes_per_sec());
    }
    for (group, traffic) in job.groups.iter().zip(&outcome.traffic) {
        let done = group
            .exchanges
            .iter()
            .zip(traffic)
            .filter(|(_, t)| t.count > 0);
        for load in done.flat_map(|(e, _)| &rehearsed[e.0 as usize].loads) {
            if load.bytes > 0.0 {
                let class = LinkClass::of(topology, load.link);
                counted.classes.entry(class).or_default().carried = true;
                counted.touched_carried |= variant.faults.touches(load.link);
            }
        }
    }
    counted
}

fn digest(job: &Job) -> u64 {
    let mut hasher = FxHasher::default();
    for actor in &job.actors {
        (actor.alike, actor.script, actor.launch).hash(&mut hasher);
    }
    for script in &job.scripts {
        script.hash(&mut hasher);
    }
    for exchange in &job.exchanges {
        (exchange.bytes, exchange.how).hash(&mut hasher);
    }
    hasher.finish()
}

/// Why what differs (as [`super::factors::differs`] names it) makes no difference.
pub(super) fn why_none(base: &Counted, other: &Counted, differs: &[String]) -> String {
    let is = |what: &str| differs.iter().any(|d| d == what);
    if is("faults") && other.touched && !other.touched_carried {
        return "the links that its faults touch carried 0 B".to_owned();
    }
    if is("faults") && !other.late.is_empty() {
        let late = other.late.join(", ");
        return format!("the steps that are simulated end before its faults begin: {late}");
    }
    if differs == ["faults"] {
        return "no step waits for what its faults touch".to_owned();
    }
    if is("machine") {
        let changed = changed(base, other);
        let names: Vec<String> = changed.iter().map(|class| class.name()).collect();
        let names = names.join(" and ");
        let carried = |counted: &Counted| {
            let links = changed
                .iter()
                .filter_map(|class| counted.classes.get(class));
            links.clone().any(|links| links.carried)
        };
        match (changed.is_empty(), carried(base) || carried(other)) {
            (true, _) => {}
            (false, false) => return format!("what differs, the {names}, carried 0 B"),
            (false, true) => {
                return format!("no step waits for what differs, the {names}");
            }
        }
    }
    if base.tasks == other.tasks {
        return "every rank runs the same tasks and sends messages of the same sizes".to_owned();
    }
    "the step's critical path does not use what differs".to_owned()
}

/// Classes of links of which there are more, less, faster or slower ones.
fn changed(a: &Counted, b: &Counted) -> Vec<LinkClass> {
    let classes = a.classes.keys().chain(b.classes.keys());
    let size = |counted: &Counted, class| counted.classes.get(class).map(|l| (l.count, l.rate));
    let mut changed: Vec<LinkClass> = classes
        .filter(|class| size(a, class) != size(b, class))
        .copied()
        .collect();
    changed.sort_unstable();
    changed.dedup();
    changed
}
