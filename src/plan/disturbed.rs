//! What goes wrong while a plan is executed: kernels that start late, thread blocks that are slow,
//! links that change.

use fabricsim_collective::Rank;
use fabricsim_topology::LinkId;
use fabricsim_units::Time;

/// How much longer things take than they should, as a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stretch(u64);

impl Stretch {
    /// Factors count in parts of this, so that what comes of them is exact.
    const PARTS: u64 = 1_000_000_000;

    /// As long as they should.
    pub const NONE: Stretch = Stretch(Self::PARTS);

    /// The least and the most that makes a difference: a thousandth, and a million.
    const RANGE: (u64, u64) = (Self::PARTS / 1000, Self::PARTS * 1_000_000);

    /// `factor` times as long: 1.25 is a quarter longer. Between a thousandth and a million.
    #[must_use]
    pub fn new(factor: f64) -> Self {
        let parts = (factor * Self::PARTS as f64).round() as u64;
        Stretch(parts.clamp(Self::RANGE.0, Self::RANGE.1))
    }

    /// Both together.
    #[must_use]
    pub fn times(self, other: Stretch) -> Self {
        let parts = u128::from(self.0) * u128::from(other.0) / u128::from(Self::PARTS);
        let parts = u64::try_from(parts).unwrap_or(u64::MAX);
        Stretch(parts.clamp(Self::RANGE.0, Self::RANGE.1))
    }

    /// What takes `time` by itself.
    #[must_use]
    #[inline]
    pub fn time(self, time: Time) -> Time {
        if self == Self::NONE {
            return time;
        }
        if let Some(product) = time.picos().checked_mul(self.0) {
            return Time::from_picos(product / Self::PARTS);
        }
        let picos = u128::from(time.picos()) * u128::from(self.0) / u128::from(Self::PARTS);
        Time::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// What goes at `rate` by itself; at least 1.
    #[must_use]
    #[inline]
    pub fn rate(self, rate: u64) -> u64 {
        if self == Self::NONE {
            return rate;
        }
        let slower = u128::from(rate) * u128::from(Self::PARTS) / u128::from(self.0);
        u64::try_from(slower).unwrap_or(u64::MAX).max(1)
    }
}

/// What disturbs the operations of a plan, as its execution asks for it. Every answer follows from
/// the question alone.
pub trait Disturbances: Sync {
    /// How much later the kernel of a rank's operation (from 0) starts than it could.
    fn delay(&self, _rank: Rank, _operation: u32) -> Time {
        Time::ZERO
    }

    /// How much longer than usual what thread blocks of a rank do takes in an operation, if they
    /// begin it at a time, and until when that is so.
    fn stretch(&self, _rank: Rank, _operation: u32, _at: Time) -> (Stretch, Time) {
        (Stretch::NONE, Time::MAX)
    }

    /// None of a rank's first `operations` is ever stretched less.
    fn least_stretch(&self, _rank: Rank, _operations: u32) -> Stretch {
        Stretch::NONE
    }

    /// Whether a link's rate is ever another than the usual one.
    fn changes(&self, _link: LinkId) -> bool {
        false
    }

    /// What is left of a link's rate at a time, 0 to 1.
    fn link(&self, _link: LinkId, _at: Time) -> f64 {
        1.0
    }

    /// When that changes next, or may.
    fn next_link_change(&self, _link: LinkId, _after: Time) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_longer_is_a_fifth_slower() {
        let quarter = Stretch::new(1.25);
        assert_eq!(quarter.time(Time::from_nanos(8)), Time::from_nanos(10));
        assert_eq!(quarter.rate(100), 80);
        assert_eq!(Stretch::new(1.0), Stretch::NONE);
        assert!(Stretch::new(-3.0) < Stretch::NONE);
        assert_eq!(Stretch::new(f64::INFINITY).rate(7), 1);
    }
}
