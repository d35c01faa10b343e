//! NCCL's ranks and plans for a scenario, and why there are none.

use super::valid::ValidCollective;
use crate::error::ScenarioError;
use crate::fallback::fallen;
use fabricsim_budget::Budget;
use fabricsim_collective::{Collective, Matrix, MscclAlgorithm};
use fabricsim_engine::SimError;
use fabricsim_fault::Faults;
use fabricsim_nccl::{Communicator, Forced, NcclError, Planned};
use fabricsim_topology::{LinkId, Router};

/// The ranks, which NCCL joins without seeing at all what is gone for good before it begins, and
/// which fall back to slower ways.
pub(super) fn ranks_around<'s>(
    spec: &'s ValidCollective,
    faults: &Faults,
    budget: &Budget,
) -> Result<Communicator<'s>, ScenarioError> {
    let gone: Vec<LinkId> = faults.gone_links().collect();
    let around = !gone.is_empty();
    let mut router = Router::new(&spec.topology, spec.seed);
    if !gone.is_empty() {
        router = router.avoiding(gone);
    }
    let made = Communicator::of(
        &spec.topology,
        spec.gpus.clone(),
        &fallen(&spec.env, faults),
        router,
    );
    let made = made.map_err(|source| match around {
        true => ScenarioError::planned_around(&spec.faults, &source),
        false => source.into(),
    })?;
    Ok(made.within(budget))
}

/// The plan for a size, or `None` if rounding leaves nothing of it.
pub(super) fn communicator_plan(
    spec: &ValidCollective,
    communicator: &mut Communicator<'_>,
    size: u64,
) -> Result<Option<Planned>, ScenarioError> {
    plan_of(What::of(spec), communicator, size).map_err(|source| match source {
        NcclError::Route(_) | NcclError::NoNic { .. }
            if spec.faults.gone_links().next().is_some() =>
        {
            ScenarioError::planned_around(&spec.faults, &source)
        }
        other => other.into(),
    })
}

/// What is planned for each size.
#[derive(Clone, Copy)]
pub(crate) struct What<'w> {
    pub(crate) collective: Collective,
    /// In place of NCCL's choice.
    pub(crate) forced: Forced,
    /// In place of NCCL's choice.
    pub(crate) msccl: Option<&'w MscclAlgorithm>,
    /// Of an all-to-all-v: relative amounts.
    pub(crate) matrix: Option<&'w [Vec<f64>]>,
}

impl<'w> What<'w> {
    /// What a collective asks for.
    pub(super) fn of(spec: &'w ValidCollective) -> Self {
        What {
            collective: spec.collective,
            forced: spec.forced,
            msccl: spec.msccl.as_ref(),
            matrix: spec.matrix.as_deref(),
        }
    }
}

/// As [`communicator_plan`], with NCCL's own words where there is none.
pub(crate) fn plan_of(
    what: What<'_>,
    communicator: &mut Communicator<'_>,
    size: u64,
) -> Result<Option<Planned>, NcclError> {
    if what.collective.actual_bytes(size, communicator.ranks()) == 0 {
        return Ok(None);
    }
    let planned = match (what.msccl, what.matrix) {
        (Some(algorithm), _) => communicator.plan_msccl(algorithm, size, what.forced.protocol),
        (None, Some(weights)) => communicator.plan_all_to_all_v(scaled(weights, size)?),
        (None, None) => communicator.plan(what.collective, size, what.forced),
    }?;
    Ok((planned.bytes > 0).then_some(planned))
}

/// Bytes in proportion to `weights`, in whole elements of 16 bytes, so that the rank that
/// sends or receives most has `size`.
fn scaled(weights: &[Vec<f64>], size: u64) -> Result<Matrix, NcclError> {
    let rows = weights.iter().map(|row| row.iter().sum::<f64>());
    let columns = (0..weights.len()).map(|c| weights.iter().map(|row| row[c]).sum::<f64>());
    let most = rows.chain(columns).fold(0.0, f64::max);
    let bytes = |weight: f64| {
        if most > 0.0 {
            (weight / most * size as f64) as u64 / 16 * 16
        } else {
            0
        }
    };
    let rows: Vec<Vec<u64>> = weights
        .iter()
        .map(|row| row.iter().map(|&w| bytes(w)).collect())
        .collect();
    Matrix::new(&rows).map_err(|error| NcclError::NothingLeft {
        collective: Collective::AllToAllV.name(),
        reason: error.to_string(),
    })
}

/// A simulation that ended without a result.
pub(super) fn stopped(
    spec: &ValidCollective,
    planned: &Planned,
    source: SimError,
) -> ScenarioError {
    if let SimError::Memory(over) = source {
        return over.into();
    }
    ScenarioError::Simulation {
        collective: spec.collective.name(),
        bytes: planned.bytes,
        source,
        faults: spec.faults.told().collect(),
    }
}
