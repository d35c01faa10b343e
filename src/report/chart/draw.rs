//! Drawing a chart with plotters, into memory.

use super::{Chart, Mark, Series, Style};
use crate::{ReportError, font};
use fabricsim_units::text::xml;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width and height of the SVG in user units; a PNG has twice as many pixels.
pub(super) const SIZE: (u32, u32) = (960, 560);

pub(super) const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
pub(super) const MUTED: RGBColor = RGBColor(0x57, 0x5D, 0x66);
const GRID: RGBColor = RGBColor(0xD9, 0xDD, 0xE3);
pub(super) const FAINT: RGBColor = RGBColor(0xEE, 0xF0, 0xF3);

/// `chart` as SVG text.
///
/// # Errors
/// What plotters gives.
pub fn draw_svg(chart: &Chart) -> Result<String, ReportError> {
    svg(|root| draw(chart, root, 1, 0))
}

/// What `draw` draws, as SVG text.
pub(super) fn svg(
    draw: impl FnOnce(&Area<'_, SVGBackend<'_>>) -> Result<(), ReportError>,
) -> Result<String, ReportError> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&root)?;
        root.present().map_err(failed)?;
    }
    Ok(xml(&text).into_owned())
}

/// plotters' errors have no common type that outlives the backend.
pub(super) fn failed(error: impl std::fmt::Display) -> ReportError {
    ReportError::Plot(error.to_string())
}

pub(super) type Area<'a, B> = DrawingArea<B, Shift>;

pub(super) fn style(size: i32, colour: RGBColor, scale: i32) -> TextStyle<'static> {
    // plotters takes the height of a line, which is 1.24 of the size that CSS names.
    let size = f64::from(size * scale) * 1.24;
    (font::FAMILY, size).into_font().color(&colour)
}

pub(super) fn draw<B: DrawingBackend>(
    chart: &Chart,
    root: &Area<'_, B>,
    scale: i32,
    drop: i32,
) -> Result<(), ReportError> {
    let (left, width) = heading(root, (&chart.title, &chart.subtitle), scale)?;
    let below = legend(chart, root, (left, 76 * scale), width, (scale, drop))?;

    let (x, y) = (&chart.x, &chart.y);
    let mut builder = ChartBuilder::on(root);
    builder
        .margin_top(below + 8 * scale)
        .margin_right(40 * scale)
        .margin_bottom(12 * scale)
        .margin_left(14 * scale)
        .x_label_area_size(54 * scale)
        .y_label_area_size(72 * scale);
    let mut area = builder
        .build_cartesian_2d(x.clone(), y.clone())
        .map_err(failed)?;
    area.configure_mesh()
        .axis_style(GRID.stroke_width(scale as u32))
        .bold_line_style(GRID.stroke_width(scale as u32))
        .light_line_style(FAINT.stroke_width(scale as u32))
        .max_light_lines(10)
        .x_labels(x.ticks.len().max(1))
        .y_labels(y.ticks.len().max(1))
        .set_all_tick_mark_size(5 * scale)
        .label_style(style(13, INK, scale))
        .axis_desc_style(style(14, INK, scale))
        .x_desc(x.label.as_str())
        .y_desc(y.label.as_str())
        .draw()
        .map_err(failed)?;

    for series in &chart.series {
        let colour = series.colour;
        let points = || {
            let both = series.points.iter();
            both.filter_map(|&(a, b)| Some((x.place(a)?, y.place(b)?)))
        };
        match series.style {
            Style::Line => area.draw_series(LineSeries::new(
                points(),
                colour.stroke_width(2 * scale as u32),
            )),
            Style::Thin => {
                area.draw_series(LineSeries::new(points(), colour.stroke_width(scale as u32)))
            }
            Style::Dashed => area.draw_series(DashedLineSeries::new(
                points(),
                7 * scale,
                5 * scale,
                colour.stroke_width(2 * scale as u32),
            )),
            Style::Marks(shape) => {
                let elements =
                    points().map(|at| EmptyElement::at(at) + mark(shape, (0, 0), colour, scale));
                area.draw_series(elements)
            }
        }
        .map_err(failed)?;
    }
    Ok(())
}

/// The white ground with the headline and the line below it; returns where text begins and how much
/// room it has.
pub(super) fn heading<B: DrawingBackend>(
    root: &Area<'_, B>,
    (title, subtitle): (&str, &str),
    scale: i32,
) -> Result<(i32, i32), ReportError> {
    font::register()?;
    root.fill(&WHITE).map_err(failed)?;
    let (left, width) = (24 * scale, (SIZE.0 as i32 - 48) * scale);
    let large = style(20, INK, scale);
    line(root, title, &large, (left, 18 * scale), width)?;
    let small = style(13, MUTED, scale);
    line(root, subtitle, &small, (left, 47 * scale), width)?;
    Ok((left, width))
}

