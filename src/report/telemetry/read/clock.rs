//! Times as people and programs write them.

/// Seconds since 1970, of dates with hyphens or, as nvidia-smi writes them, slashes; `None` of what is no time.
/// Numbers beyond the year 5138 are milliseconds.
pub(super) fn seconds(text: &str) -> Option<f64> {
    const LARGEST: f64 = 1e11;
    if let Ok(value) = text.parse::<f64>() {
        return value.is_finite().then(|| match value {
            value if value >= LARGEST => value / 1e3,
            value => value,
        });
    }
    let (date, time) = text.split_once(['T', ' '])?;
    let mut parts = date.split(['-', '/']).map(str::parse::<i64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    let time = time.trim_end_matches('Z').trim_end_matches("+00:00");
    let mut parts = time.split(':').map(str::parse::<f64>);
    let (hours, minutes) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let rest = match parts.next() {
        None => 0.0,
        Some(seconds) => seconds.ok()?,
    };
    let ranges = (1..=12).contains(&month) && (1..=31).contains(&day);
    let times = (0.0..24.0).contains(&hours) && (0.0..60.0).contains(&minutes);
    if !ranges || !times || !(0.0..61.0).contains(&rest) || !(1970..=9999).contains(&year) {
        return None;
    }
    let day = days(year, month, day) as f64;
    Some(day * 86_400.0 + hours * 3600.0 + minutes * 60.0 + rest)
}

/// Days since 1970 in the Gregorian calendar (Hinnant, `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let of_era = year - era * 400;
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
