//! Ways to serve are simulated: first until it is known whether they do what is asked, the best ones until their
//! figures are known.

use super::Search;
use super::ways::Way;
use crate::error::ScenarioError;
use crate::read::changed;
use crate::refusal::{fault, refusal};
use crate::run::run;
use crate::serving::ValidServing;
use crate::site::Machines;
use crate::valid::{ValidJob, validate_on};
use crate::watch::Silent;
use fabricsim_budget::{Budget, threads};
use fabricsim_report::numbers::three_digits;
use fabricsim_report::optimize::{Reason, ServingChoice};
use fabricsim_report::serving::Verdict;
use fabricsim_report::{Outputs, Variant};
use std::collections::BTreeMap;
use std::path::Path;

/// How well a way is to be known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Goal {
    /// Whether it does what is asked.
    Decided,
    /// Its figures.
    Known,
}

/// What figures are to be known to.
const PRECISION: f64 = 0.05;
/// Passes of a way that are simulated at most, about.
const MOST_PASSES: u64 = 300_000;

impl Search<'_> {
    /// Simulates ways at once.
    pub(super) fn run(
        &self,
        ways: &[Way],
        goal: Goal,
    ) -> Vec<Result<ServingChoice, ScenarioError>> {
        let (budget, machines) = self.how;
        let trial = Trial {
            at: (&self.scenario.origin, self.folder),
            slo: self.found.slo_share,
            goal,
        };
        let each = budget.beside_others(1);
        let counting = budget.work.part("ways simulated", ways.len() as u64);
        let threads = Some(budget.threads.max(1));
        threads::each(
            ways,
            threads,
            || (),
            |(), way| {
                let choice = trial.of(way, (&each, machines));
                counting.add(1);
                choice
            },
        )
    }

    /// Puts down a way that was simulated, or why it was not; and whether it does what is asked.
    pub(super) fn added(
        &mut self,
        place: (&str, u32),
        way: Way,
        result: Result<ServingChoice, ScenarioError>,
    ) -> Option<ServingChoice> {
        match result {
            Ok(choice) => {
                self.found.simulated += 1;
                if !choice.meets {
                    let layout = Some(choice.layout.clone());
                    self.found.reject(place, layout, late(&choice));
                }
                Some(choice)
            }
            Err(error) => {
                self.found.prune(Reason::Refused, 1);
                self.found
                    .reject(place, Some(way.layout), first_fault(&error));
                None
            }
        }
    }
}

/// What ways are tried for.
struct Trial<'a> {
    at: (&'a str, &'a Path),
    slo: Option<f64>,
    goal: Goal,
}

impl Trial<'_> {
    fn of(&self, way: &Way, how: (&Budget, &Machines)) -> Result<ServingChoice, ScenarioError> {
        let ran = self.simulate(way, how)?;
        Ok(choice(way, ran, self.slo))
    }

    fn simulate(
        &self,
        way: &Way,
        (budget, machines): (&Budget, &Machines),
    ) -> Result<Variant, ScenarioError> {
        let (origin, folder) = self.at;
        let scenario = changed(&way.scenario, origin, "pools", &BTreeMap::new())?;
        let mut experiment = validate_on(machines, scenario, folder)?;
        for variant in &mut experiment.variants {
            if let ValidJob::Serving(job) = &mut variant.job {
                self.shorten(job);
            }
        }
        let mut results = run(&experiment, budget, &Outputs::of([]), &mut Silent)?;
        results.summary.variants.pop().ok_or_else(|| {
            let wrong = fault("job", "nothing that runs".into(), "a serving job");
            refusal(origin, vec![wrong])
        })
    }

    /// Each of many ways is simulated less long than one that is asked for by itself, unless the scenario says how long.
    fn shorten(&self, job: &mut ValidServing) {
        if job.spec.window.is_none() {
            job.horizon = job.horizon.shorter(PRECISION, MOST_PASSES);
        }
        if self.goal == Goal::Decided {
            job.decides = Some(self.slo.unwrap_or(1.0));
        }
    }
}

fn choice(way: &Way, ran: Variant, slo: Option<f64>) -> ServingChoice {
    let served = ran.job.serving();
    let verdict = served.and_then(|served| served.verdict);
    let full = served.and_then(|served| served.saturation);
    let share = ran.metrics.serving.slo_share;
    let failed = ran.job.failure().is_some();
    let keeps_up = !failed && verdict == Some(Verdict::Stable);
    let meets = keeps_up && slo.is_none_or(|needed| share.is_some_and(|share| share >= needed));
    ServingChoice {
        topology: ran.topology,
        nodes: ran.nodes,
        gpus: ran.gpus,
        layout: way.layout.clone(),
        metrics: ran.metrics,
        verdict,
        full_requests_per_s: full.map(|full| full.requests_per_s_hi),
        meets,
        scenario: way.scenario.clone(),
    }
}

/// Why one is none of the answers: it is not known to keep up, or does not meet the SLO.
pub(super) fn late(choice: &ServingChoice) -> String {
    if let (Some(Verdict::Backlogged), Some(most)) = (choice.verdict, choice.full_requests_per_s) {
        let most = three_digits(most);
        return format!("requests pile up: full engines do at most {most} requests/s");
    }
    match (choice.verdict, choice.metrics.serving.slo_share) {
        (Some(Verdict::Stable), Some(share)) => {
            format!("{:.0} % of requests meet the SLO", share * 100.0)
        }
        (Some(verdict), _) => format!("not known to keep up with the load: {}", verdict.name()),
        (None, _) => "it does not come to its end".to_owned(),
    }
}

/// What is wrong first, of an error that may say several things.
fn first_fault(error: &ScenarioError) -> String {
    let text = error.to_string();
    let found = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("found:"));
    found.map_or_else(
        || text.lines().next().unwrap_or_default().to_owned(),
        |found| found.trim().to_owned(),
    )
}
