//! Published rates of failures, the defaults of goodput. The data is `published.json`.

use fabricsim_topology::Sourced;
use fabricsim_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A kind of part that fails and stops the job.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// GPUs with their memory; counted per GPU.
    Gpu,
    /// NICs; counted per NIC.
    Nic,
    /// NVSwitches; counted per NVSwitch. One that nodes share stops all of their domain.
    Nvswitch,
    /// The rest of a node, maintenance included; counted per node.
    Host,
    /// Cables and switches; counted per node.
    Network,
    /// Bugs, dependencies and what nobody explains; counted per node.
    Software,
    /// Leaf switches, each of which stops all nodes with a NIC on it; counted per switch. No published rates
    /// that also count `network` tell them apart from it.
    Leaf,
    /// Power or cooling of racks, which stops all nodes of one; counted per rack that the topology has.
    Rack,
}

impl Component {
    /// How many kinds there are.
    pub const COUNT: usize = 8;

    /// All, in order.
    pub const ALL: [Component; Component::COUNT] = [
        Component::Gpu,
        Component::Nic,
        Component::Nvswitch,
        Component::Host,
        Component::Network,
        Component::Software,
        Component::Leaf,
        Component::Rack,
    ];

    /// The name used in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Component::Gpu => "GPU",
            Component::Nic => "NIC",
            Component::Nvswitch => "NVSwitch",
            Component::Host => "host",
            Component::Network => "network",
            Component::Software => "software",
            Component::Leaf => "leaf switch",
            Component::Rack => "rack",
        }
    }
}

/// The failures of one cluster, as published.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRates {
    /// Short name.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Where it is published.
    pub source: String,
    /// How the published causes were sorted.
    pub comment: String,
    /// Nodes that were watched.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// NICs of each.
    pub nics_per_node: u32,
    /// NVSwitches of each.
    pub nvswitches_per_node: u32,
    /// Leaf switches that were watched.
    #[serde(default)]
    pub leaves: u32,
    /// For how many days.
    pub days: f64,
    /// How many failures there were.
    pub failures: BTreeMap<Component, f64>,
}

impl PublishedRates {
    /// The mean time between failures of one part; `None` if none failed.
    #[must_use]
    pub fn mtbf(&self, component: Component) -> Option<Span> {
        let failures = self.failures.get(&component).copied()?;
        let per_node = |count: u32| u64::from(self.nodes) * u64::from(count);
        let parts = match component {
            Component::Gpu => per_node(self.gpus_per_node),
            Component::Nic => per_node(self.nics_per_node),
            Component::Nvswitch => per_node(self.nvswitches_per_node),
            Component::Host | Component::Network | Component::Software => per_node(1),
            Component::Leaf => u64::from(self.leaves),
            // Nobody publishes them.
            Component::Rack => return None,
        };
        let seconds = self.days * 86_400.0 * parts as f64 / failures;
        (0.0 < failures).then(|| Span::from_seconds(seconds))
    }
}

/// What a goodput job takes if its file says nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Until a failure is noticed.
    pub detection: Sourced<Span>,
    /// From a checkpoint to the first step.
    pub restart: Sourced<Span>,
    /// Share of failures that take a node out until it is repaired.
    pub drained: Sourced<f64>,
    /// What a restart consists of, and how that grows.
    pub restart_parts: RestartGrowth,
}

/// How the parts of a restart grow with the number of GPUs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartGrowth {
    /// Processes and all that is not told apart, with no GPUs.
    pub processes: Sourced<Span>,
    /// What is added to that for each GPU.
    pub processes_per_gpu: Sourced<Span>,
    /// Communicators with `communicators_at` GPUs.
    pub communicators: Sourced<Span>,
    /// The number of GPUs that `communicators` is of.
    pub communicators_at: Sourced<f64>,
    /// Communicators grow with this power of the number of GPUs.
    pub communicators_exponent: Sourced<f64>,
    /// Communicators take no less.
    pub communicators_least: Sourced<Span>,
}

/// All that is published.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What the file is about.
    pub comment: String,
    /// Rates of failures; the first are the default.
    pub rates: Vec<PublishedRates>,
    /// Times and shares.
    pub defaults: Defaults,
}

/// The shipped data.
#[must_use]
pub fn published() -> &'static Published {
    static PUBLISHED: OnceLock<Published> = OnceLock::new();
    PUBLISHED.get_or_init(|| {
        serde_json::from_str(include_str!("published.json"))
            .expect("the shipped published.json is read by a test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_3_failed_every_three_hours() {
        let rates = &published().rates[0];
        assert_eq!(rates.failures.values().sum::<f64>(), 419.0);
        // 54 × 24 h / 419 = 3.093 h, over all parts together.
        let per_second: f64 = Component::ALL
            .into_iter()
            .filter_map(|component| {
                let parts = match component {
                    Component::Gpu | Component::Nic => 16_384.0,
                    _ => 2048.0,
                };
                Some(parts / rates.mtbf(component)?.seconds())
            })
            .sum();
        let hours = 1.0 / per_second / 3600.0;
        assert!((hours - 3.093).abs() < 0.0005, "{hours}");
    }

    #[test]
    fn rsc_1_gives_its_published_times() {
        // 24 h / (gpus / 8 × 6.5 / 1000): 1.8 h at 16,384 GPUs, 0.23 h at 131,072.
        let rates = published()
            .rates
            .iter()
            .find(|r| r.name == "meta-rsc-1")
            .unwrap();
        let node = rates.mtbf(Component::Host).unwrap().seconds() / 3600.0;
        assert!((node / 2048.0 - 1.8).abs() < 0.01);
        assert!((node / 16384.0 - 0.23).abs() < 0.005);
    }
}
