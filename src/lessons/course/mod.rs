//! The course: lessons in the order of a lecture, each from a file that says what to simulate.

mod catalogue;
mod checks;
mod index;
mod make;
mod spec;

pub use catalogue::{LessonFile, lessons};
pub use index::index_page;
pub use make::{Made, make_lesson};
