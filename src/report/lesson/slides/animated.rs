//! The slide that moves: chunks on their way and memory that fills, by SMIL.

use super::steps::{Layout, corner, curve, heads, line, places, shade, word};
use super::{INK, MUTED, Room, TEXT, below, heading};
use crate::lesson::{Picture, Scene, StepsPicture, nano};
use crate::numbers::trimmed;
use maud::{Markup, html};

/// Seconds that the longest scene takes, and those that the end is shown before it begins again.
pub(super) const SECONDS: f64 = 12.0;
pub(super) const REST: f64 = 3.0;

/// Draws scenes that move, all on one clock.
pub(super) fn animated(scenes: &[Scene]) -> impl Fn(&Scene, Room) -> Markup {
    let end = scenes.iter().map(|scene| nano(scene.end));
    let second = end.fold(1.0, f64::max) / SECONDS;
    move |scene, room| match &scene.picture {
        Picture::Steps(picture) => moving(scene, picture, second, room),
        Picture::Lanes(_) | Picture::Machine(_) => html! {},
    }
}

/// One scene, of which so many nanoseconds are a second.
fn moving(scene: &Scene, picture: &StepsPicture, second: f64, room: Room) -> Markup {
    let layout = Layout::of(picture, below(room));
    // All clocks run alike; each scene has one of its own, so that a scene is whole by itself.
    let clock = format!("clock{}", trimmed(room.x, 0));
    let all = trimmed(SECONDS + REST, 0);
    let at = |nanos: f64| format!("{clock}.begin+{}s", trimmed(nanos / second, 3));
    html! {
        (heading(scene, &scene.took, room))
        rect width="1" height="1" x="-9" fill="none" {
            animate id=(clock) attributeName="x" from="-9" to="-8" dur=(format!("{all}s")) begin=(format!("0s;{clock}.end")) {}
        }
        @for &(from, to) in &picture.wires {
            path d=(curve(line(picture, &layout, from, to))) fill="none" stroke="#c3c8cf" stroke-width="2" {}
        }
        @for message in &picture.messages {
            rect x="-9" y="-9" width="18" height="18" rx="4" fill=(picture.colours[message.4 as usize]) visibility="hidden" {
                set attributeName="visibility" to="visible" begin=(at(message.0)) dur=(format!("{}s", trimmed((message.1 - message.0).max(1.0) / second, 3))) {}
                animateMotion path=(curve(line(picture, &layout, message.2, message.3))) begin=(at(message.0))
                    dur=(format!("{}s", trimmed((message.1 - message.0).max(1.0) / second, 3))) {}
            }
        }
        (places(picture, &layout))
        (heads(picture, &layout))
        @for rank in 0..picture.numbers.len() {
            @for column in 0..picture.columns.len() { (cell(picture, &layout, (rank, column), &at)) }
        }
        text x=(room.x + room.width - 8.0) y=(room.y + 20.0) font-size="15" text-anchor="end" fill=(MUTED) visibility="hidden" {
            "done" set attributeName="visibility" to="visible" begin=(at(nano(scene.end))) end=(format!("{clock}.end")) {}
        }
    }
}

/// A cell, with what is written into it when.
fn cell(
    picture: &StepsPicture,
    layout: &Layout,
    (rank, column): (usize, usize),
    at: &dyn Fn(f64) -> String,
) -> Markup {
    let (x, y) = corner(layout, rank, column);
    let (width, height) = layout.cell;
    let first = picture
        .own
        .in_place
        .then(|| picture.own.cells[rank].get(column).copied());
    let first = first.flatten().flatten();
    let writes = picture.writes.iter();
    let writes = writes.filter(|w| (w.1 as usize, w.2 as usize) == (rank, column));
    let later = writes.map(|write| (Some(write.0), write.3.clone()));
    let own = (None, first.into_iter().collect::<Vec<u32>>());
    let states: Vec<(Option<f64>, Vec<u32>)> = std::iter::once(own).chain(later).collect();
    let fill = |values: &[u32]| match values.first() {
        Some(&value) => shade(picture, value),
        None => "#f1f3f5".to_owned(),
    };
    let middle = (
        trimmed(x + width / 2.0, 1),
        trimmed(y + height / 2.0 + 5.0, 1),
    );
    html! {
        rect x=(trimmed(x + 1.0, 1)) y=(trimmed(y + 1.0, 1)) width=(trimmed(width - 2.0, 1)) height=(trimmed(height - 2.0, 1)) rx="4" fill=(fill(&states[0].1)) {
            @for (index, (since, values)) in states.iter().enumerate().skip(1) {
                set attributeName="fill" to=(fill(values)) begin=(at(since.unwrap_or(0.0))) end=[states.get(index + 1).and_then(|next| next.0).map(at)] {}
            }
        }
        @if height >= TEXT + 4.0 {
            @for (index, (since, values)) in states.iter().enumerate() {
                @let until = states.get(index + 1).and_then(|next| next.0);
                text x=(middle.0) y=(middle.1) font-size=(TEXT) text-anchor="middle" fill=(INK) visibility=(if index == 0 { "visible" } else { "hidden" }) {
                    (word(picture, values, width))
                    @match (since, until) {
                        (None, Some(until)) => { set attributeName="visibility" to="hidden" begin=(at(until)) dur=(format!("{}s", trimmed(SECONDS + REST, 0))) {} }
                        (Some(since), until) => { set attributeName="visibility" to="visible" begin=(at(*since)) end=[until.map(at)] {} }
                        (None, None) => {}
                    }
                }
            }
        }
    }
}
