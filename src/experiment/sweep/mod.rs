//! Sweeps: many experiments that differ along axes.
//!
//! [`read_sweep`] or the command line gives a [`SweepSpec`], [`Sweep::new`] its points in order,
//! [`Sweep::digest`] refuses values without a place before anything runs, [`run_points`] runs them.

mod catalogue;
mod digest;
mod info;
mod place;
mod points;
mod run;
mod spec;
mod values;

pub use catalogue::{SweepEntry, sweep_entries, sweep_names, sweep_text};
pub(crate) use place::machine_file;
pub use place::with_values;
pub use points::{Point, Sweep};
pub use run::run_points;
pub use spec::{
    AxisSpec, BaseRef, Bounds, Condition, OptionSpec, PartSpec, RangeSpec, SweepSpec, parse_sweep,
    read_sweep, sweep_schema,
};
pub use values::parse_axis;

/// All values of a range.
///
/// # Errors
/// A range without values, or of what is no number.
pub(crate) fn range_values(
    spec: &RangeSpec,
) -> Result<Vec<serde_json::Value>, fabricsim_topology::Fault> {
    values::range(spec, "range")
}
