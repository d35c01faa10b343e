//! What comes of comparing the best of each machine, in a sentence.

use super::BestOf;
use crate::serving::amount;
use crate::spec::JobSpec;
use fabricsim_report::numbers::{count, gpus_text, three_digits, three_digits_of_small};
use fabricsim_report::serving::{ServingResult, Verdict};
use fabricsim_report::training::difference as of_steps;
use fabricsim_report::{Known, Summary, Variant, Waterfall, qualifies, serving};
use fabricsim_workload::serving::spec::{LoadSpec, SloSpec};

/// Says with each variant of a summary what the search on its machine came to, and in the answer which
/// machine is best, at what cost, and why. The variants are in the order of `found`.
pub fn settle(summary: &mut Summary, found: &[BestOf]) {
    for (variant, best) in summary.variants.iter_mut().zip(found) {
        let mut searched = best.searched.clone();
        if best.scenario.is_some() {
            searched.why = (!qualifies(variant)).then(|| why_not(variant, best));
        }
        variant.search = Some(Box::new(searched));
    }
    let best = summary.best.clone();
    let place = summary
        .variants
        .iter()
        .position(|v| Some(&v.name) == best.as_ref());
    let all = || summary.variants.iter().zip(found);
    summary.answer = match place {
        None => {
            let each: Vec<String> = all()
                .map(|(variant, best)| falls_short(variant, best))
                .collect();
            match load_of(found) {
                Some(load) => format!("No machine keeps {load}: {}.", each.join("; ")),
                None => format!("No layout runs on any machine: {}.", each.join("; ")),
            }
        }
        Some(place) => {
            let (winner, own) = (&summary.variants[place], &found[place]);
            let others = all().filter(|(variant, _)| variant.name != winner.name);
            let others = others.map(|(variant, best)| beside(winner, variant, best));
            let others: Vec<String> = others.collect();
            let mut kept = summary.variants.iter().filter(|variant| qualifies(variant));
            let fewest = kept.all(|variant| winner.gpus <= variant.gpus);
            format!("{}; {}.", first(winner, own, fewest), others.join("; "))
        }
    };
}

/// The best machine: what it does, for what.
fn first(winner: &Variant, best: &BestOf, fewest: bool) -> String {
    let does = match (winner.job.serving(), fewest) {
        (None, _) => "trains most tokens per GPU".to_owned(),
        (Some(_), fewest) => {
            let load = load_of(std::slice::from_ref(best)).unwrap_or_default();
            let how = if fewest {
                "on the fewest GPUs"
            } else {
                "with most tokens per GPU"
            };
            format!("keeps {load} {how}")
        }
    };
    format!(
        "{} {does}: {} on {} ({})",
        winner.name,
        costs(winner),
        gpus(winner),
        layout(best)
    )
}

/// Another machine beside the best.
fn beside(winner: &Variant, other: &Variant, best: &BestOf) -> String {
    if !qualifies(other) {
        return falls_short(other, best);
    }
    let rate = |variant: &Variant| match variant.job.serving() {
        Some(_) => variant.metrics.serving.output_tokens_per_s_per_gpu,
        None => variant.metrics.tokens_per_s_per_gpu,
    };
    let times = rate(winner).zip(rate(other)).map(|(a, b)| a / b);
    let times = times.map_or_else(String::new, |times| format!("{times:.2} × "));
    let why = match winner.job.serving() {
        Some(_) => serving::difference(other, winner),
        None => of_steps(other, winner),
    };
    let why = why.as_ref().map_or_else(String::new, Waterfall::clause);
    let share = match other.job.serving() {
        Some(_) => " a GPU",
        None => "",
    };
    format!(
        "that is {times}{}{share}: {} on {} ({}){why}",
        other.name,
        costs(other),
        gpus(other),
        layout(best),
    )
}

/// A machine that does not do what is asked.
fn falls_short(variant: &Variant, best: &BestOf) -> String {
    let why = match &best.scenario {
        Some(_) => why_not(variant, best),
        None => best.searched.why.clone().unwrap_or_default(),
    };
    let holds = best.searched.holds.map_or_else(String::new, |holds| {
        let (kept, not) = (three_digits(holds.kept), three_digits(holds.not_kept));
        format!("; {kept}{} would hold, {not} not", unit(best))
    });
    let most = best
        .searched
        .tried_gpus
        .last()
        .copied()
        .unwrap_or(variant.gpus);
    let why = why.trim_end_matches('.');
    format!(
        "{} does not on {} ({why}{holds})",
        variant.name,
        gpus_text(most)
    )
}

