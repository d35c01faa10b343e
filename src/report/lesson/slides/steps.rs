//! Chunks between ranks at the end of a step.

use super::{INK, MUTED, Room, TEXT, text_width};
use crate::lesson::{PlaceOf, Sent, StepsPicture};
use crate::numbers::trimmed;
use maud::{Markup, html};

/// Cells narrower than this have a colour and no text.
const NARROW: f64 = 20.0;
/// Arrows between more ranks have no room for words.
const MAX_LABELLED: usize = 8;

/// Where things of a scene are on a slide.
pub(super) struct Layout {
    /// The corner of the drawing of ranks, and how large its unit is on the slide.
    pub(super) ring: (f64, f64, f64),
    /// The table's corner, and the sizes of its cells.
    pub(super) table: (f64, f64),
    pub(super) cell: (f64, f64),
}

impl Layout {
    pub(super) fn of(picture: &StepsPicture, room: Room) -> Layout {
        let columns = picture.columns.len().max(1) as f64;
        let rows = picture.numbers.len() as f64 + 1.0;
        let label = 52.0;
        // Beside the ring if there is one scene, else below it.
        let (square, table, width, height) = if room.width > 800.0 {
            let side = room.height - 16.0;
            let left = room.x + side + 24.0;
            let wide = room.x + room.width - left - 8.0;
            (
                (room.x, room.y + 8.0, side),
                (left + label, room.y + 40.0),
                wide,
                room.height - 80.0,
            )
        } else {
            let side = (room.width - 24.0).min(room.height * 0.6);
            let top = room.y + side + 14.0;
            (
                (room.x + (room.width - side) / 2.0, room.y, side),
                (room.x + label, top),
                room.width - 16.0,
                room.y + room.height - top - 8.0,
            )
        };
        // In the middle of its square.
        let (left, top, side) = square;
        let (wide, high) = picture.size;
        let scale = (side / wide).min(side / high);
        let ring = (
            left + (side - wide * scale) / 2.0,
            top + (side - high * scale) / 2.0,
            scale,
        );
        Layout {
            ring,
            table,
            cell: (
                ((width - label) / columns).min(110.0),
                (height / rows).clamp(8.0, 48.0),
            ),
        }
    }

    /// A place of the picture on the slide.
    pub(super) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (left, top, scale) = self.ring;
        (left + x * scale, top + y * scale)
    }

    pub(super) fn scale(&self) -> f64 {
        self.ring.2
    }
}

/// The line of a message: begin, control point and end, on the slide.
pub(super) fn line(picture: &StepsPicture, layout: &Layout, from: u32, to: u32) -> [(f64, f64); 3] {
    let (a, b) = (&picture.places[from as usize], &picture.places[to as usize]);
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let bend = if a.switch.is_some() || b.switch.is_some() {
        0.06
    } else {
        0.1
    };
    let control = (
        f64::midpoint(a.x, b.x) - dy * bend,
        f64::midpoint(a.y, b.y) + dx * bend,
    );
    let towards = |place: &PlaceOf, by: f64| {
        let (cx, cy) = (control.0 - place.x, control.1 - place.y);
        let far = cx.hypot(cy).max(1e-9);
        (place.x + cx / far * by, place.y + cy / far * by)
    };
    [
        layout.at(towards(a, a.size + 1.0)),
        layout.at(control),
        layout.at(towards(b, b.size + 4.0)),
    ]
}

/// A curve of that line.
pub(super) fn curve([begin, control, end]: [(f64, f64); 3]) -> String {
    let n = |value: f64| trimmed(value, 1);
    format!(
        "M{} {}Q{} {} {} {}",
        n(begin.0),
        n(begin.1),
        n(control.0),
        n(control.1),
        n(end.0),
        n(end.1)
    )
}

/// Ranks, switches, the messages of a step, and what is in memory at its end.
pub(super) fn still(picture: &StepsPicture, stop: usize, room: Room) -> Markup {
    let layout = Layout::of(picture, room);
    let until = match stop {
        0 => -1.0,
        _ => picture
            .steps
            .get(stop - 1)
            .map_or(f64::INFINITY, |step| step.1),
    };
    html! {
        @for message in messages_of(picture, stop) {
            @let line = line(picture, &layout, message.2, message.3);
            @let colour = &picture.colours[message.4 as usize];
            path d=(curve(line)) fill="none" stroke=(colour) stroke-width="4" {}
            (tip(line, colour))
        }
        @if picture.numbers.len() <= MAX_LABELLED {
            (names(picture, &layout, stop))
        }
        (places(picture, &layout))
        (table(picture, &layout, until))
    }
}

