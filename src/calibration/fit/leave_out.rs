//! Cross-validation: each machine predicted with parameters that never saw it.

use super::FitLog;
use super::pull::with_tied;
use super::spec::FitSpec;
use super::state::Fit;
use crate::measurement::Measurement;
use crate::predict::{Machines, PredictedSet, predict};
use fabricsim_budget::threads;
use std::collections::BTreeSet;

/// Predicts the measurements of each topology with what is fitted on those of all others.
///
/// Parameters that the topology's hardware has, and those that are tied to them, are fitted anew,
/// from the values of the hardware files; all others keep those of `full`. What no other
/// measurement depends on takes the value of the parameter that it is like.
///
/// # Errors
/// As [`fit`](super::fit()).
pub fn leave_one_out(
    spec: &FitSpec,
    measurements: &[Measurement],
    full: &FitLog,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<PredictedSet>, String> {
    let topology_of = |m: &Measurement| Some(m.model.as_ref()?.topology.clone());
    let healthy = measurements.iter().filter(|m| m.healthy);
    let topologies: BTreeSet<String> = healthy.filter_map(topology_of).collect();
    let mut predicted = Vec::new();
    for topology in topologies {
        let own = |m: &&Measurement| topology_of(m).as_ref() == Some(&topology);
        let others: Vec<Measurement> = measurements.iter().filter(|m| !own(m)).cloned().collect();
        let mut fit = Fit::new(spec, &others)?;
        let free = with_tied(spec, &fit.of_hardware(&topology)?)?;
        for (p, value) in full.values.iter().enumerate() {
            if !free.contains(&p) {
                fit.start_from(p, value.after.clone());
            }
        }
        let known: Vec<usize> = free.iter().copied().filter(|&p| fit.knows(p)).collect();
        fit.run(spec, &known)?;
        for &p in free.iter().filter(|p| !known.contains(p)) {
            let settled = |p: &usize| known.contains(p) || !free.contains(p);
            if let Some(value) = spec.like_of(p, settled).and_then(|p| fit.value(p)) {
                fit.start_from(p, value);
            }
        }
        let hardware = fit.current()?;
        let before = predicted.len();
        let own: Vec<&Measurement> = measurements.iter().filter(own).collect();
        let sets = threads::each(
            &own,
            None,
            || Machines::new(&hardware),
            |machines, measurement| predict(measurement, machines, |_| true).ok(),
        );
        predicted.extend(sets.into_iter().flatten());
        tell(&format!(
            "without {topology}: {} of its {} parameters known from {} others; {} sets",
            known.len(),
            free.len(),
            fit.used(),
            predicted.len() - before
        ));
    }
    Ok(predicted)
}
