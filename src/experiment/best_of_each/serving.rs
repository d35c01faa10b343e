//! The fewest GPUs of a machine that keep a load; where none do, how much of it they keep.

use super::{BestOf, MachineSize, Question, runnable, value};
use crate::compare::filling;
use crate::error::ScenarioError;
use crate::optimize::{Progress, ServingAsk, ServingSizes, Size, optimize_serving};
use crate::read::Scenario;
use crate::site::{Machines, machine_of};
use crate::spec::{JobSpec, TopologyRef};
use fabricsim_budget::Budget;
use fabricsim_report::comparison::{Holds, Searched};
use fabricsim_report::optimize::ServingChoice;
use fabricsim_topology::Topology;
use fabricsim_workload::serving::spec::LoadSpec;
use serde_json::{Value, json};
use std::path::Path;

/// What engines are best by.
const OBJECTIVE: &str = "output_tokens_per_s_per_gpu";
/// A load is halved so often until it is kept, then what is between is halved so often.
const MAX_HALVINGS: u32 = 10;
const BISECTIONS: u32 = 3;

pub(super) fn best(
    (scenario, folder): (&Scenario, &Path),
    machine: &TopologyRef,
    question: Question<'_>,
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<BestOf, ScenarioError> {
    let topology = machine_of(machine, folder, &scenario.origin)?;
    let most = question.gpus;
    let (nodes, _) = filling(&topology, most, &scenario.origin)?;
    let mut search = Search {
        folder,
        machine,
        question,
        how,
        progress,
        found: Searched {
            layout: None,
            layout_text: None,
            searched: 0,
            simulated: 0,
            tried_gpus: Vec::new(),
            rejected: Vec::new(),
            why: None,
            holds: None,
        },
    };
    let mut own = None;
    match search.kept(scenario, most)? {
        Some(kept) => {
            let sizes = sizes(&topology, most);
            let best = search.fewest(scenario, kept, &sizes)?;
            own = Some(runnable(&best.scenario, &scenario.origin)?);
            search.take(&best);
        }
        None => {
            let why = match search.holds(scenario, most)? {
                None => format!("no way to serve on {most} GPUs keeps a thousandth of this load"),
                Some((best, holds)) => {
                    let asked = with_load(&best.scenario, &scenario.json["job"]["serving"]["load"]);
                    own = Some(runnable(&asked, &scenario.origin)?);
                    search.take(&best);
                    search.found.holds = Some(holds);
                    String::new()
                }
            };
            search.found.why = Some(why);
        }
    }
    search.found.tried_gpus.sort_unstable();
    Ok(BestOf {
        name: String::new(),
        scenario: own,
        searched: search.found,
        machine: MachineSize::of(&topology, nodes, most),
        training: false,
        slo_share: question.slo_share,
    })
}

/// Numbers of GPUs that there may be, up to `most`: powers of two inside a node, then whole nodes.
fn sizes(topology: &Topology, most: u32) -> Vec<u32> {
    let nodes = (topology.nodes.len() as u32).max(1);
    let each = (topology.gpus().count() as u32 / nodes).max(1);
    let inside = (0..32).map(|power| 1u32 << power);
    let inside = inside.take_while(|&gpus| gpus < each.min(most));
    let whole = (1..=most / each).map(|nodes| nodes * each);
    let mut sizes: Vec<u32> = inside.chain(whole).chain([most]).collect();
    sizes.dedup();
    sizes
}

struct Search<'a> {
    folder: &'a Path,
    machine: &'a TopologyRef,
    question: Question<'a>,
    how: (&'a Budget, &'a Machines),
    progress: &'a dyn Fn(Progress<'_>),
    found: Searched,
}

