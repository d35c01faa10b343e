//! One entry's figures: what makes them fit its rows best.
//!
//! Each figure, and each two of them, are moved up and down by factors that become smaller, from the
//! middle of their ranges; what makes the objective smaller is kept. That is the mean over GPUs of
//! half the median and half the mean of |ln(predicted / measured)| of their rows. Those of products in
//! 16 bits are weighted: each octave of sizes counts the same, in it each table, and in that each
//! row. No random choice is made, and where the figures stood before does not matter.

use crate::serving::kernels::KernelRow;
use fabricsim_workload::kernel::leaf::Leaf;
use fabricsim_workload::kernel::parameters::Generation;
use fabricsim_workload::kernel::{Entry, Format, KernelLaw, KernelParameters};
use std::collections::BTreeMap;

/// Factors of rounds.
const STEPS: [f64; 9] = [1.6, 1.25, 1.25, 1.1, 1.1, 1.04, 1.04, 1.015, 1.015];

/// So often at most all figures are moved by one factor.
const PASSES: usize = 4;

/// What is gained less than this is no gain.
const NOTICEABLE: f64 = 1e-7;

/// A pass that gains less is the last with its factor.
const WORTHWHILE: f64 = 1e-4;

/// Errors count no more than this, as a logarithm.
const MOST: f64 = 1.5;

/// The parameters of one entry, moved.
pub(super) struct Search<'r> {
    /// Each with what it counts among those of its GPU.
    rows: Vec<(&'r KernelRow, f64)>,
    generation: String,
    parameters: KernelParameters,
    /// Ranges of the figures that move, by their place.
    moved: Vec<(String, (f64, f64))>,
    values: Vec<f64>,
    pub(super) evaluations: usize,
}

impl<'r> Search<'r> {
    /// Of an entry of a generation in `parameters`, on these rows; figures whose name is in
    /// `held` stay as they are.
    pub(super) fn new(
        parameters: &KernelParameters,
        (generation, entry): (&str, Entry),
        held: &[&str],
        rows: Vec<&'r KernelRow>,
    ) -> Search<'r> {
        let mut parameters = only(parameters, generation, &entry.place());
        let mut moved = Vec::new();
        let mut values = Vec::new();
        for (path, leaf) in leaves(&mut parameters, generation) {
            let name = path.rsplit('.').next().unwrap_or_default();
            if !held.contains(&name) {
                let (low, high) = leaf.range();
                values.push((low * high).sqrt());
                moved.push((path, (low, high)));
            }
        }
        Search {
            rows: weighted(rows, entry == Entry::Gemm(Format::Bf16)),
            generation: generation.to_owned(),
            parameters,
            moved,
            values,
            evaluations: 0,
        }
    }

    /// Moves the figures; the objective before and after.
    pub(super) fn run(&mut self) -> (f64, f64) {
        let before = self.objective();
        let mut best = before;
        for step in STEPS {
            for _ in 0..PASSES {
                let start = best;
                self.pass(step, &mut best);
                if start - best < WORTHWHILE {
                    break;
                }
            }
        }
        let found = self.values.clone();
        self.set(&found);
        (before, best)
    }

    fn pass(&mut self, step: f64, best: &mut f64) {
        let count = self.values.len();
        for one in 0..count {
            for factor in [step, 1.0 / step] {
                while self.attempt(&[(one, factor)], best) {}
            }
            for other in 0..one {
                for (a, b) in [
                    (step, 1.0 / step),
                    (1.0 / step, step),
                    (step, step),
                    (1.0 / step, 1.0 / step),
                ] {
                    self.attempt(&[(one, a), (other, b)], best);
                }
            }
        }
    }

    /// Whether moving some figures is better; it is undone if not.
    fn attempt(&mut self, moves: &[(usize, f64)], best: &mut f64) -> bool {
        let before = self.values.clone();
        for &(at, factor) in moves {
            let (low, high) = self.moved[at].1;
            self.values[at] = (self.values[at] * factor).clamp(low, high);
        }
        if self.values == before {
            return false;
        }
        let now = self.objective();
        if now < *best - NOTICEABLE {
            *best = now;
            return true;
        }
        self.values = before;
        false
    }

    fn objective(&mut self) -> f64 {
        self.evaluations += 1;
        let values = self.values.clone();
        self.set(&values);
        let errors = errors(&self.rows, &self.parameters);
        let gpus = errors.len().max(1) as f64;
        let of = |errors: Vec<(f64, f64)>| 0.5 * mean(&errors) + 0.5 * middle(errors);
        errors.into_values().map(of).sum::<f64>() / gpus
    }

    fn set(&mut self, values: &[f64]) {
        let moved = &self.moved;
        for (path, mut leaf) in leaves(&mut self.parameters, &self.generation) {
            if let Some(at) = moved.iter().position(|(known, _)| *known == path) {
                leaf.set(values[at]);
            }
        }
    }

    /// The figures by place.
    pub(super) fn found(&self) -> impl Iterator<Item = (&str, f64)> {
        let values = self.values.iter().copied();
        self.moved.iter().map(|(path, _)| path.as_str()).zip(values)
    }

    /// What is predicted of a row with them, in microseconds.
    pub(super) fn predict(&self, row: &KernelRow) -> Option<f64> {
        let law = KernelLaw::with(row.model(), &self.parameters)?;
        Some(law.profiled(&row.kernel).micros())
    }
}

