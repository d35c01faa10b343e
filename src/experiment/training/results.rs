//! What a job's execution comes down to, for the report.

use super::bubble::bubble;
use super::causes;
use super::kernels::{flop_counts, kernels};
use super::memory::{memory, prefetch_use};
use super::offload::{loader_use, offload_use};
use super::spans::Spans;
use super::valid::{ValidTraining, cluster};
use crate::ScenarioError;
use crate::refusal::{fault, refusal};
use fabricsim_budget::Budget;
use fabricsim_engine::job::{JobError, JobOutcome, Ledger, Rehearsed};
use fabricsim_fault::FaultError;
use fabricsim_fault::goodput::{self, Goodput, LongRunSpec};
use fabricsim_fault::published::Component;
use fabricsim_plan::job::{GroupRole, Job, StreamRole};
use fabricsim_report::training::{
    CollectiveUse, ComponentLoss, Culprit, Disturbance, GoodputUse, JobTimeline, RankUse,
    RestartUse, Share, ShareKind, StepResult, TrainingOutcome,
};
use fabricsim_units::{Span, Time};
use fabricsim_workload::model::ScoreCount;
use fabricsim_workload::model::flops::{
    hardware_flops_per_step, hardware_flops_utilisation, model_flops_per_step,
    model_flops_utilisation,
};
use fabricsim_workload::training::lower::Lowered;
use std::collections::BTreeMap;

pub(super) fn results(
    how: (u64, &Budget),
    variant: &ValidTraining,
    lowered: &Lowered,
    rehearsed: &[Rehearsed],
    outcome: &JobOutcome,
    spans: Spans<'_>,
) -> Result<(StepResult, JobTimeline), ScenarioError> {
    let training = &variant.training;
    let ends: Vec<f64> = outcome.steps.iter().map(|t| t.seconds()).collect();
    let steps_s: Vec<f64> = ends
        .iter()
        .enumerate()
        .map(|(i, end)| end - if i == 0 { 0.0 } else { ends[i - 1] })
        .collect();
    let step_s = variant.training.mean_step(&steps_s);
    let gpus = variant.gpus.len() as u32;
    let tokens = training.tokens();
    let batch = u64::from(training.spec.global_batch);
    let operations =
        |count| model_flops_per_step(&training.model, batch, training.batch.tokens, count);
    let flops = operations(ScoreCount::Full);
    let causal = operations(ScoreCount::Causal);
    let hardware = hardware_flops_per_step(
        &training.model,
        batch,
        training.batch.tokens,
        ScoreCount::Full,
        training.spec.recompute,
    );
    let peak = lowered.gpu.peak_of_precision;
    let tokens_per_s = tokens as f64 / step_s;
    let weights: Vec<f64> = lowered
        .job
        .actors
        .iter()
        .map(|a| f64::from(a.alike))
        .collect();
    let time = average(&lowered.job, &outcome.ledgers, &weights);
    let exposed = time.iter().filter(|s| s.kind == ShareKind::Exposed);
    let exposed: f64 = exposed.map(|s| s.share).sum();
    let seconds = |of: fn(&Ledger) -> &[Time]| -> f64 {
        let ledgers = outcome.ledgers.iter().zip(&weights);
        ledgers
            .map(|(l, w)| of(l).iter().map(|t| t.seconds()).sum::<f64>() * w)
            .sum()
    };
    let communication = seconds(|l| &l.communication);
    let exposed_seconds = seconds(|l| &l.exposed);
    let disturbances = disturbances(variant, outcome.end);
    let ranks = ranks(variant, lowered, outcome);
    let timeline = JobTimeline {
        steps: outcome.steps.clone(),
        disturbances: disturbances.clone(),
        end: outcome.end,
        ..spans.timeline(&ranks, variant.gpus.len())
    };
    let result = StepResult {
        step_s,
        steps_s,
        tokens,
        tokens_per_s,
        model_tflops_per_gpu: flops / step_s / f64::from(gpus) / 1e12,
        mfu: model_flops_utilisation(flops, step_s, u64::from(gpus), peak),
        hfu: hardware_flops_utilisation(hardware, step_s, u64::from(gpus), peak),
        mfu_causal: model_flops_utilisation(causal, step_s, u64::from(gpus), peak),
        dollars_per_million_tokens: variant
            .price
            .map(|p| p * f64::from(gpus) / 3600.0 / tokens_per_s * 1e6),
        exposed_communication: exposed.max(0.0),
        bubble: bubble(&lowered.job, &outcome.ledgers, &weights),
        overlap: if communication > 0.0 {
            (1.0 - exposed_seconds / communication).max(0.0)
        } else {
            1.0
        },
        time,
        causes: Vec::new(),
        collectives: collectives(lowered, outcome),
        culprits: culprits(variant, lowered, outcome),
        ranks,
        memory: memory(
            &variant.training,
            &variant.topology,
            &variant.gpus,
            &variant.env,
        )?,
        bucketing: training.chooses_bucketing().then_some(training.bucketing),
        prefetch: prefetch_use(training),
        offload: offload_use(variant, lowered, outcome)?,
        data_loader: loader_use(variant, lowered, outcome),
        disturbances,
        events: outcome.events + rehearsed.iter().map(|r| r.events).sum::<u64>(),
        wall_ms: 0.0,
        goodput: long_run(how, variant, step_s)?,
        kernels: kernels(variant, &lowered.gpu)?,
        flop_counts: flop_counts(training, [flops, causal, hardware], (step_s, gpus, peak)),
    };
    Ok((result, timeline))
}

