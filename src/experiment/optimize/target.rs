//! How many GPUs a rate takes.

use super::ask::{Ask, Progress, Size};
use super::search::optimize;
use crate::error::ScenarioError;
use crate::read::Scenario;
use crate::site::Machines;
use crate::spec::TopologyRef;
use fabricsim_budget::Budget;
use fabricsim_report::Summary;
use fabricsim_report::optimize::{Optimized, Target};
use std::path::Path;

/// The fewest GPUs that are tried.
const FEWEST: u32 = 8;

/// The fewest GPUs of each machine on which the best layout reaches `tokens_per_s`, twice as many each
/// time, up to `most`; with the summary of the best layout on the fewest.
///
/// # Errors
/// As [`optimize`].
pub fn fewest_gpus(
    at: (&Scenario, &Path),
    (ask, tokens_per_s, most): (Ask<'_>, f64, u32),
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<(Optimized, Option<Summary>), ScenarioError> {
    let title = format!("layouts of {} on up to {} GPUs", at.0.spec.name, most);
    let mut all = Optimized::new(title, ask.objective);
    let mut fewest: Option<(u32, Summary)> = None;
    let mut target = Target {
        tokens_per_s,
        most_gpus: most,
        reached: Vec::new(),
    };
    for machine in ask.machines {
        let machines: &[TopologyRef] = std::slice::from_ref(machine);
        let doubled = std::iter::successors(Some(FEWEST), |gpus| gpus.checked_mul(2));
        let counts = doubled.take_while(|&gpus| gpus < most);
        for gpus in counts.chain([most]) {
            let ask = Ask {
                machines,
                sizes: &[Size::Gpus(gpus)],
                top: 1,
                ..ask
            };
            let (mut found, summary) = optimize(at, ask, how, progress)?;
            let best = found.best.first().filter(|best| {
                let rate = best.metrics.tokens_per_s;
                rate.is_some_and(|rate| rate >= tokens_per_s)
            });
            let reached = best.cloned();
            if reached.is_none() {
                found.best.clear();
                found.pareto.clear();
                found.all.clear();
                found.flips.clear();
                found.headroom = None;
            }
            all.absorb(found);
            if let Some(best) = reached {
                if let Some(summary) = summary
                    && fewest.as_ref().is_none_or(|(fewest, _)| gpus < *fewest)
                {
                    fewest = Some((gpus, summary));
                }
                target.reached.push((best.topology, gpus));
                break;
            }
        }
    }
    all.best.sort_by_key(|choice| choice.gpus);
    all.target = Some(target);
    all.settle(None);
    Ok((all, fewest.map(|(_, summary)| summary)))
}
