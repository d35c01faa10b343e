//! NCCL's own choice beside the best that it could have chosen.

use super::trial::Trial;
use super::valid::ValidCollective;
use crate::ScenarioError;
use crate::valid::{ValidExperiment, ValidJob};
use fabricsim_budget::{Budget, threads};
use fabricsim_nccl::{Candidate, Forced};
use fabricsim_report::record::{BetterChoice, Row};
use fabricsim_report::{JobResult, Summary};

/// Less of a difference is none.
const WORTH_IT: f64 = 0.02;

/// What NCCL expects to take more than so many times as long as its choice is not looked at.
const LOOKED_AT: f64 = 2.0;

/// Says of each collective for which NCCL chooses by itself at which of its sizes another algorithm or
/// protocol that it considers would be faster by the largest part, if at any.
///
/// # Errors
/// What NCCL refuses, a simulation that stalls, more than the memory of the budget holds.
pub fn find_better_choices(
    experiment: &ValidExperiment,
    summary: &mut Summary,
    budget: &Budget,
) -> Result<(), ScenarioError> {
    for (variant, found) in experiment.variants.iter().zip(&mut summary.variants) {
        let (ValidJob::Collective(job), JobResult::Collective(result)) =
            (&variant.job, &mut found.job)
        else {
            continue;
        };
        let free = job.forced == Forced::default() && job.msccl.is_none() && job.matrix.is_none();
        if free {
            result.better_choice = better_choice(job, &result.rows, budget)?;
        }
    }
    Ok(())
}

fn better_choice(
    job: &ValidCollective,
    rows: &[Row],
    budget: &Budget,
) -> Result<Option<BetterChoice>, ScenarioError> {
    let work: Vec<(u64, &Row)> = job.sizes.iter().copied().zip(rows).collect();
    let found = threads::each(
        &work,
        Some(budget.threads),
        || None,
        |trial, &(size, row)| best_of((job, trial), size, row, budget),
    );
    let mut largest: Option<BetterChoice> = None;
    for choice in found {
        let Some(choice) = choice? else { continue };
        let gain = |choice: &BetterChoice| choice.time_us / choice.best_us;
        if gain(&choice) > 1.0 + WORTH_IT
            && largest.as_ref().is_none_or(|l| gain(l) < gain(&choice))
        {
            largest = Some(choice);
        }
    }
    Ok(largest)
}

/// The fastest that NCCL considers at a size beside what it takes; its ranks are joined once.
fn best_of<'s>(
    (job, trial): (&'s ValidCollective, &mut Option<Trial<'s>>),
    size: u64,
    row: &Row,
    budget: &'s Budget,
) -> Result<Option<BetterChoice>, ScenarioError> {
    let trial = match trial {
        Some(trial) => trial,
        None => trial.insert(Trial::new(job, job.faults.clone(), budget)?),
    };
    let candidates = trial.candidates(row.bytes);
    let expected = |c: &Candidate| c.expected.map_or(f64::INFINITY, |expected| expected.micros);
    let chosen = candidates.iter().find(|c| c.chosen);
    let most = chosen.map_or(f64::INFINITY, |c| LOOKED_AT * expected(c));
    let others = candidates.iter();
    let others = others.filter(|c| c.excluded.is_none() && !c.chosen && expected(c) <= most);
    let mut best: Option<BetterChoice> = None;
    for candidate in others {
        let forced = Forced {
            algorithm: Some(candidate.algorithm),
            protocol: Some(candidate.protocol),
        };
        // What cannot be forced is no choice.
        let Some(causes) = trial.time(size, forced)? else {
            continue;
        };
        let best_us = causes.total().micros();
        if best.as_ref().is_none_or(|best| best_us < best.best_us) {
            best = Some(BetterChoice {
                bytes: row.bytes,
                algo: row.algo.clone(),
                proto: row.proto.clone(),
                time_us: row.time_us,
                best_algo: candidate.algorithm.name().to_owned(),
                best_proto: candidate.protocol.name().to_owned(),
                best_us,
            });
        }
    }
    Ok(best)
}
