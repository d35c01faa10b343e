//! From a checked scenario to its results.
//!
//! A size is timed as nccl-tests does (`timing.rs`). Sizes of which nothing is left after
//! nccl-tests' rounding (all-gather of 8 bytes over 8 ranks) move nothing: their rows say 0, where
//! nccl-tests would print the cost of a call that returns at once.

use super::bound_words;
use super::disturb::{self, Conditions, rate_left};
use super::error::ScenarioError;
use super::footprint::{collective_footprint, machine_footprint, recorded_footprint};
use super::planning::{communicator_plan, ranks_around, stopped};
use super::prices::Prices;
use super::timing::{Timed, Timing, disturbed_time_of};
use super::valid::ValidSpec;
use fabricsim_budget::threads::both;
use fabricsim_budget::{Budget, Purpose};
use fabricsim_collective::Collective;
use fabricsim_engine::{Options, Outcome, simulate_with};
use fabricsim_nccl::{Communicator, Planned};
use fabricsim_plan::{Cuts, Operation, Plan};
use fabricsim_record::{Limits, RateLeft, Recorder, causes, label};
use fabricsim_report::cause::{self, CausePart, Causes, Method};
use fabricsim_report::record::{Candidate, Decision, Part, Row, Summary, Timeline};
use fabricsim_report::{FORMAT, Run};
use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, LinkId, draw};
use fabricsim_units::{Bytes, Time};
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
/// What NCCL refuses, a simulation that stalls, more than the memory of the budget holds, or what
/// `watch` gives.
pub fn run(spec: &ValidSpec, budget: &Budget, watch: &mut dyn Watch) -> Result<Run, ScenarioError> {
    let memory = budget.memory.estimating();
    let _machine = memory.hold(Purpose::Machine, machine_footprint(&spec.topology))?;
    let gone: Vec<LinkId> = spec.faults.gone_links().collect();
    let mut communicator = ranks_around(spec, gone, &memory)?;
    let mut prices = Prices::new(spec, &memory);
    let mut summary = summary(spec, &communicator);
    // What NCCL refuses it refuses for all sizes; to be known before anything is shown.
    let mut first = match spec.sizes.first() {
        Some(&size) => Some(communicator_plan(spec, &mut communicator, size)?),
        None => None,
    };
    expect(spec, budget, &mut communicator, first.as_ref())?;
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
                let priced = (&mut prices, size);
                let (row, end) = timed_row(
                    spec,
                    (budget, &communicator, &cuts),
                    &planned,
                    priced,
                    &mut progress,
                )?;
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
                record(spec, (budget, &planned), &mut run, index, &mut progress)?;
            }
        }
    }
    let summary = &mut run.summary;
    let told = match summary.traced_row {
        Some(index) => summary.rows.get(index),
        None => summary.rows.iter().max_by_key(|row| row.bytes),
    };
    let sentence = told.and_then(|row| {
        let causes = row.causes.as_ref()?;
        Some(cause::sentence(row.bytes, causes, &row.fault_costs))
    });
    summary.bottleneck = sentence.unwrap_or_default();
    Ok(run)
}

/// Whether the largest size fits into memory: what its plan takes, and what its simulation does.
fn expect(
    spec: &ValidSpec,
    budget: &Budget,
    communicator: &mut Communicator<'_>,
    first: Option<&Option<Planned>>,
) -> Result<(), ScenarioError> {
    let Some(&largest) = spec.sizes.iter().max() else {
        return Ok(());
    };
    let own;
    let planned = match first {
        Some(first) if spec.sizes.first() == Some(&largest) => first,
        _ => {
            own = communicator_plan(spec, communicator, largest)?;
            &own
        }
    };
    let Some(planned) = planned else {
        return Ok(());
    };
    let parts = collective_footprint(spec, planned, budget);
    Ok(budget.memory.expect_all(&parts)?)
}

