//! Times as people and programs write them.

use fabricsim_units::clock::seconds_since_1970;

/// The end of the year 9999.
pub(super) const LAST: f64 = 253_402_300_799.0;

/// Seconds since 1970, of dates with hyphens or, as nvidia-smi writes them, slashes; `None` of what is no time.
/// Numbers beyond the year 5138 are milliseconds.
pub(super) fn seconds(text: &str) -> Option<f64> {
    const LARGEST: f64 = 1e11;
    let seconds = match text.parse::<f64>() {
        Ok(value) if value >= LARGEST => value / 1e3,
        Ok(value) => value,
        Err(_) => seconds_since_1970(text)?,
    };
    (0.0..=LAST).contains(&seconds).then_some(seconds)
}
