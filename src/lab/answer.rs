//! What comes of a state, told as lines of JSON while it is worked out: the point that was asked for,
//! what it is made of, then the rest of the curve.

use crate::queue::Run;
use crate::state::{Asked, Refusal, State, refusal};
use fabricsim_budget::{Budget, Stop};
use fabricsim_experiment::{
    Machines, Scenario, ScenarioError, Silent, ValidExperiment, ValidJob, ValidVariant, Watch, run,
    validate_on,
};
use fabricsim_report::cause::sentence;
use fabricsim_report::comparison::waterfall_bars;
use fabricsim_report::html::{Parts, collective_parts, tiles, training_parts};
use fabricsim_report::numbers::{micros, seconds};
use fabricsim_report::record::Row;
use fabricsim_report::{CollectiveView, JobResult, Output, Outputs, Results, Waterfall};
use fabricsim_topology::{DeviceKind, Topology};
use serde::Serialize;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// NICs that the page offers to slow down.
const MAX_NICS: usize = 64;

/// A line of an answer.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// What the state is, and where its curve has points; the one that was asked for first.
    Begin {
        title: String,
        axis: &'static str,
        points: Vec<u64>,
        gpus: usize,
        nodes: usize,
        nics: Vec<String>,
        warnings: Vec<String>,
    },
    /// A point of the curve.
    Point(Point),
    /// What the point that was asked for rests on.
    Detail {
        sentence: String,
        tiles: String,
        time: String,
        timeline: String,
        drawing: String,
        tables: String,
        /// Algorithms that NCCL does not consider here, and why.
        excluded: Vec<(String, String)>,
    },
    /// Two states beside each other.
    Compared {
        answer: String,
        html: String,
        waterfall: Vec<Waterfall>,
    },
    /// It has no results.
    Refused { control: String, message: String },
    /// A point of the curve that has none.
    Missing { at: u64, message: String },
    /// Nothing more comes, and why.
    GivenUp { message: String },
}

