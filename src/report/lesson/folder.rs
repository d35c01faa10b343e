//! Folders of lessons and of slides, each whole or not at all.

use super::Lesson;
use super::index::{LEAD, index_page};
use super::page::lesson_page;
use super::slides::{MADE_BY, slides};
use crate::folder::{Content, FolderKind, check_folder, write_folder};
use crate::{ReportError, write_file};
use std::path::Path;

const INDEX: &str = "index.html";

/// Names of the files of a course.
fn files(names: &[&str]) -> Vec<String> {
    let pages = names.iter().map(|name| format!("{name}.html"));
    pages.chain([INDEX.to_owned()]).collect()
}

/// A course's folder, as it is known again.
fn kind<'a>(files: &'a [&'a str]) -> FolderKind<'a> {
    FolderKind {
        files,
        families: &[],
        folders: &[],
        mark: INDEX,
        content: Content::Text(LEAD),
    }
}

/// Writes lessons with their names, and an index of them, as the folder `target`, making its parents if needed; an older
/// course there is replaced.
///
/// # Errors
/// A target that exists and is not a course's folder, or that cannot be written; what was there before stays as it was.
pub fn write_lessons(target: &Path, lessons: &[(&str, &Lesson)]) -> Result<(), ReportError> {
    let names: Vec<&str> = lessons.iter().map(|(name, _)| *name).collect();
    let files = files(&names);
    let known: Vec<&str> = files.iter().map(String::as_str).collect();
    write_folder(target, &[&kind(&known)], |folder| {
        for ((_, lesson), file) in lessons.iter().zip(&files) {
            write_file(&folder.join(file), lesson_page(lesson)?.as_bytes())?;
        }
        write_file(&folder.join(INDEX), index_page(lessons).as_bytes())
    })
}

/// Whether [`write_lessons`] could write lessons of these names to `target` now; to be asked before they are made.
///
/// # Errors
/// A target that exists and is not a course's folder, or a parent that cannot be written.
pub fn check_lessons_target(target: &Path, names: &[&str]) -> Result<(), ReportError> {
    let files = files(names);
    let known: Vec<&str> = files.iter().map(String::as_str).collect();
    check_folder(target, &[&kind(&known)])
}

/// A folder of slides, as it is known again.
const SLIDES: FolderKind<'static> = FolderKind {
    files: &["animated.svg"],
    families: &[("step-", ".svg")],
    folders: &[],
    mark: "step-0.svg",
    content: Content::Text(MADE_BY),
};

/// Writes the slides of the position that a lesson shows first as the folder `target`; older ones there are replaced. Of a
/// lesson that has none nothing is written.
///
/// # Errors
/// A target that exists and holds anything but slides, or that cannot be written; what was there before stays as it was.
pub fn write_slides(target: &Path, lesson: &Lesson) -> Result<(), ReportError> {
    let all = slides(lesson);
    if all.is_empty() {
        return Ok(());
    }
    write_folder(target, &[&SLIDES], |folder| {
        for slide in &all {
            write_file(&folder.join(&slide.name), slide.text.as_bytes())?;
        }
        Ok(())
    })
}
