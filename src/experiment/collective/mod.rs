//! Single collectives: checked, timed as nccl-tests does, and told as a report's input.

mod alone;
mod answer;
mod bound_words;
mod choices;
pub mod coverage;
mod decided;
mod disturb;
mod footprint;
mod planning;
mod prices;
mod run;
mod substitution;
pub mod timing;
mod trial;
mod valid;

pub(crate) use alone::alone;
pub(crate) use answer::{answer, compare};
pub use choices::find_better_choices;
pub(crate) use disturb::Conditions;
pub(crate) use planning::{What, plan_of};
pub use valid::ValidCollective;
pub(crate) use valid::{check_matrix, check_memory, collective, msccl, sizes};
