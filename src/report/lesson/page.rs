//! The page of a lesson: what is read stands in it, what moves is drawn by its scripts.

use super::{Answer, Check, InCourse, Lesson};
use crate::ReportError;
use crate::html::{JOBS_STYLE, data, page};
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("assets/lesson.css");

/// The scripts, in the order in which they build on each other.
const SCRIPTS: [&str; 6] = [
    include_str!("assets/svg.js"),
    include_str!("assets/steps.js"),
    include_str!("assets/lanes.js"),
    include_str!("assets/machine.js"),
    include_str!("assets/curve.js"),
    include_str!("assets/lesson.js"),
];

/// The lesson as a page that needs no other file.
///
/// # Errors
/// None that a lesson can cause.
pub fn lesson_page(lesson: &Lesson) -> Result<String, ReportError> {
    let json = serde_json::to_string(lesson).map_err(|source| ReportError::Json {
        what: "the lesson",
        source,
    })?;
    let body = html! {
        style { (PreEscaped(JOBS_STYLE)) (PreEscaped(STYLE)) }
        header {
            @if let Some(course) = &lesson.course { (beside(course, lesson.section.as_deref())) }
            @else if let Some(section) = &lesson.section { p.section { (section) } }
            h1 { (lesson.title) }
        }
        @if let Some(question) = &lesson.question {
            section.answer { p.lead { (question) } }
        }
        (player(lesson))
        @if !lesson.see.is_empty() {
            section {
                h2 { "What to see" }
                ol.see { @for line in &lesson.see { li { (line) } } }
            }
        }
        @if let Some(check) = &lesson.check { (question(check)) }
        section #costs hidden {
            h2 { "What it costs" span.aside { "by closed form, counted step by step, and simulated" } }
            div.scroll {}
            div.overlap {}
        }
        @if let Some(course) = &lesson.course { (beside(course, lesson.section.as_deref())) }
        footer {
            p { (lesson.leaves_out) }
            "fabricsim " (lesson.version)
        }
        div #lesson { (data(&json)) }
        noscript { p { "The pictures of this page are drawn by its scripts." } }
    };
    Ok(page(&lesson.title, &body, &SCRIPTS))
}

/// Where the lesson is in its course, and the way to the index and the lessons beside it.
fn beside(course: &InCourse, section: Option<&str>) -> Markup {
    html! {
        nav.course aria-label="Course" {
            a href="index.html" { "All lessons" }
            span {
                span.where { @if let Some(section) = section { (section) ", " } "lesson " }
                (course.number) " of " (course.of)
            }
            @if let Some((name, title)) = &course.previous { a rel="prev" href=(format!("{name}.html")) { "← " span.title { (title) } span.brief { "previous" } } }
            @if let Some((name, title)) = &course.next { a rel="next" href=(format!("{name}.html")) { span.title { (title) } span.brief { "next" } " →" } }
        }
    }
}

/// The knob, the pictures, and what moves them.
fn player(lesson: &Lesson) -> Markup {
    let knob = &lesson.knob;
    let last = knob.positions.len().saturating_sub(1);
    html! {
        section.player #player {
            @if last > 0 {
                div.knob {
                    label for="knob" { (knob.name) }
                    input #knob type="range" min="0" max=(last) step="1" value=(knob.shown);
                    output #position for="knob" {}
                }
            }
            div.transport role="group" aria-label="Playing" {
                button #back type="button" title="One step back (←)" aria-label="One step back" { (icon("M5 4V16M15 4L7 10L15 16Z")) }
                button #play type="button" title="Play or pause (space)" aria-label="Play" { (icon("M6 4L15 10L6 16Z")) (icon("M7 4V16M13 4V16")) }
                button #forward type="button" title="One step on (→)" aria-label="One step on" { (icon("M15 4V16M5 4L13 10L5 16Z")) }
                input #clock type="range" min="0" max="1000" step="1" value="0" aria-label="Time";
                output #time {}
                label.speed { "speed" select #speed {
                    option value="0.25" { "¼" } option value="0.5" { "½" }
                    option value="1" selected { "1" } option value="2" { "2" } option value="4" { "4" }
                } }
                label #numbers-of hidden { input #numbers type="checkbox"; "numbers" }
            }
            div.stage #stage {}
            p.now #now aria-live="polite" {}
            @if last > 0 { figure.curve #curve {} }
            p.keys { "Space plays and pauses, ← and → step, Home goes back to the start"
                @if last > 0 { ", [ and ] turn the knob" } "." }
        }
    }
}

/// A button's picture.
fn icon(path: &str) -> Markup {
    html! { svg.icon viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" { path d=(path) {} } }
}

/// A question that the reader answers.
fn question(check: &Check) -> Markup {
    html! {
        section.check #check {
            h2 { "Check yourself" }
            form {
                p.ask { (check.question) }
                @match &check.answer {
                    Answer::Choice(options, _) => {
                        @for (index, option) in options.iter().enumerate() {
                            label { input type="radio" name="answer" value=(index) required; (option) }
                        }
                    }
                    Answer::Number(_, unit, _) => {
                        label { input type="number" name="answer" step="any" required; (unit) }
                    }
                }
                button type="submit" { "Answer" }
                p.verdict hidden aria-live="polite" {}
            }
        }
    }
}
