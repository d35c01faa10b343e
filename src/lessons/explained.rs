//! The page of `explain`: algorithms side by side on one clock, and their times over sizes.

use super::scene::steps_scene;
use super::simulated::Drawings;
use super::{ExplainError, ExplainSpec};
use fabricsim_collective::Collective;
use fabricsim_report::lesson::{Figure, Knob, Lesson, Picture, Position, Scene, nano};
use fabricsim_report::numbers::size;

/// Sizes of the curve: each is so many times the one before.
const FACTOR: u64 = 4;
/// Sizes below and above the chosen one.
const BELOW: u32 = 5;
const ABOVE: u32 = 5;
/// Messages and writes of all pictures of a page together; more make it larger than a megabyte.
const MAX_PLAYED: usize = 9_000;

/// What a page of abstract pictures leaves out.
pub(super) const ABSTRACT: &str = "An abstract picture: every rank has one port into a crossbar, with the same α and B, and no protocol. How NCCL's protocols and a machine's links change the order of algorithms is left out; with -t MACHINE the page has both.";

/// Algorithms for the same collective, side by side. The sizes around the given one are the knob's
/// positions; where all pictures are too much for a page, only those of the given size are played.
///
/// # Errors
/// As [`explain`](super::explain) for any of them.
pub fn explained(specs: &[ExplainSpec]) -> Result<Lesson, ExplainError> {
    let first = specs.first().ok_or(ExplainError::Nothing)?;
    let chosen: Vec<Scene> = specs.iter().map(steps_scene).collect::<Result<_, _>>()?;
    let played: usize = chosen.iter().map(weight).sum();
    let given = first.size();
    let mut positions = Vec::new();
    let mut shown = 0;
    for bytes in sizes(given) {
        let scenes = if bytes == given {
            shown = positions.len();
            chosen.clone()
        } else {
            let at = |spec: &ExplainSpec| {
                let bytes = Some(bytes);
                steps_scene(&ExplainSpec {
                    bytes,
                    ..spec.clone()
                })
            };
            // A size that one of them cannot cut has no position.
            match specs.iter().map(at).collect::<Result<Vec<_>, _>>() {
                Ok(scenes) => scenes,
                Err(_) => continue,
            }
        };
        positions.push(Position {
            label: size(bytes as f64),
            figures: scenes.iter().map(time).collect(),
            scenes,
        });
    }
    if played * positions.len() > MAX_PLAYED {
        for (index, position) in positions.iter_mut().enumerate() {
            if index != shown {
                position.scenes.clear();
            }
        }
    }
    let names = chosen.into_iter().map(|scene| scene.name).collect();
    let beside = Beside {
        collective: first.collective,
        names,
        positions,
        shown,
        leaves_out: ABSTRACT,
    };
    Ok(beside.lesson(Drawings::default(), Vec::new()))
}

/// Algorithms for one collective beside each other, over sizes.
pub(super) struct Beside {
    pub(super) collective: Collective,
    /// Names of the algorithms.
    pub(super) names: Vec<String>,
    /// Sizes.
    pub(super) positions: Vec<Position>,
    /// The one that is shown first.
    pub(super) shown: usize,
    pub(super) leaves_out: &'static str,
}

impl Beside {
    /// Their lesson, with drawings of machines and colours of their links.
    pub(super) fn lesson(self, drawings: Drawings, heat: Vec<String>) -> Lesson {
        Lesson {
            title: format!("{} by {}", self.collective.name(), listed(&self.names)),
            section: None,
            course: None,
            question: None,
            knob: Knob {
                name: "size".to_owned(),
                shown: self.shown,
                stacked: false,
                figure: "time".to_owned(),
                unit: "ns".to_owned(),
                positions: self.positions,
            },
            see: Vec::new(),
            check: None,
            drawings: drawings.all,
            bare: drawings.bare,
            heat,
            leaves_out: self.leaves_out.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// How long a scene takes.
pub(super) fn time(scene: &Scene) -> Figure {
    Figure {
        of: scene.name.clone(),
        value: nano(scene.end),
        text: scene.took.clone(),
    }
}

/// How much of a page a scene takes: what it plays.
fn weight(scene: &Scene) -> usize {
    match &scene.picture {
        Picture::Steps(steps) => steps.messages.len() + steps.writes.len(),
        Picture::Lanes(lanes) => lanes.lanes.iter().map(|lane| lane.spans.len()).sum(),
        Picture::Machine(machine) => machine.uses.iter().map(Vec::len).sum(),
    }
}

/// The sizes of the curve, around the given one.
fn sizes(given: u64) -> impl Iterator<Item = u64> {
    let below = (1..=BELOW).rev().filter_map(move |k| {
        let part = given / FACTOR.pow(k);
        (part >= 64).then_some(part)
    });
    let above = (0..=ABOVE).filter_map(move |k| given.checked_mul(FACTOR.pow(k)));
    below.chain(above)
}

/// `ring, tree and nvls`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
