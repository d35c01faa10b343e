//! NCCL's version: some rules changed between releases, and published results with them.

use std::fmt;
use std::str::FromStr;

/// A release of NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major number, 2 for all of today's.
    pub major: u16,
    /// The minor number: what releases are known by.
    pub minor: u16,
    /// The patch level.
    pub patch: u16,
}

impl Version {
    /// The release whose rules are followed by default.
    pub const DEFAULT: Version = Version {
        major: 2,
        minor: 30,
        patch: 7,
    };

    /// True for releases before 2.`minor`.
    #[must_use]
    pub const fn before(self, minor: u16) -> bool {
        self.major < 2 || (self.major == 2 && self.minor < minor)
    }
}

impl Default for Version {
    fn default() -> Self {
        Version::DEFAULT
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("`{text}`: expected a release of NCCL from 2.12 on, such as 2.27 or 2.29.7");
        let mut numbers = text.trim().split('.').map(str::parse::<u16>);
        let mut next = || numbers.next().transpose().map_err(|_| bad());
        let (major, minor, patch) = (next()?, next()?, next()?);
        let version = Version {
            major: major.ok_or_else(bad)?,
            minor: minor.ok_or_else(bad)?,
            patch: patch.unwrap_or(0),
        };
        let known = version.major == 2 && version.minor >= 12 && text.split('.').count() <= 3;
        known.then_some(version).ok_or_else(bad)
    }
}
