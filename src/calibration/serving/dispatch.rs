//! Published times of sending tokens to their experts and back, and what the law of engines' own kernels says.

use super::sets::Sets;
use super::table::{Cells, ServingTable};
use fabricsim_experiment::links::exchange_links;
use fabricsim_topology::{Overrides, Router, catalogue, expand};
use fabricsim_workload::serving::exchange::{Direction, Exchange, ExchangeKernels, ExchangeLinks};
use std::collections::BTreeMap;

/// The kind of tables.
pub(super) const KIND: &str = "moe_dispatch";

/// A GPU of tables, by the beginning of what they call it, a shipped machine of them, and GPUs of a node.
const GPUS: [(&str, &str, usize); 6] = [
    ("h100", "dgx-h100", 8),
    ("h200", "dgx-h200", 8),
    ("h800", "dgx-h100", 8),
    ("b200", "dgx-b200", 8),
    ("gb200", "gb200-nvl72", 4),
    ("b300", "dgx-b300", 8),
];

/// Bytes of an element on its way to experts in all of these tables: 8 bits, and a scale of 32 for each 128.
const FP8: f64 = 1.0 + 4.0 / 128.0;

/// Reads tables, and predicts their rows.
pub(super) fn predict(tables: &[&ServingTable], into: &mut Sets) {
    let mut machines = Machines::default();
    for table in tables {
        if table.id.contains("trtllm") {
            into.skip(
                table,
                "kernels of TensorRT-LLM, for which there is no law",
                table.rows.len(),
            );
            continue;
        }
        if table.id == "deepep-v2" {
            into.skip(
                table,
                "bandwidths that count what stays on the GPU",
                table.rows.len(),
            );
            continue;
        }
        let name = table.system.gpu.as_deref().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        let Some(&(gpu, machine, per_node)) = GPUS.iter().find(|(gpu, ..)| name.starts_with(gpu))
        else {
            into.skip(table, "a GPU that is not shipped", table.rows.len());
            continue;
        };
        for row in &table.rows {
            let cells = Cells(row);
            let Some((of, nodes, kernels)) = read(table, cells, per_node) else {
                into.skip(table, "no times", 1);
                continue;
            };
            if nodes >= 8 && matches!(kernels, ExchangeKernels::Normal { .. }) {
                let why = "high throughput over 8 nodes: to experts it takes 2.5 times as long as DeepEP publishes";
                into.skip(table, why, 1);
                continue;
            }
            let Some(links) = machines.links(machine, nodes, per_node) else {
                into.skip(table, "GPUs that nothing joins", 1);
                continue;
            };
            let kind = match kernels {
                ExchangeKernels::LowLatency => "low latency",
                ExchangeKernels::Normal { .. } => "high throughput",
            };
            for (direction, column) in [
                (Direction::Dispatch, "dispatch"),
                (Direction::Combine, "combine"),
            ] {
                let Some(micros) = cells.number(&format!("{column}_us")) else {
                    continue;
                };
                let predicted = links.time(&of, kernels, direction).micros();
                let group = format!("{gpu} {kind}, {nodes} nodes");
                let what = format!("{} tokens, {} experts", of.tokens, of.experts);
                into.row((table, &group), (what, column), (micros, predicted, "us"));
            }
        }
    }
}

/// What a row is of, on how many nodes, by which kernels.
fn read(
    table: &ServingTable,
    cells: Cells<'_>,
    per_node: usize,
) -> Option<(Exchange, usize, ExchangeKernels)> {
    let count = |name: &str| cells.number(name).map(|value| value as u64);
    let low_latency = table.id.contains("lowlatency") || table.id.contains("-ll-");
    let kernels = match low_latency {
        true => ExchangeKernels::LowLatency,
        false => ExchangeKernels::Normal { sms: count("sms")? },
    };
    // DeepEP's own tables say it once for all rows.
    let of = Exchange {
        tokens: count("tokens_per_rank").unwrap_or(128),
        hidden: count("hidden").unwrap_or(7168),
        per_token: count("topk").unwrap_or(8),
        experts: count("experts").unwrap_or(256),
        sent_bytes: FP8,
    };
    let nodes = match (count("nodes"), count("ep")) {
        (Some(nodes), _) => nodes,
        (None, Some(gpus)) => gpus / per_node as u64,
        (None, None) => return None,
    };
    (nodes > 0).then_some((of, nodes as usize, kernels))
}

/// Links of machines that were built before.
#[derive(Default)]
struct Machines(BTreeMap<(&'static str, usize), Option<ExchangeLinks>>);

impl Machines {
    fn links(
        &mut self,
        name: &'static str,
        nodes: usize,
        per_node: usize,
    ) -> Option<ExchangeLinks> {
        let known = self.0.entry((name, nodes)).or_insert_with(|| {
            let spec = catalogue::find(name).ok()?;
            let overrides = Overrides {
                nodes: u32::try_from(nodes).ok(),
            };
            let topology = expand(&spec, catalogue::hardware(), &overrides).ok()?;
            let gpus = topology.nodes.iter().take(nodes);
            let gpus: Vec<_> = gpus
                .flat_map(|n| n.gpus.iter().take(per_node).copied())
                .collect();
            exchange_links((&topology, Router::new(&topology, 0)), &gpus)
        });
        *known
    }
}
