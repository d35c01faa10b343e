//! Text for a terminal in the making: lines with styles, and aligned tables.

use super::table::{HEADER, STRONG, paint};
use anstyle::{AnsiColor, Style};
use std::borrow::Cow;

pub(super) const WARNING: Style = AnsiColor::Yellow.on_default();
pub(super) const ERROR: Style = AnsiColor::Red.on_default();
pub(super) const BEST: Style = AnsiColor::Green.on_default().bold();

/// Text in the making.
pub(super) struct Out {
    pub(super) text: String,
    pub(super) colour: bool,
}

impl Out {
    /// Nothing yet.
    pub(super) fn new(colour: bool) -> Self {
        Out {
            text: String::new(),
            colour,
        }
    }

    pub(super) fn line(&mut self, text: &str, style: Style) {
        self.plain(&paint(text, style, self.colour));
    }

    pub(super) fn plain(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.text.push('\n');
        self.line(text, STRONG);
    }

    pub(super) fn paint(&self, text: &str, style: Style) -> String {
        paint(text, style, self.colour)
    }

    /// Rows of cells, each column as wide as its widest, with two blanks between.
    pub(super) fn table(&mut self, columns: &[Column], rows: &[Vec<Cell>]) {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let cells = cells.map(|cell| cell.text.chars().count());
            cells.fold(columns[column].name.chars().count(), usize::max)
        };
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        if columns.iter().any(|column| !column.name.is_empty()) {
            let names = columns.iter().zip(&widths);
            let names = names.map(|(column, width)| column.pad(&column.name, *width));
            let line = format!("  {}", names.collect::<Vec<_>>().join("  "));
            self.line(line.trim_end(), HEADER);
        }
        for row in rows {
            let cells = row.iter().zip(columns).zip(&widths);
            let cells = cells.map(|((cell, column), width)| {
                let padded = column.pad(&cell.text, *width);
                // Blanks stay outside: some terminals colour them too.
                let painted = cell.style.map(|style| {
                    let (before, after) = padded.split_once(&cell.text).unwrap_or((&padded, ""));
                    format!("{before}{}{after}", self.paint(&cell.text, style))
                });
                painted.unwrap_or(padded)
            });
            let line = format!("  {}", cells.collect::<Vec<_>>().join("  "));
            self.plain(&line);
        }
    }
}

/// A column of a table.
pub(super) struct Column {
    name: Cow<'static, str>,
    right: bool,
}

/// A column whose cells stand at its left.
pub(super) fn left(name: impl Into<Cow<'static, str>>) -> Column {
    Column {
        name: name.into(),
        right: false,
    }
}

/// A column whose cells stand at its right.
pub(super) fn right(name: impl Into<Cow<'static, str>>) -> Column {
    Column {
        name: name.into(),
        right: true,
    }
}

impl Column {
    fn pad(&self, text: &str, width: usize) -> String {
        if self.right {
            format!("{text:>width$}")
        } else {
            format!("{text:<width$}")
        }
    }
}

/// A cell of a table.
pub(super) struct Cell {
    text: String,
    style: Option<Style>,
}

/// A plain cell.
pub(super) fn cell(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        style: None,
    }
}

/// A cell with a style.
pub(super) fn styled(text: impl Into<String>, style: Style) -> Cell {
    Cell {
        text: text.into(),
        style: Some(style),
    }
}
