//! Shapes on a page, and their SVG text.

use super::dot::{fill, stroke};
use super::svg::Style;
use crate::graph::{DeviceId, DeviceKind, LinkId};
use crate::hardware::LinkFamily;
use std::fmt::Write;

/// A device, or a small mark for one.
#[derive(Debug, Clone)]
pub(super) struct Tile {
    /// Centre.
    pub(super) x: f64,
    /// Top.
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) kind: DeviceKind,
    /// Empty for a small mark.
    pub(super) label: String,
    /// A tip that viewers show: the full name.
    pub(super) tip: String,
    /// What it stands for.
    pub(super) devices: Vec<DeviceId>,
}

/// Wires between two tiles.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
    /// How far it bends downwards (upwards if negative), for tiles in one row.
    pub(super) sag: f64,
    pub(super) family: LinkFamily,
    /// Usable GB/s of one wire.
    pub(super) rate: f64,
    /// Every link that it stands for, both directions.
    pub(super) links: Vec<LinkId>,
    /// Of the full width: less among very many.
    pub(super) thin: f64,
}

/// Text at a place.
#[derive(Debug, Clone)]
pub(super) struct Caption {
    pub(super) x: f64,
    /// Baseline.
    pub(super) y: f64,
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    pub(super) bold: bool,
    pub(super) text: String,
}

/// What of a caption is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
}

/// A frame around tiles; several copies behind it say that it stands for many.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) many: bool,
}

/// A page.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) frames: Vec<Frame>,
    pub(super) lines: Vec<Line>,
    pub(super) tiles: Vec<Tile>,
    pub(super) captions: Vec<Caption>,
}

/// The highest that a line within a row of network switches bends.
pub(super) const ARCH: f64 = 110.0;

/// The width that text takes at most, in a wide sans-serif face.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.62
}

/// The size at which `text` fits into `width`, at most `size`.
fn fitting(text: &str, size: f64, width: f64) -> f64 {
    let full = text_width(text, size);
    if full <= width {
        size
    } else {
        size * width / full
    }
}

/// Places things in a row: near where they would like to be, in that order, at least
/// `pitch` apart and within `left..right` if there is room. Returns positions in the order
/// of `wanted`.
pub(super) fn spread(wanted: &[f64], pitch: f64, left: f64, right: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]).then(a.cmp(&b)));
    // Runs that touch move as one: (sum of wishes as if at the run's start, members).
    let mut runs: Vec<(f64, Vec<usize>)> = Vec::new();
    let (low, high) = (left + pitch / 2.0, right - pitch / 2.0);
    let start = |(sum, members): &(f64, Vec<usize>)| {
        let span = pitch * (members.len() as f64 - 1.0);
        let free = sum / members.len() as f64;
        free.min(high - span).max(low)
    };
    for i in order {
        let mut run = (wanted[i], vec![i]);
        while let Some(last) = runs.last() {
            let end = start(last) + pitch * last.1.len() as f64;
            if end <= start(&run) + 1e-6 {
                break;
            }
            let (sum, mut members) = runs.pop().unwrap_or_default();
            let shift = pitch * members.len() as f64;
            let moved = run.0 - shift * run.1.len() as f64;
            members.append(&mut run.1);
            run = (sum + moved, members);
        }
        runs.push(run);
    }
    let mut at = vec![0.0; wanted.len()];
    for run in &runs {
        let first = start(run);
        for (n, &i) in run.1.iter().enumerate() {
            at[i] = first + pitch * n as f64;
        }
    }
    at
}

/// `count` places evenly over `left..right`.
pub(super) fn even(count: usize, left: f64, right: f64) -> Vec<f64> {
    let step = (right - left) / count.max(1) as f64;
    (0..count).map(|i| left + step * (i as f64 + 0.5)).collect()
}

impl Tile {
    pub(super) fn middle(&self) -> f64 {
        self.y + self.height / 2.0
    }

    /// Where a line to `x` leaves: a little towards it, so that lines fan out.
    fn gate(&self, x: f64) -> f64 {
        let reach = self.width * 0.4;
        self.x + ((x - self.x) * 0.12).clamp(-reach, reach)
    }
}

