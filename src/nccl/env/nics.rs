//! `NCCL_IB_HCA` and `NCCL_SOCKET_IFNAME`: lists of interfaces.

use super::Value;
use crate::error::NcclError;

/// Which interfaces may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicFilter {
    exclude: bool,
    exact: bool,
    names: Vec<String>,
}

impl NicFilter {
    /// `[^][=]name[:port…],…`: names are prefixes, unless `=`.
    pub(in crate::env) fn parse(value: Value<'_>) -> Result<Self, NcclError> {
        let (exclude, rest) = match value.text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, value.text),
        };
        let (exact, rest) = match rest.strip_prefix('=') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let names: Vec<String> = rest
            .split(',')
            .map(|n| n.split(':').next().unwrap_or_default().trim().to_owned())
            .filter(|n| !n.is_empty())
            .collect();
        if names.is_empty() {
            return Err(value.wrong("expected names of interfaces, such as mlx5_0,mlx5_1 or nic0"));
        }
        Ok(NicFilter {
            exclude,
            exact,
            names,
        })
    }

    /// Those that have exactly these names.
    #[must_use]
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        NicFilter {
            exclude: false,
            exact: true,
            names: names.into_iter().collect(),
        }
    }

    pub(super) fn allows(&self, names: &[&str]) -> bool {
        let hit = self.names.iter().any(|wanted| self.matches(wanted, names));
        hit != self.exclude
    }

    /// Whether one of the variable's names is one of an interface's, or begins it.
    fn matches(&self, wanted: &str, names: &[&str]) -> bool {
        names.iter().any(|name| {
            if self.exact {
                wanted == *name
            } else {
                name.starts_with(wanted)
            }
        })
    }

    /// The variable's names that are those of none of `interfaces`.
    pub(crate) fn strangers(&self, interfaces: &[[String; 2]]) -> Vec<&str> {
        let of_one = |wanted: &str, names: &[String; 2]| {
            self.matches(wanted, &names.each_ref().map(String::as_str))
        };
        let known = |wanted: &&str| interfaces.iter().any(|names| of_one(wanted, names));
        let wanted = self.names.iter().map(String::as_str);
        wanted.filter(|name| !known(name)).collect()
    }
}
