//! Whether a machine makes sense: its models one by one, and the machine as a whole.

use super::architecture::Architecture;
use super::error::Fault;
use super::graph::{DeviceId, DeviceKind, Topology};
use super::hardware::{
    CpuVendor, DeviceModel, Hardware, LinkFamily, LinkModel, ProcessorModel, SwitchModel,
};
use super::storage;
use fabricsim_units::{Bandwidth, Time};
use std::fmt;

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; the machine can be simulated.
    Warning,
    /// Not a machine: [`super::expand()`] refuses it.
    Error,
}

/// Something about a whole machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The full name of the device or link that shows it, or of the machine.
    pub place: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
    /// How many places show the same; `place` is the first.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.place)?;
        if self.count > 1 {
            write!(f, " and {} more", self.count - 1)?;
        }
        write!(f, ": {}; expected {}", self.found, self.expected)
    }
}

/// Looks at a whole machine: GPUs without links, nodes that cannot reach each other,
/// NVSwitches with more links than ports, NICs in several fabrics, NICs that are faster
/// than their slots, storage devices that hang on anything but one PCIe link.
/// Findings of one kind are told once, with their number.
#[must_use]
pub fn check(topology: &Topology) -> Vec<Finding> {
    let mut findings = Vec::new();
    if topology.gpus().next().is_none() {
        findings.push(Finding {
            severity: Severity::Error,
            place: topology.name.clone(),
            found: "no GPU".into(),
            expected: "at least one GPU in a node".into(),
            count: 1,
        });
    }
    let linked = lost_gpus(topology, &mut findings);
    unreachable(topology, &linked, &mut findings);
    crowded_switches(topology, &mut findings);
    shared_ports(topology, &mut findings);
    slow_slots(topology, &mut findings);
    for (devices, found) in storage::mislinked(topology) {
        let (devices, expected) = (devices.into_iter(), storage::ONE_LINK);
        tell(
            topology,
            &mut findings,
            Severity::Error,
            devices,
            found,
            expected,
        );
    }
    findings
}

/// GPUs that no node has, or without any link. Returns which devices have one.
fn lost_gpus(topology: &Topology, findings: &mut Vec<Finding>) -> Vec<bool> {
    let mut linked = vec![false; topology.device_count()];
    for edge in topology.graph.raw_edges() {
        linked[edge.source().index()] = true;
    }
    let gpus = || {
        topology
            .devices()
            .filter(|(_, d)| d.kind == DeviceKind::Gpu)
    };
    tell(
        topology,
        findings,
        Severity::Error,
        gpus()
            .filter(|&(id, _)| topology.node_of(id).is_none())
            .map(|(id, _)| id),
        "a GPU outside of any node",
        "GPUs inside a component with `\"node\": true`",
    );
    // A machine of a single GPU needs no link.
    if gpus().nth(1).is_some() {
        tell(
            topology,
            findings,
            Severity::Error,
            gpus()
                .filter(|&(id, _)| !linked[id.index()])
                .map(|(id, _)| id),
            "a GPU without any link",
            "a link to a switch, a CPU or another GPU",
        );
    }
    linked
}