/// The ends of a line between two tiles, and its sag.
pub(super) fn ends(a: &Tile, b: &Tile, neighbours: bool) -> ((f64, f64), (f64, f64), f64) {
    if (a.y - b.y).abs() < 1.0 {
        let (l, r) = if a.x <= b.x { (a, b) } else { (b, a) };
        if neighbours {
            let from = (l.x + l.width / 2.0, l.middle());
            return (from, (r.x - r.width / 2.0, r.middle()), 0.0);
        }
        let sag = 14.0 + (r.x - l.x) * 0.09;
        if l.kind == DeviceKind::Switch {
            // What hangs on them is below.
            return (
                (l.x + l.width * 0.2, l.y),
                (r.x - r.width * 0.2, r.y),
                -sag.min(ARCH),
            );
        }
        return (
            (l.x + l.width * 0.2, l.y + l.height),
            (r.x - r.width * 0.2, r.y + r.height),
            sag,
        );
    }
    let (upper, lower) = if a.y < b.y { (a, b) } else { (b, a) };
    (
        (upper.gate(lower.x), upper.y + upper.height),
        (lower.gate(upper.x), lower.y),
        0.0,
    )
}

/// A line's width on paper, by what one wire carries.
pub(super) fn line_width(rate: f64, thin: f64) -> f64 {
    let width = 0.7 + 0.75 * (1.0 + rate / 15.0).log2();
    (width * thin).max(0.6)
}

/// What marks a fault: a colour that no use and no device has.
pub(super) const FAULT: &str = "#c2187a";

/// The colour of a link that is used for a share of what it can carry: from grey over yellow to red.
#[must_use]
pub fn heat(share: f64) -> String {
    let stops: [(f64, [f64; 3]); 4] = [
        (0.0, [200.0, 204.0, 210.0]),
        (0.5, [244.0, 200.0, 60.0]),
        (0.8, [233.0, 110.0, 40.0]),
        (1.0, [200.0, 25.0, 40.0]),
    ];
    let share = if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let upper = stops.iter().position(|s| share <= s.0).unwrap_or(3).max(1);
    let ((a, low), (b, high)) = (stops[upper - 1], stops[upper]);
    let mix = (share - a) / (b - a);
    let channel = |i: usize| (low[i] + (high[i] - low[i]) * mix).round() as u8;
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}

/// A darker edge for a device's colour.
const fn edge(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Gpu => "#5f8f22",
        DeviceKind::NvSwitch => "#1f8376",
        DeviceKind::Cpu => "#4b618f",
        DeviceKind::PcieSwitch => "#b97a14",
        DeviceKind::Nic => "#8250ab",
        DeviceKind::Switch => "#2f6cb3",
        DeviceKind::Storage => "#a8404f",
    }
}

