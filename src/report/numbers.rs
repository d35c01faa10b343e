//! Numbers as people read them, in one place so that all parts of a report agree.

/// A number as nccl-tests prints it: right-aligned in `width` columns with two decimals
/// if they fit, else one, else none, else scientific.
#[must_use]
pub fn nccl_float(value: f64, width: usize) -> String {
    for decimals in [2, 1, 0] {
        let text = format!("{value:width$.decimals$}");
        if text.len() <= width {
            return text;
        }
    }
    format!("{value:width$.1e}")
}

/// A count of bytes, short: `1 KiB`, `1.5 MiB`, `8 GiB`; at most three digits after
/// rounding, so not exact.
#[must_use]
pub fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes;
    let mut unit = 0;
    // 1023.5 and more would print as 1024 of the smaller unit.
    while value >= 1023.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", trimmed(value, decimals(value)), units[unit])
}

/// Numbers from here on have more digits than anyone reads, and get an exponent.
const LARGE: f64 = 1e15;

/// A number with about three significant digits: `0.120`, `4.57`, `31.0`, `480`; with an exponent
/// only if it is large: `1.00e20`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    if value.abs() >= LARGE {
        return format!("{value:.2e}");
    }
    format!("{value:.0$}", decimals(value))
}

/// As [`three_digits`], with three digits of small numbers too: `0.00234`; with an exponent where
/// they stand far behind the point.
#[must_use]
pub fn three_digits_of_small(value: f64) -> String {
    match value.abs() {
        v if v >= 0.1 || v == 0.0 => three_digits(value),
        v if v < 1e-6 => format!("{value:.2e}"),
        v => format!("{value:.0$}", 2 + (-v.log10()).ceil() as usize),
    }
}

/// How many decimals give `value` three digits.
fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    }
}

/// A number with up to `decimals` decimals, without trailing zeros.
#[must_use]
pub fn trimmed(value: f64, decimals: usize) -> String {
    if value.abs() >= LARGE {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    if text == "-0" { "0".into() } else { text }
}

/// A fraction as a percentage: `71 %`, `3.2 %`, `0.04 %`.
#[must_use]
pub fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    let decimals = match value.abs() {
        v if v >= 9.95 => 0,
        v if v >= 0.095 => 1,
        0.0 => 0,
        _ => 2,
    };
    format!("{value:.decimals$} %")
}

/// Microseconds for people, in a fitting unit: `830 ns`, `31.4 µs`, `5.07 ms`, `1.20 s`.
#[must_use]
pub fn micros(value: f64) -> String {
    if value == 0.0 {
        return "0 µs".to_owned();
    }
    let (value, unit) = fitting_unit(value);
    format!("{} {unit}", three_digits(value))
}

/// The same without trailing zeros, for marks on an axis: `10 µs`.
#[must_use]
pub fn micros_mark(value: f64) -> String {
    let (value, unit) = fitting_unit(value);
    format!("{} {unit}", trimmed(value, decimals(value)))
}

fn fitting_unit(micros: f64) -> (f64, &'static str) {
    match micros.abs() {
        v if v < 0.999_5 => (micros * 1e3, "ns"),
        v if v < 999.5 => (micros, "µs"),
        v if v < 999_500.0 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    }
}

/// A number of GPUs: `1 GPU`, `1 024 GPUs`.
#[must_use]
pub fn gpus_text(gpus: u32) -> String {
    let unit = if gpus == 1 { "GPU" } else { "GPUs" };
    format!("{} {unit}", grouped(u64::from(gpus)))
}

/// A whole number with thin groups of three: `8 589 934 592`.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            // A no-break space: a number does not wrap.
            out.push('\u{a0}');
        }
        out.push(digit);
    }
    out
}

/// A large number, short: `605`, `1.24 M`, `70.6 B`.
#[must_use]
pub fn count(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")];
    let found = units.iter().find(|(size, _)| value.abs() >= size * 0.9995);
    match found {
        Some((size, unit)) => format!("{} {unit}", three_digits(value / size)),
        None => trimmed(value, decimals(value)),
    }
}

/// Seconds for people, from nanoseconds to days: `31.4 µs`, `4.21 s`, `27.5 min`, `3.2 h`.
#[must_use]
pub fn seconds(value: f64) -> String {
    match value.abs() {
        v if v < 119.5 => micros(value * 1e6),
        v if v < 119.5 * 60.0 => format!("{} min", trimmed(value / 60.0, 1)),
        v if v < 47.5 * 3600.0 => format!("{} h", trimmed(value / 3600.0, 1)),
        _ => format!("{} days", trimmed(value / 86_400.0, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_keep_their_digits() {
        for (value, text) in [
            (0.0, "0.000"),
            (0.123_4, "0.123"),
            (0.012_34, "0.0123"),
            (0.000_234_4, "0.000234"),
            (1.234e-9, "1.23e-9"),
            (12.34, "12.3"),
        ] {
            assert_eq!(three_digits_of_small(value), text);
        }
    }
}
