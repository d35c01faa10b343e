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
