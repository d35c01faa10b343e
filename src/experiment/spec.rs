//! The scenario file: which machine, which job, with which settings.
//!
//! Strict JSON like the topology file: unknown fields are refused, variants are externally
//! tagged, quantities are strings with units, every object may carry a `"comment"`.

use super::calls::CallsSpec;
use super::communicator::CommunicatorSpec;
use crate::allocation::AllocationSpec;
use fabricsim_collective::Collective;
use fabricsim_fault::goodput::LongRunSpec;
use fabricsim_fault::{FaultSpec, Ranks};
use fabricsim_nccl::{Algorithm, Binding, Registration};
use fabricsim_plan::ProtocolKind;
use fabricsim_topology::load::is_path;
use fabricsim_topology::{Mtu, TopologySpec};
use fabricsim_units::{Bandwidth, Bytes, Time};
use fabricsim_workload::serving::spec::ServingSpec;
use fabricsim_workload::training::spec::{ModelRef, TrainingSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A scenario file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSpec {
    /// JSON Schema of this file, for editors; ignored.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Short name: letters, digits, `-`, `_` and `.`. Results go to `runs/<name>` by default.
    pub name: String,
    /// One line for people; if absent, of a collective made from the job and the topology, else the
    /// scenario's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The machine.
    pub topology: TopologyRef,
    /// So many nodes; what the topology says if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// So many GPUs of each node take part; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<u32>,
    /// Which nodes a scheduler gives to the job, and which rank it puts where; all nodes, one filled
    /// after the other, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationSpec>,
    /// Frames of its networks carry so many bytes (1500, 4200, 9000), the headers of IP and above
    /// included; 256, 512, 1024, 2048 and 4096 are the MTU of RDMA itself. What the models of its links
    /// say if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Mtu>,
    /// What the hosts do with its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// What runs on the machine.
    pub job: JobSpec,
    /// Of jobs at once: what each has of the network for itself. If it is given, `none` too, results say
    /// what each job costs each other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// NCCL's environment variables, by name; those that are absent have NCCL's defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, EnvValue>,
    /// The release of NCCL whose rules are followed, such as `2.27.3`; by default the one that
    /// is modelled, 2.30.7. Few rules differ: channels of sends and receives, speeds that the
    /// search tries, and what happens when `NCCL_ALGO` leaves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl_version: Option<String>,
    /// How the buffers of NCCL's calls are registered, of any job: then nothing is copied where NCCL can
    /// do without, and `symmetric` ones have kernels of their own inside an NVLink domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<Registration>,
    /// GPUs that one process drives, as nccl-tests' `-g` says; it starts their kernels one after
    /// the other, which small operations wait for. 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_per_process: Option<u32>,
    /// Slow GPUs, jitter, links that are degraded, flap or fail. To a collective each of its operations,
    /// which follow each other, is a step, a micro-batch and a kernel. None if absent.
    #[serde(default, skip_serializing_if = "no_faults")]
    pub faults: FaultSpec,
    /// A long run with failures and checkpoints around the step, of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_run: Option<LongRunSpec>,
    /// What the machine costs: dollars per GPU and hour, for comparisons of jobs. If absent, what the
    /// models of its GPUs say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars_per_gpu_hour: Option<f64>,
    /// The reader's own prices, dollars per GPU and hour by the name of a machine's topology: they stand
    /// before `dollars_per_gpu_hour`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, f64>,
    /// Power usage effectiveness of the building: what it draws for each watt of the machine, cooling
    /// included. 1 if absent: the machine alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pue: Option<f64>,
    /// The scenario is run once for each of these, and the results are compared. Once, as it is, if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantSpec>,
    /// The variant that the others are compared with; the first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The seed of every random choice (such as which path a flow hashes onto).
    #[serde(default)]
    pub seed: u64,
    /// The folder for the results, relative to the current one; `runs/<name>` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
}

impl ScenarioSpec {
    /// A job on a machine, and nothing else.
    #[must_use]
    pub fn new(name: String, topology: TopologyRef, job: JobSpec) -> Self {
        ScenarioSpec {
            schema: None,
            comment: None,
            name,
            title: None,
            topology,
            nodes: None,
            gpus_per_node: None,
            allocation: None,
            mtu: None,
            host: None,
            job,
            isolation: None,
            environment: BTreeMap::new(),
            nccl_version: None,
            registered: None,
            ranks_per_process: None,
            faults: FaultSpec::default(),
            long_run: None,
            dollars_per_gpu_hour: None,
            prices: BTreeMap::new(),
            pue: None,
            variants: Vec::new(),
            baseline: None,
            seed: 0,
            outputs: None,
        }
    }
}

/// What hosts do with processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Where the launcher binds the process of each GPU; near that if absent. With
    /// `NCCL_IGNORE_CPU_AFFINITY=1` NCCL's threads run near it anyway.
    #[serde(default)]
    pub binding: Binding,
}

