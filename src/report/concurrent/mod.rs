//! Results of jobs that ran at once: each beside what it takes by itself.

mod page;
mod record;
mod text;

pub(crate) use page::details;
pub use record::{ConcurrentJob, ConcurrentResult, ConcurrentRow, SharedGpus, SharedLink};
pub(crate) use text::{concurrent_text, lines};
