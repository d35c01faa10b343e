//! What is searched: values of each knob of a layout, and the jobs that they make.

use crate::refusal::fault;
use crate::sweep::AxisSpec;
use fabricsim_report::optimize::{Layout, OffloadedStates, Reason};
use fabricsim_topology::Fault;
use fabricsim_topology::error::nearest;
use fabricsim_units::Bytes;
use fabricsim_workload::model::kernel::AttentionKernel;
use fabricsim_workload::model::{ModelSpec, Recompute};
use fabricsim_workload::training::offload::{OffloadDevice, OffloadSpec};
use fabricsim_workload::training::resolve::Training;
use fabricsim_workload::training::spec::{
    DataParallelSpec, DdpSpec, FsdpSpec, TrainingSpec, ZeroSpec,
};
use serde_json::{Value, json};

/// A knob of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// Ranks that share each layer.
    Tp,
    /// Ranks that share each sequence.
    Cp,
    /// Ranks that share the experts.
    Ep,
    /// Stages of the pipeline.
    Pp,
    /// Virtual stages on each GPU.
    VirtualStages,
    /// Sequences of a micro-batch.
    MicroBatch,
    /// What is computed again.
    Recompute,
    /// How replicas are kept equal.
    Sharding,
    /// What a bucket of gradients holds, of `ddp` and `zero`.
    Bucket,
    /// Which states are in the host's memory.
    Offload,
}

const KNOBS: [(Knob, &str); 10] = [
    (Knob::Tp, "tp"),
    (Knob::Cp, "cp"),
    (Knob::Ep, "ep"),
    (Knob::Pp, "pp"),
    (Knob::VirtualStages, "virtual_stages"),
    (Knob::MicroBatch, "micro_batch"),
    (Knob::Recompute, "recompute"),
    (Knob::Sharding, "sharding"),
    (Knob::Bucket, "bucket"),
    (Knob::Offload, "offload"),
];

impl Knob {
    /// Whether it can have a value, on some job.
    fn reads(self, value: &Value) -> bool {
        let named = || {
            value
                .as_str()
                .is_some_and(|name| self.names().contains(&name))
        };
        match self {
            Knob::Recompute => serde_json::from_value::<Recompute>(value.clone()).is_ok(),
            Knob::Sharding => named(),
            Knob::Offload => value.is_null() || named(),
            Knob::Bucket => {
                value.is_null() || serde_json::from_value::<Bytes>(value.clone()).is_ok()
            }
            _ => number(value).is_some_and(|number| number > 0),
        }
    }

    /// The words that are values of it.
    fn names(self) -> &'static [&'static str] {
        match self {
            Knob::Recompute => &["none", "selective", "full", "sqrt"],
            Knob::Sharding => &SHARDINGS,
            Knob::Offload => &OFFLOADS,
            _ => &[],
        }
    }

    /// What values it has, for people.
    fn expected(self) -> String {
        match self {
            Knob::Recompute => format!(
                "{}, or an object, as in a scenario",
                self.names().join(", ")
            ),
            Knob::Sharding | Knob::Offload => self.names().join(", "),
            Knob::Bucket => "sizes such as 25MiB".to_owned(),
            _ => "numbers from 1 on".to_owned(),
        }
    }
}

/// A number of ranks, stages or sequences.
fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok())
}

/// How replicas are kept equal.
const SHARDINGS: [&str; 4] = ["ddp", "zero", "fsdp", "single_process"];

/// The values of each knob.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    values: [Vec<Value>; 10],
    /// Nobody has asked for buckets of certain sizes.
    any_bucket: bool,
}

/// Sequences from here on are worth sharing between GPUs.
const LONG: u64 = 16_384;

/// Micro-batches of more sequences are not searched by default.
const MAX_SEQUENCES: u32 = 8;

/// So many layouts of a machine are looked at, at most.
const MAX_LAYOUTS: u64 = 1_000_000;

