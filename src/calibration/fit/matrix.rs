//! Matrices of a fit: a few hundred rows and columns.

use std::ops::{Index, IndexMut};

/// A matrix, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    columns: usize,
    cells: Vec<f64>,
}

impl Matrix {
    pub(super) fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix {
            columns,
            cells: vec![0.0; rows * columns],
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.cells.chunks(self.columns.max(1))
    }

    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        self.cells.chunks_mut(self.columns.max(1))
    }

    /// AᵀWA, and AᵀWb, of this matrix A: `weights` are W's diagonal.
    pub(super) fn normal(&self, weights: &[f64], b: &[f64]) -> (Matrix, Vec<f64>) {
        let mut squares = Matrix::zeros(self.columns, self.columns);
        let mut products = vec![0.0; self.columns];
        for ((row, weight), b) in self.rows().zip(weights).zip(b) {
            for (at, one) in row.iter().enumerate().filter(|(_, one)| **one != 0.0) {
                let weighted = weight * one;
                products[at] += weighted * b;
                for (cell, other) in squares.row_mut(at).iter_mut().zip(row) {
                    *cell += weighted * other;
                }
            }
        }
        (squares, products)
    }

    /// The x with Ax = b, of a matrix A that is symmetric: by Cholesky's factors, of which the lower
    /// triangle alone is looked at. `None` unless A is positive definite.
    pub(super) fn solve(mut self, b: &[f64]) -> Option<Vec<f64>> {
        let size = self.columns;
        // L in place of the lower triangle: A = LLᵀ.
        for at in 0..size {
            for column in 0..=at {
                let known = dot(&self.row(at)[..column], &self.row(column)[..column]);
                let rest = self[(at, column)] - known;
                self[(at, column)] = if column < at {
                    rest / self[(column, column)]
                } else if rest > 0.0 {
                    rest.sqrt()
                } else {
                    return None;
                };
            }
        }
        // Ly = b, then Lᵀx = y.
        let mut x = b.to_vec();
        for at in 0..size {
            x[at] = (x[at] - dot(&self.row(at)[..at], &x[..at])) / self[(at, at)];
        }
        for at in (0..size).rev() {
            x[at] /= self[(at, at)];
            let (before, solved) = x.split_at_mut(at);
            for (value, factor) in before.iter_mut().zip(self.row(at)) {
                *value -= factor * solved[0];
            }
        }
        Some(x)
    }

    fn row(&self, at: usize) -> &[f64] {
        &self.cells[at * self.columns..][..self.columns]
    }

    fn row_mut(&mut self, at: usize) -> &mut [f64] {
        &mut self.cells[at * self.columns..][..self.columns]
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.row(row)[column]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.row_mut(row)[column]
    }
}

/// Σ one × other.
pub(super) fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// one - other.
pub(super) fn difference(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(a, b)| a - b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrix(columns: usize, cells: &[f64]) -> Matrix {
        Matrix {
            columns,
            cells: cells.to_vec(),
        }
    }

    #[test]
    fn three_unknowns_by_hand() {
        // L = [[2, 0, 0], [1, 3, 0], [-1, 2, 1]], x = [1, -2, 3].
        let a = matrix(3, &[4.0, 2.0, -2.0, 2.0, 10.0, 5.0, -2.0, 5.0, 6.0]);
        assert_eq!(a.solve(&[-6.0, -3.0, 6.0]), Some(vec![1.0, -2.0, 3.0]));
        // The upper triangle is not looked at.
        let lower = matrix(3, &[4.0, 0.0, 0.0, 2.0, 10.0, 0.0, -2.0, 5.0, 6.0]);
        assert_eq!(lower.solve(&[-6.0, -3.0, 6.0]), Some(vec![1.0, -2.0, 3.0]));
    }

    #[test]
    fn a_matrix_that_is_not_positive_has_no_answer() {
        assert_eq!(matrix(2, &[1.0, 2.0, 2.0, 1.0]).solve(&[1.0, 1.0]), None);
        assert_eq!(matrix(2, &[1.0, 1.0, 1.0, 1.0]).solve(&[1.0, 1.0]), None);
        assert_eq!(matrix(1, &[f64::NAN]).solve(&[1.0]), None);
        assert_eq!(Matrix::zeros(0, 0).solve(&[]), Some(Vec::new()));
    }

    #[test]
    fn rows_are_weighted() {
        // Two rows: [1, 2] twice as much as [3, 0].
        let a = matrix(2, &[1.0, 2.0, 3.0, 0.0]);
        let (squares, products) = a.normal(&[2.0, 1.0], &[1.0, 10.0]);
        assert_eq!(squares, matrix(2, &[11.0, 4.0, 4.0, 8.0]));
        assert_eq!(products, [32.0, 4.0]);
    }

    proptest! {
        #[test]
        fn solutions_solve(
            size in 1usize..9,
            cells in proptest::collection::vec(-3.0..3.0f64, 9 * 20),
            x in proptest::collection::vec(-5.0..5.0f64, 9),
        ) {
            let rows = matrix(size, &cells[..size * 20]);
            let x = &x[..size];
            let b: Vec<f64> = rows.rows().map(|row| dot(row, x)).collect();
            let (mut squares, products) = rows.normal(&[0.5; 20], &b);
            for at in 0..size {
                // Far enough from singular for the bound below.
                squares[(at, at)] += 1e-3;
            }
            let found = squares.clone().solve(&products).expect("positive definite");
            for (row, b) in squares.rows().zip(products) {
                let off = dot(row, &found) - b;
                prop_assert!(off.abs() <= 1e-9 * (1.0 + b.abs()), "{off} beside {b}");
            }
        }
    }
}
