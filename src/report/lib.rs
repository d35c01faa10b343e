//! Results for people and machines: tables, plots, timelines, pages.
//!
//! All of a run is made from its [`Results`] alone, all of a validation from a
//! [`Validation`](validation::Validation). [`write_results`] and
//! [`write_validation`](validation::write_validation) make a whole folder and [`write_file`] a
//! single file; the other functions make one thing each, as text.

pub mod bill;
mod bins;
mod blocks;
pub mod calls;
pub mod cards;
pub mod cause;
pub mod chart;
mod columns;
pub mod communication;
pub mod communicator;
pub mod comparison;
pub mod concurrent;
mod decisions;
mod error;
pub mod explanation;
mod file;
mod finite;
mod folder;
mod font;
pub mod html;
mod job_report;
pub mod lesson;
mod lines;
mod links_csv;
mod looks;
mod metrics;
pub mod nccl_profiler;
pub mod numbers;
mod numeric;
pub mod optimize;
mod outputs;
mod plot;
mod points;
pub mod published;
pub mod record;
mod recorded;
mod results;
pub mod serving;
mod strict_json;
mod summary;
mod summary_json;
pub mod sweep;
mod table;
pub mod telemetry;
mod text_table;
mod trace;
pub mod training;
mod unfinished;
mod uplinks;
pub mod validation;
mod waterfall;

pub use bins::spread;
pub use comparison::summary_text;
pub use decisions::decision_tables;
pub use error::ReportError;
pub use explanation::{explanations_json, explanations_text};
pub use file::write_file;
pub use folder::{Content, FolderKind, check_folder, write_folder};
pub use lines::{EQUAL, KEEPS_SLO, ended, falls_short, fits, qualifies};
pub use links_csv::write_links_csv;
pub use metrics::{Known, Metrics, is_less_better};
pub use numeric::FORMAT;
pub use outputs::{Output, Outputs};
pub use plot::bandwidth_svg;
pub use points::points_csv;
pub use recorded::recorded_sentence;
pub use results::{Record, Recording, Results, check_target, page_of, write_results};
pub use summary::{CollectiveView, JobResult, Summary, Variant};
pub use summary_json::{read_summary, rows_json, summary_json, summary_schema};
pub use table::{
    attribution_table, collective_table, links_table, rows_csv, table_footer, table_header,
    table_left_out, table_row,
};
pub use trace::{Trace, write_trace};
pub use unfinished::remove_unfinished;
pub use uplinks::Uplinks;
pub use waterfall::{Change, Part, Waterfall, apportion, scaled, waterfall};

#[cfg(test)]
mod tests;
