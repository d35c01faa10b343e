//! A job's results for a terminal.

use super::compare::effort;
use super::kernels::kernels_text;
use super::{
    CheckpointUse, CollectiveUse, ComponentLoss, Culprit, Disturbance, GoodputUse, MemoryUse,
    RestartUse, Share, StepResult, StorageLimit, StorageMove, TrainingOutcome, TrainingResult,
};
use crate::lines::LEAST_SHARE;
use crate::numbers::{count, micros, percent, seconds, size, three_digits, three_digits_of_small};
use crate::table::{BAR, HEADER, STRONG, bar};
use crate::text_table::{Cell, ERROR, Out, WARNING, cell, left, right, styled};
use crate::{Summary, Variant};

/// Communications, ranks and disturbances that are listed.
const MAX_ROWS: usize = 12;
/// A communication that takes so much longer than alone is marked.
const SLOW: f64 = 1.25;

/// What a variant is, in up to three lines.
pub(crate) fn described(variant: &Variant) -> Vec<String> {
    let nodes = match variant.nodes {
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    let Some(training) = variant.job.training() else {
        let place = format!("{} GPUs, {nodes}: {}", variant.gpus, variant.topology_title);
        return vec![place];
    };
    let model = format!(
        "{} ({} parameters)",
        training.model,
        count(training.parameters)
    );
    let place = format!(
        "{model} on {} GPUs, {nodes}: {}",
        variant.gpus, variant.topology_title
    );
    let way = [training.layout.as_str(), training.schedule.as_str()];
    let way: Vec<&str> = way.into_iter().filter(|text| !text.is_empty()).collect();
    let mut lines = vec![place];
    if !way.is_empty() {
        lines.push(way.join("; "));
    }
    lines
}

/// One job: its speed, where the time went, communications, memory and whom others waited for.
pub(crate) fn training_text(
    summary: &Summary,
    variant: &Variant,
    training: &TrainingResult,
    out: &mut Out,
) {
    match &training.outcome {
        TrainingOutcome::Failed(error) => {
            out.text.push('\n');
            if !summary.answer.is_empty() {
                out.line(&summary.answer, STRONG);
            }
            out.line(&format!("failed: {error}"), ERROR);
        }
        TrainingOutcome::Ran(result) => {
            out.line(&format!("# {}", effort(variant, result)), HEADER);
            if !summary.answer.is_empty() {
                out.text.push('\n');
                out.line(&summary.answer, STRONG);
            }
            out.text.push('\n');
            speed(variant, result, out);
            shares(&whole(result), &result.time, out);
            collectives(&result.collectives, out);
            kernels_text((&result.kernels, &result.flop_counts), out);
            memory(&result.memory, out);
            if let Some(layers) = result.bucketing {
                let plural = if layers == 1 { "" } else { "s" };
                out.plain(&format!(
                    "  bucketing: {layers} layer{plural} gathered at once, the fastest by an estimate"
                ));
            }
            if let Some(chosen) = &result.prefetch {
                out.plain(&format!(
                    "  prefetch: {} layers ahead, the most that fit; each takes {}",
                    chosen.layers,
                    size(chosen.layer_bytes.get() as f64)
                ));
            }
            if let Some(used) = &result.data_loader {
                out.text.push('\n');
                out.plain(&used.text());
            }
            if let Some(used) = &result.offload {
                used.table(out);
            }
            culprits(&result.culprits, out);
            disturbances(&result.disturbances, out);
            if let Some(used) = &result.goodput {
                goodput(used, out);
            }
        }
    }
}

/// The figures that jobs are compared by.
fn speed(variant: &Variant, result: &StepResult, out: &mut Out) {
    let per_gpu = result.tokens_per_s / f64::from(variant.gpus.max(1));
    let steps = match result.steps_s.as_slice() {
        [] | [_] => String::new(),
        steps => {
            let steps: Vec<String> = steps.iter().map(|step| seconds(*step)).collect();
            format!("the last of {}", steps.join(", "))
        }
    };
    let mut rows = vec![
        ["step time".into(), seconds(result.step_s), steps],
        [
            "throughput".into(),
            format!("{} tokens/s", count(result.tokens_per_s)),
            format!(
                "{} tokens/s per GPU, {} tokens a step",
                count(per_gpu),
                count(result.tokens as f64)
            ),
        ],
        [
            "model operations".into(),
            format!(
                "{} TFLOP/s per GPU",
                three_digits(result.model_tflops_per_gpu)
            ),
            format!(
                "MFU {}, {} with causal attention counted half",
                percent(result.mfu),
                percent(result.mfu_causal)
            ),
        ],
    ];
    rows.extend(running(variant));
    let shares = [
        (
            "bubble",
            result.bubble,
            "of the time GPUs wait for other stages or have finished",
        ),
        (
            "exposed communication",
            result.exposed_communication,
            "of the time it hides behind no kernel",
        ),
        (
            "overlap",
            result.overlap,
            "of communication is hidden by kernels",
        ),
    ];
    rows.extend(shares.map(|(what, share, note)| [what.into(), percent(share), note.into()]));
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|[what, value, note]| vec![cell(what), styled(value, STRONG), cell(note)])
        .collect();
    out.table(&[left(""), left(""), left("")], &rows);
}