impl Event {
    /// As a line of an answer.
    pub(crate) fn line(&self) -> Vec<u8> {
        // Numbers that JSON cannot hold become null.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// A point of the curve.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    at: u64,
    time_us: f64,
    /// Of a collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    busbw_gbs: Option<f64>,
    /// The time, for people.
    number: String,
    /// What is said of it.
    sentence: String,
    /// The numbers beside it.
    #[serde(skip_serializing_if = "String::is_empty")]
    tiles: String,
}

/// Where an answer goes.
#[derive(Clone)]
pub(crate) struct Out(pub(crate) UnboundedSender<Vec<u8>>);

impl Out {
    fn tell(&self, event: &Event) {
        // Nobody may listen any more.
        let _ = self.0.send(event.line());
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        let Refusal { control, message } = refusal;
        self.tell(&Event::Refused { control, message });
    }
}

/// What all answers share.
pub(crate) struct Bench {
    pub(crate) budget: Budget,
    pub(crate) machines: Machines,
}

/// Answers a state: the point itself, and leaves those of its curve that the page does not `have` to be
/// done after.
pub(crate) fn answer(bench: &Arc<Bench>, (state, have): (&State, &[u64]), work: &Run, out: &Out) {
    let asked = match state.asked() {
        Ok(asked) => Arc::new(asked),
        Err(refusal) => return out.refuse(refusal),
    };
    let read = asked
        .shown(&bench.machines)
        .and_then(|scenario| bench.valid(scenario));
    let experiment = match read {
        Ok(experiment) => experiment,
        Err(error) => return out.refuse(refusal(&error)),
    };
    out.tell(&begin(&asked, &experiment));
    let rest = || leave_curve(bench, (&asked, have), work, out);
    let shown = bench.shown(&experiment, asked.at, (work.stop(), out), &rest);
    if let Err(error) = shown.filter_stopped(work.stop()) {
        out.refuse(refusal(&error));
    }
}

/// Leaves the points of the curve to be done after, those that the page does not `have`.
fn leave_curve(bench: &Arc<Bench>, (asked, have): (&Arc<Asked>, &[u64]), work: &Run, out: &Out) {
    for at in asked.others().into_iter().filter(|at| !have.contains(at)) {
        let (bench, asked, out) = (Arc::clone(bench), Arc::clone(asked), out.clone());
        work.then(Box::new(move |work| {
            let done = bench.point(&asked, at, (work.stop(), &out));
            if let Err(error) = done.filter_stopped(work.stop()) {
                let message = error.to_string();
                out.tell(&Event::Missing { at, message });
            }
        }));
    }
}

/// Sets two states beside each other: what makes the difference, as `fabricsim compare` tells it.
pub(crate) fn compare(bench: &Bench, (a, b): (&State, &State), work: &Run, out: &Out) {
    let both = [a, b].map(|state| {
        let asked = state.asked()?;
        let scenario = asked.scenario(asked.at, &bench.machines);
        scenario.map_err(|error| refusal(&error))
    });
    let (first, second) = match both {
        [Ok(first), Ok(second)] => (first, second),
        [Err(refusal), _] | [_, Err(refusal)] => return out.refuse(refusal),
    };
    let compared = beside(&first, &second)
        .and_then(|scenario| bench.valid(scenario))
        .and_then(|experiment| {
            let budget = bench.budget_until(work.stop());
            run(&experiment, &budget, &Outputs::of([]), &mut Silent)
        });
    match compared {
        Ok(Results { summary, .. }) => out.tell(&Event::Compared {
            html: waterfall_bars(&summary.waterfall).into_string(),
            answer: summary.answer,
            waterfall: summary.waterfall,
        }),
        Err(_) if work.stop().is_now() => {}
        Err(error) => out.refuse(Refusal::new("", error.to_string())),
    }
}

/// The second scenario as a variant of the first one.
fn beside(first: &Scenario, second: &Scenario) -> Result<Scenario, ScenarioError> {
    let own = |place: &str, none: Value| second.json.get(place).cloned().unwrap_or(none);
    let set = json!({
        "topology": own("topology", Value::Null),
        "nodes": own("nodes", Value::Null),
        "gpus_per_node": own("gpus_per_node", Value::Null),
        "job": own("job", Value::Null),
        "environment": own("environment", json!({})),
        "faults": own("faults", json!([])),
    });
    let variants = json!([{ "name": "A" }, { "name": "B", "set": set }]);
    first.with("variants", variants)
}

/// The scenario of a state, for `fabricsim run`.
pub(crate) fn export(bench: &Bench, state: &State) -> Result<String, Refusal> {
    let asked = state.asked()?;
    let scenario = asked.exported(&bench.machines);
    let scenario = scenario.map_err(|error| refusal(&error))?;
    let text = serde_json::to_string_pretty(&scenario.json);
    bench.valid(scenario).map_err(|error| refusal(&error))?;
    text.map_err(|error| Refusal::new("", error.to_string()))
}

/// What an ended run leaves is nothing to be told.
trait FilterStopped {
    fn filter_stopped(self, stop: &Stop) -> Self;
}

impl FilterStopped for Result<(), ScenarioError> {
    fn filter_stopped(self, stop: &Stop) -> Self {
        if stop.is_now() { Ok(()) } else { self }
    }
}

fn begin(asked: &Asked, experiment: &ValidExperiment) -> Event {
    let mut points = vec![asked.at];
    points.extend(asked.others());
    let topology = experiment
        .variants
        .first()
        .map(|variant| variant.topology());
    Event::Begin {
        title: experiment.title.clone(),
        axis: asked.axis.name(),
        points,
        gpus: experiment.variants.first().map_or(0, gpus),
        nodes: topology.map_or(0, |topology| topology.nodes.len()),
        nics: topology.map(nics).unwrap_or_default(),
        warnings: experiment.warnings(),
    }
}

fn gpus(variant: &ValidVariant) -> usize {
    match &variant.job {
        ValidJob::Collective(job) => job.gpus.len(),
        _ => variant.topology().gpus().count(),
    }
}

fn nics(topology: &Topology) -> Vec<String> {
    let nics = topology
        .devices()
        .filter(|(_, device)| device.kind == DeviceKind::Nic);
    let nics = nics.take(MAX_NICS);
    nics.map(|(nic, _)| topology.device_name(nic)).collect()
}

impl Bench {
    fn valid(&self, scenario: Scenario) -> Result<ValidExperiment, ScenarioError> {
        validate_on(&self.machines, scenario, Path::new(""))
    }

    fn budget_until(&self, stop: &Stop) -> Budget {
        Budget {
            stop: stop.clone(),
            ..self.budget.beside_others(self.budget.threads)
        }
    }

    /// A point that is only a part of the curve.
    fn point(&self, asked: &Asked, at: u64, to: (&Stop, &Out)) -> Result<(), ScenarioError> {
        let experiment = self.valid(asked.scenario(at, &self.machines)?)?;
        let then = None;
        let mut teller = Teller { at, to, then };
        let alone = self.budget_until(to.0).beside_others(1);
        let results = run(&experiment, &alone, &Outputs::of([]), &mut teller)?;
        teller.step(&results);
        if let Some(why) = failure(&results) {
            let message = why.to_owned();
            to.1.tell(&Event::Missing { at, message });
        }
        Ok(())
    }

