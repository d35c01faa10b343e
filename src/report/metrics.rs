//! The common row: what results of all kinds of jobs have in common, under the same names in
//! summaries, tables of points and comparisons.

use super::concurrent::ConcurrentResult;
use super::numbers::{count, micros, percent, size, three_digits};
use super::record::{CollectiveResult, Row};
use super::serving::ServingResult;
use super::training::{StepResult, TrainingResult};
use super::uplinks::Uplinks;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A number that may be unknown: absent if it does not apply, `null` if it does and is not known.
pub type Known = Option<Option<f64>>;

/// Keeps `null` apart from a field that is not there.
pub(crate) fn null_or_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Known, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Numbers of a variant. What does not apply to its job is absent, what is not known `null`. Of a collective they are those
/// of the size that is traced, else of the largest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Metrics {
    /// Of a collective: its size as nccl-tests counts it, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Microseconds of the operation or the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<f64>,
    /// Size over time, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algbw_gbs: Option<f64>,
    /// Bus bandwidth as nccl-tests has it, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busbw_gbs: Option<f64>,
    /// Tokens per second of the whole job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// The same for each GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s_per_gpu: Option<f64>,
    /// Model FLOP/s over the GPUs' peak, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// The same with what is computed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hfu: Option<f64>,
    /// Communication that no kernel hides, over all, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_share: Option<f64>,
    /// Waiting for other pipeline stages, over all, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bubble_share: Option<f64>,
    /// Memory that the fullest GPU needs, GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<f64>,
    /// What the allocator usually holds free beside, and gives back where memory is short, GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reserve_gib: Option<f64>,
    /// What that GPU has, GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_capacity_gib: Option<f64>,
    /// Whether it fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
    /// What no algorithm can beat on this machine, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_us: Option<f64>,
    /// The same with sums in GPUs alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_plain_us: Option<f64>,
    /// The name of what takes most of the time, or of the fault that costs most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What the job's share draws at full load, kW: its GPUs, and their part of what serves others, too.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub kw: Known,
    /// What all that is powered for the job draws, kW: its nodes as a whole and the switches that it
    /// could use, GPUs that take no part without work.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub kw_whole: Known,
    /// Energy of the job's share in its last step, kWh.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub kwh_per_step: Known,
    /// The same per million tokens.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub kwh_per_mtok: Known,
    /// The same of all that is powered for the job.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub kwh_per_mtok_whole: Known,
    /// Dollars per GPU and hour.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub usd_per_gpu_hour: Known,
    /// Dollars for an hour of the job's GPUs.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub usd_per_hour: Known,
    /// Dollars of a job's last step.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub usd_per_step: Known,
    /// Dollars per million tokens, by hours of the job's GPUs.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub usd_per_mtok: Known,
    /// The same by hours of all GPUs of its nodes.
    #[serde(
        deserialize_with = "null_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub usd_per_mtok_whole: Known,
    /// The part of a long run's time in steps that were not lost, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput: Option<f64>,
    /// Of serving: what users see.
    #[serde(flatten)]
    pub serving: ServingMetrics,
    /// Events simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Links between switches, of machines that have some, and whether the job used them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplinks: Option<Uplinks>,
}

/// Numbers of serving, over requests that are counted; percentiles by nearest rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServingMetrics {
    /// From arrival to the first token: the mean, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms_mean: Option<f64>,
    /// From arrival to the first token: the median, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms_p50: Option<f64>,
    /// From arrival to the first token: nine of ten are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms_p90: Option<f64>,
    /// From arrival to the first token: 99 of a hundred are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms_p99: Option<f64>,
    /// From token to token, the mean of each request: the mean, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ms_mean: Option<f64>,
    /// From token to token, the mean of each request: the median, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ms_p50: Option<f64>,
    /// From token to token, the mean of each request: nine of ten are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ms_p90: Option<f64>,
    /// From token to token, the mean of each request: 99 of a hundred are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ms_p99: Option<f64>,
    /// From token to token: the mean, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_ms_mean: Option<f64>,
    /// From token to token: the median, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_ms_p50: Option<f64>,
    /// From token to token: nine of ten are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_ms_p90: Option<f64>,
    /// From token to token: 99 of a hundred are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_ms_p99: Option<f64>,
    /// From arrival to the last token: the mean, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_ms_mean: Option<f64>,
    /// From arrival to the last token: the median, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_ms_p50: Option<f64>,
    /// From arrival to the last token: nine of ten are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_ms_p90: Option<f64>,
    /// From arrival to the last token: 99 of a hundred are no more, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_ms_p99: Option<f64>,
    /// Tokens generated per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens_per_s: Option<f64>,
    /// The same for each GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens_per_s_per_gpu: Option<f64>,
    /// Tokens per second that a user sees: the inverse of the median time per token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens_per_s_per_user: Option<f64>,
    /// Requests done per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// Bytes that passes read over the memory's rate, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mbu: Option<f64>,
    /// The part of requests that kept the SLO, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_share: Option<f64>,
}

