//! Results of serving: what requests saw, what engines did, where the time went.

mod charts;
mod compare;
mod page;
mod record;
mod text;
mod verdict;
mod window;

pub(crate) use charts::trade_off;
pub use compare::difference;
pub(crate) use page::details;
pub use record::{
    HandoverUse, KvUse, Part, Percentiles, Pool, Rejected, Sample, ServingResult, Slowest, TierUse,
};
pub(crate) use text::lines;
pub(crate) use text::serving_text;
pub use verdict::{TooShort, Verdict};
pub use window::{Capacity, CapacityStep, HalfWidths, Saturation, ServingWindow, WindowRule};
