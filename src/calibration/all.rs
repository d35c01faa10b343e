//! All measurements at once.

use super::measurement::Measurement;
use super::predict::{Machines, PredictedSet, Skip, predict};
use super::summary::{Band, baseline, over_groups, over_rows, simulated};
use fabricsim_budget::Budget;
use fabricsim_budget::threads;
use fabricsim_report::validation::{
    BandErrors, Counts, InferredSettings, Overall, SkippedSet, ValidatedRow, ValidatedSet,
    Validation,
};
use fabricsim_topology::Hardware;
use fabricsim_units::Time;
use std::borrow::Cow;

/// Predicts every measurement on machines made of `hardware`, as many at a time as the
/// budget has threads; calls `done` after each. In the measurements' order, whichever
/// was ready first. Those with inferred settings are predicted as their sources say and, behind
/// that, with these.
///
/// # Panics
/// If a prediction does.
pub fn validate(
    measurements: &[Measurement],
    hardware: &Hardware,
    budget: &Budget,
    done: &(impl Fn() + Sync),
) -> Validation {
    let both = measurements.iter().flat_map(|said| {
        let inferred = said.as_inferred().map(Cow::Owned);
        [
            Some((Cow::Borrowed(said), false)),
            inferred.map(|other| (other, true)),
        ]
    });
    let tables: Vec<Table<'_>> = both.flatten().collect();
    let outcomes = predict_all(&tables, hardware, budget, done);
    Validation {
        counts: Counts {
            modelled: tables
                .iter()
                .zip(&outcomes)
                .filter(|((_, inferred), outcome)| !inferred && outcome.is_ok())
                .count(),
            ..counts(measurements)
        },
        ..record(&tables, &outcomes)
    }
}

type Outcome = Result<PredictedSet, Skip>;

/// A table, and whether it has inferred settings in place of those that its source says.
type Table<'m> = (Cow<'m, Measurement>, bool);

fn predict_all(
    tables: &[Table<'_>],
    hardware: &Hardware,
    budget: &Budget,
    done: &(impl Fn() + Sync),
) -> Vec<Outcome> {
    let beside = budget.beside_others(budget.threads);
    let counting = budget.work.part("tables", tables.len() as u64);
    threads::each(
        tables,
        Some(budget.threads),
        || Machines::new(hardware).within(&beside),
        |machines, (measurement, inferred)| {
            let outcome = predict(measurement, machines, |_| true);
            counting.add(1);
            if !inferred {
                done();
            }
            outcome
        },
    )
}

/// How many tables there are, but for how many were predicted.
fn counts(measurements: &[Measurement]) -> Counts {
    let healthy = || measurements.iter().filter(|m| m.healthy);
    Counts {
        tables: measurements.len(),
        healthy: healthy().count(),
        with_model: healthy().filter(|m| m.model.is_some()).count(),
        modelled: 0,
        inferred: measurements.iter().filter(|m| m.inferred.is_some()).count(),
    }
}

/// What a report shows of `outcomes`, which are those of `tables`.
fn record(tables: &[Table<'_>], outcomes: &[Outcome]) -> Validation {
    let mut sets = Vec::new();
    let mut skipped = Vec::new();
    // As sources say; with inferred settings, as sources say, and with these.
    let (mut plain, mut said, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for ((measurement, inferred), outcome) in tables.iter().zip(outcomes) {
        match outcome {
            Ok(set) => {
                sets.push(validated((measurement, *inferred), set));
                match (&measurement.inferred, inferred) {
                    (None, _) => plain.push(set),
                    (Some(_), false) => said.push(set),
                    (Some(_), true) => taken.push(set),
                }
            }
            Err(skip) => skipped.push(SkippedSet {
                id: measurement.id.clone(),
                why: skip.why.clone(),
                kind: skip.kind,
            }),
        }
    }
    let inside: Vec<&PredictedSet> = plain.iter().copied().filter(|s| s.one_domain).collect();
    let mut lines = vec![
        overall("groups", "all groups", &plain),
        overall("one_nvlink_domain", "inside one NVLink domain", &inside),
    ];
    if !(said.is_empty() && taken.is_empty()) {
        lines.extend([
            overall("inferred", "settings inferred", &taken),
            overall("inferred_as_said", "the same, as sources say", &said),
        ]);
    }
    Validation {
        overall: lines,
        counts: Counts::default(),
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

fn validated((measurement, inferred): (&Measurement, bool), set: &PredictedSet) -> ValidatedSet {
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
        crosses: set.crosses,
        nodes: set.nodes,
        inferred: measurement.inferred.as_ref().map(|own| InferredSettings {
            why: own.why.clone(),
            taken: inferred,
        }),
        errors: errors.into(),
        rows: rows.collect(),
    }
}
