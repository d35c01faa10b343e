//! fabricsim
pub mod report;
pub mod topology;
pub mod units;
