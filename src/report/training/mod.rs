//! Results of jobs: tables, timelines, pages.
//!
//! All is made from a [`Summary`](crate::Summary) and a [`JobTimeline`] for each variant that has
//! one; each function makes one thing, as text.

mod compare;
mod kernels;
mod kineto;
mod offload;
mod page;
mod published;
mod published_memory;
mod record;
pub(crate) mod share_bars;
mod text;
mod timeline;
mod timeline_svg;
mod zoom;

pub use compare::{as_fast, best, difference, is_equal, is_same_work, ran};
pub(crate) use compare::{effort, lines, parts, unsaid};
pub use kernels::{FlopCount, KernelBound, KernelUse};
pub use kineto::write_kineto;
pub use offload::{DataLoaderUse, HostMemory, HostMove, OffloadUse};
pub(crate) use page::{described as page_described, failures, folded, opened, tiles};
pub use published::{
    PublishedRow, PublishedTable, median, median_error, published_json, published_text,
    rank_correlation,
};
pub use published_memory::{MemoryErrors, MemoryRow, MemoryTable, memory_json, memory_text};
pub use record::{
    CheckpointUse, CollectiveUse, ComponentLoss, Culprit, Disturbance, FaultPrices, GoodputUse,
    MemoryPart, MemoryUse, PrefetchUse, RankUse, RestartUse, Share, ShareKind, StepKind,
    StepResult, StorageLimit, StorageMove, TrainingOutcome, TrainingResult,
};
pub(crate) use text::{described, training_text};
pub(crate) use timeline::rank_name;
pub use timeline::{JobSpan, JobTimeline, MessageEnd, SpanKind};
pub use timeline_svg::job_timeline_svg;
pub(crate) use zoom::view as timeline_view;