/// Rows with what they count. Of products in 16 bits there is one table with a thousand rows, few of them
/// large, beside one with ninety of all sizes: neither a size nor a table with many rows hides the
/// others. All other entries have one table a GPU and engine, with all sizes alike.
pub(super) fn weighted(rows: Vec<&KernelRow>, even: bool) -> Vec<(&KernelRow, f64)> {
    if !even {
        return rows.into_iter().map(|row| (row, 1.0)).collect();
    }
    let mut sizes: BTreeMap<&str, BTreeMap<i32, BTreeMap<&str, f64>>> = BTreeMap::new();
    for row in &rows {
        let tables = sizes.entry(row.gpu).or_default().entry(row.size);
        *tables.or_default().entry(&row.id).or_default() += 1.0;
    }
    let weight = |row: &KernelRow| {
        let sizes = &sizes[row.gpu];
        let tables = &sizes[&row.size];
        1.0 / (sizes.len() as f64 * tables.len() as f64 * tables[row.id.as_str()])
    };
    let weights: Vec<f64> = rows.iter().map(|row| weight(row)).collect();
    rows.into_iter().zip(weights).collect()
}

/// The weighted mean of errors and their weights.
fn mean(errors: &[(f64, f64)]) -> f64 {
    let all: f64 = errors.iter().map(|(_, weight)| weight).sum();
    let sum: f64 = errors.iter().map(|(e, weight)| e.min(MOST) * weight).sum();
    sum / all
}

/// The weighted median: those below it have half of the weight at most.
fn middle(mut errors: Vec<(f64, f64)>) -> f64 {
    errors.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let all: f64 = errors.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let reached = errors.iter().find(|(_, weight)| {
        below += weight;
        below > 0.5 * all
    });
    reached.map_or(0.0, |(e, _)| *e)
}

/// |ln(predicted / measured)| of rows and their weights, by GPU.
fn errors<'r>(
    rows: &[(&'r KernelRow, f64)],
    parameters: &KernelParameters,
) -> BTreeMap<&'r str, Vec<(f64, f64)>> {
    let mut laws: BTreeMap<&str, Option<KernelLaw<'_>>> = BTreeMap::new();
    let mut errors: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (row, weight) in rows {
        let law = laws
            .entry(row.gpu)
            .or_insert_with(|| KernelLaw::with(row.model(), parameters));
        let Some(law) = law else { continue };
        let ratio = law.profiled(&row.kernel).micros() / row.micros;
        let errors = errors.entry(row.gpu).or_default();
        errors.push((ratio.ln().abs(), *weight));
    }
    errors
}

/// Parameters with nothing but one entry.
fn only(parameters: &KernelParameters, generation: &str, place: &str) -> KernelParameters {
    let mut one = parameters.clone();
    let kept = one.generations.remove(generation).unwrap_or_default();
    one.generations.clear();
    one.generations
        .insert(generation.to_owned(), kept.only(place));
    one
}

fn leaves<'p>(parameters: &'p mut KernelParameters, generation: &str) -> Vec<(String, Leaf<'p>)> {
    let generation = parameters.generations.get_mut(generation);
    generation.map(Generation::leaves).unwrap_or_default()
}