/// What a step draws and costs, as far as that is known.
fn running(variant: &Variant) -> Vec<[String; 3]> {
    let metrics = &variant.metrics;
    let mut rows = Vec::new();
    if let Some(Some(dollars)) = metrics.usd_per_mtok {
        let mut note = "per million tokens".to_owned();
        if let (Some(Some(step)), Some(Some(hour))) =
            (metrics.usd_per_step, metrics.usd_per_gpu_hour)
        {
            note += &format!(
                ", ${} a step at ${} per GPU and hour",
                three_digits_of_small(step),
                three_digits(hour)
            );
        }
        rows.push([
            "cost".into(),
            format!("${}", three_digits_of_small(dollars)),
            note,
        ]);
    }
    let Some(kw) = metrics.kw else { return rows };
    let known = |value: Option<Option<f64>>| value.flatten().map(three_digits_of_small);
    rows.push(match kw {
        None => [
            "power".into(),
            "unknown".into(),
            "`fabricsim topology cost` names the parts without known watts".into(),
        ],
        Some(kw) => {
            let whole = metrics.kw_whole.flatten();
            let whole = whole.map_or_else(String::new, |whole| {
                format!("; whole nodes and switches {} kW", three_digits(whole))
            });
            [
                "power".into(),
                format!("{} kW", three_digits(kw)),
                format!("the job's share at full load{whole}"),
            ]
        }
    });
    if let (Some(step), Some(tokens)) = (known(metrics.kwh_per_step), known(metrics.kwh_per_mtok)) {
        let whole = known(metrics.kwh_per_mtok_whole);
        let whole = whole.map_or_else(String::new, |whole| format!("; of whole units {whole}"));
        let note = format!("a step, {tokens} kWh per million tokens: the job's share{whole}");
        rows.push(["energy".into(), format!("{step} kWh"), note]);
    }
    rows
}

fn whole(result: &StepResult) -> String {
    let total: f64 = result.time.iter().map(|share| share.seconds).sum();
    let steps = match result.steps_s.len() {
        0 | 1 => String::new(),
        steps => format!(" in {steps} steps"),
    };
    format!(
        "Where the time went: an average GPU, {}{steps}",
        seconds(total)
    )
}

/// Bars, the longest first.
fn shares(heading: &str, shares: &[Share], out: &mut Out) {
    if shares.is_empty() {
        return;
    }
    out.heading(heading);
    let shown = shares.iter().filter(|share| share.share >= LEAST_SHARE);
    let mut sorted: Vec<&Share> = shown.collect();
    sorted.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let rows: Vec<Vec<Cell>> = sorted
        .into_iter()
        .map(|share| {
            vec![
                cell(&share.what),
                cell(seconds(share.seconds)),
                cell(percent(share.share)),
                styled(bar(share.share), BAR),
            ]
        })
        .collect();
    out.table(&[left(""), right(""), right(""), left("")], &rows);
}

/// Those that take most of a GPU's time first.
pub(super) fn by_time(uses: &[CollectiveUse]) -> Vec<&CollectiveUse> {
    let mut sorted: Vec<&CollectiveUse> = uses.iter().collect();
    let total = |used: &CollectiveUse| f64::from(used.count) * used.time_us;
    sorted.sort_by(|a, b| total(b).total_cmp(&total(a)));
    sorted
}