/// What breaks first, of a variant that ran.
fn why_not(variant: &Variant, best: &BestOf) -> String {
    let slo = best
        .scenario
        .as_ref()
        .and_then(|scenario| match &scenario.spec.job {
            JobSpec::Serving(job) => job.slo.clone(),
            _ => None,
        });
    match variant.job.serving() {
        Some(served) => breaks(served, &slo.unwrap_or_default(), best.slo_share),
        None => "it does not fit into memory".to_owned(),
    }
}

/// The limit that is missed by most; that engines do not keep up comes before it.
fn breaks(served: &ServingResult, slo: &SloSpec, share: f64) -> String {
    if let Some(failed) = &served.failed {
        return failed.clone();
    }
    if let Some(verdict) = served.verdict.filter(|verdict| *verdict != Verdict::Stable) {
        let name = verdict.name();
        return format!("requests come faster than they are served: {name}");
    }
    let limits = [
        ("time to the first token", slo.ttft, served.ttft_ms),
        ("time per output token", slo.tpot, served.tpot_ms),
        ("whole request", slo.e2e, served.e2e_ms),
    ];
    let missed = limits.into_iter().filter_map(|(what, limit, found)| {
        let limit = limit?.picos() as f64 / 1e9;
        let found = found?.p90;
        Some((what, limit, found, found / limit.max(f64::MIN_POSITIVE)))
    });
    let worst = missed.max_by(|a, b| a.3.total_cmp(&b.3));
    let kept = served.slo_share.unwrap_or(0.0) * 100.0;
    let needed = share * 100.0;
    let first = worst.map_or_else(String::new, |(what, limit, found, _)| {
        format!(
            ": the {what} breaks first, p90 {} ms for {} ms",
            three_digits(found),
            three_digits(limit)
        )
    });
    format!("{kept:.0} % of requests keep the SLO, not {needed:.0} %{first}")
}

/// What it does and what that costs.
fn costs(variant: &Variant) -> String {
    let metrics = &variant.metrics;
    let served = variant.job.serving().is_some();
    let tokens = if served {
        "M output tokens"
    } else {
        "M tokens"
    };
    let rate = match served {
        true => metrics.serving.output_tokens_per_s_per_gpu,
        false => metrics.tokens_per_s_per_gpu,
    };
    let rate = rate.map_or_else(|| "unknown".to_owned(), count);
    let hourly = metrics.usd_per_gpu_hour.flatten();
    let hourly = hourly.map(|usd| usd * f64::from(variant.gpus));
    format!(
        "{rate} tokens/s per GPU, {} and {} kWh per {tokens}, {} kW and {} an hour",
        money(metrics.usd_per_mtok),
        known(metrics.kwh_per_mtok, three_digits_of_small),
        known(metrics.kw, three_digits),
        money(Some(hourly)),
    )
}

fn known(value: Known, text: fn(f64) -> String) -> String {
    value.flatten().map_or_else(|| "unknown".to_owned(), text)
}

fn money(value: Known) -> String {
    let text = |usd| format!("${}", three_digits_of_small(usd));
    value
        .flatten()
        .map_or_else(|| "an unknown price".to_owned(), text)
}

fn gpus(variant: &Variant) -> String {
    gpus_text(variant.gpus)
}

fn layout(best: &BestOf) -> String {
    best.searched.layout_text.clone().unwrap_or_default()
}

/// The load that was asked for; nothing of training.
fn load_of(found: &[BestOf]) -> Option<String> {
    let best = found.iter().find(|best| !best.training)?;
    let load = found.iter().find_map(|best| load(best));
    let load = load.and_then(amount);
    Some(load.map_or_else(
        || "the load".to_owned(),
        |(amount, _)| format!("{}{}", three_digits(amount), unit(best)),
    ))
}

fn load(best: &BestOf) -> Option<&LoadSpec> {
    match &best.scenario.as_ref()?.spec.job {
        JobSpec::Serving(job) => Some(&job.load),
        _ => None,
    }
}

fn unit(best: &BestOf) -> &'static str {
    match load(best).and_then(amount) {
        Some((_, true)) => " requests at once",
        _ => " requests/s",
    }
}
