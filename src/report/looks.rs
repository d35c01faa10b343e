//! What spans of any timeline are drawn as: what they are decides their colour.

use super::record::Activity;
use super::training::SpanKind;

/// A kind of spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Look {
    /// A communication of a job that waits for other ranks.
    Waits,
    /// A task of a job.
    Task(SpanKind),
    /// What a thread block or proxy does for a collective.
    Worker(Activity),
}

impl Look {
    /// All that can be drawn, in the order of legends.
    pub(crate) const ALL: [Look; 14] = [
        Look::Worker(Activity::Stream),
        Look::Worker(Activity::Sync),
        Look::Worker(Activity::Latency),
        Look::Worker(Activity::WaitData),
        Look::Worker(Activity::WaitCredit),
        Look::Worker(Activity::Launch),
        Look::Worker(Activity::Idle),
        Look::Task(SpanKind::Forward),
        Look::Task(SpanKind::Backward),
        Look::Task(SpanKind::Recompute),
        Look::Task(SpanKind::Optimiser),
        Look::Task(SpanKind::Communication),
        Look::Waits,
        Look::Task(SpanKind::Other),
    ];

    /// The variable of a page's style that is its colour.
    pub(crate) const fn colour(self) -> &'static str {
        match self {
            Look::Waits => "waits",
            Look::Task(kind) => kind.key(),
            Look::Worker(activity) => activity.key(),
        }
    }

    /// Its colour in drawings without a style sheet, told apart with any colour vision.
    pub(crate) const fn fill(self) -> &'static str {
        match self {
            Look::Task(SpanKind::Forward) | Look::Worker(Activity::Stream) => "#0072B2",
            Look::Task(SpanKind::Backward) => "#009E73",
            Look::Task(SpanKind::Recompute) => "#8FD8C0",
            Look::Task(SpanKind::Optimiser) => "#7B5EA7",
            Look::Task(SpanKind::Communication) | Look::Worker(Activity::Sync) => "#E69F00",
            Look::Task(SpanKind::Other) => "#A9AFB8",
            Look::Worker(Activity::Latency) => "#56B4E9",
            Look::Worker(Activity::WaitData) => "#D55E00",
            Look::Worker(Activity::WaitCredit) => "#CC79A7",
            Look::Worker(Activity::Launch | Activity::Idle) | Look::Waits => "#C3C8CF",
        }
    }

    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Look::Waits => "waits for others",
            Look::Task(kind) => kind.key(),
            Look::Worker(Activity::Stream) => "bytes move",
            Look::Worker(Activity::Sync) => "synchronises",
            Look::Worker(Activity::Latency) => "data on its way",
            Look::Worker(Activity::WaitData) => "waits for data",
            Look::Worker(Activity::WaitCredit) => "waits for a free slot",
            Look::Worker(Activity::Launch) => "launch",
            Look::Worker(Activity::Idle) => "finished",
        }
    }

    /// Whether spans have their names written into them.
    pub(crate) const fn is_written(self) -> bool {
        matches!(
            self,
            Look::Worker(Activity::Stream)
                | Look::Task(
                    SpanKind::Forward
                        | SpanKind::Backward
                        | SpanKind::Recompute
                        | SpanKind::Communication
                )
        )
    }
}
