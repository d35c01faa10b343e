//! How many layers' weights FSDP gathers ahead: a number, or as many as memory has room for.

use super::layer_count::{Finder, LayerCount};

/// How many layers' weights are gathered ahead.
pub type Prefetch = LayerCount<Room>;

/// What has room for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The GPU's memory, beside all else.
    Memory,
}

impl Finder for Room {
    const WORDS: &'static [(&'static str, Self)] = &[("memory", Room::Memory)];
    const NAME: &'static str = "Prefetch";
    const ABOUT: &'static str = "So many layers, or as many as fit the GPU's memory.";
    const FOUND: &'static str = "As many as fit the GPU's memory.";
}
