//! What serving came to, as a report has it.

use super::first_token::{mean_parts, slowest};
use super::horizon::{Horizon, at_once, rate};
use super::laid::Ran;
use super::moved::handover;
use super::pools::{layout, peak};
use super::steady::{Known, RESIDENCES, Saturated, Window, judge};
use super::times::{Times, millis};
use super::valid::{ValidPool, ValidServing};
use fabricsim_report::serving::{
    KvUse, Percentiles, Pool, Rejected, Sample, ServingResult, ServingWindow, TierUse, Verdict,
    WindowRule,
};
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::serving::fleet::Served;
use fabricsim_workload::serving::record::{RequestRecord, TierRecord};
use fabricsim_workload::serving::spec::{PoolRole, SteadySpec, TierSpec};

/// The part of a run that its figures are of.
fn window(valid: &ValidServing, served: &Served) -> Window {
    let warm_up = valid.spec.warm_up as usize;
    let records = served.records.as_slice();
    let steady = match valid.horizon {
        // Of a run that did not come to its end nothing is steady.
        _ if served.is_overloaded || served.is_stuck => None,
        Horizon::Whole => None,
        Horizon::Fixed | Horizon::Known(_) => {
            Window::steady(records, served.over as usize, warm_up)
        }
    };
    steady.unwrap_or_else(|| Window::whole(records, warm_up))
}

/// The result, and events that were handled; of engines that do so much at most, where that was simulated.
pub(super) fn result(
    valid: &ValidServing,
    ran: &Ran,
    saturated: Option<Saturated>,
) -> (ServingResult, u64) {
    let served = &ran.served;
    let window = window(valid, served);
    let done: Vec<(usize, Times)> = (0..)
        .zip(&served.records)
        .filter_map(|(id, record)| Some((id, Times::of(record)?)))
        .collect();
    let is_counted = |id: usize| (window.first..window.end).contains(&id);
    let counted: Vec<(usize, Times)> = done
        .iter()
        .filter(|(id, _)| is_counted(*id))
        .copied()
        .collect();
    let judged = judge(valid, served, (&window, saturated));
    let known = Known::of(&served.records, &window, at_once(&valid.spec.load));
    let duration = window.to.saturating_sub(window.from);
    let seconds = duration.seconds().max(f64::MIN_POSITIVE);
    let inside = |at: Time| at > window.from && at <= window.to;
    // Of engines that keep up as much is done as comes, at the rate that was asked: what was done for each request that
    // came in the window. So the draw of arrivals is not in it.
    let arrived = served.records.iter().filter_map(|record| record.arrived);
    let arrived = arrived.filter(|&at| inside(at)).count() as f64;
    let each = match (judged.verdict, rate(&valid.spec.load)) {
        (Verdict::Stable | Verdict::TooShort, Some(offered))
            if window.rule != WindowRule::Whole && arrived > 0.0 =>
        {
            offered / arrived
        }
        _ => 1.0 / seconds,
    };
    let per_second = |amount: &dyn Fn(usize) -> u64| {
        let inside = done.iter().filter(|(_, times)| inside(times.finished));
        inside.map(|(id, _)| amount(*id)).sum::<u64>() as f64 * each
    };
    let of = |value: &dyn Fn(&Times) -> Option<Time>| {
        let values = counted.iter().filter_map(|(_, times)| value(times));
        Percentiles::of(values.map(millis).collect())
    };
    let is_whole = window.rule == WindowRule::Whole;
    let gaps = served.gaps.iter().filter(|gap| is_whole || inside(gap.at));
    let gaps = gaps.map(|gap| (millis(gap.time), u64::from(gap.count)));
    let requests_per_s = per_second(&|_| 1);
    let length = |id: usize| &served.requests[id];
    let tpot = of(&|times| times.per_token());
    let slo = valid.spec.slo.as_ref().map(|slo| {
        let kept = counted.iter().filter(|(_, times)| times.keeps(slo)).count();
        kept as f64 / counted.len().max(1) as f64
    });
    let (mfu, mbu) = use_of_peaks(valid, ran);
    let mut result = ServingResult {
        model: valid.model_name.clone(),
        requests: served
            .records
            .iter()
            .filter(|r| r.arrived.is_some())
            .count() as u32,
        completed: done.len() as u32,
        counted: counted.len() as u32,
        rejected: rejected(valid, served),
        verdict: Some(judged.verdict),
        too_short: judged.too_short,
        window: Some(ServingWindow {
            from_ms: millis(window.from),
            to_ms: millis(window.to),
            requests: counted.len() as u32,
            rule: window.rule,
            converged: is_known(valid, &window, &known),
            residences: window.residences(),
            half_widths: known.0,
        }),
        offered_per_s: judged.offered,
        holds_per_s: judged.holds,
        saturation: saturated.map(Into::into),
        capacity: None,
        limit: String::new(),
        duration_s: duration.seconds(),
        requests_per_s,
        input_tokens_per_s: per_second(&|id| u64::from(length(id).input)),
        output_tokens_per_s: per_second(&|id| u64::from(length(id).output)),
        output_tokens_per_s_per_user: tpot
            .map(|tpot| 1e3 / tpot.p50)
            .filter(|rate| rate.is_finite()),
        ttft_ms: of(&|times| Some(times.until_first())),
        tpot_ms: tpot,
        itl_ms: Percentiles::of_counted(gaps.collect()),
        e2e_ms: of(&|times| Some(times.finished.saturating_sub(times.arrived))),
        slo_share: slo,
        goodput_requests_per_s: slo.map(|share| share * requests_per_s),
        mfu,
        mbu,
        pools: pools(valid, ran),
        kv: kv(valid, served),
        handover: handover(valid, ran),
        tiers: tier_uses(valid, served),
        reload_ms: Percentiles::of(served.reloads.iter().map(|&time| millis(time)).collect()),
        ttft_parts: mean_parts(valid, served, &counted),
        slowest: slowest(valid, served, &counted),
        series: series(served),
        failed: None,
        wall_ms: 0.0,
    };
    result.limit = limit(&result);
    (result, ran.outcome.events)
}