impl Search<'_> {
    /// The best way to serve a load on so many GPUs, if one keeps it.
    fn kept(
        &mut self,
        scenario: &Scenario,
        gpus: u32,
    ) -> Result<Option<ServingChoice>, ScenarioError> {
        let ask = ServingAsk {
            machines: std::slice::from_ref(self.machine),
            sizes: ServingSizes::Each(&[Size::Gpus(gpus)]),
            objective: Some(OBJECTIVE),
            over: &[],
            slo_share: self.question.slo_share,
            top: 1,
        };
        let at = (scenario, self.folder);
        let found = optimize_serving(at, ask, self.how, self.progress)?;
        let all = &mut self.found;
        all.searched += found.searched;
        all.simulated += found.simulated;
        if !all.tried_gpus.contains(&gpus) {
            all.tried_gpus.push(gpus);
        }
        all.rejected.extend(found.rejected.iter().map(value));
        Ok(found.best.into_iter().next())
    }

    /// The fewest of `sizes` on which a load is kept that is kept on the last: more GPUs keep what fewer do,
    /// and those between are not tried.
    fn fewest(
        &mut self,
        scenario: &Scenario,
        on_all: ServingChoice,
        sizes: &[u32],
    ) -> Result<ServingChoice, ScenarioError> {
        let mut best = on_all;
        let (mut from, mut to) = (0, sizes.len().saturating_sub(1));
        while from < to {
            let middle = from.midpoint(to);
            match self.kept(scenario, sizes[middle])? {
                Some(kept) => (best, to) = (kept, middle),
                None => from = middle + 1,
            }
        }
        Ok(best)
    }

    /// How much of a load is kept on so many GPUs, and by which engines.
    fn holds(
        &mut self,
        scenario: &Scenario,
        gpus: u32,
    ) -> Result<Option<(ServingChoice, Holds)>, ScenarioError> {
        let JobSpec::Serving(job) = &scenario.spec.job else {
            return Ok(None);
        };
        let Some((mut not_kept, whole)) = amount(&job.load) else {
            return Ok(None);
        };
        let mut found = None;
        for _ in 0..MAX_HALVINGS {
            let less = rounded(not_kept / 2.0, whole);
            if less <= 0.0 || less >= not_kept {
                return Ok(None);
            }
            found = self
                .kept(&with_amount(scenario, less)?, gpus)?
                .map(|kept| (kept, less));
            if found.is_some() {
                break;
            }
            not_kept = less;
        }
        let Some((mut best, mut kept)) = found else {
            return Ok(None);
        };
        for _ in 0..BISECTIONS {
            let middle = rounded(kept.midpoint(not_kept), whole);
            if middle <= kept || middle >= not_kept {
                break;
            }
            match self.kept(&with_amount(scenario, middle)?, gpus)? {
                Some(choice) => (best, kept) = (choice, middle),
                None => not_kept = middle,
            }
        }
        Ok(Some((best, Holds { kept, not_kept })))
    }

    fn take(&mut self, best: &ServingChoice) {
        self.found.layout = Some(value(&best.layout));
        self.found.layout_text = Some(best.layout.to_string());
    }
}

/// Requests per second of a load, or at once, which is a whole number; nothing of a trace.
pub(super) fn amount(load: &LoadSpec) -> Option<(f64, bool)> {
    match load {
        LoadSpec::Closed(closed) => Some((f64::from(closed.concurrency), true)),
        LoadSpec::Poisson(rate) | LoadSpec::Constant(rate) => Some((rate.rate, false)),
        LoadSpec::Gamma(gamma) => Some((gamma.rate, false)),
        LoadSpec::Trace(_) => None,
    }
}

fn rounded(amount: f64, whole: bool) -> f64 {
    if whole { amount.floor() } else { amount }
}

/// The scenario with so much of its load.
fn with_amount(scenario: &Scenario, amount: f64) -> Result<Scenario, ScenarioError> {
    let load = &scenario.json["job"]["serving"]["load"];
    let (place, amount) = match load.get("closed") {
        Some(_) => ("concurrency", json!(amount as u64)),
        None => ("rate", json!(amount)),
    };
    let kind = load.as_object().and_then(|load| load.keys().next());
    let kind = kind.map_or("poisson", String::as_str);
    scenario.with(&format!("job.serving.load.{kind}.{place}"), amount)
}

/// A scenario with another load.
fn with_load(scenario: &Value, load: &Value) -> Value {
    let mut scenario = scenario.clone();
    scenario["job"]["serving"]["load"] = load.clone();
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::{Overrides, catalogue, expand_and_check};

    #[test]
    fn sizes_are_parts_of_a_node_and_whole_nodes() {
        let spec = catalogue::find("dgx-h100").expect("shipped");
        let checked = expand_and_check(&spec, catalogue::hardware(), &Overrides { nodes: None });
        let (topology, _) = checked.expect("it is whole");
        assert_eq!(sizes(&topology, 32), [1, 2, 4, 8, 16, 24, 32]);
        assert_eq!(sizes(&topology, 4), [1, 2, 4]);
        assert_eq!(sizes(&topology, 6), [1, 2, 4, 6]);
    }
}
