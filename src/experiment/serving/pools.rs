//! Engines on the GPUs of the machine: how many, how each is divided, how much KV cache it has.

use super::valid::{ValidPool, gib};
use crate::refusal::fault;
use fabricsim_topology::hardware::GpuModel;
use fabricsim_topology::{DeviceId, EngineModel, Fault, Topology, processes, serving};
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::kernel::{DataType, Gemm, Kernel, KernelLaw, Skew};
use fabricsim_workload::model::{AttentionKind, ModelSpec};
use fabricsim_workload::serving::engine_shape::EngineShape;
use fabricsim_workload::serving::memory::{EngineMemory, engine_memory};
use fabricsim_workload::serving::policy::PolicyKind;
use fabricsim_workload::serving::request::Request;
use fabricsim_workload::serving::scheduler::Limits;
use fabricsim_workload::serving::spec::{
    PassTimeSpec, PoolRole, PoolSpec, ServingParallelSpec, ServingSpec,
};

/// What engines are chosen for.
pub(super) struct Chosen<'a> {
    pub(super) job: &'a ServingSpec,
    pub(super) model: &'a ModelSpec,
    pub(super) topology: &'a Topology,
    pub(super) gpus: &'a [DeviceId],
    pub(super) requests: &'a [Request],
}

/// Buffers of an engine's communicators on a GPU, as aiconfigurator has measured them with 2, 4 and 8
/// GPUs (`base_backend.py`: 342 to 392 MiB).
const BUFFERS: u64 = 392 << 20;

/// Blocks of an engine whose times are given and that has no memory to take them from.
const GIVEN_BLOCKS: u32 = 4096;

impl Chosen<'_> {
    fn gpu(&self) -> Option<&GpuModel> {
        self.topology.gpu_model(*self.gpus.first()?)
    }

    /// Whether passes are made of kernels.
    fn uses_kernels(&self) -> bool {
        matches!(self.job.engine.pass_time, PassTimeSpec::Kernels(_))
    }

    /// A warning, if the law of another generation stands in for the GPU's own.
    pub(super) fn guessed(&self) -> Option<String> {
        if !self.uses_kernels() {
            return None;
        }
        let gpu = self.gpu()?;
        let law = KernelLaw::new(gpu)?;
        let format = self.job.precision.weights;
        let product = Kernel::Gemm(Gemm {
            m: 1,
            n: self.model.hidden,
            k: self.model.hidden,
            weights: format,
            activations: format,
            quantise: false,
        });
        let from = law.borrowed(&product)?;
        Some(format!(
            "no profiles of kernels are known of {}: the law of {from} stands in, with this GPU's peaks",
            gpu.title
        ))
    }

    /// What an engine of this division is made of.
    fn shape(&self, parallel: &ServingParallelSpec, engine: &EngineModel) -> EngineShape {
        let job = self.job;
        let precision = &job.precision;
        let (tp, dp) = (u64::from(parallel.tp()), u64::from(parallel.attention_dp));
        let ep = match (parallel.ep, self.model.experts) {
            (Some(ep), Some(_)) => u64::from(ep),
            (None, Some(_)) if dp > 1 => tp * dp,
            _ => 1,
        };
        let host = |given: Option<Time>, own: Time| given.unwrap_or(own);
        let speculative = job.speculative.as_ref();
        EngineShape {
            model: self.model.clone(),
            weights: precision.weights,
            experts: precision.experts.unwrap_or(precision.weights),
            attention: precision.attention.unwrap_or(precision.weights),
            kv: precision.kv.attention(),
            tp,
            pp: u64::from(parallel.pp),
            attention_dp: dp,
            ep,
            skew: Skew::Even,
            host: (
                host(job.engine.host_per_pass, engine.per_pass.value),
                host(job.engine.host_per_sequence, engine.per_sequence.value),
            ),
            eager: host(job.engine.host_per_layer, engine.per_layer.value),
            has_graphs: job.engine.policy != PolicyKind::Static,
            graph_tokens: engine.graph_tokens.value,
            launch: job.engine.launch_share.unwrap_or(engine.launch_share.value),
            checked: speculative.map_or(1, |s| u64::from(s.tokens) + 1),
            draft: speculative.map_or(0.0, |s| s.draft_share),
        }
    }

    fn limits(&self, pool: &PoolSpec) -> Limits {
        let engine = &self.job.engine;
        Limits {
            token_budget: pool.token_budget.unwrap_or(engine.token_budget),
            max_sequences: pool.max_sequences.unwrap_or(engine.max_sequences),
            chunked_prefill: engine.chunked_prefill,
            guessed: self.job.speculative.as_ref().map_or(0, |s| s.tokens),
            gained: self
                .job
                .speculative
                .as_ref()
                .map_or(1.0, |s| Limits::gain(s.tokens, s.acceptance)),
        }
    }

    fn memory(&self, shape: &EngineShape, limits: &Limits) -> Option<EngineMemory> {
        let gpus = self.gpus.iter();
        let models = gpus.filter_map(|&gpu| self.topology.gpu_model(gpu));
        let capacity = models.map(|model| model.memory.value).min()?;
        let buffers = if shape.tp * shape.pp * shape.ep > 1 {
            BUFFERS
        } else {
            0
        };
        let other = Bytes::new(processes().taken().get() + buffers);
        let share = (capacity, self.job.engine.memory_share);
        Some(engine_memory(shape, limits, share, other))
    }

    /// The least tensor parallelism that leaves a quarter of the memory for keys and values; else the least that
    /// the weights fit with. Of those that divide the model's heads and for which there are GPUs, if there is one:
    /// each engine has no more than `most`.
    fn usual_tp(
        &self,
        parallel: &ServingParallelSpec,
        engine: &EngineModel,
        most: u32,
    ) -> Option<u32> {
        let roomy = |kv: Bytes, memory: &EngineMemory| kv.get() >= memory.share.get() / 4;
        self.least_tp((parallel, most), engine, roomy)
            .or_else(|| self.smallest_tp((parallel, most), engine))
            .or_else(|| self.smallest_tp((parallel, u32::MAX), engine))
    }

    /// The least tensor parallelism that the weights fit with, among those that divide the model's heads.
    fn smallest_tp(
        &self,
        parallel: (&ServingParallelSpec, u32),
        engine: &EngineModel,
    ) -> Option<u32> {
        self.least_tp(parallel, engine, |kv, _| kv > Bytes::ZERO)
    }

    /// The least tensor parallelism whose memory is good enough, of engines of so many GPUs at most.
    fn least_tp(
        &self,
        (parallel, most): (&ServingParallelSpec, u32),
        engine: &EngineModel,
        is_enough: impl Fn(Bytes, &EngineMemory) -> bool,
    ) -> Option<u32> {
        let limits = self.limits(&PoolSpec::default());
        let mut all = (0..10).map(|power| 1 << power);
        all.find(|&tp| {
            let parallel = ServingParallelSpec {
                tp: Some(tp),
                ..*parallel
            };
            if parallel.gpus() > most {
                return false;
            }
            let memory = self.memory(&self.shape(&parallel, engine), &limits);
            let fits = memory.and_then(|memory| Some((memory.kv()?, memory)));
            self.model.heads.is_multiple_of(u64::from(tp))
                && fits.is_some_and(|(kv, memory)| is_enough(kv, &memory))
        })
    }
}

