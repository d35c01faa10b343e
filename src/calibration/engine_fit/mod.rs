//! Fitting the host terms of engines to published runs.
//!
//! Each engine has six figures (`terms.rs`), the same for all systems, models and sizes. From where they stand, one
//! after the other is moved to where runs are nearest on its ladder of values, of which every second is tried, then all
//! by steps, and two against each other where runs hardly tell them apart. Rows are a few of each group (GPU, engine,
//! model), and groups count alike (`runs.rs`). Then each GPU is left out in turn, and each engine is predicted with the
//! figures of the others.

mod runs;
mod terms;
#[cfg(test)]
mod tests;

use crate::serving::engine::{self, Row};
use crate::serving::{ENGINE_BENCHMARKS, ServingTable};
use fabricsim_budget::Budget;
use fabricsim_experiment::{JobSpec, Machines};
use fabricsim_report::training::median;
use fabricsim_topology::ServingModel;
use fabricsim_workload::serving::policy::PolicyKind;
use fabricsim_workload::serving::spec::ServingSpec;
use runs::{FEWEST, Ratios, Runs};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use terms::{Point, Term};

/// What a fit of engines did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineFitLog {
    /// What wrote it.
    pub comment: String,
    /// Engines.
    pub engines: Vec<FittedEngine>,
    /// How far off groups are: fitted on all, and with what they are of left out.
    pub errors: Vec<EngineErrors>,
    /// Simulated runs.
    pub simulated: usize,
}

/// An engine that was fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedEngine {
    /// Its name.
    pub name: String,
    /// Groups, and rows of them, that took part.
    pub groups: usize,
    /// Rows of them that took part.
    pub rows: usize,
    /// The objective before and after.
    pub objective: (f64, f64),
    /// Figures before and after, in microseconds or as shares.
    pub values: BTreeMap<String, (f64, f64)>,
}

/// Median errors over groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineErrors {
    /// What is left out of the fit.
    pub left_out: String,
    /// Groups of which times are predicted.
    pub groups: usize,
    /// Of times to the first token.
    pub ttft: Option<f64>,
    /// Of times per token.
    pub tpot: Option<f64>,
    /// Of tokens per second.
    pub throughput: Option<f64>,
}

/// So many rows of a group take part, spread over its settings.
const ROWS: usize = 4;

/// Runs that generate more tokens all together take long to simulate and tell nothing that others do not.
const MAX_TOKENS: f64 = 700_000.0;

/// So often at most all figures are moved.
const PASSES: usize = 3;

/// A move that gains less than this, about half a percent, is no gain: a few rows of a group tell no more than that, and
/// figures that the rows hardly know would wander to the ends of their ladders for less.
const NOTICEABLE: f64 = 2e-3;

/// Engines that are fitted; static batching has no server.
const ENGINES: [PolicyKind; 3] = [PolicyKind::Vllm, PolicyKind::Sglang, PolicyKind::Trtllm];

