//! What ranks called and what came of it: operations that ended, who waits for whom, what layers say of it.

mod page;
mod record;
mod text;

pub(crate) use page::details;
pub use record::{CallsResult, DoneCall, Hang, Said, WaitRow};
pub(crate) use text::{calls_text, lines};
