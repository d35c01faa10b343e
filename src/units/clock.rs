//! Times of day with a date, as logs and traces write them.

/// Seconds of a time such as `2023-11-16 18:15:46.6805900`, since 1970 without leap seconds; with an offset from UTC
/// (`+02:00`, `Z`) as it is in UTC. Dates may have slashes, and seconds may be absent. Nothing of what is no such time.
#[must_use]
pub fn seconds_since_1970(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let [year, month, day] = parts(date, &['-', '/'])?;
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let (clock, offset) = offset(time)?;
    let [hour, minute, second] = match clock.split_once(':') {
        Some((hour, minute)) if !minute.contains(':') => [hour, minute, "0"],
        _ => parts(clock, &[':'])?,
    };
    let (hour, minute) = (number(hour, 2)?, number(minute, 2)?);
    let whole = second.split_once('.').map_or(second, |(whole, _)| whole);
    if hour > 23 || minute > 59 || number(whole, 2)? > 59 {
        return None;
    }
    let fraction = second.bytes().all(|c| c == b'.' || c.is_ascii_digit());
    let second: f64 = second.parse().ok().filter(|_| fraction)?;
    let minutes = hour * 60 + minute - offset;
    Some((days(year, month, day) * 86_400 + minutes * 60) as f64 + second)
}

/// Three parts of a text.
fn parts<'t>(text: &'t str, between: &[char]) -> Option<[&'t str; 3]> {
    let parts: Vec<&str> = text.split(between).collect();
    parts.try_into().ok()
}

/// A number of at most so many digits.
fn number(text: &str, most: usize) -> Option<i64> {
    let digits = (1..=most).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The clock, and by how many minutes it is ahead of UTC; none is said of most.
fn offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.find(['+', '-']) else {
        return Some((time, 0));
    };
    let (clock, offset) = time.split_at(at);
    let (sign, offset) = offset.split_at(1);
    let (hours, minutes) = match offset.split_once(':') {
        Some(both) => both,
        None => offset.split_at_checked(2)?,
    };
    let minutes = if minutes.is_empty() { "0" } else { minutes };
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let ahead = hours * 60 + minutes;
    let possible = hours < 24 && minutes < 60;
    possible.then_some((clock, if sign == "-" { -ahead } else { ahead }))
}

/// Days of a month.
const fn days_of(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970 from the civil calendar, years beginning in March (Howard Hinnant's algorithm).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::seconds_since_1970 as seconds;

    #[test]
    fn offsets_are_from_utc() {
        let utc = seconds("2024-05-10 00:00:00.5").unwrap_or_default();
        assert_eq!(utc, 1_715_299_200.5);
        for same in [
            "2024-05-10T00:00:00.5Z",
            "2024/05/10 00:00:00.500",
            "2024-05-10 00:00:00.5+00:00",
            "2024-05-10 02:00:00.5+02:00",
            "2024-05-09 16:30:00.500-0730",
            "2024-05-09T19:00:00.5-05",
        ] {
            assert_eq!(seconds(same), Some(utc), "{same}");
        }
        assert_eq!(seconds("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(seconds("1970-01-01 00:01"), Some(60.0));
        assert_eq!(seconds("2024-02-29 23:59:59"), Some(1_709_251_199.0));
    }

    #[test]
    fn what_no_calendar_has_is_no_time() {
        for wrong in [
            "2023-13-05 10:00:00",
            "2023-02-29 10:00:00",
            "2023-00-10 10:00:00",
            "2023-04-31 10:00:00",
            "2023-01-01 24:00:00",
            "2023-01-01 10:60:00",
            "2023-01-01 10:00:60",
            "2023-01-01 10:00:1e1",
            "2023-01-01 10:00:00+25:00",
            "9223372036854775807-12-31 00:00:00",
            "+2023-01-01 10:00:00",
            "2023-01-01 10:00:00:00",
            "noon",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
