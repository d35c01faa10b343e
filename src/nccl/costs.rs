//! What steps cost the parts of a thread block, by algorithm and protocol.

use super::algorithm::Algorithm;
use fabricsim_collective::Role;
use fabricsim_plan::{ProtocolKind, RoleCosts, Rounds, SliceCost, WorkerCosts};
use fabricsim_topology::Architecture;
use fabricsim_topology::architecture::HopModel;
use fabricsim_units::{Bandwidth, Bytes, Time};

/// A rate that never limits: what links, switches or interfaces do, and no worker.
pub(super) const UNLIMITED: Bandwidth = Bandwidth::from_bytes_per_sec(1 << 50);

/// What a warp moves at a time with LL128: 32 threads, eight times eight bytes each, a sixteenth
/// of them flags (NCCL 2.30.7: `prims_ll128.h`).
pub(super) const LL128_WARP: Bytes = Bytes::new(1920);

/// Warps of a thread block that move data with Simple: 512 threads (NCCL: `NCCL_SIMPLE_MAX_NTHREADS`).
const WARPS: u64 = 16;

/// From one thread block to another one, beyond the wires.
pub(super) fn hop(model: &Architecture, kind: ProtocolKind) -> &HopModel {
    match kind {
        ProtocolKind::Ll => &model.ll.hop,
        ProtocolKind::Ll128 => &model.ll128.hop,
        ProtocolKind::Simple => &model.simple.hop,
    }
}

fn part(rate: Bandwidth, share: f64) -> Bandwidth {
    Bandwidth::from_bytes_per_sec(((rate.bytes_per_sec() as f64 * share) as u64).max(1))
}

/// What costs depend on, beside the GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) algorithm: Algorithm,
    pub(super) kind: ProtocolKind,
    /// What network switches that reduce keep up with.
    pub(super) switch_rate: Bandwidth,
    /// Ranks that a loop of multicast memory waits for.
    pub(super) members: u32,
    /// A kernel waits for the last of so many channels.
    pub(super) channels: u16,
    /// How many ranks one after the other wait for each other on each.
    pub(super) hops: u32,
    /// All ranks are joined by NVLink, whose ports the channels share.
    pub(super) one_domain: bool,
}

/// Start and end of a kernel.
fn launch(model: &Architecture, kind: ProtocolKind) -> Time {
    match kind {
        ProtocolKind::Ll => model.ll.launch.value,
        ProtocolKind::Ll128 => model.ll128.launch.value,
        ProtocolKind::Simple => model.simple.launch.value,
    }
}

/// By how much longer the last of all channels takes than one alone. The mean of the largest of n
/// sums of as many delays grows as log n (by half a deviation for each doubling), and deviations as
/// the square root of their number.
fn last(model: &Architecture, setting: Setting) -> Time {
    let Some(spread) = &model.spread else {
        return Time::ZERO;
    };
    let doublings = f64::from(setting.channels.max(1)).log2();
    let picos = spread.value.picos() as f64 * f64::from(setting.hops).sqrt() * doublings;
    Time::from_picos(picos.round() as u64)
}

/// How uneven channels are, in thousandths: those of a ring of Simple begin in step, all waiting for
/// their slices' ends at the same moments, in which ports are idle. In time they fall out of it, and
/// larger sizes come nearer to the rate of ports. Interfaces of a network are behind buffers, which
/// hide such moments.
fn uneven(model: &Architecture, setting: Setting) -> u16 {
    let ring = setting.algorithm == Algorithm::Ring && setting.kind == ProtocolKind::Simple;
    match &model.simple.uneven {
        Some(part) if ring && setting.one_domain => (part.value * 1000.0).round() as u16,
        _ => 0,
    }
}

/// What a step costs all of a thread block.
fn block(model: &Architecture, kind: ProtocolKind) -> WorkerCosts {
    match kind {
        ProtocolKind::Simple => {
            let simple = &model.simple;
            let mut slice = SliceCost::flat(simple.slice_sync.value);
            if let Some(rounds) = &simple.rounds {
                slice.rounds = Rounds {
                    hunk: rounds.hunk.value,
                    warps: WARPS,
                    time: rounds.time.value,
                    rest: rounds.rest.value,
                };
            }
            WorkerCosts {
                slice,
                send_rate: simple.rate.value,
                local_rate: model.local_copy_rate.value,
                streams: 0,
            }
        }
        // Its passes are its rate.
        ProtocolKind::Ll => WorkerCosts {
            slice: SliceCost {
                pass: model.ll.pass.value,
                doubling: model.ll.doubling.value,
                pass_time: model.ll.pass_time.value,
                ..SliceCost::default()
            },
            send_rate: UNLIMITED,
            local_rate: UNLIMITED,
            streams: 0,
        },
        // Each line has its flag and each warp its lines: what one has moved the next block can
        // go on with. Reading flags slows the last step as it does every other.
        ProtocolKind::Ll128 => WorkerCosts {
            slice: SliceCost {
                pass: LL128_WARP,
                pass_time: model.ll128.rate.value.time_for(LL128_WARP),
                fence: model
                    .ll128
                    .network_fence
                    .as_ref()
                    .map_or(Time::ZERO, |t| t.value),
                ..SliceCost::default()
            },
            send_rate: UNLIMITED,
            local_rate: UNLIMITED,
            streams: 0,
        },
    }
}

