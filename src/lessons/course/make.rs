//! From a lesson's file to what its page plays.

use super::catalogue::{LessonFile, lessons};
use super::checks::check;
use super::spec::{ChangeSpec, FigureSpec, LessonSpec, PictureSpec};
use crate::explained::{ABSTRACT, time};
use crate::simulated::{Drawings, heat, simulated};
use crate::{ExplainAlgorithm, ExplainSpec, LessonError, steps_scene};
use fabricsim_budget::Budget;
use fabricsim_collective::Collective;
use fabricsim_experiment::catalogue;
use fabricsim_experiment::sweep::with_values;
use fabricsim_experiment::{Machines, Scenario, parse};
use fabricsim_report::Metrics;
use fabricsim_report::lesson::{Figure, InCourse, Knob, Lesson, Position, Scene, Shown};
use fabricsim_report::numbers::three_digits;
use fabricsim_units::{Bandwidth, Bytes, Time};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What pictures of machines leave out.
const SIMULATED: &str = "Simulated as `fabricsim run` does it, from the same scenario.";

/// Simulates what a lesson of the course shows.
///
/// # Errors
/// A file that is wrong (a bug), or a simulation that fails.
pub fn make_lesson(file: &LessonFile, budget: &Budget) -> Result<Lesson, LessonError> {
    let of_lesson = |source| LessonError::File {
        name: file.name.to_string(),
        source,
    };
    let spec: LessonSpec = serde_json::from_str(&file.text).map_err(of_lesson)?;
    let mut drawings = Drawings::default();
    let mut unit = "ns".to_owned();
    let mut positions = Vec::new();
    for position in &spec.knob.positions {
        let mut scenes = Vec::new();
        let mut figures = Vec::new();
        for scene in scenes_of(&spec) {
            let (scene, metrics) = played(&spec, &scene, position, (budget, &mut drawings))?;
            let figure = match (&spec.knob.figure, metrics) {
                (Some(wanted), Some(metrics)) => {
                    unit.clone_from(&wanted.unit);
                    figure(&scene, wanted, &metrics)?
                }
                _ => time(&scene),
            };
            figures.push(figure);
            scenes.push(scene);
        }
        positions.push(Position {
            label: position.name.clone(),
            figures,
            scenes,
        });
    }
    let check = check(&spec.check, &unit, &positions)?;
    let figure = spec.knob.figure.as_ref();
    let leaves_out = match spec.picture {
        PictureSpec::Steps(_) => ABSTRACT,
        PictureSpec::Scenario(_) | PictureSpec::Streams { .. } => SIMULATED,
    };
    Ok(Lesson {
        title: spec.title,
        section: file.section.map(str::to_owned),
        course: in_course(file),
        question: Some(spec.question),
        knob: Knob {
            name: spec.knob.name,
            shown: spec.knob.shown.min(positions.len().saturating_sub(1)),
            stacked: spec.knob.stacked,
            figure: figure.map_or_else(|| "time".to_owned(), |f| f.name.clone()),
            unit,
            positions,
        },
        see: spec.see,
        check: Some(check),
        drawings: drawings.all,
        bare: drawings.bare,
        heat: heat(),
        leaves_out: leaves_out.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Where a lesson of the course is in it.
fn in_course(file: &LessonFile) -> Option<InCourse> {
    file.section?;
    let all: Vec<&LessonFile> = lessons().collect();
    let at = all.iter().position(|known| known.name == file.name)?;
    let beside = |at: Option<usize>| {
        let known = all.get(at?)?;
        Some((known.name.to_string(), known.headline()?.0))
    };
    Some(InCourse {
        number: at + 1,
        of: all.len(),
        previous: beside(at.checked_sub(1)),
        next: beside(Some(at + 1)),
    })
}

/// The scenes of each position; one without a name of its own, if the file has none.
fn scenes_of(spec: &LessonSpec) -> Vec<ChangeSpec> {
    if spec.scenes.is_empty() {
        return vec![ChangeSpec::default()];
    }
    spec.scenes.clone()
}

/// A scene at a position of the knob. Of algorithms by themselves there are no metrics.
fn played(
    spec: &LessonSpec,
    scene: &ChangeSpec,
    position: &ChangeSpec,
    (budget, drawings): (&Budget, &mut Drawings),
) -> Result<(Scene, Option<Metrics>), LessonError> {
    let mut set = scene.set.clone();
    set.extend(position.set.clone());
    set.extend(position.of.get(&scene.name).cloned().unwrap_or_default());
    let (base, shown) = match &spec.picture {
        PictureSpec::Steps(base) => {
            let mut fields = base.clone();
            fields.extend(set);
            let mut played = steps_scene(&steps_spec(fields)?)?;
            if !scene.name.is_empty() {
                played.name.clone_from(&scene.name);
            }
            return Ok((played, None));
        }
        PictureSpec::Scenario(base) => (base, Shown::default()),
        PictureSpec::Streams {
            ranks,
            only,
            first,
            scenario,
        } => {
            let (streams, first) = (only, *first);
            // A part is as long as it is said to be, whatever is turned.
            if first.is_some() && spec.knob.figure.is_none() {
                return Err(LessonError::PartWithoutFigure);
            }
            let shown = Shown {
                ranks,
                streams,
                first,
            };
            (scenario, shown)
        }
    };
    let scenario = scenario(base, &set)?;
    let ran = simulated(scenario, &scene.name, shown, budget, drawings)?;
    Ok((ran.scene, Some(ran.metrics)))
}

/// A scenario: written out, or a shipped one by its name, with changes.
fn scenario(base: &Value, set: &BTreeMap<String, Value>) -> Result<Scenario, LessonError> {
    let origin = "the lesson's scenario";
    let json = match base {
        Value::String(name) => {
            let mut json = parse(catalogue::text(name)?, name, &[])?.json;
            // One run is one scene.
            if let Some(fields) = json.as_object_mut() {
                fields.remove("variants");
                fields.remove("baseline");
            }
            json
        }
        written => written.clone(),
    };
    let set: Vec<(String, Value)> = set.clone().into_iter().collect();
    let site = (Path::new(""), &Machines::default());
    Ok(with_values(&json, origin, &set, site)?)
}

/// An algorithm on an abstract machine, as a lesson's file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepsSpec {
    collective: Collective,
    algorithm: String,
    ranks: u32,
    #[serde(default)]
    nodes: Option<u32>,
    #[serde(default)]
    size: Option<Bytes>,
    #[serde(default)]
    chunk: Option<Bytes>,
    #[serde(default)]
    latency: Option<Time>,
    #[serde(default)]
    rate: Option<Bandwidth>,
}

fn steps_spec(fields: BTreeMap<String, Value>) -> Result<ExplainSpec, LessonError> {
    let fields = Value::Object(fields.into_iter().collect());
    let steps: StepsSpec = serde_json::from_value(fields).map_err(LessonError::Steps)?;
    let algorithm = ExplainAlgorithm::named(&steps.algorithm)
        .ok_or_else(|| LessonError::Algorithm(steps.algorithm.clone()))?;
    Ok(ExplainSpec {
        collective: steps.collective,
        algorithm: Some(algorithm),
        file: None,
        ranks: steps.ranks,
        nodes: steps.nodes,
        bytes: steps.size.map(Bytes::get),
        chunk: steps.chunk.map(Bytes::get),
        latency: steps.latency.unwrap_or(ExplainSpec::LATENCY),
        rate: steps.rate.unwrap_or(ExplainSpec::RATE),
    })
}

/// A number of a run, by its key.
fn figure(scene: &Scene, wanted: &FigureSpec, metrics: &Metrics) -> Result<Figure, LessonError> {
    let row = serde_json::to_value(metrics).map_err(LessonError::Steps)?;
    let value = row.get(&wanted.key).and_then(Value::as_f64);
    let value = value.ok_or_else(|| LessonError::Metric(wanted.key.clone()))? * wanted.times;
    Ok(Figure {
        of: scene.name.clone(),
        value,
        text: format!("{} {}", three_digits(value), wanted.unit)
            .trim_end()
            .to_owned(),
    })
}
