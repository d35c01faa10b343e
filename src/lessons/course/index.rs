//! The index of all lessons.

use super::make::Made;
use fabricsim_report::html::page;
use maud::{PreEscaped, html};

const STYLE: &str = "ol { margin: 0; padding-left: 28px; } li { margin: 0 0 10px; } li p { margin: 0; color: var(--muted); } a { color: var(--accent); font-weight: 600; }";

/// A page that lists lessons in order, with their questions; the pages are beside it.
#[must_use]
pub fn index_page(all: &[Made]) -> String {
    let mut number = 1;
    let parts = all.chunk_by(|a, b| a.lesson.section == b.lesson.section);
    let parts = parts.map(|part| {
        let first = number;
        number += part.len();
        (first, part)
    });
    let parts: Vec<(usize, &[Made])> = parts.collect();
    let body = html! {
        style { (PreEscaped(STYLE)) }
        header {
            h1 { "How the GPUs of a cluster talk" }
            p { "Lessons that move: a question, a picture, a knob and a check. Everything in them was simulated." }
        }
        @for (first, part) in parts {
            section {
                h2 { @if let Some(title) = &part[0].lesson.section { (title) } }
                ol start=(first) {
                    @for made in part {
                        li {
                            a href=(format!("{}.html", made.name)) { (made.lesson.title) }
                            @if let Some(question) = &made.lesson.question { p { (question) } }
                        }
                    }
                }
            }
        }
        footer { "fabricsim " (env!("CARGO_PKG_VERSION")) }
    };
    page("Lessons", &body, &[])
}
