//! Results for people and machines: tables, plots, timelines, pages.
//!
//! All of a run is made from a [`Summary`](record::Summary) and a
//! [`Timeline`](record::Timeline) alone, all of a validation from a
//! [`Validation`](validation::Validation). [`write_run`] and
//! [`write_validation`](validation::write_validation) make a whole folder and [`write_file`] a
//! single file; the other functions make one thing each, as text.

mod bins;
pub mod cause;
pub mod chart;
mod columns;
mod decisions;
mod error;
pub mod explanation;
mod file;
mod folder;
mod font;
pub mod html;
mod links_csv;
pub mod numbers;
mod numeric;
mod perfetto;
mod plot;
pub mod record;
mod run;
mod summary_json;
mod table;
pub mod training;
mod unfinished;
pub mod validation;
mod waterfall;

pub use decisions::decision_tables;
pub use error::ReportError;
pub use explanation::{explanation_json, explanation_page, explanation_text};
pub use file::write_file;
pub use folder::{FolderKind, check_folder, write_folder};
pub use links_csv::write_links_csv;
pub use numeric::FORMAT;
pub use perfetto::write_trace;
pub use plot::{bandwidth_png, bandwidth_svg};
pub use run::{Run, check_target, write_run};
pub use summary_json::{reproducible, rows_json, summary_json, summary_schema};
pub use table::{
    attribution_table, collective_table, links_table, rows_csv, table_footer, table_header,
    table_left_out, table_row,
};
pub use unfinished::remove_unfinished;
pub use waterfall::{Change, Part, Waterfall, apportion, scaled, waterfall};

#[cfg(test)]
mod tests;
