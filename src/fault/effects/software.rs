//! Faults of software: slower ways that it takes, and releases that differ.

use super::{Effect, Faults, Item};
use crate::spec::FallTo;
use fabricsim_topology::NodeId;

/// What software takes in place of its fastest way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fall {
    /// The way.
    pub to: FallTo,
    /// On these nodes, in order.
    pub nodes: Vec<NodeId>,
}

/// Nodes with another release of NCCL than the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// These, in order; there is one.
    pub nodes: Vec<NodeId>,
    /// As the file has it.
    pub nccl: String,
    /// Where in the file.
    pub place: String,
}

impl Faults {
    /// What software takes in place of its fastest ways.
    #[must_use]
    pub fn falls(&self) -> Vec<Fall> {
        let of = |item: &Item| match &item.effect {
            Effect::Fallback(fall) => Some(fall.clone()),
            _ => None,
        };
        self.on().filter_map(of).collect()
    }

    /// Whether a fault is that software takes a slower way.
    #[must_use]
    pub fn is_fall(&self, fault: usize) -> bool {
        let item = self.items.get(fault);
        item.is_some_and(|item| matches!(item.effect, Effect::Fallback(_)))
    }

    /// Nodes with another release of NCCL.
    pub fn other_releases(&self) -> impl Iterator<Item = &Release> {
        self.on().filter_map(|item| match &item.effect {
            Effect::OtherRelease(release) => Some(release),
            _ => None,
        })
    }
}
