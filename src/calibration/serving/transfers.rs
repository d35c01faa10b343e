//! Published times and rates of moving KV caches between engines and from hosts, and what is predicted of them: from the
//! links of shipped machines, and what libraries and engines take beside (`topologies/software/serving.json`).

use super::sets::Sets;
use super::table::{Cells, ServingTable};
use fabricsim_experiment::links::{between, narrowest, shared_rate};
use fabricsim_topology::hardware::DeviceModel;
use fabricsim_topology::{LibraryModel, Overrides, Router, Topology, catalogue, expand, serving};
use fabricsim_workload::model::presets;

/// Of engine to engine.
pub(super) const TRANSFERS: &str = "kv_transfer";
/// Between GPUs and what is below them.
pub(super) const OFFLOAD: &str = "kv_offload";

const GB: f64 = 1e9;
const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;

/// Reads tables of both kinds, and predicts what can be predicted of their rows.
pub(super) fn predict(tables: &[&ServingTable], into: &mut Sets) {
    for table in tables {
        for row in &table.rows {
            let cells = Cells(row);
            let done = match table.id.as_str() {
                "kv-transfer-issues" => descriptors(table, cells, into),
                "llmd-nixlbench" => nixlbench(table, cells, into),
                "lmcache-pd-page-size-h100" => pages(table, cells, into),
                "llmd-p2p-pull-gptoss-h200" => pull(table, cells, into),
                "mooncake-efa-p5-h100" => efa(table, cells, "aws-p5", into),
                "mooncake-efa-p5en-h200" => efa(table, cells, "aws-p5en", into),
                "mooncake-vllm-pd-h800-qwen3-8b" => mooncake(table, cells, into),
                "vllm-kv-offload-cpu-h100" => copies(table, cells, into),
                "pegaflow-kv-sharing" => pegaflow(table, cells, into),
                "minio-memkv-h200" => memkv(table, cells, into),
                "vllm-kv-block-size" => block_size(table, cells, into),
                _ => Err("what whole engines do under a load: predicted by running them"),
            };
            if let Err(why) = done {
                into.skip(table, why, 1);
            }
        }
    }
}

/// Why a row is not predicted.
type Done = Result<(), &'static str>;

/// Seconds that bytes take in so many pieces: each is posted while others flow.
fn moves(bytes: f64, rate: f64, pieces: f64, posting: f64) -> f64 {
    (bytes / rate).max(pieces * posting)
}

/// Bytes per second of a shipped kind of link.
fn link(name: &str, lanes: u32) -> Option<f64> {
    let link = catalogue::hardware().links.get(name)?;
    Some(link.rate(lanes).bytes_per_sec() as f64)
}

fn machine(name: &str, nodes: u32) -> Option<Topology> {
    let spec = catalogue::find(name).ok()?;
    let overrides = Overrides { nodes: Some(nodes) };
    expand(&spec, catalogue::hardware(), &overrides).ok()
}

/// Bytes per second of each of so many GPUs of a node, to one of the next node or, of one, its neighbour, all at once, and
/// seconds until the first byte; over so many NICs at most.
fn way(topology: &Topology, gpus: usize, far: bool, rails: usize) -> Option<(f64, f64)> {
    let mut router = Router::new(topology, 0);
    let from = &topology.nodes.first()?.gpus;
    let to = match far {
        true => &topology.nodes.get(1)?.gpus[..],
        false => from.get(1..)?,
    };
    let pairs = from.iter().zip(to).take(gpus);
    let ways = pairs.map(|(&from, &to)| between(&mut router, (from, to), rails));
    let ways = ways.collect::<Result<Vec<_>, _>>().ok()?;
    let latency = ways.iter().flatten().map(|route| route.latency.seconds());
    Some((shared_rate(topology, &ways), latency.fold(0.0, f64::max)))
}

/// Bytes per second from a host's memory to its GPU.
fn host_link(machine: &Topology) -> Option<f64> {
    let router = Router::new(machine, 0);
    let gpu = *machine.nodes.first()?.gpus.first()?;
    let route = router.local(router.cpu_of(gpu)?, gpu).ok()?;
    narrowest(machine, &route)
}

fn nixl() -> &'static LibraryModel {
    serving().handover.of("nixl")
}

