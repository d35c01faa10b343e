//! What moves: programs of steps over chunks, builders for algorithms, and the proof
//! that a program computes what it says. Nothing here knows of time or of links.

pub mod chain;
pub mod goal;
pub mod heads;
pub mod host_ring;
pub mod matrix;
pub mod message;
pub mod msccl;
pub mod one_shot;
pub mod p2p;
pub mod program;
pub mod ring;
pub mod rings;
pub mod side_by_side;
pub mod tree;
pub mod verify;
pub mod walk;

pub use chain::{ChainProgram, Chains};
pub use goal::{Collective, ROOT};
pub use heads::{Between, HeadsProgram, HopKind};
pub use host_ring::{HostHop, HostRingProgram};
pub use matrix::{Matrix, MatrixError};
pub use message::{MessageAlgorithm, MessageError, MessageProgram};
pub use msccl::{MscclAlgorithm, MscclError, MscclProgram};
pub use one_shot::OneShotProgram;
pub use p2p::{Cut, Lanes, P2pProgram, Rounds, RoundsError};
pub use program::{
    After, At, Buffer, ConnId, Connection, Deal, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
pub use ring::{Part, RingProgram};
pub use rings::{RingError, Rings};
pub use side_by_side::SideBySide;
pub use tree::{Tree, TreeError, TreeProgram, binary_parent};
pub use verify::{Piece, VerifyError, verify};
pub use walk::{Change, Transfer, Walk, walk};

#[cfg(test)]
mod builder_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tree_tests;
