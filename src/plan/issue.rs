//! When processes have started kernels, and what operations wait for.

use fabricsim_units::Time;

/// When the kernels of a rank can start: a process starts those of all its ranks one after
/// the other, operation by operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue {
    /// Ranks that one process drives.
    pub ranks_per_process: u32,
    /// What each start takes the process.
    pub each: Time,
    /// So many operations of a rank are started before those of the process's next rank: 1 where
    /// one thread drives all of them.
    pub in_a_row: u32,
    /// What passes, at least, between the end of a rank's operation and the begin of its next one.
    pub between: Time,
}

impl Issue {
    /// Nobody waits for a process.
    pub const FREE: Issue = Issue {
        ranks_per_process: 1,
        each: Time::ZERO,
        in_a_row: 1,
        between: Time::ZERO,
    };

    /// When the kernel of an operation (from 0) has been started for a rank.
    #[must_use]
    pub fn at(&self, rank: u32, operation: u32) -> Time {
        let own = u64::from(self.ranks_per_process.max(1));
        let in_a_row = u64::from(self.in_a_row.max(1));
        let (turn, at) = (
            u64::from(operation) / in_a_row,
            u64::from(operation) % in_a_row,
        );
        let before = (turn * own + u64::from(rank) % own) * in_a_row + at + 1;
        Time::from_picos(self.each.picos().saturating_mul(before))
    }

    /// When the kernel of an operation (from 0) begins on a rank that has been idle since `idle`.
    #[must_use]
    pub fn begins(&self, rank: u32, operation: u32, idle: Time) -> Time {
        let gap = if operation == 0 {
            Time::ZERO
        } else {
            self.between
        };
        self.at(rank, operation).max(idle + gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_starts_kernels_rank_by_rank_or_thread_by_thread() {
        let issue = |in_a_row| Issue {
            ranks_per_process: 4,
            each: Time::from_micros(1),
            in_a_row,
            between: Time::ZERO,
        };
        let of = |issue: Issue, rank| [0, 1, 2, 3].map(|o| issue.at(rank, o).picos() / 1_000_000);
        assert_eq!(of(issue(1), 0), [1, 5, 9, 13]);
        assert_eq!(of(issue(1), 5), [2, 6, 10, 14]);
        // Two each in turn: 0 0 1 1 2 2 3 3 0 0 1 1 …
        assert_eq!(of(issue(2), 0), [1, 2, 9, 10]);
        assert_eq!(of(issue(2), 3), [7, 8, 15, 16]);
    }

    #[test]
    fn an_operation_begins_when_it_has_been_started_and_so_long_after_the_one_before() {
        let us = Time::from_micros;
        let issue = Issue {
            ranks_per_process: 2,
            each: us(10),
            in_a_row: 1,
            between: us(5),
        };
        // The first waits for its start alone.
        assert_eq!(issue.begins(1, 0, us(0)), us(20));
        // Started after 40.
        assert_eq!(issue.begins(1, 1, us(30)), us(40));
        assert_eq!(issue.begins(1, 1, us(38)), us(43));
    }
}
