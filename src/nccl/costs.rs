//! What steps cost the parts of a thread block, by algorithm and protocol.

use super::algorithm::Algorithm;
use crate::collective::Role;
use crate::plan::{ProtocolKind, RoleCosts, WorkerCosts};
use crate::topology::GpuModel;
use crate::topology::hardware::ProtocolModel;
use crate::units::{Bandwidth, Time};

/// A rate that never limits.
const UNLIMITED: Bandwidth = Bandwidth::from_bytes_per_sec(1 << 50);

/// A protocol's figures on a GPU.
pub(super) fn protocol_model(model: &GpuModel, kind: ProtocolKind) -> &ProtocolModel {
    match kind {
        ProtocolKind::Ll => &model.workers.ll,
        ProtocolKind::Ll128 => &model.workers.ll128,
        ProtocolKind::Simple => &model.workers.simple,
    }
}

fn part(rate: Bandwidth, share: f64) -> Bandwidth {
    Bandwidth::from_bytes_per_sec((rate.bytes_per_sec() as f64 * share) as u64)
}

/// The costs of all roles. `switch_rate` is what network switches that reduce keep up with.
pub(super) fn role_costs(
    model: &GpuModel,
    algorithm: Algorithm,
    kind: ProtocolKind,
    switch_rate: Bandwidth,
) -> RoleCosts {
    let protocol = protocol_model(model, kind);
    let send_rate = protocol.rate.value;
    let block = WorkerCosts {
        launch: protocol.launch.value,
        slice_sync: protocol.slice_sync.value,
        send_rate,
        // Reading flags slows the last step as it does every other.
        local_rate: match kind {
            ProtocolKind::Simple => model.workers.local_copy_rate.value,
            ProtocolKind::Ll | ProtocolKind::Ll128 => send_rate,
        },
        streams: 0,
    };
    let switch = WorkerCosts {
        slice_sync: Time::ZERO,
        send_rate: switch_rate,
        local_rate: switch_rate,
        ..block
    };
    let all = RoleCosts::same(block).with(Role::Switch, switch);
    match algorithm {
        // One half of the warps goes up while the other goes down (LL and LL128: 70 and 30 of
        // 100), and each stream of bytes in or out takes its share of them: a step of a ring
        // has three.
        Algorithm::Tree | Algorithm::CollnetChain => {
            let up = if kind == ProtocolKind::Simple {
                0.5
            } else {
                0.7
            };
            let share = |share| WorkerCosts {
                send_rate: part(send_rate, share),
                local_rate: part(block.local_rate, share),
                streams: 3,
                ..block
            };
            all.with(Role::Up, share(up))
                .with(Role::Down, share(1.0 - up))
        }
        Algorithm::Nvls | Algorithm::NvlsTree => {
            let Some(nvls) = &model.workers.nvls else {
                return all;
            };
            let copy = WorkerCosts {
                slice_sync: nvls.loop_sync.value,
                send_rate: nvls.rate.value,
                local_rate: nvls.rate.value,
                ..block
            };
            // Switches do the sums; what they take is the links' business.
            let head = WorkerCosts {
                slice_sync: block.slice_sync,
                send_rate: UNLIMITED,
                local_rate: UNLIMITED,
                ..block
            };
            all.with(
                Role::Block,
                WorkerCosts {
                    launch: nvls.launch.value,
                    ..block
                },
            )
            .with(Role::Scatter, copy)
            .with(Role::Gather, copy)
            .with(Role::Up, head)
            .with(Role::Down, head)
        }
        _ => all,
    }
}