/// Text for XML.
pub(super) fn escape(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

impl Scene {
    pub(super) fn caption(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, text: &str) {
        self.captions.push(Caption {
            x,
            y,
            size,
            anchor,
            bold: false,
            text: text.to_owned(),
        });
    }

    /// Writes frames, lines, tiles and captions, in this order.
    pub(super) fn write(&self, out: &mut String, style: &Style<'_>) {
        self.write_wiring(out, style);
        for tile in &self.tiles {
            tile.write(out);
            if let Some(faulty) = style.faulty
                && tile.devices.iter().any(|&device| (faulty.device)(device))
            {
                tile.mark(out);
            }
        }
        for caption in &self.captions {
            caption.write(out);
        }
    }

    /// Writes frames, lines and tiles, without a word.
    pub(super) fn write_shapes(&self, out: &mut String, style: &Style<'_>) {
        self.write_wiring(out, style);
        for tile in &self.tiles {
            out.push_str("<g>");
            tile.write_box(out);
            out.push_str("</g>\n");
        }
    }

    fn write_wiring(&self, out: &mut String, style: &Style<'_>) {
        for frame in &self.frames {
            frame.write(out);
        }
        // Busy lines over idle ones.
        let mut lines: Vec<(Option<f64>, usize, &Line)> = self
            .lines
            .iter()
            .enumerate()
            .map(|(number, line)| (line.busy(style), number, line))
            .collect();
        lines.sort_by(|a, b| {
            let (a, b) = (a.0.unwrap_or(-1.0), b.0.unwrap_or(-1.0));
            a.total_cmp(&b)
        });
        for (busy, number, line) in lines {
            line.write(out, style, busy, number);
        }
        // What is faulty is seen over all.
        if let Some(faulty) = style.faulty {
            let lines = self.lines.iter();
            let marked = lines.filter(|l| l.links.iter().any(|&link| (faulty.link)(link)));
            marked.for_each(|line| line.mark(out));
        }
    }
}

impl Frame {
    fn write(&self, out: &mut String) {
        let copies: &[f64] = if self.many { &[8.0, 4.0, 0.0] } else { &[0.0] };
        for shift in copies {
            let _ = writeln!(
                out,
                r##"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="8" fill="#f8f9fb" stroke="#b9c0cb"/>"##,
                self.x + shift,
                self.y - shift,
                self.width,
                self.height
            );
        }
    }
}

impl Line {
    /// The highest utilisation of its links.
    fn busy(&self, style: &Style<'_>) -> Option<f64> {
        let of = style.utilisation?;
        self.links
            .iter()
            .filter_map(|&link| of(link))
            .max_by(f64::total_cmp)
    }

    fn write(&self, out: &mut String, style: &Style<'_>, busy: Option<f64>, number: usize) {
        let number = if style.numbered {
            format!(r#" data-line="{number}""#)
        } else {
            String::new()
        };
        let colour = match (style.utilisation, busy) {
            (None, _) => stroke(self.family).to_owned(),
            (Some(_), Some(share)) => heat(share),
            (Some(_), None) => "#e3e6ea".to_owned(),
        };
        let path = self.path();
        let _ = writeln!(
            out,
            r#"<path{number} d="{path}" fill="none" stroke="{colour}" stroke-width="{:.2}" stroke-linecap="round" opacity="{}"/>"#,
            line_width(self.rate, self.thin),
            if self.thin < 0.7 { "0.6" } else { "0.85" }
        );
    }
}

impl Line {
    fn path(&self) -> String {
        let (x1, y1) = self.from;
        let (x2, y2) = self.to;
        if self.sag != 0.0 {
            let (a, b) = (y1 + self.sag, y2 + self.sag);
            format!("M{x1:.1} {y1:.1}C{x1:.1} {a:.1} {x2:.1} {b:.1} {x2:.1} {y2:.1}")
        } else {
            format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}")
        }
    }

    /// It is faulty.
    fn mark(&self, out: &mut String) {
        let _ = writeln!(
            out,
            r#"<path d="{}" fill="none" stroke="{FAULT}" stroke-width="{:.2}" stroke-dasharray="5 4"/>"#,
            self.path(),
            line_width(self.rate, self.thin).max(2.4)
        );
    }
}

impl Tile {
    /// It is faulty.
    fn mark(&self, out: &mut String) {
        let around = if self.label.is_empty() { 2.0 } else { 4.0 };
        let _ = writeln!(
            out,
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="{}" fill="none" stroke="{FAULT}" stroke-width="2.4" stroke-dasharray="5 3"/>"#,
            self.x - self.width / 2.0 - around,
            self.y - around,
            self.width + 2.0 * around,
            self.height + 2.0 * around,
            if self.label.is_empty() { 3 } else { 7 },
        );
    }

    fn write_box(&self, out: &mut String) {
        let _ = writeln!(
            out,
            r#"<title>{}</title><rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="{}" fill="{}" stroke="{}" stroke-width="{}"/>"#,
            escape(&self.tip),
            self.x - self.width / 2.0,
            self.y,
            self.width,
            self.height,
            if self.label.is_empty() { 2 } else { 5 },
            fill(self.kind),
            edge(self.kind),
            if self.label.is_empty() { 1.0 } else { 1.4 },
        );
    }

    fn write(&self, out: &mut String) {
        out.push_str("<g>");
        self.write_box(out);
        if !self.label.is_empty() {
            let size = fitting(&self.label, 13.0, self.width - 8.0);
            let _ = writeln!(
                out,
                r##"<text x="{:.1}" y="{:.1}" font-size="{size:.1}" text-anchor="middle" fill="#1d2733">{}</text>"##,
                self.x,
                self.middle() + size * 0.36,
                escape(&self.label)
            );
        }
        out.push_str("</g>\n");
    }
}

impl Caption {
    fn write(&self, out: &mut String) {
        let anchor = match self.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
        };
        let weight = if self.bold {
            " font-weight=\"bold\""
        } else {
            ""
        };
        let _ = writeln!(
            out,
            r##"<text x="{:.1}" y="{:.1}" font-size="{}" text-anchor="{anchor}" fill="#1d2733"{weight} stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke">{}</text>"##,
            self.x,
            self.y,
            self.size,
            escape(&self.text)
        );
    }
}
