//! What a measurement should have shown.

use super::measurement::{MeasuredRow, Measurement, Model};
use fabricsim_budget::{Budget, Memory};
use fabricsim_collective::Collective;
use fabricsim_experiment::coverage::crossing;
use fabricsim_experiment::timing::{Timing, time_of};
use fabricsim_nccl::{Communicator, Env, Forced, Version};
use fabricsim_report::published::Crossing;
use fabricsim_report::validation::SkipKind;
use fabricsim_topology::{Hardware, Overrides, Topology, catalogue, expand, load};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A measurement with what was predicted of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedSet {
    /// The measurement's.
    pub id: String,
    /// Rows of one group count once together.
    pub group: Group,
    /// All its ranks are within one NVLink domain.
    pub one_domain: bool,
    /// What messages between them cross.
    pub crosses: Crossing,
    /// Nodes that they are on.
    pub nodes: u32,
    /// Size by size.
    pub rows: Vec<PredictedRow>,
}

/// Measurements of the same thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The machine's name.
    pub topology: String,
    /// Ranks.
    pub ranks: u32,
    /// What they did.
    pub collective: Collective,
}

/// One size, measured and predicted; times in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedRow {
    /// nccl-tests' size.
    pub bytes: u64,
    /// As published.
    pub measured_us: f64,
    /// By simulation.
    pub predicted_us: f64,
    /// By NCCL's own cost model.
    pub baseline_us: f64,
    /// What NCCL would choose.
    pub algorithm: &'static str,
    /// See there.
    pub protocol: &'static str,
    /// Thread blocks per rank.
    pub channels: u16,
}

/// Why nothing is predicted of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The kind of reason.
    pub kind: SkipKind,
    /// The reason, for people.
    pub why: String,
}

impl From<String> for Skip {
    /// Something that should have worked.
    fn from(why: String) -> Self {
        Skip {
            kind: SkipKind::Failed,
            why,
        }
    }
}

/// Machines by name and size, built once.
pub struct Machines<'h> {
    hardware: &'h Hardware,
    known: BTreeMap<(String, u32), Arc<Topology>>,
    budget: Budget,
}

impl<'h> Machines<'h> {
    /// Machines of which the shipped files say how they are built, and `hardware` of what.
    #[must_use]
    pub fn new(hardware: &'h Hardware) -> Self {
        Machines {
            hardware,
            known: BTreeMap::new(),
            budget: Budget::default(),
        }
    }

    /// What is simulated on them is to fit this memory.
    #[must_use]
    pub fn within(mut self, budget: &Budget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// As the shipped hardware has it.
    #[must_use]
    pub fn shipped() -> Machines<'static> {
        Machines::new(catalogue::hardware())
    }

    fn find(&mut self, model: &Model) -> Result<Arc<Topology>, String> {
        let key = (model.topology.clone(), model.nodes);
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(known));
        }
        let spec = load::find(&model.topology).map_err(|e| e.to_string())?.spec;
        let overrides = Overrides {
            nodes: Some(model.nodes),
        };
        let topology = expand(&spec, self.hardware, &overrides).map_err(|e| e.to_string())?;
        let topology = Arc::new(topology);
        self.known.insert(key, Arc::clone(&topology));
        Ok(topology)
    }
}

