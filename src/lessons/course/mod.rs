//! The course: lessons in the order of a lecture, each from a file that says what to simulate.

mod catalogue;
mod checks;
mod make;
mod spec;

pub use catalogue::{LessonFile, lessons};
pub use make::make_lesson;
