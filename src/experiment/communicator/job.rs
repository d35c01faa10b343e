//! Making communicators as a kind of job.

use super::run::made;
use super::valid::ValidCommunicator;
use crate::allocation::nodes_of;
use crate::by_time::{answer_each, fastest};
use crate::error::ScenarioError;
use crate::footprint::machine_footprint;
use crate::job::{Ctx, JobKind, JobRun, no_series};
use fabricsim_budget::Purpose;
use fabricsim_report::communicator::CommunicatorResult;
use fabricsim_report::{JobResult, Metrics, Summary, Variant};
use fabricsim_topology::{DeviceId, Topology};
use std::collections::BTreeMap;
use std::time::Instant;

impl JobKind for ValidCommunicator {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn gpus(&self) -> Vec<DeviceId> {
        self.gpus.clone()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn run(
        &self,
        name: &str,
        ctx: Ctx<'_>,
        _: &Summary,
        _: &mut dyn crate::watch::Watch,
    ) -> Result<JobRun, ScenarioError> {
        let budget = ctx.budget;
        let valid = self;
        let began = Instant::now();
        let memory = budget.memory.estimating();
        let _machine = memory.hold(Purpose::Machine, machine_footprint(&valid.topology))?;
        let mut result = made(valid, budget)?;
        result.wall_ms = began.elapsed().as_secs_f64() * 1e3;
        let made_in = result.failed.is_none().then_some(result.making_us);
        let mut ran = JobRun::of(Variant {
            name: name.to_owned(),
            topology: valid.topology.name.clone(),
            topology_title: valid.topology.title.clone(),
            nodes: nodes_of(&valid.topology, valid.gpus.iter().copied()),
            gpus: valid.gpus.len() as u32,
            differs: Vec::new(),
            no_effect: None,
            search: None,
            metrics: Metrics {
                time_us: made_in,
                cause: result.failed.is_none().then(|| longest(&result)).flatten(),
                ..Metrics::default()
            },
            job: JobResult::Communicator(Box::new(result)),
        });
        ran.warnings.extend(no_series(ctx.outputs, "communicator"));
        Ok(ran)
    }
}

/// Fills in what a summary says of communicators.
pub(crate) fn compare(summary: &mut Summary) {
    answer_each(summary, |job| {
        let result = job.communicator()?;
        result.failed.is_none().then(|| result.sentence())
    });
    fastest(summary);
}

/// The part that all communicators together spend longest in.
fn longest(result: &CommunicatorResult) -> Option<String> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for part in result.communicators.iter().flat_map(|made| &made.parts) {
        *sums.entry(&part.part).or_default() += part.time_us;
    }
    let most = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(most.0.to_owned())
}
