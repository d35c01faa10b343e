//! A machine's drawing at moments of an operation.

use super::Room;
use crate::lesson::{Lesson, MachinePicture, Scene};
use crate::numbers::{micros, trimmed};
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

/// Moments of an operation that get a slide.
pub(super) const MOMENTS: usize = 8;

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
    let drawing = &lesson.drawings[picture.drawing];
    let start = drawing.find("<svg").unwrap_or(0);
    let inner = drawing[start..].replacen(
        "<svg ",
        &format!(
            "<svg x=\"{}\" y=\"{}\" preserveAspectRatio=\"xMidYMin\" ",
            trimmed(room.x, 1),
            trimmed(room.y, 1)
        ),
        1,
    );
    let inner = resized(&inner, room);
    let drawn = html! {
        style { (PreEscaped(format!(".{scope} [data-line]{{stroke:#e3e6ea}}{style}"))) }
        g class=(scope) { (PreEscaped(inner)) }
    };
    let when = if stop >= MOMENTS {
        format!("done: {}", scene.took)
    } else {
        format!("{} of {}", micros(at), scene.took)
    };
    (when, drawn)
}

/// The drawing as large as its room.
fn resized(svg: &str, room: Room) -> String {
    let Some(close) = svg.find('>') else {
        return svg.to_owned();
    };
    let (head, rest) = svg.split_at(close);
    let mut out = String::new();
    for (index, part) in head.split(' ').enumerate() {
        if part.starts_with("width=") || part.starts_with("height=") {
            continue;
        }
        if index > 0 {
            out.push(' ');
        }
        out.push_str(part);
    }
    let (width, height) = (trimmed(room.width, 1), trimmed(room.height, 1));
    format!("{out} width=\"{width}\" height=\"{height}\"{rest}")
}
