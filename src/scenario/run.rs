//! From a checked scenario to its results.
//!
//! A size is timed as nccl-tests does (`timing.rs`). Sizes of which nothing is left after
//! nccl-tests' rounding (all-gather of 8 bytes over 8 ranks) move nothing: their rows say 0, where
//! nccl-tests would print the cost of a call that returns at once.

use super::bound_words;
use super::disturb::{self, Conditions, what_is_left};
use super::error::ScenarioError;
use super::recorder::{Limits, Recorder, short_bottleneck};
use super::timing::{Timing, disturbed_time_of, healthy_time_of};
use super::valid::ValidSpec;
use crate::collective::{Collective, Matrix};
use crate::engine::{Options, Outcome, SimError, simulate_with};
use crate::nccl::{Communicator, NcclError, Planned};
use crate::plan::{Cuts, Operation, Plan};
use crate::report::Run;
use crate::report::record::{Candidate, Decision, Row, Summary, Timeline};
use crate::threads::{both, processors};
use crate::topology::{LinkId, Router, draw};
use crate::units::{Bytes, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::OnceLock;
use std::time::Instant;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which simulation, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
    /// The size that is simulated.
    pub bytes: u64,
    /// Steps of the program that have begun.
    pub begun: u64,
    /// Steps in all.
    pub steps: u64,
}

/// Somebody who wants to know how a run goes on.
pub trait Watch {
    /// Before the first row; `summary` has none yet.
    ///
    /// # Errors
    /// End the run.
    fn begin(&mut self, _summary: &Summary) -> io::Result<()> {
        Ok(())
    }
    /// Now and then.
    fn step(&mut self, _step: Step) {}
    /// A row is done; `summary` has it and those before.
    ///
    /// # Errors
    /// End the run.
    fn row(&mut self, _summary: &Summary, _row: &Row) -> io::Result<()> {
        Ok(())
    }
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watch for Silent {}

/// Runs a scenario. But for the wall-clock times in the rows, the same scenario gives the
/// same results.
///
/// # Errors
/// What NCCL refuses, a simulation that stalls, or what `watch` gives.
pub fn run(spec: &ValidSpec, watch: &mut dyn Watch) -> Result<Run, ScenarioError> {
    let gone: Vec<LinkId> = spec.faults.gone_links().collect();
    // As it would be if nothing were gone.
    let mut whole = if gone.is_empty() {
        None
    } else {
        Some(ranks_around(spec, Vec::new())?)
    };
    let mut communicator = ranks_around(spec, gone)?;
    let mut summary = summary(spec, &communicator);
    // What NCCL refuses it refuses for all sizes; to be known before anything is shown.
    let mut first = match spec.sizes.first() {
        Some(&size) => Some(communicator_plan(spec, &mut communicator, size)?),
        None => None,
    };
    watch.begin(&summary)?;
    let cuts = OnceLock::new();
    let count = spec.sizes.len() + usize::from(spec.traced.is_some());
    let mut latest = Time::ZERO;
    let mut without_effect = BTreeSet::new();
    for (index, &size) in spec.sizes.iter().enumerate() {
        let planned = match first.take() {
            Some(planned) => planned,
            None => communicator_plan(spec, &mut communicator, size)?,
        };
        let algorithm = planned.as_ref().map(|planned| planned.algorithm);
        without_effect.extend(algorithm.and_then(|a| spec.env.without_effect(a)));
        let row = match planned {
            None => nothing(),
            Some(planned) => {
                let mut progress = |begun, steps| {
                    watch.step(Step {
                        index,
                        count,
                        bytes: size,
                        begun,
                        steps,
                    });
                };
                let healthy = match &mut whole {
                    Some(whole) => communicator_plan(spec, whole, size)?,
                    None => None,
                };
                let healthy = healthy.as_ref().unwrap_or(&planned);
                let plans = (&planned, healthy);
                let (row, end) = timed_row(spec, (&communicator, &cuts), plans, &mut progress)?;
                latest = latest.max(end);
                row
            }
        };
        if spec.why {
            let bytes = spec.collective.actual_bytes(size, communicator.ranks());
            summary.decisions.push(decision(spec, &communicator, bytes));
        }
        summary.rows.push(row.clone());
        watch.row(&summary, &row)?;
    }
    let late = spec.faults.not_before(latest).map(|fault| {
        format!(
            "{fault}: not before all is over, after {}; times count from the start of each size",
            latest.human()
        )
    });
    summary.warnings.extend(late);
    let without_effect = without_effect.iter().map(ToString::to_string);
    summary.warnings.extend(without_effect);
    let mut run = Run {
        summary,
        timeline: Timeline::default(),
        topology_svg: None,
    };
    match spec.traced {
        None => {}
        Some(index) => {
            let size = spec.sizes[index];
            let mut progress = |begun, steps| {
                watch.step(Step {
                    index: count - 1,
                    count,
                    bytes: size,
                    begun,
                    steps,
                });
            };
            if let Some(planned) = communicator_plan(spec, &mut communicator, size)? {
                record(spec, &planned, &mut run, index, &mut progress)?;
            }
        }
    }
    if run.summary.bottleneck.is_empty()
        && let Some(row) = run.summary.rows.iter().max_by_key(|row| row.bytes)
        && !row.bottleneck.is_empty()
    {
        let size = Bytes::new(row.bytes);
        run.summary.bottleneck = format!("At {size} the limit is {}.", row.bottleneck);
    }
    Ok(run)
}

/// The ranks, which NCCL joins without seeing at all what is gone for good before it begins.
fn ranks_around(spec: &ValidSpec, gone: Vec<LinkId>) -> Result<Communicator<'_>, NcclError> {
    let mut router = Router::new(&spec.topology, spec.seed);
    if !gone.is_empty() {
        router = router.avoiding(gone);
    }
    Communicator::of(&spec.topology, spec.gpus.clone(), &spec.env, router)
}

