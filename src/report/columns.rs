//! The columns of a collective's table: their cells, and which of them fit a terminal.

use super::numbers::nccl_float;
use super::record::Row;
use super::summary::CollectiveView;
use super::table::{STRONG, paint};

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Size,
    Count,
    Type,
    Redop,
    Root,
    Time,
    Algbw,
    Busbw,
    Algo,
    Proto,
    Channels,
    Bound,
    Healthy,
    Slower,
    Bottleneck,
}

use Column::{
    Algbw, Algo, Bottleneck, Bound, Busbw, Channels, Count, Healthy, Proto, Redop, Root, Size,
    Slower, Time, Type,
};

/// All of them in their order.
const ORDER: [Column; 15] = [
    Size, Count, Type, Redop, Root, Time, Algbw, Busbw, Algo, Proto, Channels, Bound, Healthy,
    Slower, Bottleneck,
];

/// Those that go where a line is too short, the one that says least first: what is the same in all
/// rows, what follows from another column, what few ask for.
const LEAVING: [Column; 11] = [
    Type, Root, Redop, Count, Channels, Healthy, Algbw, Bound, Proto, Slower, Algo,
];

/// The columns that a limit keeps: most causes with their share.
const BOTTLENECK_WIDTH: usize = 31;
/// A cause cut to less says nothing.
const LEAST_BOTTLENECK: usize = 12;
/// The narrowest algorithm's column; longer names make it wider.
const ALGO_WIDTH: usize = 10;
/// Between two columns.
const GAP: usize = 2;

/// The columns of a table, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    columns: Vec<Column>,
    algo_width: usize,
    /// The most characters of a line.
    width: Option<usize>,
    /// Columns are left out for that.
    narrow: bool,
}

impl Layout {
    /// All columns, or those that fit into lines of `width` characters.
    pub(super) fn of(view: CollectiveView<'_>, width: Option<usize>) -> Layout {
        let names = view.result.rows.iter().map(|row| row.algo.chars().count());
        let mut layout = Layout {
            columns: all(view),
            algo_width: names.fold(ALGO_WIDTH, usize::max),
            width,
            narrow: false,
        };
        let whole = layout.used() + BOTTLENECK_WIDTH;
        let Some(width) = width.filter(|&width| width < whole) else {
            return layout;
        };
        layout.narrow = true;
        let mut leaving = LEAVING.iter();
        while layout.used() + BOTTLENECK_WIDTH > width
            && let Some(leaves) = leaving.next()
        {
            layout.columns.retain(|column| column != leaves);
        }
        if layout.used() + LEAST_BOTTLENECK > width {
            layout.columns.retain(|column| *column != Bottleneck);
        }
        layout
    }

    /// The characters of a line before the bottleneck, but for long names of algorithms: rows that are
    /// not known yet have no say in which columns there are.
    fn used(&self) -> usize {
        let columns = self.columns.iter().filter(|c| **c != Bottleneck);
        let width = |column: &Column| match column {
            Algo => ALGO_WIDTH,
            _ => self.width(*column),
        };
        columns.map(|column| width(column) + GAP).sum()
    }