impl ServingMetrics {
    /// Its numbers by name, in the order of their declaration.
    fn numbers(&self) -> [(&'static str, Option<f64>); 22] {
        [
            ("ttft_ms_mean", self.ttft_ms_mean),
            ("ttft_ms_p50", self.ttft_ms_p50),
            ("ttft_ms_p90", self.ttft_ms_p90),
            ("ttft_ms_p99", self.ttft_ms_p99),
            ("tpot_ms_mean", self.tpot_ms_mean),
            ("tpot_ms_p50", self.tpot_ms_p50),
            ("tpot_ms_p90", self.tpot_ms_p90),
            ("tpot_ms_p99", self.tpot_ms_p99),
            ("itl_ms_mean", self.itl_ms_mean),
            ("itl_ms_p50", self.itl_ms_p50),
            ("itl_ms_p90", self.itl_ms_p90),
            ("itl_ms_p99", self.itl_ms_p99),
            ("e2e_ms_mean", self.e2e_ms_mean),
            ("e2e_ms_p50", self.e2e_ms_p50),
            ("e2e_ms_p90", self.e2e_ms_p90),
            ("e2e_ms_p99", self.e2e_ms_p99),
            ("output_tokens_per_s", self.output_tokens_per_s),
            (
                "output_tokens_per_s_per_gpu",
                self.output_tokens_per_s_per_gpu,
            ),
            (
                "output_tokens_per_s_per_user",
                self.output_tokens_per_s_per_user,
            ),
            ("requests_per_s", self.requests_per_s),
            ("mbu", self.mbu),
            ("slo_share", self.slo_share),
        ]
    }

    /// Of a serving job on so many GPUs.
    fn of(result: &ServingResult, gpus: u32) -> ServingMetrics {
        let per_gpu = result.output_tokens_per_s / f64::from(gpus.max(1));
        let ttft = result.ttft_ms.unwrap_or_default();
        let has_ttft = result.ttft_ms.is_some();
        let tpot = result.tpot_ms.unwrap_or_default();
        let has_tpot = result.tpot_ms.is_some();
        let itl = result.itl_ms.unwrap_or_default();
        let has_itl = result.itl_ms.is_some();
        let e2e = result.e2e_ms.unwrap_or_default();
        let has_e2e = result.e2e_ms.is_some();
        ServingMetrics {
            ttft_ms_mean: has_ttft.then_some(ttft.mean),
            ttft_ms_p50: has_ttft.then_some(ttft.p50),
            ttft_ms_p90: has_ttft.then_some(ttft.p90),
            ttft_ms_p99: has_ttft.then_some(ttft.p99),
            tpot_ms_mean: has_tpot.then_some(tpot.mean),
            tpot_ms_p50: has_tpot.then_some(tpot.p50),
            tpot_ms_p90: has_tpot.then_some(tpot.p90),
            tpot_ms_p99: has_tpot.then_some(tpot.p99),
            itl_ms_mean: has_itl.then_some(itl.mean),
            itl_ms_p50: has_itl.then_some(itl.p50),
            itl_ms_p90: has_itl.then_some(itl.p90),
            itl_ms_p99: has_itl.then_some(itl.p99),
            e2e_ms_mean: has_e2e.then_some(e2e.mean),
            e2e_ms_p50: has_e2e.then_some(e2e.p50),
            e2e_ms_p90: has_e2e.then_some(e2e.p90),
            e2e_ms_p99: has_e2e.then_some(e2e.p99),
            output_tokens_per_s: Some(result.output_tokens_per_s),
            output_tokens_per_s_per_gpu: Some(per_gpu),
            output_tokens_per_s_per_user: result.output_tokens_per_s_per_user,
            requests_per_s: Some(result.requests_per_s),
            mbu: result.mbu,
            slo_share: result.slo_share,
        }
    }
}

impl Metrics {
    /// Of the row that is traced, else of the largest size; of nothing, if there is no row.
    #[must_use]
    pub fn of_collective(result: &CollectiveResult) -> Metrics {
        let Some(row) = result.shown_row() else {
            return Metrics::default();
        };
        Metrics::of_row(row)
    }

