//! Whether models of hardware make sense, one by one.

use super::architecture::Architecture;
use super::error::Fault;
use super::hardware::{CpuVendor, DeviceModel, Hardware, LinkModel, ProcessorModel, SwitchModel};
use fabricsim_units::{Bandwidth, Time};

/// Checks every model of a file's own.
pub(super) fn hardware(hardware: &Hardware, faults: &mut Vec<Fault>) {
    for (name, model) in &hardware.links {
        link_model(name, model, faults);
    }
    for (name, model) in &hardware.architectures {
        architecture(name, model, faults);
    }
    for (make, model) in &hardware.processors {
        processor(*make, model, faults);
    }
    for (name, model) in &hardware.devices {
        device_model(name, model, faults);
    }
    if let Some(overhead) = &hardware.server_overhead
        && !(0.0..=1.0).contains(&overhead.value)
    {
        faults.push(Fault::new(
            "hardware.server_overhead.value",
            overhead.value.to_string(),
            "a part from 0 to 1 of what a server's parts draw",
        ));
    }
}

/// Times that can be added up.
pub(super) fn processor(make: CpuVendor, model: &ProcessorModel, faults: &mut Vec<Fault>) {
    latency(
        &format!("hardware.processors.{make}.message_overhead"),
        model.message_overhead.value,
        faults,
    );
    if let Some(time) = &model.driver_start {
        let at = format!("hardware.processors.{make}.driver_start");
        latency(&at, time.value, faults);
    }
}

/// Rates above zero, fractions in (0, 1].
pub(super) fn link_model(name: &str, model: &LinkModel, faults: &mut Vec<Fault>) {
    let at = format!("hardware.links.{name}");
    rate(&format!("{at}.lane_rate"), model.lane_rate.value, faults);
    latency(&format!("{at}.latency"), model.latency.value, faults);
    let before = faults.len();
    for (i, keep) in model.keeps.iter().enumerate() {
        if !(keep.fraction > 0.0 && keep.fraction <= 1.0) {
            faults.push(Fault::new(
                format!("{at}.keeps[{i}].fraction"),
                keep.fraction.to_string(),
                "a fraction above 0 and at most 1",
            ));
        }
    }
    if faults.len() == before
        && model.lane_rate.value.bytes_per_sec() > 0
        && model.rate(1).bytes_per_sec() == 0
    {
        faults.push(Fault::new(
            format!("{at}.keeps"),
            format!("fractions that leave nothing of {}", model.lane_rate.value),
            "a usable rate of at least 1B/s",
        ));
    }
}

/// Rates, sizes and ports above zero.
pub(super) fn device_model(name: &str, model: &DeviceModel, faults: &mut Vec<Fault>) {
    let at = format!("hardware.devices.{name}");
    match model {
        DeviceModel::Gpu(m) => {
            let at = format!("{at}.gpu");
            rate(
                &format!("{at}.memory_bandwidth"),
                m.memory_bandwidth.value,
                faults,
            );
            if m.memory.value.get() == 0 {
                faults.push(zero(&format!("{at}.memory"), "0B"));
            }
            let rates = [
                ("bf16_tflops", Some(m.bf16_tflops.value)),
                ("fp8_tflops", m.fp8_tflops.as_ref().map(|f| f.value)),
                ("fp4_tflops", m.fp4_tflops.as_ref().map(|f| f.value)),
                ("sustained", m.sustained.as_ref().map(|f| f.value)),
                ("sms", m.sms.as_ref().map(|n| f64::from(n.value))),
            ];
            for (field, value) in rates {
                if let Some(value) = value.filter(|v| !(*v > 0.0 && *v <= MOST_TFLOPS)) {
                    faults.push(Fault::new(
                        format!("{at}.{field}.value"),
                        value.to_string(),
                        format!("more than 0, at most {MOST_TFLOPS}"),
                    ));
                }
            }
        }
        DeviceModel::Nvswitch(m) => switch(&format!("{at}.nvswitch"), m, faults),
        DeviceModel::Switch(m) => switch(&format!("{at}.switch"), m, faults),
        DeviceModel::Cpu(m) => {
            let at = format!("{at}.cpu");
            rate(
                &format!("{at}.memory_bandwidth"),
                m.memory_bandwidth.value,
                faults,
            );
            latency(&format!("{at}.latency"), m.latency.value, faults);
            if m.memory
                .as_ref()
                .is_some_and(|memory| memory.value.get() == 0)
            {
                faults.push(zero(&format!("{at}.memory"), "0B"));
            }
        }
        DeviceModel::PcieSwitch(m) => {
            latency(
                &format!("{at}.pcie_switch.latency"),
                m.latency.value,
                faults,
            );
        }
        DeviceModel::Nic(m) => {
            latency(&format!("{at}.nic.latency"), m.latency.value, faults);
            if let Some(time) = &m.message_overhead {
                latency(&format!("{at}.nic.message_overhead"), time.value, faults);
            }
            if let Some(model) = &m.inline {
                latency(&format!("{at}.nic.inline.time"), model.time.value, faults);
                if let Some(fetch) = &model.fetch {
                    latency(&format!("{at}.nic.inline.fetch"), fetch.value, faults);
                }
            }
            if let Some(model) = &m.rendezvous {
                latency(
                    &format!("{at}.nic.rendezvous.time"),
                    model.time.value,
                    faults,
                );
                if let Some(work) = &model.work {
                    latency(&format!("{at}.nic.rendezvous.work"), work.value, faults);
                }
            }
            if let Some(time) = &m.delivery {
                latency(&format!("{at}.nic.delivery"), time.value, faults);
            }
        }
        DeviceModel::Storage(m) => {
            let at = format!("{at}.storage");
            if m.capacity.value.get() == 0 {
                faults.push(zero(&format!("{at}.capacity"), "0B"));
            }
            rate(&format!("{at}.read_rate"), m.read_rate.value, faults);
            rate(&format!("{at}.write_rate"), m.write_rate.value, faults);
            latency(&format!("{at}.latency"), m.latency.value, faults);
        }
    }
}

