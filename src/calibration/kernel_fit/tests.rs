//! Rows made from known figures.

use super::*;
use crate::serving::Operator;
use fabricsim_workload::kernel::{DataType, Gemm, Kernel};

/// Products on an H100, which took what the shipped law says with other figures.
fn made(figures: &[(&str, f64)]) -> Vec<KernelRow> {
    let mut parameters = KernelParameters::shipped().clone();
    let hopper = parameters.generations.get_mut("hopper").unwrap();
    for (path, mut leaf) in hopper.leaves() {
        if let Some((_, value)) = figures.iter().find(|(known, _)| path == *known) {
            leaf.set(*value);
        }
    }
    let shapes = [1, 64, 1024, 8192].map(|m| [1024, 4096, 8192].map(|n| (m, n, 8192)));
    let row = |(m, n, k)| {
        let kernel = Kernel::Gemm(Gemm {
            m,
            n,
            k,
            weights: DataType::Bf16,
            activations: DataType::Bf16,
            quantise: false,
        });
        let mut row = KernelRow {
            id: "made".to_owned(),
            gpu: "h100-sxm",
            generation: "hopper".to_owned(),
            operator: Operator::Gemm,
            data: "bfloat16".to_owned(),
            octave: m.ilog2() as i32,
            size: m.ilog2() as i32,
            kernel,
            micros: 0.0,
        };
        let law = KernelLaw::with(row.model(), &parameters).unwrap();
        row.micros = law.profiled(&row.kernel).micros();
        row
    };
    shapes.into_iter().flatten().map(row).collect()
}

#[test]
fn figures_that_rows_were_made_with_are_found() {
    let wanted = [
        ("gemm.bf16.launch", 6e-6),
        ("gemm.bf16.compute", 0.6),
        ("gemm.bf16.memory", 0.5),
    ];
    let tables = KernelTables {
        rows: made(&wanted),
        skipped: Vec::new(),
    };
    let (fitted, log) = fit_kernels(KernelParameters::shipped(), &tables, Some(1), &|_| {});
    assert_eq!(log.entries.len(), 1);
    assert!(log.entries[0].objective.1 < 0.02, "{:?}", log.entries[0]);
    assert_eq!((log.left_out[0].octaves, log.left_out[0].rows), (4, 12));
    let mut hopper = fitted.generations["hopper"].clone();
    for (path, leaf) in hopper.leaves() {
        if let Some((_, value)) = wanted.iter().find(|(known, _)| path == *known) {
            assert!(
                (leaf.number() / value - 1.0).abs() < 0.1,
                "{path}: {}",
                leaf.number()
            );
        }
    }
    // What it writes is what it reads.
    let text = kernel_parameters_text(&fitted).unwrap();
    assert_eq!(KernelParameters::parse(&text, "fitted").unwrap(), fitted);
}

#[test]
fn no_size_and_no_table_with_many_rows_counts_more_than_another() {
    let mut rows = made(&[]);
    rows.truncate(5);
    for (row, (id, size)) in rows
        .iter_mut()
        .zip([("a", 3), ("a", 3), ("a", 3), ("b", 3), ("a", 9)])
    {
        (row.id, row.size) = (id.to_owned(), size);
    }
    let weights = |even| -> Vec<f64> {
        let found = search::weighted(rows.iter().collect(), even);
        found.into_iter().map(|(_, weight)| weight).collect()
    };
    let third = 0.25 / 3.0;
    for (found, wanted) in weights(true).iter().zip([third, third, third, 0.25, 0.5]) {
        assert!(
            (found - wanted).abs() < 1e-12,
            "{found} in place of {wanted}"
        );
    }
    assert_eq!(weights(false), [1.0; 5]);
}