/// All of a summary that is known before anything is simulated.
fn summary(spec: &ValidSpec, communicator: &Communicator<'_>) -> Summary {
    let findings = spec.findings.iter().map(ToString::to_string);
    Summary {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: spec.seed,
        title: spec.title.clone(),
        topology: spec.topology.name.clone(),
        topology_title: spec.topology.title.clone(),
        nodes: communicator.nodes(),
        gpus_per_node: communicator.gpus_per_node(),
        ranks: communicator.ranks(),
        collective: spec.collective.name().to_owned(),
        rows: Vec::with_capacity(spec.sizes.len()),
        traced_row: None,
        bottleneck: String::new(),
        attribution: None,
        links: Vec::new(),
        faults: spec.faults.told().collect(),
        decisions: Vec::new(),
        warnings: findings.chain(spec.env.warnings.iter().cloned()).collect(),
        spec: spec.json.clone(),
    }
}

fn decision(spec: &ValidSpec, communicator: &Communicator<'_>, bytes: u64) -> Decision {
    let all = communicator.candidates(spec.collective, bytes, spec.forced);
    let candidates = all.into_iter().map(|c| Candidate {
        algo: c.algorithm.name().to_owned(),
        proto: c.protocol.name().to_owned(),
        expected_us: c.expected.map(|e| e.micros),
        latency_us: c.expected.map(|e| e.latency),
        bandwidth_gbs: c.expected.map(|e| e.bandwidth),
        excluded: c.excluded,
        chosen: c.chosen,
    });
    Decision {
        bytes,
        candidates: candidates.collect(),
    }
}

/// The plan for a size, or `None` if rounding leaves nothing of it.
fn communicator_plan(
    spec: &ValidSpec,
    communicator: &mut Communicator<'_>,
    size: u64,
) -> Result<Option<Planned>, ScenarioError> {
    if spec.collective.actual_bytes(size, communicator.ranks()) == 0 {
        return Ok(None);
    }
    let planned = match (&spec.msccl, &spec.matrix) {
        (Some(algorithm), _) => communicator.plan_msccl(algorithm, size, spec.forced.protocol)?,
        (None, Some(weights)) => communicator.plan_all_to_all_v(scaled(weights, size)?)?,
        (None, None) => communicator.plan(spec.collective, size, spec.forced)?,
    };
    Ok((planned.bytes > 0).then_some(planned))
}

/// Bytes in proportion to `weights`, in whole elements of 16 bytes, so that the rank that
/// sends or receives most has `size`.
fn scaled(weights: &[Vec<f64>], size: u64) -> Result<Matrix, NcclError> {
    let rows = weights.iter().map(|row| row.iter().sum::<f64>());
    let columns = (0..weights.len()).map(|c| weights.iter().map(|row| row[c]).sum::<f64>());
    let most = rows.chain(columns).fold(0.0, f64::max);
    let bytes = |weight: f64| {
        if most > 0.0 {
            (weight / most * size as f64) as u64 / 16 * 16
        } else {
            0
        }
    };
    let rows: Vec<Vec<u64>> = weights
        .iter()
        .map(|row| row.iter().map(|&w| bytes(w)).collect())
        .collect();
    Matrix::new(&rows).map_err(|error| NcclError::NothingLeft {
        collective: Collective::AllToAllV.name(),
        reason: error.to_string(),
    })
}

/// The row of a size that moves nothing.
fn nothing() -> Row {
    Row {
        bytes: 0,
        count: 0,
        time_us: 0.0,
        algbw_gbs: 0.0,
        busbw_gbs: 0.0,
        algo: "-".into(),
        proto: "-".into(),
        channels: 0,
        bound_us: 0.0,
        bound_cut: String::new(),
        bound_plain_us: 0.0,
        bound_plain_cut: String::new(),
        healthy_us: None,
        bottleneck: "nothing to move".into(),
        rank_classes: 0,
        worker_classes: 0,
        events: 0,
        skipped: 0,
        wall_ms: 0.0,
    }
}

