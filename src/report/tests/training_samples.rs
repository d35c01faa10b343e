//! Made-up results of jobs: a pipeline, a comparison, a failure.

use crate::Part;
use crate::training::{
    CheckpointUse, CollectiveUse, ComponentLoss, Culprit, Disturbance, GoodputUse, JobSpan,
    JobTimeline, MemoryPart, MemoryUse, RankUse, RestartUse, Share, ShareKind, SpanKind,
    StepResult, StorageLimit, StorageMove, TrainingOutcome, TrainingResult, best, difference,
};
use crate::{JobResult, Metrics, Summary, Variant};
use fabricsim_units::{Bytes, Time};

/// Kernels of a forward pass of a stage; those of a backward pass take twice as long.
const KERNELS: u64 = 4;
const KERNEL: Time = Time::from_micros(2500);
const HOP: Time = Time::from_micros(400);
const BUCKET: Time = Time::from_micros(7000);

/// Steps of a pipeline, one forward and one backward pass in turn, with buckets of gradients
/// reduced under the last backward pass.
pub(crate) struct Pipeline {
    stages: usize,
    micro_batches: usize,
    timeline: JobTimeline,
    /// When each stage is free.
    free: Vec<Time>,
    /// When each pass of each micro-batch ends, by stage: forward and backward.
    ends: [Vec<Vec<Option<Time>>>; 2],
}

impl Pipeline {
    pub(crate) fn timeline(stages: usize, micro_batches: usize, steps: u16) -> JobTimeline {
        let ranks = 0..stages as u32;
        let streams = [
            "compute",
            "tensor parallel",
            "data parallel",
            "forward in",
            "backward in",
        ];
        let mut pipeline = Pipeline {
            stages,
            micro_batches,
            timeline: JobTimeline {
                streams: streams.map(str::to_owned).to_vec(),
                ranks: ranks
                    .map(|stage| {
                        (
                            8 * stage,
                            format!("node{stage}/gpu0"),
                            format!("stage {stage}"),
                        )
                    })
                    .collect(),
                disturbances: vec![Disturbance {
                    what: "slow GPU, 0.8 ×".into(),
                    place: "node1/gpu0".into(),
                    from_s: 0.1,
                    to_s: None,
                }],
                ..JobTimeline::default()
            },
            free: vec![Time::ZERO; stages],
            ends: [Vec::new(), Vec::new()],
        };
        for step in 0..steps {
            pipeline.step(step);
        }
        pipeline.timeline.spans.sort_by_key(|span| span.end);
        pipeline.timeline
    }

    fn step(&mut self, step: u16) {
        let none = || vec![vec![None; self.micro_batches]; self.stages];
        self.ends = [none(), none()];
        let mut todo: Vec<Vec<(bool, usize)>> = (0..self.stages).map(|s| self.order(s)).collect();
        while todo.iter().any(|passes| !passes.is_empty()) {
            for (stage, passes) in todo.iter_mut().enumerate() {
                let done = passes
                    .iter()
                    .take_while(|(forward, batch)| self.pass(stage, *forward, *batch, step))
                    .count();
                passes.drain(..done);
            }
        }
        for stage in 0..self.stages {
            let start = self.free[stage] + BUCKET;
            self.span(
                stage,
                0,
                "optimiser",
                SpanKind::Optimiser,
                None,
                step,
                (start, start, start + KERNEL),
            );
            self.free[stage] = start + KERNEL;
        }
        let end = self.free.iter().copied().max().unwrap_or_default();
        self.free.fill(end);
        self.timeline.steps.push(end);
        self.timeline.end = end;
    }

    /// What a stage does in turn: as many forward passes as it takes to fill the pipeline, then
    /// one of each, then what is left.
    fn order(&self, stage: usize) -> Vec<(bool, usize)> {
        let ahead = (self.stages - stage - 1).min(self.micro_batches);
        let mut order: Vec<_> = (0..ahead).map(|batch| (true, batch)).collect();
        for batch in 0..self.micro_batches {
            if ahead + batch < self.micro_batches {
                order.push((true, ahead + batch));
            }
            order.push((false, batch));
        }
        order
    }

