//! Drawings of a machine: SVG laid out by hand, and DOT for Graphviz.

mod bare;
mod detail;
mod dot;
mod overview;
mod page;
mod scene;
mod svg;
#[cfg(test)]
mod tests;

pub use bare::{Bare, Label, bare};
pub use dot::dot;
pub use scene::heat;
pub use svg::{Faulty, Style, numbered_svg, svg};
