//! Sweeps: rows of points, the folder that grows while they are run, and what is made of it.

mod effects;
mod folder;
mod journal;
mod row;
mod table;
mod text;

pub use effects::{Effect, effects};
pub use folder::{Shard, SweepFolder, SweepInfo, merge_sweeps, read_info, read_points};
pub use row::{PointRow, ResultRow, Status, rows_of};
pub use table::{sweep_csv, sweep_jsonl};
pub use text::{sweep_sentence, sweep_text};