/// A job that hung or timed out, with the GPUs of the ranks that are missing.
pub(super) fn failed(
    error: &JobError,
    variant: &ValidTraining,
    lowered: &Lowered,
) -> TrainingOutcome {
    let mut text = error.to_string();
    let missing = match error {
        JobError::Hangs { waiting, .. } => waiting.first().map(|w| w.missing.as_slice()),
        JobError::TimedOut { waiting, .. } => Some(waiting.missing.as_slice()),
        _ => None,
    };
    for &rank in missing.unwrap_or_default().iter().take(4) {
        let class = lowered.classes.of_rank.get(rank as usize);
        let alike = class.map_or(1, |&c| lowered.job.actors[c as usize].alike);
        let name = variant.topology.device_name(variant.gpus[rank as usize]);
        let others = match alike {
            1 => String::new(),
            n => format!(" (and {} like it)", n - 1),
        };
        text += &format!("\n  rank {rank} is on {name}{others}");
    }
    TrainingOutcome::Failed(text)
}

fn average(job: &Job, ledgers: &[Ledger], weights: &[f64]) -> Vec<Share> {
    let mut sums: BTreeMap<(ShareKind, &str), f64> = BTreeMap::new();
    for (ledger, weight) in ledgers.iter().zip(weights) {
        for (kind, stream, time) in parts(job, ledger) {
            let stream = stream.map_or("", StreamRole::name);
            *sums.entry((kind, stream)).or_default() += time.seconds() * weight;
        }
    }
    let ranks: f64 = weights.iter().sum();
    let all: f64 = sums.values().sum();
    sums.into_iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|((kind, stream), seconds)| Share {
            what: share_name(job, kind, stream),
            kind,
            stream: (!stream.is_empty()).then(|| stream.to_owned()),
            seconds: seconds / ranks,
            share: if all > 0.0 { seconds / all } else { 0.0 },
        })
        .collect()
}

/// Parts by kind and stream.
fn parts(job: &Job, ledger: &Ledger) -> Vec<(ShareKind, Option<StreamRole>, Time)> {
    let slowed: Time = ledger.slowed.iter().copied().sum();
    let mut parts = vec![
        (
            ShareKind::Compute,
            None,
            ledger.compute.saturating_sub(slowed),
        ),
        (ShareKind::Slowed, None, slowed),
        (ShareKind::Other, None, ledger.other),
        (ShareKind::Host, None, ledger.host),
        (ShareKind::Idle, None, ledger.idle),
    ];
    for (stream, &role) in job.streams.iter().enumerate() {
        parts.push((ShareKind::Exposed, Some(role), ledger.exposed[stream]));
        parts.push((ShareKind::Waiting, Some(role), ledger.waiting[stream]));
    }
    parts
}

fn share_name(job: &Job, kind: ShareKind, stream: &str) -> String {
    match kind {
        ShareKind::Compute => "compute".to_owned(),
        ShareKind::Slowed => causes::SLOWED.to_owned(),
        ShareKind::Exposed => format!("exposed: {stream}"),
        ShareKind::Waiting => format!("waiting: {stream}"),
        ShareKind::Host => "host".to_owned(),
        ShareKind::Idle => "idle".to_owned(),
        ShareKind::Other if job.streams.contains(&StreamRole::HostCompute) => {
            "the CPU, and delays".to_owned()
        }
        ShareKind::Other => "copies and delays".to_owned(),
    }
}

