//! The machine: what it is made of, how it is wired, and which way data goes.
//!
//! A file ([`spec`]) is read ([`mod@load`]), expanded ([`mod@expand`]) into a [`Topology`], and
//! checked on the way ([`mod@check`], [`error`]). Shipped files are in the [`catalogue`];
//! [`mod@compact`] makes files of one's own of them.

pub mod architecture;
mod attach;
mod bare_word;
pub mod bill;
#[cfg(test)]
mod bill_tests;
pub mod bootstrap;
mod builder;
pub mod catalogue;
#[cfg(test)]
mod catalogue_facts;
#[cfg(test)]
mod catalogue_tests;
pub mod charge;
#[cfg(test)]
mod charge_tests;
pub mod check;
pub mod compact;
pub mod draw;
mod edit;
pub mod error;
pub mod expand;
pub mod export;
mod fabric;
pub mod graph;
pub mod hardware;
pub mod import;
pub mod load;
mod machine;
mod model_checks;
mod models;
pub mod mtu;
pub mod offload;
pub mod paths;
pub mod power;
pub mod pytorch;
pub mod route;
pub mod schema;
pub mod select;
mod selector;
pub mod software;
pub mod spec;
mod storage;
#[cfg(test)]
mod strict_tests;
mod template;
#[cfg(test)]
mod tests;
pub mod tiers;
pub mod watchdogs;

pub use architecture::{Architecture, KernelModel};
pub use bill::Bill;
pub use charge::{Basis, Taken};
pub use check::{Finding, Severity, check};
pub use error::{Fault, TopologyError};
pub use expand::{Overrides, expand, expand_and_check};
pub use graph::{
    Device, DeviceId, DeviceKind, Fabric, Link, LinkId, Node, NodeId, Place, Topology,
};
pub use hardware::{DeviceModel, GpuModel, Hardware, LinkFamily, LinkModel, Sourced, StorageModel};
pub use load::load;
pub use mtu::Mtu;
pub use paths::{PathMatrix, PathType};
pub use power::{CableModel, Medium, PowerModel, TransceiverModel};
pub use route::{Hop, Route, RouteError, Router, Share, Shift};
pub use software::{
    BareModel, EngineModel, HandoverModel, LibraryModel, OffloadModel, ProcessModel, ServingModel,
    SocketModel, processes, serving, sockets,
};
pub use spec::TopologySpec;
