//! Of one operation of a collective: use of links as its timeline has it, thread blocks as its outcome
//! says.

use super::levels::Busy;
use super::{Filling, TelemetryError, Wanted};
use crate::Record;
use fabricsim_collective::WorkerId;
use fabricsim_engine::Outcome;
use fabricsim_plan::Plan;
use fabricsim_report::telemetry::Telemetry;
use fabricsim_topology::LinkId;
use fabricsim_units::Time;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

impl Record {
    /// The series of the operation. Links' bytes are known by bins of the timeline; within one they
    /// are taken as even.
    ///
    /// # Errors
    /// Samples that are too short.
    pub fn telemetry(
        &self,
        wanted: Wanted<'_>,
        (plan, outcome): (&Plan, &Outcome),
    ) -> Result<Telemetry, TelemetryError> {
        let end = outcome.end();
        let mut filling = Filling::new(wanted, end)?;
        let topology = wanted.topology;
        let names: FxHashMap<String, LinkId> = topology
            .links()
            .filter(|(link, _)| filling.of_link.contains_key(link))
            .map(|(link, _)| (topology.link_name(link), link))
            .collect();
        let width = self.timeline.bin.picos();
        for series in &self.timeline.links {
            let Some(&link) = names.get(&series.name) else {
                continue;
            };
            for (bin, &bytes) in (0u64..).zip(&series.bytes) {
                let from = Time::from_picos(bin * width);
                let to = Time::from_picos((bin + 1) * width).min(end).max(from);
                filling.carried(link, (from, to), bytes);
            }
        }
        let mut blocks: BTreeMap<(u32, u16), (Time, Time)> = BTreeMap::new();
        for id in (0..plan.program.workers()).map(WorkerId) {
            let Some(bins) = outcome.bins_of(id) else {
                continue;
            };
            let worker = plan.program.worker(id);
            let costs = plan.rank_costs.get(worker.rank.0 as usize);
            let costs = costs.and_then(|&of| plan.costs.get(usize::from(of)));
            let from = costs.map_or(Time::ZERO, |costs| costs.launch).min(end);
            let to = end.saturating_sub(bins.idle);
            let block = blocks.entry((worker.rank.0, worker.channel));
            let (first, last) = block.or_insert((from, to));
            *first = from.min(*first);
            *last = to.max(*last);
        }
        for ((rank, _), (from, to)) in blocks {
            let gpu = wanted.gpus.get(rank as usize);
            let model = gpu.and_then(|&gpu| topology.gpu_model(gpu));
            let sms = model.and_then(|model| model.sms.as_ref());
            let busy = Busy {
                from,
                to,
                sms: sms.map_or(0.0, |sms| 1.0 / sms.value.max(1) as f32),
                kernels: false,
                tensor: 0.0,
                dram: 0.0,
            };
            filling.busy(rank as usize, busy);
        }
        Ok(filling.finish(Vec::new()))
    }
}