fn ranks(variant: &ValidTraining, lowered: &Lowered, outcome: &JobOutcome) -> Vec<RankUse> {
    let of = |(index, actor): (usize, &fabricsim_plan::job::Actor)| {
        let at = lowered.places.coordinates(actor.rank).unwrap_or_default();
        let dims = &variant.training.dims;
        let mut part = Vec::new();
        if dims.pp > 1 {
            part.push(format!("stage {}", at.pp));
        }
        if lowered.classes.ranks > dims.pp {
            for (name, size, own) in [
                ("tp", dims.tp, at.tp),
                ("cp", dims.cp, at.cp),
                ("dp", dims.dp, at.dp),
            ] {
                if size > 1 {
                    part.push(format!("{name} {own}"));
                }
            }
        }
        RankUse {
            rank: actor.rank,
            gpu: variant
                .topology
                .device_name(variant.gpus[actor.rank as usize]),
            part: part.join(", "),
            alike: actor.alike,
            time: average(&lowered.job, &outcome.ledgers[index..=index], &[1.0]),
        }
    };
    lowered.job.actors.iter().enumerate().map(of).collect()
}

fn collectives(lowered: &Lowered, outcome: &JobOutcome) -> Vec<CollectiveUse> {
    let job = &lowered.job;
    let mut found: BTreeMap<(String, String, u64, String), (CollectiveUse, u32)> = BTreeMap::new();
    for (group, traffic) in job.groups.iter().zip(&outcome.traffic) {
        for (exchange, done) in group.exchanges.iter().zip(traffic) {
            if done.count == 0 {
                continue;
            }
            let known = &job.exchanges[exchange.0 as usize];
            // All edges of a pipeline are one kind.
            let name = if group.role == GroupRole::Pipeline {
                "pipeline".to_owned()
            } else {
                group.name.clone()
            };
            let count = f64::from(done.count);
            let time_us = done.time.micros() / count;
            let bytes = known.bytes.get() as f64;
            let entry = CollectiveUse {
                group: name.clone(),
                ranks: group.ranks.len() as u32,
                what: known.name.clone(),
                bytes: known.bytes,
                count: done.count,
                time_us,
                alone_us: done.alone.micros() / count,
                busbw_gbs: if time_us > 0.0 {
                    bytes / time_us / 1e3 * known.bus_factor
                } else {
                    0.0
                },
                how: known.how.to_string(),
                sms: known.sms,
            };
            let key = (
                name,
                known.name.clone(),
                known.bytes.get(),
                known.how.to_string(),
            );
            match found.get_mut(&key) {
                None => {
                    found.insert(key, (entry, 1));
                }
                Some((sum, groups)) => {
                    // The mean over groups of a kind.
                    let n = f64::from(*groups);
                    let mean = |a: f64, b: f64| (a * n + b) / (n + 1.0);
                    sum.time_us = mean(sum.time_us, entry.time_us);
                    sum.alone_us = mean(sum.alone_us, entry.alone_us);
                    sum.busbw_gbs = mean(sum.busbw_gbs, entry.busbw_gbs);
                    sum.count = sum.count.max(entry.count);
                    *groups += 1;
                }
            }
        }
    }
    let mut list: Vec<CollectiveUse> = found.into_values().map(|(entry, _)| entry).collect();
    for entry in &mut list {
        entry.time_us = Time::round_micros(entry.time_us);
        entry.alone_us = Time::round_micros(entry.alone_us);
    }
    list.sort_by(|a, b| {
        let all = |c: &CollectiveUse| c.time_us * f64::from(c.count);
        all(b).total_cmp(&all(a))
    });
    list
}

/// Ranks that faults touch and that others waited for.
fn culprits(variant: &ValidTraining, lowered: &Lowered, outcome: &JobOutcome) -> Vec<Culprit> {
    let actors = &lowered.job.actors;
    let mut caused = vec![0.0; actors.len()];
    for (ledger, actor) in outcome.ledgers.iter().zip(actors) {
        for (&whom, time) in &ledger.waited_for {
            caused[whom.0 as usize] += time.seconds() * f64::from(actor.alike);
        }
    }
    let mut list: Vec<Culprit> = actors
        .iter()
        .enumerate()
        .filter(|(index, actor)| {
            caused[*index] > 0.0 && !variant.faults.is_plain(actor.rank as usize)
        })
        .map(|(index, actor)| {
            let speed = variant.faults.speed(actor.rank as usize, Time::ZERO);
            Culprit {
                rank: actor.rank,
                gpu: variant
                    .topology
                    .device_name(variant.gpus[actor.rank as usize]),
                caused_s: caused[index],
                waited_s: outcome.ledgers[index]
                    .waiting
                    .iter()
                    .map(|t| t.seconds())
                    .sum(),
                why: Some(if speed < 1.0 {
                    format!("slow GPU, {speed:.2} ×")
                } else {
                    "slow at times".to_owned()
                }),
            }
        })
        .collect();
    list.sort_by(|a, b| b.caused_s.total_cmp(&a.caused_s));
    list.truncate(10);
    list
}