/// The engines of all pools, one behind the other on the GPUs.
///
/// # Errors
/// Everything that is wrong with them.
pub(super) fn pools(chosen: &Chosen<'_>) -> Result<Vec<ValidPool>, Vec<Fault>> {
    let job = chosen.job;
    let engine = &serving().engines[job.engine.policy.name()];
    let mut faults = Vec::new();
    let asked: &[PoolSpec] = match job.pools.as_slice() {
        [] => &[PoolSpec::default()],
        asked => asked,
    };
    // Engines that are to be as many as fit are one at least.
    let engines: u32 = asked.iter().fold(0, |sum, spec| {
        sum.saturating_add(spec.replicas.unwrap_or(1))
    });
    let most = chosen.gpus.len() as u32 / engines.max(1);
    let resolved = asked.iter().map(|spec| PoolSpec {
        parallel: ServingParallelSpec {
            tp: spec
                .parallel
                .tp
                .or_else(|| chosen.usual_tp(&spec.parallel, engine, most)),
            ..spec.parallel
        },
        ..spec.clone()
    });
    let specs: Vec<PoolSpec> = resolved.collect();
    let specs = specs.as_slice();
    check_roles(specs, &mut faults);
    let mut free = chosen.gpus.len() as u32;
    let mut next = 0;
    let mut pools = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let at = |field: &str| format!("job.serving.pools[{index}].{field}");
        let before = faults.len();
        check_parallel(chosen, &spec.parallel, &at, &mut faults);
        if faults.len() > before {
            continue;
        }
        let each = spec.parallel.gpus();
        let last = index + 1 == specs.len();
        let replicas = spec.replicas.unwrap_or(if last { free / each } else { 1 });
        if replicas == 0 || replicas.saturating_mul(each) > free {
            let found = format!("{replicas} engines of {each} GPUs, where {free} are left");
            let expected = match free / each {
                0 => {
                    let more = format!("a machine with {} GPUs more", each.saturating_sub(free));
                    match chosen.smallest_tp((&spec.parallel, free), engine) {
                        Some(tp) => format!("`parallel.tp` {tp}, which fits, or {more}"),
                        None => more,
                    }
                }
                most => format!("1 to {most} engines"),
            };
            faults.push(fault(&at("replicas"), found, expected));
            continue;
        }
        free -= replicas * each;
        let shape = chosen.shape(&spec.parallel, engine);
        let limits = chosen.limits(spec);
        let Some((blocks, memory)) =
            blocks(chosen, (&spec.parallel, &shape, &limits), &at, &mut faults)
        else {
            continue;
        };
        let engines = (0..replicas).map(|_| {
            let ranks = (next..next + each).collect();
            next += each;
            ranks
        });
        pools.push(ValidPool {
            role: spec.role,
            parallel: spec.parallel,
            engines: engines.collect(),
            shape,
            limits,
            blocks,
            memory,
        });
    }
    if faults.is_empty() {
        check_requests(chosen, &pools, &mut faults);
    }
    if faults.is_empty() {
        Ok(pools)
    } else {
        Err(faults)
    }
}