/// Rates of what is below the GPUs' memory: they count together.
const BELOW: &str = "below the GPUs' memory";
const NOT_SHIPPED: &str = "a machine that is not shipped";
const NO_FIGURE: &str = "rows without a time or a rate of one transfer";

/// LMCache's table of one and of 256 descriptors, on one and on two ports of 100 Gb/s.
fn descriptors(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    if cells.number("launch_time_ms").is_some() {
        return Err("the setup itself");
    }
    if cells.number("segments").is_some() {
        return Err("an early release that prepared no descriptors: 40 us each");
    }
    let pieces = cells.number("iovs").ok_or("shares without a time")?;
    let size = cells.number("block_KiB").or(cells.number("total_KiB"));
    let bytes = size.ok_or(NO_FIGURE)? * KIB;
    let port = link("ib-edr100", 1).ok_or(NOT_SHIPPED)?;
    let bare = &serving().handover.bare;
    for (column, ports) in [("single_rail_GB_s", 1.0), ("dual_rail_GB_s", 2.0)] {
        let measured = cells.number(column).ok_or(NO_FIGURE)?;
        // One thread posts for both ports.
        let posting = bare.posting.value.seconds();
        let time = bare.start.value.seconds() + moves(bytes, port * ports, pieces, posting);
        let group = format!("NIXL, {pieces} descriptors, {ports} ports of 100 Gb/s");
        let name = format!("{} KiB", bytes / KIB);
        into.row(
            (table, &group),
            (name, "rate"),
            (measured, bytes / time / GB, "GB/s"),
        );
    }
    Ok(())
}

fn nixlbench(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    let net = cells.text("net").unwrap_or_default();
    if net.contains("TCP") {
        return Err("TCP: the law is of RDMA");
    }
    let line = cells.number("line_rate_GBps").unwrap_or(50.0);
    let name = if line < 20.0 {
        "ib-edr100"
    } else {
        "ib-ndr400"
    };
    let port = link(name, 1).ok_or(NOT_SHIPPED)?;
    let backend = cells.text("backend").unwrap_or_default();
    let share = match backend == "Mooncake" {
        true => serving().handover.mooncake.rate_share.value,
        false => nixl().rate_share.value,
    };
    let measured = cells.number("GBps_about").or(cells.middle("GBps_range"));
    let measured = measured.ok_or(NO_FIGURE)?;
    let pieces = cells.number("descriptors").unwrap_or(1.0);
    // 1 to 8 GB.
    let bytes = 4.0 * GB;
    let bare = &serving().handover.bare;
    let posting = bare.posting.value.seconds();
    let time = bare.start.value.seconds() + moves(bytes, port * share, pieces, posting);
    let what = (format!("{backend}, {pieces} descriptors"), "rate");
    let figures = (measured, bytes / time / GB, "GB/s");
    into.row((table, "nixlbench"), what, figures);
    Ok(())
}

/// Llama 3.1 8B over NVLink, in pages.
fn pages(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    let topology = machine("dgx-h100", 1).ok_or(NOT_SHIPPED)?;
    let (rate, latency) = way(&topology, 1, false, 1).ok_or(NOT_SHIPPED)?;
    let numbers = ["input_tokens", "page_tokens", "transfer_ms"].map(|name| cells.number(name));
    let [Some(tokens), Some(page), Some(measured)] = numbers else {
        return Err(NO_FIGURE);
    };
    let of = nixl();
    // 32 layers, keys and values apart, 8 heads of 128.
    let pieces = (tokens / page).ceil() * 64.0;
    let bytes = (tokens / page).ceil() * page * 64.0 * 8.0 * 128.0 * 2.0;
    let rate = rate * of.rate_share.value;
    let moves = moves(bytes, rate, pieces, of.posting_nvlink.value.seconds());
    let time = (of.setup.value.seconds() + latency + moves) * 1e3;
    into.row(
        (table, "NIXL in vLLM, NVLink"),
        (format!("pages of {page} tokens"), "time"),
        (measured, time, "ms"),
    );
    Ok(())
}

