//! A cluster of a search: a machine with a number of GPUs and a network, and the layouts on it.

use super::ask::{Ask, Size};
use super::bounds::CollectiveBounds;
use super::budget::{Running, over};
use super::space::{Space, layout_of, scenario_with};
use crate::compare::nvlink_domain;
use crate::error::ScenarioError;
use crate::read::{Scenario, changed};
use crate::refusal::refusal;
use crate::run::run;
use crate::site::{At, Machines, Site, environment};
use crate::spec::TopologyRef;
use crate::sweep::with_values;
use crate::training::memory;
use crate::valid::validate_on;
use crate::watch::Silent;
use fabricsim_budget::Budget;
use fabricsim_report::optimize::{Cluster, Reason, Rejected};
use fabricsim_report::training::MemoryUse;
use fabricsim_report::{Outputs, Summary};
use fabricsim_topology::DeviceId;
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::model::flops::{ScoreCount, model_flops_per_token};
use fabricsim_workload::model::presets;
use fabricsim_workload::training::bound::step_bound;
use fabricsim_workload::training::host_memory::host_use;
use fabricsim_workload::training::resolve::{Training, TrainingError};
use fabricsim_workload::training::spec::{ModelRef, Precision, TrainingSpec};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A scenario without its own size and variants, and what puts it on so many GPUs of a machine.
pub(super) fn sized(
    scenario: &Scenario,
    (machine, size): (&TopologyRef, Size),
) -> (Value, Vec<(String, Value)>) {
    let mut json = scenario.json.clone();
    if let Value::Object(map) = &mut json {
        for field in ["variants", "baseline", "nodes", "gpus_per_node"] {
            map.remove(field);
        }
    }
    let size = match size {
        Size::Gpus(gpus) => ("gpus".to_owned(), json!(gpus)),
        Size::Nodes(nodes) => ("nodes".to_owned(), json!(nodes)),
    };
    (json, vec![("topology".to_owned(), json!(machine)), size])
}

/// A training job that is searched, and where its relative paths start.
#[derive(Clone, Copy)]
pub(super) struct Searched<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) job: &'a TrainingSpec,
    pub(super) folder: &'a Path,
}

/// A layout that divides, before it is simulated.
pub(super) struct Candidate {
    pub(super) job: TrainingSpec,
    pub(super) bound: Time,
    pub(super) memory: MemoryUse,
    /// Whose memory is too small, if one is.
    pub(super) lacks: Option<Reason>,
}

/// A machine with the GPUs and the network of a search.
pub(super) struct Ground {
    /// The scenario on this machine.
    scenario: Value,
    origin: String,
    folder: PathBuf,
    pub(super) job: TrainingSpec,
    sequence: u64,
    /// Of the weights alone: attention may see only a part of a sequence.
    flops_per_token: f64,
    pub(super) site: Site,
    pub(super) space: Space,
    pub(super) oversubscription: Option<f64>,
    pub(super) running: Running,
}

impl Ground {
    /// So many GPUs of a machine, whose leaves have the ratio if one is given.
    pub(super) fn new(
        searched: Searched<'_>,
        (machine, size, oversubscription): (&TopologyRef, Size, Option<f64>),
        ask: Ask<'_>,
        machines: &Machines,
    ) -> Result<Self, ScenarioError> {
        let Searched {
            scenario,
            job,
            folder,
        } = searched;
        let origin = scenario.origin.clone();
        let (json, mut set) = sized(scenario, (machine, size));
        set.extend(oversubscription.map(|ratio| ("oversubscription".to_owned(), json!(ratio))));
        let own = with_values(&json, &origin, &set, (folder, machines))?;
        let mut faults = Vec::new();
        let mut env = environment(&own.spec, None, (folder, &origin), &mut faults)?;
        crate::refusal::refuse(&origin, faults)?;
        env.ranks_per_process = own.spec.ranks_per_process.unwrap_or(1);
        let at = At {
            folder,
            origin: &origin,
            machines,
        };
        let site = at.machines.of(&own.spec, folder, &origin)?;
        let site = site.with(&own.spec, env, &origin)?;
        let model = match &job.model {
            ModelRef::Preset(name) => {
                let preset = presets::find(name).map_err(TrainingError::Model)?;
                preset.model.clone()
            }
            ModelRef::Shape(shape) => shape.as_ref().clone(),
        };
        let sequence = job.sequence.unwrap_or(model.sequence);
        let joined = nvlink_domain(&site.topology).unwrap_or(1);
        let gpus = site.gpus.len() as u32;
        let mut space = Space::of(&model, sequence, (gpus, joined));
        for axis in ask.over {
            space
                .restrict(axis)
                .map_err(|fault| refusal(&origin, vec![fault]))?;
        }
        space
            .check_size()
            .map_err(|fault| refusal(&origin, vec![fault]))?;
        let running = Running::of(&own.spec, &origin, (&site.topology, &site.gpus))?;
        Ok(Ground {
            scenario: own.json,
            origin,
            folder: folder.to_owned(),
            job: job.clone(),
            sequence,
            flops_per_token: model_flops_per_token(&model, 0, ScoreCount::Causal),
            site,
            space,
            oversubscription,
            running,
        })
    }

    pub(super) fn gpus(&self) -> u32 {
        self.site.gpus.len() as u32
    }

    /// Tokens that every layout trains on in a step.
    pub(super) fn tokens_per_step(&self) -> u64 {
        u64::from(self.job.global_batch) * self.sequence
    }

