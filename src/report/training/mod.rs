//! Results of jobs: tables, timelines, pages.
//!
//! All is made from a [`JobSummary`] and a [`JobTimeline`] for each variant that has one.
//! [`write_job_run`] makes a whole folder; the other functions make one thing each, as text.

mod blocks;
mod compare;
mod folder;
mod json;
mod page;
mod published;
mod record;
mod share_bars;
mod text;
mod timeline_svg;
mod trace;
mod zoom;

pub use compare::{as_fast, best, difference, is_equal, is_same_work};
pub(super) use folder::KIND as FOLDER;
pub use folder::{check_job_target, write_job_run};
pub use json::{job_summary_json, job_summary_schema, reproducible};
pub use page::job_page;
pub use published::{
    PublishedRow, PublishedTable, median_error, published_json, published_text, rank_correlation,
};
pub use record::{
    CollectiveUse, Culprit, Disturbance, FaultPrices, GoodputUse, JobSpan, JobSummary, JobTimeline,
    MemoryUse, RankUse, Share, ShareKind, SpanKind, StepResult, Variant, VariantResult,
};
pub use text::job_table;
pub use timeline_svg::job_timeline_svg;
pub use trace::write_job_trace;
