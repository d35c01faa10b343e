//! Values as users write them.

use crate::algorithm::Algorithm;
use crate::error::NcclError;
use fabricsim_collective::Collective;
use fabricsim_topology::PathType;
use fabricsim_units::Bytes;
use std::fmt::Display;
use std::str::FromStr;

/// A variable with its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

/// What is left for each of the collectives that have kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByFunction<T>(Vec<(Collective, Vec<T>)>);

impl<T> ByFunction<T> {
    /// What is left for a collective.
    #[must_use]
    pub fn of(&self, collective: Collective) -> &[T] {
        self.0
            .iter()
            .find(|(c, _)| *c == collective)
            .map_or(&[], |(_, list)| list)
    }
}

impl Value<'_> {
    pub(super) fn wrong(self, problem: impl Into<String>) -> NcclError {
        NcclError::Env {
            name: self.name.into(),
            value: self.text.into(),
            problem: problem.into(),
        }
    }

    pub(super) fn number<T: FromStr + PartialOrd + Display + Copy>(
        self,
        least: T,
        most: T,
    ) -> Result<T, NcclError> {
        let parsed = self.text.parse().ok();
        parsed
            .filter(|n| (least..=most).contains(n))
            .ok_or_else(|| self.wrong(format!("expected a number from {least} to {most}")))
    }

    /// A kernel on symmetric windows by its name; none if there is no text.
    pub(super) fn symmetric_kernel(self) -> Result<Option<&'static str>, NcclError> {
        if self.text.is_empty() {
            return Ok(None);
        }
        let named = |name: &&str| name.eq_ignore_ascii_case(self.text);
        let found = Algorithm::symmetric_kernels().find(named);
        found.map(Some).ok_or_else(|| {
            let all: Vec<&str> = Algorithm::symmetric_kernels().collect();
            self.wrong(format!("expected one of {}", all.join(", ")))
        })
    }

    pub(super) fn switch(self) -> Result<bool, NcclError> {
        Ok(self.number(0u8, 1)? == 1)
    }

    pub(super) fn bytes(self, least: u64) -> Result<Bytes, NcclError> {
        Ok(Bytes::new(self.number(least, 1 << 40)?))
    }

    /// `NCCL_CTA_POLICY`: names joined with `|`, or one of the old digits.
    pub(super) fn policies(self) -> Result<Vec<&'static str>, NcclError> {
        const NAMES: [&str; 3] = ["DEFAULT", "EFFICIENCY", "ZERO"];
        let named = |word: &str| {
            let word = word.trim();
            let digit = word.parse().ok().and_then(|d: usize| NAMES.get(d));
            let name = NAMES.iter().find(|n| n.eq_ignore_ascii_case(word));
            name.or(digit).copied()
        };
        let found: Option<Vec<&'static str>> = self.text.split('|').map(named).collect();
        found.ok_or_else(|| self.wrong("expected DEFAULT, EFFICIENCY or ZERO, joined with |"))
    }

    pub(super) fn threads(self, least: u32, most: u32) -> Result<u32, NcclError> {
        let threads = self.number(least, most)?;
        if threads.is_multiple_of(32) {
            Ok(threads)
        } else {
            Err(self.wrong("expected a multiple of 32"))
        }
    }

    pub(super) fn six_numbers(self) -> Result<[u64; 6], NcclError> {
        let numbers: Result<Vec<u64>, _> = self.text.split_whitespace().map(str::parse).collect();
        numbers
            .ok()
            .and_then(|n| n.try_into().ok())
            .ok_or_else(|| {
                self.wrong(
                    "expected six numbers, bytes per thread: of Tree with LL, LL128, Simple, then of Ring",
                )
            })
    }

    /// A type of path, or NCCL's old digits 0 to 5 for some of them.
    pub(super) fn level(self) -> Result<PathType, NcclError> {
        let old = [
            PathType::Loc,
            PathType::Pix,
            PathType::Pxb,
            PathType::Phb,
            PathType::Sys,
            PathType::Sys,
        ];
        if let Ok(digit) = self.text.parse::<usize>() {
            return old
                .get(digit)
                .copied()
                .ok_or_else(|| self.wrong("expected 0 to 5, or a type of path"));
        }
        let names = &PathType::ALL[..=PathType::Sys as usize];
        names
            .iter()
            .copied()
            .find(|t| t.label().eq_ignore_ascii_case(self.text))
            .ok_or_else(|| {
                let names: Vec<&str> = names.iter().map(|t| t.label()).collect();
                self.wrong(format!("expected one of {}", names.join(", ")))
            })
    }

    /// `list`, or `function:list` entries separated by `;`. An entry without a function is
    /// for all that no other entry names. `^` in front of a list excludes.
    pub(super) fn by_function<T: Copy + PartialEq>(
        self,
        all: &[T],
        label: impl Fn(T) -> &'static str,
    ) -> Result<ByFunction<T>, NcclError> {
        let (mut general, mut own) = (all.to_vec(), Vec::new());
        for entry in self
            .text
            .split(';')
            .map(str::trim)
            .filter(|e| !e.is_empty())
        {
            match entry.split_once(':') {
                None => general = self.list(entry, all, &label)?,
                Some((function, list)) => {
                    own.push((self.function(function)?, self.list(list, all, &label)?));
                }
            }
        }
        let lists = Collective::KERNELS.into_iter().map(|collective| {
            let named = own.iter().rfind(|(c, _)| *c == collective);
            (collective, named.map_or(&general, |(_, l)| l).clone())
        });
        Ok(ByFunction(lists.collect()))
    }

    fn function(self, word: &str) -> Result<Collective, NcclError> {
        let plain = |c: Collective| c.name().replace('-', "");
        Collective::KERNELS
            .into_iter()
            .find(|&c| plain(c).eq_ignore_ascii_case(word.trim()))
            .ok_or_else(|| {
                let known = Collective::KERNELS.map(plain).join(", ");
                self.wrong(format!("`{word}` is no function; expected one of {known}"))
            })
    }

    fn list<T: Copy + PartialEq>(
        self,
        text: &str,
        all: &[T],
        label: impl Fn(T) -> &'static str,
    ) -> Result<Vec<T>, NcclError> {
        let (exclude, names) = match text.trim().strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut named = Vec::new();
        for word in names.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let found = all
                .iter()
                .copied()
                .find(|&t| label(t).eq_ignore_ascii_case(word));
            named.push(found.ok_or_else(|| {
                let known: Vec<&str> = all.iter().map(|&t| label(t)).collect();
                let known = known.join(", ");
                self.wrong(format!("`{word}` is unknown; expected a list of {known}"))
            })?);
        }
        let left = all.iter().copied();
        Ok(left.filter(|t| named.contains(t) != exclude).collect())
    }
}
