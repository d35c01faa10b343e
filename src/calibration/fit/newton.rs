//! Moving all parameters of a fit at once.
//!
//! A table often knows a sum of parameters better than each of them, in parts that no fixed step
//! of one or two keeps the same. How each row changes with each parameter tells in which direction
//! the objective falls for all of them together: steps of Gauss and Newton, weighted by what each
//! row counts for in the objective, and damped as Levenberg and Marquardt do (Nocedal and Wright,
//! *Numerical Optimization*, chapter 10).

use super::matrix::{Matrix, difference};
use super::quadratic::Quadratic;
use super::state::{FACTORS, Fit};
use crate::predict::{PredictedRow, PredictedSet};
use crate::summary::weights;

/// The factor by which a parameter is moved to see how rows change with it.
const NUDGE: f64 = 1.05;
/// No parameter is moved by more than this factor at once: beyond, rows are not what they seem
/// from here.
const FARTHEST: f64 = 2.0;
/// How much steps are damped, from what is tried first to what is tried last.
const DAMPING: [f64; 4] = [0.001, 0.03, 0.3, 3.0];
/// Steps after which it is enough for now.
const STEPS: usize = 8;
/// How often slopes are seen anew at most; between, steps tell how they change, which costs nothing.
const SEEN: usize = 2;
/// The square of a step that is too short to tell slopes from rounded times.
const SHORTEST: f64 = 1e-6;

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
        if self.times().is_empty() {
            // Nothing was measured, so that no direction is better than another.
            return Ok(best);
        }
        let mut slopes = self.slopes(free)?;
        let (mut seen, mut learnt) = (1, false);
        for _ in 0..STEPS {
            let mut found = self.step(free, &slopes, best)?;
            if found.is_none() && learnt && seen < SEEN {
                slopes = self.slopes(free)?;
                seen += 1;
                found = self.step(free, &slopes, best)?;
            }
            let Some(found) = found else { break };
            best = found.objective;
            let before = (self.at(free), self.times());
            self.settle(&found.moves, found.predicted);
            learn(
                &mut slopes,
                &difference(&self.at(free), &before.0),
                &difference(&self.times(), &before.1),
            );
            learnt = true;
        }
        Ok(best)
    }

    /// ln of the factor that each parameter has.
    fn at(&self, free: &[usize]) -> Vec<f64> {
        free.iter().map(|&p| self.factors[p].ln()).collect()
    }

    /// ln of the time that each row is predicted to take.
    fn times(&self) -> Vec<f64> {
        logarithms(&self.predicted, |row| row.predicted_us)
    }

    /// How the logarithm of each row's time changes with that of each parameter.
    fn slopes(&mut self, free: &[usize]) -> Result<Matrix, String> {
        let rows = self.times();
        let mut changes = Matrix::zeros(rows.len(), free.len());
        for (column, &parameter) in free.iter().enumerate() {
            let (objective, moved) = self.moved(&[(parameter, self.factors[parameter] * NUDGE)])?;
            if objective.is_finite() {
                let moved = logarithms(&moved, |row| row.predicted_us);
                for (row, by) in difference(&moved, &rows).into_iter().enumerate() {
                    changes[(row, column)] = by / NUDGE.ln();
                }
            }
        }
        Ok(changes)
    }

    /// The objective near the present values, as a quadratic form of the logarithms of `free`.
    fn form(&self, free: &[usize], slopes: &Matrix) -> Quadratic {
        let measured = logarithms(&self.predicted, |row| row.measured_us);
        let off = difference(&self.times(), &measured);
        let weights = weights(&self.predicted, self.counting);
        let (curvature, gradient) = slopes.normal(&weights, &off);
        let mut form = Quadratic {
            curvature,
            gradient,
        };
        self.pull
            .add((&self.starts, &self.factors), free, &mut form);
        form
    }

    /// The step that leads lowest, damped more and more as long as that is better.
    fn step(
        &mut self,
        free: &[usize],
        slopes: &Matrix,
        best: f64,
    ) -> Result<Option<Found>, String> {
        let form = self.form(free, slopes);
        let mut found: Option<Found> = None;
        for damping in DAMPING {
            let Some(moves) = self.led(free, &form, damping) else {
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
            } else if found.is_some() {
                break;
            }
        }
        Ok(found)
    }

    /// Where a step leads with so much damping; `None` if that has no answer.
    fn led(&self, free: &[usize], slope: &Quadratic, damping: f64) -> Option<Vec<(usize, f64)>> {
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

/// Corrects slopes by what a step of parameters changed of each row's time.
///
/// Of all slopes that would have told the change, the nearest ones (Broyden's update), where those
/// of parameters that do not matter to a row stay zero (Schubert, *Mathematics of Computation* 24,
/// 1970).
fn learn(slopes: &mut Matrix, step: &[f64], change: &[f64]) {
    for (row, change) in slopes.rows_mut().zip(change) {
        let (mut told, mut length) = (0.0, 0.0);
        for (slope, by) in row.iter().zip(step).filter(|(slope, _)| **slope != 0.0) {
            told += slope * by;
            length += by * by;
        }
        if length > SHORTEST {
            let off = (change - told) / length;
            let matter = row.iter_mut().zip(step).filter(|(slope, _)| **slope != 0.0);
            matter.for_each(|(slope, by)| *slope += off * by);
        }
    }
}

/// ln of a time of each row.
fn logarithms(predicted: &[Option<PredictedSet>], time: impl Fn(&PredictedRow) -> f64) -> Vec<f64> {
    let rows = predicted.iter().flatten().flat_map(|set| &set.rows);
    rows.map(|row| time(row).ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::matrix::dot;
    use super::*;

    #[test]
    fn steps_tell_slopes_of_parameters_that_matter() {
        let mut slopes = Matrix::zeros(3, 2);
        let known = [[1.0, 0.0], [0.5, 0.5], [0.2, 0.3]];
        for (row, known) in slopes.rows_mut().zip(known) {
            row.copy_from_slice(&known);
        }
        let (step, change) = ([0.1, -0.2], [0.2, 0.05, -0.04]);
        learn(&mut slopes, &step, &change);
        for (row, change) in slopes.rows().zip(change) {
            assert!((dot(row, &step) - change).abs() < 1e-12);
        }
        // The first row alone hears only one of them, the last was right before.
        assert!((slopes[(0, 0)] - 2.0).abs() < 1e-12 && slopes[(0, 1)] == 0.0);
        assert!((slopes[(2, 0)] - 0.2).abs() < 1e-12 && (slopes[(2, 1)] - 0.3).abs() < 1e-12);
        // What hardly moved tells nothing.
        let before = slopes.clone();
        learn(&mut slopes, &step.map(|by| by * 1e-4), &[1.0; 3]);
        assert_eq!(slopes, before);
    }
}
