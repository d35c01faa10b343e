//! The index of all lessons.

use super::Lesson;
use crate::html::page;
use maud::{PreEscaped, html};

const STYLE: &str = "ol { margin: 0; padding-left: 28px; } li { margin: 0 0 10px; } li p { margin: 0; color: var(--muted); } a { color: var(--accent); font-weight: 600; }";

/// What an index begins with, and is known by.
pub(super) const LEAD: &str = "Lessons that move: a question, a picture, a knob and a check. Everything in them was simulated.";

/// A page that lists lessons, known by the names of their pages beside it, in order, with their
/// questions.
#[must_use]
pub fn index_page(all: &[(&str, &Lesson)]) -> String {
    let mut number = 1;
    let parts = all.chunk_by(|a, b| a.1.section == b.1.section);
    let parts = parts.map(|part| {
        let first = number;
        number += part.len();
        (first, part)
    });
    let parts: Vec<(usize, &[(&str, &Lesson)])> = parts.collect();
    let body = html! {
        style { (PreEscaped(STYLE)) }
        header {
            h1 { "How the GPUs of a cluster talk" }
            p { (LEAD) }
        }
        @for (first, part) in parts {
            section {
                h2 { @if let Some(title) = &part[0].1.section { (title) } }
                ol start=(first) {
                    @for (name, lesson) in part {
                        li {
                            a href=(format!("{}.html", name)) { (lesson.title) }
                            @if let Some(question) = &lesson.question { p { (question) } }
                        }
                    }
                }
            }
        }
        footer { "fabricsim " (env!("CARGO_PKG_VERSION")) }
    };
    page("Lessons", &body, &[])
}
