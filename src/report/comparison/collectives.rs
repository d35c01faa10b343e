//! Collectives beside each other.

use crate::lines::{Better, EQUAL, Line, Table, changes};
use crate::numbers::{micros, percent, size, three_digits};
use crate::record::{CollectiveResult, Row};
use crate::summary::Variant;
use crate::{Waterfall, waterfall};
use fabricsim_units::Bytes;

/// The row of a variant that it is compared by: that of its common row's size.
pub(crate) fn shown(variant: &Variant) -> Option<&Row> {
    variant.job.collective()?.shown_row()
}

/// The fastest variant, as an index: that with the least time where all move as many bytes on as
/// many GPUs, else that with the most bus bandwidth. The baseline if none is faster by more than half
/// a percent; none if nothing is moved.
#[must_use]
pub fn best(variants: &[Variant], baseline: usize) -> Option<usize> {
    let alike = is_same_work(variants);
    // More is better.
    let speed = |index: usize| {
        let row = shown(&variants[index])?;
        let speed = if alike {
            1.0 / row.time_us
        } else {
            row.busbw_gbs
        };
        speed.is_finite().then_some(speed)
    };
    let known = (0..variants.len()).filter_map(|index| Some((index, speed(index)?)));
    let first =
        |best: (usize, f64), other: (usize, f64)| if other.1 > best.1 { other } else { best };
    let (best, most) = known.reduce(first)?;
    let base = speed(baseline).is_some_and(|base| most <= (1.0 + EQUAL) * base);
    Some(if base { baseline } else { best })
}

/// Whether all variants do the same: one collective, at one size, on as many GPUs.
#[must_use]
pub fn is_same_work(variants: &[Variant]) -> bool {
    let work = |variant: &Variant| {
        let result: &CollectiveResult = variant.job.collective()?;
        let row = result.shown_row()?;
        Some((result.collective.clone(), row.bytes, result.ranks))
    };
    variants
        .windows(2)
        .all(|pair| work(&pair[0]) == work(&pair[1]))
}

/// What makes the difference between the times of two variants: the change of each cause. Nothing
/// where one of them moves nothing.
#[must_use]
pub fn difference(from: &Variant, to: &Variant) -> Option<Waterfall> {
    let parts = |variant| Some(shown(variant)?.causes.as_ref()?.changes());
    let (before, after) = (parts(from)?, parts(to)?);
    Some(waterfall((&from.name, &before), (&to.name, &after)))
}

/// All that is compared, in the order of a table.
pub(crate) fn lines(variants: &[&Variant], waterfalls: &[Waterfall], baseline: &str) -> Vec<Line> {
    let table = Table { variants };
    let base = variants.iter().find(|v| v.name == baseline);
    let base = base.and_then(|v| shown(v)).map(|row| row.time_us);
    let row = |text: fn(&Row) -> String| move |v: &Variant| shown(v).map(text);
    let mut lines = vec![
        Line::plain("GPUs", variants, |v| Some(v.gpus.to_string())),
        Line::plain("collective", variants, |v| {
            Some(v.job.collective()?.collective.clone())
        }),
        Line::plain("size", variants, row(|row| size(row.bytes as f64))),
        table.line("time", Better::Less, micros, |v| Some(shown(v)?.time_us)),
        table.line(
            "beside the baseline",
            Better::Less,
            |ratio| format!("{ratio:.2} ×"),
            |v| Some(shown(v)?.time_us / base?),
        ),
        table.line("busbw, GB/s", Better::More, three_digits, |v| {
            Some(shown(v)?.busbw_gbs)
        }),
        table.line("algbw, GB/s", Better::More, three_digits, |v| {
            Some(shown(v)?.algbw_gbs)
        }),
        table.line("bound", Better::Neither, micros, |v| {
            Some(shown(v)?.bound_us)
        }),
        table.line("bound reached", Better::More, percent, |v| {
            let row = shown(v)?;
            (row.time_us > 0.0).then(|| row.bound_us / row.time_us)
        }),
        Line::plain("algorithm", variants, row(|row| row.algo.clone())),
        Line::plain("protocol", variants, row(|row| row.proto.clone())),
        Line::plain("channels", variants, row(|row| row.channels.to_string())),
        Line::plain("limited by", variants, row(|row| row.cause.clone())),
    ];
    lines.extend(changes(variants, waterfalls, baseline));
    lines.retain(|line| line.cells.iter().any(Option::is_some));
    lines
}

/// Where NCCL's own choice is not the best that it could have chosen, as a sentence a variant.
pub(crate) fn better_choices<'v>(variants: impl IntoIterator<Item = &'v Variant>) -> Vec<String> {
    let sentence = |variant: &Variant| {
        let choice = variant.job.collective()?.better_choice.as_ref()?;
        Some(format!(
            "On {}, NCCL picks {} {} at {}, {}; {} {} would take {}: NCCL_ALGO={} NCCL_PROTO={}.",
            variant.name,
            choice.algo,
            choice.proto,
            size(choice.bytes as f64),
            micros(choice.time_us),
            choice.best_algo,
            choice.best_proto,
            micros(choice.best_us),
            // NCCL reads its names in small letters, too.
            choice.best_algo.replace('-', ""),
            choice.best_proto,
        ))
    };
    variants.into_iter().filter_map(sentence).collect()
}

/// All sizes of all variants, in order, and the time and bus bandwidth of each variant at them.
pub(crate) fn by_size<'v>(variants: &[&'v Variant]) -> Vec<(Bytes, Vec<Option<&'v Row>>)> {
    let rows = |variant: &&'v Variant| variant.job.collective().map(|result| &result.rows);
    let mut sizes: Vec<u64> = variants
        .iter()
        .filter_map(rows)
        .flat_map(|rows| rows.iter().map(|row| row.bytes))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let at = |bytes: u64| {
        let found = variants.iter().map(|variant| {
            let rows = rows(variant)?;
            rows.iter().find(|row| row.bytes == bytes)
        });
        (Bytes::new(bytes), found.collect())
    };
    sizes.into_iter().map(at).collect()
}
