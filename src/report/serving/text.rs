//! What came of serving, for a terminal, and the lines that variants are compared by.

use super::record::{Percentiles, ServingResult, TierUse};
use super::window::WindowRule;
use crate::Waterfall;
use crate::lines::{Better, Line, Table, changes};
use crate::numbers::{count, percent, size, three_digits, three_digits_of_small};
use crate::summary::{Summary, Variant};
use crate::table::{BAR, STRONG, bar};
use crate::text_table::{Cell, ERROR, Out, cell, left, right, styled};

/// Requests that were not served and are named.
const MAX_NAMED: usize = 5;

/// Milliseconds as people read them.
pub(super) fn millis(ms: f64) -> String {
    match ms {
        ms if ms >= 10_000.0 => format!("{} s", three_digits(ms / 1e3)),
        ms => format!("{} ms", three_digits(ms)),
    }
}

/// One serving job: what users see, what engines do, where the time to the first token goes.
pub(crate) fn serving_text(
    summary: &Summary,
    variant: &Variant,
    result: &ServingResult,
    out: &mut Out,
) {
    out.text.push('\n');
    if !summary.answer.is_empty() {
        out.line(&summary.answer, STRONG);
    }
    if let Some(error) = &result.failed {
        out.line(&format!("failed: {error}"), ERROR);
        return;
    }
    latencies(result, out);
    rates(variant, result, out);
    parts(result, out);
    pools(result, out);
    tiers(result, out);
    handover(result, out);
    slowest(result, out);
    rejected(result, out);
}

/// What the last column of times says.
pub(super) const KNOWN: &str = "95 % (mean, p50, p99)";

/// Times that users see, and how well they are known.
pub(super) fn seen(result: &ServingResult) -> Vec<(&'static str, Percentiles, String)> {
    let known = result.window.map(|window| window.half_widths);
    let known = known.unwrap_or_default();
    let share = |half: Option<f64>| half.map_or_else(|| "?".to_owned(), percent);
    let ttft = [known.ttft_ms_mean, known.ttft_ms_p50, known.ttft_ms_p99];
    let ttft = match ttft.iter().any(Option::is_some) {
        true => format!("± {}", ttft.map(share).join(", ")),
        false => String::new(),
    };
    let tpot = known.tpot_ms_mean;
    let tpot = tpot.map_or_else(String::new, |half| format!("± {}", percent(half)));
    let rows = [
        ("time to first token", result.ttft_ms, ttft),
        ("time per output token", result.tpot_ms, tpot),
        ("between tokens", result.itl_ms, String::new()),
        ("whole request", result.e2e_ms, String::new()),
    ];
    let rows = rows.into_iter();
    rows.filter_map(|(name, of, known)| Some((name, of?, known)))
        .collect()
}

/// The window of the run that figures are of, in a line.
pub(super) fn window_line(result: &ServingResult) -> Option<String> {
    let window = result.window?;
    let seconds = |ms: f64| millis(ms);
    let from = match window.rule {
        WindowRule::Whole => "the whole run, from the first arrival to the last token".to_owned(),
        WindowRule::Mser5 => format!(
            "{} behind a warm-up of {} (MSER-5), {} × the stay of a request",
            seconds(window.to_ms - window.from_ms),
            seconds(window.from_ms),
            three_digits(window.residences)
        ),
        WindowRule::WarmUp => format!(
            "{} behind the requests that are left out, {} × the stay of a request",
            seconds(window.to_ms - window.from_ms),
            three_digits(window.residences)
        ),
    };
    let known = match window.half_widths.widest() {
        Some((what, half)) if window.rule != WindowRule::Whole => format!(
            "; {} known to ± {} or better ({what})",
            if window.converged {
                "all is"
            } else {
                "not all is known that well: it is"
            },
            percent(half)
        ),
        _ => String::new(),
    };
    Some(format!(
        "Figures are of {} requests in {from}{known}.",
        count(f64::from(window.requests))
    ))
}