/// gpt-oss 120B from one host's memory over the network to another's, and to its GPU.
fn pull(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    let topology = machine("dgx-h200", 2).ok_or(NOT_SHIPPED)?;
    let (rate, latency) = way(&topology, 1, true, 1).ok_or(NOT_SHIPPED)?;
    let host = host_link(&topology).ok_or(NOT_SHIPPED)?;
    let tokens = cells.number("prefix_tokens").ok_or(NO_FIGURE)?;
    let measured = cells.number("pull_ms").ok_or(NO_FIGURE)?;
    // 36 layers, keys and values, 8 heads of 64, 16 bits.
    let bytes = tokens * 36.0 * 2.0 * 8.0 * 64.0 * 2.0;
    let (of, offload) = (nixl(), &serving().offload);
    let front_end = serving().engines["vllm"].per_request.value.seconds();
    let network = of.setup.value.seconds() + latency + bytes / (rate * of.rate_share.value);
    let copy = offload.setup.value.seconds() + bytes / (host * offload.rate_share.value);
    let time = (front_end + network + copy) * 1e3;
    let what = (format!("{tokens} tokens"), "time");
    into.row(
        (table, "NIXL in vLLM, host to host"),
        what,
        (measured, time, "ms"),
    );
    Ok(())
}

/// Mooncake over EFA, all GPUs of a node to those of another.
fn efa(table: &ServingTable, cells: Cells<'_>, name: &str, into: &mut Sets) -> Done {
    let path = cells.text("path").unwrap_or_default();
    if path.starts_with("CPU") {
        return Err("limited by the hosts' memory, which the graph does not have");
    }
    let configuration = cells.text("configuration").unwrap_or_default();
    let size = configuration.split(' ').next().unwrap_or_default();
    let piece = match (size, configuration) {
        (_, text) if text.ends_with(" KB") => size.parse::<f64>().map(|kib| kib * KIB),
        (_, text) if text.ends_with(" MB") => size.parse::<f64>().map(|mib| mib * MIB),
        _ => size
            .trim_end_matches("MB")
            .parse::<f64>()
            .map(|mib| mib * MIB),
    };
    let piece = piece.map_err(|_| NO_FIGURE)?;
    let topology = machine(name, 2).ok_or(NOT_SHIPPED)?;
    let of = &serving().handover.mooncake;
    let gpus = topology.nodes.first().map_or(0, |node| node.gpus.len());
    let (rate, _) = way(&topology, gpus, true, of.rails as usize).ok_or(NOT_SHIPPED)?;
    // Many threads keep the ports busy all the time: nothing but links and posting limits them.
    let predicted = gpus as f64 * piece / moves(piece, rate, 1.0, of.posting.value.seconds()) / GB;
    for (column, quantity) in [("write_GBps", "write rate"), ("read_GBps", "read rate")] {
        if let Some(measured) = cells.number(column) {
            let what = (configuration.to_owned(), quantity);
            into.row(
                (table, &format!("Mooncake, {name}")),
                what,
                (measured, predicted, "GB/s"),
            );
        }
    }
    Ok(())
}

/// Qwen3 8B over 8 GPUs a side, each with 200 Gb/s.
fn mooncake(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    let tokens = cells.number("input_tokens").ok_or(NO_FIGURE)?;
    let measured = cells.number("transfer_ms").ok_or(NO_FIGURE)?;
    let port = link("ib-hdr200", 1).ok_or(NOT_SHIPPED)?;
    let of = &serving().handover.mooncake;
    // 36 layers, keys and values, one head of 128 on each GPU, 16 bits; alone, so that blocks lie next to each other.
    let (bytes, pieces) = (tokens * 72.0 * 128.0 * 2.0, 72.0);
    let posting = of.posting.value.seconds();
    let moves = moves(bytes, port * of.rate_share.value, pieces, posting);
    let time = (of.setup.value.seconds() + moves) * 1e3;
    let what = (format!("{tokens} tokens"), "time");
    into.row(
        (table, "Mooncake in vLLM, H800"),
        what,
        (measured, time, "ms"),
    );
    Ok(())
}

/// Between a GPU and its host over PCIe.
fn copies(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    let topology = machine("dgx-h100", 1).ok_or(NOT_SHIPPED)?;
    let rate = host_link(&topology).ok_or(NOT_SHIPPED)? * serving().offload.rate_share.value / GB;
    let what = cells.text("what").unwrap_or_default();
    if what.contains("kernel") && what.contains("both") {
        return Err("copies by a kernel, which take GPU time");
    }
    let (measured, predicted, name) = match (cells.number("GBps_about"), cells.number("GBps")) {
        (Some(one_way), _) => (one_way, rate, "one way"),
        (None, Some(both)) => (both, 2.0 * rate, "both ways at once"),
        (None, None) => return Err("ratios of whole engines"),
    };
    let what = (name.to_owned(), "rate");
    into.row((table, BELOW), what, (measured, predicted, "GB/s"));
    Ok(())
}

