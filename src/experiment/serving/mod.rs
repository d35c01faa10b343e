//! A serving job: its checks, its engines on the machine, its run, its results.

mod answer;
mod capacity;
mod first_token;
mod footprint;
mod handover;
mod horizon;
mod laid;
mod links;
mod moved;
mod pools;
mod requests;
mod results;
mod run;
pub(crate) mod series;
mod steady;
mod tiers;
mod timeline;
mod times;
mod valid;

pub use handover::{between, narrowest};
pub use links::{exchange_links, shared_rate};
pub use valid::{ValidPool, ValidServing};

pub(crate) use answer::compare;
pub(crate) use footprint::serving_footprint;
pub(crate) use handover::over;
pub(crate) use horizon::amount;
pub(crate) use laid::LaidServing;
pub(crate) use times::{Medians, medians};
pub(crate) use valid::{serving, serving_on};