    /// The point that was asked for, and what it rests on; `then` is called as soon as it is told, when
    /// not all processors are needed for it any more.
    fn shown(
        &self,
        experiment: &ValidExperiment,
        at: u64,
        to: (&Stop, &Out),
        then: &dyn Fn(),
    ) -> Result<(), ScenarioError> {
        let then = Some(then);
        let mut teller = Teller { at, to, then };
        let outputs = Outputs::of([Output::Timeline]);
        let budget = self.budget_until(to.0);
        let results = run(experiment, &budget, &outputs, &mut teller)?;
        teller.step(&results);
        if let Some(why) = failure(&results).filter(|_| !to.0.is_now()) {
            to.1.refuse(Refusal::new("", why));
        }
        match detail(&results) {
            Ok(Some(detail)) => to.1.tell(&detail),
            Ok(None) => {}
            Err(error) => to.1.refuse(Refusal::new("", error.to_string())),
        }
        Ok(())
    }
}

/// Algorithms of which NCCL considers no protocol.
fn excluded(view: CollectiveView<'_>) -> Vec<(String, String)> {
    let mut excluded: Vec<(String, String)> = Vec::new();
    let all = view.result.decisions.iter().flat_map(|d| &d.candidates);
    for candidate in all.clone() {
        let mut same = all.clone().filter(|other| other.algo == candidate.algo);
        let known = excluded.iter().any(|(algo, _)| *algo == candidate.algo);
        if let Some(why) = &candidate.excluded
            && !known
            && same.all(|other| other.excluded.is_some())
        {
            excluded.push((candidate.algo.clone(), why.clone()));
        }
    }
    excluded
}

/// Why a job has no results.
fn failure(results: &Results) -> Option<&str> {
    let variant = results.summary.variants.first()?;
    variant.job.failure()
}

fn detail(results: &Results) -> Result<Option<Event>, fabricsim_report::ReportError> {
    let summary = &results.summary;
    let Some(variant) = summary.variants.first() else {
        return Ok(None);
    };
    let parts = match (summary.only_collective(), &variant.job) {
        (Some(view), _) => match results.collective_record(&variant.name) {
            Some(record) => collective_parts(view, record)?,
            None => Parts::default(),
        },
        (None, JobResult::Training(_)) => {
            let timeline = results
                .job_timelines()
                .first()
                .map(|(_, timeline)| *timeline);
            training_parts(variant, timeline)?
        }
        _ => return Ok(None),
    };
    Ok(Some(Event::Detail {
        sentence: summary.answer.clone(),
        tiles: parts.tiles.into_string(),
        time: parts.time.into_string(),
        timeline: parts.timeline.into_string(),
        drawing: parts.drawing.into_string(),
        tables: parts.tables.into_string(),
        excluded: summary.only_collective().map(excluded).unwrap_or_default(),
    }))
}

/// Tells of a run while it goes on, and ends it when nobody waits for it any more.
struct Teller<'a> {
    at: u64,
    to: (&'a Stop, &'a Out),
    /// Called once, after the point.
    then: Option<&'a dyn Fn()>,
}

impl Teller<'_> {
    /// The step of a training job.
    fn step(&mut self, results: &Results) {
        self.tell_step(results);
        self.go_on();
    }

    fn go_on(&mut self) {
        if let Some(then) = self.then.take() {
            then();
        }
    }

    fn tell_step(&self, results: &Results) {
        let Some(variant) = results.summary.variants.first() else {
            return;
        };
        let Some(step) = fabricsim_report::training::ran(variant) else {
            return;
        };
        self.to.1.tell(&Event::Point(Point {
            at: self.at,
            time_us: step.step_s * 1e6,
            busbw_gbs: None,
            number: seconds(step.step_s),
            sentence: results.summary.answer.clone(),
            tiles: String::new(),
        }));
    }
}

impl Watch for Teller<'_> {
    fn row(&mut self, _view: CollectiveView<'_>, row: &Row) -> io::Result<()> {
        let (stop, out) = self.to;
        out.tell(&Event::Point(point(self.at, row)));
        self.go_on();
        match stop.is_now() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

fn point(at: u64, row: &Row) -> Point {
    let causes = row.causes.as_ref();
    let said = causes.map(|causes| sentence(row.bytes, causes, &row.fault_costs));
    Point {
        at,
        time_us: row.time_us,
        busbw_gbs: Some(row.busbw_gbs),
        number: micros(row.time_us),
        sentence: said.unwrap_or_else(|| row.bottleneck.clone()),
        tiles: tiles(row).into_string(),
    }
}
