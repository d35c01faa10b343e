//! What serving came to in a sentence; of several variants which is best, and why.

use fabricsim_report::numbers::three_digits;
use fabricsim_report::serving::{ServingResult, Verdict, difference};
use fabricsim_report::{KEEPS_SLO, Summary, Variant, falls_short, fits, qualifies};

/// Fills in what a summary says of serving.
pub(crate) fn compare(summary: &mut Summary) {
    let baseline = summary.baseline.clone();
    let base = |variant: &&Variant| baseline.as_ref().is_none_or(|name| variant.name == *name);
    if let Some(base) = summary.variants.iter().find(base) {
        let others = summary.variants.iter().filter(|v| v.name != base.name);
        summary.waterfall = others.filter_map(|other| difference(base, other)).collect();
    }
    summary.answer = match summary.variants.as_slice() {
        [only] => alone(only),
        several => {
            let best = best(several);
            summary.best = best.map(|index| several[index].name.clone());
            best.map_or_else(|| none(several), |best| among(several, best))
        }
    };
}

/// One job: what users see, whether engines keep up.
fn alone(variant: &Variant) -> String {
    let Some(result) = variant.job.serving().filter(|r| r.failed.is_none()) else {
        return String::new();
    };
    let per_gpu = result.output_tokens_per_s / f64::from(variant.gpus.max(1));
    let (Some(ttft), Some(verdict)) = (result.ttft_ms, result.verdict) else {
        return "No request was served.".to_owned();
    };
    let tpot = result.tpot_ms.map_or_else(String::new, |tpot| {
        format!(", then {:.1} ms a token", tpot.p50)
    });
    let kept = said(result, verdict);
    let largest = largest(result).map_or_else(String::new, |(cause, share)| {
        format!(
            " {:.0} % of the time to the first token is {cause}.",
            share * 100.0
        )
    });
    format!(
        "Half of the requests see their first token within {}{tpot}; {:.0} output tokens/s per GPU.{largest}{kept}{}",
        waited(ttft.p50),
        per_gpu,
        beyond(result)
    )
}

/// What the verdict means, of engines that do not keep up or where that is not known.
fn said(result: &ServingResult, verdict: Verdict) -> String {
    let offered = result.offered_per_s.map_or_else(String::new, |offered| {
        format!(" of {} requests/s", three_digits(offered))
    });
    let most = result.saturation.map_or_else(String::new, |most| {
        let half = (most.requests_per_s_hi / most.requests_per_s - 1.0) * 100.0;
        format!(
            "; full engines do {} requests/s (± {half:.1} %)",
            three_digits(most.requests_per_s)
        )
    });
    match verdict {
        Verdict::Stable => String::new(),
        Verdict::Backlogged => {
            let holds = result.holds_per_s.map_or_else(String::new, |holds| {
                format!(" Up to {} requests/s would hold.", three_digits(holds))
            });
            format!(
                " BACKLOGGED: the load{offered} is above what the engines do, {} requests/s; more and more wait, and \
                 times grow as long as it goes on.{holds}",
                three_digits(result.requests_per_s)
            )
        }
        Verdict::TooShort => {
            let why = result.too_short.map_or("", |why| why.why());
            format!(" TOO SHORT to tell whether they keep up with the load{offered}: {why}{most}.")
        }
        Verdict::Overloaded => format!(
            " OVERLOADED: time was up before all were served: {} of {} were{most}.",
            result.completed, result.requests
        ),
    }
}

/// Milliseconds as people read them.
fn waited(ms: f64) -> String {
    match ms {
        ms if ms >= 10_000.0 => format!("{} s", three_digits(ms / 1e3)),
        ms => format!("{ms:.0} ms"),
    }
}

