//! A machine's drawing without words of its own, for pages that set them in their own size: a slide.

use super::dot::fill;
use super::scene::Anchor;
use super::svg::{Style, page};
use crate::graph::{DeviceKind, Topology};
use fabricsim_units::text::xml;
use std::collections::BTreeSet;

/// Shapes and lines, and what belongs beside them. Lines carry the numbers that [`super::numbered_svg`] gives
/// them, and the unit is the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Bare {
    /// Of the whole.
    pub width: f64,
    /// Of the whole.
    pub height: f64,
    /// SVG elements.
    pub shapes: String,
    /// Names of devices, nodes and rows.
    pub labels: Vec<Label>,
    /// Kinds of devices that are in it, and the colours of their boxes.
    pub kinds: Vec<(DeviceKind, &'static str)>,
}

/// A name at its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// Its middle, or where it begins.
    pub x: f64,
    /// The middle of its letters.
    pub y: f64,
    /// How wide it may be; of what stands free, until it meets another one.
    pub room: f64,
    /// `x` is its middle.
    pub centred: bool,
    /// The words.
    pub text: String,
}

/// From the left edge to where rows begin: the room of their names.
const ROW_NAMES: f64 = 100.0;

/// Draws a machine without words.
#[must_use]
pub fn bare(topology: &Topology) -> Bare {
    let style = Style {
        numbered: true,
        ..Style::default()
    };
    let (page, width, bottom) = page(topology, &style, 24.0);
    let scene = page.scene;
    let mut shapes = String::new();
    scene.write_shapes(&mut shapes, &style);
    let tiles = scene.tiles.iter().filter(|tile| !tile.label.is_empty());
    let mut labels: Vec<Label> = tiles
        .map(|tile| Label {
            x: tile.x,
            y: tile.middle(),
            room: tile.width - 4.0,
            centred: true,
            text: tile.label.clone(),
        })
        .collect();
    labels.extend(scene.captions.iter().map(|caption| Label {
        x: caption.x,
        y: caption.y - caption.size * 0.36,
        room: match caption.anchor {
            Anchor::Start if caption.x < ROW_NAMES => ROW_NAMES - caption.x,
            _ => f64::INFINITY,
        },
        centred: caption.anchor == Anchor::Middle,
        text: caption.text.clone(),
    }));
    let kinds: BTreeSet<DeviceKind> = scene.tiles.iter().map(|tile| tile.kind).collect();
    Bare {
        width,
        height: bottom + 16.0,
        shapes: xml(&shapes).into_owned(),
        labels,
        kinds: kinds.into_iter().map(|kind| (kind, fill(kind))).collect(),
    }
}
