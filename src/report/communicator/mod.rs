//! What making communicators takes: parts, sockets, memory.

mod page;
mod record;
mod text;

pub(crate) use page::details;
pub use record::{CommunicatorResult, FirstOperation, LifePart, MadeCommunicator, SocketUse};
pub(crate) use text::{communicator_text, lines};