/// Others are in its way.
pub(super) fn slowed(used: &CollectiveUse) -> bool {
    used.alone_us > 0.0 && used.time_us > SLOW * used.alone_us
}

fn collectives(uses: &[CollectiveUse], out: &mut Out) {
    if uses.is_empty() {
        return;
    }
    out.heading("Communication, of one GPU: what takes most time first");
    let sorted = by_time(uses);
    let row = |used: &&CollectiveUse| {
        let time = micros(used.time_us);
        vec![
            cell(format!("{} ({})", used.group, used.ranks)),
            cell(&used.what),
            cell(size(used.bytes.get() as f64)),
            cell(used.count.to_string()),
            if slowed(used) {
                styled(time, WARNING)
            } else {
                cell(time)
            },
            cell(micros(used.alone_us)),
            cell(format!("{} GB/s", three_digits(used.busbw_gbs))),
            cell(&used.how),
            cell(used.sms.to_string()),
        ]
    };
    let rows: Vec<Vec<Cell>> = sorted.iter().take(MAX_ROWS).map(row).collect();
    let columns = [
        left("group (ranks)"),
        left("what"),
        right("size"),
        right("count"),
        right("time"),
        right("alone"),
        right("busbw"),
        left("how"),
        right("SMs"),
    ];
    out.table(&columns, &rows);
    more(sorted.len(), "kinds", out);
}

fn more(all: usize, what: &str, out: &mut Out) {
    if all > MAX_ROWS {
        out.plain(&format!("  and {} more {what}", all - MAX_ROWS));
    }
}

fn memory(memory: &MemoryUse, out: &mut Out) {
    let (need, capacity) = (memory.need().get() as f64, memory.capacity.get() as f64);
    let verdict = if memory.fits {
        format!("fits, {}", memory.left())
    } else {
        let largest = memory.largest().map_or_else(String::new, |(part, _)| {
            format!("; the largest part: {}", part.name())
        });
        format!(
            "does NOT fit: {} too much{largest}",
            size(memory.missing().get() as f64)
        )
    };
    out.heading(&format!(
        "Memory of the fullest GPU, stage {}: {} of {} needed, {verdict}",
        memory.stage,
        size(need),
        size(capacity)
    ));
    let style = if memory.fits { BAR } else { ERROR };
    let rows: Vec<Vec<Cell>> = memory
        .parts
        .iter()
        .map(|&(part, bytes)| {
            let share = bytes.get() as f64 / capacity.max(1.0);
            vec![
                cell(part.name()),
                cell(size(bytes.get() as f64)),
                cell(percent(share)),
                styled(bar(share), style),
            ]
        })
        .collect();
    out.table(&[left(""), right(""), right(""), left("")], &rows);
}

fn culprits(culprits: &[Culprit], out: &mut Out) {
    if culprits.is_empty() {
        return;
    }
    out.heading("Ranks that others waited for");
    let row = |culprit: &Culprit| {
        vec![
            cell(culprit.rank.to_string()),
            cell(&culprit.gpu),
            cell(seconds(culprit.caused_s)),
            cell(seconds(culprit.waited_s)),
            styled(culprit.why.clone().unwrap_or_default(), WARNING),
        ]
    };
    let rows: Vec<Vec<Cell>> = culprits.iter().take(MAX_ROWS).map(row).collect();
    let columns = [
        right("rank"),
        left("GPU"),
        right("others waited"),
        right("waited itself"),
        left("why"),
    ];
    out.table(&columns, &rows);
    more(culprits.len(), "ranks", out);
}

/// From when to when.
pub(super) fn period(disturbance: &Disturbance) -> String {
    let from = seconds(disturbance.from_s);
    match disturbance.to_s {
        None if disturbance.from_s <= 0.0 => "all the time".to_owned(),
        None => format!("from {from} to the end"),
        Some(to) => format!("from {from} to {}", seconds(to)),
    }
}

