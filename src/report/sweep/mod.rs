//! Sweeps: rows of points, the folder that grows while they are run, and what is made of it.

mod effects;
mod folder;
mod info;
mod journal;
mod levels;
mod listing;
mod merge;
mod missing;
mod page;
mod plot;
mod product;
mod row;
mod sentence;
mod table;
mod text;
mod winners;

pub use folder::{Expected, SweepFolder, read_info, read_points};
pub use info::{MOST_NAME, MOST_TITLE, Shard, SweepInfo};
pub use levels::axis_values;
pub use merge::merge_sweeps;
pub use page::sweep_page;
pub use plot::{Plot, PlotSpec, WrongName, chosen_plot, sweep_plot};
pub(crate) use plot::{metric_axis, span};
pub use product::MOST_VARIANTS;
pub use row::{PointRow, ResultRow, Status, rows_of};
pub use sentence::sweep_sentence;
pub use table::{sweep_csv, sweep_jsonl, value_text};
pub use text::sweep_text;