/// The costs of all roles.
pub(super) fn role_costs(model: &Architecture, setting: Setting) -> RoleCosts {
    let Setting {
        algorithm, kind, ..
    } = setting;
    let mut block = block(model, kind);
    // In a ring all warps move their lines of a slice side by side, and have them at about the same
    // time. Trees do go on with single lines, as their tables show.
    block.slice.together = kind == ProtocolKind::Ll128 && algorithm == Algorithm::Ring;
    let switch = WorkerCosts {
        slice: SliceCost::default(),
        send_rate: setting.switch_rate,
        local_rate: setting.switch_rate,
        ..block
    };
    let launch = launch(model, kind) + last(model, setting);
    let mut all = RoleCosts::same(launch, block).with(Role::Switch, switch);
    all.uneven = uneven(model, setting);
    match algorithm {
        // A part of the warps goes up while the others go down: 320 of 512 threads, of LL and
        // LL128 70 of 100 (NCCL: `all_reduce.h`). Each stream of bytes in or out takes its
        // share of them: a step of a ring has three. With LL128 they wait for lines, not for
        // bytes, and store each to all who are to have it.
        Algorithm::Tree | Algorithm::CollnetChain => {
            let (up, streams) = match kind {
                ProtocolKind::Simple => (0.625, 3),
                ProtocolKind::Ll => (0.7, 3),
                ProtocolKind::Ll128 => (0.7, 0),
            };
            let share = |warps| {
                let share = match kind {
                    ProtocolKind::Ll128 => model.ll128.share(warps),
                    _ => warps,
                };
                WorkerCosts {
                    slice: block.slice.with_share(share),
                    send_rate: part(block.send_rate, share),
                    local_rate: part(block.local_rate, share),
                    streams,
                }
            };
            all.with(Role::Block, WorkerCosts { streams, ..block })
                .with(Role::Up, share(up))
                .with(Role::Down, share(1.0 - up))
        }
        Algorithm::Nvls | Algorithm::NvlsTree => {
            let Some(nvls) = &model.nvls else {
                return all;
            };
            // The last of so many ranks is waited for: the mean of the largest of n delays grows
            // as log n.
            let last = f64::from(setting.members.max(2)).log2() / 8f64.log2();
            let sync = (nvls.loop_sync.value.picos() as f64 * last).round() as u64;
            let copy = WorkerCosts {
                slice: SliceCost::default(),
                send_rate: nvls.rate.value,
                local_rate: nvls.rate.value,
                ..block
            };
            // Switches do the sums; how fast is what the GPUs' ports allow.
            let head = WorkerCosts {
                slice: SliceCost::flat(Time::from_picos(sync)),
                ..copy
            };
            all.launching(nvls.launch.value)
                .with(Role::Scatter, copy)
                .with(Role::Gather, copy)
                .with(Role::Up, head)
                .with(Role::Down, head)
        }
        _ => all,
    }
}

