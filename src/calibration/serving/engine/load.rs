//! How requests of a row come, and how long they are.

use super::fields::Fields;
use super::measured::Measured;
use fabricsim_workload::serving::spec::{DrawnLength, LengthSpec, LengthsSpec, LognormalSpec};

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arrival {
    /// So many at once.
    Closed(u32),
    /// So many per second.
    Open(f64),
    /// So many start together and end together.
    Batch(u32),
}

pub(super) fn arrival(fields: &Fields<'_>, measured: &Measured) -> Result<Arrival, String> {
    if measured.is_of_prompts() {
        return Ok(Arrival::Closed(1));
    }
    let rate = fields.number(&["request_rate_per_s", "request_rate", "qps"]);
    let batch = fields.count(&["batch"]);
    let concurrency = fields.count(&["concurrency", "max_concurrency"]);
    if let Some(rate) = rate.filter(|rate| *rate > 0.0 && concurrency.is_none()) {
        return Ok(Arrival::Open(rate));
    }
    let is_loop = fields.words("load").contains("closed loop");
    match (concurrency, batch) {
        (Some(count), _) => Ok(Arrival::Closed(count)),
        (None, Some(count)) if is_loop => Ok(Arrival::Closed(count)),
        (None, Some(count)) => Ok(Arrival::Batch(count)),
        (None, None) => Err("how many requests run at once, or come per second".into()),
    }
}

/// Spread of lengths of recorded conversations: standard deviation over mean of ShareGPT's.
const CONVERSATIONS: f64 = 1.0;

pub(super) fn lengths(
    fields: &Fields<'_>,
    arrival: Arrival,
    measured: &Measured,
) -> Result<LengthsSpec, String> {
    if measured.is_of_prompts() {
        let tokens = fields.count(&["chunk_tokens", "input_tokens"]);
        let tokens = tokens.ok_or("tokens of prompts (`chunk_tokens`)")?;
        return Ok(LengthsSpec {
            input: LengthSpec::Fixed(tokens),
            output: LengthSpec::Fixed(1),
            shared_prefix: None,
        });
    }
    let one = |nominal: [&str; 2], mean: &str, total: &str| {
        let requests = fields.number(&["requests"]).filter(|n| *n > 0.0);
        let drawn = fields.count(&[nominal[1]]);
        if let Some(most) = drawn {
            let ratio = fields.number(&["random_range_ratio"]).unwrap_or(0.0);
            return Some(between(most, ratio));
        }
        if let Some(tokens) = fields.count(&[nominal[0]]) {
            return Some(match (arrival, spread(fields)) {
                (Arrival::Batch(_), _) | (_, None) => LengthSpec::Fixed(tokens),
                (_, Some(Spread::Down(ratio))) => between(tokens, ratio),
                (_, Some(Spread::Around(share))) => {
                    let of = |factor: f64| ((f64::from(tokens) * factor) as u32).max(1);
                    let range = [of(1.0 - share), of(1.0 + share)];
                    LengthSpec::Drawn(DrawnLength::Uniform(range))
                }
            });
        }
        let mean = fields.number(&[mean]);
        let mean = mean.or_else(|| Some(fields.number(&[total])? / requests?))?;
        (mean >= 1.0).then_some(LengthSpec::Drawn(DrawnLength::Lognormal(LognormalSpec {
            mean,
            cv: CONVERSATIONS,
            max: None,
        })))
    };
    let input = one(
        ["input_tokens", "random_input_len"],
        "mean_input_tokens",
        "total_input_tokens",
    );
    let output = one(
        ["output_tokens", "random_output_len"],
        "mean_output_tokens",
        "total_output_tokens",
    );
    // A time to the first token alone needs no more tokens.
    let output = output.or_else(|| {
        measured
            .is_of_first_tokens()
            .then_some(LengthSpec::Fixed(1))
    });
    Ok(LengthsSpec {
        input: input.ok_or("tokens of prompts (`input_tokens`)")?,
        output: output.ok_or("tokens that are generated (`output_tokens`)")?,
        shared_prefix: None,
    })
}

/// How lengths spread.
enum Spread {
    /// From this part of the nominal one to it.
    Down(f64),
    /// By this part to both sides.
    Around(f64),
}

fn spread(fields: &Fields<'_>) -> Option<Spread> {
    if let Some(ratio) = fields.number(&["random_range_ratio"]) {
        return (0.0..1.0).contains(&ratio).then_some(Spread::Down(ratio));
    }
    let around = fields.words("length_variance");
    let percent: String = around.chars().filter(char::is_ascii_digit).collect();
    if let Ok(percent) = percent.parse::<f64>() {
        return (percent < 100.0).then_some(Spread::Around(percent / 100.0));
    }
    // InferenceX draws lengths so; runs of others in the same table have no date.
    let drawn = fields.words("lengths").contains("0.8") && fields.row.contains_key("measured");
    drawn.then_some(Spread::Down(0.8))
}

fn between(most: u32, ratio: f64) -> LengthSpec {
    let least = (f64::from(most) * ratio) as u32;
    LengthSpec::Drawn(DrawnLength::Uniform([least.max(1), most]))
}

pub(super) fn mean(length: &LengthSpec) -> u32 {
    match length {
        LengthSpec::Fixed(tokens) => *tokens,
        LengthSpec::Drawn(DrawnLength::Uniform([from, to])) => (from + to).div_ceil(2),
        LengthSpec::Drawn(DrawnLength::Lognormal(normal)) => normal.mean.round() as u32,
    }
}

pub(super) fn most(length: &LengthSpec) -> u32 {
    match length {
        LengthSpec::Drawn(DrawnLength::Uniform([_, to])) => *to,
        other => mean(other),
    }
}

/// Requests in all, and those at the start that do not count.
pub(super) fn requests(fields: &Fields<'_>, arrival: Arrival, lengths: &LengthsSpec) -> (u32, u32) {
    /// No more are simulated.
    const MOST: u32 = 20_000;
    /// As InferenceX has it: all start at once, which counts.
    const ROUNDS: u32 = 10;
    let given = fields.count(&["requests", "num_prompts"]);
    match arrival {
        Arrival::Batch(batch) => (batch, 0),
        Arrival::Open(_) => (given.unwrap_or(300).min(1000), 0),
        Arrival::Closed(1) if mean(&lengths.output) == 1 => (2, 0),
        Arrival::Closed(concurrency) => {
            let wanted = given.unwrap_or(concurrency.saturating_mul(ROUNDS));
            (wanted.min(MOST).max(concurrency.saturating_add(1)), 0)
        }
    }
}

pub(super) fn load_name(lengths: &LengthsSpec, arrival: Arrival) -> String {
    let load = match arrival {
        Arrival::Closed(count) => format!("{count} at once"),
        Arrival::Open(rate) => format!("{rate} per second"),
        Arrival::Batch(count) => format!("batch {count}"),
    };
    format!(
        "{} in, {} out, {load}",
        mean(&lengths.input),
        mean(&lengths.output)
    )
}