    /// Of one size.
    #[must_use]
    pub fn of_row(row: &Row) -> Metrics {
        Metrics {
            bytes: Some(row.bytes),
            time_us: Some(row.time_us),
            algbw_gbs: Some(row.algbw_gbs),
            busbw_gbs: Some(row.busbw_gbs),
            bound_us: Some(row.bound_us),
            bound_plain_us: Some(row.bound_plain_us),
            cause: Some(row.cause.clone()),
            events: Some(row.events),
            ..Metrics::default()
        }
    }

    /// Of a job's last step on so many GPUs; of nothing, if it failed.
    #[must_use]
    pub fn of_training(result: &TrainingResult, gpus: u32) -> Metrics {
        result
            .ran()
            .map_or_else(Metrics::default, |ran| Metrics::of_step(ran, gpus))
    }

    /// Of jobs at once, which took so many events: when the last of them ended.
    #[must_use]
    pub fn of_concurrent(result: &ConcurrentResult, events: u64) -> Metrics {
        match result.failed {
            Some(_) => Metrics::default(),
            None => Metrics {
                time_us: Some(result.end_us),
                events: Some(events),
                ..Metrics::default()
            },
        }
    }

    /// Of a serving job, which took so many events, on so many GPUs; of nothing, if it failed.
    #[must_use]
    pub fn of_serving(result: &ServingResult, gpus: u32, events: u64) -> Metrics {
        if result.failed.is_some() {
            return Metrics::default();
        }
        Metrics {
            time_us: Some(result.duration_s * 1e6),
            mfu: result.mfu,
            cause: Some(result.limit.clone()).filter(|limit| !limit.is_empty()),
            serving: ServingMetrics::of(result, gpus),
            events: Some(events),
            ..Metrics::default()
        }
    }

    fn of_step(ran: &StepResult, gpus: u32) -> Metrics {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let largest = ran.causes.iter().max_by_key(|part| part.time);
        Metrics {
            time_us: Some(ran.step_s * 1e6),
            tokens_per_s: Some(ran.tokens_per_s),
            tokens_per_s_per_gpu: Some(ran.tokens_per_s / f64::from(gpus.max(1))),
            mfu: Some(ran.mfu),
            hfu: Some(ran.hfu),
            exposed_share: Some(ran.exposed_communication),
            bubble_share: Some(ran.bubble),
            memory_gib: Some(gib(ran.memory.need().get())),
            memory_reserve_gib: Some(gib(ran.memory.reserve.get())),
            memory_capacity_gib: Some(gib(ran.memory.capacity.get())),
            fits: Some(ran.memory.fits),
            cause: largest.map(|part| part.cause.clone()),
            usd_per_mtok: Some(ran.dollars_per_million_tokens),
            goodput: ran.goodput.as_ref().map(|used| used.goodput),
            events: Some(ran.events),
            ..Metrics::default()
        }
    }

    /// Its numbers by name, in the order of their declaration; `None` where one does not apply
    /// or is not known.
    #[must_use]
    pub fn numbers(&self) -> [(&'static str, Option<f64>); 48] {
        let whole = |value: Option<u64>| value.map(|value| value as f64);
        let common = [
            ("bytes", whole(self.bytes)),
            ("time_us", self.time_us),
            ("algbw_gbs", self.algbw_gbs),
            ("busbw_gbs", self.busbw_gbs),
            ("tokens_per_s", self.tokens_per_s),
            ("tokens_per_s_per_gpu", self.tokens_per_s_per_gpu),
            ("mfu", self.mfu),
            ("hfu", self.hfu),
            ("exposed_share", self.exposed_share),
            ("bubble_share", self.bubble_share),
            ("memory_gib", self.memory_gib),
            ("memory_reserve_gib", self.memory_reserve_gib),
            ("memory_capacity_gib", self.memory_capacity_gib),
            ("bound_us", self.bound_us),
            ("bound_plain_us", self.bound_plain_us),
            ("kw", self.kw.flatten()),
            ("kw_whole", self.kw_whole.flatten()),
            ("kwh_per_step", self.kwh_per_step.flatten()),
            ("kwh_per_mtok", self.kwh_per_mtok.flatten()),
            ("kwh_per_mtok_whole", self.kwh_per_mtok_whole.flatten()),
            ("usd_per_gpu_hour", self.usd_per_gpu_hour.flatten()),
            ("usd_per_hour", self.usd_per_hour.flatten()),
            ("usd_per_step", self.usd_per_step.flatten()),
            ("usd_per_mtok", self.usd_per_mtok.flatten()),
            ("usd_per_mtok_whole", self.usd_per_mtok_whole.flatten()),
            ("goodput", self.goodput),
        ];
        let mut all = [("", None); 48];
        all[..26].copy_from_slice(&common);
        all[26..].copy_from_slice(&self.serving.numbers());
        all
    }

    /// One of its numbers by name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        let mut numbers = self.numbers().into_iter();
        numbers.find(|(known, _)| *known == name)?.1
    }

