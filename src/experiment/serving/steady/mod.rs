//! Serving in steady state: which part of a run stands for all of it, how well its figures are known, and whether
//! engines keep up.
//!
//! A run goes on while requests arrive (`ladder`). Its beginning is cut by MSER-5 (`warm_up`), the rest is the window
//! (`window`) that all rates and percentiles are of; batch means say how well they are known (`intervals`). Whether
//! requests pile up there is `growth`; how much engines do at most is a run of its own (`saturation`, the saturation
//! rule). `verdict` follows from both. `capacity` is the largest rate that keeps a limit on times.

mod growth;
mod intervals;
mod ladder;
mod saturation;
mod verdict;
mod warm_up;
mod window;

pub(super) use ladder::Ladder;
pub(super) use saturation::{Saturated, saturate};
pub(super) use verdict::judge;
pub(super) use window::{Known, RESIDENCES, Window};