/// What the messages of a step carry, beside their lines: a message's chunk and the ranks in its sum where that
/// can be read, its chunk alone where that can, nothing where names would lie on each other.
fn names(picture: &StepsPicture, layout: &Layout, stop: usize) -> Markup {
    let mut taken: Vec<Room> = picture
        .places
        .iter()
        .map(|place| outline(place, layout))
        .collect();
    html! {
        @for message in messages_of(picture, stop) {
            @let [begin, control, end] = line(picture, layout, message.2, message.3);
            @let x = (begin.0 + 2.0 * control.0 + end.0) / 4.0;
            @let y = (begin.1 + 2.0 * control.1 + end.1) / 4.0;
            @let whole = name(picture, message);
            @let chunk = whole.split(':').next().unwrap_or_default();
            @let fits = [whole, chunk].into_iter().find_map(|text| {
                let width = text_width(text, TEXT);
                let place = Room { x: x - width / 2.0, y: y - TEXT / 2.0, width, height: TEXT };
                taken.iter().all(|other| place.apart(other, 0.0)).then_some((text, place))
            });
            @if let Some((text, place)) = fits {
                @let () = taken.push(place);
                text x=(trimmed(x, 1)) y=(trimmed(y + 5.0, 1)) font-size=(TEXT) text-anchor="middle" fill=(INK) stroke="#ffffff" stroke-width="4" paint-order="stroke" { (text) }
            }
        }
    }
}

/// The letters of a place's name, and the box or circle around them.
fn outline(place: &PlaceOf, layout: &Layout) -> Room {
    let (x, y) = layout.at((place.x, place.y));
    let size = place.size * layout.scale();
    let half = match place.switch {
        Some(_) => text_width(&place.label, letters(size)) / 2.0 + 8.0,
        None => size,
    };
    let high = match place.switch {
        Some(_) => size * 0.6,
        None => size,
    };
    Room {
        x: x - half,
        y: y - high,
        width: half * 2.0,
        height: high * 2.0,
    }
}

/// The height of letters in a place of such a size.
fn letters(size: f64) -> f64 {
    (size * 0.9).clamp(TEXT, 20.0)
}

/// What is sent in a step.
fn messages_of(picture: &StepsPicture, step: usize) -> impl Iterator<Item = &Sent> {
    let all = picture.messages.iter();
    all.filter(move |message| message.7 as usize == step)
}

/// What a message carries, in a word.
fn name<'p>(picture: &'p StepsPicture, message: &Sent) -> &'p str {
    let first = message.6.first();
    first.map_or("", |&value| &picture.words[value as usize])
}

/// The head of an arrow.
fn tip([_, control, end]: [(f64, f64); 3], colour: &str) -> Markup {
    let (dx, dy) = (end.0 - control.0, end.1 - control.1);
    let length = dx.hypot(dy).max(1e-9);
    let (ux, uy) = (dx / length * 11.0, dy / length * 11.0);
    let n = |value: f64| trimmed(value, 1);
    let path = format!(
        "M{} {}L{} {}L{} {}Z",
        n(end.0 + ux * 0.4),
        n(end.1 + uy * 0.4),
        n(end.0 - ux - uy * 0.6),
        n(end.1 - uy + ux * 0.6),
        n(end.0 - ux + uy * 0.6),
        n(end.1 - uy - ux * 0.6)
    );
    html! { path d=(path) fill=(colour) {} }
}

/// Ranks and switches.
pub(super) fn places(picture: &StepsPicture, layout: &Layout) -> Markup {
    let scale = layout.scale();
    html! {
        @for (middle, text) in &picture.headings {
            @let (x, y) = layout.at((*middle, 18.0));
            text x=(trimmed(x, 1)) y=(trimmed(y, 1)) font-size=(TEXT) text-anchor="middle" fill=(MUTED) { (text) }
        }
        @for place in &picture.places {
            @let (x, y) = layout.at((place.x, place.y));
            @let size = place.size * scale;
            @let letters = letters(size);
            @if place.switch.is_some() {
                @let around = outline(place, layout);
                rect x=(trimmed(around.x, 1)) y=(trimmed(around.y, 1)) width=(trimmed(around.width, 1)) height=(trimmed(around.height, 1))
                    rx="7" fill="#ffffff" stroke=(MUTED) stroke-width="2" {}
            } @else {
                circle cx=(trimmed(x, 1)) cy=(trimmed(y, 1)) r=(trimmed(size, 1)) fill="#eef0f3" stroke=(MUTED) stroke-width="2" {}
            }
            text x=(trimmed(x, 1)) y=(trimmed(y + 5.0, 1)) font-size=(trimmed(letters, 1)) font-weight="bold" text-anchor="middle" fill=(INK) { (place.label) }
        }
    }
}

