//! Rows made by simulating with known terms.

use super::*;
use crate::serving::engine::served;
use serde_json::json;

fn budget() -> Budget {
    Budget {
        threads: 1,
        ..Budget::default()
    }
}

/// Short runs of Llama 3 8B on one H100, whose measured figures are those that the known terms give.
fn made(known: &Point) -> ServingTable {
    let row = |concurrency: u32| {
        json!({
            "input_tokens": 200, "output_tokens": 20, "concurrency": concurrency, "requests": 2 * concurrency,
            "gpus": 1, "tp": 1, "ttft_ms": 1.0, "tpot_ms": 1.0
        })
    };
    let mut table: ServingTable = serde_json::from_value(json!({
        "id": "made", "kind": "engine_benchmark", "settings_completeness_0_3": 3,
        "system": { "gpu": "H100 SXM 80GB" }, "software": { "engine": "vllm" },
        "model": { "name": "llama-3_1-8b", "precision": "bf16" },
        "rows": [row(1), row(2), row(4), row(8)]
    }))
    .unwrap();
    let (rows, _) = engine::rows(&[&table]);
    assert_eq!(rows.len(), 4);
    let machines = Machines::default();
    for ((_, row), to) in rows.iter().zip(&mut table.rows) {
        let mut scenario = row.scenario.clone();
        if let JobSpec::Serving(serving) = &mut scenario.job {
            terms::set(&mut serving.engine, known);
        }
        let result = served(&scenario, &machines, &budget()).unwrap();
        let run = row.measured.beside(&result, row.run.clone()).unwrap();
        to["ttft_ms"] = json!(run.ttft_ms.unwrap().1);
        to["tpot_ms"] = json!(run.tpot_ms.unwrap().1);
    }
    table
}

#[test]
fn figures_that_runs_were_made_with_are_found_again() {
    let model = fabricsim_topology::serving();
    let mut known = terms::own(&model.engines["vllm"]);
    // Two steps up each.
    known[0] += 2;
    known[2] += 2;
    let table = made(&known);
    let (fitted, log) = fit_engines(model, &[table], &budget(), &|_| ()).unwrap();
    let engine = &log.engines[0];
    assert_eq!(
        (engine.name.as_str(), engine.groups, engine.rows),
        ("vllm", 1, 4)
    );
    let (before, after) = engine.objective;
    assert!(after < 0.25 * before, "{before} {after}");
    let [pass, _, request, ..] = terms::values(&known);
    let found = &fitted.engines["vllm"];
    assert!(
        (found.per_pass.value.micros() / pass).ln().abs() < 0.5,
        "{found:?}"
    );
    assert!(
        (found.per_request.value.micros() / request).ln().abs() < 0.5,
        "{found:?}"
    );
    assert!(found.per_pass.source.contains("4 rows of 1 groups"));
    // Others stay.
    assert_eq!(fitted.engines["sglang"], model.engines["sglang"]);
}

#[test]
fn shipped_terms_stand_on_ladders_that_rise() {
    for term in Term::ALL {
        assert!(term.ladder().is_sorted_by(|a, b| a < b), "{}", term.name());
    }
    for policy in ENGINES {
        let engine = &fabricsim_topology::serving().engines[policy.name()];
        let values = terms::values(&terms::own(engine));
        for (term, value) in Term::ALL.iter().zip(values) {
            assert_eq!(term.of(engine), value, "{} {}", policy.name(), term.name());
        }
    }
}