/// More virtual stages than these are not searched by default.
const MAX_VIRTUAL: u64 = 8;

impl Space {
    /// What is searched where nothing else is asked for, for a model with sequences of so many tokens:
    /// `joined` is how many GPUs NVLink joins, beyond which no layer is shared.
    #[must_use]
    pub fn of(model: &ModelSpec, sequence: u64, (gpus, joined): (u32, u32)) -> Self {
        let numbers = |most: u64, divides: &dyn Fn(u64) -> bool| -> Vec<Value> {
            (1..=most)
                .filter(|&n| divides(n))
                .map(Value::from)
                .collect()
        };
        let power = |n: u64| n.is_power_of_two();
        let long = if sequence >= LONG { 8 } else { 1 };
        let experts = model.experts.as_ref().map_or(1, |experts| experts.count);
        let stages = |n: u64| {
            u64::from(gpus).is_multiple_of(n)
                && (model.layers.is_multiple_of(n) || (model.layers + 2).is_multiple_of(n))
        };
        Space {
            values: [
                numbers(u64::from(joined.min(gpus)), &|n| {
                    model.heads.is_multiple_of(n) && u64::from(gpus).is_multiple_of(n)
                }),
                numbers(long, &power),
                numbers(experts.min(u64::from(gpus)), &|n| {
                    experts.is_multiple_of(n) && u64::from(gpus).is_multiple_of(n)
                }),
                numbers(model.layers.min(u64::from(gpus)), &stages),
                numbers(MAX_VIRTUAL, &|n| {
                    model.layers.is_multiple_of(n) || (model.layers + 2).is_multiple_of(n)
                }),
                numbers(u64::from(MAX_SEQUENCES), &power),
                ["none", "selective", "full"].map(Value::from).to_vec(),
                ["ddp", "zero", "fsdp"].map(Value::from).to_vec(),
                vec![Value::Null],
                vec![Value::Null],
            ],
            any_bucket: true,
        }
    }

    /// Other values of a knob, as an axis of a sweep has them.
    ///
    /// # Errors
    /// An axis that is no knob, or without values.
    pub fn restrict(&mut self, axis: &AxisSpec) -> Result<(), Fault> {
        let path = axis.path.as_deref().unwrap_or_default();
        let place = KNOBS.iter().position(|(_, name)| *name == path);
        let Some(place) = place else {
            let names = KNOBS.map(|(_, name)| name);
            return Err(Fault {
                nearest: nearest(path, names.into_iter()),
                ..fault("--over", format!("`{path}`"), names.join(", "))
            });
        };
        let values = match (&axis.values, &axis.range) {
            (Some(values), _) => values.clone(),
            (None, Some(range)) => crate::sweep::range_values(range)?,
            (None, None) => Vec::new(),
        };
        if values.is_empty() {
            return Err(fault("--over", format!("{path} without values"), "values"));
        }
        let knob = KNOBS[place].0;
        if let Some(wrong) = values.iter().find(|value| !knob.reads(value)) {
            let names = knob.names();
            return Err(Fault {
                nearest: nearest(wrong.as_str().unwrap_or_default(), names.iter().copied()),
                ..fault("--over", format!("{path}={wrong}"), knob.expected())
            });
        }
        self.values[place] = values;
        self.any_bucket &= KNOBS[place].0 != Knob::Bucket;
        Ok(())
    }