/// One line of text, shortened if it is wider than `width`.
pub(super) fn line<B: DrawingBackend>(
    root: &Area<'_, B>,
    text: &str,
    style: &TextStyle<'_>,
    at: (i32, i32),
    width: i32,
) -> Result<(), ReportError> {
    let fits = |text: &str| -> Result<bool, ReportError> {
        let size = root.estimate_text_size(text, style).map_err(failed)?;
        Ok(size.0 as i32 <= width)
    };
    if fits(text)? {
        return root.draw_text(text, style, at).map_err(failed);
    }
    let cut = |kept: usize| -> String { text.chars().take(kept).chain(['…']).collect() };
    // Halved, for a text of many thousand letters is measured as a whole each time.
    let (mut kept, mut most) = (0, text.chars().count());
    while kept + 1 < most {
        let middle = kept.midpoint(most);
        match fits(&cut(middle))? {
            true => kept = middle,
            false => most = middle,
        }
    }
    root.draw_text(&cut(kept), style, at).map_err(failed)
}

/// Swatches and names in rows from `at`; returns where the rows end. Names stand `drop`
/// pixels lower than they would by themselves.
fn legend<B: DrawingBackend>(
    chart: &Chart,
    root: &Area<'_, B>,
    at: (i32, i32),
    width: i32,
    (scale, drop): (i32, i32),
) -> Result<i32, ReportError> {
    const ROW: i32 = 22;
    let style = style(13, INK, scale).pos(Pos::new(HPos::Left, VPos::Center));
    let (mut x, mut y) = (at.0, at.1 + ROW / 2 * scale);
    let mut drawn = false;
    for series in &chart.series {
        let Some(label) = &series.label else { continue };
        let text = root.estimate_text_size(label, &style).map_err(failed)?.0 as i32;
        let room = swatch_width(series.style) * scale;
        let whole = room + text;
        if drawn && x + whole > at.0 + width {
            (x, y) = (at.0, y + ROW * scale);
        }
        swatch(root, series, (x, y), scale)?;
        root.draw_text(label, &style, (x + room, y + drop))
            .map_err(failed)?;
        x += whole + 24 * scale;
        drawn = true;
    }
    Ok(if drawn { y + ROW / 2 * scale } else { at.1 })
}

/// The room of a swatch with the gap after it.
fn swatch_width(style: Style) -> i32 {
    match style {
        Style::Line | Style::Thin | Style::Dashed => 34,
        Style::Marks(_) => 18,
    }
}

/// A piece of the series, centred on the line of the text.
fn swatch<B: DrawingBackend>(
    root: &Area<'_, B>,
    series: &Series,
    (x, y): (i32, i32),
    scale: i32,
) -> Result<(), ReportError> {
    let colour = series.colour;
    let stroke = |from: i32, to: i32, width: i32| {
        let ends = [(x + from * scale, y), (x + to * scale, y)];
        root.draw(&PathElement::new(
            ends,
            colour.stroke_width((width * scale) as u32),
        ))
        .map_err(failed)
    };
    match series.style {
        Style::Line => stroke(0, 26, 2),
        Style::Thin => stroke(0, 26, 1),
        Style::Dashed => stroke(0, 7, 2)
            .and_then(|()| stroke(10, 17, 2))
            .and_then(|()| stroke(20, 26, 2)),
        Style::Marks(shape) => root
            .draw(&(EmptyElement::at((x + 6 * scale, y)) + mark(shape, (0, 0), colour, scale)))
            .map_err(failed),
    }
}

/// A mark around `at`, in pixels.
fn mark<B: DrawingBackend>(
    shape: Mark,
    at: (i32, i32),
    colour: RGBColor,
    scale: i32,
) -> DynElement<'static, B, (i32, i32)> {
    let filled = colour.filled();
    match shape {
        Mark::Circle => Circle::new(at, 5 * scale, filled).into_dyn(),
        Mark::Triangle => TriangleMarker::new(at, 6 * scale, filled).into_dyn(),
        Mark::Square => {
            let half = 9 * scale / 2;
            Rectangle::new(
                [(at.0 - half, at.1 - half), (at.0 + half, at.1 + half)],
                filled,
            )
            .into_dyn()
        }
        Mark::Cross => Cross::new(at, 5 * scale, colour.stroke_width(2 * scale as u32)).into_dyn(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_line_of_many_thousand_letters_is_cut_at_once() {
        let began = Instant::now();
        let title = "x".repeat(20_000);
        let text = svg(|root| heading(root, (&title, "below"), 1).map(|_| ())).unwrap();
        assert!(text.contains("xxx…"), "{text}");
        assert!(text.len() < 2000 && text.contains("below"), "{text}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
