//! How many GPUs a rate takes: every part of a node and every number of nodes is tried, from the fewest on. A larger
//! number need not be faster (it may divide the batch badly), so nothing follows from one number for another; but
//! what no layout's bound reaches is not simulated.

use super::ask::{Ask, Progress, Size};
use super::ground::{Ground, Searched};
use super::ledger::Ledger;
use super::search::{explored, note, optimize, ratios, training_of};
use crate::error::ScenarioError;
use crate::read::Scenario;
use crate::site::Machines;
use crate::spec::TopologyRef;
use fabricsim_budget::Budget;
use fabricsim_report::Summary;
use fabricsim_report::optimize::{Choice, Optimized, Reason, Target, Tried};
use fabricsim_units::Time;
use std::path::Path;

/// The fewest GPUs of each machine on which the best layout reaches `tokens_per_s`, up to `most`; with the summary of
/// the best layout on the fewest of all.
///
/// # Errors
/// As [`optimize`].
pub fn fewest_gpus(
    at: (&Scenario, &Path),
    (ask, tokens_per_s, most): (Ask<'_>, f64, u32),
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<(Optimized, Option<Summary>), ScenarioError> {
    let searched = training_of(at)?;
    let title = format!("layouts of {} on up to {} GPUs", at.0.spec.name, most);
    let mut all = Optimized::new(title, ask.objective);
    all.flash_version = searched.job.flash_version;
    let mut summaries = Vec::new();
    let asked = Asked {
        searched,
        ask,
        tokens_per_s,
    };
    for machine in ask.machines {
        let sizes = sizes(asked, machine, most, how.1)?;
        let counting = how
            .0
            .work
            .part_at_most("numbers of GPUs searched", sizes.len() as u64);
        for size in sizes {
            counting.add(1);
            let Some(met) = asked.tries(&mut all, (machine, size), how, progress)? else {
                continue;
            };
            let ask = Ask {
                machines: std::slice::from_ref(machine),
                sizes: &[size],
                top: 1,
                ..ask
            };
            let (mut found, summary) = optimize(at, ask, how, progress)?;
            found.best.retain(|choice| reaches(choice, met));
            summaries.extend(summary.map(|summary| (size.count(), summary)));
            all.absorb(found);
            break;
        }
    }
    all.best.sort_by_key(|choice| choice.gpus);
    let reached = all.tried.iter().filter(|tried| tried.met);
    all.target = Some(Target {
        tokens_per_s,
        most_gpus: most,
        reached: reached
            .map(|tried| (tried.topology.clone(), tried.gpus))
            .collect(),
    });
    all.keep_telling();
    all.settle(None);
    let fewest = summaries.into_iter().min_by_key(|(gpus, _)| *gpus);
    Ok((all, fewest.map(|(_, summary)| summary)))
}

/// A choice whose step is short enough.
fn reaches(choice: &Choice, longest: Time) -> bool {
    let time = choice.metrics.time_us;
    time.is_some_and(|us| us <= longest.micros())
}

/// The numbers of GPUs of a machine that are tried, up to so many: parts of a node, then whole nodes.
fn sizes(
    asked: Asked<'_>,
    machine: &TopologyRef,
    most: u32,
    machines: &Machines,
) -> Result<Vec<Size>, ScenarioError> {
    let place = (machine, Size::Nodes(1), None);
    let node = Ground::new(asked.searched, place, asked.ask, machines)?;
    let each = node.gpus().max(1);
    let parts = (1..each).filter(|&gpus| gpus <= most);
    let whole = (1..=most / each).map(|nodes| nodes * each);
    Ok(parts.chain(whole).map(Size::Gpus).collect())
}

/// What is asked of every machine.
#[derive(Clone, Copy)]
struct Asked<'a> {
    searched: Searched<'a>,
    ask: Ask<'a>,
    tokens_per_s: f64,
}

impl Asked<'_> {
    /// Whether any layout on so many GPUs reaches the rate: the longest step that does, if one was found. What was
    /// tried in vain is noted.
    fn tries(
        self,
        all: &mut Optimized,
        (machine, size): (&TopologyRef, Size),
        how: (&Budget, &Machines),
        progress: &dyn Fn(Progress<'_>),
    ) -> Result<Option<Time>, ScenarioError> {
        let mut tried: Option<Tried> = None;
        for ratio in ratios(self.ask.oversubscription) {
            let place = (machine, size, ratio);
            let mut ground = Ground::new(self.searched, place, self.ask, how.1)?;
            let seconds = ground.tokens_per_step() as f64 / self.tokens_per_s;
            let longest = Time::from_picos((seconds * 1e12) as u64);
            let cluster = ground.cluster(self.ask)?;
            let mut one = Tried {
                topology: cluster.topology,
                gpus: cluster.gpus,
                met: false,
                tokens_per_s: None,
                why: cluster.why,
            };
            if one.why.is_none() && ground.least_step() > longest && ground.divides() {
                one.why = Some(Reason::Bound);
                note(all, &Ledger::without(&ground, Reason::Bound));
            } else if one.why.is_none() {
                let ledger = explored(&mut ground, (self.ask, Some(longest)), how, progress)?;
                let fastest = ledger.fastest();
                one.met = fastest.is_some_and(|time| time <= longest);
                if one.met {
                    all.tried.push(Tried { why: None, ..one });
                    return Ok(Some(longest));
                }
                let rate = |time: Time| ground.tokens_per_step() as f64 / time.seconds();
                one.tokens_per_s = fastest.map(rate);
                one.why = match ledger.counts.contains_key(&Reason::Bound) {
                    true => Some(Reason::Bound),
                    false => ledger.reason().filter(|_| fastest.is_none()),
                };
                note(all, &ledger);
            }
            // Of several networks the one that comes nearest is told.
            if tried
                .as_ref()
                .is_none_or(|t| t.tokens_per_s < one.tokens_per_s)
            {
                tried = Some(one);
            }
        }
        all.tried.extend(tried);
        Ok(None)
    }
}
