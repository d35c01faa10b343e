//! So many GPUs of a machine, and the ways to serve on them.

use super::super::ask::{Progress, Size};
use super::Search;
use super::trial::Goal;
use super::ways::{Way, ways};
use crate::compare::nvlink_domain;
use crate::error::ScenarioError;
use crate::spec::TopologyRef;
use fabricsim_report::optimize::{Reason, ServingChoice, ServingLayout};

/// Ways that are simulated before it is seen whether one of them does what is asked. (As many whatever the
/// number of threads: so the same ones are simulated.)
pub(super) const AT_ONCE: usize = 8;

/// So many GPUs of a machine.
pub(super) struct Place {
    pub(super) topology: String,
    pub(super) gpus: u32,
    /// Ways that are still to be simulated.
    left: Vec<Way>,
    /// Those that were.
    pub(super) choices: Vec<ServingChoice>,
}

/// How many of its ways are simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    /// All of them.
    All,
    /// Some at a time, until one does what is asked.
    Met,
}

impl Place {
    /// Whether some way does what is asked.
    pub(super) fn meets(&self) -> bool {
        self.choices.iter().any(|choice| choice.meets)
    }
}

impl Search<'_> {
    /// So many GPUs of a machine, before any way is simulated.
    pub(super) fn place(
        &mut self,
        machine: &TopologyRef,
        size: Size,
    ) -> Result<Place, ScenarioError> {
        let own = self.own(machine, size)?;
        let site = self.how.1.of(&own.spec, self.folder, &own.origin)?;
        let each = own.spec.gpus_per_node.unwrap_or(u32::MAX);
        let nodes = site.topology.nodes.iter();
        let gpus: u32 = nodes.map(|node| (node.gpus.len() as u32).min(each)).sum();
        let joined = nvlink_domain(&site.topology).unwrap_or(1);
        let mut all = ways(&self.model, &self.asked, (gpus, joined), &own.json);
        self.found.searched += all.ways.len() as u64 + all.undivided;
        self.found.prune(Reason::Division, all.undivided);
        let topology = site.topology.name.clone();
        if all.ways.is_empty() {
            let why = format!("all ways {}", Reason::Division.text());
            self.found.reject((&topology, gpus), None, why);
        }
        // Engines like those that did it on other GPUs come first.
        if let Some(met) = &self.met {
            all.ways.sort_by_key(|way| !is_alike(&way.layout, met));
        }
        Ok(Place {
            topology,
            gpus,
            left: all.ways,
            choices: Vec::new(),
        })
    }

    /// Simulates its ways.
    pub(super) fn simulate_on(&mut self, place: &mut Place, until: Until) {
        let at = (place.topology.as_str(), place.gpus);
        while !place.left.is_empty() && (until == Until::All || !place.meets()) {
            let count = match until {
                Until::All => place.left.len(),
                Until::Met => AT_ONCE.min(place.left.len()),
            };
            let ways: Vec<Way> = place.left.drain(..count).collect();
            let results = self.run(&ways, Goal::Decided);
            for (way, result) in ways.into_iter().zip(results) {
                let choice = self.added(at, way, result);
                self.found.all.extend(choice.clone());
                place.choices.extend(choice);
            }
        }
        if let Some(met) = place.choices.iter().find(|choice| choice.meets) {
            self.met = Some(met.layout.clone());
        }
        (self.progress)(Progress {
            machine: &place.topology,
            gpus: place.gpus,
            simulated: self.found.simulated,
            left: 0,
        });
    }
}

/// Whether engines are of one size, and both split or both not.
fn is_alike(a: &ServingLayout, b: &ServingLayout) -> bool {
    let engine = |l: &ServingLayout| (l.tp, l.pp, l.attention_dp, l.ep, l.both == 0);
    engine(a) == engine(b)
}
