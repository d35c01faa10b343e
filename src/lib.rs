//! fabricsim
pub mod units;
