//! Streams as lanes below each other on one axis: all positions of a knob that stacks them, else the
//! scenes of one.

use super::animated::{REST, SECONDS};
use super::{BELOW_TITLE, HEIGHT, INK, MUTED, TEXT, WIDTH};
use crate::lesson::{LaneOf, LanesPicture, Lesson, Picture, Position, Scene, nano};
use crate::looks::Look;
use crate::numbers::{micros, trimmed};
use maud::{Markup, html};

/// Moments of a step that get a slide.
pub(super) const MOMENTS: usize = 8;
/// Room between lanes, above lanes for their heading, and below all for the axis and the legend.
const GAP: f64 = 4.0;
const HEADING: f64 = 24.0;
const AXIS: f64 = 64.0;
/// What a letter of the smallest text takes.
const LETTER: f64 = 8.4;

/// How far time is.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// At so many moments of the longest scene.
    Moment(usize),
    /// It passes.
    Moves,
}

/// Lanes with their heading.
struct Group<'l> {
    heading: String,
    end: f64,
    picture: &'l LanesPicture,
}

/// The groups of a lesson whose picture is of lanes.
fn groups(lesson: &Lesson) -> Vec<Group<'_>> {
    let shown = lesson.knob.positions.iter().enumerate();
    let shown = shown.filter(|(index, _)| lesson.knob.stacked || *index == lesson.knob.shown);
    let scenes = shown.flat_map(|(_, p)| p.scenes.iter().map(move |scene| (p, scene)));
    scenes
        .filter_map(|(position, scene)| match &scene.picture {
            Picture::Lanes(picture) => Some(Group {
                heading: heading(lesson, position, scene),
                end: nano(scene.end),
                picture,
            }),
            Picture::Steps(_) | Picture::Machine(_) => None,
        })
        .collect()
}

fn heading(lesson: &Lesson, position: &Position, scene: &Scene) -> String {
    let of = format!("{} {}", lesson.knob.name, position.label);
    match position.scenes.len() {
        1 => format!("{of}: {}", scene.took),
        _ => format!("{of}, {}: {}", scene.name, scene.took),
    }
}

