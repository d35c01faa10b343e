//! The requests of a serving job: made up, or read from a trace.

use crate::error::ScenarioError;
use crate::refusal::{fault, refusal};
use fabricsim_topology::Fault;
use fabricsim_units::Time;
use fabricsim_workload::serving::load::made_up;
use fabricsim_workload::serving::request::Request;
use fabricsim_workload::serving::spec::{
    DrawnLength, LengthSpec, LoadSpec, ServingSpec, TraceSpec, WindowSpec,
};
use fabricsim_workload::serving::trace::{MAX_REQUESTS, Trace, read};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Requests of a job beside others that does not say how many.
const BESIDE: u32 = 200;
/// The first requests of a load without end, by which engines are judged before it runs.
const FIRST: u32 = 1000;

/// More than any load has: requests a second, a factor of time.
const LARGEST: f64 = 1e9;

/// Longer than any model's context.
const MAX_TOKENS: u32 = 100_000_000;

/// Checks what is said of load and lengths.
pub(super) fn check(job: &ServingSpec, faults: &mut Vec<Fault>) {
    let at = |field: &str| format!("job.serving.{field}");
    let mut positive = |field: &str, value: f64, what: &str| {
        if !(value > 0.0 && value <= LARGEST) {
            faults.push(fault(
                &at(field),
                value.to_string(),
                format!("{what} above 0, at most 1e9"),
            ));
        }
    };
    match &job.load {
        LoadSpec::Closed(load) => {
            positive(
                "load.closed.concurrency",
                f64::from(load.concurrency),
                "a number of requests",
            );
        }
        LoadSpec::Poisson(load) => positive("load.poisson.rate", load.rate, "requests per second"),
        LoadSpec::Constant(load) => {
            positive("load.constant.rate", load.rate, "requests per second")
        }
        LoadSpec::Gamma(load) => {
            positive("load.gamma.rate", load.rate, "requests per second");
            positive("load.gamma.cv", load.cv, "a coefficient of variation");
        }
        LoadSpec::Trace(load) => {
            positive("load.trace.speed", load.speed.unwrap_or(1.0), "a factor");
            if let Some(tokens) = load.prefix_block_tokens {
                let at = "load.trace.prefix_block_tokens";
                positive(at, f64::from(tokens), "tokens of a block");
            }
        }
    }
    if let Some(capacity) = &job.capacity {
        positive("capacity.slo_share", capacity.slo_share, "a part");
    }
    if let Some(WindowSpec::Steady(steady)) = &job.window {
        positive("window.steady.precision", steady.precision, "a part");
        positive(
            "window.steady.most_requests",
            f64::from(steady.most_requests),
            "a number of requests",
        );
        positive(
            "window.steady.most_passes",
            steady.most_passes as f64,
            "a number of passes",
        );
    }
    if let Some(requests) = job.requests
        && !(1..=MAX_REQUESTS).contains(&requests)
    {
        let expected = format!("1 to {MAX_REQUESTS} requests");
        faults.push(fault(&at("requests"), requests.to_string(), expected));
    }
    let has_rate = !matches!(job.load, LoadSpec::Closed(_) | LoadSpec::Trace(_));
    if job.capacity.is_some() && !(has_rate && job.requests.is_none()) {
        let expected =
            "none, or a load with a rate and no number of requests: `poisson`, `gamma`, `constant`";
        faults.push(fault(
            &at("capacity"),
            "a load without a rate".into(),
            expected,
        ));
    }
    if let Some(requests) = job.requests
        && job.warm_up >= requests
    {
        let expected = format!("fewer than the {requests} requests there are");
        faults.push(fault(&at("warm_up"), job.warm_up.to_string(), expected));
    }
    match (&job.lengths, &job.load) {
        (None, LoadSpec::Trace(_)) => {}
        (None, _) => faults.push(fault(
            &at("lengths"),
            "nothing".into(),
            "tokens of requests, such as {\"input\": 1024, \"output\": 512}",
        )),
        (Some(lengths), _) => {
            length(&at("lengths.input"), &lengths.input, faults);
            length(&at("lengths.output"), &lengths.output, faults);
            if let Some(prefix) = lengths.shared_prefix {
                let of = [("groups", prefix.groups), ("tokens", prefix.tokens)];
                for (field, value) in of.into_iter().filter(|(_, value)| *value == 0) {
                    let at = at(&format!("lengths.shared_prefix.{field}"));
                    faults.push(fault(&at, value.to_string(), "1 or more"));
                }
            }
        }
    }
}

