//! How long a restart takes with so many GPUs.

use super::spec::RestartSpec;
use crate::published::{RestartGrowth, published};
use fabricsim_units::Span;

/// What a restart consists of, one part after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restart {
    /// Starting processes, and all else that is not below.
    pub processes: Span,
    /// Making communicators.
    pub communicators: Span,
    /// Reading the checkpoint.
    pub load: Span,
}

impl Restart {
    /// The restart of so many GPUs; reading a checkpoint takes `read` unless the parts say otherwise.
    #[must_use]
    pub fn of(parts: &RestartSpec, gpus: u64, read: Span) -> Restart {
        let growth = &published().defaults.restart_parts;
        Restart {
            processes: parts.processes.unwrap_or_else(|| processes(growth, gpus)),
            communicators: parts
                .communicators
                .unwrap_or_else(|| communicators(growth, gpus)),
            load: parts.load.unwrap_or(read),
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Span {
        let Restart {
            processes,
            communicators,
            load,
        } = *self;
        processes.saturating_add(communicators).saturating_add(load)
    }
}

/// A constant and so much a GPU.
fn processes(growth: &RestartGrowth, gpus: u64) -> Span {
    let each = growth.processes_per_gpu.value.saturating_mul(gpus);
    growth.processes.value.saturating_add(each)
}

/// A power of the number of GPUs; no less than on one node.
fn communicators(growth: &RestartGrowth, gpus: u64) -> Span {
    let ratio = gpus as f64 / growth.communicators_at.value;
    let grown =
        growth.communicators.value.seconds() * ratio.powf(growth.communicators_exponent.value);
    Span::from_seconds(grown).max(growth.communicators_least.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_grow_with_the_gpus() {
        let of = |gpus| Restart::of(&RestartSpec::default(), gpus, Span::from_secs(3));
        // One node: 111 s + 8 × 6.04 ms, and communicators as measured there.
        let one = of(8);
        assert_eq!(one.processes, Span::from_nanos(111_048_320_000));
        assert_eq!(one.communicators, Span::from_nanos(2_460_000_000));
        // Published: 200 s in all and 17 s of communicators at 16 K, 900 s and 200 s at 96 K.
        let many = of(16_384);
        assert_eq!(
            many.processes,
            Span::from_nanos(111_000_000_000 + 16_384 * 6_040_000)
        );
        assert_eq!(many.communicators, Span::from_secs(17));
        let most = of(98_304);
        let grown = 17.0 * 6f64.powf(1.36);
        assert!((most.communicators.seconds() - grown).abs() < 1e-6);
        assert!((most.total().seconds() / 900.0 - 1.0).abs() < 0.01);
        assert_eq!(most.load, Span::from_secs(3));
    }

    #[test]
    fn each_part_may_be_said() {
        let seconds = |s| Some(Span::from_secs(s));
        let parts = RestartSpec {
            comment: None,
            processes: seconds(40),
            communicators: seconds(5),
            make_communicators: false,
            load: seconds(60),
        };
        let restart = Restart::of(&parts, 1_000_000, Span::from_secs(3));
        assert_eq!(restart.total(), Span::from_secs(105));
    }
}
