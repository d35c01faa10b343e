//! All measurements at once.

use super::measurement::Measurement;
use super::predict::{Machines, PredictedSet, Skip, predict};
use super::summary::{Band, baseline, over_groups, over_rows, simulated};
use fabricsim_budget::Budget;
use fabricsim_budget::threads;
use fabricsim_report::validation::{
    BandErrors, Counts, Overall, SkippedSet, ValidatedRow, ValidatedSet, Validation,
};
use fabricsim_topology::Hardware;
use fabricsim_units::Time;

/// Predicts every measurement on machines made of `hardware`, as many at a time as the
/// budget has threads; calls `done` after each. In the measurements' order, whichever
/// was ready first.
///
/// # Panics
/// If a prediction does.
pub fn validate(
    measurements: &[Measurement],
    hardware: &Hardware,
    budget: &Budget,
    done: &(impl Fn() + Sync),
) -> Validation {
    let outcomes = predict_all(measurements, hardware, budget, done);
    record(measurements, &outcomes)
}

type Outcome = Result<PredictedSet, Skip>;

fn predict_all(
    measurements: &[Measurement],
    hardware: &Hardware,
    budget: &Budget,
    done: &(impl Fn() + Sync),
) -> Vec<Outcome> {
    threads::each(
        measurements,
        Some(budget.threads),
        || Machines::new(hardware).within(&budget.memory),
        |machines, measurement| {
            let outcome = predict(measurement, machines, |_| true);
            done();
            outcome
        },
    )
}

/// What a report shows of `outcomes`, which are those of `measurements`.
fn record(measurements: &[Measurement], outcomes: &[Outcome]) -> Validation {
    let mut sets = Vec::new();
    let mut predicted = Vec::new();
    let mut skipped = Vec::new();
    for (measurement, outcome) in measurements.iter().zip(outcomes) {
        match outcome {
            Ok(set) => {
                sets.push(validated(measurement, set));
                predicted.push(set);
            }
            Err(skip) => skipped.push(SkippedSet {
                id: measurement.id.clone(),
                why: skip.why.clone(),
                kind: skip.kind,
            }),
        }
    }
    let inside: Vec<&PredictedSet> = predicted.iter().copied().filter(|s| s.one_domain).collect();
    let healthy = || measurements.iter().filter(|m| m.healthy);
    Validation {
        overall: vec![
            overall("groups", "all groups", &predicted),
            overall("one_nvlink_domain", "inside one NVLink domain", &inside),
        ],
        counts: Counts {
            tables: measurements.len(),
            healthy: healthy().count(),
            with_model: healthy().filter(|m| m.model.is_some()).count(),
            modelled: sets.len(),
        },
        sets,
        skipped,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn overall(key: &str, name: &str, sets: &[&PredictedSet]) -> Overall {
    let bands = Band::ALL.map(|band| BandErrors {
        key: band.key().to_owned(),
        name: band.name().to_owned(),
        predicted: over_groups(sets, band, simulated),
        baseline: over_groups(sets, band, baseline),
    });
    Overall {
        key: key.to_owned(),
        name: name.to_owned(),
        bands: bands.into(),
    }
}

fn validated(measurement: &Measurement, set: &PredictedSet) -> ValidatedSet {
    let errors = Band::ALL.map(|band| BandErrors {
        key: band.key().to_owned(),
        name: band.name().to_owned(),
        predicted: over_rows(set, band, simulated),
        baseline: over_rows(set, band, baseline),
    });
    let rows = set.rows.iter().map(|row| ValidatedRow {
        bytes: row.bytes,
        measured_us: Time::round_micros(row.measured_us),
        predicted_us: row.predicted_us,
        baseline_us: Time::round_micros(row.baseline_us),
        algo: row.algorithm.to_owned(),
        proto: row.protocol.to_owned(),
        channels: u32::from(row.channels),
    });
    ValidatedSet {
        id: set.id.clone(),
        title: measurement.source.title.clone(),
        address: measurement.source.address.clone(),
        topology: set.group.topology.clone(),
        ranks: set.group.ranks,
        collective: set.group.collective.name().to_owned(),
        one_domain: set.one_domain,
        errors: errors.into(),
        rows: rows.collect(),
    }
}