/// All of a summary that is known before anything is simulated.
fn summary(spec: &ValidSpec, communicator: &Communicator<'_>) -> Summary {
    let findings = spec.findings.iter().map(ToString::to_string);
    Summary {
        format: FORMAT,
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
        warnings: spec
            .notes
            .iter()
            .cloned()
            .chain(findings)
            .chain(spec.env.warnings.iter().cloned())
            .collect(),
        spec: spec.json.clone(),
    }
}

fn decision(spec: &ValidSpec, communicator: &Communicator<'_>, bytes: u64) -> Decision {
    let all = communicator.candidates(spec.collective, bytes, spec.forced);
    let candidates = all.into_iter().map(|c| Candidate {
        algo: c.algorithm.name().to_owned(),
        proto: c.protocol.name().to_owned(),
        expected_us: c.expected.map(|e| Time::round_micros(e.micros)),
        latency_us: c.expected.map(|e| Time::round_micros(e.latency)),
        bandwidth_gbs: c.expected.map(|e| e.bandwidth),
        excluded: c.excluded,
        chosen: c.chosen,
    });
    Decision {
        bytes,
        candidates: candidates.collect(),
    }
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
        cause: String::new(),
        causes: None,
        fault_costs: Vec::new(),
        rank_classes: 0,
        worker_classes: 0,
        events: 0,
        skipped: 0,
        wall_ms: 0.0,
    }
}

