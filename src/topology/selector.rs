//! Selectors: text that names devices of a component.
//!
//! `gpu[*]` all, `gpu[3]` one, `gpu[0-3]` a range (inclusive), `gpu[0,2,5-7]` a list,
//! `cpu` the same as `cpu[*]`; `tray[*]/gpu[*]` reaches into instances; several are
//! joined by commas: `nic[0-3], hca[0]`. The order written is the order selected.

/// Which of the numbered copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Indices {
    /// Every one.
    All,
    /// Inclusive ranges that do not overlap, in the order written.
    Ranges(Vec<(u32, u32)>),
}

/// A name and which of its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// An instance's or a device's name.
    pub(super) name: String,
    /// Which of them.
    pub(super) indices: Indices,
    /// Whether the selector had no brackets: `gpu`, or in a full name `gpu3`.
    pub(super) bare: bool,
}

/// Segments from the outermost instance to the device.
pub(super) type SelectorPath = Vec<Segment>;

/// Reads a selector; the error says what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<SelectorPath>, String> {
    split_outside_brackets(text)
        .into_iter()
        .map(|part| part.trim().split('/').map(segment).collect())
        .collect()
}

/// Splits at the commas that are not within brackets.
fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn segment(text: &str) -> Result<Segment, String> {
    let (name, rest) = match text.find('[') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    check_name(name)?;
    let indices = match rest {
        None => Indices::All,
        Some(rest) => {
            let inner = rest
                .strip_suffix(']')
                .ok_or_else(|| format!("`{text}` has no closing bracket at its end"))?;
            indices(inner)?
        }
    };
    Ok(Segment {
        name: name.to_owned(),
        indices,
        bare: rest.is_none(),
    })
}

fn indices(inner: &str) -> Result<Indices, String> {
    if inner.trim() == "*" {
        return Ok(Indices::All);
    }
    let mut ranges = Vec::new();
    for part in inner.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (number(low)?, number(high)?);
        if high < low {
            return Err(format!("the range `{}` runs backwards", part.trim()));
        }
        ranges.push((low, high));
    }
    let mut sorted = ranges.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|w| w[1].0 <= w[0].1) {
        return Err(format!("it selects number {} twice", pair[1].0));
    }
    Ok(Indices::Ranges(ranges))
}

fn number(text: &str) -> Result<u32, String> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("`{text}` is not a number, a range or `*`"));
    }
    text.parse()
        .map_err(|_| format!("the number {text} is too large"))
}

/// Names are what selectors and full names can hold.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a name is empty".into());
    }
    match name
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
    {
        None => Ok(()),
        Some(c) => Err(format!("`{name}` holds the character {c:?}")),
    }
}

/// Splits a full name's part such as `gpu12` in the ways that `known` allows.
pub(super) fn split_number(text: &str, known: impl Fn(&str) -> bool) -> Option<(&str, u32)> {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    (text.len() - digits..text.len()).find_map(|at| {
        let (name, number) = text.split_at(at);
        let canonical = number == "0" || !number.starts_with('0');
        match number.parse() {
            Ok(number) if canonical && known(name) => Some((name, number)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> Vec<(String, Indices)> {
        let mut paths = parse(text).unwrap();
        assert_eq!(paths.len(), 1);
        paths
            .remove(0)
            .into_iter()
            .map(|s| (s.name, s.indices))
            .collect()
    }

    #[test]
    fn selectors_are_read_as_the_format_says() {
        let list = |v: &[(u32, u32)]| Indices::Ranges(v.to_vec());
        let cases = [
            ("gpu", vec![("gpu".into(), Indices::All)]),
            ("gpu[*]", vec![("gpu".into(), Indices::All)]),
            ("gpu[3]", vec![("gpu".into(), list(&[(3, 3)]))]),
            ("gpu[0-3]", vec![("gpu".into(), list(&[(0, 3)]))]),
            (
                "gpu[5-7,0,2]",
                vec![("gpu".into(), list(&[(5, 7), (0, 0), (2, 2)]))],
            ),
            (
                "tray[*]/gpu[1]",
                vec![
                    ("tray".into(), Indices::All),
                    ("gpu".into(), list(&[(1, 1)])),
                ],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(ranges(text), expected, "{text}");
        }
        assert_eq!(parse("nic[0,1], hca").unwrap().len(), 2);
    }

    #[test]
    fn broken_selectors_say_what_is_wrong() {
        let cases = [
            ("", "a name is empty"),
            ("gpu[", "no closing bracket"),
            ("gpu[0]x", "no closing bracket"),
            ("gpu[]", "`` is not a number"),
            ("gpu[a]", "`a` is not a number"),
            ("gpu[3-1]", "runs backwards"),
            ("gpu[0-3,2]", "selects number 2 twice"),
            ("gpu[-1]", "`` is not a number"),
            ("gpu[99999999999]", "too large"),
            ("tray[*]//gpu", "a name is empty"),
            ("g u", "holds the character ' '"),
        ];
        for (text, expected) in cases {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn a_full_name_splits_where_the_name_is_known() {
        assert_eq!(split_number("cx70", |n| n == "cx7"), Some(("cx7", 0)));
        assert_eq!(split_number("cx70", |n| n == "cx"), Some(("cx", 70)));
        assert_eq!(split_number("gpu07", |n| n == "gpu"), None);
        assert_eq!(split_number("gpu", |n| n == "gpu"), None);
    }
}