/// A size's row, of what is planned and what would be without faults, and when the last of its
/// operations was over.
fn timed_row(
    spec: &ValidSpec,
    (communicator, cuts): (&Communicator<'_>, &OnceLock<Cuts>),
    (planned, healthy): (&Planned, &Planned),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Row, Time), ScenarioError> {
    let topology = &spec.topology;
    let timing = Timing {
        isolated: spec.isolated,
        exact_full: spec.exact_full,
        threads: processors() as u32,
    };
    let began = Instant::now();
    // Cuts go over all links, which takes a while on a large machine.
    let (gpus, program) = (communicator.gpus(), planned.plan.program.as_ref());
    let operation = Operation {
        collective: spec.collective,
        bytes: planned.bytes,
        matrix: program.matrix(),
    };
    let cut = || Cuts::of(topology, gpus, spec.env.shm_disable);
    let (bounds, timed) = both(
        || cuts.get_or_init(cut).bounds(operation),
        || disturbed_time_of(spec, &planned.plan, timing, progress),
    );
    let (time, outcome) = timed.map_err(|source| stopped(spec, planned, source))?;
    let wall_ms = began.elapsed().as_secs_f64() * 1e3;
    let healthy = if spec.faults.is_empty() {
        None
    } else {
        let timed = healthy_time_of(spec, &healthy.plan, timing);
        Some(timed.map_err(|source| stopped(spec, healthy, source))?)
    };
    let bytes = planned.bytes;
    let algbw_gbs = if time == Time::ZERO {
        0.0
    } else {
        bytes as f64 / time.seconds() / 1e9
    };
    let end = outcome.end();
    let left = |link| what_is_left(&spec.faults, topology, link, end);
    let ranks = communicator.ranks();
    let row = Row {
        bytes,
        count: elements(spec.collective, bytes, ranks),
        time_us: time.micros(),
        algbw_gbs,
        busbw_gbs: algbw_gbs * spec.collective.bus_factor(ranks),
        algo: planned.algorithm.name().to_owned(),
        proto: planned.protocol.name().to_owned(),
        channels: u32::from(planned.channels),
        bound_us: bounds.in_switches.map_or(0.0, |cut| cut.micros()),
        bound_cut: bound_words::of(bounds.in_switches),
        bound_plain_us: bounds.plain.map_or(0.0, |cut| cut.micros()),
        bound_plain_cut: bound_words::of(bounds.plain),
        healthy_us: healthy.map(Time::micros),
        bottleneck: short_bottleneck(topology, &planned.plan, &outcome, left),
        rank_classes: outcome.folded.as_ref().map_or(ranks, |f| f.ranks),
        worker_classes: outcome.workers.len() as u32,
        events: outcome.events,
        skipped: outcome.skipped,
        wall_ms,
    };
    Ok((row, end))
}

/// nccl-tests' count column for floats: of a rank's block where the size is of all blocks.
fn elements(collective: Collective, bytes: u64, ranks: u32) -> u64 {
    match collective {
        Collective::AllGather
        | Collective::ReduceScatter
        | Collective::AllToAll
        | Collective::Gather
        | Collective::Scatter => bytes / u64::from(ranks) / 4,
        Collective::AllReduce
        | Collective::AllToAllV
        | Collective::Broadcast
        | Collective::Reduce
        | Collective::SendRecv
        | Collective::SendRecvPairs
        | Collective::SendRecvHalves => bytes / 4,
    }
}

fn stopped(spec: &ValidSpec, planned: &Planned, source: SimError) -> ScenarioError {
    ScenarioError::Simulation {
        collective: spec.collective.name(),
        bytes: planned.bytes,
        source,
        faults: spec.faults.told().collect(),
    }
}

/// One more operation, alone, with all that happens written down.
fn record(
    spec: &ValidSpec,
    planned: &Planned,
    run: &mut Run,
    index: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), ScenarioError> {
    let topology = &spec.topology;
    let conditions = Conditions::new(&planned.plan, &spec.faults);
    let options = Options {
        operations: 1,
        disturbances: conditions.disturbances(),
        progress: Some(progress),
        ..Options::default()
    };
    let plan = conditions.plan.as_ref();
    let mut recorder = Recorder::new(topology, plan, Limits::default());
    let outcome = simulate_with(plan, conditions.rates(topology), options, &mut recorder)
        .map_err(|source| stopped(spec, planned, source))?;
    let record = recorder.finish(topology, plan, &outcome);
    run.timeline = record.timeline;
    run.timeline.faults = disturb::spans(&spec.faults, outcome.end());
    run.topology_svg = Some(drawing(spec, plan, &outcome));
    let summary = &mut run.summary;
    summary.traced_row = Some(index);
    summary.bottleneck = record.bottleneck;
    summary.attribution = Some(record.attribution);
    summary.links = record.links;
    Ok(())
}

/// The machine, coloured by how busy its links were.
fn drawing(spec: &ValidSpec, plan: &Plan, outcome: &Outcome) -> String {
    let topology = &spec.topology;
    let duration = outcome.end().seconds();
    let carried: BTreeMap<LinkId, Bytes> = outcome.link_bytes(plan);
    let utilisation = |link: LinkId| {
        let bytes = carried.get(&link)?.get() as f64;
        let most = topology.rate(link).bytes_per_sec() as f64 * duration;
        (most > 0.0).then(|| bytes / most)
    };
    draw::svg(
        topology,
        &draw::Style {
            utilisation: Some(&utilisation),
            title: None,
        },
    )
}
