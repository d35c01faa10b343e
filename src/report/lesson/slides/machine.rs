//! A machine's drawing at moments of an operation.

use super::{HEIGHT, INK, MUTED, Room, TEXT, text_width};
use crate::lesson::{BareDrawing, DrawnLabel, Lesson, MachinePicture, Picture, Scene};
use crate::numbers::{micros, trimmed};
use maud::{Markup, PreEscaped, html};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Moments of an operation that get a slide.
pub(super) const MOMENTS: usize = 8;

/// What is kept free below pictures for their key.
pub(super) const KEY: f64 = 64.0;

/// Between names in one line.
const GAP: f64 = 5.0;

/// The drawing in the middle of the given part of the operation, and which moment that is.
pub(super) fn still(
    lesson: &Lesson,
    scene: &Scene,
    picture: &MachinePicture,
    stop: usize,
    room: Room,
) -> (String, Markup) {
    let end = scene.end.micros();
    let at = end * stop as f64 / MOMENTS as f64;
    let bin = (at * 1e3 / picture.bin.max(1e-9)) as usize;
    let mut style = String::new();
    // A drawing beside others has rules of its own.
    let scope = format!("m{}-{}", trimmed(room.x, 0), stop);
    for (line, _, uses) in &picture.lines {
        let busy = picture.uses[*uses as usize]
            .get(bin)
            .filter(|_| stop < MOMENTS);
        let colour = lesson.heat(busy.copied().unwrap_or(0));
        let _ = write!(style, ".{scope} [data-line=\"{line}\"]{{stroke:{colour}}}");
    }
    let drawn = html! {
        style { (PreEscaped(format!(".{scope} [data-line]{{stroke:#e3e6ea}}{style}"))) }
        @if let Some(drawing) = lesson.bare.get(picture.drawing) {
            g class=(scope) { (placed(drawing, room)) }
        }
    };
    let when = if stop >= MOMENTS {
        format!("done: {}", scene.took)
    } else {
        format!("{} of {}", micros(at), scene.took)
    };
    (when, drawn)
}

/// The drawing as large as its room lets it be, with as many of its names as can be read there.
fn placed(drawing: &BareDrawing, room: Room) -> Markup {
    let (width, height) = drawing.size;
    let scale = (room.width / width).min((room.height - KEY) / height);
    let left = room.x + (room.width - width * scale) / 2.0;
    let letters = TEXT.max(13.0 * scale);
    let mut taken: Vec<Room> = Vec::new();
    html! {
        g transform=(format!("translate({} {}) scale({})", trimmed(left, 1), trimmed(room.y, 1), trimmed(scale, 4))) {
            (PreEscaped(&drawing.shapes))
        }
        @for label in &drawing.labels {
            @if let Some((text, wide)) = fitting(label, scale, letters) {
                @let x = left + label.at.0 * scale;
                @let y = room.y + label.at.1 * scale;
                @let start = if label.centred { x - wide / 2.0 } else { x };
                @let place = Room { x: start, y: y - letters / 2.0, width: wide, height: letters };
                @if free(&taken, place, room) {
                    text x=(trimmed(x, 1)) y=(trimmed(y + letters * 0.36, 1)) font-size=(trimmed(letters, 1))
                        text-anchor=(if label.centred { "middle" } else { "start" }) fill=(INK)
                        stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke" { (text) }
                    @let () = taken.push(place);
                }
            }
        }
    }
}

/// What of a name fits into its room, all or its last word (`0` of `NVSwitch 0`), and its width.
fn fitting(label: &DrawnLabel, scale: f64, letters: f64) -> Option<(&str, f64)> {
    let last = label.text.rsplit(' ').next().unwrap_or_default();
    let short = label.centred.then_some(last);
    let all = [Some(label.text.as_str()), short].into_iter().flatten();
    let mut sized = all.map(|text| (text, text_width(text, letters)));
    sized.find(|(_, wide)| *wide <= label.room * scale)
}

/// It lies within the room and on none of the places that are taken.
fn free(taken: &[Room], place: Room, room: Room) -> bool {
    place.x >= room.x
        && place.x + place.width <= room.x + room.width
        && taken.iter().all(|other| place.apart(other, GAP))
}

/// What colours of boxes and lines mean, once below all pictures; nothing where none is of a machine.
pub(super) fn key(lesson: &Lesson, scenes: &[Scene]) -> Markup {
    let drawings = scenes.iter().filter_map(|scene| match &scene.picture {
        Picture::Machine(picture) => lesson.bare.get(picture.drawing),
        _ => None,
    });
    let kinds: BTreeSet<&(String, String)> = drawings.flat_map(|d| &d.kinds).collect();
    if kinds.is_empty() {
        return html! {};
    }
    let mut x = 24.0;
    let (boxes, scale) = (HEIGHT - 44.0, HEIGHT - 18.0);
    let step = 240.0 / lesson.heat.len().max(1) as f64;
    html! {
        @for (name, colour) in kinds {
            rect x=(trimmed(x, 1)) y=(boxes - 13.0) width="22" height="15" rx="3" fill=(colour) stroke="#6b7480" {}
            text x=(trimmed(x + 29.0, 1)) y=(boxes) font-size=(TEXT) fill=(INK) { (name) }
            @let () = x += 29.0 + text_width(name, TEXT) + 22.0;
        }
        @for (number, colour) in lesson.heat.iter().enumerate() {
            rect x=(trimmed(24.0 + step * number as f64, 1)) y=(scale - 11.0) width=(trimmed(step + 0.4, 1)) height="11" fill=(colour) {}
        }
        text x="276" y=(scale) font-size=(TEXT) fill=(MUTED) { "use of a link's busiest direction, 0 to 100 %" }
    }
}
