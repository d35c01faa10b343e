//! How is a model of eight billion parameters divided best over two DGX H100?

use fabricsim::{Experiment, ScenarioError};

/// A step of Llama 3 8B on 16 GPUs in three layouts.
const SCENARIO: &str = r#"{
  "name": "training-step",
  "topology": { "name": "dgx-h100" },
  "nodes": 2,
  "job": {
    "training": {
      "model": { "preset": "llama3-8b" },
      "sequence": 8192,
      "global_batch": 32,
      "flash_version": 3,
      "recompute": "selective",
      "data_parallel": { "fsdp": {} }
    }
  },
  "variants": [
    { "name": "fsdp" },
    { "name": "tp2", "set": { "job.training.parallel": { "tp": 2, "sequence_parallel": true } } },
    { "name": "tp8", "set": { "job.training.parallel": { "tp": 8, "sequence_parallel": true } } }
  ]
}"#;

fn main() -> Result<(), ScenarioError> {
    let summary = Experiment::parse(SCENARIO)?.run()?;
    for best in &summary.variants {
        if summary.best.as_ref() == Some(&best.name) {
            let seconds = best.metrics.time_us.unwrap_or_default() / 1e6;
            let mfu = 100.0 * best.metrics.mfu.unwrap_or_default();
            println!(
                "{} is best: a step takes {seconds:.2} s at {mfu:.0} % of the GPUs' peak.\n",
                best.name
            );
        }
    }
    println!("layout  step s  tokens/s/GPU  exposed %  memory GiB  fits");
    for variant in &summary.variants {
        let metrics = &variant.metrics;
        println!(
            "{:<6}  {:>6.2}  {:>12.0}  {:>9.1}  {:>10.1}  {}",
            variant.name,
            metrics.time_us.unwrap_or_default() / 1e6,
            metrics.tokens_per_s_per_gpu.unwrap_or_default(),
            100.0 * metrics.exposed_share.unwrap_or_default(),
            metrics.memory_gib.unwrap_or_default(),
            metrics
                .fits
                .map_or("?", |fits| if fits { "yes" } else { "no" }),
        );
    }
    Ok(())
}
