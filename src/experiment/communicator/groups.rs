//! Which ranks are in which communicators.

/// Communicators of a kind, which all ranks are in one of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: String,
    /// Ranks of the first one.
    pub(super) ranks: Vec<u32>,
    /// How many there are.
    pub(super) count: u32,
}

/// The kinds by their names, of so many ranks.
///
/// # Errors
/// The index of a name that is none, what was found and what belongs there.
pub(super) fn kinds(names: &[String], all: u32) -> Result<Vec<Kind>, (usize, String, String)> {
    let world = ["world".to_owned()];
    let names = if names.is_empty() { &world } else { names };
    let mut stride = 1u32;
    let mut kinds = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let wrong = |expected: String| (index, format!("`{name}`"), expected);
        if names[..index].contains(name) {
            return Err(wrong("another name: it stands there already".into()));
        }
        if name == "world" {
            kinds.push(kind(name, all, 1, all));
            continue;
        }
        let digits = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
        if digits.len() == name.len() {
            return Err(wrong(
                "`world`, or a name with a number of ranks, such as `tp8`".into(),
            ));
        }
        let left = all / stride;
        let each = match digits {
            "" => left,
            digits => digits.parse().unwrap_or(0),
        };
        if each == 0 || !left.is_multiple_of(each) {
            let divisors: Vec<String> = (1..=left)
                .filter(|&d| left.is_multiple_of(d))
                .take(12)
                .map(|d| d.to_string())
                .collect();
            return Err(wrong(format!(
                "a number of ranks that divides {left}: {}",
                divisors.join(", ")
            )));
        }
        kinds.push(kind(name, each, stride, all));
        stride *= each;
    }
    Ok(kinds)
}

fn kind(name: &str, each: u32, stride: u32, all: u32) -> Kind {
    Kind {
        name: name.to_owned(),
        ranks: (0..each).map(|place| place * stride).collect(),
        count: all / each.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], all: u32) -> Result<Vec<Kind>, (usize, String, String)> {
        let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        kinds(&names, all)
    }

    #[test]
    fn later_kinds_lie_across_earlier_ones() {
        let found = of(&["world", "tp8", "pp2", "dp"], 64).unwrap();
        let ranks: Vec<(u32, &[u32])> = found[1..].iter().map(|k| (k.count, &*k.ranks)).collect();
        assert_eq!(ranks[0], (8, &[0, 1, 2, 3, 4, 5, 6, 7][..]));
        assert_eq!(ranks[1], (32, &[0, 8][..]));
        assert_eq!(ranks[2], (16, &[0, 16, 32, 48][..]));
        assert_eq!(of(&[], 4).unwrap()[0].ranks, [0, 1, 2, 3]);
    }

    #[test]
    fn what_does_not_divide_is_refused() {
        let (index, found, expected) = of(&["world", "tp3"], 16).unwrap_err();
        assert_eq!((index, &*found), (1, "`tp3`"));
        assert!(expected.contains("1, 2, 4, 8, 16"), "{expected}");
        assert!(of(&["8"], 16).is_err() && of(&["tp0"], 16).is_err());
        assert!(of(&["tp8", "tp8"], 64).is_err());
    }
}
