//! `fabricsim lesson`: the course.

use super::budget::BudgetArgs;
use super::examples::{Examples, examples};
use super::{CliError, terminal};
use fabricsim_lessons::course::{LessonFile, lessons, make_lesson};
use fabricsim_report::lesson::{
    Lesson, check_lessons_target, lesson_page, lesson_text, lessons_text, write_lessons,
    write_slides,
};
use fabricsim_report::write_file;
use fabricsim_topology::error::candidates;
use fabricsim_topology::load::read_text;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    ("Which lessons are there?", "fabricsim lesson"),
    (
        "Why has a pipeline to fill and to drain?",
        "fabricsim lesson gpipe",
    ),
    (
        "What does a ring do, as slides for a lecture?",
        "fabricsim lesson ring -o ring.html --slides slides",
    ),
];

/// Lessons that move: a question, a picture, a knob and a check.
///
/// `lesson list` names them in the order of a lecture, `lesson NAME` writes one as a page that needs no
/// other file, `lesson all -o DIR` all of them and an index. What they show is simulated when they are
/// made.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// A lesson's name, `list` or `all`; or the file of a lesson of your own
    #[arg(value_name = "NAME|FILE|list|all", default_value = "list")]
    what: String,
    /// The page; of `all` the folder [default: NAME.html; of all: lessons]
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Also writes slides into this folder: step-N.svg, and animated.svg, which moves; of `all` a
    /// folder for each lesson
    #[arg(long, value_name = "DIR")]
    slides: Option<PathBuf>,
    #[command(flatten)]
    budget: BudgetArgs,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    match args.what.as_str() {
        "list" => list(quiet),
        "all" => all(args, quiet),
        name => one(name, args, quiet),
    }
}

fn list(quiet: bool) -> Result<(), CliError> {
    if quiet {
        return Ok(());
    }
    let rows = lessons().filter_map(|lesson| {
        let (title, question) = lesson.headline()?;
        let section = lesson.section.unwrap_or_default().to_owned();
        Some([section, lesson.name.to_string(), title, question])
    });
    terminal::print(&lessons_text(&rows.collect::<Vec<_>>(), terminal::colour()))?;
    Ok(())
}

fn one(name: &str, args: &Args, quiet: bool) -> Result<(), CliError> {
    let lesson = find(name)?;
    // No other page of the course lies beside it.
    let made = Lesson {
        course: None,
        ..make(&lesson, args)?
    };
    let path = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.html", lesson.name)));
    write_file(&path, lesson_page(&made)?.as_bytes())?;
    if let Some(folder) = &args.slides {
        write_slides(folder, &made)?;
    }
    if !quiet {
        let text = lesson_text(&made, terminal::colour());
        terminal::print(&format!("{text}\n{}\n", path.display()))?;
    }
    Ok(())
}

fn all(args: &Args, quiet: bool) -> Result<(), CliError> {
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from("lessons"));
    let names: Vec<&str> = lessons().map(|lesson| lesson.name.as_ref()).collect();
    check_lessons_target(&folder, &names)?;
    let mut made = Vec::new();
    for lesson in lessons() {
        made.push((lesson.name.as_ref(), make(lesson, args)?));
    }
    let listed: Vec<(&str, &Lesson)> = made.iter().map(|(name, page)| (*name, page)).collect();
    write_lessons(&folder, &listed)?;
    if let Some(slides) = &args.slides {
        for (name, lesson) in &listed {
            write_slides(&slides.join(name), lesson)?;
        }
    }
    if !quiet {
        for name in names.iter().chain(&["index"]) {
            let path = folder.join(format!("{name}.html"));
            terminal::print(&format!("{}\n", path.display()))?;
        }
    }
    Ok(())
}

fn make(lesson: &LessonFile, args: &Args) -> Result<Lesson, CliError> {
    Ok(make_lesson(lesson, &args.budget.budget(false))?)
}

/// A file, if there is one, else a lesson of the course.
fn find(name: &str) -> Result<LessonFile, CliError> {
    let path = Path::new(name);
    if path.is_file() {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        return Ok(LessonFile {
            name: stem.to_string_lossy().into_owned().into(),
            section: None,
            text: read_text(path)?.into(),
        });
    }
    let known = lessons().find(|lesson| lesson.name == name).cloned();
    known.ok_or_else(|| {
        let names: Vec<&str> = lessons().map(|lesson| lesson.name.as_ref()).collect();
        let near = candidates(name, names.iter().copied());
        let meant = match near.first() {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        CliError::Usage(format!(
            "there is no lesson `{name}`{meant}\nlessons: {}",
            names.join(", ")
        ))
    })
}
