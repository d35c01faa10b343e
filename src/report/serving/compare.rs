//! What makes the difference between the times that requests take.

use super::record::ServingResult;
use crate::{Change, Part, Variant, Waterfall, waterfall};

/// The difference between whole requests of two variants, in the mean: the parts of the time to the first
/// token, and the tokens after it. Nothing where one of them served nothing.
#[must_use]
pub fn difference(from: &Variant, to: &Variant) -> Option<Waterfall> {
    let (before, after) = (parts(from.job.serving()?)?, parts(to.job.serving()?)?);
    Some(waterfall((&from.name, &before), (&to.name, &after)))
}

fn parts(result: &ServingResult) -> Option<Vec<Part>> {
    let whole = picos(result.e2e_ms?.mean * 1e3);
    let mut parts: Vec<Part> = result
        .ttft_parts
        .iter()
        .map(|part| Part {
            cause: format!("first token: {}", part.cause),
            time: picos(part.us),
        })
        .collect();
    let first: i64 = parts.iter().map(|part| part.time.0).sum();
    parts.push(Part {
        cause: "tokens after the first".to_owned(),
        time: Change(whole.0 - first),
    });
    Some(parts)
}

fn picos(micros: f64) -> Change {
    Change((micros * 1e6).round() as i64)
}