/// Where the machine is described.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopologyRef {
    /// A shipped topology (`fabricsim topology list`).
    Name(String),
    /// A topology file, relative to the scenario file.
    Path(String),
    /// The topology itself.
    Inline(Box<TopologySpec>),
}

impl From<&str> for TopologyRef {
    /// A path if the text looks like one or is none of the shipped names and there is such a file; else a
    /// name.
    fn from(name_or_path: &str) -> Self {
        match is_path(name_or_path) {
            true => TopologyRef::Path(name_or_path.to_owned()),
            false => TopologyRef::Name(name_or_path.to_owned()),
        }
    }
}

impl From<TopologySpec> for TopologyRef {
    fn from(spec: TopologySpec) -> Self {
        TopologyRef::Inline(Box::new(spec))
    }
}

/// What runs on the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobSpec {
    /// One collective at several sizes, as nccl-tests runs it.
    Collective(Box<CollectiveSpec>),
    /// Steps of a training job.
    Training(Box<TrainingSpec>),
    /// Several jobs at once, on GPUs of their own.
    Concurrent(Vec<ConcurrentSpec>),
    /// A model that answers requests.
    Serving(Box<ServingSpec>),
    /// Making communicators, and their first operations.
    Communicator(Box<CommunicatorSpec>),
    /// What ranks call, in order, and what comes of it where they do not call the same.
    Calls(CallsSpec),
    /// Bytes from GPUs to others, beside other jobs: a checkpoint that is written, data that are read.
    Stream(Box<StreamSpec>),
}

impl JobSpec {
    /// What files call this kind of job.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            JobSpec::Collective(_) => "collective",
            JobSpec::Training(_) => "training",
            JobSpec::Concurrent(_) => "concurrent",
            JobSpec::Serving(_) => "serving",
            JobSpec::Communicator(_) => "communicator",
            JobSpec::Calls(_) => "calls",
            JobSpec::Stream(_) => "stream",
        }
    }

    /// The number of [`Metrics`](fabricsim_report::Metrics) by which jobs of this kind are judged.
    pub(crate) const fn objective(&self) -> &'static str {
        match self {
            JobSpec::Training(_) => "tokens_per_s_per_gpu",
            JobSpec::Collective(_) => "busbw_gbs",
            JobSpec::Serving(_) => "output_tokens_per_s_per_gpu",
            _ => "time_us",
        }
    }

    /// What the model is called, of a job that has one with a name.
    pub(crate) fn model(&self) -> Option<&str> {
        let model = match self {
            JobSpec::Training(job) => &job.model,
            JobSpec::Serving(job) => &job.model,
            _ => return None,
        };
        match model {
            ModelRef::Preset(name) => Some(name),
            ModelRef::Shape(_) => None,
        }
    }

    /// The collective, of a job that is one.
    pub(crate) const fn collective(&self) -> Option<&CollectiveSpec> {
        match self {
            JobSpec::Collective(job) => Some(job),
            _ => None,
        }
    }
}

/// One of several jobs at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcurrentSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its name, which no other one has.
    pub name: String,
    /// Its GPUs, numbered over the whole machine in the order of ranks, as faults number them. Jobs
    /// with a GPU in common take turns on it, as processes do without MPS.
    pub gpus: Ranks,
    /// When it starts; at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Time>,
    /// Of a collective: how many operations of each size follow each other; 10 if absent. Of a stream:
    /// how often each GPU sends; once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// The job: a collective, training, serving or a stream.
    pub job: JobSpec,
}