/// A size's row, and when the last of its operations was over.
fn timed_row(
    spec: &ValidSpec,
    (budget, communicator, cuts): (&Budget, &Communicator<'_>, &OnceLock<Cuts>),
    planned: &Planned,
    (prices, size): (&mut Prices<'_>, u64),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Row, Time), ScenarioError> {
    let topology = &spec.topology;
    let timing = Timing {
        isolated: spec.isolated,
        exact_full: budget.exact_full,
        threads: budget.threads as u32,
        memory: Some(&budget.memory),
    };
    let began = Instant::now();
    // Cuts go over all links, which takes a while on a large machine.
    let (gpus, program) = (communicator.gpus(), planned.plan.program.as_ref());
    let operation = Operation {
        collective: spec.collective,
        bytes: planned.bytes,
        matrix: program.matrix(),
    };
    let faults = (&spec.faults, spec.faults.is_steady());
    let cut = || Cuts::of(topology, gpus, spec.env.shm_disable);
    let (bounds, timed) = both(
        || cuts.get_or_init(cut).bounds(operation),
        || disturbed_time_of(topology, &planned.plan, faults, timing, progress),
    );
    let timed = timed.map_err(|source| stopped(spec, planned, source))?;
    let wall_ms = began.elapsed().as_secs_f64() * 1e3;
    let (healthy, fault_costs) = prices.of(size, planned, &timed, timing)?;
    let Timed {
        time,
        outcome,
        path,
    } = timed;
    let faulty = |link| spec.faults.touches(link);
    let causes = causes(topology, (&outcome, path.as_ref()), time, &faulty);
    let bytes = planned.bytes;
    let algbw_gbs = if time == Time::ZERO {
        0.0
    } else {
        bytes as f64 / time.seconds() / 1e9
    };
    let ranks = communicator.ranks();
    let time_us = time.micros();
    let (cause, bottleneck) = cause::headline(&causes, &fault_costs, time_us);
    let row = Row {
        bytes,
        count: elements(spec.collective, bytes, ranks),
        time_us,
        algbw_gbs,
        busbw_gbs: algbw_gbs * spec.collective.bus_factor(ranks),
        algo: planned.algorithm.name().to_owned(),
        proto: planned.protocol.name().to_owned(),
        channels: u32::from(planned.channels),
        bound_us: bounds.in_switches.map_or(0.0, |cut| cut.time().micros()),
        bound_cut: bound_words::of(bounds.in_switches),
        bound_plain_us: bounds.plain.map_or(0.0, |cut| cut.time().micros()),
        bound_plain_cut: bound_words::of(bounds.plain),
        healthy_us: healthy.map(Time::micros),
        bottleneck,
        cause,
        causes: Some(causes),
        fault_costs,
        rank_classes: outcome.folded.as_ref().map_or(ranks, |f| f.ranks),
        worker_classes: outcome.workers.len() as u32,
        events: outcome.events,
        skipped: outcome.skipped,
        wall_ms,
    };
    Ok((row, outcome.end()))
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

/// One more operation, alone, with all that happens written down.
fn record(
    spec: &ValidSpec,
    (budget, planned): (&Budget, &Planned),
    run: &mut Run,
    index: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), ScenarioError> {
    let topology = &spec.topology;
    let conditions = Conditions::new(&planned.plan, &spec.faults);
    let options = Options {
        operations: 1,
        memory: Some(&budget.memory),
        disturbances: conditions.disturbances(),
        progress: Some(progress),
        ..Options::default()
    };
    let plan = conditions.plan.as_ref();
    let _held = budget
        .memory
        .hold(Purpose::Record, recorded_footprint(plan))?;
    let mut recorder = Recorder::new(topology, plan, Limits::default());
    let outcome = simulate_with(plan, conditions.rates(topology), options, &mut recorder)
        .map_err(|source| stopped(spec, planned, source))?;
    let end = outcome.end();
    let left = |link, span| rate_left(&spec.faults, topology, link, span);
    let mut record = recorder.finish(topology, plan, &outcome, &left);
    run.timeline = record.timeline;
    run.timeline.faults = disturb::spans(&spec.faults, end);
    run.topology_svg = Some(drawing(spec, plan, &outcome, &left));
    let summary = &mut run.summary;
    summary.traced_row = Some(index);
    let causes = summary.rows.get(index).and_then(|row| row.causes.as_ref());
    record.attribution.critical_path = causes.map(path_parts).unwrap_or_default();
    summary.attribution = Some(record.attribution);
    summary.links = record.links;
    Ok(())
}

/// The row's critical path, as parts of the page's bars; nothing if it was too long to remember.
fn path_parts(causes: &Causes) -> Vec<Part> {
    let whole = causes.total().picos().max(1) as f64;
    let told = causes.parts.iter();
    let told = told.filter(|_| causes.method == Method::CriticalPath);
    let part = |part: &CausePart| Part {
        what: label(&part.cause),
        time: part.time(),
        fraction: part.time().picos() as f64 / whole,
    };
    told.map(part).collect()
}

/// The machine, coloured by how busy its links were, with what is faulty marked.
fn drawing(spec: &ValidSpec, plan: &Plan, outcome: &Outcome, left: RateLeft<'_>) -> String {
    let topology = &spec.topology;
    let duration = outcome.end();
    let carried: BTreeMap<LinkId, Bytes> = outcome.link_bytes(plan);
    let utilisation = |link: LinkId| {
        let bytes = carried.get(&link)?.get() as f64;
        let left = left(link, Time::ZERO..duration);
        let rate = left.unwrap_or_else(|| topology.rate(link));
        let most = rate.bytes_per_sec() as f64 * duration.seconds();
        (most > 0.0).then(|| bytes / most)
    };
    let slow: BTreeSet<DeviceId> = (0..spec.gpus.len())
        .filter(|&rank| !spec.faults.is_plain(rank))
        .map(|rank| spec.gpus[rank])
        .collect();
    // Where a node is drawn alone its links to the network are not.
    let touched = spec.faults.touched_links();
    let network = touched.filter(|&link| topology.family(link) == LinkFamily::Network);
    let ends = network.flat_map(|link| <[DeviceId; 2]>::from(topology.ends(link)));
    let nics: BTreeSet<DeviceId> = ends
        .filter(|&device| topology.device(device).kind == DeviceKind::Nic)
        .collect();
    let faulty_device = |device: DeviceId| {
        slow.contains(&device)
            || nics.contains(&device)
            || spec.faults.device_failed_at(device).is_some()
    };
    let faulty_link = |link: LinkId| spec.faults.touches(link);
    let faulty = draw::Faulty {
        link: &faulty_link,
        device: &faulty_device,
    };
    draw::svg(
        topology,
        &draw::Style {
            utilisation: Some(&utilisation),
            title: None,
            faulty: (!spec.faults.is_empty()).then_some(faulty),
        },
    )
}