/// More operations per second than any GPU has, in units of 10¹²; SMs, too, are no more.
const MOST_TFLOPS: f64 = 1e6;

/// Kernels at a smaller share of the peak would not end in any time worth simulating.
const LEAST_SHARE: f64 = 1e-6;

/// Larger than the tile of any matrix product.
const MOST_TILE: u64 = 1 << 16;

/// Rates above zero, latencies that can be added up.
pub(super) fn architecture(name: &str, model: &Architecture, faults: &mut Vec<Fault>) {
    let at = |field: &str| format!("hardware.architectures.{name}.{field}");
    let mut rates = vec![
        ("local_copy_rate", &model.local_copy_rate),
        ("simple.rate", &model.simple.rate),
        ("ll128.rate", &model.ll128.rate),
    ];
    let mut times = vec![
        ("simple.launch", &model.simple.launch),
        ("simple.slice_sync", &model.simple.slice_sync),
        ("ll.launch", &model.ll.launch),
        ("ll.doubling", &model.ll.doubling),
        ("ll.pass_time", &model.ll.pass_time),
        ("ll128.launch", &model.ll128.launch),
    ];
    let mut sizes = vec![("ll.pass", &model.ll.pass)];
    let fence = model.ll128.network_fence.as_ref();
    times.extend(fence.map(|time| ("ll128.network_fence", time)));
    let mut figure = |field: &str, value: f64, right: bool, expected: &str| {
        if !right {
            let at = at(&format!("{field}.value"));
            faults.push(Fault::new(at, value.to_string(), expected));
        }
    };
    if let Some(part) = &model.simple.uneven {
        let value = part.value;
        let right = (0.0..=1.0).contains(&value);
        figure("simple.uneven", value, right, "a part, from 0 to 1");
    }
    if let Some(half) = &model.ll128.half_rate_warps {
        let value = half.value;
        let right = value >= 0.0 && value.is_finite();
        let expected = "a number of warps, at least 0";
        figure("ll128.half_rate_warps", value, right, expected);
    }
    for (field, hop) in [
        ("simple.hop", &model.simple.hop),
        ("ll.hop", &model.ll.hop),
        ("ll128.hop", &model.ll128.hop),
    ] {
        times.extend([(field, &hop.nvlink), (field, &hop.pcie)]);
    }
    if let Some(rounds) = &model.simple.rounds {
        sizes.push(("simple.rounds.hunk", &rounds.hunk));
        times.push(("simple.rounds.time", &rounds.time));
        times.push(("simple.rounds.rest", &rounds.rest));
    }
    if let Some(sends) = &model.point_to_point {
        rates.push(("point_to_point.rate", &sends.rate));
        times.push(("point_to_point.launch", &sends.launch));
        times.push(("point_to_point.chunk_sync", &sends.chunk_sync));
        let start = sends.network_start.as_ref();
        times.extend(start.map(|time| ("point_to_point.network_start", time)));
    }
    if let Some(spread) = &model.spread {
        times.push(("spread", spread));
    }
    if let Some(pair) = &model.queue_pair_rate {
        rates.push(("queue_pair_rate", pair));
    }
    if let Some(symmetric) = &model.symmetric {
        rates.extend([
            ("symmetric.reduce_rate", &symmetric.reduce_rate),
            ("symmetric.gather_rate", &symmetric.gather_rate),
        ]);
        times.extend([
            ("symmetric.launch", &symmetric.launch),
            ("symmetric.barrier", &symmetric.barrier),
        ]);
        let start = symmetric.copy_start.as_ref();
        times.extend(start.map(|time| ("symmetric.copy_start", time)));
    }
    if let Some(nvls) = &model.nvls {
        rates.push(("nvls.rate", &nvls.rate));
        times.extend([
            ("nvls.launch", &nvls.launch),
            ("nvls.loop_sync", &nvls.loop_sync),
        ]);
        if let Some(crowding) = &nvls.crowding {
            let value = crowding.value;
            let right = (0.0..1.0).contains(&value);
            figure("nvls.crowding", value, right, "at least 0, less than 1");
        }
        let sustained = nvls.sustained_share.as_ref();
        let shares = [
            ("nvls.port_share", Some(&nvls.port_share)),
            ("nvls.sustained_share", sustained),
        ];
        for (field, share) in shares {
            let Some(share) = share else { continue };
            let right = share.value > 0.0 && share.value <= 1.0;
            figure(field, share.value, right, "more than 0, at most 1");
        }
    }
    if let Some(kernels) = &model.kernels {
        let [first, second, third] = kernels.attention_shares.value;
        let shares = [
            ("kernels.power", kernels.power.as_ref().map(|s| s.value)),
            (
                "kernels.gemm_share",
                kernels.gemm_share.as_ref().map(|s| s.value),
            ),
            (
                "kernels.fp8_gemm_share",
                kernels.fp8_gemm_share.as_ref().map(|s| s.value),
            ),
            ("kernels.memory_share", Some(kernels.memory_share.value)),
            ("kernels.attention_shares", Some(first)),
            ("kernels.attention_shares", Some(second)),
            ("kernels.attention_shares", Some(third)),
        ];
        for (field, share) in shares {
            if let Some(share) = share {
                let right = (LEAST_SHARE..=1.0).contains(&share);
                let expected = format!("a share, from {LEAST_SHARE} to 1");
                figure(field, share, right, &expected);
            }
        }
        let tile = kernels.tile.as_ref().map(|tile| tile.value);
        let sides = tile.map(|(rows, columns)| [rows, columns]);
        for side in sides.into_iter().flatten() {
            let right = (1..=MOST_TILE).contains(&side);
            let expected = format!("rows and columns from 1 to {MOST_TILE}");
            figure("kernels.tile", side as f64, right, &expected);
        }
        times.push(("kernels.latency", &kernels.latency));
    }
    for (field, value) in rates {
        rate(&at(field), value.value, faults);
    }
    for (field, value) in times {
        latency(&at(field), value.value, faults);
    }
    for (field, value) in sizes {
        if value.value.get() == 0 {
            faults.push(zero(&at(field), "0B"));
        }
    }
}

