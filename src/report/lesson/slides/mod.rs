//! Slides: a still picture for each step, and one that moves, as SVG of 16:9 without a background.

mod animated;
mod lanes;
mod machine;
mod steps;

use super::{Lesson, Picture, Scene};
use fabricsim_units::text::xml;
use lanes::When;
use maud::{Markup, html};

/// Width and height of a slide.
const WIDTH: f64 = 1280.0;
const HEIGHT: f64 = 720.0;
/// The smallest text.
const TEXT: f64 = 14.0;
const INK: &str = "#1f2328";
const MUTED: &str = "#6b727c";

/// A slide: the name of its file, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slide {
    /// `step-3.svg`.
    pub name: String,
    /// The SVG.
    pub text: String,
}

/// The slides of the position that a lesson shows first (of streams, of all that are below each other on
/// its page): one for each step or moment, and, but for machines, `animated.svg`.
#[must_use]
pub fn slides(lesson: &Lesson) -> Vec<Slide> {
    let Some(position) = lesson.knob.positions.get(lesson.knob.shown) else {
        return Vec::new();
    };
    if let Some(slides) = slides_of_lanes(lesson) {
        return slides;
    }
    let scenes = &position.scenes;
    let stops = scenes.iter().map(stops).max().unwrap_or(0);
    let still = (0..=stops).filter(|_| stops > 0).map(|stop| {
        let all = frame(lesson, scenes, |scene, room| {
            still(lesson, scene, stop, room)
        });
        slide(format!("step-{stop}.svg"), all)
    });
    let mut slides: Vec<Slide> = still.collect();
    if !scenes.is_empty()
        && scenes
            .iter()
            .all(|s| matches!(s.picture, Picture::Steps(_)))
    {
        let moving = animated::animated(scenes);
        slides.push(slide(
            "animated.svg".to_owned(),
            frame(lesson, scenes, moving),
        ));
    }
    slides
}

/// Slides of a lesson whose picture is of streams.
fn slides_of_lanes(lesson: &Lesson) -> Option<Vec<Slide>> {
    let mut slides = Vec::new();
    for moment in 0..=lanes::MOMENTS {
        let drawn = titled(lesson, &lanes::drawing(lesson, When::Moment(moment))?);
        slides.push(slide(format!("step-{moment}.svg"), drawn));
    }
    let drawn = titled(lesson, &lanes::drawing(lesson, When::Moves)?);
    slides.push(slide("animated.svg".to_owned(), drawn));
    Some(slides)
}

/// What slides are known by.
pub(super) const MADE_BY: &str = "<!-- Made by fabricsim. -->";

fn slide(name: String, drawing: Markup) -> Slide {
    let text = format!("{}\n{MADE_BY}\n", xml(&drawing.into_string()));
    Slide { name, text }
}

/// How many stops a scene has: steps, or moments.
fn stops(scene: &Scene) -> usize {
    match &scene.picture {
        Picture::Steps(steps) => steps.steps.len(),
        Picture::Machine(_) => machine::MOMENTS,
        Picture::Lanes(_) => 0,
    }
}

/// The room of a scene on a slide.
#[derive(Debug, Clone, Copy)]
struct Room {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Room {
    /// They have nothing in common, and so much between them in one line.
    fn apart(&self, other: &Room, gap: f64) -> bool {
        self.x >= other.x + other.width + gap
            || other.x >= self.x + self.width + gap
            || self.y >= other.y + other.height
            || other.y >= self.y + self.height
    }
}

/// The width that text takes at most, in a wide face.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.66
}

/// Scenes beside each other below the title.
fn frame(lesson: &Lesson, scenes: &[Scene], draw: impl Fn(&Scene, Room) -> Markup) -> Markup {
    let width = (WIDTH - 40.0) / scenes.len().max(1) as f64;
    let top = BELOW_TITLE;
    let drawn = html! {
        @for (index, scene) in scenes.iter().enumerate() {
            (draw(scene, Room { x: 20.0 + width * index as f64, y: top, width: width - 12.0, height: HEIGHT - top }))
        }
        (machine::key(lesson, scenes))
    };
    titled(lesson, &drawn)
}

/// Where a slide's title ends.
const BELOW_TITLE: f64 = 64.0;

/// A slide with its title.
fn titled(lesson: &Lesson, drawn: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT)
            font-family="'DejaVu Sans', 'Segoe UI', sans-serif" {
            text x="24" y="42" font-size="28" font-weight="bold" fill=(INK) stroke="#ffffff" stroke-width="4" paint-order="stroke" { (lesson.title) }
            (drawn)
        }
    }
}

/// A scene at a stop, with its heading.
fn still(lesson: &Lesson, scene: &Scene, stop: usize, room: Room) -> Markup {
    let of = stops(scene);
    let done = stop >= of;
    let (when, picture) = match &scene.picture {
        Picture::Steps(steps) => {
            let when = if done {
                format!("done: {}", scene.took)
            } else {
                format!("step {stop} of {of}")
            };
            (when, steps::still(steps, stop.min(of), below(room)))
        }
        Picture::Machine(picture) => {
            let (when, drawn) = machine::still(lesson, scene, picture, stop, below(room));
            (when, drawn)
        }
        Picture::Lanes(_) => (String::new(), html! {}),
    };
    html! { (heading(scene, &when, room)) (picture) }
}

/// A narrower room has what is said of the time in a line of its own.
const NARROW: f64 = 420.0;

/// What is left of a room below its heading.
fn below(room: Room) -> Room {
    let heading = if room.width < NARROW { 70.0 } else { 50.0 };
    Room {
        y: room.y + heading,
        height: room.height - heading,
        ..room
    }
}

/// A scene's name, what it is of, and what is to be said of the time.
fn heading(scene: &Scene, when: &str, room: Room) -> Markup {
    html! {
        text x=(room.x + 4.0) y=(room.y + 20.0) font-size="20" font-weight="bold" fill=(INK) stroke="#ffffff" stroke-width="3" paint-order="stroke" { (scene.name) }
        @let narrow = room.width < NARROW;
        text x=(room.x + 4.0) y=(room.y + 41.0) font-size="15" fill=(MUTED) stroke="#ffffff" stroke-width="3" paint-order="stroke" {
            (scene.about) @if !narrow { ", " (when) }
        }
        @if narrow {
            text x=(room.x + 4.0) y=(room.y + 61.0) font-size="15" fill=(MUTED) stroke="#ffffff" stroke-width="3" paint-order="stroke" { (when) }
        }
    }
}
