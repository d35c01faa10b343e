//! Whether a plan's tables fit its program.

use crate::error::SimError;
use crate::fifo::MAX_SLOTS;
use fabricsim_collective::WorkerId;
use fabricsim_plan::{Plan, RoleCosts};

pub(super) fn check(plan: &Plan) -> Result<(), SimError> {
    let bad = |text: String| Err(SimError::BadPlan(text));
    let program = &plan.program;
    if plan.transports.len() != program.connections() as usize {
        return bad(format!(
            "{} transports for {} connections",
            plan.transports.len(),
            program.connections()
        ));
    }
    if plan.rank_costs.len() != program.ranks() as usize || plan.gpus.len() != plan.rank_costs.len()
    {
        return bad(format!(
            "{} ranks have costs, {} take part",
            plan.rank_costs.len(),
            program.ranks()
        ));
    }
    if plan
        .rank_costs
        .iter()
        .any(|&c| usize::from(c) >= plan.costs.len())
    {
        return bad("a rank's costs are missing".into());
    }
    if plan
        .costs
        .iter()
        .flat_map(RoleCosts::iter)
        .any(|c| c.send_rate.bytes_per_sec() == 0 || c.local_rate.bytes_per_sec() == 0)
    {
        return bad("a worker's rate is zero".into());
    }
    let workers = (0..program.workers()).map(WorkerId);
    if let Some(worker) = workers
        .into_iter()
        .find(|&w| program.steps(w) >= u64::from(u32::MAX))
    {
        let rank = program.worker(worker).rank.0;
        return Err(SimError::TooManySteps { rank });
    }
    let slots = plan.protocol.fifo_slices;
    if slots == 0 || slots as usize > MAX_SLOTS {
        return bad(format!("queues of {slots} slots"));
    }
    let slices = plan.protocol.slices_per_chunk;
    if slices > slots {
        return bad(format!(
            "chunks of {slices} slices in queues of {slots} slots"
        ));
    }
    Ok(())
}
