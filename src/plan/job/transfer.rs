//! Bytes that go from one place to another outside of communicators: a KV cache that is handed
//! over, weights that are offloaded, a checkpoint.

use fabricsim_topology::Route;
use fabricsim_units::{Bandwidth, Time};

/// A way that transfers take, an index into [`super::Job::transfer_routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferRouteId(pub u32);

/// A way that transfers take.
///
/// A transfer of `B` bytes in `n` messages takes [`Route::latency`], and then as long as its bytes
/// flow. They flow at the share of each link that max–min fairness leaves them, as one of the
/// transfers there; but no faster than by themselves, at `B / (B / rate + n · message)` (the
/// bandwidth that LogGP gives a train of messages). A link that is slower hides what messages
/// cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferRoute {
    /// The links, and the latency until the first byte arrives.
    pub route: Route,
    /// What a copy engine or an interface moves at most; `None` if links alone limit it.
    pub rate: Option<Bandwidth>,
    /// What each message takes, beside its bytes.
    pub message: Time,
}
