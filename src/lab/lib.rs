//! A page to play with: controls for machine, job and what goes wrong, and what follows from them.
//!
//! [`serve`] answers on this computer alone. A state of the page's controls (`state`) is a scenario;
//! a `queue` of worker threads runs what was asked last first, and `answer` tells what comes of it
//! as lines of JSON, which the page shows while they come.

mod answer;
mod choices;
mod connections;
mod error;
mod guard;
mod page;
mod queue;
mod server;
mod state;

pub use error::LabError;
pub use server::serve;
