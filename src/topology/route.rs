//! Routes: which links a transfer loads, and by how much.

use super::graph::LinkId;
use crate::units::Time;

/// An exact fraction of a transfer: `num / den`, with `0 < num <= den` in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// Numerator.
    pub num: u32,
    /// Denominator.
    pub den: u32,
}

impl Share {
    /// All of it.
    pub const WHOLE: Share = Share { num: 1, den: 1 };
}

/// One link of a route and the fraction of the transfer's bytes that crosses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The link.
    pub link: LinkId,
    /// The fraction of the bytes: a transfer that spreads over four NVSwitches
    /// crosses each with its part.
    pub share: Share,
}

/// The links that a transfer loads at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Each link once, in order from source to destination (parallel branches side by side).
    pub hops: Vec<Hop>,
    /// Of the slowest branch: links plus the devices between them.
    pub latency: Time,
}
