//! How NCCL decides: rings on a machine, protocol and channels for a size, chunks and
//! slices, and by which transport each connection moves its data.
//!
//! Modelled after NCCL 2.30. So far: rings over NVSwitches, PCIe and networks with rails,
//! and the cost model's rows for rings. What NCCL decides is the default; each decision can
//! be forced by NCCL's own variable ([`Env`]) or by the caller ([`Forced`]).

mod communicator;
mod env;
mod error;
mod graph_file;
mod parts;
mod rings;
mod transport;
mod tuner;

pub use communicator::{Communicator, Forced, Planned};
pub use env::Env;
pub use error::NcclError;
pub use graph_file::{Channel, Graph, GraphFile, GraphGpu, Pattern};
pub use tuner::Algorithm;

#[cfg(test)]
mod tests;