/// Requests per second: those that come, and what engines do at most.
pub(super) fn against_offered(result: &ServingResult) -> String {
    let offered = result
        .offered_per_s
        .map(|offered| format!("{} offered", three_digits(offered)));
    let most = result.saturation.map(|most| {
        format!(
            "full engines do {} to {}",
            three_digits(most.requests_per_s_lo),
            three_digits(most.requests_per_s_hi)
        )
    });
    let holds = result
        .holds_per_s
        .map(|holds| format!("{} would hold", three_digits(holds)));
    let all = [offered, most, holds].into_iter().flatten();
    all.collect::<Vec<String>>().join("; ")
}

fn latencies(result: &ServingResult, out: &mut Out) {
    let row = |(name, of, known): (&str, Percentiles, String)| {
        let mut row = vec![cell(name)];
        row.extend(of.named().map(|(_, value)| cell(millis(value))));
        row.push(cell(known));
        row
    };
    let rows: Vec<Vec<Cell>> = seen(result).into_iter().map(row).collect();
    if rows.is_empty() {
        return;
    }
    out.heading("What users see");
    let columns = ["", "mean", "p50", "p90", "p99", "most", KNOWN];
    let columns: Vec<_> = (0..columns.len())
        .map(|column| match column {
            0 => left(columns[column]),
            _ => right(columns[column]),
        })
        .collect();
    out.table(&columns, &rows);
}

fn rates(variant: &Variant, result: &ServingResult, out: &mut Out) {
    let per_gpu = result.output_tokens_per_s / f64::from(variant.gpus.max(1));
    let mut rows = vec![
        [
            "output".to_owned(),
            format!("{} tokens/s", count(result.output_tokens_per_s)),
            format!("{} tokens/s per GPU", count(per_gpu)),
        ],
        [
            "prompts".to_owned(),
            format!("{} tokens/s", count(result.input_tokens_per_s)),
            String::new(),
        ],
    ];
    if let Some(share) = result.slo_share {
        let kept = result.goodput_requests_per_s.unwrap_or(0.0);
        rows.push([
            "within the SLO".to_owned(),
            percent(share),
            format!("{} requests/s", three_digits(kept)),
        ]);
    }
    if let (Some(mbu), Some(mfu)) = (result.mbu, result.mfu) {
        rows.push([
            "use in passes".to_owned(),
            format!("{} of memory's rate", percent(mbu)),
            format!("{} of peak operations", percent(mfu)),
        ]);
    }
    let metrics = &variant.metrics;
    if let Some(usd) = metrics.usd_per_mtok.flatten() {
        let wh = |kwh: f64| format!("{} Wh", three_digits(kwh * 1e3));
        let energy = match (metrics.kwh_per_mtok, metrics.kwh_per_mtok_whole) {
            (Some(Some(share)), Some(Some(whole))) => {
                format!("{}; of whole units {}", wh(share), wh(whole))
            }
            _ => String::new(),
        };
        rows.push([
            "per million output tokens".to_owned(),
            format!("${}", three_digits(usd)),
            energy,
        ]);
    }
    let verdict = result.verdict.map_or("", |verdict| verdict.name());
    rows.push([
        "requests".to_owned(),
        format!("{} /s", three_digits(result.requests_per_s)),
        against_offered(result),
    ]);
    rows.push([
        "verdict".to_owned(),
        verdict.to_owned(),
        format!(
            "{} of {} requests were done",
            result.completed, result.requests
        ),
    ]);
    out.heading("Throughput");
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|row| row.into_iter().map(cell).collect())
        .collect();
    out.table(&[left(""), right(""), left("")], &rows);
    if let Some(window) = window_line(result) {
        out.plain(&window);
    }
}

fn parts(result: &ServingResult, out: &mut Out) {
    let sum: f64 = result.ttft_parts.iter().map(|part| part.us).sum();
    if sum <= 0.0 {
        return;
    }
    out.heading("Where the time to the first token goes (mean)");
    let rows: Vec<Vec<Cell>> = result
        .ttft_parts
        .iter()
        .map(|part| {
            let share = part.us / sum;
            vec![
                cell(&part.cause),
                cell(millis(part.us / 1e3)),
                cell(percent(share)),
                styled(bar(share), BAR),
            ]
        })
        .collect();
    out.table(&[left(""), right(""), right(""), left("")], &rows);
}