/// Bytes that go from the first half of a job's GPUs to the second half, pair by pair: as the traffic of
/// a neighbour, whose nodes at the far end stand for what takes it (storage, another job).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What each GPU of the first half sends.
    pub bytes: Bytes,
    /// No GPU sends faster than that; as fast as links allow if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bandwidth>,
}

/// What jobs at once have of the network for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Nothing: all share all of it.
    None,
    /// Each has rails of its own: of the interfaces of each node an equal part, and what is behind them.
    Rails,
    /// Each has spines of its own, an equal part of all switches above the leaves.
    Partition,
}

/// A variant of a scenario, to be compared with others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its name in tables and files: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What is different: values by their places in the scenario, as `--set` takes them
    /// (`job.training.parallel.tp`).
    #[serde(default)]
    pub set: BTreeMap<String, serde_json::Value>,
}

/// One collective at several sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectiveSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which one.
    pub name: Collective,
    /// The sizes, as nccl-tests counts them (for all-gather and reduce-scatter: all ranks'
    /// blocks together).
    pub sizes: SizesSpec,
    /// Forces the algorithm in place of NCCL's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// An algorithm's file, as MSCCL writes them, in place of NCCL's choice; its path is
    /// relative to the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm_file: Option<String>,
    /// Of an all-to-all-v: how much each rank (row) sends to each rank (column), in any unit;
    /// scaled so that the rank that sends or receives most has the size. Even, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<Vec<f64>>>,
    /// Forces the protocol in place of NCCL's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolKind>,
    /// How users' buffers are registered, if they are: then nothing is copied where NCCL can do
    /// without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<Registration>,
    /// Ranks whose buffers are not registered, unlike the others'. None if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unregistered: Vec<u32>,
    /// Operations are nodes of one captured CUDA graph, as nccl-tests' `-G` says: no process starts
    /// their kernels one by one. False if absent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cuda_graph: bool,
    /// Times one cold operation; if false, what nccl-tests times: the increment that one more
    /// operation adds when they are issued back to back.
    #[serde(default)]
    pub isolated: bool,
    /// Also tells why NCCL chooses what it does. False if absent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub why: bool,
    /// Which of the sizes the timeline, the link use and the attribution are of; the
    /// largest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Bytes>,
}

impl CollectiveSpec {
    /// As NCCL does it by itself.
    #[must_use]
    pub fn new(name: Collective, sizes: SizesSpec) -> Self {
        CollectiveSpec {
            comment: None,
            name,
            sizes,
            algorithm: None,
            algorithm_file: None,
            matrix: None,
            protocol: None,
            registered: None,
            unregistered: Vec::new(),
            cuda_graph: false,
            isolated: false,
            why: false,
            trace: None,
        }
    }
}

fn no_faults(faults: &FaultSpec) -> bool {
    faults.0.is_empty()
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Sizes: either `from`, `to` and a `factor` or `step`, or a `list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizesSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The smallest size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Bytes>,
    /// No size is larger than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Bytes>,
    /// Each size is so many times the one before; 2 if neither this nor `step` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<u64>,
    /// Each size is so much larger than the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Bytes>,
    /// These sizes, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<Bytes>>,
}

/// The value of an environment variable: text, or a whole number for short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct EnvValue(pub String);

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = EnvValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a whole number")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<EnvValue, E> {
                Ok(EnvValue(text.to_owned()))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<EnvValue, E> {
                Ok(EnvValue(number.to_string()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<EnvValue, E> {
                Ok(EnvValue(number.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for EnvValue {
    fn schema_name() -> Cow<'static, str> {
        "EnvValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "description": "The value of an environment variable.",
        })
    }
}

/// The schema of a scenario file (draft 2020-12).
#[must_use]
pub fn scenario_schema() -> Schema {
    schema_for!(ScenarioSpec)
}
