//! A machine with a number of GPUs and a network, as one of several that a search compares.

use super::{Layout, Reason};
use crate::metrics::Metrics;
use serde::Serialize;

/// A cluster, and the best that was found on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cluster {
    /// The machine.
    pub topology: String,
    /// Its nodes.
    pub nodes: u32,
    /// GPUs that take part.
    pub gpus: u32,
    /// Ports down to ports up of its leaves, if that is searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<f64>,
    /// What all that is powered draws at full load, kW: its nodes and the switches that they could use;
    /// `null` if it is not known.
    pub kw: Option<f64>,
    /// Dollars for its GPUs, an hour; `null` if they are not known.
    pub usd_per_hour: Option<f64>,
    /// What the switches, cables and transceivers that its nodes could use cost to buy, dollars; `null` if it
    /// is not known.
    pub network_usd: Option<f64>,
    /// What it is above, of the budget.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<Over>,
    /// Why no layout was simulated: what most of them are left out by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Reason>,
    /// The best layout.
    pub layout: Option<Layout>,
    /// And its numbers.
    pub metrics: Option<Metrics>,
}

impl Cluster {
    /// A number of the best layout.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.metrics.as_ref()?.number(name)
    }

    /// Its best layout, or why there is none.
    pub(super) fn outcome(&self) -> String {
        match (&self.layout, self.over_text(), self.why) {
            (Some(layout), _, _) => layout.to_string(),
            (None, Some(over), _) => format!("above the budget: {over}"),
            (None, None, Some(why)) => format!("none: {}", why.of_all()),
            (None, None, None) => "none".to_owned(),
        }
    }

    /// The budget that it is above, for people.
    fn over_text(&self) -> Option<String> {
        let over = self.over.first()?;
        let shown = |value: f64| match over.what.as_str() {
            "kw" => format!("{} kW", crate::numbers::three_digits(value)),
            _ => format!("{} an hour", crate::bill::dollars(value)),
        };
        Some(format!("{} > {}", shown(over.needs), shown(over.budget)))
    }
}

/// A part of a budget that a cluster is above.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Over {
    /// Its name, as `--budget` has it.
    pub what: String,
    /// What the cluster needs.
    pub needs: f64,
    /// What there is.
    pub budget: f64,
}