fn pools(result: &ServingResult, out: &mut Out) {
    out.heading("Engines");
    let memory = |value: Option<f64>| value.map_or_else(String::new, |gib| format!("{gib:.1} GiB"));
    let rows: Vec<Vec<Cell>> = result
        .pools
        .iter()
        .map(|pool| {
            vec![
                cell(format!("{} × {}", pool.engines, pool.role)),
                cell(&pool.layout),
                cell(percent(pool.busy_share)),
                cell(count(pool.passes as f64)),
                cell(three_digits(pool.tokens_per_pass)),
                cell(memory(pool.weights_gib)),
                cell(memory(pool.kv_gib)),
                cell(count(pool.kv_tokens as f64)),
            ]
        })
        .collect();
    let columns = [
        left("engines"),
        left("each"),
        right("busy"),
        right("passes"),
        right("tokens a pass"),
        right("weights"),
        right("KV cache"),
        right("KV tokens"),
    ];
    out.table(&columns, &rows);
    let kv = &result.kv;
    let mut line = format!(
        "KV cache: {} a token, at most {} taken, {} preemptions",
        size(kv.bytes_per_token as f64),
        percent(kv.peak_share),
        kv.preemptions
    );
    if kv.hit_share > 0.0 {
        line += &format!(", {} of prompts found in it", percent(kv.hit_share));
    }
    out.plain(&line);
}

fn tiers(result: &ServingResult, out: &mut Out) {
    if result.tiers.is_empty() {
        return;
    }
    out.heading("KV cache below the GPUs' memory");
    let row = |tier: &TierUse| {
        vec![
            cell(&tier.tier),
            cell(percent(tier.hit_share)),
            cell(count(tier.reads as f64)),
            cell(size(tier.read_bytes as f64)),
            cell(size(tier.written_bytes as f64)),
            cell(count(tier.recomputed_tokens as f64)),
        ]
    };
    let rows: Vec<Vec<Cell>> = result.tiers.iter().map(row).collect();
    let columns = [
        left("tier"),
        right("of prompts"),
        right("reads"),
        right("read"),
        right("written"),
        right("tokens computed again"),
    ];
    out.table(&columns, &rows);
    if let Some(time) = result.reload_ms {
        out.plain(&format!(
            "Requests waited {} for it (p99 {})",
            millis(time.mean),
            millis(time.p99)
        ));
    }
}

fn handover(result: &ServingResult, out: &mut Out) {
    let Some(used) = &result.handover else { return };
    out.heading("Hand-over of KV caches");
    let each = used.bytes as f64 / f64::from(used.count.max(1));
    let rows = [
        (
            "time",
            millis(used.time_ms.mean),
            format!(
                "p99 {}; with links for itself {}",
                millis(used.time_ms.p99),
                millis(used.alone_ms)
            ),
        ),
        (
            "size",
            size(each),
            format!("{} GB/s", three_digits(used.rate_gbs)),
        ),
        (
            "wait for blocks",
            millis(used.wait_ms.mean),
            format!("p99 {}", millis(used.wait_ms.p99)),
        ),
        (
            "limited by",
            used.binding.clone(),
            used.link.clone().unwrap_or_default(),
        ),
    ];
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|(name, value, more)| vec![cell(name), cell(value), cell(more)])
        .collect();
    out.table(&[left(""), right(""), left("")], &rows);
}

