//! Names on the command line, in this program's spelling or in that of nccl-tests and NCCL.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, Error};
use fabricsim_collective::Collective;
use std::ffi::OsStr;

/// Other words for names: SHARP is the switches' part of CollNet; nccl-tests' `-R` counts ways to
/// register buffers.
const OTHER_WORDS: [(&str, &str); 4] = [
    ("sharp", "collnetdirect"),
    ("collnet", "collnetdirect"),
    ("1", "local"),
    ("2", "symmetric"),
];

/// Accepts the names of `all`, whether words are joined by `-`, `_` or nothing, in small letters or
/// capitals: `all_reduce`, `AllReduce` and `alltoall` of nccl-tests, `NVLSTree` of NCCL_ALGO.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    OneOf { all, name }
}

/// What a name in any of these spellings means; nothing if it is none of `all`.
pub(super) fn find<T: Copy>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    text: &str,
) -> Option<T> {
    OneOf { all, name }.find(text)
}

/// Tokens of a sequence as people write them: `8192`, or `8k`, which is 8 × 1,024 as contexts are
/// counted.
pub(super) fn tokens(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.to_ascii_lowercase() {
        small if small.ends_with('k') => (&text[..text.len() - 1], 1 << 10),
        small if small.ends_with('m') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let number = digits.parse::<u32>().ok().and_then(|n| n.checked_mul(unit));
    let expected = "expected a whole number of tokens, such as 8192 or 8k (8 × 1,024)";
    number.ok_or_else(|| expected.to_owned())
}

/// The collective that a word names in place of a command, also as a program of nccl-tests:
/// `all_reduce_perf`.
pub(super) fn collective_named(word: &str) -> Option<Collective> {
    let word = word.strip_suffix("_perf").unwrap_or(word);
    find(&Collective::ALL, Collective::name, word)
}

#[derive(Clone)]
struct OneOf<T: 'static> {
    all: &'static [T],
    name: fn(T) -> &'static str,
}

impl<T: Copy> OneOf<T> {
    fn find(&self, text: &str) -> Option<T> {
        let plain = plain(text);
        let other = OTHER_WORDS.iter().find(|(word, _)| *word == plain);
        let plain = other.map_or(plain.as_str(), |(_, name)| *name);
        let same = |&value: &T| self::plain((self.name)(value)) == plain;
        self.all.iter().copied().find(same)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        let name = self.name;
        self.all.iter().map(move |&value| name(value))
    }
}

impl<T: Copy + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        if let Some(found) = value.to_str().and_then(|text| self.find(text)) {
            return Ok(found);
        }
        // What clap says of a name that is none of them, with the nearest one.
        let names = PossibleValuesParser::new(self.names());
        let name = names.parse_ref(command, arg, value)?;
        self.find(&name)
            .ok_or_else(|| Error::new(clap::error::ErrorKind::InvalidValue).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names().map(PossibleValue::new)))
    }
}

/// A name's letters and digits.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_'));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_nccl::Algorithm;
    use fabricsim_plan::ProtocolKind;

    #[test]
    fn tokens_are_counted_as_contexts_are() {
        for (text, count) in [("8192", 8192), ("8k", 8192), ("8K", 8192), ("1m", 1 << 20)] {
            assert_eq!(tokens(text), Ok(count), "{text}");
        }
        for text in ["", "k", "8.5k", "-1", "8kB", "5000m"] {
            assert!(tokens(text).unwrap_err().contains("8k"), "{text}");
        }
    }

    #[test]
    fn names_of_nccl_tests_and_of_nccl_are_names() {
        let collective = OneOf {
            all: &Collective::ALL,
            name: Collective::name,
        };
        for (text, meant) in [
            ("all-reduce", Some(Collective::AllReduce)),
            ("all_reduce", Some(Collective::AllReduce)),
            ("AllReduce", Some(Collective::AllReduce)),
            ("alltoall", Some(Collective::AllToAll)),
            ("reduce_scatter", Some(Collective::ReduceScatter)),
            ("sendrecv", Some(Collective::SendRecv)),
            ("allredduce", None),
            ("", None),
        ] {
            assert_eq!(collective.find(text), meant, "{text}");
        }
        let algorithm = OneOf {
            all: &Algorithm::ALL,
            name: Algorithm::name,
        };
        for (text, meant) in [
            ("Ring", Algorithm::Ring),
            ("NVLSTree", Algorithm::NvlsTree),
            ("CollnetChain", Algorithm::CollnetChain),
            ("CollNetDirect", Algorithm::CollnetDirect),
            ("sharp", Algorithm::CollnetDirect),
            ("PAT", Algorithm::Pat),
        ] {
            assert_eq!(algorithm.find(text), Some(meant), "{text}");
        }
        let protocol = OneOf {
            all: &ProtocolKind::ALL,
            name: ProtocolKind::name,
        };
        assert_eq!(protocol.find("LL128"), Some(ProtocolKind::Ll128));
        // No two names are one without their marks.
        for names in [
            collective.names().collect::<Vec<_>>(),
            algorithm.names().collect(),
        ] {
            let mut all: Vec<String> = names.iter().map(|name| plain(name)).collect();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), names.len());
        }
    }
}