    /// How good it is by one of its numbers, the more the better; −∞ without that number.
    #[must_use]
    pub fn worth(&self, name: &str) -> f64 {
        let number = self.number(name);
        number.map_or(f64::NEG_INFINITY, |value| match is_less_better(name) {
            true => -value,
            false => value,
        })
    }

    /// The names of all numbers, in the order of their declaration.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        let names = Metrics::default().numbers().map(|(name, _)| name);
        names.into_iter()
    }
}

/// What a number is called for people; its name, of one that has no other.
#[must_use]
pub(crate) fn label(name: &str) -> &str {
    match name {
        "bytes" => "size",
        "time_us" => "time",
        "algbw_gbs" => "algorithm bandwidth",
        "busbw_gbs" => "bus bandwidth",
        "tokens_per_s" => "tokens/s",
        "tokens_per_s_per_gpu" => "tokens/s per GPU",
        "mfu" => "MFU",
        "hfu" => "HFU",
        "exposed_share" => "exposed communication",
        "bubble_share" => "bubble",
        "memory_gib" => "memory",
        "memory_reserve_gib" => "memory in reserve",
        "memory_capacity_gib" => "GPU memory",
        "bound_us" => "bound",
        "bound_plain_us" => "bound without switches that add",
        "kw" => "kW (share)",
        "kw_whole" => "kW (whole units)",
        "kwh_per_step" => "kWh a step",
        "kwh_per_mtok" => "kWh per M tokens",
        "kwh_per_mtok_whole" => "kWh per M tokens (whole units)",
        "usd_per_gpu_hour" => "$ per GPU and hour",
        "usd_per_hour" => "$ an hour",
        "usd_per_step" => "$ a step",
        "usd_per_mtok" => "$ per M tokens",
        "usd_per_mtok_whole" => "$ per M tokens (whole units)",
        "output_tokens_per_s" => "output tokens/s",
        "output_tokens_per_s_per_gpu" => "output tokens/s per GPU",
        "output_tokens_per_s_per_user" => "output tokens/s per user",
        "requests_per_s" => "requests/s",
        "mbu" => "MBU",
        "slo_share" => "share within the SLO",
        "ttft_ms_mean" => "TTFT",
        "ttft_ms_p50" => "TTFT p50",
        "ttft_ms_p90" => "TTFT p90",
        "ttft_ms_p99" => "TTFT p99",
        "tpot_ms_mean" => "TPOT",
        "tpot_ms_p50" => "TPOT p50",
        "tpot_ms_p90" => "TPOT p90",
        "tpot_ms_p99" => "TPOT p99",
        other => other,
    }
}

/// A number for people, in the unit that its name ends in.
#[must_use]
pub(crate) fn shown(name: &str, value: f64) -> String {
    match name {
        "bytes" => size(value),
        _ if name.ends_with("_us") => micros(value),
        _ if name.contains("_ms_") => format!("{} ms", three_digits(value)),
        _ if name.ends_with("_gbs") => format!("{} GB/s", three_digits(value)),
        _ if name.ends_with("_gib") => format!("{} GiB", three_digits(value)),
        _ if name.ends_with("_share") => percent(value),
        "mfu" | "hfu" | "mbu" | "goodput" => percent(value),
        _ if value >= 1e4 => count(value),
        _ => three_digits(value),
    }
}

/// Whether less of it is better; of all others more is.
#[must_use]
pub fn is_less_better(name: &str) -> bool {
    if name == "slo_share" {
        return false;
    }
    let less = ["_us", "_share", "_gib"];
    name.contains("_ms_")
        || name.starts_with("usd_")
        || name.starts_with("kw")
        || less.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_is_null_and_what_does_not_apply_is_absent() {
        let metrics = Metrics {
            kw: Some(None),
            usd_per_gpu_hour: Some(Some(2.5)),
            ..Metrics::default()
        };
        let value = serde_json::to_value(&metrics).unwrap();
        assert_eq!(value, json!({"kw": null, "usd_per_gpu_hour": 2.5}));
        let again: Metrics = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(again, metrics);
        let schema = schemars::schema_for!(Metrics);
        let schema = jsonschema::validator_for(schema.as_value()).unwrap();
        assert!(schema.is_valid(&value));
        assert!(schema.is_valid(&json!({})));
        assert!(!schema.is_valid(&json!({"kw": "12"})));
        let numbers = metrics.numbers();
        let of = |name: &str| numbers.iter().find(|number| number.0 == name);
        assert_eq!(of("kw"), Some(&("kw", None)));
        assert_eq!(
            of("usd_per_gpu_hour"),
            Some(&("usd_per_gpu_hour", Some(2.5)))
        );
    }
}
