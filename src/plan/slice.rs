//! What a slice costs a worker.

use fabricsim_units::{Bandwidth, Bytes, Time};

/// What a slice costs a worker beside moving its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceCost {
    /// Whatever its size.
    pub each: Time,
    /// Threads move the slice in passes of so many bytes, while it moves over the links; zero:
    /// not so. Each thread passes on what it has as soon as that has come: the next worker can go
    /// on with it while the threads are still busy with the pass.
    pub pass: Bytes,
    /// How long each pass keeps the threads busy.
    pub pass_time: Time,
    /// The threads move a slice's passes side by side: what they have moved is passed on at the end
    /// of all, not pass by pass.
    pub together: bool,
    /// Each doubling above [`SliceCost::FIRST`], up to a pass.
    pub doubling: Time,
    /// All of it is hidden where links are slower than the worker: thread blocks are out of step
    /// with each other, so that some move bytes while others wait.
    pub hidden: bool,
    /// After a step's last slice, if it leaves by a network: until a fence has seen all that was
    /// stored. Only then is the proxy told, and only then does the worker go on.
    pub fence: Time,
    /// What is lost by moving in rounds of warps.
    pub rounds: Rounds,
}

/// Rounds in which a thread block's warps move a slice: each warp moves a hunk, in unrolled loads and
/// stores, and whoever waits for one hunk waits for all. What is left of less than a hunk is moved
/// without unrolling, by the warps that have no hunk in the last round (NCCL: `reduceCopyPacks`).
///
/// In the last of several rounds the warps that have no hunk lose their part of `time`. A slice of less
/// than a round loses what its hunks have of it, as if it moved at a lower rate, and a rest costs it
/// nothing, for the warps without a hunk move that from the start; a whole round loses
/// nothing. All are read off published times of A100 (docs/fidelity.md); the first is what NCCL's
/// code would lead to, the second nobody has explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rounds {
    /// What a warp moves in a round; zero: no matter.
    pub hunk: Bytes,
    /// How many warps there are.
    pub warps: u64,
    /// A round, however many of the warps take part.
    pub time: Time,
    /// What is left after the first round, if warps have to move it that had a hunk in the last one.
    pub rest: Time,
}

impl Rounds {
    /// Nothing is lost.
    pub const NONE: Rounds = Rounds {
        hunk: Bytes::ZERO,
        warps: 0,
        time: Time::ZERO,
        rest: Time::ZERO,
    };

    /// What a warp moves at once without unrolling: 16 bytes a thread.
    const LANES: u64 = 512;

    /// How much longer than its bytes a slice of `len` bytes takes.
    #[must_use]
    #[inline]
    fn lost(&self, len: u64) -> Time {
        let (hunk, warps) = (self.hunk.get(), self.warps);
        if hunk == 0 || warps == 0 {
            return Time::ZERO;
        }
        let (hunks, rest) = (len / hunk, len % hunk);
        let full = hunk * warps;
        let part = |lost: u64| {
            let lost = u128::from(self.time.picos()) * u128::from(lost) / u128::from(full);
            Time::from_picos(lost as u64)
        };
        if hunks < warps {
            return part(len);
        }
        let lost = part(len.next_multiple_of(full) - len);
        let last = hunks % warps;
        let hidden = rest == 0 || last > 0 && last + rest.div_ceil(Self::LANES) <= warps;
        if hidden { lost } else { lost + self.rest }
    }
}

impl SliceCost {
    /// Below this, sizes make no difference.
    pub const FIRST: u64 = 64;

    /// The same for slices of any size.
    #[must_use]
    pub const fn flat(each: Time) -> Self {
        SliceCost {
            each,
            pass: Bytes::ZERO,
            pass_time: Time::ZERO,
            together: false,
            doubling: Time::ZERO,
            hidden: false,
            fence: Time::ZERO,
            rounds: Rounds::NONE,
        }
    }

