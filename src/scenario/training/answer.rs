//! What a run says, in a sentence or two.

use crate::report::training::{Share, StepResult, Variant, VariantResult};
use crate::units::Bytes;

/// The answer of a run: of one variant where its time goes, of several which is fastest and why.
pub(super) fn answer(variants: &[Variant]) -> String {
    match variants {
        [] => String::new(),
        [one] => match &one.result {
            VariantResult::Ran(result) => alone(result),
            VariantResult::Failed(error) => format!("The job does not end: {error}"),
        },
        several => compared(several),
    }
}

fn alone(result: &StepResult) -> String {
    let mut text = format!(
        "A step takes {}, {:.1} % MFU",
        seconds(result.step_s),
        result.mfu * 100.0
    );
    let lost = losses(result);
    if let Some(first) = lost.first() {
        let others: Vec<String> = lost.iter().skip(1).take(2).map(told).collect();
        text += &format!(
            "; beside computing ({:.0} %) it is {}",
            compute(result),
            told(first)
        );
        for other in others {
            text += &format!(", {other}");
        }
    }
    text += ".";
    if let Some(culprit) = result.culprits.first() {
        let why = culprit.why.as_deref().unwrap_or("slow");
        text += &format!(
            " Others wait for rank {} on {} ({why}).",
            culprit.rank, culprit.gpu
        );
    }
    if !result.memory.fits {
        text += &format!(
            " It does not fit: stage {} needs {:.1} GiB of {:.1} GiB.",
            result.memory.stage,
            gib(result.memory.total),
            gib(result.memory.capacity)
        );
    }
    text
}

fn compute(result: &StepResult) -> f64 {
    100.0 * share(result, "compute")
}

fn share(result: &StepResult, what: &str) -> f64 {
    let found = result.time.iter().find(|s| s.what == what);
    found.map_or(0.0, |s| s.share)
}

/// Where time goes that no kernel uses, largest first.
fn losses(result: &StepResult) -> Vec<Share> {
    let mut lost: Vec<Share> = result
        .time
        .iter()
        .filter(|s| s.what != "compute" && s.share >= 0.01)
        .cloned()
        .collect();
    lost.sort_by(|a, b| b.share.total_cmp(&a.share));
    lost
}

fn told(share: &Share) -> String {
    let what = match share.what.split_once(": ") {
        Some(("exposed", stream)) => format!("exposed communication ({stream})"),
        Some(("waiting", stream)) => format!("waiting ({stream})"),
        _ => share.what.clone(),
    };
    format!("{what} {:.0} %", share.share * 100.0)
}

fn compared(variants: &[Variant]) -> String {
    let mut ran: Vec<(&Variant, &StepResult)> = variants
        .iter()
        .filter_map(|v| match &v.result {
            VariantResult::Ran(result) => Some((v, result.as_ref())),
            VariantResult::Failed(_) => None,
        })
        .collect();
    let per_gpu = |(v, r): &(&Variant, &StepResult)| r.tokens_per_s / f64::from(v.gpus);
    ran.sort_by(|a, b| per_gpu(b).total_cmp(&per_gpu(a)));
    let (Some(&(best, fast)), Some(&(worst, slow))) = (ran.first(), ran.last()) else {
        return "None of the variants ends.".to_owned();
    };
    if ran.len() < 2 {
        return format!("Only {} ends. {}", best.name, alone(fast));
    }
    if per_gpu(&(best, fast)) < 1.005 * per_gpu(&(worst, slow)) {
        return "All variants are equally fast per GPU.".to_owned();
    }
    let ratio = per_gpu(&(best, fast)) / per_gpu(&(worst, slow));
    format!(
        "{} is {ratio:.2} × as fast per GPU as {}: {}.",
        best.name,
        worst.name,
        why((best, fast), (worst, slow))
    )
}

/// Which part of the time makes the difference: per token and GPU.
fn why((best, fast): (&Variant, &StepResult), (worst, slow): (&Variant, &StepResult)) -> String {
    let cost = |v: &Variant, r: &StepResult, what: &str| {
        share(r, what) * f64::from(v.gpus) / r.tokens_per_s
    };
    let mut names: Vec<&str> = fast.time.iter().map(|s| s.what.as_str()).collect();
    names.extend(slow.time.iter().map(|s| s.what.as_str()));
    names.sort_unstable();
    names.dedup();
    let mut differences: Vec<(&str, f64)> = names
        .into_iter()
        .map(|n| (n, cost(worst, slow, n) - cost(best, fast, n)))
        .collect();
    differences.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all = f64::from(worst.gpus) / slow.tokens_per_s - f64::from(best.gpus) / fast.tokens_per_s;
    let shown: Vec<String> = differences
        .iter()
        .filter(|(_, d)| all > 0.0 && *d > 0.08 * all)
        .take(3)
        .map(|(what, d)| {
            let what = match what.split_once(": ") {
                Some(("exposed", stream)) => format!("exposed {stream} communication"),
                Some(("waiting", stream)) => format!("waiting for others ({stream})"),
                _ if *what == "compute" => "computing".to_owned(),
                _ => (*what).to_owned(),
            };
            format!("{:.0} % of the difference is {what}", 100.0 * d / all)
        })
        .collect();
    if shown.is_empty() {
        "they differ in nothing that matters".to_owned()
    } else {
        shown.join(", ")
    }
}

fn gib(bytes: Bytes) -> f64 {
    bytes.get() as f64 / f64::from(1 << 30)
}

fn seconds(value: f64) -> String {
    if value >= 1.0 {
        format!("{value:.2} s")
    } else {
        format!("{:.1} ms", value * 1e3)
    }
}
