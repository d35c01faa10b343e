//! Heat maps: cells of two axes, coloured by a number.

use super::draw::{Area, FAINT, INK, MUTED, SIZE, failed, heading, line, style, svg};
use crate::ReportError;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A heat map.
#[derive(Debug, Clone)]
pub struct HeatMap {
    /// The headline.
    pub title: String,
    /// A line below it.
    pub subtitle: String,
    /// Columns from left to right.
    pub x: Side,
    /// Rows from top to bottom.
    pub y: Side,
    /// Row by row: how good, from 0 (worst) to 1, and the number; nothing where there is none.
    pub cells: Vec<Option<(f64, String)>>,
    /// What the colour shows, with the unit of the numbers.
    pub scale: String,
    /// The worst and the best number with their units, for the ends of the scale.
    pub ends: (String, String),
}

/// A side of a heat map.
#[derive(Debug, Clone)]
pub struct Side {
    /// What it shows.
    pub label: String,
    /// Its columns or rows.
    pub names: Vec<String>,
}

/// viridis (S. van der Walt and N. Smith, 2015): as light as it is good, and told apart with any colour
/// vision.
const SHADES: [(u8, u8, u8); 9] = [
    (0x44, 0x01, 0x54),
    (0x47, 0x2D, 0x7B),
    (0x3B, 0x52, 0x8B),
    (0x2C, 0x72, 0x8E),
    (0x21, 0x91, 0x8C),
    (0x28, 0xAE, 0x80),
    (0x5E, 0xC9, 0x62),
    (0xAD, 0xDC, 0x30),
    (0xFD, 0xE7, 0x25),
];

/// Text on dark and on light cells. Pages give other colours to white and to ink of plots in the dark,
/// but cells stay as they are.
const ON_DARK: RGBColor = RGBColor(0xFE, 0xFE, 0xFE);
const ON_LIGHT: RGBColor = RGBColor(0x0A, 0x0A, 0x0A);

