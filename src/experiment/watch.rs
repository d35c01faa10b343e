//! Following a run while it goes on.

use fabricsim_report::CollectiveView;
use fabricsim_report::record::Row;
use std::io;

/// How far a collective is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which simulation, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
    /// The size that is simulated.
    pub bytes: u64,
    /// Steps of the program that have begun.
    pub begun: u64,
    /// Steps in all.
    pub steps: u64,
}

/// What a run says while it goes on.
pub trait Watch {
    /// A variant begins, the `index`-th of so many, from 0.
    fn variant(&mut self, _name: &str, _index: usize, _count: usize) {}
    /// Before the first row of a collective; the view has none yet.
    ///
    /// # Errors
    /// End the run.
    fn begin(&mut self, _view: CollectiveView<'_>) -> io::Result<()> {
        Ok(())
    }
    /// Now and then, of a collective.
    fn step(&mut self, _step: Step) {}
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
