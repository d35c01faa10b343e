//! Scenarios that serve, run as the command runs them.

use fabricsim::budget::Budget;
use fabricsim::experiment::{ScenarioError, Silent, parse, run, validate};
use fabricsim::report::serving::ServingResult;
use fabricsim::report::{Outputs, Results};
use serde_json::{Value, json};
use std::path::Path;

/// A small model: 4 layers, 8 heads of 128 for queries, keys and values; 16 KiB of KV cache a token.
pub(crate) fn model() -> Value {
    json!({ "shape": {
        "layers": 4, "hidden": 1024, "heads": 8, "head_dim": 128, "ffn": 4096, "gated": true,
        "vocabulary": 32000, "sequence": 32768
    } })
}

/// A scenario of a job on DGX H100, with what else it says.
pub(crate) fn scenario(job: &Value, more: &Value) -> Value {
    let mut scenario = json!({
        "name": "s", "topology": { "name": "dgx-h100" }, "job": { "serving": job }
    });
    let all = more.as_object().cloned().unwrap_or_default();
    for (key, value) in all {
        scenario[key] = value;
    }
    scenario
}

/// All of its results.
pub(crate) fn results(scenario: &Value) -> Result<Results, ScenarioError> {
    let scenario = parse(&scenario.to_string(), "test", &[])?;
    let experiment = validate(scenario, Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let budget = Budget::default();
    run(&experiment, &budget, &Outputs::default(), &mut Silent)
}

/// What its only variant came to.
pub(crate) fn serve(scenario: &Value) -> ServingResult {
    let results = results(scenario).unwrap_or_else(|error| panic!("{error}"));
    let variant = &results.summary.variants[0];
    variant.job.serving().expect("it serves").clone()
}

/// Why it is refused.
pub(crate) fn refused(scenario: &Value) -> String {
    match results(scenario) {
        Ok(_) => panic!("it runs"),
        Err(error) => error.to_string(),
    }
}