/// Fits `model` to tables; `tell` hears of each engine.
///
/// # Errors
/// No table has a run of an engine that can be simulated.
pub fn fit_engines(
    model: &ServingModel,
    tables: &[ServingTable],
    budget: &Budget,
    tell: &dyn Fn(&str),
) -> Result<(ServingModel, EngineFitLog), String> {
    let of_engines = tables.iter().filter(|t| t.kind == ENGINE_BENCHMARKS);
    let of_engines: Vec<&ServingTable> = of_engines.collect();
    let (rows, _) = engine::rows(&of_engines);
    let chosen = chosen(rows.iter().map(|(_, row)| row));
    if chosen.is_empty() {
        return Err("no row of an engine can be simulated".to_owned());
    }
    let machines = Machines::default();
    let mut fitted = model.clone();
    let mut log = EngineFitLog {
        comment: "written by `fabricsim fit --serving`".to_owned(),
        engines: Vec::new(),
        errors: Vec::new(),
        simulated: 0,
    };
    let mut found: Vec<(Runs<'_>, Point, BTreeSet<&str>)> = Vec::new();
    for policy in ENGINES {
        let of = chosen.iter().copied();
        let of: Vec<&Row> = of.filter(|row| policy_of(row) == Some(policy)).collect();
        let Some(engine) = model.engines.get(policy.name()) else {
            continue;
        };
        if of.is_empty() {
            continue;
        }
        let mut runs = Runs::new(of, &machines, budget);
        let all: Vec<usize> = (0..runs.rows.len()).collect();
        let start = terms::own(engine);
        let (point, objective) = search(&mut runs, start, &all);
        let groups: BTreeSet<&str> = runs.rows.iter().map(|row| row.group.as_str()).collect();
        let values = Term::ALL.iter().zip(terms::values(&point));
        let values = values.map(|(term, after)| (term.name().to_owned(), (term.of(engine), after)));
        let done = FittedEngine {
            name: policy.name().to_owned(),
            groups: groups.len(),
            rows: all.len(),
            objective,
            values: values.collect(),
        };
        tell(&format!(
            "{}: {} rows of {} groups, objective {:.4} -> {:.4}, {:?}",
            done.name, done.rows, done.groups, objective.0, objective.1, done.values
        ));
        let source = format!(
            "fitted by `fabricsim fit --serving` to {} rows of {} groups of published runs of this engine",
            done.rows, done.groups
        );
        if let Some(engine) = fitted.engines.get_mut(policy.name()) {
            terms::write(engine, &point, &source);
        }
        log.engines.push(done);
        let gpus = runs.rows.iter().map(|row| row.card.name).collect();
        found.push((runs, point, gpus));
    }
    log.errors = errors(&mut found, tell);
    log.simulated = found.iter().map(|(runs, ..)| runs.simulated).sum();
    Ok((fitted, log))
}

fn serving(row: &Row) -> Option<&ServingSpec> {
    match &row.scenario.job {
        JobSpec::Serving(serving) => Some(serving),
        _ => None,
    }
}

fn policy_of(row: &Row) -> Option<PolicyKind> {
    Some(serving(row)?.engine.policy)
}

/// A few rows of each group: in order of their settings, at equal distances.
fn chosen<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<&'r Row> {
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let of_engine = policy_of(row).is_some_and(|policy| ENGINES.contains(&policy));
        let requests = serving(row).and_then(|job| job.requests);
        let tokens =
            requests.map_or(0.0, f64::from) * f64::from(row.run.output_tokens.unwrap_or(1));
        if of_engine && !row.run.queue_limited && tokens <= MAX_TOKENS {
            groups.entry(&row.group).or_default().push(row);
        }
    }
    let mut chosen = Vec::new();
    for mut rows in groups.into_values().filter(|rows| rows.len() >= FEWEST) {
        let order = |row: &&Row| {
            let rate = row.run.request_rate.map(|rate| (rate * 1e3) as u64);
            (
                row.run.input_tokens,
                row.run.concurrency,
                rate,
                row.gpus,
                row.run.output_tokens,
            )
        };
        rows.sort_by_key(order);
        let count = rows.len().min(ROWS);
        let at = |k: usize| rows[(2 * k + 1) * rows.len() / (2 * count)];
        chosen.extend((0..count).map(at));
    }
    chosen
}

/// Where runs are nearest, from `start`, and the objective there and where it ends. A term alone is tried everywhere on
/// every second step of its ladder, as a little of it may change nothing; then all are moved by steps.
fn search(runs: &mut Runs<'_>, start: Point, rows: &[usize]) -> (Point, (f64, f64)) {
    let before = runs.objective(&start, rows);
    let (mut point, mut best) = (start, before);
    for term in 0..Term::ALL.len() {
        for place in (0..Term::ALL[term].ladder().len()).step_by(2) {
            let mut moved = point;
            moved[term] = place;
            let now = runs.objective(&moved, rows);
            if now < best - NOTICEABLE {
                (point, best) = (moved, now);
            }
        }
    }
    let after = refine(runs, rows, &mut point, best);
    (point, (before, after))
}

/// Moves terms by steps, and two against each other, as long as runs come nearer; the objective there.
fn refine(runs: &mut Runs<'_>, rows: &[usize], point: &mut Point, mut best: f64) -> f64 {
    for _ in 0..PASSES {
        let begun = best;
        for term in 0..Term::ALL.len() {
            for up in [true, false] {
                while attempt(runs, rows, point, &mut best, &[(term, up)]) {}
            }
        }
        for (term, other) in Term::TRADED {
            for up in [true, false] {
                let moves = [(term as usize, up), (other as usize, !up)];
                while attempt(runs, rows, point, &mut best, &moves) {}
            }
        }
        if begun - best < NOTICEABLE {
            break;
        }
    }
    best
}

