//! Scenes of scenarios: what the engine simulates is what is played.

use super::LessonError;
use fabricsim_budget::Budget;
use fabricsim_experiment::{Scenario, Silent, ValidVariant, run, validate};
use fabricsim_report::lesson::{
    BareDrawing, DrawnLabel, Picture, Scene, Shown, lanes_picture, machine_picture,
};
use fabricsim_report::numbers::{micros, micros_mark, size};
use fabricsim_report::record::Timeline;
use fabricsim_report::{JobResult, Metrics, Output, Outputs, Recording, Variant};
use fabricsim_topology::{Topology, draw};
use fabricsim_units::Time;
use std::collections::BTreeMap;
use std::path::Path;

/// Drawings of machines that scenes share, each once.
#[derive(Debug, Default)]
pub(super) struct Drawings {
    pub(super) all: Vec<String>,
    /// The same without words.
    pub(super) bare: Vec<BareDrawing>,
    /// Of each: which of its lines a link, known by its name, belongs to.
    lines: Vec<BTreeMap<String, u32>>,
}

impl Drawings {
    /// The number of a machine's drawing.
    fn of(&mut self, topology: &Topology) -> usize {
        let style = draw::Style {
            numbered: true,
            ..draw::Style::default()
        };
        let (svg, lines) = draw::numbered_svg(topology, &style);
        if let Some(known) = self.all.iter().position(|known| *known == svg) {
            return known;
        }
        let named = (0u32..).zip(&lines).flat_map(|(number, links)| {
            let name = move |&link| (topology.link_name(link), number);
            links.iter().map(name)
        });
        self.lines.push(named.collect());
        self.all.push(svg);
        self.bare.push(bare_drawing(topology));
        self.all.len() - 1
    }
}

fn bare_drawing(topology: &Topology) -> BareDrawing {
    let drawn = draw::bare(topology);
    let label = |label: draw::Label| DrawnLabel {
        at: (label.x, label.y),
        room: label.room,
        centred: label.centred,
        text: label.text,
    };
    let kinds = drawn.kinds.into_iter();
    BareDrawing {
        size: (drawn.width, drawn.height),
        shapes: drawn.shapes,
        labels: drawn.labels.into_iter().map(label).collect(),
        kinds: kinds
            .map(|(kind, colour)| (kind.label().to_owned(), colour.to_owned()))
            .collect(),
    }
}

/// Colours of links, from unused to full.
pub(super) fn heat() -> Vec<String> {
    (0..=20)
        .map(|step| draw::heat(f64::from(step) / 20.0))
        .collect()
}

/// What was simulated: a scene, and the numbers of the run.
pub(super) struct Simulated {
    pub(super) scene: Scene,
    pub(super) metrics: Metrics,
}

/// Runs a scenario with one variant and makes a scene of it. Of a collective links of the machine are
/// shown, of other jobs streams.
pub(super) fn simulated(
    scenario: Scenario,
    name: &str,
    shown: Shown<'_>,
    budget: &Budget,
    drawings: &mut Drawings,
) -> Result<Simulated, LessonError> {
    let experiment = validate(scenario, Path::new(""))?;
    // Drawings show every link, so every worker is simulated.
    let budget = Budget {
        exact_full: true,
        ..budget.clone()
    };
    let outputs = Outputs::of([Output::Timeline, Output::Plots]);
    let results = run(&experiment, &budget, &outputs, &mut Silent)?;
    let (Some(variant), Some(valid)) = (
        results.summary.variants.first(),
        experiment.variants.first(),
    ) else {
        return Err(LessonError::NothingRan);
    };
    let record = results.records.first().map(|record| &record.recorded);
    let (picture, end, part_of) = match record {
        Some(Recording::Collective { timeline, .. }) => {
            let (picture, end) = of_machine(timeline, valid, drawings);
            (picture, end, None)
        }
        Some(Recording::Training(timeline)) => {
            let mut drawn = lanes_picture(timeline, shown)?;
            if matches!(variant.job, JobResult::Serving(_)) {
                drawn.picture.call("forward", "passes with prompts");
                drawn.picture.call("other", "passes that only generate");
            }
            (Picture::Lanes(drawn.picture), drawn.end, drawn.part_of)
        }
        None => return Err(LessonError::NothingRan),
    };
    let (about, took) = match part_of {
        Some(whole) => {
            let (end, whole) = (micros_mark(end.micros()), micros(whole.micros()));
            let part = format!("the first {end} of {whole}");
            (format!("{}, {part}", about(variant)), part)
        }
        None => (about(variant), micros(end.micros())),
    };
    let scene = Scene {
        name: name.to_owned(),
        about,
        end,
        took,
        cost: None,
        overlap: None,
        notes: Vec::new(),
        picture,
    };
    Ok(Simulated {
        scene,
        metrics: variant.metrics.clone(),
    })
}

fn of_machine(
    timeline: &Timeline,
    variant: &ValidVariant,
    drawings: &mut Drawings,
) -> (Picture, Time) {
    let drawing = drawings.of(variant.topology());
    let lines = &drawings.lines[drawing];
    let picture = machine_picture(timeline, drawing, &|link| lines.get(link).copied());
    (Picture::Machine(picture), timeline.end)
}

/// What a run was of, in a few words.
fn about(variant: &Variant) -> String {
    match &variant.job {
        JobResult::Collective(result) => result.shown_row().map_or_else(String::new, |row| {
            let channels = match row.channels {
                1 => "1 channel".to_owned(),
                channels => format!("{channels} channels"),
            };
            let (algo, proto) = (&row.algo, &row.proto);
            // NCCL's tree branches between nodes only.
            let chain = match (algo.as_str(), variant.nodes) {
                ("tree", 1) => " (a chain)",
                _ => "",
            };
            let bytes = size(row.bytes as f64);
            format!("{bytes}, {algo} {proto}{chain}, {channels}")
        }),
        _ => match variant.gpus {
            1 => format!("{}, 1 GPU", variant.topology),
            gpus => format!("{}, {gpus} GPUs", variant.topology),
        },
    }
}