/// Requests that were not served, and why.
fn rejected(valid: &ValidServing, served: &Served) -> Vec<Rejected> {
    let refused = |id: usize| {
        let request = &served.requests[id];
        let tokens = u64::from(request.input) + u64::from(request.output) - 1;
        let holds = valid
            .pools
            .iter()
            .filter(|pool| pool.role != PoolRole::Prefill)
            .map(|pool| u64::from(pool.blocks) * u64::from(valid.spec.engine.block_tokens()))
            .min();
        format!(
            "its {tokens} tokens do not fit a KV cache of {}",
            holds.unwrap_or(0)
        )
    };
    let unfinished = |record: &RequestRecord| {
        let what = match record {
            RequestRecord { arrived: None, .. } => "it had not arrived",
            RequestRecord {
                scheduled: None, ..
            } => "it waited for its prompt to be computed",
            RequestRecord {
                prefilled: None, ..
            } => "its prompt was half computed",
            RequestRecord {
                first_token: None,
                reserved: None,
                ..
            } if record.engines[1].is_some() => {
                "it waited for KV blocks of the engine that was to generate"
            }
            RequestRecord {
                first_token: None, ..
            } => "its KV cache was on its way",
            _ => "it was generating",
        };
        match served.is_stuck {
            true => format!("nothing went on any more: {what}"),
            false => format!("time was up: {what}"),
        }
    };
    let all = (0u32..).zip(&served.records);
    let found = all.filter_map(|(id, record)| {
        let why = match record {
            record if record.finished.is_some() => return None,
            record if record.refused => refused(id as usize),
            // It was still under way when figures were known.
            _ if matches!(valid.horizon, Horizon::Known(_)) && !served.is_stuck => return None,
            record => unfinished(record),
        };
        Some(Rejected { id, why })
    });
    found.collect()
}

/// Whether figures are known as well as they are to be.
fn is_known(valid: &ValidServing, window: &Window, known: &Known) -> bool {
    let precision = match valid.horizon {
        Horizon::Known(steady) => steady.precision,
        Horizon::Whole | Horizon::Fixed => SteadySpec::default().precision,
    };
    window.rule != WindowRule::Whole
        && window.residences() >= RESIDENCES
        && known.is_within(precision)
}

/// Operations and bytes of passes over what GPUs could have done in their time.
fn use_of_peaks(valid: &ValidServing, ran: &Ran) -> (Option<f64>, Option<f64>) {
    let (mut operations, mut bytes, mut peaks, mut rates) = (0.0, 0.0, 0.0, 0.0);
    for (pool, work) in valid.pools.iter().zip(&ran.work) {
        let rank = pool.engines.first().and_then(|ranks| ranks.first());
        let gpu = rank.map(|&rank| valid.gpus[rank as usize]);
        let Some(gpu) = gpu.and_then(|gpu| valid.topology.gpu_model(gpu)) else {
            return (None, None);
        };
        let gpus = f64::from(pool.gpus());
        let busy = work.busy.seconds() * gpus;
        operations += work.operations * gpus;
        bytes += work.bytes * gpus;
        peaks += peak(gpu, pool.shape.weights) * busy;
        rates += gpu.memory_bandwidth.value.bytes_per_sec() as f64 * busy;
    }
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    (share(operations, peaks), share(bytes, rates))
}