    /// The same passes and rounds with a part of the threads.
    #[must_use]
    pub fn with_share(self, share: f64) -> Self {
        SliceCost {
            pass: Bytes::new((self.pass.get() as f64 * share) as u64),
            rounds: Rounds {
                warps: (self.rounds.warps as f64 * share).round() as u64,
                ..self.rounds
            },
            ..self
        }
    }

    /// Of a slice of `len` bytes.
    #[must_use]
    #[inline]
    pub fn of(&self, len: u64) -> Time {
        let mut time = self.each;
        let pass = self.pass.get();
        if pass > 0 {
            let first = len.min(pass).div_ceil(Self::FIRST).max(1);
            time += self
                .doubling
                .times(u64::from(first.next_power_of_two().ilog2()));
            time += self.pass_time.times(self.passes(len));
        }
        time + self.rounds.lost(len)
    }

    /// The most that threads move in passes, of slices of any length; `None` if bytes do not move
    /// with the passes.
    #[must_use]
    #[inline]
    pub fn pass_rate(&self) -> Option<Bandwidth> {
        if self.pass == Bytes::ZERO || self.hidden || self.pass_time == Time::ZERO {
            return None;
        }
        let bytes = u128::from(self.pass.get()) * 1_000_000_000_000;
        let rate = bytes.div_ceil(u128::from(self.pass_time.picos()));
        u64::try_from(rate).ok().map(Bandwidth::from_bytes_per_sec)
    }

    /// How fast bytes move that could go at `rate`, if they do not move with the passes.
    #[must_use]
    #[inline]
    pub fn at_most(&self, rate: Bandwidth) -> Bandwidth {
        self.pass_rate().map_or(rate, |passes| passes.min(rate))
    }

    /// In how many passes a slice of `len` bytes moves.
    #[must_use]
    #[inline]
    pub fn passes(&self, len: u64) -> u64 {
        len.div_ceil(self.pass.get().max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is lost of a slice of so many KiB, in nanoseconds.
    fn lost(kib: u64, warps: u64) -> u64 {
        let rounds = Rounds {
            hunk: Bytes::from_kib(4),
            warps,
            time: Time::from_nanos(1600),
            rest: Time::from_nanos(1000),
        };
        rounds.lost(kib << 10).picos() / 1000
    }

    #[test]
    fn warps_without_a_hunk_lose_their_part_of_the_last_round() {
        // Whole rounds, one, two and three.
        assert_eq!([64, 128, 192].map(|kib| lost(kib, 16)), [0, 0, 0]);
        // 15, 8 and one warp idle in the second round.
        assert_eq!([68, 96, 124].map(|kib| lost(kib, 16)), [1500, 800, 100]);
        // Ten warps, as of those that go up a tree.
        assert_eq!([40, 60].map(|kib| lost(kib, 10)), [0, 800]);
    }

    #[test]
    fn less_than_a_round_loses_what_its_hunks_have_of_it() {
        assert_eq!([4, 32, 60].map(|kib| lost(kib, 16)), [100, 800, 1500]);
        assert_eq!(lost(20, 10), 800);
    }

    #[test]
    fn a_rest_is_hidden_if_enough_warps_are_idle() {
        // 2 KiB are moved by four warps: after 12 hunks these are idle, after 13 one is not.
        assert_eq!(lost(112 + 2, 16), 1600 * (128 - 114) / 64);
        assert_eq!(lost(116 + 2, 16), 1600 * (128 - 118) / 64 + 1000);
        // After a whole round nobody is; in the first one whoever has no hunk never had any.
        assert_eq!(lost(64 + 2, 16), 1600 * 62 / 64 + 1000);
        assert_eq!([2, 54, 62].map(|kib| lost(kib, 16)), [50, 1350, 1550]);
        assert_eq!(Rounds::NONE.lost(50 << 10), Time::ZERO);
    }
}