    /// Does a pass if what it needs is there.
    fn pass(&mut self, stage: usize, forward: bool, batch: usize, step: u16) -> bool {
        let came = match (forward, stage) {
            (true, 0) => Some(Time::ZERO),
            (true, _) => self.ends[0][stage - 1][batch],
            (false, _) if stage + 1 == self.stages => self.ends[0][stage][batch],
            (false, _) => self.ends[1][stage + 1][batch],
        };
        let Some(came) = came else { return false };
        let remote = came > Time::ZERO && (forward || stage + 1 < self.stages);
        let ready = self.free[stage];
        let came = if remote { came + HOP } else { came };
        let start = ready.max(came);
        if remote {
            let stream = if forward { 3 } else { 4 };
            let name = if forward {
                "activations"
            } else {
                "gradients of activations"
            };
            let waits = ready.min(came - HOP);
            let times = (waits, came - HOP, came);
            self.span(
                stage,
                stream,
                name,
                SpanKind::Communication,
                Some(batch),
                step,
                times,
            );
        }
        let (kind, kernel) = match forward {
            true => (SpanKind::Forward, KERNEL),
            false => (SpanKind::Backward, KERNEL + KERNEL),
        };
        let mut now = start;
        if !forward {
            let end = now + KERNEL;
            self.span(
                stage,
                0,
                "recompute",
                SpanKind::Recompute,
                Some(batch),
                step,
                (now, now, end),
            );
            now = end;
        }
        for index in 0..KERNELS {
            let name = if index % 2 == 0 { "attention" } else { "mlp" };
            self.span(
                stage,
                0,
                name,
                kind,
                Some(batch),
                step,
                (now, now, now + kernel),
            );
            now += kernel;
            let last = !forward && batch + 1 == self.micro_batches;
            if last {
                let start = now + Time::from_micros(900);
                let times = (now, start, start + Time::from_micros(3600));
                self.span(
                    stage,
                    2,
                    "all-reduce of gradients",
                    SpanKind::Communication,
                    None,
                    step,
                    times,
                );
            }
        }
        self.free[stage] = now;
        self.ends[usize::from(!forward)][stage][batch] = Some(now);
        true
    }

    #[allow(clippy::too_many_arguments, reason = "a sample, written at one place")]
    fn span(
        &mut self,
        stage: usize,
        stream: u8,
        what: &str,
        kind: SpanKind,
        batch: Option<usize>,
        step: u16,
        (ready, start, end): (Time, Time, Time),
    ) {
        self.timeline.spans.push(JobSpan {
            rank: stage as u32,
            stream,
            what: what.to_owned(),
            kind,
            bytes: Bytes::ZERO,
            communication: None,
            bucket: None,
            message: None,
            micro_batch: batch.map(|batch| batch as u16),
            chunk: 0,
            step,
            kernels: None,
            launched: (Time::ZERO, Time::ZERO),
            ready,
            came: start,
            start,
            end,
        });
    }
}

pub(crate) fn shares(parts: &[(&str, ShareKind, f64)]) -> Vec<Share> {
    let total: f64 = parts.iter().map(|(_, _, seconds)| seconds).sum();
    let share = |(what, kind, seconds): &(&str, ShareKind, f64)| Share {
        what: (*what).to_owned(),
        kind: *kind,
        stream: None,
        seconds: *seconds,
        share: seconds / total,
    };
    parts.iter().map(share).collect()
}

