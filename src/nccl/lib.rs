//! How NCCL decides: channels on a machine, algorithm and protocol for a size, chunks and
//! slices, and by which transport each connection moves its data.
//!
//! Modelled after NCCL 2.30. What NCCL decides is the default; each decision can be forced by
//! NCCL's own variable ([`Env`]) or by the caller ([`Forced`]).

mod algorithm;
mod apart;
mod choice;
mod chunks;
mod communicator;
mod connections;
mod costs;
mod env;
mod error;
mod gates;
mod graph_file;
mod graphs;
mod heads;
mod host_ring;
mod hosts;
mod interfaces;
mod issue;
mod lay;
mod memory;
mod merging;
mod mesh;
mod orders;
pub mod p2p;
mod ports;
mod registration;
mod rings;
mod sends;
mod sharp;
mod sockets;
mod symmetric;
mod transport;
mod tuner;
mod turns;
mod version;

pub use algorithm::Algorithm;
pub use choice::{Candidate, Expected};
pub use communicator::{Communicator, Forced, Planned};
pub use connections::Connections;
pub use env::{Binding, Env, Net, NicFilter, SocketEnv, WithoutEffect};
pub use error::NcclError;
pub use graph_file::{Channel, Graph, GraphFile, GraphGpu, Pattern};
pub use interfaces::unknown_interfaces;
pub use memory::Traffic;
pub use registration::Registration;
pub use sockets::{over_sockets, socket_warnings};
pub use version::Version;

/// Most channels of a communicator (NCCL: `MAXCHANNELS`).
const MOST_CHANNELS: u16 = 64;

#[cfg(test)]
mod tests;