/// What a cell holds at a time: values, and whether they are stored.
pub(super) fn held(picture: &StepsPicture, rank: usize, column: usize, until: f64) -> Vec<u32> {
    let mut holds = match picture.own.in_place {
        true => picture.own.cells[rank].get(column).copied().flatten(),
        false => None,
    }
    .into_iter()
    .collect::<Vec<u32>>();
    let writes = picture.writes.iter().take_while(|write| write.0 <= until);
    for write in writes.filter(|w| (w.1 as usize, w.2 as usize) == (rank, column)) {
        holds.clone_from(&write.3);
    }
    holds
}

/// A cell's corner on the slide.
pub(super) fn corner(layout: &Layout, rank: usize, column: usize) -> (f64, f64) {
    let (width, height) = layout.cell;
    (
        layout.table.0 + width * column as f64,
        layout.table.1 + height * (rank as f64 + 1.0),
    )
}

/// A value's colour: the more have contributed, the stronger.
pub(super) fn shade(picture: &StepsPicture, value: u32) -> String {
    let most = picture
        .values
        .iter()
        .map(Vec::len)
        .max()
        .unwrap_or(1)
        .max(1);
    let count = picture.values[value as usize].len();
    let part = (0.3 + 0.7 * count as f64 / most as f64).min(1.0);
    let colour = &picture.colours[picture.identities[value as usize] as usize];
    let channel = |at: usize| {
        let full = u8::from_str_radix(&colour[at..at + 2], 16).unwrap_or(128);
        (255.0 - (255.0 - f64::from(full)) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(1), channel(3), channel(5))
}

/// What is written into a cell, as far as there is room.
pub(super) fn word(picture: &StepsPicture, values: &[u32], width: f64) -> String {
    let Some(&first) = values.first() else {
        return String::new();
    };
    let word = &picture.words[first as usize];
    let short = word.split_once(": ").map_or(word.as_str(), |(_, sum)| sum);
    if text_width(short, TEXT) + 8.0 <= width {
        return short.to_owned();
    }
    // How many have contributed.
    let count = picture.values[first as usize].len();
    if width >= NARROW {
        count.to_string()
    } else {
        String::new()
    }
}

/// The memory of all ranks at a time.
fn table(picture: &StepsPicture, layout: &Layout, until: f64) -> Markup {
    let (width, height) = layout.cell;
    html! {
        (heads(picture, layout))
        @for rank in 0..picture.numbers.len() {
            @for column in 0..picture.columns.len() {
                @let (x, y) = corner(layout, rank, column);
                @let holds = held(picture, rank, column, until);
                @let fill = holds.first().map_or_else(|| "#f1f3f5".to_owned(), |&value| shade(picture, value));
                rect x=(trimmed(x + 1.0, 1)) y=(trimmed(y + 1.0, 1)) width=(trimmed(width - 2.0, 1)) height=(trimmed(height - 2.0, 1)) rx="4" fill=(fill) {}
                @if height >= TEXT + 4.0 {
                    text x=(trimmed(x + width / 2.0, 1)) y=(trimmed(y + height / 2.0 + 5.0, 1)) font-size=(TEXT) text-anchor="middle" fill=(INK) { (word(picture, &holds, width)) }
                }
            }
        }
    }
}

/// Names of columns and ranks. Where a column is too narrow for its name, names stand upright; of columns narrower than
/// letters are high, some are named.
pub(super) fn heads(picture: &StepsPicture, layout: &Layout) -> Markup {
    let (width, height) = layout.cell;
    let names = picture.columns.iter();
    let upright = names.clone().any(|name| text_width(name, TEXT) > width);
    let every = if upright {
        (TEXT / width).ceil().max(1.0) as usize
    } else {
        1
    };
    html! {
        @for (column, name) in names.enumerate().step_by(every) {
            @let (x, y) = corner(layout, 0, column);
            @let x = x + width / 2.0;
            @if upright {
                @let turned = format!("translate({} {}) rotate(-90)", trimmed(x + 5.0, 1), trimmed(y - 6.0, 1));
                text transform=(turned) font-size=(TEXT) fill=(MUTED) { (name) }
            } @else {
                text x=(trimmed(x, 1)) y=(trimmed(y - 6.0, 1)) font-size=(TEXT) text-anchor="middle" fill=(MUTED) { (name) }
            }
        }
        @if height >= TEXT {
            @for rank in 0..picture.numbers.len() {
                @let (x, y) = corner(layout, rank, 0);
                text x=(trimmed(x - 8.0, 1)) y=(trimmed(y + height / 2.0 + 5.0, 1)) font-size=(TEXT) text-anchor="end" fill=(INK) { (rank) }
            }
        }
    }
}
