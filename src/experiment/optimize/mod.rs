//! The search for the best layout of a training job on some machines, numbers of GPUs and networks.
//!
//! Layouts are every combination of the values of a [`Space`]. Those that do not divide or do not fit
//! are left out; the others are simulated in the order of a bound on their step, until no bound is
//! below what was found: nothing is left out by a guess. Ways to serve ([`optimize_serving`]) are all simulated.

mod ask;
mod bounds;
mod budget;
mod front;
mod ground;
mod ledger;
mod room;
mod search;
mod serving;
mod space;
mod standalone;
mod target;

pub use ask::{Ask, Limit, Progress, Size};
pub use search::optimize;
pub use serving::{ServingAsk, ServingSizes, optimize_serving};
pub use space::{Knob, Space};
pub use target::fewest_gpus;
