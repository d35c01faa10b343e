//! Machines beside each other: what their cards and networks are made of.

use super::ReportError;
use super::bill::{Split, Sum, dollars};
use super::lines::Line;
use super::numbers::three_digits;
use super::numeric::FORMAT;
use super::summary_json::pretty;
use super::table::{HEADER, STRONG};
use super::text_table::{Out, cell, left, styled};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure with where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// In the unit that its name ends in.
    pub value: f64,
    /// Data sheet, manual or measurement.
    pub source: String,
}

/// What a machine is made of. `null` is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// The topology's name.
    pub topology: String,
    /// The topology in one line.
    pub title: String,
    /// Nodes.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u32,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// What the GPU is called.
    pub gpu: String,
    /// Memory of a GPU, GiB.
    pub memory_gib: Option<Figure>,
    /// Its memory's rate, GB/s.
    pub memory_gbs: Option<Figure>,
    /// Dense 16-bit operations per second, 1e12.
    pub bf16_tflops: Option<Figure>,
    /// Dense 8-bit operations per second, 1e12.
    pub fp8_tflops: Option<Figure>,
    /// Dense 4-bit operations per second, 1e12.
    pub fp4_tflops: Option<Figure>,
    /// Out of a GPU over NVLink, what payload can use, GB/s; absent without NVLink.
    pub nvlink_gbs_per_gpu: Option<f64>,
    /// Out of a node over its fabric NICs, what payload can use, GB/s a GPU.
    pub network_gbs_per_gpu: Option<f64>,
    /// GPUs that reach each other over NVLink.
    pub nvlink_domain_gpus: Option<u32>,
    /// Most that a GPU draws, watts.
    pub gpu_watts: Option<Figure>,
    /// What it draws without work, watts.
    pub gpu_idle_watts: Option<Figure>,
    /// What the whole machine draws at full load, kW.
    pub busy_kw: Split,
    /// The same without work.
    pub idle_kw: Split,
    /// What the whole machine costs, dollars.
    pub usd: Split,
    /// Dollars per GPU and hour.
    pub usd_per_gpu_hour: Option<Figure>,
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    machines: &'a [Card],
}

/// The cards as one document.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn cards_json(cards: &[Card]) -> Result<String, ReportError> {
    pretty(&Document {
        format: FORMAT,
        machines: cards,
    })
}

const UNKNOWN: &str = "unknown";

/// The cards as a table, a column each, and the sources of their figures.
#[must_use]
pub fn cards_text(cards: &[Card], colour: bool) -> String {
    let mut out = Out::new(colour);
    let lines = lines(cards);
    let mut rows = vec![vec![cell("")]];
    rows[0].extend(
        cards
            .iter()
            .map(|card| styled(card.topology.clone(), STRONG)),
    );
    for line in &lines {
        let mut row = vec![cell(line.what.clone())];
        let text = |cell: &Option<String>| cell.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        row.extend(line.cells.iter().map(|found| match found {
            Some(_) => cell(text(found)),
            None => styled(text(found), HEADER),
        }));
        rows.push(row);
    }
    let mut columns = vec![left("")];
    columns.extend(cards.iter().map(|_| left("")));
    out.table(&columns, &rows);
    out.heading("Sources");
    for card in cards {
        for (name, figure) in figures(card) {
            if let Some(figure) = figure {
                let text = format!("  {} {name}: {}", card.topology, figure.source);
                out.line(&text, HEADER);
            }
        }
    }
    out.text
}

fn figures(card: &Card) -> [(&'static str, &Option<Figure>); 8] {
    [
        ("memory", &card.memory_gib),
        ("memory rate", &card.memory_gbs),
        ("BF16", &card.bf16_tflops),
        ("FP8", &card.fp8_tflops),
        ("FP4", &card.fp4_tflops),
        ("power", &card.gpu_watts),
        ("power without work", &card.gpu_idle_watts),
        ("price of an hour", &card.usd_per_gpu_hour),
    ]
}

fn lines(cards: &[Card]) -> Vec<Line> {
    let line = |what: &str, text: &dyn Fn(&Card) -> Option<String>| Line {
        what: what.to_owned(),
        cells: cards.iter().map(text).collect(),
        best: Vec::new(),
        part: None,
        headline: false,
    };
    let figure = |figure: &Option<Figure>, unit: &str| {
        let value = figure.as_ref().map(|figure| figure.value)?;
        Some(format!("{} {unit}", three_digits(value)))
    };
    let kw = |value: f64| format!("{} kW", three_digits(value));
    let sum = |sum: &Sum, number: &dyn Fn(f64) -> String, missing: &str| {
        (sum.known > 0.0).then(|| sum.text(number, missing))
    };
    let rate = |rate: Option<f64>| rate.map(|rate| format!("{} GB/s", three_digits(rate)));
    vec![
        line("GPU", &|c| Some(c.gpu.clone())),
        line("GPUs", &|c| {
            Some(format!("{}, {} a node", c.gpus, c.gpus_per_node))
        }),
        line("memory of a GPU", &|c| figure(&c.memory_gib, "GiB")),
        line("its rate", &|c| figure(&c.memory_gbs, "GB/s")),
        line("BF16, dense", &|c| figure(&c.bf16_tflops, "TFLOP/s")),
        line("FP8, dense", &|c| figure(&c.fp8_tflops, "TFLOP/s")),
        line("FP4, dense", &|c| figure(&c.fp4_tflops, "TFLOP/s")),
        line("NVLink of a GPU, one way", &|c| {
            rate(c.nvlink_gbs_per_gpu).or_else(|| Some("none".to_owned()))
        }),
        line("GPUs joined by NVLink", &|c| {
            let domain = c.nvlink_domain_gpus.map(|gpus| gpus.to_string());
            domain.or_else(|| Some("none".to_owned()))
        }),
        line("network of a GPU, one way", &|c| {
            rate(c.network_gbs_per_gpu).or_else(|| Some("none".to_owned()))
        }),
        line("power of a GPU", &|c| figure(&c.gpu_watts, "W")),
        line("without work", &|c| figure(&c.gpu_idle_watts, "W")),
        line("power of servers", &|c| {
            sum(&c.busy_kw.servers, &kw, "watts")
        }),
        line("without work", &|c| sum(&c.idle_kw.servers, &kw, "watts")),
        line("power of the network", &|c| {
            sum(&c.busy_kw.network, &kw, "watts")
        }),
        line("without work", &|c| sum(&c.idle_kw.network, &kw, "watts")),
        line("price of servers", &|c| {
            sum(&c.usd.servers, &dollars, "a price")
        }),
        line("price of the network", &|c| {
            sum(&c.usd.network, &dollars, "a price")
        }),
        line("$ per GPU and hour", &|c| {
            let hour = c.usd_per_gpu_hour.as_ref();
            hour.map(|hour| three_digits(hour.value))
        }),
    ]
}
