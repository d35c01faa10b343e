//! A serving job whose every part has been checked, ready to run.

use super::horizon::{Horizon, horizon};
use super::pools::{Chosen, pools};
use super::{requests, tiers};
use crate::error::ScenarioError;
use crate::fallback::fallen;
use crate::refusal::{fault, refusal, refuse};
use crate::site::{At, Site, site};
use crate::spec::ScenarioSpec;
use fabricsim_fault::Faults;
use fabricsim_nccl::Env;
use fabricsim_topology::{DeviceId, Fault, Topology};
use fabricsim_units::Bytes;
use fabricsim_workload::model::{ModelSpec, presets};
use fabricsim_workload::serving::engine_shape::EngineShape;
use fabricsim_workload::serving::memory::EngineMemory;
use fabricsim_workload::serving::request::Request;
use fabricsim_workload::serving::scheduler::Limits;
use fabricsim_workload::serving::spec::{PassTimeSpec, PoolRole, ServingParallelSpec, ServingSpec};
use fabricsim_workload::training::spec::ModelRef;
use std::path::Path;
use std::sync::Arc;

/// A checked serving job.
#[derive(Debug, Clone)]
pub struct ValidServing {
    /// The machine.
    pub topology: Arc<Topology>,
    /// What is odd about it, and about NCCL's variables.
    pub warnings: Vec<String>,
    /// Of a machine from a file of another program: what was assumed.
    pub notes: Vec<String>,
    /// The GPU of each rank.
    pub gpus: Vec<DeviceId>,
    /// What the scenario says.
    pub spec: ServingSpec,
    /// The model's name.
    pub model_name: String,
    /// The engines.
    pub pools: Vec<ValidPool>,
    /// The requests, in order of arrival; of a load without end the first ones.
    pub requests: Vec<Request>,
    /// How long it goes on.
    pub horizon: Horizon,
    /// It is enough to know whether that part of requests keeps the limits on times, or, without such, whether engines
    /// keep up.
    pub decides: Option<f64>,
    /// The seed of what is drawn.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
    /// NCCL's variables.
    pub env: Env,
}

/// Engines that are alike.
#[derive(Debug, Clone)]
pub struct ValidPool {
    /// What they are for.
    pub role: PoolRole,
    /// How each is divided.
    pub parallel: ServingParallelSpec,
    /// The ranks of each, in order: stage by stage, of each stage part by part.
    pub engines: Vec<Vec<u32>>,
    /// What each is made of.
    pub shape: EngineShape,
    /// What it lets into a pass.
    pub limits: Limits,
    /// Blocks of KV cache of each part.
    pub blocks: u32,
    /// The memory of a GPU; nothing where blocks and times are given.
    pub memory: Option<EngineMemory>,
}

impl ValidPool {
    /// GPUs of an engine.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.parallel.gpus()
    }
}

/// Checks a serving job and builds its machine.
///
/// # Errors
/// Everything that is wrong with the values of its scenario, or with its topology.
pub(crate) fn serving(
    spec: &ScenarioSpec,
    job: &ServingSpec,
    at: At<'_>,
) -> Result<ValidServing, ScenarioError> {
    let At { folder, origin, .. } = at;
    serving_on(spec, (job, true), site(spec, at)?, (folder, origin))
}

/// Checks a serving job on GPUs of a machine, alone there or beside others.
///
/// # Errors
/// Everything that is wrong with its values.
pub(crate) fn serving_on(
    spec: &ScenarioSpec,
    (job, is_alone): (&ServingSpec, bool),
    site: Site,
    (folder, origin): (&Path, &str),
) -> Result<ValidServing, ScenarioError> {
    let mut faults = Vec::new();
    check(spec, job, &mut faults);
    refuse(origin, faults)?;
    let (model, model_name) = model(&job.model, origin)?;
    let mut warnings = site.warnings.clone();
    let drawn = (spec.seed, is_alone);
    let requests = requests::requests(job, drawn, (folder, origin), &mut warnings)?;
    let Site { topology, gpus, .. } = &site;
    let chosen = Chosen {
        job,
        model: &model,
        topology,
        gpus,
        requests: &requests,
    };
    let pools = pools(&chosen).map_err(|faults| refusal(origin, faults))?;
    let horizon = horizon(job, is_alone);
    let is_endless = matches!(horizon, Horizon::Known(_));
    if !is_endless && job.warm_up as usize >= requests.len() {
        let found = format!("{} of {} requests", job.warm_up, requests.len());
        let wrong = fault("job.serving.warm_up", found, "fewer than there are");
        return Err(refusal(origin, vec![wrong]));
    }
    if let Some(unknown) = chosen.guessed() {
        warnings.push(unknown);
    }
    Ok(ValidServing {
        notes: site.notes,
        topology: site.topology,
        gpus: site.gpus,
        env: fallen(&site.env, &site.faults).into_owned(),
        faults: site.faults,
        spec: job.clone(),
        model_name,
        pools,
        requests,
        horizon,
        decides: None,
        seed: spec.seed,
        warnings,
    })
}

