//! Following a run while it goes on.

use fabricsim_report::CollectiveView;
use fabricsim_report::record::Row;
use std::io;

/// What a run says while it goes on.
pub trait Watch {
    /// Before the first row of a collective; the view has none yet.
    ///
    /// # Errors
    /// End the run.
    fn begin(&mut self, _view: CollectiveView<'_>) -> io::Result<()> {
        Ok(())
    }
    /// A row is done; the view has it and those before.
    ///
    /// # Errors
    /// End the run.
    fn row(&mut self, _view: CollectiveView<'_>, _row: &Row) -> io::Result<()> {
        Ok(())
    }
}

/// Ignores all of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watch for Silent {}