    /// A time that no step is below, whatever the layout: all GPUs multiply at their peaks.
    pub(super) fn least_step(&self) -> Time {
        let topology = &self.site.topology;
        let models = self
            .site
            .gpus
            .iter()
            .filter_map(|&gpu| topology.gpu_model(gpu));
        let peak: f64 = models
            .map(|model| {
                let fp8 = model.fp8_tflops.as_ref().map_or(0.0, |fp8| fp8.value);
                let peak = match self.job.precision {
                    Precision::Bf16 => model.bf16_tflops.value,
                    Precision::Fp8 => fp8.max(model.bf16_tflops.value),
                };
                let sustained = model.sustained.as_ref().map_or(1.0, |share| share.value);
                peak * 1e12 * sustained.max(1.0)
            })
            .sum();
        match peak > 0.0 {
            true => {
                let seconds = self.tokens_per_step() as f64 * self.flops_per_token / peak;
                Time::from_picos((seconds * 1e12) as u64)
            }
            false => Time::ZERO,
        }
    }

    /// What is known of it before anything is simulated, and which limits it is above.
    ///
    /// # Errors
    /// A limit on what is not known of this machine.
    pub(super) fn cluster(&self, ask: Ask<'_>) -> Result<Cluster, ScenarioError> {
        let over = over(
            &self.running,
            ask.limits,
            (&self.site.topology, &self.origin),
        )?;
        Ok(Cluster {
            topology: self.site.topology.name.clone(),
            nodes: self.site.topology.nodes.len() as u32,
            gpus: self.gpus(),
            oversubscription: self.oversubscription,
            kw: self.running.kw,
            usd_per_hour: self.running.usd_per_hour,
            network_usd: self.running.network_usd,
            why: (!over.is_empty()).then_some(Reason::Budget),
            over,
            layout: None,
            metrics: None,
        })
    }

    /// Whether any layout divides the job on these GPUs.
    pub(super) fn divides(&self) -> bool {
        (0..self.space.size()).any(|place| {
            let job = self.space.job(&self.job, place);
            job.is_ok_and(|job| Training::new(&job, self.gpus()).is_ok())
        })
    }

    /// The memory of a job on these GPUs.
    pub(super) fn memory(&self, training: &Training) -> Result<MemoryUse, ScenarioError> {
        memory(
            training,
            &self.site.topology,
            &self.site.gpus,
            &self.site.env,
        )
    }

    /// A layout of the space.
    pub(super) fn candidate(
        &self,
        place: u64,
        collectives: &CollectiveBounds<'_>,
    ) -> Result<Result<Candidate, Reason>, ScenarioError> {
        let job = match self.space.job(&self.job, place) {
            Ok(job) => job,
            Err(reason) => return Ok(Err(reason)),
        };
        let Ok(training) = Training::new(&job, self.gpus()) else {
            return Ok(Err(Reason::Division));
        };
        self.looked_at(&training, collectives).map(Ok)
    }

    /// A job's memory and bound.
    fn looked_at(
        &self,
        training: &Training,
        collectives: &CollectiveBounds<'_>,
    ) -> Result<Candidate, ScenarioError> {
        let memory = self.memory(training)?;
        let of = |group: &[DeviceId], collective, bytes| collectives.of(group, collective, bytes);
        let machine = (&*self.site.topology, self.site.gpus.as_slice());
        let bound = step_bound(training, machine, &of)?;
        let lacks = match memory.fits {
            false => Some(Reason::Memory),
            true if training.outside().is_none() => None,
            true => host_use(training, machine)
                .err()
                .map(|_| Reason::HostMemory),
        };
        Ok(Candidate {
            job: training.spec.clone(),
            bound,
            memory,
            lacks,
        })
    }

    /// The same layout with buckets of other sizes.
    pub(super) fn other_buckets(
        &self,
        job: &TrainingSpec,
        collectives: &CollectiveBounds<'_>,
    ) -> Result<Vec<Candidate>, ScenarioError> {
        let Ok(training) = Training::new(job, self.gpus()) else {
            return Ok(Vec::new());
        };
        let others = self.space.other_buckets(&training).into_iter();
        let trainings = others.filter_map(|job| Training::new(&job, self.gpus()).ok());
        let looked = trainings.map(|training| self.looked_at(&training, collectives));
        looked.collect()
    }

    /// A layout that is none of the answers.
    pub(super) fn rejected(&self, candidate: &Candidate, why: Reason) -> Rejected {
        let gib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 30);
        let memory = (why == Reason::Memory).then_some(&candidate.memory);
        Rejected {
            topology: self.site.topology.name.clone(),
            gpus: self.gpus(),
            oversubscription: self.oversubscription,
            layout: Some(layout_of(&candidate.job, &self.job, self.gpus())),
            why,
            memory_gib: memory.map(|memory| gib(memory.need())),
            memory_capacity_gib: memory.map(|memory| gib(memory.capacity)),
            step_bound_us: Some(candidate.bound.micros()),
        }
    }

    /// The scenario of a layout, and what running it gives.
    pub(super) fn simulate(
        &self,
        candidate: &Candidate,
        (budget, machines): (&Budget, &Machines),
    ) -> Result<(Value, Summary), ScenarioError> {
        let json = scenario_with(&self.scenario, &candidate.job);
        let scenario = changed(&json, &self.origin, "layout", &BTreeMap::new())?;
        let experiment = validate_on(machines, scenario, &self.folder)?;
        let results = run(&experiment, budget, &Outputs::of([]), &mut Silent)?;
        Ok((json, results.summary))
    }
}
