//! How many tasks a script has, before it is written: what a step of few micro-batches has, and what
//! each further one adds.

use super::costs::StageCosts;
use super::resolve::Training;
use super::script::{Calls, Slot, Writer};
use super::step::StepWriter;
use super::ways::HostSide;
use crate::model::Coordinates;

/// Tasks of all steps of a rank with these communicators.
pub(super) fn tasks(
    training: &Training,
    costs: &StageCosts,
    has: [bool; Slot::ALL.len()],
    at: Coordinates,
    load: (f64, &[f64]),
    host: Option<HostSide>,
) -> u64 {
    let of = |micro_batches: u32| {
        let mut few = training.clone();
        (few.micro_batches, few.spec.steps) = (micro_batches, 1);
        let mut calls = Calls::new();
        let mut writer = Writer::new(&mut calls, has, 0);
        StepWriter::new(&few, costs, &mut writer, at, load, host).steps();
        writer.finish().0.tasks.len() as u64
    };
    let (all, round) = (training.micro_batches, training.dims.pp);
    // Beyond what fills the pipeline twice each round of micro-batches is as the one before.
    let few = 2 * round * training.dims.virtual_stages;
    let step = if all <= few + round {
        of(all)
    } else {
        let (first, next) = (of(few), of(few + round));
        first + u64::from(all - few) * (next - first) / u64::from(round)
    };
    step * u64::from(training.spec.steps)
}
