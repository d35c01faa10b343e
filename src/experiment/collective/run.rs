//! From a checked collective to its results.
//!
//! A size is timed as nccl-tests does (`timing.rs`). Sizes of which nothing is left after
//! nccl-tests' rounding (all-gather of 8 bytes over 8 ranks) move nothing: their rows say 0, where
//! nccl-tests would print the cost of a call that returns at once.

use super::bound_words;
use super::coverage;
use super::decided::{decision, outside_range};
use super::disturb::{self, Conditions, rate_left};
use super::footprint::{collective_footprint, recorded_footprint};
use super::planning::{communicator_plan, ranks_around, stopped};
use super::prices::Prices;
use super::timing::{Timed, Timing, disturbed_time_of};
use super::valid::ValidCollective;
use crate::error::ScenarioError;
use crate::footprint::machine_footprint;
use crate::job::{Ctx, JobKind, JobRun};
use crate::movement::movement_of;
use crate::uplinks::{is_uplink, uplinks};
use crate::watch::Watch;
use fabricsim_budget::threads::both;
use fabricsim_budget::{Budget, Purpose};
use fabricsim_collective::Collective;
use fabricsim_engine::{Options, Outcome};
use fabricsim_fault::Faults;
use fabricsim_nccl::{Algorithm, Communicator, Planned, Registration};
use fabricsim_plan::{Cuts, Operation, Plan};
use fabricsim_record::telemetry::Wanted;
use fabricsim_record::{Limits, RateLeft, causes, label};
use fabricsim_report::cause::{self, CausePart, Causes, Method};
use fabricsim_report::communication::{Communication, Communicator as CommunicatorKind};
use fabricsim_report::published::Fall;
use fabricsim_report::record::{CollectiveResult, Part, PartKind, Row};
use fabricsim_report::telemetry::Telemetry;
use fabricsim_report::{
    CollectiveView, JobResult, Metrics, Output, Outputs, Recording, Summary, Uplinks, Variant,
};
use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, LinkId, Topology, draw, processes};
use fabricsim_units::{Bytes, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Instant;

impl JobKind for ValidCollective {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn gpus(&self) -> Vec<DeviceId> {
        self.gpus.clone()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn run(
        &self,
        name: &str,
        ctx: Ctx<'_>,
        summary: &Summary,
        watch: &mut dyn Watch,
    ) -> Result<JobRun, ScenarioError> {
        let (spec, budget, outputs) = (self, ctx.budget, ctx.outputs);
        let estimating = budget.estimating();
        let _machine = estimating
            .memory
            .hold(Purpose::Machine, machine_footprint(&spec.topology))?;
        let mut communicator = ranks_around(spec, &spec.faults, &estimating)?;
        let mut prices = Prices::new(spec, &estimating);
        let variant = described(name, spec, &communicator);
        let mut result = nothing_yet(spec, &communicator);
        let traced = spec.traced.filter(|_| outputs.need_record());
        // What NCCL refuses it refuses for all sizes; to be known before anything is shown.
        let mut first = match spec.sizes.first() {
            Some(&size) => Some(communicator_plan(spec, &mut communicator, size)?),
            None => None,
        };
        expect(
            (spec, traced.is_some()),
            budget,
            &mut communicator,
            first.as_ref(),
        )?;
        watch.begin(view(summary, &variant, &result))?;
        let cuts = OnceLock::new();
        let mut latest = Time::ZERO;
        // The plan of the size that is recorded.
        let mut kept = None;
        let (mut without_effect, mut climbs) = (BTreeSet::new(), false);
        let all = spec.sizes.len() + usize::from(traced.is_some());
        let counting = budget.work.part("sizes", all as u64);
        for (index, &size) in spec.sizes.iter().enumerate() {
            let planned = match first.take() {
                Some(planned) => planned,
                None => communicator_plan(spec, &mut communicator, size)?,
            };
            let algorithm = planned.as_ref().map(|planned| planned.algorithm);
            without_effect.extend(algorithm.and_then(|a| spec.env.without_effect(a)));
            climbs |= planned
                .as_ref()
                .is_some_and(|planned| climbs_in(&spec.topology, planned));
            let row = match &planned {
                None => nothing(),
                Some(planned) => {
                    let priced = (&mut prices, size);
                    let how = (budget, &communicator, &cuts);
                    let (row, end) = timed_row(spec, how, planned, priced)?;
                    latest = latest.max(end);
                    row
                }
            };
            if spec.why {
                let bytes = spec.collective.actual_bytes(size, communicator.ranks());
                result.decisions.push(decision(spec, &communicator, bytes));
            }
            if traced == Some(index) {
                kept = planned;
            }
            result.rows.push(row.clone());
            watch.row(view(summary, &variant, &result), &row)?;
            counting.add(1);
        }
        result.falls = Fall::among(&result.rows);
        if spec.msccl.is_none() {
            result.beyond_tables = coverage::beyond(&result, coverage::crossing(&communicator));
        }
        let mut warnings = too_late(&spec.faults, latest);
        warnings.extend(without_effect.iter().map(ToString::to_string));
        warnings.extend(windows_unused(spec, &communicator, &result));
        warnings.extend(outside_range(spec));
        let (mut recorded, mut telemetry) = (None, None);
        if let (Some(index), Some(planned)) = (traced, kept) {
            let planned = (budget, &planned);
            let (one, series) = record(spec, (planned, outputs), &mut result, index)?;
            (recorded, telemetry) = (Some(one), series);
        }
        let uplinks = uplinks(&spec.topology, climbs);
        result.bottleneck = bottleneck(&result, uplinks);
        Ok(JobRun {
            variant: Variant {
                metrics: Metrics {
                    uplinks,
                    ..Metrics::of_collective(&result)
                },
                job: JobResult::Collective(Box::new(result)),
                ..variant
            },
            recorded,
            telemetry,
            warnings,
            counted: None,
        })
    }
}

/// Whether a plan sends over links between switches.
fn climbs_in(topology: &Topology, planned: &Planned) -> bool {
    let mut hops = planned.plan.routes.iter().flat_map(|route| route.hops);
    hops.any(|hop| is_uplink(topology, hop.link))
}

/// That faults begin only when all is over.
fn too_late(faults: &Faults, latest: Time) -> Vec<String> {
    let late = faults.not_before(latest).map(|fault| {
        format!(
            "{fault}: not before all is over, after {}; times count from the start of each size",
            latest.human()
        )
    });
    late.collect()
}

/// What limits it, and that it leaves links between switches idle, in a sentence each.
fn bottleneck(result: &CollectiveResult, uplinks: Option<Uplinks>) -> String {
    let sentence = result.shown_row().and_then(|row| {
        let causes = row.causes.as_ref()?;
        Some(cause::sentence(row.bytes, causes, &row.fault_costs))
    });
    let idle = uplinks.and_then(|uplinks| uplinks.sentence());
    sentence
        .into_iter()
        .chain(idle)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Why no kernel on symmetric windows was taken at any size, if that was asked for.
fn windows_unused(
    spec: &ValidCollective,
    communicator: &Communicator<'_>,
    result: &CollectiveResult,
) -> Option<String> {
    let ordinary = spec.forced.algorithm.is_none() && spec.msccl.is_none();
    if spec.env.registered != Some(Registration::Symmetric) || !ordinary {
        return None;
    }
    let taken = |algo: &str| algo.starts_with(Algorithm::SYMMETRIC_PREFIX);
    if result.rows.iter().any(|row| taken(&row.algo)) {
        return None;
    }
    let size = *spec.sizes.last()?;
    let why = communicator.no_symmetric_kernel(spec.collective, size)?;
    Some(format!(
        "buffers are registered as symmetric windows, but NCCL takes its ordinary algorithms: {why}"
    ))
}

/// The results as far as they are.
fn view<'a>(
    summary: &'a Summary,
    variant: &'a Variant,
    result: &'a CollectiveResult,
) -> CollectiveView<'a> {
    CollectiveView {
        summary,
        variant,
        result,
    }
}

/// Whether the largest size fits into memory: what its plan takes, and what its simulation does.
fn expect(
    (spec, recorded): (&ValidCollective, bool),
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
    let parts = collective_footprint((spec, recorded), planned, budget);
    Ok(budget.memory.expect_all(&parts)?)
}

/// What is known of a variant before anything is simulated.
fn described(name: &str, spec: &ValidCollective, communicator: &Communicator<'_>) -> Variant {
    Variant {
        name: name.to_owned(),
        topology: spec.topology.name.clone(),
        topology_title: spec.topology.title.clone(),
        nodes: communicator.nodes(),
        gpus: communicator.ranks(),
        differs: Vec::new(),
        no_effect: None,
        search: None,
        metrics: Metrics::default(),
        job: JobResult::Collective(Box::new(nothing_yet(spec, communicator))),
    }
}

/// Results without a row.
fn nothing_yet(spec: &ValidCollective, communicator: &Communicator<'_>) -> CollectiveResult {
    CollectiveResult {
        gpus_per_node: communicator.gpus_per_node(),
        ranks: communicator.ranks(),
        collective: spec.collective.name().to_owned(),
        rows: Vec::with_capacity(spec.sizes.len()),
        traced_row: None,
        bottleneck: String::new(),
        attribution: None,
        links: Vec::new(),
        recorded: None,
        faults: spec.faults.told().collect(),
        decisions: Vec::new(),
        better_choice: None,
        beyond_tables: Vec::new(),
        falls: Vec::new(),
    }
}

/// The row of a size that moves nothing.
pub(super) fn nothing() -> Row {
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
    spec: &ValidCollective,
    (budget, communicator, cuts): (&Budget, &Communicator<'_>, &OnceLock<Cuts>),
    planned: &Planned,
    (prices, size): (&mut Prices<'_>, u64),
) -> Result<(Row, Time), ScenarioError> {
    let topology = &spec.topology;
    let timing = timing_of(spec, budget);
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
        || {
            disturbed_time_of(
                topology,
                &planned.plan,
                faults,
                timing,
                &mut steps_of(budget),
            )
        },
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

/// Says how far a simulation is.
fn steps_of(budget: &Budget) -> impl FnMut(u64, u64) {
    let counting = budget.work.part("steps simulated", 0);
    move |begun, steps| {
        counting.count(steps);
        counting.reach(begun);
    }
}

/// How the sizes of a collective are timed.
pub(super) fn timing_of<'b>(spec: &ValidCollective, budget: &'b Budget) -> Timing<'b> {
    Timing {
        isolated: spec.isolated,
        exact_full: budget.exact_full,
        threads: budget.threads as u32,
        memory: Some(&budget.memory),
        stop: Some(&budget.stop),
    }
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
    spec: &ValidCollective,
    ((budget, planned), outputs): ((&Budget, &Planned), &Outputs),
    result: &mut CollectiveResult,
    index: usize,
) -> Result<(Recording, Option<Telemetry>), ScenarioError> {
    let topology = &spec.topology;
    let conditions = Conditions::new(&planned.plan, &spec.faults);
    let mut steps = steps_of(budget);
    let options = Options {
        operations: 1,
        memory: Some(&budget.memory),
        stop: Some(&budget.stop),
        disturbances: conditions.disturbances(),
        progress: Some(&mut steps),
        ..Options::default()
    };
    let plan = conditions.plan.as_ref();
    let limits = Limits::of(plan, budget.exact_full);
    let _held = budget
        .memory
        .hold(Purpose::Record, recorded_footprint(plan, limits))?;
    let left = |link, span| rate_left(&spec.faults, topology, link, span);
    let rates = conditions.rates(topology);
    let recorded = fabricsim_record::record((topology, plan), rates, options, limits, &left);
    let (mut record, outcome) = recorded.map_err(|source| stopped(spec, planned, source))?;
    let telemetry = outputs.has(Output::Telemetry).then(|| {
        // As of a job at once with others: the operation's buffer, and what a process takes.
        let taken = processes().taken().get().saturating_add(planned.bytes);
        let wanted = Wanted {
            topology,
            gpus: &plan.gpus,
            sample: outputs.sample(),
            memory: &vec![Some(Bytes::new(taken)); plan.gpus.len()],
        };
        record.telemetry(wanted, (plan, &outcome))
    });
    let telemetry = telemetry.transpose()?;
    let end = outcome.end();
    record.timeline.faults = disturb::spans(&spec.faults, end);
    record.timeline.operation = result.rows.get(index).map(|row| Communication {
        movement: movement_of(spec.collective),
        communicator: CommunicatorKind::Collective,
        group: String::new(),
        ranks: (0..result.ranks).collect(),
        algorithm: row.algo.clone(),
        protocol: row.proto.clone(),
    });
    result.traced_row = Some(index);
    let causes = result.rows.get(index).and_then(|row| row.causes.as_ref());
    record.attribution.critical_path = causes.map(path_parts).unwrap_or_default();
    result.attribution = Some(record.attribution);
    result.links = record.links;
    result.recorded = record.recorded;
    let recording = Recording::Collective {
        timeline: record.timeline,
        topology_svg: drawing(spec, plan, &outcome, &left),
    };
    Ok((recording, telemetry))
}

/// The row's critical path, as parts of the page's bars; nothing if it was too long to remember.
fn path_parts(causes: &Causes) -> Vec<Part> {
    let whole = causes.total().picos().max(1) as f64;
    let told = causes.parts.iter();
    let told = told.filter(|_| causes.method == Method::CriticalPath);
    let part = |part: &CausePart| Part {
        what: label(&part.cause),
        kind: PartKind::from(&part.cause),
        time: part.time(),
        fraction: part.time().picos() as f64 / whole,
    };
    told.map(part).collect()
}

/// The machine, coloured by how busy its links were, with what is faulty marked.
fn drawing(spec: &ValidCollective, plan: &Plan, outcome: &Outcome, left: RateLeft<'_>) -> String {
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
            numbered: false,
            title: None,
            faulty: (!spec.faults.is_empty()).then_some(faulty),
        },
    )
}