/// Engines for prompts need others that generate, and the other way round.
fn check_roles(pools: &[PoolSpec], faults: &mut Vec<Fault>) {
    let has = |role| pools.iter().any(|pool| pool.role == role);
    let (prefill, decode) = (has(PoolRole::Prefill), has(PoolRole::Decode));
    if prefill != decode {
        let (there, missing) = match prefill {
            true => ("prefill", "decode"),
            false => ("decode", "prefill"),
        };
        let found = format!("engines of the role `{there}` and none of `{missing}`");
        faults.push(fault(
            "job.serving.pools",
            found,
            "both, or the role `both` alone",
        ));
    }
    if prefill && has(PoolRole::Both) {
        let found = "the role `both` beside `prefill` and `decode`".into();
        faults.push(fault(
            "job.serving.pools",
            found,
            "one way of serving in a job",
        ));
    }
}

fn check_parallel(
    chosen: &Chosen<'_>,
    parallel: &ServingParallelSpec,
    at: &dyn Fn(&str) -> String,
    faults: &mut Vec<Fault>,
) {
    let model = chosen.model;
    for (field, value) in [
        ("parallel.tp", parallel.tp()),
        ("parallel.pp", parallel.pp),
        ("parallel.attention_dp", parallel.attention_dp),
        ("parallel.ep", parallel.ep.unwrap_or(1)),
    ] {
        if value == 0 {
            faults.push(fault(&at(field), "0".into(), "1 or more"));
        }
    }
    let tp = u64::from(parallel.tp().max(1));
    if !model.heads.is_multiple_of(tp) {
        let divisors = (1..=model.heads).filter(|d| model.heads.is_multiple_of(*d));
        let divisors: Vec<String> = divisors.map(|d| d.to_string()).collect();
        let found = format!("{tp}, of {} heads", model.heads);
        let expected = format!("a divisor of them: {}", divisors.join(", "));
        faults.push(fault(&at("parallel.tp"), found, expected));
    }
    if u64::from(parallel.pp) > model.layers {
        let found = format!("{} stages of {} layers", parallel.pp, model.layers);
        faults.push(fault(
            &at("parallel.pp"),
            found,
            "no more stages than layers",
        ));
    }
    if let Some(ep) = parallel.ep
        && ep > 1
    {
        let gpus = parallel.tp().saturating_mul(parallel.attention_dp);
        match &model.experts {
            None => {
                let found = format!("{ep}, of a model without experts");
                faults.push(fault(&at("parallel.ep"), found, "none"));
            }
            Some(experts) if ep != gpus || u64::from(ep) > experts.count => {
                let found = format!(
                    "{ep}, of a stage of {gpus} GPUs and {} experts",
                    experts.count
                );
                let expected =
                    format!("1, or {gpus}: tp times attention_dp, and no more than experts");
                faults.push(fault(&at("parallel.ep"), found, expected));
            }
            Some(_) => {}
        }
    }
    if parallel.pp > 1 && parallel.attention_dp > 1 {
        let found = format!("{} parts and {} stages", parallel.attention_dp, parallel.pp);
        faults.push(fault(
            &at("parallel.attention_dp"),
            found,
            "one of both alone",
        ));
    }
}

