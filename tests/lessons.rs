//! The course as a user meets it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim_budget::Budget;
use fabricsim_lessons::course::{lessons, make_lesson};
use fabricsim_report::lesson::{Answer, index_page, lesson_page};
use std::collections::BTreeSet;

fn lesson(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.arg("lesson").args(args);
    command
}

/// A megabyte.
const MAX_PAGE: usize = 1_000_000;

/// Every lesson can be made; it has a question, a knob that changes something, and an answer.
#[test]
fn every_lesson_teaches_something() {
    let mut made = Vec::new();
    for file in lessons() {
        let lesson = make_lesson(file, &Budget::default())
            .unwrap_or_else(|error| panic!("{}: {error}", file.name));
        let knob = &lesson.knob;
        assert!(
            knob.positions.len() >= 7,
            "{}: {} positions",
            file.name,
            knob.positions.len()
        );
        assert!(
            lesson.question.as_ref().is_some_and(|q| q.ends_with('?')),
            "{}",
            file.name
        );
        assert!(lesson.see.len() >= 3, "{}", file.name);
        let figures = knob.positions.iter().flat_map(|position| &position.figures);
        let figures: BTreeSet<&str> = figures.map(|figure| figure.text.as_str()).collect();
        assert!(
            figures.len() >= 4,
            "{}: the knob changes {figures:?}",
            file.name
        );
        for position in &knob.positions {
            assert!(
                !position.scenes.is_empty(),
                "{}, {}",
                file.name,
                position.label
            );
        }
        match &lesson.check.as_ref().unwrap().answer {
            Answer::Choice(options, right) => assert!(*right < options.len() && options.len() >= 2),
            Answer::Number(value, ..) => assert!(value.is_finite() && *value != 0.0),
        }
        let page = lesson_page(&lesson).unwrap();
        let course = lesson.course.as_ref().unwrap();
        assert_eq!(course.number, made.len() + 1);
        assert!(page.contains("<a href=\"index.html\">All lessons</a>"));
        for (name, _) in course.previous.iter().chain(&course.next) {
            assert!(
                page.contains(&format!("href=\"{name}.html\"")),
                "{}",
                file.name
            );
        }
        assert!(
            page.len() <= MAX_PAGE,
            "{}: {} bytes",
            file.name,
            page.len()
        );
        made.push((file.name.as_ref(), lesson));
    }
    assert!(made.len() >= 24, "{} lessons", made.len());
    let listed: Vec<_> = made.iter().map(|(name, lesson)| (*name, lesson)).collect();
    let index = index_page(&listed);
    for (name, _) in &made {
        assert!(index.contains(&format!("href=\"{name}.html\"")));
    }
}

#[test]
fn the_list_has_every_lesson_in_order() {
    let output = lesson(&["list"])
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(output).unwrap();
    let mut rest = text.as_str();
    for file in lessons() {
        let at = rest.find(&format!("  {} ", file.name));
        let at = at.unwrap_or_else(|| panic!("{} is missing or out of order", file.name));
        rest = &rest[at..];
    }
}

#[test]
fn a_lesson_is_written_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let output = lesson(&["ring"])
        .current_dir(folder.path())
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(output).unwrap();
    assert!(
        text.contains("Check yourself") && text.ends_with("ring.html\n"),
        "{text}"
    );
    let page = std::fs::read_to_string(folder.path().join("ring.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"));
    // A lesson of one's own is a file.
    let own = folder.path().join("own.json");
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/lessons/course/collectives/ring.json"
    );
    let changed = std::fs::read_to_string(shipped)
        .unwrap()
        .replace("The ring", "My ring");
    std::fs::write(&own, changed).unwrap();
    lesson(&["own.json"])
        .current_dir(folder.path())
        .assert()
        .success();
    let page = std::fs::read_to_string(folder.path().join("own.html")).unwrap();
    assert!(page.contains("My ring"));
}

/// Why a lesson is refused as bad usage.
fn refused(what: &str) -> String {
    let assert = lesson(&[what]).assert().code(2);
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

#[test]
fn what_is_no_lesson_is_refused() {
    let error = refused("rings");
    assert!(
        error.contains("there is no lesson `rings`; did you mean `ring`?"),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.json");
    std::fs::write(&file, r#"{ "title": "x", "quest": "y" }"#).unwrap();
    let error = refused(file.to_str().unwrap());
    assert!(
        error.contains("unknown field `quest`") && error.contains("line 1"),
        "{error}"
    );
}

/// A picture of the first part of a run is as long as it is said to be, and says so; what is turned changes the curve.
#[test]
fn a_part_of_a_run_says_that_it_is_one() {
    let file = lessons().find(|file| file.name == "queueing").unwrap();
    let lesson = make_lesson(file, &Budget::default()).unwrap();
    for position in &lesson.knob.positions {
        for scene in &position.scenes {
            assert_eq!(scene.end.picos(), 20_000_000_000_000, "{}", position.label);
            assert!(
                scene.took.starts_with("the first 20 s of "),
                "{}",
                scene.took
            );
            assert!(scene.about.ends_with(&scene.took), "{}", scene.about);
        }
    }
    let mut own: serde_json::Value = serde_json::from_str(&file.text).unwrap();
    own["knob"].as_object_mut().unwrap().remove("figure");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.json");
    std::fs::write(&path, own.to_string()).unwrap();
    let error = refused(path.to_str().unwrap());
    assert!(error.contains("`knob.figure` has to say"), "{error}");
}

/// All bucket sizes below each other, at eight moments and moving; at the last one all has come.
#[test]
fn slides_of_streams_have_text_for_the_last_row() {
    let folder = tempfile::tempdir().unwrap();
    let (page, slides) = (folder.path().join("l.html"), folder.path().join("slides"));
    let (page, slides) = (page.to_str().unwrap(), slides.to_str().unwrap());
    lesson(&["ddp-buckets", "-q", "-o", page, "--slides", slides])
        .assert()
        .success();
    let names = (0..=8).map(|moment| format!("step-{moment}.svg"));
    for name in names.chain(["animated.svg".to_owned()]) {
        let text = std::fs::read_to_string(std::path::Path::new(slides).join(&name)).unwrap();
        let drawing = roxmltree::Document::parse(&text).unwrap();
        let all = |tag: &'static str| drawing.descendants().filter(move |n| n.has_tag_name(tag));
        for node in all("text") {
            let size: f64 = node.attribute("font-size").unwrap().parse().unwrap();
            assert!(size >= 14.0, "{name}: text of {size}");
        }
        let sizes = all("text").filter(|n| n.text().is_some_and(|t| t.starts_with("bucket ")));
        assert_eq!(sizes.count(), 8, "{name}");
        assert_eq!(all("animate").count() > 0, name == "animated.svg");
        let past = all("clipPath")
            .next()
            .unwrap()
            .first_element_child()
            .unwrap();
        let edge = |of: &str| past.attribute(of).unwrap().parse::<f64>().unwrap();
        let right = edge("x") + edge("width");
        assert_eq!((right - 1256.0).abs() < 0.2, name == "step-8.svg", "{name}");
    }
}
