//! What a row measures, and the same of a simulated run.

use super::fields::Fields;
use fabricsim_report::serving::{Percentiles, ServingResult};
use fabricsim_report::validation::ServingRun;

/// What of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statistic {
    Mean,
    Median,
}

impl Statistic {
    fn of(self, percentiles: &Percentiles) -> f64 {
        match self {
            Statistic::Mean => percentiles.mean,
            Statistic::Median => percentiles.p50,
        }
    }
}

/// A column with times: its name, what it holds, milliseconds of its unit.
type Column = (&'static str, Statistic, f64);

/// Columns with times to the first token, the best first. Where a source says neither mean nor median it is taken for
/// the mean: InferenceX's times grow with the number of requests that start at once, as means do.
const TTFT: [Column; 7] = [
    ("median_ttft_ms", Statistic::Median, 1.0),
    ("p50_ttft_ms", Statistic::Median, 1.0),
    ("median_ttft_s", Statistic::Median, 1e3),
    ("mean_ttft_ms", Statistic::Mean, 1.0),
    ("mean_ttft_s", Statistic::Mean, 1e3),
    ("ttft_ms", Statistic::Mean, 1.0),
    ("prompt_time_ms", Statistic::Median, 1.0),
];

/// The same of times per token of a request.
const TPOT: [Column; 6] = [
    ("median_tpot_ms", Statistic::Median, 1.0),
    ("p50_tpot_ms", Statistic::Median, 1.0),
    ("mean_tpot_ms", Statistic::Mean, 1.0),
    ("mean_tpot_s", Statistic::Mean, 1e3),
    ("tpot_ms", Statistic::Mean, 1.0),
    ("token_time_ms", Statistic::Median, 1.0),
];

/// The same of times from token to token.
const ITL: [Column; 3] = [
    ("median_itl_ms", Statistic::Median, 1.0),
    ("mean_itl_ms", Statistic::Mean, 1.0),
    ("itl_ms", Statistic::Mean, 1.0),
];

/// Columns with rates of tokens that are generated, and whether each is of one GPU.
const RATES: [(&str, bool); 6] = [
    ("output_tokens_per_s", false),
    ("throughput_output_tokens_s", false),
    ("throughput_output_tokens_per_s", false),
    ("output_tokens_per_s_per_gpu", true),
    ("throughput_output_tokens_s_per_gpu", true),
    ("output_throughput_tokens_s", false),
];

/// What a row measures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Measured {
    ttft: Option<(f64, Statistic)>,
    tpot: Option<(f64, Statistic)>,
    itl: Option<(f64, Statistic)>,
    /// Tokens per second of all GPUs.
    rate: Option<f64>,
    /// Tokens of a prompt per second, of prompts one after the other.
    prefill: Option<f64>,
}

impl Measured {
    /// Of a row whose system has so many GPUs.
    pub(super) fn of(fields: &Fields<'_>, gpus: u32) -> Measured {
        let first = |columns: &[Column]| {
            let mut columns = columns.iter();
            columns
                .find_map(|&(name, statistic, unit)| Some((fields.figure(name)? * unit, statistic)))
        };
        let rate = RATES.iter().find_map(|&(name, of_gpu)| {
            let gpus = if of_gpu { f64::from(gpus) } else { 1.0 };
            Some(fields.figure(name)? * gpus)
        });
        let tpot = first(&TPOT);
        Measured {
            ttft: first(&TTFT),
            tpot,
            itl: first(&ITL).filter(|_| tpot.is_none()),
            rate,
            prefill: fields.figure("peak_prefill_tokens_per_s"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Measured::default()
    }

    /// Whether it is of prompts alone.
    pub(super) fn is_of_prompts(&self) -> bool {
        self.prefill.is_some()
    }

    /// Whether it is of times to the first token alone.
    pub(super) fn is_of_first_tokens(&self) -> bool {
        self.ttft.is_some() && self.tpot.is_none() && self.itl.is_none() && self.rate.is_none()
    }

    /// Beside what came of a simulation; `None` if it served nobody.
    pub(crate) fn beside(&self, result: &ServingResult, run: ServingRun) -> Option<ServingRun> {
        let ttft = result.ttft_ms.as_ref()?;
        let of = |measured: Option<(f64, Statistic)>, predicted: Option<&Percentiles>| {
            let (measured, statistic) = measured?;
            Some((measured, statistic.of(predicted?)))
        };
        let prompts = |measured: f64| {
            (
                measured,
                f64::from(run.input_tokens.unwrap_or(0)) / ttft.p50 * 1e3,
            )
        };
        let rate = self.rate.map(|rate| (rate, result.output_tokens_per_s));
        let tpot = of(self.tpot, result.tpot_ms.as_ref());
        Some(ServingRun {
            ttft_ms: of(self.ttft, Some(ttft)),
            tpot_ms: tpot.or_else(|| of(self.itl, result.itl_ms.as_ref())),
            tokens_s: self.prefill.map(prompts).or(rate),
            ..run
        })
    }
}
