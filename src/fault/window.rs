//! When a fault is on: one window, or windows that repeat.

use fabricsim_units::Time;

/// Windows of time, each from a start up to but not including its end. None of them is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Windows {
    /// The first window's start.
    pub(super) from: Time,
    /// Nothing is on from here on.
    pub(super) until: Time,
    /// How the window repeats; on all the time if it does not.
    pub(super) repeat: Option<Repeat>,
}

/// Windows of one length, one every period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat {
    /// From one window's start to the next; longer than `on`.
    pub(super) period: Time,
    /// How long each window lasts; above zero.
    pub(super) on: Time,
}

impl Windows {
    /// On from `from` and never off again.
    pub(super) fn from(from: Time) -> Self {
        Windows {
            from,
            until: Time::MAX,
            repeat: None,
        }
    }

    /// On at any time.
    pub(super) fn always(&self) -> bool {
        (self.from, self.until, self.repeat) == (Time::ZERO, Time::MAX, None)
    }

    /// The window that `time` is in or, if it is in none, the next one.
    pub(super) fn at_or_after(&self, time: Time) -> Option<(Time, Time)> {
        let start = match self.repeat {
            None => self.from,
            Some(Repeat { period, on }) => {
                let since = time.saturating_sub(self.from).picos();
                let (round, inside) = (since / period.picos(), since % period.picos());
                let round = if inside < on.picos() {
                    round
                } else {
                    round + 1
                };
                let offset = round.checked_mul(period.picos())?;
                Time::from_picos(self.from.picos().checked_add(offset)?)
            }
        };
        let end = match self.repeat {
            None => self.until,
            Some(Repeat { on, .. }) => (start + on).min(self.until),
        };
        (start < end && time < end).then_some((start, end))
    }

    /// Whether `time` is in a window.
    pub(super) fn covers(&self, time: Time) -> bool {
        self.at_or_after(time)
            .is_some_and(|(start, _)| start <= time)
    }

    /// When a window next starts or ends after `time`; a window that ends at [`Time::MAX`]
    /// does not end.
    pub(super) fn next_change(&self, time: Time) -> Option<Time> {
        let (start, end) = self.at_or_after(time)?;
        let change = if time < start { start } else { end };
        (change < Time::MAX).then_some(change)
    }

    /// The windows that start before `until`, in order.
    pub(super) fn list(&self, until: Time) -> impl Iterator<Item = (Time, Time)> {
        let windows = *self;
        let first = windows.at_or_after(Time::ZERO);
        std::iter::successors(first, move |&(_, end)| windows.at_or_after(end))
            .take_while(move |&(start, _)| start < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn us(count: u64) -> Time {
        Time::from_micros(count)
    }

    fn throttling() -> Windows {
        Windows {
            from: us(10),
            until: us(45),
            repeat: Some(Repeat {
                period: us(15),
                on: us(6),
            }),
        }
    }

    #[test]
    fn repeated_windows_are_cut_at_the_end() {
        let windows = throttling();
        let list: Vec<_> = windows.list(Time::MAX).collect();
        assert_eq!(list, [(us(10), us(16)), (us(25), us(31)), (us(40), us(45))]);
        assert_eq!(windows.list(us(25)).count(), 1);
        assert_eq!(windows.next_change(us(16)), Some(us(25)));
        assert_eq!(windows.next_change(us(45)), None);
    }

    #[test]
    fn what_never_ends_changes_once() {
        let windows = Windows::from(us(3));
        assert_eq!(windows.next_change(Time::ZERO), Some(us(3)));
        assert_eq!(windows.next_change(us(3)), None);
        assert!(windows.covers(us(3)) && !windows.covers(us(2)));
    }

    proptest! {
        #[test]
        fn on_and_off_change_only_at_changes(
            from in 0u64..1000, length in 0u64..3000, on in 1u64..50, off in 1u64..50,
            repeated in any::<bool>(), time in 0u64..4000,
        ) {
            let picos = Time::from_picos;
            let repeat = repeated.then_some(Repeat { period: picos(on + off), on: picos(on) });
            let windows = Windows { from: picos(from), until: picos(from + length), repeat };
            let next = windows.next_change(picos(time));
            let end = next.map_or(4000, Time::picos);
            let now = windows.covers(picos(time));
            for later in time..end {
                prop_assert_eq!(windows.covers(picos(later)), now);
            }
            if let Some(next) = next {
                // A window may start where another ends only if there is a gap, so it differs.
                prop_assert_eq!(windows.covers(next), !now);
            }
            let listed = windows.list(Time::MAX).any(|(a, b)| a <= picos(time) && picos(time) < b);
            prop_assert_eq!(listed, now);
        }
    }
}