/// A step that takes `step_s` seconds of 2^20 tokens on sixteen GPUs.
pub(crate) fn result(step_s: f64) -> StepResult {
    let parts = [
        ("compute", ShareKind::Compute, 0.55 * step_s),
        (
            "exposed: tensor parallel",
            ShareKind::Exposed,
            0.08 * step_s,
        ),
        ("exposed: data parallel", ShareKind::Exposed, 0.05 * step_s),
        ("waiting: pipeline", ShareKind::Waiting, 0.24 * step_s),
        ("host", ShareKind::Host, 0.02 * step_s),
        ("idle", ShareKind::Idle, 0.06 * step_s),
    ];
    let time = shares(&parts.map(|(what, kind, seconds)| (what, kind, 2.0 * seconds)));
    let causes = [
        ("forward kernels", 0.55),
        ("NVLink (tensor parallel)", 0.13),
        ("pipeline bubble", 0.32),
    ];
    let picos = |share: f64| Time::from_picos((share * step_s * 1e12).round() as u64);
    let causes = causes.map(|(cause, share)| Part::new(cause, picos(share)));
    let rank = |stage: u32| RankUse {
        rank: 8 * stage,
        gpu: format!("node{stage}/gpu0"),
        part: format!("stage {stage}"),
        alike: 8,
        time: time.clone(),
    };
    StepResult {
        step_s,
        steps_s: vec![1.02 * step_s, step_s],
        tokens: 1 << 20,
        tokens_per_s: f64::from(1 << 20) / step_s,
        model_tflops_per_gpu: 1900.0 / step_s,
        mfu: 1900.0 / step_s / 989.0,
        hfu: 0.5,
        kernels: Vec::new(),
        flop_counts: Vec::new(),
        mfu_causal: 1800.0 / step_s / 989.0,
        dollars_per_million_tokens: None,
        ranks: vec![rank(0), rank(1)],
        time,
        causes: causes.to_vec(),
        exposed_communication: 0.13,
        bubble: 0.3,
        overlap: 0.62,
        collectives: vec![
            collective("pipeline 0→1", "activations", 24, 402.0, 398.0),
            collective(
                "data parallel",
                "all-reduce of gradients",
                8,
                7000.0,
                4100.0,
            ),
            collective(
                "tensor parallel",
                "all-reduce of activations",
                640,
                310.5,
                308.0,
            ),
        ],
        culprits: vec![Culprit {
            rank: 8,
            gpu: "node1/gpu0".into(),
            caused_s: 1.31,
            waited_s: 0.02,
            why: Some("slow GPU, 0.8 ×".into()),
        }],
        memory: MemoryUse {
            stage: 0,
            parts: vec![
                (MemoryPart::Parameters, Bytes::from_gib(16)),
                (MemoryPart::Gradients, Bytes::from_gib(16)),
                (MemoryPart::Optimizer, Bytes::from_gib(8)),
                (MemoryPart::Activations, Bytes::from_gib(21)),
            ],
            total: Bytes::from_gib(61),
            reserve: Bytes::ZERO,
            capacity: Bytes::from_gib(80),
            fits: true,
        },
        bucketing: None,
        prefetch: None,
        offload: None,
        data_loader: None,
        disturbances: vec![Disturbance {
            what: "slow GPU, 0.8 ×".into(),
            place: "node1/gpu0".into(),
            from_s: 0.1,
            to_s: None,
        }],
        events: 1_234_567,
        wall_ms: 3210.0,
        goodput: None,
    }
}

fn collective(group: &str, what: &str, count: u32, time_us: f64, alone_us: f64) -> CollectiveUse {
    CollectiveUse {
        group: group.to_owned(),
        ranks: if group.contains('→') { 2 } else { 8 },
        what: what.to_owned(),
        bytes: Bytes::from_mib(128),
        count,
        time_us,
        alone_us,
        busbw_gbs: 351.2,
        how: "ring simple".into(),
        sms: 16,
    }
}

pub(crate) fn variant(name: &str, layout: &str, outcome: TrainingOutcome) -> Variant {
    let result = TrainingResult {
        model: "llama-70b".into(),
        parameters: 70.6e9,
        layout: layout.to_owned(),
        schedule: "1F1B, 8 micro-batches, ZeRO-1".into(),
        kind: None,
        fault_prices: None,
        outcome,
    };
    Variant {
        name: name.to_owned(),
        topology: "dgx-h100".into(),
        topology_title: "2 × DGX H100, 400 Gb/s InfiniBand".into(),
        nodes: 2,
        gpus: 16,
        metrics: Metrics::of_training(&result, 16),
        differs: Vec::new(),
        no_effect: None,
        search: None,
        job: JobResult::Training(Box::new(result)),
    }
}