fn pools(valid: &ValidServing, ran: &Ran) -> Vec<Pool> {
    let whole = Window::whole(&ran.served.records, 0);
    let end = match valid.horizon {
        Horizon::Known(_) => ran.served.end,
        Horizon::Whole | Horizon::Fixed => whole.to,
    };
    let duration = end.saturating_sub(whole.from);
    let gib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 30);
    let one = |(index, pool): (usize, &ValidPool)| {
        let work = ran.work.get(index).copied();
        let alone = valid.pools.len() == 1;
        let passes = work.map_or(ran.served.pass_count, |work| work.passes);
        let busy = match work {
            Some(work) => work.busy,
            None if alone => ran.served.busy,
            None => Time::ZERO,
        };
        let engines = pool.engines.len() as u32;
        let time = duration.seconds() * f64::from(engines);
        let kv = pool.memory.and_then(|memory| memory.kv());
        let block_tokens = u64::from(valid.spec.engine.block_tokens());
        Pool {
            role: role(pool.role).to_owned(),
            engines,
            gpus_per_engine: pool.gpus(),
            layout: layout(&pool.parallel, &pool.shape),
            blocks: pool.blocks,
            kv_tokens: u64::from(pool.blocks) * block_tokens,
            weights_gib: pool.memory.map(|memory| gib(memory.weights)),
            kv_gib: kv.map(gib),
            other_gib: pool
                .memory
                .map(|memory| gib(memory.activations) + gib(memory.other)),
            passes,
            busy_share: if time > 0.0 {
                busy.seconds() / time
            } else {
                0.0
            },
            tokens_per_pass: work
                .map_or(0.0, |work| work.tokens as f64 / work.passes.max(1) as f64),
        }
    };
    valid.pools.iter().enumerate().map(one).collect()
}

const fn role(role: PoolRole) -> &'static str {
    match role {
        PoolRole::Both => "both",
        PoolRole::Prefill => "prefill",
        PoolRole::Decode => "decode",
    }
}

fn kv(valid: &ValidServing, served: &Served) -> KvUse {
    let bytes = valid.pools.first().map_or(0, |pool| {
        let copies = if super::pools::copies_kv(&pool.shape) {
            1
        } else {
            u64::from(pool.parallel.tp())
        };
        let stages = u64::from(pool.parallel.pp);
        pool.shape.kv_bytes_per_token() * copies * stages
    });
    let prompts: u64 = served
        .requests
        .iter()
        .map(|request| u64::from(request.input))
        .sum();
    let cached: u64 = served
        .records
        .iter()
        .map(|record| u64::from(record.cached))
        .sum();
    KvUse {
        block_tokens: valid.spec.engine.block_tokens(),
        bytes_per_token: bytes,
        peak_share: f64::from(served.peak_kv_permille) / 1e3,
        preemptions: served
            .records
            .iter()
            .map(|record| u64::from(record.preemptions))
            .sum(),
        hit_share: cached as f64 / prompts.max(1) as f64,
    }
}

/// What tiers below the GPUs' memory did.
fn tier_uses(valid: &ValidServing, served: &Served) -> Vec<TierUse> {
    let prompts: u64 = served.requests.iter().map(|r| u64::from(r.input)).sum();
    let specs = valid.spec.engine.tiers.iter().flat_map(|t| &t.levels);
    let one = |(spec, record): (&TierSpec, &TierRecord)| TierUse {
        tier: spec.name().to_owned(),
        reads: record.reads,
        hit_tokens: record.hits,
        hit_share: record.hits as f64 / prompts.max(1) as f64,
        recomputed_tokens: record.recomputed,
        read_bytes: record.read,
        written_bytes: record.written,
        given_up_blocks: record.given_up,
    };
    specs.zip(&served.tiers).map(one).collect()
}

/// What happened over time.
fn series(served: &Served) -> Vec<Sample> {
    let samples = served.passes.samples.iter().map(|most| Sample {
        at_s: most.begun.seconds(),
        running: most.decodes,
        waiting: most.waiting,
        kv_share: f64::from(most.kv_permille) / 1e3,
        ..Sample::default()
    });
    let mut samples: Vec<Sample> = samples.collect();
    let records = || served.records.iter();
    count(&mut samples, records().filter_map(|r| r.arrived), |s| {
        &mut s.offered_per_s
    });
    count(&mut samples, records().filter_map(|r| r.finished), |s| {
        &mut s.served_per_s
    });
    let end = served.end.seconds();
    let ends: Vec<f64> = samples
        .iter()
        .skip(1)
        .map(|s| s.at_s)
        .chain([end])
        .collect();
    for (sample, end) in samples.iter_mut().zip(ends) {
        let length = (end - sample.at_s).max(f64::MIN_POSITIVE);
        sample.offered_per_s /= length;
        sample.served_per_s /= length;
    }
    samples
}

/// Counts moments between samples.
fn count(
    samples: &mut [Sample],
    moments: impl Iterator<Item = Time>,
    of: impl Fn(&mut Sample) -> &mut f64,
) {
    for at in moments {
        let behind = samples.partition_point(|sample| sample.at_s <= at.seconds());
        if let Some(sample) = behind
            .checked_sub(1)
            .and_then(|place| samples.get_mut(place))
        {
            *of(sample) += 1.0;
        }
    }
}

/// What limits it, in a word or two: the largest part of the time to the first token, of what is more than the prompt.
fn limit(result: &ServingResult) -> String {
    let largest = result
        .ttft_parts
        .iter()
        .max_by(|a, b| a.us.total_cmp(&b.us));
    largest.map_or_else(String::new, |part| part.cause.clone())
}