    /// How many combinations there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        let counts = self.values.iter().map(|values| values.len() as u64);
        counts.fold(1, u64::saturating_mul)
    }

    /// That there are more combinations than are looked at.
    pub(super) fn too_many(&self) -> Option<Fault> {
        let size = self.size();
        (size > MAX_LAYOUTS).then(|| {
            let each = KNOBS.iter().zip(&self.values);
            let each = each.filter(|(_, values)| values.len() > 1);
            let each: Vec<String> = each
                .map(|((_, name), values)| format!("{} of {name}", values.len()))
                .collect();
            fault(
                "--over",
                format!("{size} layouts ({})", each.join(" × ")),
                format!("at most {MAX_LAYOUTS} in all: fewer values"),
            )
        })
    }

    /// Other sizes of buckets than that of a layout, where gradients go out in buckets and nobody has
    /// asked for certain sizes: a quarter, 4 and 16 times as much.
    pub(super) fn other_buckets(&self, training: &Training) -> Vec<TrainingSpec> {
        let dims = training.dims;
        let bucket = bucket_of(&training.spec.data_parallel)
            .filter(|_| self.any_bucket && dims.dp * dims.cp > 1);
        let sizes = bucket.map(|own| [own.get() / 4, own.get() * 4, own.get() * 16]);
        let with = |size: u64| {
            let mut job = training.spec.clone();
            match &mut job.data_parallel {
                DataParallelSpec::Ddp(ddp) => ddp.bucket = Bytes::new(size),
                DataParallelSpec::Zero(zero) => zero.bucket = Bytes::new(size),
                DataParallelSpec::Fsdp(_) | DataParallelSpec::SingleProcess => {}
            }
            job
        };
        sizes.into_iter().flatten().map(with).collect()
    }

    /// The same with states in the host's memory, for a job whose layouts do not fit otherwise; `None` where they
    /// are there already, or certain values are asked for.
    pub(super) fn offloaded(&self, base: &TrainingSpec) -> Option<Self> {
        let place = KNOBS.iter().position(|(knob, _)| *knob == Knob::Offload)?;
        let free = self.values[place] == [Value::Null] && base.offload.is_none();
        free.then(|| {
            let mut space = self.clone();
            space.values[place] = OFFLOADS[1..].iter().map(|&name| name.into()).collect();
            space
        })
    }

    /// The values at a place among all combinations.
    fn at(&self, mut place: u64) -> [&Value; 10] {
        self.values.each_ref().map(|values| {
            let count = values.len() as u64;
            let value = &values[(place % count) as usize];
            place /= count;
            value
        })
    }

    /// A job with the values at a place.
    ///
    /// # Errors
    /// Why there is none: a value that cannot be read, or a job that another place has, too.
    pub(super) fn job(&self, base: &TrainingSpec, place: u64) -> Result<TrainingSpec, Reason> {
        let mut job = base.clone();
        job.parallel.dp = None;
        for ((knob, _), value) in KNOBS.iter().zip(self.at(place)) {
            set(&mut job, *knob, value).ok_or(Reason::Division)?;
        }
        // A kernel that keeps scores on chip has none to compute again.
        let recompute = &self.values[6];
        let both = ["none", "selective"].map(Value::from);
        if job.attention == AttentionKernel::Flash
            && job.recompute == Recompute::Selective
            && both.iter().all(|one| recompute.contains(one))
        {
            return Err(Reason::Same);
        }
        // There is nothing to divide along the sequence.
        if job.parallel.tp == 1 {
            job.parallel.sequence_parallel = false;
        }
        Ok(job)
    }
}

fn set(job: &mut TrainingSpec, knob: Knob, value: &Value) -> Option<()> {
    let number = || number(value);
    match knob {
        Knob::Tp => job.parallel.tp = number()?,
        Knob::Cp => job.parallel.cp = number()?,
        Knob::Ep => job.parallel.ep = number()?,
        Knob::Pp => job.parallel.pp = number()?,
        Knob::VirtualStages => {
            job.parallel.virtual_stages = number()?;
            job.schedule = None;
        }
        Knob::MicroBatch => job.micro_batch = number()?,
        Knob::Recompute => job.recompute = serde_json::from_value(value.clone()).ok()?,
        Knob::Sharding => job.data_parallel = sharded(&job.data_parallel, value.as_str()?)?,
        Knob::Bucket if value.is_null() => {}
        Knob::Bucket => {
            let bucket = serde_json::from_value(value.clone()).ok()?;
            match &mut job.data_parallel {
                DataParallelSpec::Ddp(ddp) => ddp.bucket = bucket,
                DataParallelSpec::Zero(zero) => zero.bucket = bucket,
                DataParallelSpec::Fsdp(_) | DataParallelSpec::SingleProcess => return None,
            }
        }
        Knob::Offload if value.is_null() => {}
        Knob::Offload => job.offload = offload(job.offload.take(), value.as_str()?)?,
    }
    Some(())
}

