//! Results for people and machines: tables, plots, timelines, pages.
//!
//! Everything here is made from a [`Summary`](record::Summary) and a
//! [`Timeline`](record::Timeline) alone. [`write_run`] makes a run's whole folder; the
//! other functions make one thing each and touch no files.

mod bins;
pub mod chart;
mod error;
mod folder;
mod font;
pub mod html;
mod links_csv;
pub mod numbers;
mod perfetto;
mod plot;
pub mod record;
mod summary_json;
mod table;

pub use error::ReportError;
pub use folder::{Run, write_run};
pub use links_csv::write_links_csv;
pub use perfetto::write_trace;
pub use plot::{bandwidth_png, bandwidth_svg};
pub use summary_json::{reproducible, summary_json, summary_schema};
pub use table::{
    attribution_table, collective_table, links_table, rows_csv, table_footer, table_header,
    table_row,
};

#[cfg(test)]
mod tests;
