//! A chart as pixels.

use super::draw::{Area, SIZE, draw, failed};
use super::map::draw_map;
use super::{Chart, HeatMap};
use crate::ReportError;
use crate::file::write_file;
use plotters::prelude::*;
use std::path::Path;

/// Pixels of a PNG per unit of the SVG.
const PNG_SCALE: u32 = 2;
/// A PNG is drawn this much larger and averaged: plotters does not smooth edges.
const SMOOTHING: u32 = 2;

/// `chart` as a PNG file at `path`.
///
/// # Errors
/// What plotters, the encoder or the system gives; `path` then holds what it held.
pub fn draw_png(chart: &Chart, path: &Path) -> Result<(), ReportError> {
    draw_pixels(path, |root, scale| draw(chart, root, scale, DROP * scale))
}

/// `map` as a PNG file at `path`.
///
/// # Errors
/// As [`draw_png`].
pub fn draw_map_png(map: &HeatMap, path: &Path) -> Result<(), ReportError> {
    draw_pixels(path, |root, scale| draw_map(map, root, scale, DROP * scale))
}

/// Bitmaps centre text by the line's box, which is higher than its letters.
const DROP: i32 = 2;

/// What `draw` draws at a scale, as a PNG file.
fn draw_pixels(
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
    write_file(path, &encoded(&pixels, (width, height))?)
}

/// The bytes of a PNG file.
fn encoded(pixels: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>, ReportError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
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