/// What may be in the host's memory, each with what is before it.
const OFFLOADS: [&str; 3] = ["none", "optimizer", "parameters"];

/// What is in the host's memory, by name: how it gets there is as the base has it.
fn offload(base: Option<OffloadSpec>, name: &str) -> Option<Option<OffloadSpec>> {
    let (optimizer, parameters) = match name {
        "none" => return Some(None),
        "optimizer" => (OffloadDevice::Cpu, OffloadDevice::None),
        "parameters" => (OffloadDevice::Cpu, OffloadDevice::Cpu),
        _ => return None,
    };
    Some(Some(OffloadSpec {
        optimizer,
        gradients: None,
        parameters,
        ..base.unwrap_or_default()
    }))
}

/// How replicas are kept equal, by name: as the base has it if it is of the same kind, else as
/// frameworks have it by default.
fn sharded(base: &DataParallelSpec, name: &str) -> Option<DataParallelSpec> {
    if sharding_name(base) == name {
        return Some(base.clone());
    }
    Some(match name {
        "ddp" => DataParallelSpec::Ddp(DdpSpec::default()),
        "zero" => DataParallelSpec::Zero(ZeroSpec::default()),
        "fsdp" => DataParallelSpec::Fsdp(FsdpSpec::default()),
        _ => return None,
    })
}

/// What a bucket of gradients holds, of those that have buckets.
fn bucket_of(spec: &DataParallelSpec) -> Option<Bytes> {
    match spec {
        DataParallelSpec::Ddp(ddp) => Some(ddp.bucket),
        DataParallelSpec::Zero(zero) => Some(zero.bucket),
        DataParallelSpec::Fsdp(_) | DataParallelSpec::SingleProcess => None,
    }
}

fn sharding_name(spec: &DataParallelSpec) -> &'static str {
    match spec {
        DataParallelSpec::Ddp(_) => "ddp",
        DataParallelSpec::Zero(_) => "zero",
        DataParallelSpec::Fsdp(_) => "fsdp",
        DataParallelSpec::SingleProcess => "single_process",
    }
}

/// The layout of a job on so many GPUs; with the size of its buckets if it is other than that of `base`.
pub(super) fn layout_of(job: &TrainingSpec, base: &TrainingSpec, gpus: u32) -> Layout {
    let usual = sharded(&base.data_parallel, sharding_name(&job.data_parallel));
    let usual = usual.as_ref().and_then(bucket_of);
    let bucket = bucket_of(&job.data_parallel).filter(|bucket| Some(*bucket) != usual);
    let offload = job
        .offload
        .as_ref()
        .filter(|own| Some(*own) != base.offload.as_ref());
    let parallel = &job.parallel;
    let inner = parallel.tp * parallel.cp * parallel.pp;
    Layout {
        tp: parallel.tp,
        cp: parallel.cp,
        ep: parallel.ep,
        pp: parallel.pp,
        dp: gpus / inner.max(1),
        virtual_stages: parallel.virtual_stages,
        micro_batch: job.micro_batch,
        recompute: job.recompute.name(),
        sharding: sharding_name(&job.data_parallel).to_owned(),
        bucket: bucket.map(Bytes::get),
        offload: offload.map(|own| match own.parameters.is_away() {
            true => OffloadedStates::Parameters,
            false => OffloadedStates::Optimizer,
        }),
    }
}

/// The job in a scenario.
pub(super) fn scenario_with(base: &Value, job: &TrainingSpec) -> Value {
    let mut scenario = base.clone();
    scenario["job"] = json!({ "training": job });
    scenario
}
