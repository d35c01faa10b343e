//! Lessons in a terminal.

use super::{Answer, Figure, Lesson};
use crate::ReportError;
use crate::numeric::FORMAT;
use crate::summary_json::pretty;
use crate::table::STRONG;
use crate::text_table::{Out, cell, left, right, styled};
use serde::Serialize;

/// What the text says, as one document.
#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    title: &'a str,
    knob: &'a str,
    figure: &'a str,
    unit: &'a str,
    positions: Vec<PositionOf<'a>>,
    version: &'a str,
}

/// A position without its pictures.
#[derive(Serialize)]
struct PositionOf<'a> {
    label: &'a str,
    figures: &'a [Figure],
    scenes: Vec<&'a str>,
}

/// A lesson's figures as a document, ending in a newline.
///
/// # Errors
/// None that a lesson can cause.
pub fn lesson_json(lesson: &Lesson) -> Result<String, ReportError> {
    let knob = &lesson.knob;
    let positions = knob.positions.iter().map(|position| PositionOf {
        label: &position.label,
        figures: &position.figures,
        scenes: position.scenes.iter().map(|s| s.about.as_str()).collect(),
    });
    pretty(&Document {
        format: FORMAT,
        title: &lesson.title,
        knob: &knob.name,
        figure: &knob.figure,
        unit: &knob.unit,
        positions: positions.collect(),
        version: &lesson.version,
    })
}

/// The lessons of a course: part, name, title and question of each.
#[must_use]
pub fn lessons_text(all: &[[String; 4]], colour: bool) -> String {
    let mut out = Out::new(colour);
    let width = all.iter().map(|lesson| lesson[1].len()).max().unwrap_or(0);
    let mut number = 0;
    for part in all.chunk_by(|a, b| a[0] == b[0]) {
        if number > 0 {
            out.plain("");
        }
        out.line(&part[0][0], STRONG);
        for [_, name, title, question] in part {
            number += 1;
            out.plain(&format!("  {number:>2}  {name:width$}  {title}"));
            out.plain(&format!("      {:width$}  {question}", ""));
        }
    }
    out.text
}

/// A lesson: its question, its figures, what to see, and its check.
#[must_use]
pub fn lesson_text(lesson: &Lesson, colour: bool) -> String {
    let mut out = Out::new(colour);
    out.line(&lesson.title, STRONG);
    if let Some(question) = &lesson.question {
        out.plain(question);
    }
    out.plain("");
    let knob = &lesson.knob;
    let names = knob.positions.first().map(|position| &position.figures);
    let names = names.into_iter().flatten();
    let columns = names.map(|figure| match figure.of.as_str() {
        "" => right(knob.figure.clone()),
        of => right(format!("{of}, {}", knob.figure)),
    });
    let columns: Vec<_> = std::iter::once(left(knob.name.clone()))
        .chain(columns)
        .collect();
    let rows = knob.positions.iter().map(|position| {
        let figures = position.figures.iter().map(|figure| cell(&figure.text));
        std::iter::once(styled(&position.label, STRONG))
            .chain(figures)
            .collect()
    });
    out.table(&columns, &rows.collect::<Vec<_>>());
    if !lesson.see.is_empty() {
        out.heading("What to see");
        for line in &lesson.see {
            out.plain(&format!("  {line}"));
        }
    }
    if let Some(check) = &lesson.check {
        out.heading("Check yourself");
        out.plain(&format!("  {}", check.question));
        if let Answer::Choice(options, _) = &check.answer {
            out.plain(&format!("  {}", options.join("  /  ")));
        }
    }
    out.text
}