/// Predicts every row of a measurement, or says why it cannot be.
///
/// # Errors
/// The reason.
pub fn predict(
    measurement: &Measurement,
    machines: &mut Machines<'_>,
    wanted: impl Fn(u64) -> bool,
) -> Result<PredictedSet, Skip> {
    if !measurement.healthy {
        return Err(Skip {
            kind: SkipKind::Unhealthy,
            why: "its source reports a fault of the machine or its settings (`healthy` is false); \
                  --unhealthy predicts it all the same"
                .into(),
        });
    }
    let Some(model) = &measurement.model else {
        return Err(Skip {
            kind: SkipKind::NoModel,
            why: format!(
                "{}: nothing says how to run it here",
                measurement.collective
            ),
        });
    };
    let topology = machines.find(model)?;
    let variables = model.env.iter().map(|(n, v)| (n.as_str(), v.0.as_str()));
    let mut env = Env::parse(variables).map_err(|e| e.to_string())?;
    env.version = match measurement.software.nccl.as_deref().and_then(version) {
        Some(version) => version,
        None => usual_version(&topology),
    };
    env.ranks_per_process = model.ranks_per_process.unwrap_or(1).max(1);
    if let Some((threads, iterations)) = measurement.threads() {
        env.ranks_per_process = env.ranks_per_process.saturating_mul(threads);
        env.in_a_row = iterations;
    }
    let budget = machines.budget.clone();
    let mut communicator = Communicator::new(&topology, Some(model.gpus_per_node), &env, 0)
        .map_err(|e| e.to_string())?
        .within(&budget);
    let ranks = communicator.ranks();
    let mut rows = Vec::new();
    for row in measurement
        .rows
        .iter()
        .filter(|r| r.bytes.is_some_and(&wanted))
    {
        rows.extend(predict_row(
            &mut communicator,
            (&topology, &budget.memory),
            model,
            row,
        )?);
    }
    if rows.is_empty() {
        let why = "no row has a time or a bandwidth of something that moves";
        return Err(why.to_owned().into());
    }
    Ok(PredictedSet {
        id: measurement.id.clone(),
        group: Group {
            topology: model.topology.clone(),
            ranks,
            collective: model.collective,
        },
        one_domain: communicator.one_domain(),
        crosses: crossing(&communicator),
        nodes: model.nodes,
        rows,
    })
}

/// `None` for a row without a figure, or of which rounding leaves nothing.
fn predict_row(
    communicator: &mut Communicator<'_>,
    (topology, memory): (&Topology, &Memory),
    model: &Model,
    row: &MeasuredRow,
) -> Result<Option<PredictedRow>, String> {
    let (collective, ranks) = (model.collective, communicator.ranks());
    let (Some(size), Some(measured_us)) = (row.bytes, row.micros(collective, ranks)) else {
        return Ok(None);
    };
    let bytes = collective.actual_bytes(size, ranks);
    if bytes == 0 {
        return Ok(None);
    }
    let planned = communicator
        .plan(collective, bytes, Forced::default())
        .map_err(|e| e.to_string())?;
    let timing = Timing {
        memory: Some(memory),
        ..Timing::default()
    };
    let (time, _) =
        time_of(topology, &planned.plan, timing, None).map_err(|e| format!("{size} bytes: {e}"))?;
    let expected = communicator
        .expected(collective, bytes, &planned)
        .filter(|micros| micros.is_finite() && *micros > 0.0)
        .ok_or("NCCL's cost model has no figure for what it chose")?;
    Ok(Some(PredictedRow {
        bytes: size,
        measured_us,
        predicted_us: time.micros(),
        baseline_us: expected,
        algorithm: planned.algorithm.name(),
        protocol: planned.protocol.name(),
        channels: planned.channels,
    }))
}

/// The release that is assumed of a source that names none: one of the time when most
/// measured machines of its kind.
fn usual_version(topology: &Topology) -> Version {
    let gpus = topology.gpus().filter_map(|gpu| topology.gpu_model(gpu));
    let oldest = gpus.map(|model| model.compute_capability).min();
    let of = |minor, patch| Version {
        major: 2,
        minor,
        patch,
    };
    match oldest {
        Some(0..90) => of(12, 12),
        Some(90..100) => of(23, 4),
        _ => Version::DEFAULT,
    }
}

/// The release in a source's words: the first number with a dot, what is unknown of it zero.
fn version(text: &str) -> Option<Version> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let number = digits[..end.unwrap_or(digits.len())].trim_end_matches('.');
    number.parse().ok()
}