/// What can be said of the job without its machine.
fn check(spec: &ScenarioSpec, job: &ServingSpec, faults: &mut Vec<Fault>) {
    requests::check(job, faults);
    tiers::check(&job.engine, faults);
    let at = |field: &str| format!("job.serving.{field}");
    let engine = &job.engine;
    for (field, value) in [
        ("engine.token_budget", Some(engine.token_budget)),
        ("engine.max_sequences", Some(engine.max_sequences)),
        ("engine.block_tokens", engine.block_tokens),
        ("engine.num_gpu_blocks", engine.num_gpu_blocks),
    ] {
        if value.is_some_and(|value| value == 0 || value > 1 << 30) {
            let found = value.unwrap_or(0).to_string();
            faults.push(fault(&at(field), found, "a number from 1 to 1073741824"));
        }
    }
    if !(engine.memory_share > 0.0 && engine.memory_share <= 1.0) {
        let found = engine.memory_share.to_string();
        faults.push(fault(
            &at("engine.memory_share"),
            found,
            "a part, above 0 and at most 1",
        ));
    }
    if let Some(share) = engine.launch_share.filter(|s| !(0.0..=1.0).contains(s)) {
        let expected = "a part, from 0 to 1";
        faults.push(fault(
            &at("engine.launch_share"),
            share.to_string(),
            expected,
        ));
    }
    if let PassTimeSpec::Polynomial(of) = &engine.pass_time {
        let all = of.prefill.iter().chain(&of.decode).chain([&of.decode_min]);
        if all.clone().any(|c| !c.is_finite()) {
            let wrong = "a coefficient that is no number".into();
            faults.push(fault(
                &at("engine.pass_time.polynomial"),
                wrong,
                "milliseconds",
            ));
        }
    }
    if spec.long_run.is_some() {
        let found = "a long run of a serving job".into();
        faults.push(fault(
            "long_run",
            found,
            "none: a long run is of one training job",
        ));
    }
    if let Some(speculative) = &job.speculative {
        if !(1..=16).contains(&speculative.tokens) {
            let found = speculative.tokens.to_string();
            faults.push(fault(&at("speculative.tokens"), found, "1 to 16 tokens"));
        }
        if !(0.0..=1.0).contains(&speculative.acceptance) {
            let found = speculative.acceptance.to_string();
            faults.push(fault(
                &at("speculative.acceptance"),
                found,
                "a chance, 0 to 1",
            ));
        }
        if !(0.0..=1.0).contains(&speculative.draft_share) {
            let found = speculative.draft_share.to_string();
            faults.push(fault(
                &at("speculative.draft_share"),
                found,
                "a part, 0 to 1",
            ));
        }
    }
}

/// The model, and what it is called.
fn model(model: &ModelRef, origin: &str) -> Result<(ModelSpec, String), ScenarioError> {
    let at = |error: fabricsim_workload::model::ModelError| {
        let found = error.to_string();
        refusal(
            origin,
            vec![fault(
                "job.serving.model",
                found,
                "a shipped model, or a shape that can be",
            )],
        )
    };
    match model {
        ModelRef::Preset(name) => {
            let preset = presets::find(name).map_err(at)?;
            Ok((preset.model.clone(), preset.name.clone()))
        }
        ModelRef::Shape(shape) => {
            shape.check().map_err(at)?;
            Ok(((**shape).clone(), "a model of its own".to_owned()))
        }
    }
}

/// Bytes as people read them.
pub(super) fn gib(bytes: Bytes) -> String {
    format!("{:.1} GiB", bytes.get() as f64 / f64::from(1 << 30))
}
