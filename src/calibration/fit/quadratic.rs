//! A quadratic form of many unknowns, and where it is lowest.

use super::matrix::Matrix;

/// What a function is near a point: gᵀx + xᵀCx / 2.
pub(super) struct Quadratic {
    /// C: positive, or zero for unknowns that make no difference.
    pub(super) curvature: Matrix,
    /// g.
    pub(super) gradient: Vec<f64>,
}

impl Quadratic {
    /// Adds `weight` (Σ sign x + off)² / 2 over the unknowns at `places`.
    pub(super) fn add(&mut self, places: &[(usize, f64)], off: f64, weight: f64) {
        for &(one, sign) in places {
            self.gradient[one] += weight * sign * off;
            for &(other, its) in places {
                self.curvature[(one, other)] += weight * sign * its;
            }
        }
    }

    /// The x where it is lowest, with so much of each unknown's own curvature added: the more, the
    /// shorter the way. Unknowns that make no difference stay at zero.
    pub(super) fn lowest(&self, damping: f64) -> Option<Vec<f64>> {
        let mut damped = self.curvature.clone();
        let unknowns = self.gradient.len();
        let own = (0..unknowns).map(|at| self.curvature[(at, at)]);
        let most = own.fold(f64::NEG_INFINITY, f64::max);
        for at in 0..unknowns {
            damped[(at, at)] += damping * damped[(at, at)] + 1e-9 * most;
        }
        let mut at = damped.solve(&self.gradient)?;
        at.iter_mut().for_each(|x| *x = -*x);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zero(unknowns: usize) -> Quadratic {
        Quadratic {
            curvature: Matrix::zeros(unknowns, unknowns),
            gradient: vec![0.0; unknowns],
        }
    }

    #[test]
    fn sums_and_differences_are_solved_together() {
        // x + y = 3 and x - y = 1; nothing is known of z.
        let mut form = zero(3);
        form.add(&[(0, 1.0), (1, 1.0)], -3.0, 2.0);
        form.add(&[(0, 1.0), (1, -1.0)], -1.0, 0.5);
        let at = form.lowest(0.0).unwrap();
        assert!(
            (at[0] - 2.0).abs() < 1e-6 && (at[1] - 1.0).abs() < 1e-6,
            "{at:?}"
        );
        assert!(at[2].abs() < 1e-12);
    }

    #[test]
    fn damped_steps_are_shorter() {
        let mut form = zero(1);
        form.add(&[(0, 1.0)], -6.0, 1.0);
        for (damping, step) in [(0.0, 6.0), (1.0, 3.0), (2.0, 2.0)] {
            assert!((form.lowest(damping).unwrap()[0] - step).abs() < 1e-6);
        }
        assert!(zero(1).lowest(1.0).is_none());
    }
}