/// The slide of a lesson of lanes; `None`, if its picture is another one.
pub(super) fn drawing(lesson: &Lesson, when: When) -> Option<Markup> {
    let groups = groups(lesson);
    let whole = groups.iter().map(|g| g.end).fold(0.0, f64::max);
    let lanes: usize = groups.iter().map(|g| g.picture.lanes.len()).sum();
    if lanes == 0 || whole <= 0.0 {
        return None;
    }
    let top = BELOW_TITLE;
    let room = HEIGHT - top - AXIS - HEADING * groups.len() as f64;
    let height = (room / lanes as f64 - GAP).clamp(2.0, 34.0);
    let names = groups.iter().flat_map(|g| &g.picture.lanes);
    let longest = names.map(|lane| lane.name.chars().count()).max();
    let named = height + GAP >= TEXT;
    let left = match longest.filter(|_| named) {
        Some(letters) => (24.0 + letters as f64 * LETTER).min(WIDTH * 0.3),
        None => 24.0,
    };
    let axis = Axis { left, whole };
    let mut y = top;
    let (mut grounds, mut bars, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for group in &groups {
        grounds.push(html! {
            text x=(24) y=(number(y + 17.0)) font-size="15" fill=(MUTED) { (group.heading) }
        });
        y += HEADING;
        for lane in &group.picture.lanes {
            grounds.push(axis.ground(lane, (y, height), named));
            let (own, written) = axis.bars(group.picture, lane, (y, height));
            bars.push(own);
            words.push(written);
            y += height + GAP;
        }
    }
    // What has not come yet is faint.
    Some(html! {
        defs { clipPath id="past" { (axis.past((top, y), when)) } }
        @for part in &grounds { (part) }
        g opacity="0.2" { @for part in &bars { (part) } }
        g clip-path="url(#past)" {
            @for part in bars.iter().chain(&words) { (part) }
        }
        (axis.now((top, y), when))
        (axis.marks(y + 18.0))
        (legend(&groups, y + 46.0))
    })
}

/// Where times are on a slide.
struct Axis {
    left: f64,
    /// Nanoseconds of the longest group.
    whole: f64,
}

impl Axis {
    const RIGHT: f64 = WIDTH - 24.0;

    fn x(&self, nanos: f64) -> f64 {
        self.left + nanos / self.whole * (Self::RIGHT - self.left)
    }

    /// The ground of a lane, with its name.
    fn ground(&self, lane: &LaneOf, (y, height): (f64, f64), named: bool) -> Markup {
        let wide = Self::RIGHT - self.left;
        html! {
            rect x=(number(self.left)) y=(number(y)) width=(number(wide)) height=(number(height)) rx="3" fill="#8a8f98" fill-opacity="0.15" {}
            @if named {
                text x=(number(self.left - 8.0)) y=(number(y + height / 2.0 + 5.0)) font-size=(TEXT) text-anchor="end" fill=(INK) { (lane.name) }
            }
        }
    }

    /// The bars of a lane, and what is written into those that have room.
    fn bars(
        &self,
        picture: &LanesPicture,
        lane: &LaneOf,
        (y, height): (f64, f64),
    ) -> (Markup, Markup) {
        let spans = lane.spans.iter().map(|&(look, begin, lasts, word)| {
            let wide = (self.x(begin + lasts) - self.x(begin)).max(0.8);
            let fill = fill(&picture.looks[look as usize].0);
            (self.x(begin), wide, fill, &*picture.words[word as usize])
        });
        let fits = |wide: f64, word: &str| {
            height >= TEXT + 2.0 && wide > word.chars().count() as f64 * LETTER + 4.0
        };
        let bars = html! {
            @for (x, wide, fill, _) in spans.clone() {
                rect x=(number(x)) y=(number(y)) width=(number(wide)) height=(number(height)) rx="2" fill=(fill) {}
            }
        };
        let words = html! {
            @for (x, wide, _, word) in spans {
                @if !word.is_empty() && fits(wide, word) {
                    text x=(number(x + wide / 2.0)) y=(number(y + height / 2.0 + 5.0)) font-size=(TEXT) text-anchor="middle" fill="#ffffff" { (word) }
                }
            }
        };
        (bars, words)
    }

    /// Where time is at a moment.
    fn at(&self, when: When) -> f64 {
        match when {
            When::Moment(moment) => {
                self.x(self.whole * moment.min(MOMENTS) as f64 / MOMENTS as f64)
            }
            When::Moves => self.left,
        }
    }

    /// What has been.
    fn past(&self, (top, bottom): (f64, f64), when: When) -> Markup {
        let wide = self.at(when) - self.left;
        html! {
            rect x=(number(self.left)) y=(number(top)) width=(number(wide)) height=(number(bottom - top)) {
                @if matches!(when, When::Moves) { (moving("width", (0.0, Self::RIGHT - self.left))) }
            }
        }
    }

    /// A line where time is.
    fn now(&self, (top, bottom): (f64, f64), when: When) -> Markup {
        let x = number(self.at(when));
        html! {
            line x1=(x) x2=(x) y1=(number(top)) y2=(number(bottom)) stroke=(INK) stroke-width="2" {
                @if matches!(when, When::Moves) {
                    @for end in ["x1", "x2"] { (moving(end, (self.left, Self::RIGHT))) }
                }
            }
        }
    }

    fn marks(&self, y: f64) -> Markup {
        html! {
            @for (k, anchor) in [(0, "start"), (1, "middle"), (2, "middle"), (3, "middle"), (4, "end")] {
                @let at = self.whole * f64::from(k) / 4.0;
                text x=(number(self.x(at))) y=(number(y)) font-size=(TEXT) text-anchor=(anchor) fill=(MUTED) { (micros(at / 1e3)) }
            }
        }
    }
}

/// What grows while time passes, and stays for a while.
fn moving(attribute: &str, (from, to): (f64, f64)) -> Markup {
    let all = SECONDS + REST;
    let (from, to) = (number(from), number(to));
    html! {
        animate attributeName=(attribute) values=(format!("{from};{to};{to}"))
            keyTimes=(format!("0;{};1", trimmed(SECONDS / all, 3))) dur=(format!("{}s", trimmed(all, 0))) repeatCount="indefinite" {}
    }
}

/// What colours stand for, of those that are used.
fn legend(groups: &[Group<'_>], y: f64) -> Markup {
    let mut used: Vec<(&str, &str)> = Vec::new();
    for group in groups {
        let spans = group.picture.lanes.iter().flat_map(|lane| &lane.spans);
        for &(look, ..) in spans {
            let (colour, name) = &group.picture.looks[look as usize];
            if !used.contains(&(colour.as_str(), name.as_str())) {
                used.push((colour, name));
            }
        }
    }
    let mut x = 24.0;
    let entries = used.into_iter().map(|(colour, name)| {
        let here = x;
        x += 36.0 + name.chars().count() as f64 * LETTER;
        (here, fill(colour), name)
    });
    html! {
        @for (x, fill, name) in entries {
            rect x=(number(x)) y=(number(y - 12.0)) width="14" height="14" rx="3" fill=(fill) {}
            text x=(number(x + 20.0)) y=(number(y)) font-size=(TEXT) fill=(INK) { (name) }
        }
    }
}

/// A colour of a page's style, as a drawing without one has it.
fn fill(colour: &str) -> &'static str {
    let look = Look::ALL.into_iter().find(|look| look.colour() == colour);
    look.map_or("#8a8f98", Look::fill)
}

fn number(value: f64) -> String {
    trimmed(value, 1)
}