fn switch(at: &str, model: &SwitchModel, faults: &mut Vec<Fault>) {
    latency(&format!("{at}.latency"), model.latency.value, faults);
    if model.ports.value == 0 || model.ports.value > u32::from(u16::MAX) {
        faults.push(Fault::new(
            format!("{at}.ports.value"),
            model.ports.value.to_string(),
            "a number from 1 to 65535",
        ));
    }
    if let Some(merging) = &model.merging
        && !(0.0..1.0).contains(&merging.value)
    {
        faults.push(Fault::new(
            format!("{at}.merging.value"),
            merging.value.to_string(),
            "at least 0, less than 1",
        ));
    }
    if let Some(reduction) = &model.reduction {
        rate(&format!("{at}.reduction"), reduction.value, faults);
    }
}

fn rate(at: &str, rate: Bandwidth, faults: &mut Vec<Fault>) {
    if rate.bytes_per_sec() == 0 {
        faults.push(zero(at, &rate.to_string()));
    }
}

/// Latencies are added up along routes; with this limit their sums stay in range.
fn latency(at: &str, latency: Time, faults: &mut Vec<Fault>) {
    let most = Time::from_micros(1_000_000);
    if latency > most {
        faults.push(Fault::new(
            format!("{at}.value"),
            latency.to_string(),
            format!("at most {most}"),
        ));
    }
}

fn zero(at: &str, found: &str) -> Fault {
    Fault::new(format!("{at}.value"), found, "more than 0")
}
