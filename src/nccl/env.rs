//! NCCL's environment variables that change what moves where.

use super::error::NcclError;
use super::tuner::Algorithm;
use crate::plan::ProtocolKind;

/// What a set of `NCCL_*` variables asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env {
    /// `NCCL_ALGO`; `None` leaves the choice to the cost model.
    pub algorithms: Option<Vec<Algorithm>>,
    /// `NCCL_PROTO`.
    pub protocols: Option<Vec<ProtocolKind>>,
    /// `NCCL_MIN_NCHANNELS` and `NCCL_MIN_CTAS`.
    pub min_channels: Option<u16>,
    /// `NCCL_MAX_NCHANNELS` and `NCCL_MAX_CTAS`.
    pub max_channels: Option<u16>,
    /// Variables that were given and have no effect here, each with the reason.
    pub warnings: Vec<String>,
}

/// NCCL's limit.
const MOST_CHANNELS: u16 = 64;

impl Env {
    /// Reads variables as (name, value). Unknown ones, and those whose effect is not modelled,
    /// become warnings.
    ///
    /// # Errors
    /// [`NcclError::Env`] for a known variable whose value NCCL would refuse.
    pub fn parse<'a>(
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, NcclError> {
        let mut env = Env::default();
        for (name, value) in variables {
            match name {
                "NCCL_ALGO" => {
                    env.algorithms = Some(list(
                        name,
                        value,
                        &Algorithm::ALL,
                        Algorithm::nccl_name,
                        &mut env.warnings,
                    )?);
                }
                "NCCL_PROTO" => {
                    let nccl_name = |p: ProtocolKind| match p {
                        ProtocolKind::Ll => "LL",
                        ProtocolKind::Ll128 => "LL128",
                        ProtocolKind::Simple => "Simple",
                    };
                    env.protocols = Some(list(
                        name,
                        value,
                        &ProtocolKind::ALL,
                        nccl_name,
                        &mut env.warnings,
                    )?);
                }
                "NCCL_MIN_NCHANNELS" | "NCCL_MIN_CTAS" => {
                    env.min_channels = Some(channels(name, value)?)
                }
                "NCCL_MAX_NCHANNELS" | "NCCL_MAX_CTAS" => {
                    env.max_channels = Some(channels(name, value)?)
                }
                _ => env
                    .warnings
                    .push(format!("{name} is set, but its effect is not modelled")),
            }
        }
        Ok(env)
    }
}

fn channels(name: &str, value: &str) -> Result<u16, NcclError> {
    value
        .parse()
        .ok()
        .filter(|n| (1..=MOST_CHANNELS).contains(n))
        .ok_or_else(|| NcclError::Env {
            name: name.into(),
            value: value.into(),
            problem: format!("expected a number from 1 to {MOST_CHANNELS}"),
        })
}

/// Other algorithms of NCCL, which may be named without being modelled yet.
const LATER: [&str; 6] = [
    "Tree",
    "CollNetDirect",
    "CollNetChain",
    "NVLS",
    "NVLSTree",
    "PAT",
];

/// A comma-separated list, `^` in front to exclude.
fn list<T: Copy + PartialEq>(
    name: &str,
    value: &str,
    all: &[T],
    label: impl Fn(T) -> &'static str,
    warnings: &mut Vec<String>,
) -> Result<Vec<T>, NcclError> {
    let (exclude, names) = match value.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut named = Vec::new();
    for word in names.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        let found = all
            .iter()
            .copied()
            .find(|&t| label(t).eq_ignore_ascii_case(word));
        match found {
            Some(t) => named.push(t),
            None if name == "NCCL_ALGO" && LATER.iter().any(|l| l.eq_ignore_ascii_case(word)) => {
                warnings.push(format!("{name}: {word} is not modelled yet"));
            }
            None => {
                let known: Vec<&str> = all.iter().map(|&t| label(t)).collect();
                return Err(NcclError::Env {
                    name: name.into(),
                    value: value.into(),
                    problem: format!(
                        "`{word}` is unknown; expected a list of {}",
                        known.join(", ")
                    ),
                });
            }
        }
    }
    Ok(all
        .iter()
        .copied()
        .filter(|t| named.contains(t) != exclude)
        .collect())
}
