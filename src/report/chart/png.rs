//! A chart as pixels.

use super::draw::{Area, SIZE, draw, failed};
use super::map::draw_map;
use super::{Chart, HeatMap};
use crate::ReportError;
use plotters::prelude::*;
use std::path::Path;

/// Pixels of a PNG per unit of the SVG.
const PNG_SCALE: u32 = 2;
/// A PNG is drawn this much larger and averaged: plotters does not smooth edges.
const SMOOTHING: u32 = 2;

/// `chart` as a PNG file at `path`.
///
/// # Errors
/// What plotters, the encoder or the system gives; `path` may then hold part of a file.
pub fn draw_png(chart: &Chart, path: &Path) -> Result<(), ReportError> {
    png(path, |root, scale| draw(chart, root, scale, DROP * scale))
}

/// `map` as a PNG file at `path`.
///
/// # Errors
/// As [`draw_png`].
pub fn draw_map_png(map: &HeatMap, path: &Path) -> Result<(), ReportError> {
    png(path, |root, scale| draw_map(map, root, scale, DROP * scale))
}

/// Bitmaps centre text by the line's box, which is higher than its letters.
const DROP: i32 = 2;

/// What `draw` draws at a scale, as a PNG file.
fn png(
    path: &Path,
    draw: impl FnOnce(&Area<'_, BitMapBackend<'_>>, i32) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
    let large = (width * SMOOTHING, height * SMOOTHING);
    let mut pixels = vec![0; (large.0 * large.1 * 3) as usize];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, large).into_drawing_area();
        let scale = (PNG_SCALE * SMOOTHING) as i32;
        draw(&root, scale)?;
        root.present().map_err(failed)?;
    }
    let pixels = averaged(&pixels, (width, height));
    // plotters encodes by file only.
    let mut file = BitMapBackend::new(path, (width, height));
    file.blit_bitmap((0, 0), (width, height), &pixels)
        .map_err(failed)?;
    file.present().map_err(failed)?;
    drop(file);
    let written = std::fs::File::open(path).and_then(|file| file.sync_all());
    written.map_err(ReportError::io("write", path))
}

/// Means of squares of `SMOOTHING` pixels.
fn averaged(pixels: &[u8], (width, height): (u32, u32)) -> Vec<u8> {
    let step = SMOOTHING as usize;
    let row = width as usize * step * 3;
    let mut out = Vec::with_capacity((width * height * 3) as usize);
    for y in 0..height as usize {
        for x in 0..width as usize {
            for channel in 0..3 {
                let mut sum = 0;
                for dy in 0..step {
                    for dx in 0..step {
                        sum += u32::from(
                            pixels[(y * step + dy) * row + (x * step + dx) * 3 + channel],
                        );
                    }
                }
                out.push((sum / (SMOOTHING * SMOOTHING)) as u8);
            }
        }
    }
    out
}
