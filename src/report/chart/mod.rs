//! A chart as a value: axes, series, words. Drawn as SVG by `draw`, as PNG by `png`.

mod axis;
mod draw;
mod map;
#[cfg(feature = "png")]
mod png;

pub use axis::{Axis, Scale};
pub use draw::draw_svg;
pub use map::{HeatMap, Side, draw_map_svg};
#[cfg(feature = "png")]
pub use png::{draw_map_png, draw_png};

use plotters::style::RGBColor;

/// Colours that people with any colour vision tell apart (Okabe and Ito), strongest first.
pub const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x5F, 0x63, 0x68),
];

/// For what is context rather than result: bounds, connecting lines.
pub const GREY: RGBColor = RGBColor(0x8A, 0x8F, 0x98);

/// A chart with one set of axes.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The headline.
    pub title: String,
    /// A line below it: where, with what.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, in order: the last is on top.
    pub series: Vec<Series>,
}

/// One curve of a chart.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend; without one it is not listed.
    pub label: Option<String>,
    /// Its colour.
    pub colour: RGBColor,
    /// How it is drawn.
    pub style: Style,
    /// Values in the units of the axes. Those that an axis cannot show (zero on a
    /// logarithmic one, anything not finite) are skipped.
    pub points: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A line.
    Line,
    /// A thin line, to lead the eye.
    Thin,
    /// A dashed line, for bounds and models.
    Dashed,
    /// A mark at each point.
    Marks(Mark),
}

/// The shape of a mark, so that colour is not needed to tell series apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A filled circle.
    Circle,
    /// A filled triangle.
    Triangle,
    /// A filled square.
    Square,
    /// Two crossed strokes.
    Cross,
}