/// The colour of a part from 0 to 1.
fn shade(part: f64) -> RGBColor {
    let at = part.clamp(0.0, 1.0) * (SHADES.len() - 1) as f64;
    let low = (at.floor() as usize).min(SHADES.len() - 2);
    let (a, b) = (SHADES[low], SHADES[low + 1]);
    let mix = |a: u8, b: u8| {
        let (a, b) = (f64::from(a), f64::from(b));
        (a + (b - a) * (at - low as f64)).round() as u8
    };
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// `map` as SVG text.
///
/// # Errors
/// What plotters gives.
pub fn draw_map_svg(map: &HeatMap) -> Result<String, ReportError> {
    svg(|root| draw_map(map, root, 1, 0))
}

/// Where the cells are, in pixels.
struct Frame {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
    columns: i32,
    rows: i32,
}

impl Frame {
    fn column(&self, index: usize) -> i32 {
        self.left + (self.right - self.left) * index as i32 / self.columns
    }

    fn row(&self, index: usize) -> i32 {
        self.top + (self.bottom - self.top) * index as i32 / self.rows
    }
}

pub(super) fn draw_map<B: DrawingBackend>(
    map: &HeatMap,
    root: &Area<'_, B>,
    scale: i32,
    drop: i32,
) -> Result<(), ReportError> {
    let (left, width) = heading(root, (&map.title, &map.subtitle), scale)?;
    legend(map, root, (left, 76 * scale), (scale, drop))?;
    let small = style(13, INK, scale);
    let mut widest = 0;
    for name in &map.y.names {
        let size = root.estimate_text_size(name, &small).map_err(failed)?;
        widest = widest.max(size.0 as i32);
    }
    let frame = Frame {
        left: left + 26 * scale + widest.min(220 * scale) + 8 * scale,
        top: 128 * scale,
        right: left + width,
        bottom: (SIZE.1 as i32 - 62) * scale,
        columns: map.x.names.len().max(1) as i32,
        rows: map.y.names.len().max(1) as i32,
    };
    cells(map, root, &frame, (scale, drop))?;
    names(map, root, &frame, (left, scale, drop))
}

/// The scale of colours, from the worst to the best, with what it shows.
fn legend<B: DrawingBackend>(
    map: &HeatMap,
    root: &Area<'_, B>,
    (left, top): (i32, i32),
    (scale, drop): (i32, i32),
) -> Result<(), ReportError> {
    const STEPS: i32 = 40;
    let step = 6 * scale;
    let middle = top + 9 * scale;
    let text = style(13, INK, scale).pos(Pos::new(HPos::Left, VPos::Center));
    let mut x = left;
    let say = |words: &str, x: &mut i32| {
        let size = root.estimate_text_size(words, &text).map_err(failed)?;
        let drawn = root.draw_text(words, &text, (*x, middle + drop));
        *x += size.0 as i32 + 10 * scale;
        drawn.map_err(failed)
    };
    say(&format!("{}:", map.scale), &mut x)?;
    say(&map.ends.0, &mut x)?;
    for index in 0..STEPS {
        let from = x + index * step;
        let colour = shade(f64::from(index) / f64::from(STEPS - 1));
        let corners = [(from, top), (from + step, top + 18 * scale)];
        root.draw(&Rectangle::new(corners, colour.filled()))
            .map_err(failed)?;
    }
    x += STEPS * step + 10 * scale;
    say(&format!("{} (best)", map.ends.1), &mut x)
}

fn cells<B: DrawingBackend>(
    map: &HeatMap,
    root: &Area<'_, B>,
    frame: &Frame,
    (scale, drop): (i32, i32),
) -> Result<(), ReportError> {
    let columns = map.x.names.len().max(1);
    let gap = match frame.columns.max(frame.rows) {
        0..=40 => scale,
        _ => 0,
    };
    for (index, cell) in map.cells.iter().enumerate() {
        let (column, row) = (index % columns, index / columns);
        let corners = [
            (frame.column(column), frame.row(row)),
            (frame.column(column + 1) - gap, frame.row(row + 1) - gap),
        ];
        let colour = cell.as_ref().map_or(FAINT, |(part, _)| shade(*part));
        root.draw(&Rectangle::new(corners, colour.filled()))
            .map_err(failed)?;
        let (words, ink) = match cell {
            Some((part, words)) if *part < 0.6 => (words.as_str(), ON_DARK),
            Some((_, words)) => (words.as_str(), ON_LIGHT),
            None => ("–", MUTED),
        };
        let text = style(13, ink, scale).pos(Pos::new(HPos::Center, VPos::Center));
        let size = root.estimate_text_size(words, &text).map_err(failed)?;
        let (width, height) = (corners[1].0 - corners[0].0, corners[1].1 - corners[0].1);
        if (size.0 as i32) < width - 4 * scale && height > 15 * scale {
            let middle = (corners[0].0 + width / 2, corners[0].1 + height / 2 + drop);
            root.draw_text(words, &text, middle).map_err(failed)?;
        }
    }
    Ok(())
}

/// Names of columns and rows, as many as fit, and of the sides.
fn names<B: DrawingBackend>(
    map: &HeatMap,
    root: &Area<'_, B>,
    frame: &Frame,
    (left, scale, drop): (i32, i32, i32),
) -> Result<(), ReportError> {
    let text = style(13, INK, scale);
    let mut widest = 0;
    for name in &map.x.names {
        let size = root.estimate_text_size(name, &text).map_err(failed)?;
        widest = widest.max(size.0 as i32);
    }
    let below = text.clone().pos(Pos::new(HPos::Center, VPos::Top));
    let column = (frame.right - frame.left) / frame.columns;
    let every = every(widest.min(160 * scale) + 8 * scale, column);
    for (index, name) in map.x.names.iter().enumerate().step_by(every) {
        let middle = (frame.column(index) + frame.column(index + 1)) / 2;
        let at = (middle, frame.bottom + 8 * scale);
        line(root, name, &below, at, column * every as i32 - 4 * scale)?;
    }
    let beside = text.pos(Pos::new(HPos::Right, VPos::Center));
    let row = (frame.bottom - frame.top) / frame.rows;
    let every = self::every(18 * scale, row);
    for (index, name) in map.y.names.iter().enumerate().step_by(every) {
        let middle = (frame.row(index) + frame.row(index + 1)) / 2;
        let at = (frame.left - 8 * scale, middle + drop);
        line(root, name, &beside, at, 220 * scale)?;
    }
    let side = style(14, INK, scale).pos(Pos::new(HPos::Center, VPos::Top));
    let middle = (frame.left + frame.right) / 2;
    root.draw_text(&map.x.label, &side, (middle, frame.bottom + 34 * scale))
        .map_err(failed)?;
    let side = style(14, INK, scale)
        .transform(FontTransform::Rotate270)
        .pos(Pos::new(HPos::Center, VPos::Top));
    let middle = (frame.top + frame.bottom) / 2;
    root.draw_text(&map.y.label, &side, (left, middle))
        .map_err(failed)
}

/// Only every so manieth name has room.
fn every(needed: i32, room: i32) -> usize {
    (needed as usize).div_ceil(room.max(1) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_run_from_dark_to_light() {
        assert_eq!(shade(0.0), RGBColor(0x44, 0x01, 0x54));
        assert_eq!(shade(1.0), RGBColor(0xFD, 0xE7, 0x25));
        let light = |part: f64| {
            let RGBColor(r, g, b) = shade(part);
            0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b)
        };
        let all: Vec<f64> = (0..=100).map(|i| light(f64::from(i) / 100.0)).collect();
        assert!(all.windows(2).all(|pair| pair[1] > pair[0]), "{all:?}");
    }
}
