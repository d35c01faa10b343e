//! A run as it goes on: rows as they come, and of what takes long how far it is and how long it will still take.

use super::long::Long;
use super::terminal;
use fabricsim_budget::Budget;
use fabricsim_experiment::Watch;
use fabricsim_report::record::Row;
use fabricsim_report::{CollectiveView, table_header, table_row};
use std::io;

/// Shows how a run goes on.
pub(super) struct Show {
    /// Print the table's rows as they come.
    rows: bool,
    /// The run has more to give than rows: it goes on where they cannot be printed.
    written: bool,
    colour: bool,
    /// Of a line, where it is limited.
    width: Option<usize>,
    long: Option<Long>,
}

impl Show {
    /// Prints rows if `rows`, and says how far the work of the budget is unless `quiet`. Of a run whose results
    /// are `written` to a folder, a pipe that is closed or a disk that is full ends the rows only.
    pub(super) fn new(rows: bool, quiet: bool, written: bool, budget: &Budget) -> Self {
        Show {
            rows,
            written,
            colour: terminal::colour(),
            width: terminal::width(),
            long: (!quiet).then(|| Long::follow(budget)),
        }
    }

    /// Says no more.
    pub(super) fn finish(&mut self) {
        self.long = None;
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        let printed = match &self.long {
            Some(long) => long.without_bar(|| terminal::print(text)),
            None => terminal::print(text),
        };
        match printed {
            // What is printed once the folder is written meets the same error, and says it.
            Err(_) if self.written => {
                self.rows = false;
                Ok(())
            }
            other => other,
        }
    }
}

impl Watch for Show {
    fn begin(&mut self, view: CollectiveView<'_>) -> io::Result<()> {
        if self.rows {
            self.print(&table_header(view, self.width, self.colour))?;
        }
        Ok(())
    }

    fn row(&mut self, view: CollectiveView<'_>, row: &Row) -> io::Result<()> {
        if self.rows {
            self.print(&table_row(view, row, self.width, self.colour))?;
        }
        Ok(())
    }
}
