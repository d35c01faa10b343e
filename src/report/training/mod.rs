//! Results of jobs: tables, timelines, pages.

mod record;

pub use record::{
    CollectiveUse, Culprit, Disturbance, GoodputUse, JobSpan, JobSummary, JobTimeline, MemoryUse,
    RankUse, Share, SpanKind, StepResult, Variant, VariantResult,
};
