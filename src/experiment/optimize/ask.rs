//! What a search is asked, and how far it is.

use crate::spec::TopologyRef;
use crate::sweep::AxisSpec;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// On these machines.
    pub machines: &'a [TopologyRef],
    /// On so many GPUs of each. Of none, limits say how many there may be.
    pub sizes: &'a [Size],
    /// With these ratios of ports down to ports up of leaves; of none, as the machines have them.
    pub oversubscription: &'a [f64],
    /// What a machine must not be above.
    pub limits: &'a [Limit],
    /// By this metric.
    pub objective: &'a str,
    /// So many of each machine, number of GPUs and network.
    pub top: usize,
    /// Values of knobs, in place of those that are searched by default.
    pub over: &'a [AxisSpec],
    /// Everything that fits is simulated: to check the bounds.
    pub exhaustive: bool,
}

/// How many GPUs of a machine take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// So many GPUs: some of one node, or whole nodes.
    Gpus(u32),
    /// All GPUs of so many nodes.
    Nodes(u32),
}

impl Size {
    /// How many GPUs or nodes it says.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Size::Gpus(count) | Size::Nodes(count) => count,
        }
    }
}

/// A part of a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Dollars for all GPUs that take part, an hour.
    UsdPerHour(f64),
    /// What the whole machine draws at full load, kW.
    Kw(f64),
}

impl Limit {
    /// The name and the value that it is given by.
    #[must_use]
    pub const fn named(self) -> (&'static str, f64) {
        match self {
            Limit::UsdPerHour(dollars) => ("usd_per_hour", dollars),
            Limit::Kw(kilowatts) => ("kw", kilowatts),
        }
    }
}

/// How far a search is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The machine that is searched.
    pub machine: &'a str,
    /// Its GPUs.
    pub gpus: u32,
    /// Layouts that were simulated on it.
    pub simulated: u64,
    /// Layouts that may still be.
    pub left: u64,
}
