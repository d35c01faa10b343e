//! From checked calls to what comes of them.

use super::costs::Simulated;
use super::meet::{Met, Ways, meet};
use super::said::said;
use super::valid::ValidCalls;
use super::waits::{Wait, does, of, ranges, waits, why};
use crate::allocation::nodes_of;
use crate::by_time::{answer_each, fastest};
use crate::error::ScenarioError;
use crate::footprint::machine_footprint;
use crate::job::{Ctx, JobKind, JobRun, no_series};
use fabricsim_budget::Purpose;
use fabricsim_report::calls::{CallsResult, DoneCall, Hang, WaitRow};
use fabricsim_report::{JobResult, Metrics, Summary, Variant};
use fabricsim_topology::{DeviceId, Topology};
use std::time::Instant;

/// Operations that are listed.
const MAX_DONE: usize = 1000;

impl JobKind for ValidCalls {
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
        let machine = machine_footprint(&valid.topology);
        let _machine = budget.memory.estimating().hold(Purpose::Machine, machine)?;
        let ways = Ways {
            members: &valid.members,
            names: &valid.names,
            side_by_side: valid.side_by_side,
            timeout: valid.timeout,
        };
        let met = meet(ways, &valid.calls, &mut Simulated::new(valid, budget))?;
        let mut result = outcome(valid, ways, met);
        result.wall_ms = began.elapsed().as_secs_f64() * 1e3;
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
                time_us: result.failed.is_none().then_some(result.ended_us),
                ..Metrics::default()
            },
            job: JobResult::Calls(Box::new(result)),
        });
        ran.warnings.extend(no_series(ctx.outputs, "calls"));
        Ok(ran)
    }
}

/// Fills in what a summary says of calls.
pub(crate) fn compare(summary: &mut Summary) {
    answer_each(summary, |job| Some(job.calls()?.sentence()));
    fastest(summary);
}

fn outcome(valid: &ValidCalls, ways: Ways<'_>, met: Met) -> CallsResult {
    let waiting = waits(ways, &met);
    let ended = met.ranks.iter().flat_map(|rank| {
        let streams = rank.streams.iter().map(|stream| stream.clock);
        streams.chain(std::iter::once(rank.clock))
    });
    let ended = ended.max().unwrap_or_default();
    let called = met.ranks.iter().map(|rank| rank.clock).max();
    let mut done: Vec<DoneCall> = met
        .done
        .iter()
        .map(|done| DoneCall {
            call: match done.number {
                0 => done.what.clone(),
                number => format!("{} {number}", done.what),
            },
            on: valid.names[done.on].clone(),
            bytes: done.bytes,
            began_us: done.began.micros(),
            ended_us: done.ended.micros(),
        })
        .collect();
    done.sort_by(|a, b| a.ended_us.total_cmp(&b.ended_us));
    done.truncate(MAX_DONE);
    let hang = (!waiting.is_empty()).then(|| Hang {
        why: why(&waiting, &valid.names),
        waits: waiting.iter().map(|wait| row(wait, valid)).collect(),
        said: said(valid, &waiting),
    });
    let failed = match (&hang, met.wrong.first()) {
        (Some(hang), _) => Some(format!("it hangs: {}", hang.why)),
        (None, Some(wrong)) => Some(wrong.clone()),
        (None, None) => None,
    };
    CallsResult {
        done,
        ended_us: ended.micros(),
        called_us: called.unwrap_or_default().micros(),
        hang,
        wrong: met.wrong,
        notes: met.notes,
        failed,
        wall_ms: 0.0,
    }
}

fn row(wait: &Wait, valid: &ValidCalls) -> WaitRow {
    let absent = wait.absent.iter().map(|(ranks, instead)| {
        format!(
            "{}, which {}",
            of(ranks),
            does(instead, ranks, &valid.names)
        )
    });
    WaitRow {
        ranks: ranges(&wait.ranks),
        inside: wait.inside.text(&valid.names),
        since_us: wait.since.micros(),
        waits_for: absent.collect::<Vec<_>>().join("; "),
        enqueued: wait.enqueued,
        completed: wait.completed,
    }
}
