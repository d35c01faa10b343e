//! Runs of engines with other host terms: each is simulated once for each point.

use super::terms::{self, Point};
use crate::serving::engine::{Row, served};
use fabricsim_budget::{Budget, threads};
use fabricsim_experiment::{JobSpec, Machines};
use fabricsim_report::training::median;
use std::collections::BTreeMap;

/// Logarithms of predicted over measured: to the first token, per token, tokens per second.
pub(super) type Ratios = [Option<f64>; 3];

/// Weights of the three in the objective: aims are 10 % per token, 25 % to the first token, 12 % of tokens per second,
/// and a rate tells nothing that a time per token does not.
const WEIGHTS: [f64; 3] = [0.4, 1.0, 0.4];

/// Errors count no more than this, as a logarithm.
const MOST: f64 = 1.0;

/// Groups of fewer rows do not count, as in the report.
pub(super) const FEWEST: usize = 3;

/// The rows of one engine, and what is known of them.
pub(super) struct Runs<'r> {
    pub(super) rows: Vec<&'r Row>,
    known: BTreeMap<(Point, usize), Ratios>,
    machines: &'r Machines,
    budget: &'r Budget,
    pub(super) simulated: usize,
}

impl<'r> Runs<'r> {
    pub(super) fn new(rows: Vec<&'r Row>, machines: &'r Machines, budget: &'r Budget) -> Self {
        Runs {
            rows,
            known: BTreeMap::new(),
            machines,
            budget,
            simulated: 0,
        }
    }

    /// The ratios of some rows at a point.
    pub(super) fn ratios(&mut self, point: &Point, rows: &[usize]) -> Vec<Ratios> {
        let missing: Vec<usize> = rows
            .iter()
            .copied()
            .filter(|&row| !self.known.contains_key(&(*point, row)))
            .collect();
        let alone = self.budget.beside_others(1);
        let found = threads::each(
            &missing,
            Some(self.budget.threads),
            || (),
            |(), &row| self.run(point, row, &alone),
        );
        self.simulated += missing.len();
        for (row, ratios) in missing.into_iter().zip(found) {
            self.known.insert((*point, row), ratios);
        }
        let of = |row: &usize| self.known.get(&(*point, *row)).copied().unwrap_or_default();
        rows.iter().map(of).collect()
    }

    fn run(&self, point: &Point, row: usize, budget: &Budget) -> Ratios {
        let row = self.rows[row];
        let mut scenario = row.scenario.clone();
        if let JobSpec::Serving(serving) = &mut scenario.job {
            terms::set(&mut serving.engine, point);
        }
        let Ok(result) = served(&scenario, self.machines, budget) else {
            return Ratios::default();
        };
        let Some(run) = row.measured.beside(&result, row.run.clone()) else {
            return Ratios::default();
        };
        let of = |both: Option<(f64, f64)>| both.map(|(measured, found)| (found / measured).ln());
        [of(run.ttft_ms), of(run.tpot_ms), of(run.tokens_s)]
    }

    /// What is made small: of each quantity the mean and the median over groups, in equal parts, of their rows' mean
    /// and median.
    pub(super) fn objective(&mut self, point: &Point, rows: &[usize]) -> f64 {
        let ratios = self.ratios(point, rows);
        let mut sum = 0.0;
        for (quantity, weight) in WEIGHTS.iter().enumerate() {
            let groups = self.groups(rows, &ratios, quantity);
            let errors = groups.into_values().map(|errors| {
                let errors = errors.into_iter().map(|error| error.abs().min(MOST));
                middle(errors.collect())
            });
            sum += weight * middle(errors.collect());
        }
        sum
    }

    /// Ratios by group, of one quantity; small groups are left out.
    pub(super) fn groups(
        &self,
        rows: &[usize],
        ratios: &[Ratios],
        quantity: usize,
    ) -> BTreeMap<&'r str, Vec<f64>> {
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (&row, ratios) in rows.iter().zip(ratios) {
            if let Some(ratio) = ratios[quantity] {
                groups.entry(&self.rows[row].group).or_default().push(ratio);
            }
        }
        groups.retain(|_, ratios| ratios.len() >= FEWEST);
        groups
    }
}

/// Half the mean and half the median.
fn middle(errors: Vec<f64>) -> f64 {
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    0.5 * mean + 0.5 * median(errors).unwrap_or_default()
}
