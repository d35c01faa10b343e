//! Moving all parameters of a fit at once.
//!
//! A table often knows a sum of parameters better than each of them, in parts that no fixed step
//! of one or two keeps the same. How each row changes with each parameter tells in which direction
//! the objective falls for all of them together: steps of Gauss and Newton, weighted by what each
//! row counts for in the objective, and damped as Levenberg and Marquardt do (Nocedal and Wright,
//! *Numerical Optimization*, chapter 10).

use super::quadratic::Quadratic;
use super::state::{FACTORS, Fit};
use crate::scenario::validation::predict::{PredictedRow, PredictedSet};
use crate::scenario::validation::summary::weights;
use nalgebra::{DMatrix, DVector};

/// The factor by which a parameter is moved to see how rows change with it.
const NUDGE: f64 = 1.05;
/// No parameter is moved by more than this factor at once: beyond, rows are not what they seem
/// from here.
const FARTHEST: f64 = 2.0;
/// How much steps are damped, from what is tried first to what is tried last.
const DAMPING: [f64; 4] = [0.001, 0.03, 0.3, 3.0];
/// Steps after which it is enough for now.
const STEPS: usize = 4;

/// The best step so far.
struct Found {
    objective: f64,
    /// Parameters and their factors.
    moves: Vec<(usize, f64)>,
    predicted: Vec<Option<PredictedSet>>,
}

impl Fit<'_> {
    /// Moves the parameters `free` together as long as that helps; the objective then.
    pub(super) fn together(&mut self, free: &[usize], mut best: f64) -> Result<f64, String> {
        for _ in 0..STEPS {
            let slope = self.slope(free)?;
            let mut found: Option<Found> = None;
            for damping in DAMPING {
                let Some(moves) = self.step(free, &slope, damping) else {
                    continue;
                };
                let (objective, predicted) = self.moved(&moves)?;
                let least = found.as_ref().map_or(best, |found| found.objective);
                if self.is_better(objective, least) {
                    found = Some(Found {
                        objective,
                        moves,
                        predicted,
                    });
                }
            }
            let Some(found) = found else { break };
            best = found.objective;
            self.settle(&found.moves, found.predicted);
        }
        Ok(best)
    }

    /// The objective near the present values, as a quadratic form of the logarithms of `free`.
    fn slope(&mut self, free: &[usize]) -> Result<Quadratic, String> {
        let rows = logarithms(&self.predicted, |row| row.predicted_us);
        let off = &rows - logarithms(&self.predicted, |row| row.measured_us);
        let weights = weights(&self.predicted);
        let mut changes = DMatrix::zeros(rows.len(), free.len());
        for (column, &parameter) in free.iter().enumerate() {
            let (objective, moved) = self.moved(&[(parameter, self.factors[parameter] * NUDGE)])?;
            if objective.is_finite() {
                let moved = logarithms(&moved, |row| row.predicted_us);
                let by = (moved - &rows) / NUDGE.ln();
                changes.set_column(column, &by);
            }
        }
        let weighted = DMatrix::from_fn(changes.nrows(), changes.ncols(), |row, column| {
            weights[row] * changes[(row, column)]
        });
        let mut form = Quadratic {
            curvature: weighted.tr_mul(&changes),
            gradient: weighted.tr_mul(&off),
        };
        self.pull
            .add((&self.starts, &self.factors), free, &mut form);
        Ok(form)
    }

    /// Where a step leads with so much damping; `None` if that has no answer.
    fn step(&self, free: &[usize], slope: &Quadratic, damping: f64) -> Option<Vec<(usize, f64)>> {
        let by = slope.lowest(damping)?;
        let limit = FARTHEST.ln();
        let moves = free.iter().zip(by.iter()).filter_map(|(&parameter, by)| {
            let factor = self.factors[parameter] * by.clamp(-limit, limit).exp();
            let factor = factor.clamp(FACTORS.0, FACTORS.1);
            by.is_finite().then_some((parameter, factor))
        });
        let moves: Vec<_> = moves.collect();
        (!moves.is_empty()).then_some(moves)
    }
}

/// ln of a time of each row.
fn logarithms(
    predicted: &[Option<PredictedSet>],
    time: impl Fn(&PredictedRow) -> f64,
) -> DVector<f64> {
    let rows = predicted.iter().flatten().flat_map(|set| &set.rows);
    DVector::from_vec(rows.map(|row| time(row).ln()).collect())
}