fn disturbances(disturbances: &[Disturbance], out: &mut Out) {
    if disturbances.is_empty() {
        return;
    }
    out.heading("Disturbances");
    let rows: Vec<Vec<Cell>> = disturbances
        .iter()
        .take(MAX_ROWS)
        .map(|disturbance| {
            vec![
                styled(&disturbance.what, WARNING),
                cell(&disturbance.place),
                cell(period(disturbance)),
            ]
        })
        .collect();
    out.table(&[left(""), left(""), left("")], &rows);
    more(disturbances.len(), "disturbances", out);
}

/// A percentage with one decimal: intervals differ by little.
pub(super) fn tenths(part: f64) -> String {
    let text = format!("{:.1} %", part * 100.0);
    // Less than nothing, by chance.
    match text.strip_prefix("-0.0") {
        Some(unit) => format!("0.0{unit}"),
        None => text,
    }
}

fn goodput(used: &GoodputUse, out: &mut Out) {
    let heading = format!(
        "Goodput over a long run: {}, with a checkpoint every {} and {} failures",
        tenths(used.goodput),
        seconds(used.interval_s),
        count(used.failures)
    );
    shares(&heading, &used.time, out);
    if used.time.is_empty() {
        out.heading(&heading);
    }
    out.plain(&format!("  {}", spread(used)));
    if let Some(used) = &used.checkpoint {
        for line in checkpoint(used) {
            out.plain(&format!("  {line}"));
        }
    }
    if let Some(parts) = &used.restart {
        out.plain(&format!("  {}", restart(parts)));
    }
    let rows: Vec<Vec<Cell>> = used
        .components
        .iter()
        .map(|loss| {
            let lost = tenths(loss.lost);
            vec![cell(failing(loss)), cell(count(loss.failures)), cell(lost)]
        })
        .collect();
    if !rows.is_empty() {
        out.table(
            &[left("what fails"), right("failures"), right("costs")],
            &rows,
        );
    }
    if used.intervals.is_empty() {
        return;
    }
    let rows: Vec<Vec<Cell>> = used
        .intervals
        .iter()
        .map(|(name, interval, goodput)| {
            vec![cell(name), cell(seconds(*interval)), cell(tenths(*goodput))]
        })
        .collect();
    let columns = [left("interval"), right("work between"), right("goodput")];
    out.table(&columns, &rows);
}

/// A kind of part, with how many nodes one takes along if nodes share it.
pub(super) fn failing(loss: &ComponentLoss) -> String {
    match loss.nodes {
        Some(nodes) => format!("{} ({} nodes each)", loss.component, count(nodes)),
        None => loss.component.clone(),
    }
}

/// What a checkpoint takes on the machine's storage, in sentences.
pub(super) fn checkpoint(used: &CheckpointUse) -> Vec<String> {
    let moved = |what: &str, moved: &StorageMove| {
        let limit = match moved.limit {
            StorageLimit::Storage => "storage",
            StorageLimit::StorageLink => "the PCIe link of a storage device",
            StorageLimit::Nic => "a NIC",
            StorageLimit::Switches => "cables between switches",
            StorageLimit::Host => "links inside a server",
        };
        let time = seconds(moved.time_s);
        format!("{what} takes {time}, limited by {limit} ({})", moved.link)
    };
    let many = |count: u32, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let mut lines = vec![format!(
        "a checkpoint of {}, from {} to {}, stops training for {}",
        size(used.bytes.get() as f64),
        many(used.writers, "GPU"),
        many(used.devices, "storage device"),
        seconds(used.blocked_s)
    )];
    if let Some(copy) = &used.copy {
        lines.push(moved("copying it to the hosts", copy));
    }
    lines.push(moved("writing it", &used.write));
    lines.push(moved("reading it, by all GPUs,", &used.read));
    lines
}

/// What a restart consists of.
pub(super) fn restart(parts: &RestartUse) -> String {
    format!(
        "a restart takes {}: processes {}, communicators {}, reading the checkpoint {}",
        seconds(parts.processes_s + parts.communicators_s + parts.load_s),
        seconds(parts.processes_s),
        seconds(parts.communicators_s),
        seconds(parts.load_s)
    )
}

/// How far runs differ.
pub(super) fn spread(used: &GoodputUse) -> String {
    format!(
        "nine runs in ten reach {}, half of them {}, one in ten {}",
        tenths(used.p10),
        tenths(used.p50),
        tenths(used.p90)
    )
}