fn length(at: &str, spec: &LengthSpec, faults: &mut Vec<Fault>) {
    let expected = format!("1 to {MAX_TOKENS} tokens");
    let is_good = |tokens: u32| (1..=MAX_TOKENS).contains(&tokens);
    match spec {
        LengthSpec::Fixed(tokens) if !is_good(*tokens) => {
            faults.push(fault(at, tokens.to_string(), expected));
        }
        LengthSpec::Drawn(DrawnLength::Uniform([from, to]))
            if !(is_good(*from) && is_good(*to) && from <= to) =>
        {
            let found = format!("[{from}, {to}]");
            let expected = format!("the least and the most tokens, of {expected}");
            faults.push(fault(&format!("{at}.uniform"), found, expected));
        }
        LengthSpec::Drawn(DrawnLength::Lognormal(normal)) => {
            if !(normal.mean >= 1.0 && normal.mean <= f64::from(MAX_TOKENS)) {
                let at = format!("{at}.lognormal.mean");
                faults.push(fault(&at, normal.mean.to_string(), expected));
            }
            if !(normal.cv.is_finite() && normal.cv >= 0.0 && normal.cv <= 100.0) {
                let at = format!("{at}.lognormal.cv");
                faults.push(fault(
                    &at,
                    normal.cv.to_string(),
                    "a coefficient of variation, 0 to 100",
                ));
            }
        }
        _ => {}
    }
}

/// The requests, in order of arrival, of a load without end the first ones; what is left out of a trace is put to the
/// warnings.
///
/// # Errors
/// A trace that cannot be read.
pub(super) fn requests(
    job: &ServingSpec,
    (seed, is_alone): (u64, bool),
    (folder, origin): (&Path, &str),
    warnings: &mut Vec<String>,
) -> Result<Vec<Request>, ScenarioError> {
    let LoadSpec::Trace(trace) = &job.load else {
        let count = job.requests.unwrap_or(match is_alone {
            true => FIRST,
            false => BESIDE,
        });
        let lengths = job.lengths.as_ref();
        return Ok(
            lengths.map_or_else(Vec::new, |lengths| made_up(&job.load, lengths, count, seed))
        );
    };
    if job.lengths.is_some() {
        let text = "Lengths of requests are the trace's: `job.serving.lengths` is not used.";
        warnings.push(text.to_owned());
    }
    let most = job.requests.unwrap_or(MAX_REQUESTS);
    let found = traced(trace, most, (folder, origin))?;
    if found.failed > 0 {
        warnings.push(format!(
            "{} of the trace's {} requests failed (0 tokens generated) and are left out.",
            found.failed,
            found.failed as usize + found.requests.len(),
        ));
    }
    Ok(found.requests)
}

fn traced(
    trace: &TraceSpec,
    most: u32,
    (folder, origin): (&Path, &str),
) -> Result<Trace, ScenarioError> {
    let at = "job.serving.load.trace.file";
    let path = folder.join(&trace.file);
    let wrong = |found: String, expected: &str| refusal(origin, vec![fault(at, found, expected)]);
    let file = File::open(&path).map_err(|error| {
        wrong(
            format!("{}: {error}", path.display()),
            "a file that can be read",
        )
    })?;
    read(&mut BufReader::new(file), trace, most).map_err(|error| {
        let found = format!("{}, line {}: {}", path.display(), error.line, error.found);
        wrong(found, &error.expected)
    })
}

/// How long requests have to be done after the last one arrived, if the scenario does not say it.
pub(super) const DRAIN: Time = Time::from_micros(600_000_000);