fn slowest(result: &ServingResult, out: &mut Out) {
    let Some(slowest) = &result.slowest else {
        return;
    };
    let title = format!(
        "The slowest first token: request {}, {} tokens, {}",
        slowest.id,
        count(f64::from(slowest.input_tokens)),
        millis(slowest.ttft_ms)
    );
    out.heading(&title);
    let rows: Vec<Vec<Cell>> = slowest
        .parts
        .iter()
        .map(|part| vec![cell(&part.cause), cell(millis(part.us / 1e3))])
        .collect();
    out.table(&[left(""), right("")], &rows);
    if slowest.behind_count > 0 {
        let named: Vec<String> = slowest.behind.iter().map(u32::to_string).collect();
        out.plain(&format!(
            "{} other requests were computed on its engine while it waited, the longest prompts: {}",
            slowest.behind_count,
            named.join(", ")
        ));
    }
}

fn rejected(result: &ServingResult, out: &mut Out) {
    if result.rejected.is_empty() {
        return;
    }
    let title = format!("{} requests were not served", result.rejected.len());
    out.heading(&title);
    for one in result.rejected.iter().take(MAX_NAMED) {
        out.plain(&format!("request {}: {}", one.id, one.why));
    }
    let more = result.rejected.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        out.plain(&format!("and {more} more: summary.json has all"));
    }
}

/// What variants that serve are compared by.
pub(crate) fn lines(variants: &[&Variant], waterfalls: &[Waterfall], baseline: &str) -> Vec<Line> {
    let table = Table { variants };
    let served = |variant: &Variant| {
        let result = variant.job.serving()?;
        result.failed.is_none().then(|| result.clone())
    };
    let of =
        |what: &str, better, text: fn(f64) -> String, value: fn(&ServingResult) -> Option<f64>| {
            table.line(what, better, text, |variant| value(&served(variant)?))
        };
    let metric = |what: &str, better, text: fn(f64) -> String, name: &'static str| {
        table.line(what, better, text, |variant| variant.metrics.number(name))
    };
    let (less, more) = (Better::Less, Better::More);
    let mut lines = vec![
        Line::plain("GPUs", variants, |v| Some(v.gpus.to_string())),
        Line::plain("verdict", variants, |v| {
            let verdict = v.job.serving()?.verdict?;
            Some(verdict.name().to_owned())
        }),
        of("TTFT p50", less, millis, |r| r.ttft_ms.map(|p| p.p50)),
        of("TTFT p99", less, millis, |r| r.ttft_ms.map(|p| p.p99)),
        of("TPOT p50", less, millis, |r| r.tpot_ms.map(|p| p.p50)),
        of("TPOT p99", less, millis, |r| r.tpot_ms.map(|p| p.p99)),
        of("requests/s offered", more, three_digits, |r| {
            r.offered_per_s
        }),
        of("requests/s served", more, three_digits, |r| {
            Some(r.requests_per_s)
        }),
        of("output tokens/s", more, count, |r| {
            Some(r.output_tokens_per_s)
        }),
        metric(
            "output tokens/s per GPU",
            more,
            count,
            "output_tokens_per_s_per_gpu",
        ),
        of("within the SLO", more, percent, |r| r.slo_share),
        of("hand-over", less, millis, |r| {
            r.handover.as_ref().map(|h| h.time_ms.mean)
        }),
        of("preemptions", less, count, |r| {
            Some(r.kv.preemptions as f64)
        }),
        table.known("$ an hour", Better::Neither, three_digits, |v| {
            v.metrics.usd_per_hour
        }),
        table.known("power, kW", Better::Neither, three_digits, |v| v.metrics.kw),
        table.known("of whole units, kW", Better::Neither, three_digits, |v| {
            v.metrics.kw_whole
        }),
        table.known(
            "kWh per M output tokens",
            less,
            three_digits_of_small,
            |v| v.metrics.kwh_per_mtok,
        ),
        table.known("of whole units, kWh", less, three_digits_of_small, |v| {
            v.metrics.kwh_per_mtok_whole
        }),
        table.known("$ per GPU and hour", Better::Neither, three_digits, |v| {
            v.metrics.usd_per_gpu_hour
        }),
        table.known("$ per M output tokens", less, three_digits, |v| {
            v.metrics.usd_per_mtok
        }),
    ];
    lines.extend(changes(variants, waterfalls, baseline));
    lines.retain(|line| line.cells.iter().any(Option::is_some));
    lines
}
