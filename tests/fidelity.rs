//! How true predictions are: published figures, and how far off they were when last recorded.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::calibration::{
    Band, Machines, PredictedSet, baseline, over_groups, parse_measurements, predict, simulated,
};
use serde_json::Value;

const PUBLISHED: &str = include_str!("../validation/published.json");
const RECORDED: &str = include_str!("../validation/recorded.json");

/// Errors move a little when other parts change; more than this is a loss.
const SLACK: f64 = 1.02;

#[test]
fn predictions_are_as_true_as_recorded() {
    let measurements = parse_measurements(PUBLISHED, "published.json").unwrap();
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let mut machines = Machines::shipped();
    let sets: Vec<PredictedSet> = measurements
        .iter()
        .map(|m| predict(m, &mut machines, |_| true).unwrap_or_else(|e| panic!("{}: {e:?}", m.id)))
        .collect();
    // Tables with inferred settings count apart: as their sources say, and with these.
    let plain = measurements.iter().map(|m| m.inferred.is_none());
    let (all, said): (Vec<_>, Vec<_>) = sets.iter().zip(plain).partition(|(_, plain)| *plain);
    let all: Vec<&PredictedSet> = all.into_iter().map(|(set, _)| set).collect();
    let said: Vec<&PredictedSet> = said.into_iter().map(|(set, _)| set).collect();
    let inferred: Vec<PredictedSet> = measurements
        .iter()
        .filter_map(|m| predict(&m.as_inferred()?, &mut machines, |_| true).ok())
        .collect();
    let inferred: Vec<&PredictedSet> = inferred.iter().collect();
    assert_eq!((inferred.len(), said.len()), (3, 3));
    let inside: Vec<&PredictedSet> = all.iter().copied().filter(|s| s.one_domain).collect();
    let mut worse = Vec::new();
    for (name, sets) in [
        ("groups", &all),
        ("one_nvlink_domain", &inside),
        ("inferred", &inferred),
        ("inferred_as_said", &said),
    ] {
        for band in Band::ALL {
            let found = over_groups(sets, band, simulated).unwrap();
            let known = &recorded[name][band.key()];
            for (what, found) in [("median", found.median), ("p90", found.p90)] {
                let known = known[what].as_f64().unwrap();
                println!(
                    "{name} {} {what}: {found:.4} (recorded {known:.4})",
                    band.name()
                );
                if found > known * SLACK {
                    worse.push(format!(
                        "{name}, {}, {what}: {found:.4} > {known:.4}",
                        band.name()
                    ));
                }
            }
            let model = over_groups(sets, band, baseline).unwrap();
            assert!(
                name == "inferred_as_said" || found.median < model.median,
                "{name}, {}: NCCL's own model is nearer",
                band.name()
            );
        }
    }
    assert!(
        worse.is_empty(),
        "worse than recorded:\n{}",
        worse.join("\n")
    );
}