/// Blocks of KV cache of a part of an engine, and the memory they are in.
fn blocks(
    chosen: &Chosen<'_>,
    (parallel, shape, limits): (&ServingParallelSpec, &EngineShape, &Limits),
    at: &dyn Fn(&str) -> String,
    faults: &mut Vec<Fault>,
) -> Option<(u32, Option<EngineMemory>)> {
    let engine = &chosen.job.engine;
    let needs_law = chosen.uses_kernels();
    if needs_law && chosen.gpu().and_then(KernelLaw::new).is_none() {
        let title = chosen.gpu().map_or("no GPU", |gpu| &gpu.title).to_owned();
        let expected = "a GPU of a generation from Ampere on whose number of SMs is known, or `engine.pass_time` \
             that is given";
        faults.push(fault("topology", title, expected));
        return None;
    }
    if let (Some(blocks), false) = (engine.num_gpu_blocks, needs_law) {
        return Some((blocks, None));
    }
    let memory = chosen.memory(shape, limits)?;
    let Some(kv) = memory.kv() else {
        if !needs_law {
            return Some((GIVEN_BLOCKS, None));
        }
        faults.push(too_large(chosen, parallel, &memory, at));
        return None;
    };
    let block = u64::from(engine.block_tokens()) * shape.kv_bytes_per_token();
    let by_memory = u32::try_from(kv.get() / block.max(1)).unwrap_or(u32::MAX / 2);
    let blocks = engine
        .num_gpu_blocks
        .unwrap_or(by_memory)
        .min(u32::MAX / 64);
    Some((blocks, Some(memory)))
}

/// Weights that do not fit: by how much, and what would do.
fn too_large(
    chosen: &Chosen<'_>,
    parallel: &ServingParallelSpec,
    memory: &EngineMemory,
    at: &dyn Fn(&str) -> String,
) -> Fault {
    let engine = &serving().engines[chosen.job.engine.policy.name()];
    let taken = memory.weights.get() + memory.activations.get() + memory.other.get();
    let over = Bytes::new(taken - memory.share.get());
    let found = format!(
        "{} of weights, {} of activations and {} of buffers and context on a GPU: {} more than the {} that an \
         engine takes of it",
        gib(memory.weights),
        gib(memory.activations),
        gib(memory.other),
        gib(over),
        gib(memory.share)
    );
    let expected = match chosen.smallest_tp((parallel, u32::MAX), engine) {
        Some(tp) => format!("tp {tp} or more"),
        None => "weights of fewer bytes (`precision.weights`), or GPUs with more memory".to_owned(),
    };
    fault(&at("parallel.tp"), found, expected)
}

/// At least one request fits the KV cache.
fn check_requests(chosen: &Chosen<'_>, pools: &[ValidPool], faults: &mut Vec<Fault>) {
    let block_tokens = chosen.job.engine.block_tokens();
    for (index, pool) in pools.iter().enumerate() {
        let tokens = |request: &Request| match pool.role {
            PoolRole::Prefill => u64::from(request.input),
            PoolRole::Both | PoolRole::Decode => {
                u64::from(request.input) + u64::from(request.output) - 1
            }
        };
        let holds = u64::from(pool.blocks) * u64::from(block_tokens);
        let least = chosen.requests.iter().map(tokens).min().unwrap_or(0);
        if least > holds {
            let found = format!(
                "a KV cache of {} blocks, which hold {holds} tokens; the smallest request has {least}",
                pool.blocks
            );
            let expected = "more GPUs for an engine (`parallel.tp`), a larger `engine.memory_share` or \
                 `engine.num_gpu_blocks`, or shorter requests";
            let at = format!("job.serving.pools[{index}]");
            faults.push(fault(&at, found, expected));
        }
    }
}

/// How a pool's engines are divided, for people.
pub(super) fn layout(parallel: &ServingParallelSpec, shape: &EngineShape) -> String {
    let mut parts = vec![format!("tp {}", parallel.tp())];
    for (name, value) in [
        ("pp", u64::from(parallel.pp)),
        ("attention dp", u64::from(parallel.attention_dp)),
        ("ep", shape.ep),
    ] {
        if value > 1 {
            parts.push(format!("{name} {value}"));
        }
    }
    parts.join(" · ")
}

/// Whether keys and values are the same on all GPUs of tensor parallelism.
pub(super) fn copies_kv(shape: &EngineShape) -> bool {
    matches!(shape.model.attention, AttentionKind::Mla(_)) || shape.tp > shape.model.kv_heads()
}

/// Bytes of an element, for peaks.
pub(super) fn peak(gpu: &GpuModel, weights: DataType) -> f64 {
    let bf16 = gpu.bf16_tflops.value;
    let fp8 = gpu.fp8_tflops.as_ref().map_or(bf16, |peak| peak.value);
    let fp4 = gpu.fp4_tflops.as_ref().map_or(fp8, |peak| peak.value);
    1e12 * match weights {
        DataType::Bf16 | DataType::Int4 | DataType::Mxfp4 => bf16,
        DataType::Fp8 | DataType::Fp8Block | DataType::Int8 => fp8,
        DataType::Nvfp4 => fp4,
    }
}