    /// The names of the columns that do not fit.
    pub(super) fn left_out(&self, view: CollectiveView<'_>) -> Vec<&'static str> {
        let missing = all(view).into_iter();
        let missing = missing.filter(|column| !self.columns.contains(column));
        missing.map(|column| column.names().0).collect()
    }

    fn width(&self, column: Column) -> usize {
        match column {
            // A larger size makes its own line longer.
            Size if self.narrow => 10,
            Size | Count => 12,
            Type | Channels => 8,
            Redop | Root | Algbw | Busbw | Proto | Slower => 6,
            Time | Bound | Healthy => 7,
            Algo => self.algo_width,
            Bottleneck => 0,
        }
    }

    /// The two lines of the heading, which begin with `#`.
    pub(super) fn heading(&self) -> [String; 2] {
        let line = |name: &dyn Fn(Column) -> &'static str| {
            let cells = self.columns.iter().map(|&column| match column {
                // The first column, whose first two characters are the mark of a remark.
                Size => format!("# {:>1$}", name(column), self.width(Size) - 2),
                _ => format!("{:>1$}", name(column), self.width(column)),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        [line(&|c| c.names().0), line(&|c| c.names().1)]
    }

    /// The line of a row.
    pub(super) fn row(&self, view: CollectiveView<'_>, row: &Row, colour: bool) -> String {
        let mut used = 0;
        let cells = self.columns.iter().map(|&column| {
            let text = format!("{:>1$}", cell(column, view, row), self.width(column));
            used += text.chars().count() + GAP;
            match (column, self.width) {
                (Busbw, _) => paint(&text, STRONG, colour),
                (Bottleneck, Some(width)) => {
                    let before = used - text.chars().count() - GAP;
                    shortened(&text, width.saturating_sub(before))
                }
                _ => text,
            }
        });
        cells.collect::<Vec<_>>().join("  ") + "\n"
    }
}

/// The columns that a summary has.
fn all(view: CollectiveView<'_>) -> Vec<Column> {
    let faulty = !view.result.faults.is_empty();
    let has = |column: &Column| faulty || !matches!(column, Healthy | Slower);
    ORDER.into_iter().filter(has).collect()
}

impl Column {
    /// Its name and its unit.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Size => ("size", "(B)"),
            Count => ("count", "(elements)"),
            Type => ("type", ""),
            Redop => ("redop", ""),
            Root => ("root", ""),
            Time => ("time", "(us)"),
            Algbw => ("algbw", "(GB/s)"),
            Busbw => ("busbw", "(GB/s)"),
            Algo => ("algo", ""),
            Proto => ("proto", ""),
            Channels => ("channels", ""),
            Bound => ("bound", "(us)"),
            Healthy => ("healthy", "(us)"),
            Slower => ("slower", ""),
            Bottleneck => ("bottleneck", ""),
        }
    }
}

fn cell(column: Column, view: CollectiveView<'_>, row: &Row) -> String {
    let none = || "-".to_owned();
    match column {
        Size => row.bytes.to_string(),
        Count => row.count.to_string(),
        Type => "float".to_owned(),
        Redop => operation(&view.result.collective).0.to_owned(),
        Root => operation(&view.result.collective).1.to_owned(),
        Time => nccl_float(row.time_us, 7),
        Algbw => nccl_float(row.algbw_gbs, 6),
        Busbw => nccl_float(row.busbw_gbs, 6),
        Algo => row.algo.clone(),
        Proto => row.proto.clone(),
        Channels => row.channels.to_string(),
        Bound => nccl_float(row.bound_us, 7),
        Healthy => row.healthy_us.map_or_else(none, |us| nccl_float(us, 7)),
        Slower => row
            .healthy_us
            .map_or_else(none, |us| slower(row.time_us, us)),
        Bottleneck => row.bottleneck.clone(),
    }
}

/// How many times as long as without faults.
pub(super) fn slower(time_us: f64, healthy_us: f64) -> String {
    if healthy_us > 0.0 {
        format!("{:.2}x", time_us / healthy_us)
    } else {
        "-".to_owned()
    }
}

/// nccl-tests' redop and root columns: an operation only where one is done, root 0
/// only where there is one.
fn operation(collective: &str) -> (&'static str, &'static str) {
    match collective {
        "all-reduce" | "reduce-scatter" => ("sum", "-1"),
        "reduce" => ("sum", "0"),
        "broadcast" | "gather" | "scatter" => ("none", "0"),
        _ => ("none", "-1"),
    }
}

/// What limits a row in at most `room` characters. The share at its end stays, so that its name is
/// cut: `message handling of net… (17 %)`.
fn shortened(text: &str, room: usize) -> String {
    let length = |text: &str| text.chars().count();
    if length(text) <= room {
        return text.to_owned();
    }
    let share = text.rfind(" (").map_or("", |at| &text[at..]);
    let share = if length(share) * 2 > room { "" } else { share };
    let name = text.chars().take(room.saturating_sub(length(share) + 1));
    let name: String = name.collect();
    format!("{}…{share}", name.trim_end())
}