/// What a send or receive costs one of the `lanes` into which a thread block's warps are
/// divided. In a host the sender writes to where the data is to be, and the receiver has
/// nothing left to do but to wait for it.
///
/// What chunks cost was measured over networks and NVLink. `plain`: in a host whose GPUs have only
/// PCIe nobody waits for a proxy, and chunks are a quarter as large as over NVLink: a send is the primitive
/// that rings have.
pub(super) fn lane_costs(
    model: &Architecture,
    kind: ProtocolKind,
    (lanes, plain): (u16, bool),
) -> WorkerCosts {
    let block = block(model, kind);
    let share = 1.0 / f64::from(lanes.max(1));
    let (rate, slice) = match (kind, &model.point_to_point) {
        (ProtocolKind::Simple, Some(sends)) if !plain => (
            sends.rate.value,
            SliceCost {
                hidden: true,
                ..SliceCost::flat(sends.chunk_sync.value)
            },
        ),
        _ => {
            let slice = SliceCost {
                hidden: plain && kind == ProtocolKind::Simple,
                ..block.slice.with_share(share)
            };
            (block.send_rate, slice)
        }
    };
    WorkerCosts {
        slice,
        send_rate: part(rate, share),
        local_rate: part(rate, share),
        ..block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::catalogue;

    /// One channel, nobody to wait for.
    fn setting(algorithm: Algorithm, kind: ProtocolKind) -> Setting {
        Setting {
            algorithm,
            kind,
            switch_rate: UNLIMITED,
            members: 1,
            channels: 1,
            hops: 1,
            one_domain: true,
        }
    }

    #[test]
    fn the_last_of_more_channels_takes_longer() {
        let model = &catalogue::hardware().architectures["hopper"];
        let spread = model.spread.as_ref().unwrap().value.picos() as f64;
        let late = |channels, hops| {
            let setting = Setting {
                channels,
                hops,
                ..setting(Algorithm::Ring, ProtocolKind::Ll)
            };
            last(model, setting).picos() as f64 / spread
        };
        assert_eq!(late(1, 14), 0.0);
        for (channels, hops, expected) in [(2, 1, 1.0), (16, 4, 8.0), (16, 16, 16.0), (32, 9, 15.0)]
        {
            assert!(
                (late(channels, hops) - expected).abs() < 1e-3,
                "{channels}, {hops}"
            );
        }
    }

    /// Rings with LL128 hand on whole passes of all warps, all others single lines or threads' words.
    #[test]
    fn only_rings_of_ll128_go_pass_by_pass() {
        let model = &catalogue::hardware().architectures["hopper"];
        let together = |algorithm, kind| {
            let costs = role_costs(model, setting(algorithm, kind));
            costs.of(Role::Block).slice.together
        };
        assert!(together(Algorithm::Ring, ProtocolKind::Ll128));
        assert!(!together(Algorithm::Tree, ProtocolKind::Ll128));
        assert!(!together(Algorithm::Ring, ProtocolKind::Ll));
    }

    /// Of a tree's 14 and 6 warps with LL128 each is faster than in a ring of 20; both together, 1.4 times
    /// as fast. They wait for lines however many queues these go into.
    #[test]
    fn fewer_warps_of_ll128_are_faster_each() {
        let mut model = catalogue::hardware().architectures["hopper"].clone();
        let half = &mut model.ll128.half_rate_warps;
        half.as_mut().unwrap().value = 10.0;
        let close = |share: f64, expected: f64| assert!((share - expected).abs() < 1e-9, "{share}");
        close(model.ll128.share(1.0), 1.0);
        close(model.ll128.share(0.7), 14.0 / 24.0 * 30.0 / 20.0);
        close(model.ll128.share(0.3), 6.0 / 16.0 * 30.0 / 20.0);
        let costs = role_costs(&model, setting(Algorithm::Tree, ProtocolKind::Ll128));
        let rate = |role| costs.of(role).slice.pass_rate().unwrap().bytes_per_sec() as f64;
        let down = rate(Role::Down) / rate(Role::Block);
        assert!((down - 0.5625).abs() < 1e-3, "{down}");
        assert_eq!(costs.of(Role::Down).streams, 0);
        assert!(costs.of(Role::Up).slice.fence > Time::ZERO);
        // In proportion to their number, if nothing is known.
        model.ll128.half_rate_warps = None;
        close(model.ll128.share(0.3), 0.3);
    }

    /// Where GPUs have only PCIe, a send is what a ring's first step is: two of them pass a port of PCIe 5.
    #[test]
    fn sends_over_pcie_are_the_primitive_of_rings() {
        let model = &catalogue::hardware().architectures["hopper"];
        let chunk = 128 << 10;
        let micros = |plain| {
            let lane = lane_costs(model, ProtocolKind::Simple, (1, plain));
            let moved = lane.send_rate.time_for(Bytes::new(chunk));
            (moved + lane.slice.of(chunk)).micros()
        };
        // Measured on GH200: 2.6 us.
        assert!((2.6..4.2).contains(&micros(true)), "{}", micros(true));
        assert!(micros(false) > 9.0);
    }

    #[test]
    fn passes_are_stairs() {
        let cost = SliceCost {
            pass: Bytes::from_kib(4),
            doubling: Time::from_nanos(30),
            pass_time: Time::from_nanos(600),
            ..SliceCost::default()
        };
        let nanos = |len| cost.of(len).picos() / 1000;
        assert_eq!(
            [nanos(8), nanos(64), nanos(65), nanos(128)],
            [600, 600, 630, 630]
        );
        assert_eq!(nanos(4096), 600 + 6 * 30);
        assert_eq!(nanos(4097), 1200 + 6 * 30);
        assert_eq!(nanos(3 * 4096), 1800 + 6 * 30);
        assert_eq!([0, 1, 4096, 4097].map(|len| cost.passes(len)), [1, 1, 1, 2]);
    }
}
