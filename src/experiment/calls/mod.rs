//! What ranks call, in order, and what comes of it where they do not call the same.
//!
//! `meet.rs` goes through the calls of all ranks until none can go on, `waits.rs` says who waits for whom then, and
//! `said.rs` what each layer says of it and when. `mistakes.rs` has the shipped ones.

mod costs;
mod meet;
mod mistakes;
mod run;
mod said;
mod spec;
mod valid;
mod waits;

pub use mistakes::{Mistake, mistake, mistakes};
pub(crate) use run::compare;
pub use spec::{
    CallSpec, CallsSpec, MessageSpec, MonitoredSpec, OperationSpec, RankCallsSpec, RegisterSpec,
    StreamsSpec,
};
pub use valid::ValidCalls;
pub(crate) use valid::calls;
