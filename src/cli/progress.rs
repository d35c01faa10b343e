//! A run as it goes on: a bar on a terminal, and rows as they come.

use super::terminal;
use fabricsim_experiment::{Step, Watch};
use fabricsim_report::record::Row;
use fabricsim_report::{CollectiveView, table_header, table_row};
use fabricsim_units::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use std::io;
use std::time::{Duration, Instant};

/// Shows how a run goes on.
pub(super) struct Show {
    /// Print the table's rows as they come.
    rows: bool,
    /// The run has more to give than rows: it goes on where nobody reads them any more.
    written: bool,
    colour: bool,
    /// Of a line, where it is limited.
    width: Option<usize>,
    began: Instant,
    /// Of several, the one that runs.
    variant: Option<String>,
    /// Not wanted, or made when the run turns out to be long.
    bar: Option<Option<ProgressBar>>,
}

/// Who waits longer than this wants to see that something happens.
const PATIENCE: Duration = Duration::from_millis(700);

impl Show {
    /// Prints rows if `rows`, and shows a bar unless `quiet`. Of a run whose results are
    /// `written` to a folder, a pipe that is closed ends the rows only.
    pub(super) fn new(rows: bool, quiet: bool, written: bool) -> Self {
        Show {
            rows,
            written,
            colour: terminal::colour(),
            width: terminal::width(),
            began: Instant::now(),
            variant: None,
            bar: (!quiet).then_some(None),
        }
    }

    /// The bar, if it is wanted and the run turns out to be long.
    fn bar(&mut self) -> Option<&ProgressBar> {
        let bar = self.bar.as_mut()?;
        if bar.is_none() && self.began.elapsed() < PATIENCE {
            return None;
        }
        // A bar draws to standard error, and hides itself where that is no terminal.
        Some(bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{msg} {bar:30} {percent}% {elapsed}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar
        }))
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(Some(bar)) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        let printed = match &self.bar {
            Some(Some(bar)) => bar.suspend(|| terminal::print(text)),
            _ => terminal::print(text),
        };
        match printed {
            Err(error) if self.written && error.kind() == io::ErrorKind::BrokenPipe => {
                self.rows = false;
                Ok(())
            }
            other => other,
        }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Watch for Show {
    fn variant(&mut self, name: &str, index: usize, count: usize) {
        self.variant = None;
        if count > 1 {
            self.variant = Some(format!("{name} ({} of {count})", index + 1));
        }
        let message = self.variant.clone().unwrap_or_default();
        if let Some(bar) = self.bar() {
            bar.set_position(0);
            bar.set_message(message);
        }
    }

    fn begin(&mut self, view: CollectiveView<'_>) -> io::Result<()> {
        if self.rows {
            self.print(&table_header(view, self.width, self.colour))?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) {
        let of = self.variant.as_ref();
        let of = of.map_or_else(String::new, |variant| format!("{variant}: "));
        let Some(bar) = self.bar() else { return };
        let part = step.begun as f64 / step.steps.max(1) as f64;
        bar.set_position((part * 1000.0) as u64);
        let size = Bytes::new(step.bytes);
        bar.set_message(format!("{of}{size}, {} of {}", step.index + 1, step.count));
    }

    fn row(&mut self, view: CollectiveView<'_>, row: &Row) -> io::Result<()> {
        if self.rows {
            self.print(&table_row(view, row, self.width, self.colour))?;
        }
        Ok(())
    }
}
