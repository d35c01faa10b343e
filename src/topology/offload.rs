//! Figures of training states in the host's memory and on drives.

use super::hardware::Sourced;
use fabricsim_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// What it takes to update states on the host, and how DeepSpeed divides the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateOffloadModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What Adam reads and writes of the host's memory for a parameter.
    pub adam_traffic: Sourced<Bytes>,
    /// The part of the memory's bandwidth that Adam on the CPU reaches, 0 to 1.
    pub adam_share: Sourced<f64>,
    /// The rate of PyTorch's Adam on the CPU, as a multiple of DeepSpeed's.
    pub pytorch_adam: Sourced<f64>,
    /// The rate of SuperOffload's `GraceAdam`, as a multiple of DeepSpeed's.
    pub grace_adam: Sourced<f64>,
    /// What a copy from or to memory that is not pinned has of the rate of one that is, 0 to 1.
    pub pageable_share: Sourced<f64>,
    /// Parameters that are updated before their copy to the GPU begins.
    pub tile: Sourced<u64>,
    /// Parameters whose states are brought from drives and updated at once.
    pub sub_group: Sourced<u64>,
    /// What states take of the host's memory with buffers, as a multiple of themselves.
    pub buffer_factor: Sourced<f64>,
}

/// The shipped figures.
///
/// # Panics
/// If the file that the program carries with it is none; a test reads it.
#[must_use]
pub fn state_offload() -> &'static StateOffloadModel {
    static MODEL: OnceLock<StateOffloadModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let text = include_str!("../../topologies/software/offload.json");
        serde_json::from_str(text).expect("the shipped file is valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceModel;
    use crate::catalogue::hardware;

    /// CPU-Adam of ZeRO-Offload (arXiv 2101.06840, table 4) on the two sockets of a DGX-2: billions of
    /// parameters, seconds. All sizes have one rate.
    #[test]
    fn adam_on_the_cpu_takes_what_was_measured() {
        let model = state_offload();
        let DeviceModel::Cpu(cpu) = &hardware().devices["xeon-skylake"] else {
            panic!("a CPU");
        };
        let memory = 2.0 * cpu.memory_bandwidth.value.bytes_per_sec() as f64;
        let rate = memory * model.adam_share.value / model.adam_traffic.value.get() as f64;
        let measured = [
            (1.0, 0.22),
            (2.0, 0.51),
            (4.0, 1.03),
            (8.0, 2.41),
            (10.0, 2.57),
        ];
        let errors = measured.map(|(billions, seconds)| billions * 1e9 / rate / seconds - 1.0);
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean.abs() < 0.02, "{errors:?}");
        assert!(errors.iter().all(|error| error.abs() < 0.17), "{errors:?}");
    }

    #[test]
    fn every_figure_has_a_source() {
        let model = state_offload();
        let shares = [&model.adam_share, &model.pageable_share];
        assert!(
            shares
                .iter()
                .all(|f| 0.0 < f.value && f.value <= 1.0 && f.source.len() > 10)
        );
        for adam in [&model.pytorch_adam, &model.grace_adam] {
            let share = model.adam_share.value * adam.value;
            assert!(0.0 < share && share < 1.0 && adam.source.len() > 10);
        }
        assert!(model.adam_traffic.source.len() > 10 && model.buffer_factor.value >= 1.0);
        assert!(model.tile.value > 0 && model.tile.source.len() > 10);
        assert!(model.sub_group.value > 0 && model.sub_group.source.len() > 10);
        assert!(model.buffer_factor.source.len() > 10);
    }
}