fn disturbances(variant: &ValidTraining, end: Time) -> Vec<Disturbance> {
    let windows = variant.faults.windows(end).into_iter();
    windows
        .take(1000)
        .map(|w| Disturbance {
            what: w.what,
            place: w.place,
            from_s: w.from.seconds(),
            to_s: (w.to < end).then(|| w.to.seconds()),
        })
        .collect()
}

fn long_run(
    (seed, budget): (u64, &Budget),
    variant: &ValidTraining,
    step_s: f64,
) -> Result<Option<GoodputUse>, ScenarioError> {
    let Some(long) = &variant.long_run else {
        return Ok(None);
    };
    let step = Span::from_seconds(step_s);
    let mut cluster = cluster(&variant.topology, &variant.gpus, step);
    let storage = variant.checkpoint.as_ref();
    let storage = storage.map(|checkpoint| checkpoint.times(&variant.topology));
    let storage = storage.transpose().map_err(|error| {
        let path = "long_run.checkpoint.cost.storage";
        refusal(
            "long_run",
            vec![fault(path, error.to_string(), "less to write")],
        )
    })?;
    if let Some(storage) = &storage {
        cluster.storage = storage.times();
    }
    let mut spec = long.clone();
    let run = |spec: &LongRunSpec| -> Result<Goodput, ScenarioError> {
        goodput::goodput(&cluster, spec, seed, budget.threads)
            .map_err(|FaultError { problems }| refusal("long_run", problems))
    };
    let own = run(&spec)?;
    let components = component_losses((&cluster, &spec), &own, (seed, budget))?;
    let mut intervals = Vec::new();
    for (name, interval) in [
        ("Young", goodput::IntervalSpec::Young),
        ("Daly", goodput::IntervalSpec::Daly),
        ("best simulated", goodput::IntervalSpec::Best),
    ] {
        spec.checkpoint.interval = interval;
        let other = run(&spec)?;
        intervals.push((name.to_owned(), other.work.seconds(), other.mean));
    }
    let ledger = |pick: &dyn Fn(&goodput::Ledger) -> Span| {
        own.mean_of(|replica| pick(&replica.ledger).seconds())
    };
    let other = ShareKind::Other;
    let named: [(&str, ShareKind, f64); 6] = [
        (
            "steps that count",
            ShareKind::Compute,
            ledger(&|l| l.productive),
        ),
        ("checkpoints", other, ledger(&|l| l.checkpointing)),
        ("work that was lost", other, ledger(&|l| l.lost_work)),
        ("noticing failures", other, ledger(&|l| l.detection)),
        ("restarting", other, ledger(&|l| l.restart)),
        (
            "waiting for nodes",
            ShareKind::Waiting,
            ledger(&|l| l.waiting),
        ),
    ];
    let all: f64 = named.iter().map(|(_, _, s)| s).sum();
    Ok(Some(GoodputUse {
        goodput: own.mean,
        p10: own.quantile(0.1),
        p50: own.quantile(0.5),
        p90: own.quantile(0.9),
        components,
        checkpoint: storage.map(|storage| storage.told(own.blocked)),
        restart: own.restart.map(|parts| RestartUse {
            processes_s: parts.processes.seconds(),
            communicators_s: parts.communicators.seconds(),
            load_s: parts.load.seconds(),
        }),
        interval_s: own.work.seconds(),
        failures: own.mean_of(|replica| replica.failure_count() as f64),
        time: named
            .into_iter()
            .filter(|(_, _, s)| *s > 0.0)
            .map(|(what, kind, seconds)| Share {
                what: what.to_owned(),
                kind,
                stream: None,
                seconds,
                share: seconds / all,
            })
            .collect(),
        intervals,
    }))
}

/// What failures of each kind of part cost, what costs most first.
fn component_losses(
    (cluster, spec): (&goodput::Cluster, &LongRunSpec),
    own: &Goodput,
    (seed, budget): (u64, &Budget),
) -> Result<Vec<ComponentLoss>, ScenarioError> {
    let how = (own.interval, seed);
    let without = goodput::without_each(cluster, spec, how, budget.threads)
        .map_err(|FaultError { problems }| refusal("long_run", problems))?;
    let failures = |component: Component| {
        let place = Component::ALL.iter().position(|&known| known == component);
        own.mean_of(|replica| place.map_or(0.0, |place| replica.failures[place] as f64))
    };
    let mut losses: Vec<ComponentLoss> = without
        .into_iter()
        .map(|(component, mean)| ComponentLoss {
            component: component.label().to_owned(),
            failures: failures(component),
            lost: mean - own.mean,
            nodes: cluster.shared.nodes_stopped(component),
        })
        .collect();
    losses.sort_by(|a, b| b.lost.total_cmp(&a.lost));
    Ok(losses)
}
