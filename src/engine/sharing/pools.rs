//! Resources, as sharing sees them.

use super::groups::GroupId;
use smallvec::SmallVec;

/// What is known of a resource.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    pub(super) capacity: u64,
    /// The uses by groups that have members, with the groups.
    pub(super) active: SmallVec<[(u32, GroupId); 4]>,
    /// What its transfers would take if each went as fast as it could alone.
    pub(super) demand: u128,
    /// What they take at the rates last computed, and their weight.
    pub(super) used: u128,
    pub(super) weight: u64,
    pub(super) dirty: bool,
    /// The part for which it was last looked at.
    pub(super) touched: u64,
    /// It has room for all who may ever use it at once.
    pub(super) roomy: bool,
}

impl Pool {
    /// Whether it can limit anyone, at the rates last computed. One that cannot passes no
    /// influence on from one transfer to another, so that computing anew ends there. With room
    /// for another byte per second of each transfer, its level is above the rates of all at every
    /// step of filling, rounded down as it is.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.is_full_with(self.used)
    }

    /// Whether it could, if so much were taken of it.
    #[inline]
    pub(super) fn is_full_with(&self, used: u128) -> bool {
        let capacity = u128::from(self.capacity);
        self.demand > capacity && used + u128::from(self.weight) > capacity
    }
}

/// What filling goes by, apart from all else that there is of a resource: it is looked at over
/// and over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    /// The part that the resource was last in.
    pub(super) part: u64,
    /// What is left, and the weight of those who still rise; valid during a solve.
    pub(super) rest: u64,
    pub(super) rising: u64,
    /// It was full when rates were last computed.
    pub(super) binding: bool,
}

impl Level {
    /// The rate at which the resource would be full, if all who rise went on together.
    pub(super) fn rate(&self) -> u64 {
        self.rest.checked_div(self.rising).unwrap_or(u64::MAX)
    }
}