/// Whether some steps are better; they are undone if not.
fn attempt(
    runs: &mut Runs<'_>,
    rows: &[usize],
    point: &mut Point,
    best: &mut f64,
    moves: &[(usize, bool)],
) -> bool {
    let mut moved = *point;
    for &(term, up) in moves {
        let last = Term::ALL[term].ladder().len() - 1;
        moved[term] = match up {
            true => (moved[term] + 1).min(last),
            false => moved[term].saturating_sub(1),
        };
    }
    if moved == *point {
        return false;
    }
    let now = runs.objective(&moved, rows);
    let is_better = now < *best - NOTICEABLE;
    if is_better {
        (*point, *best) = (moved, now);
    }
    is_better
}

/// Errors of groups: with all, with each GPU left out of the fit, with the figures of other engines.
fn errors(
    found: &mut [(Runs<'_>, Point, BTreeSet<&str>)],
    tell: &dyn Fn(&str),
) -> Vec<EngineErrors> {
    let mut all = Tally::default();
    let mut gpus: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut without_gpu = Tally::default();
    for (runs, point, of) in found.iter_mut() {
        let rows: Vec<usize> = (0..runs.rows.len()).collect();
        let ratios = runs.ratios(point, &rows);
        all.add(runs, &rows, &ratios);
        for &gpu in of.iter().filter(|_| of.len() > 1) {
            let is_out = |row: &usize| runs.rows[*row].card.name == gpu;
            let (out, kept): (Vec<usize>, Vec<usize>) = rows.iter().copied().partition(is_out);
            let mut other = *point;
            let begun = runs.objective(&other, &kept);
            refine(runs, &kept, &mut other, begun);
            let ratios = runs.ratios(&other, &out);
            gpus.entry(gpu).or_default().add(runs, &out, &ratios);
            without_gpu.add(runs, &out, &ratios);
            tell(&format!("without {gpu}: {:?}", terms::values(&other)));
        }
    }
    let points: Vec<Point> = found.iter().map(|(_, point, _)| *point).collect();
    let mut engines = Tally::default();
    let mut each = Vec::new();
    for (at, (runs, ..)) in found.iter_mut().enumerate() {
        let rows: Vec<usize> = (0..runs.rows.len()).collect();
        let mut own = Tally::default();
        for (_, point) in points.iter().enumerate().filter(|(other, _)| *other != at) {
            let ratios = runs.ratios(point, &rows);
            own.add(runs, &rows, &ratios);
            engines.add(runs, &rows, &ratios);
        }
        let name = runs.rows.first().and_then(|row| policy_of(row));
        each.push((name.map_or("", |policy| policy.name()), own));
    }
    let mut errors = vec![
        all.errors("nothing"),
        without_gpu.errors("each GPU in turn"),
        engines.errors("each engine in turn, which takes the others' figures"),
    ];
    errors.extend(gpus.iter().map(|(gpu, tally)| tally.errors(gpu)));
    errors.extend(each.iter().map(|(name, tally)| tally.errors(name)));
    errors
}

/// Errors of groups, of each quantity.
#[derive(Default)]
struct Tally {
    groups: [Vec<f64>; 3],
}

impl Tally {
    fn add(&mut self, runs: &Runs<'_>, rows: &[usize], ratios: &[Ratios]) {
        for (quantity, errors) in self.groups.iter_mut().enumerate() {
            let groups = runs.groups(rows, ratios, quantity);
            errors.extend(groups.into_values().filter_map(|ratios| {
                let off = ratios.into_iter().map(|ratio| (ratio.exp() - 1.0).abs());
                median(off.collect())
            }));
        }
    }

    fn errors(&self, left_out: &str) -> EngineErrors {
        let [ttft, tpot, throughput] = &self.groups;
        EngineErrors {
            left_out: left_out.to_owned(),
            groups: ttft.len().max(tpot.len()).max(throughput.len()),
            ttft: median(ttft.clone()),
            tpot: median(tpot.clone()),
            throughput: median(throughput.clone()),
        }
    }
}
