//! Who notices that ranks wait for each other, and after what time.

use super::hardware::Sourced;
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Timeouts of the layers above a collective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchdogModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// PyTorch gives up a work of an NCCL group.
    pub torch_timeout: Sourced<Time>,
    /// Its watchdog looks so often.
    pub torch_poll: Sourced<Time>,
    /// From that until the process ends, so that dumps are written.
    pub dump_wait: Sourced<Time>,
    /// NCCL's RAS warns of a peer of which it hears nothing.
    pub ras_warn: Sourced<Time>,
    /// It declares it dead.
    pub ras_dead: Sourced<Time>,
    /// An interface waits so long for an answer before it tries again.
    pub ib_try: Sourced<Time>,
    /// It tries so often.
    pub ib_tries: Sourced<u64>,
}

/// The shipped figures.
///
/// # Panics
/// If the file that the program carries with it is none; a test reads it.
#[must_use]
pub fn watchdogs() -> &'static WatchdogModel {
    static MODEL: OnceLock<WatchdogModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let text = include_str!("../../topologies/software/watchdogs.json");
        serde_json::from_str(text).expect("the shipped file is valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_gives_up_before_the_watchdog() {
        let model = watchdogs();
        let tried = model.ib_try.value.times(model.ib_tries.value);
        // 8 tries of 4.096 µs × 2^20.
        assert!((tried.seconds() / (8.0 * 4.096e-6 * f64::from(1 << 20)) - 1.0).abs() < 1e-3);
        assert!(tried < model.torch_timeout.value);
        assert!(model.torch_timeout.source.len() > 10 && model.ras_dead.source.len() > 10);
    }
}
