//! Llama 3 8B on four H100: four engines of one GPU, or prompts and generation apart?

use fabricsim::{Experiment, ScenarioError};

/// Sixty requests at a rate, on engines that do both, and on two for prompts beside two that generate.
const SCENARIO: &str = r#"{
  "name": "serving",
  "topology": { "name": "dgx-h100" },
  "nodes": 1,
  "gpus_per_node": 4,
  "job": {
    "serving": {
      "model": { "preset": "llama3-8b" },
      "load": { "poisson": { "rate": 20 } },
      "lengths": { "input": 2000, "output": 50 },
      "requests": 60
    }
  },
  "variants": [
    { "name": "both", "set": { "job.serving.pools": [{ "replicas": 4, "parallel": { "tp": 1 } }] } },
    {
      "name": "apart",
      "set": {
        "job.serving.pools": [
          { "role": "prefill", "replicas": 2, "parallel": { "tp": 1 } },
          { "role": "decode", "replicas": 2, "parallel": { "tp": 1 } }
        ]
      }
    }
  ]
}"#;

fn main() -> Result<(), ScenarioError> {
    let summary = Experiment::parse(SCENARIO)?.run()?;
    let seen = |index: usize| {
        let of = &summary.variants[index].metrics.serving;
        (
            of.ttft_ms_p90.unwrap_or_default(),
            of.tpot_ms_p50.unwrap_or_default(),
        )
    };
    let ((both, slow), (apart, even)) = (seen(0), seen(1));
    println!(
        "With prompts apart, 90 % of first tokens come in {apart:.0} ms in place of {both:.0}, and a token takes \
         {even:.1} ms in place of {slow:.1}.\n"
    );
    println!("engines  TTFT p50 ms  p90 ms  per token ms  tokens/s");
    for variant in &summary.variants {
        let of = &variant.metrics.serving;
        println!(
            "{:<7}  {:>11.0}  {:>6.0}  {:>12.1}  {:>8.0}",
            variant.name,
            of.ttft_ms_p50.unwrap_or_default(),
            of.ttft_ms_p90.unwrap_or_default(),
            of.tpot_ms_p50.unwrap_or_default(),
            of.output_tokens_per_s.unwrap_or_default(),
        );
    }
    Ok(())
}