/// GPUs with links that cannot reach the first such.
fn unreachable(topology: &Topology, linked: &[bool], findings: &mut Vec<Finding>) {
    // Groups of connected devices, as a forest with paths halved on the way up.
    let mut parent: Vec<u32> = (0..topology.device_count() as u32).collect();
    fn root(parent: &mut [u32], mut at: u32) -> u32 {
        while parent[at as usize] != at {
            let above = parent[parent[at as usize] as usize];
            parent[at as usize] = above;
            at = above;
        }
        at
    }
    // Both directions of a wire are there, so every other link tells as much.
    for edge in topology.graph.raw_edges().iter().step_by(2) {
        let a = root(&mut parent, edge.source().index() as u32);
        let b = root(&mut parent, edge.target().index() as u32);
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut gpus = topology.gpus().filter(|g| linked[g.index()]);
    let Some(first) = gpus.next() else {
        return;
    };
    let home = root(&mut parent, first.0);
    let lost: Vec<DeviceId> = gpus.filter(|g| root(&mut parent, g.0) != home).collect();
    let found = format!("no path to `{}`", topology.device_name(first));
    let hint = if topology.nodes.len() > 1 && topology.fabrics.is_empty() {
        "a path between any two GPUs; a fabric joins the nodes"
    } else {
        "a path between any two GPUs"
    };
    tell(
        topology,
        findings,
        Severity::Error,
        lost.into_iter(),
        &found,
        hint,
    );
}

/// NVSwitches with more links than ports.
fn crowded_switches(topology: &Topology, findings: &mut Vec<Finding>) {
    let mut taken = vec![0u64; topology.device_count()];
    for edge in topology.graph.raw_edges() {
        if topology.link_models[edge.weight.model as usize].1.family == LinkFamily::Nvlink {
            taken[edge.source().index()] += u64::from(edge.weight.lanes);
        }
    }
    let mut worst = Vec::new();
    for (id, device) in topology.devices() {
        if let DeviceModel::Nvswitch(model) = &topology.device_models[device.model as usize].1 {
            let ports = model.ports.value;
            if taken[id.index()] > u64::from(ports) {
                worst.push((id, taken[id.index()], ports));
            }
        }
    }
    if let Some(&(_, taken, ports)) = worst.first() {
        tell(
            topology,
            findings,
            Severity::Error,
            worst.iter().map(|&(id, _, _)| id),
            &format!("{taken} NVLinks at an NVSwitch"),
            &format!("at most {ports}, its ports"),
        );
    }
}

/// NICs that stand in the ports of several fabrics.
fn shared_ports(topology: &Topology, findings: &mut Vec<Finding>) {
    let mut ports: Vec<DeviceId> = topology
        .fabrics
        .iter()
        .flat_map(|f| f.ports.iter().copied())
        .collect();
    ports.sort_unstable();
    let mut twice: Vec<DeviceId> = ports
        .windows(2)
        .filter(|w| w[0] == w[1])
        .map(|w| w[0])
        .collect();
    twice.dedup();
    tell(
        topology,
        findings,
        Severity::Error,
        twice.into_iter(),
        "a NIC in the ports of several fabrics",
        "one fabric for each NIC, which has one port",
    );
}

/// NICs whose cables carry more than their PCIe links.
fn slow_slots(topology: &Topology, findings: &mut Vec<Finding>) {
    let rates = topology.rates();
    let mut network = vec![0u64; topology.device_count()];
    let mut host = vec![0u64; topology.device_count()];
    for (id, edge) in topology
        .links()
        .map(|(id, _)| id)
        .zip(topology.graph.raw_edges())
    {
        let table = match topology.family(id) {
            LinkFamily::Network => &mut network,
            LinkFamily::Pcie | LinkFamily::C2c => &mut host,
            LinkFamily::Nvlink | LinkFamily::Socket => continue,
        };
        let sum = &mut table[edge.source().index()];
        // A slow drive behind a NIC makes no slow slot.
        let rate = match topology.limits.contains_key(&id) {
            true => topology.wire_rate(id),
            false => rates(id),
        };
        *sum = sum.saturating_add(rate.bytes_per_sec());
    }
    let nics = topology
        .devices()
        .filter(|(_, d)| d.kind == DeviceKind::Nic);
    let (mut slow, mut bare) = (Vec::new(), Vec::new());
    for (id, _) in nics {
        let (out, slot) = (network[id.index()], host[id.index()]);
        if slot == 0 {
            bare.push(id);
        } else if out > slot {
            slow.push(id);
        }
    }
    if let Some(first) = slow.first() {
        let rate = |table: &[u64]| Bandwidth::from_bytes_per_sec(table[first.index()]);
        let found = format!(
            "a NIC of {:.1} GB/s in a slot of {:.1} GB/s",
            rate(&network).gb_per_sec(),
            rate(&host).gb_per_sec()
        );
        let slow = slow.iter().copied();
        tell(
            topology,
            findings,
            Severity::Warning,
            slow,
            &found,
            "a slot as fast as the NIC",
        );
    }
    tell(
        topology,
        findings,
        Severity::Warning,
        bare.into_iter(),
        "a NIC without a PCIe link",
        "a link to a PCIe switch or a CPU",
    );
}

/// Adds one finding for all of `devices`, if there are any.
fn tell(
    topology: &Topology,
    findings: &mut Vec<Finding>,
    severity: Severity,
    mut devices: impl Iterator<Item = DeviceId>,
    found: &str,
    expected: &str,
) {
    if let Some(first) = devices.next() {
        findings.push(Finding {
            severity,
            place: topology.device_name(first),
            found: found.to_owned(),
            expected: expected.to_owned(),
            count: 1 + devices.count() as u64,
        });
    }
}

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
