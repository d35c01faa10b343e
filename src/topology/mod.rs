//! The machine: what it is made of, how it is wired, and which way data goes.

pub mod graph;
pub mod hardware;
pub mod paths;
pub mod route;
pub mod spec;

#[cfg(test)]
mod catalogue_tests;

pub use graph::{
    Device, DeviceId, DeviceKind, Fabric, Link, LinkId, Node, NodeId, Place, Topology,
};
pub use hardware::{DeviceModel, GpuModel, Hardware, LinkFamily, LinkModel, Sourced};
pub use paths::{PathMatrix, PathType};
pub use route::{Hop, Route, RouteError, Router, Share};
pub use spec::TopologySpec;
