//! How much is recorded.

use fabricsim_plan::Plan;

/// How much may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Spans of the timeline. Beyond it whole ranks are left out, highest ranks first; of the first
    /// one, if it alone has more, what comes last.
    pub spans: usize,
    /// Messages of the timeline. If there are more, of those that a slice takes at once only the one
    /// that came last is kept.
    pub messages: usize,
    /// Bins of time for the use of links; at least one.
    pub bins: usize,
    /// Links times bins of the timeline: beyond it bins are wider or, of a large machine, fewer links
    /// are told alone.
    pub cells: usize,
    /// Routes, or queues, times bins while the simulation goes on.
    pub row_cells: usize,
    /// Slices that are looked at.
    pub slices: usize,
    /// GPUs that have a timeline, where one stands for all that are alike.
    pub gpus: usize,
    /// Kinds of links whose load is told, where one stands for all that are alike.
    pub links: usize,
    /// Ranks that get an account of their own of where their time went.
    pub accounts: usize,
}

/// Ranks up to which every one of them is recorded.
const MOST_RANKS: u32 = 128;

impl Limits {
    /// Every rank, link and slice.
    pub const WHOLE: Limits = Limits {
        spans: 200_000,
        messages: 10_000,
        bins: 200,
        cells: 1_000_000,
        row_cells: usize::MAX,
        slices: usize::MAX,
        gpus: usize::MAX,
        links: usize::MAX,
        accounts: 1_024,
    };

    /// What is looked at within half a second, and written to a few megabytes.
    pub const LARGE: Limits = Limits {
        spans: 20_000,
        messages: 10_000,
        bins: 200,
        cells: 20_000,
        row_cells: 4_000_000,
        slices: 400_000,
        gpus: 8,
        links: 2_000,
        accounts: 1_024,
    };

    /// Those of a plan: if `all` are wanted, or there are few ranks, nothing is left out.
    #[must_use]
    pub fn of(plan: &Plan, all: bool) -> Limits {
        match all || plan.program.ranks() <= MOST_RANKS {
            true => Limits::WHOLE,
            false => Limits::LARGE,
        }
    }
}