fn pegaflow(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    let case = cells.text("case").unwrap_or_default();
    if let Some(measured) = cells.middle("steady_GBps_range") {
        let devices = &catalogue::hardware().devices;
        let Some(DeviceModel::Storage(drive)) = devices.get("nvme-gen4") else {
            return Err(NOT_SHIPPED);
        };
        let rate = drive.read_rate.value;
        let what = ("one drive".to_owned(), "rate");
        into.row((table, BELOW), what, (measured, rate.gb_per_sec(), "GB/s"));
        return Ok(());
    }
    if cells.number("mean_GBps").is_some() {
        return Err("limited by the hosts' memory, which the graph does not have");
    }
    let (Some(tokens), Some(measured)) = (
        cells
            .number("input_tokens")
            .filter(|_| case.contains("warm")),
        cells.number("mean_ttft_ms"),
    ) else {
        return Err("what whole engines do under a load: predicted by running them");
    };
    let topology = machine("dgx-h100", 1).ok_or(NOT_SHIPPED)?;
    let gpu = topology
        .nodes
        .first()
        .and_then(|node| node.gpus.first().copied());
    let memory = gpu
        .and_then(|gpu| topology.gpu_model(gpu))
        .ok_or(NOT_SHIPPED)?;
    let host = host_link(&topology).ok_or(NOT_SHIPPED)? * serving().offload.rate_share.value;
    let vllm = &serving().engines["vllm"];
    // The KV cache, and a pass that reads the weights once.
    let bytes = tokens * 32.0 * 2.0 * 8.0 * 128.0 * 2.0;
    let weights = 8.03e9 * 2.0 / memory.memory_bandwidth.value.bytes_per_sec() as f64;
    let front_end = vllm.per_request.value + vllm.per_prompt_token.value.times(tokens as u64);
    let software = front_end + serving().offload.setup.value + vllm.per_pass.value;
    let time = (software.seconds() + bytes / host + weights) * 1e3;
    let what = (case.to_owned(), "TTFT");
    into.row(
        (table, "KV cache of a host, Llama 3.1 8B"),
        what,
        (measured, time, "ms"),
    );
    Ok(())
}

/// From file servers over two ports of 400 Gb/s.
fn memkv(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    if cells.text("scratch") != Some("host") {
        return Err(
            "into the GPUs' memory at a quarter of the rate into the hosts': not explained",
        );
    }
    let measured = cells.number("restore_GBps").ok_or(NO_FIGURE)?;
    let rate = 2.0 * link("ib-ndr400", 1).ok_or(NOT_SHIPPED)? / GB;
    let what = ("into the host's memory".to_owned(), "rate");
    into.row((table, BELOW), what, (measured, rate, "GB/s"));
    Ok(())
}

/// Bytes of 16 tokens of all layers.
fn block_size(table: &ServingTable, cells: Cells<'_>, into: &mut Sets) -> Done {
    let (name, tp) = match cells.text("model").unwrap_or_default() {
        "Llama-3.1-8B-Instruct" => ("llama3-8b", 1.0),
        "Llama-3.1-70B-Instruct" => ("llama3-70b", 4.0),
        _ => return Err("a model that is not shipped"),
    };
    let model = &presets::find(name).map_err(|_| NOT_SHIPPED)?.model;
    let text = cells.text("new_block_0_12").unwrap_or_default();
    let measured = text.trim_end_matches(" MB").parse::<f64>();
    let measured = measured.map_err(|_| NO_FIGURE)?;
    let row = model.kv_heads() * (model.qk_dim() + model.v_dim()) * 2;
    let bytes = (model.layers * row * 16) as f64 / tp;
    let what = (name.to_owned(), "block");
    into.row(
        (table, "blocks of vLLM 0.12"),
        what,
        (measured, bytes / MIB, "MiB"),
    );
    Ok(())
}
