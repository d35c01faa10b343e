//! Several plans at once: the same collective in groups of ranks that share a machine.

use super::{Plan, Routes, Transports};
use fabricsim_collective::SideBySide;
use std::sync::Arc;

/// Tables of routes that were joined: plans of the same groups have them in common.
#[derive(Debug, Default)]
pub struct Joined(Vec<(Vec<Arc<Routes>>, Arc<Routes>)>);

impl Joined {
    /// These tables one after the other.
    fn of(&mut self, tables: Vec<Arc<Routes>>) -> Arc<Routes> {
        let same = |known: &[Arc<Routes>]| {
            let mut pairs = known.iter().zip(&tables);
            known.len() == tables.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if let Some((_, joined)) = self.0.iter().find(|(known, _)| same(known)) {
            return Arc::clone(joined);
        }
        let mut joined = Routes::default();
        for table in &tables {
            joined.append(table);
        }
        let joined = Arc::new(joined);
        self.0.push((tables, Arc::clone(&joined)));
        joined
    }
}

impl Plan {
    /// These plans at the same time, each on ranks of its own, sharing the machine's links.
    /// Ranks, workers and connections are numbered plan after plan. All begin together; when
    /// kernels can start is taken from the first.
    ///
    /// `None` if there are no plans, or if their protocols differ, which no one plan can hold.
    #[must_use]
    pub fn side_by_side(plans: Vec<Plan>, joined: &mut Joined) -> Option<Plan> {
        let first = plans.first()?;
        if plans.len() == 1 {
            return plans.into_iter().next();
        }
        let (protocol, issue) = (first.protocol, first.issue);
        if plans.iter().any(|p| p.protocol != protocol) {
            return None;
        }
        let mut programs = Vec::with_capacity(plans.len());
        let mut all = Plan {
            program: Arc::clone(&first.program),
            gpus: Vec::new(),
            protocol,
            routes: joined.of(plans.iter().map(|p| Arc::clone(&p.routes)).collect()),
            merged: Arc::default(),
            transports: Transports::default(),
            costs: Vec::new(),
            rank_costs: Vec::new(),
            issue,
        };
        let mut routes = 0;
        for plan in plans {
            let costs = all.costs.len() as u16;
            all.transports.append(&plan.transports, routes);
            routes += plan.routes.len() as u32;
            Arc::make_mut(&mut all.merged).append(&plan.merged);
            // Most groups have the same GPUs, and workers with the same costs can be folded.
            let known = |c: &super::RoleCosts| all.costs.iter().position(|k| k == c);
            let found: Option<Vec<u16>> = plan
                .costs
                .iter()
                .map(|c| known(c).map(|at| at as u16))
                .collect();
            match found {
                Some(found) => {
                    let ranks = plan.rank_costs.iter();
                    all.rank_costs.extend(ranks.map(|&c| found[usize::from(c)]));
                }
                None => {
                    all.costs.extend(plan.costs);
                    let ranks = plan.rank_costs.iter();
                    all.rank_costs.extend(ranks.map(|&c| c + costs));
                }
            }
            all.gpus.extend(plan.gpus);
            programs.push(plan.program);
        }
        all.program = Arc::new(SideBySide::new(programs));
        Some(all)
    }
}
