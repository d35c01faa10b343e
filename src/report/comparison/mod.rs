//! A run as a whole, for people: of one job what it came to, of several variants which is best and
//! why. All is made from a [`Summary`](crate::Summary) and what was recorded.

mod cause_bars;
pub(crate) mod collectives;
mod job_view;
mod json;
mod measures;
mod one_axis;
mod page;
mod searched;
mod table;
mod text;
mod waterfall_bars;

pub use waterfall_bars::waterfall_bars;

pub use collectives::{best as best_collective, difference as collective_difference, is_same_work};
pub use json::{Compared, Comparison, KnownError, comparison_json};
pub use page::variants_page;
pub use searched::{Holds, Searched};
pub use text::{summary_text, variants_text};