/// The largest rate that holds, if that was asked, and whether the load is beyond it.
fn beyond(result: &ServingResult) -> String {
    let Some(capacity) = &result.capacity else {
        return String::new();
    };
    let most = three_digits(capacity.requests_per_s);
    let tried = capacity.steps.len();
    let what = format!(
        " Capacity: {most} requests/s holds and {} does not ({}; {tried} rates were tried).",
        three_digits(capacity.requests_per_s_hi),
        capacity.limited_by
    );
    match result.offered_per_s {
        Some(offered) if offered > capacity.requests_per_s => {
            format!("{what} The load of {} is beyond it.", three_digits(offered))
        }
        _ => what,
    }
}

/// The largest part of the mean time to the first token, and its share.
fn largest(result: &ServingResult) -> Option<(&str, f64)> {
    let sum: f64 = result.ttft_parts.iter().map(|part| part.us).sum();
    let largest = result
        .ttft_parts
        .iter()
        .max_by(|a, b| a.us.total_cmp(&b.us))?;
    (sum > 0.0).then(|| (largest.cause.as_str(), largest.us / sum))
}

/// What variants are judged by: those that keep up and keep their SLO, if they have one, by tokens per second and
/// GPU.
fn best(variants: &[Variant]) -> Option<usize> {
    let worth = |variant: &Variant| {
        let rate = variant.metrics.number("output_tokens_per_s_per_gpu")?;
        qualifies(variant).then_some(rate)
    };
    let all = variants.iter().enumerate();
    let all = all.filter_map(|(index, variant)| Some((index, worth(variant)?)));
    let best = all.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    Some(best.0)
}

/// Several, none of which does what it is to do: which comes nearest.
fn none(variants: &[Variant]) -> String {
    let share = |variant: &&Variant| {
        let served = variant.job.serving()?;
        let keeps_up = fits(variant) && served.verdict == Some(Verdict::Stable);
        served.slo_share.filter(|_| keeps_up)
    };
    let known = variants.iter().filter(|variant| share(variant).is_some());
    let nearest = known.max_by(|a, b| share(a).unwrap_or(0.0).total_cmp(&share(b).unwrap_or(0.0)));
    match nearest {
        None => "No variant keeps up with its load.".to_owned(),
        Some(nearest) => format!(
            "No variant keeps its SLO for {:.0} % of its requests: nearest is {} with {:.0} %.",
            KEEPS_SLO * 100.0,
            nearest.name,
            share(&nearest).unwrap_or(0.0) * 100.0
        ),
    }
}

/// Several: the best beside the others.
fn among(variants: &[Variant], best: usize) -> String {
    let of = |index: usize| {
        let variant = &variants[index];
        let result = variant.job.serving()?;
        let per_gpu = variant.metrics.number("output_tokens_per_s_per_gpu")?;
        Some((
            variant,
            result.ttft_ms?.p50,
            result.tpot_ms.map_or(0.0, |t| t.p50),
            per_gpu,
        ))
    };
    let Some((winner, ttft, tpot, rate)) = of(best) else {
        return String::new();
    };
    let others = (0..variants.len()).filter(|&index| index != best);
    let others = others.filter_map(of);
    let closest = others.max_by(|a, b| a.3.total_cmp(&b.3));
    let than = closest.map_or_else(String::new, |(other, first, each, other_rate)| {
        let times = |a: f64, b: f64| if b > 0.0 { a / b } else { 1.0 };
        let short = falls_short(other).map_or_else(String::new, |why| format!(" ({why})"));
        format!(
            "; {}{short}: {:.2} × as many tokens per GPU, first token after {:.2} ×, {:.2} × a token",
            other.name,
            times(other_rate, rate),
            times(first, ttft),
            times(each, tpot)
        )
    });
    let within = winner
        .metrics
        .serving
        .slo_share
        .map_or_else(String::new, |share| {
            format!(", {:.0} % of requests within the SLO", share * 100.0)
        });
    format!(
        "{} does most per GPU: {rate:.0} output tokens/s, first token after {ttft:.0} ms, {tpot:.1} ms a token \
         (medians){within}{than}.",
        winner.name
    )
}
