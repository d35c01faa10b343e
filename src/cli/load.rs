//! What is served: the load and the engine of a serving job, on the command line.

use super::CliError;
use super::spelling::tokens;
use fabricsim_units::Time;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Flags of a serving job.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Serving")]
pub(super) struct LoadArgs {
    /// Tokens of a prompt; `8k` is 8,192
    #[arg(long, value_name = "TOKENS", default_value_t = 1024, value_parser = tokens)]
    pub(super) input: u32,
    /// Tokens that are generated; `1k` is 1,024
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = tokens)]
    pub(super) output_tokens: u32,
    /// Requests per second, on average
    #[arg(long, value_name = "REQUESTS", conflicts_with = "concurrency")]
    rate: Option<f64>,
    /// So many requests are there at once [default: 32, without --rate]
    #[arg(long, value_name = "REQUESTS")]
    concurrency: Option<u32>,
    /// Requests as they came once, from a file: arrivals, lengths and how many there are
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "concurrency"])]
    trace: Option<PathBuf>,
    /// So many requests [default: as many as it takes until figures are known to 2 %]
    #[arg(long, value_name = "REQUESTS")]
    requests: Option<u32>,
    /// Whose scheduler
    #[arg(long, value_parser = ["vllm", "sglang", "trtllm", "static"], default_value = "vllm")]
    engine: String,
    /// What weights are stored in
    #[arg(long, value_parser = ["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4"], default_value = "bf16")]
    weights: String,
    /// What keys and values are stored in
    #[arg(long, value_parser = ["bf16", "fp8"], default_value = "bf16")]
    kv: String,
    /// What a request is to keep: `ttft=1s,tpot=50ms`
    #[arg(long, value_name = "LIMITS")]
    slo: Option<String>,
}

impl LoadArgs {
    /// The job, with the largest rate that holds: at it, or, if a rate is said, beside it.
    pub(super) fn with_capacity(&self, model: &str) -> Result<Value, CliError> {
        if self.concurrency.is_some() || self.requests.is_some() || self.trace.is_some() {
            return Err(CliError::Usage(
                "--capacity: expected a load at a rate without end, so without --concurrency, --trace and --requests".into(),
            ));
        }
        let mut job = self.job(model)?;
        if self.rate.is_none() {
            job["load"] = json!({ "poisson": { "rate": 1.0 } });
        }
        job["capacity"] = json!({ "serve": self.rate.is_none() });
        Ok(job)
    }

    /// Whether a load is said.
    pub(super) fn is_said(&self) -> bool {
        self.load().is_some()
    }

    /// The load that is said.
    fn load(&self) -> Option<Value> {
        match (&self.trace, self.rate, self.concurrency) {
            (Some(file), ..) => Some(json!({ "trace": { "file": file } })),
            (None, Some(rate), _) => Some(json!({ "poisson": { "rate": rate } })),
            (None, None, Some(at_once)) => Some(json!({ "closed": { "concurrency": at_once } })),
            (None, None, None) => None,
        }
    }

    /// What is said of a load, as values of a serving job that is there already.
    pub(super) fn changes(&self) -> Result<Vec<String>, CliError> {
        let mut changes = Vec::new();
        let load = self.load();
        changes.extend(load.map(|load| format!("job.serving.load={load}")));
        changes.extend(
            self.requests
                .map(|requests| format!("job.serving.requests={requests}")),
        );
        if let Some(slo) = &self.slo {
            changes.push(format!("job.serving.slo={}", limits(slo)?));
        }
        Ok(changes)
    }

    /// The job.
    pub(super) fn job(&self, model: &str) -> Result<Value, CliError> {
        let load = self.load();
        let load = load.unwrap_or_else(|| json!({ "closed": { "concurrency": 32 } }));
        let mut job = json!({
            "model": { "preset": model },
            "precision": { "weights": self.weights, "kv": self.kv },
            "engine": { "policy": self.engine },
            "load": load,
        });
        if self.trace.is_none() {
            job["lengths"] = json!({ "input": self.input, "output": self.output_tokens });
        }
        if let Some(requests) = self.requests {
            job["requests"] = json!(requests);
        }
        if let Some(slo) = &self.slo {
            job["slo"] = limits(slo)?;
        }
        Ok(job)
    }
}

/// What is done with a model: it is served, if a load is said, else trained, with so many sequences a step
/// and tokens a sequence.
pub(super) fn job_of_model(
    name: &str,
    load: &LoadArgs,
    (global_batch, sequence): (Option<u32>, Option<u64>),
) -> Result<Value, CliError> {
    if load.is_said() {
        return Ok(json!({ "serving": load.job(name)? }));
    }
    let batch = global_batch.ok_or_else(|| {
        CliError::Usage(format!(
            "{name} is a model: expected --global-batch, the sequences of a step, or to serve it --rate or \
             --concurrency, too"
        ))
    })?;
    Ok(json!({ "training": {
        "model": { "preset": name },
        "global_batch": batch,
        "sequence": sequence,
        "comment": "Attention is FlashAttention 3 where the GPUs have it; a scenario's default is 2.",
        "flash_version": 3,
        "parallel": { "sequence_parallel": true },
    } }))
}

/// `ttft=1s,tpot=50ms`.
pub(super) fn limits(text: &str) -> Result<Value, CliError> {
    let mut limits = Map::new();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let known = ["ttft", "tpot", "e2e"].contains(&name);
        if !known || value.parse::<Time>().is_err() {
            return Err(CliError::Usage(format!(
                "--slo {text}: expected limits with units, such as ttft=1s,tpot=50ms (ttft, tpot, e2e)"
            )));
        }
        limits.insert(name.to_owned(), value.into());
    }
    Ok(Value::Object(limits))
}
