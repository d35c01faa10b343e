//! Results for people and machines: tables, plots, timelines, pages.

pub mod record;
