//! The lessons, in the order of a lecture.

use super::spec::LessonSpec;
use std::borrow::Cow;

/// A lesson's file.
#[derive(Debug, Clone)]
pub struct LessonFile {
    /// Its name, and that of its page.
    pub name: Cow<'static, str>,
    /// The part of the lecture that it belongs to; none, if it is not part of the course.
    pub section: Option<&'static str>,
    /// What is in it.
    pub text: Cow<'static, str>,
}

/// A part of the lecture: its title, its folder, and the names of its lessons in order.
macro_rules! part {
    ($title:literal, $folder:literal, $($name:literal),* $(,)?) => {
        &[$(LessonFile {
            name: Cow::Borrowed($name),
            section: Some($title),
            text: Cow::Borrowed(include_str!(concat!($folder, "/", $name, ".json"))),
        }),*]
    };
}

/// The parts of the lecture.
const PARTS: [&[LessonFile]; 4] = [
    part!(
        "Collectives",
        "collectives",
        "ring",
        "tree",
        "double-tree",
        "nvls",
        "sharp",
        "pat",
        "recursive-doubling",
        "hierarchical",
        "pipelined-broadcast",
        "multicast",
        "all-to-all",
    ),
    part!(
        "Training",
        "training",
        "ddp-buckets",
        "gradient-accumulation",
        "zero-stages",
        "fsdp-prefetch",
        "recompute",
        "tensor-parallel",
        "gpipe",
        "one-f-one-b",
        "interleaved",
        "expert-all-to-all",
        "straggler",
    ),
    part!(
        "Machines",
        "machine",
        "pcie-or-nvlink",
        "gpudirect",
        "rails-and-pxn",
        "oversubscription",
        "ecmp-collisions",
        "sharp-or-ring",
        "one-slow-cable",
        "nvl72-or-eight",
        "two-jobs",
    ),
    part!(
        "Serving",
        "serving",
        "batch-size",
        "queueing",
        "chunked-prefill",
        "prefill-decode-split",
        "handover-incast",
        "reload-or-recompute",
    ),
];

/// All lessons, in order.
pub fn lessons() -> impl Iterator<Item = &'static LessonFile> {
    PARTS.into_iter().flatten()
}

impl LessonFile {
    /// The title and the question of its file.
    #[must_use]
    pub fn headline(&self) -> Option<(String, String)> {
        let spec: LessonSpec = serde_json::from_str(&self.text).ok()?;
        Some((spec.title, spec.question))
    }
}
