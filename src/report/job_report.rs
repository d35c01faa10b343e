//! What the results of all kinds of job tell in the same way.

/// The result of a job, of whatever kind.
pub(crate) trait JobReport {
    /// Why the job did not come to its end, if so.
    fn failure(&self) -> Option<&str>;

    /// Whether it came to its end.
    fn ended(&self) -> bool {
        self.failure().is_none()
    }

    /// Wall-clock milliseconds of its simulations.
    fn wall_ms(&self) -> f64;

    /// Leaves out what differs between two runs.
    fn forget_wall_time(&mut self);
}
