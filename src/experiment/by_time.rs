//! What a summary says of variants that are a sentence and a time each.

use fabricsim_report::{JobResult, Summary};

/// A sentence for each variant that has one, under its name where there are several.
pub(crate) fn answer_each(summary: &mut Summary, sentence: impl Fn(&JobResult) -> Option<String>) {
    let several = summary.variants.len() > 1;
    let sentences = summary.variants.iter().filter_map(|variant| {
        let sentence = sentence(&variant.job)?;
        match several {
            false => Some(sentence),
            true => Some(format!("{}: {sentence}", variant.name)),
        }
    });
    summary.answer = sentences.collect::<Vec<_>>().join("\n");
}

/// Of several variants that with the least time is the best.
pub(crate) fn fastest(summary: &mut Summary) {
    if summary.variants.len() < 2 {
        return;
    }
    let times = summary.variants.iter();
    let times = times.filter_map(|v| Some((v.metrics.time_us?, &v.name)));
    let least = times.min_by(|a, b| a.0.total_cmp(&b.0));
    summary.best = least.map(|(_, name)| name.clone());
}