pub(crate) fn summary(variants: Vec<Variant>, answer: &str) -> Summary {
    let others = variants.iter().skip(1);
    let waterfall = others.filter_map(|other| difference(&variants[0], other));
    Summary {
        format: 2,
        baseline: (variants.len() > 1).then(|| variants[0].name.clone()),
        best: best(&variants, 0).map(|best| variants[best].name.clone()),
        waterfall: waterfall.collect(),
        version: "0.1.0".into(),
        seed: 1,
        title: "Training llama-70b on two DGX H100".into(),
        answer: answer.to_owned(),
        variants,
        warnings: vec!["the optimiser's time is that of its memory traffic".into()],
        spec: serde_json::json!({"job": {"model": "llama-70b"}}),
    }
}

fn moved(time_s: f64, limit: StorageLimit, link: &str) -> StorageMove {
    StorageMove {
        time_s,
        limit,
        link: link.into(),
    }
}

/// One variant: a pipeline of two stages.
pub(crate) fn pipeline() -> (Summary, JobTimeline) {
    let mut result = result(2.41);
    result.goodput = Some(GoodputUse {
        goodput: 0.931,
        p10: 0.918,
        p50: 0.932,
        p90: 0.944,
        components: vec![ComponentLoss {
            component: "leaf switch".into(),
            failures: 30.0,
            lost: 0.04,
            nodes: Some(18.0),
        }],
        restart: Some(RestartUse {
            processes_s: 112.0,
            communicators_s: 2.46,
            load_s: 3.0,
        }),
        checkpoint: Some(CheckpointUse {
            bytes: Bytes::new(1 << 40),
            writers: 16,
            devices: 1,
            blocked_s: 1.2,
            copy: Some(moved(1.2, StorageLimit::Host, "node0/gpu0 > node0/cpu0")),
            write: moved(84.6, StorageLimit::Storage, "server0/nic0 > server0/pool0"),
            read: moved(22.0, StorageLimit::Nic, "server0/nic0 > compute/leaf0"),
        }),
        interval_s: 2710.0,
        failures: 41.5,
        time: shares(&[
            ("steps", ShareKind::Compute, 931.0),
            ("checkpoints", ShareKind::Other, 22.0),
            ("lost work", ShareKind::Other, 35.0),
            ("restart", ShareKind::Other, 12.0),
        ]),
        intervals: vec![
            ("Young".into(), 2650.0, 0.93),
            ("Daly".into(), 2710.0, 0.931),
        ],
    });
    let ran = TrainingOutcome::Ran(Box::new(result));
    let variants = vec![variant("70b", "tp 8 · pp 2 · dp 1", ran)];
    let answer = "The pipeline's bubble costs most: 30 % of the time GPUs wait for other stages.";
    (summary(variants, answer), Pipeline::timeline(2, 8, 2))
}

/// Two that ran, the second the faster one, and one that failed.
pub(crate) fn comparison() -> Summary {
    let mut cheap = result(2.05);
    cheap.dollars_per_million_tokens = Some(0.412);
    cheap.bubble = 0.2;
    let mut slow = result(2.41);
    slow.memory.total = Bytes::from_gib(97);
    slow.memory.fits = false;
    slow.dollars_per_million_tokens = Some(0.484);
    let hung = "all-gather of weights: rank 3 (node0/gpu3) did not come within 600 s";
    let variants = vec![
        variant(
            "pp 2",
            "tp 8 · pp 2 · dp 1",
            TrainingOutcome::Ran(Box::new(slow)),
        ),
        variant(
            "pp 4, more",
            "tp 4 · pp 4 · dp 1",
            TrainingOutcome::Ran(Box::new(cheap)),
        ),
        variant(
            "PP 4: more!",
            "fsdp 16",
            TrainingOutcome::Failed(hung.into()),
        ),
    ];
    summary(
        variants,
        "`pp 4, more` is fastest: its bubble is shorter by a third.",
    )
}
