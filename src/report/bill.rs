//! What a machine is made of, draws and costs: its parts, one line a kind, and the sums.

use super::ReportError;
use super::cards::Figure;
use super::numbers::three_digits;
use super::numeric::FORMAT;
use super::summary_json::pretty;
use super::table::{HEADER, STRONG};
use super::text_table::{Cell, Column, Out, WARNING, cell, left, right, styled};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Equal parts. A figure is absent where that of another line holds it, and `null` where it is not
/// known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Line {
    /// What they are.
    pub part: String,
    /// The name of their model; of what is sold as a whole that of its instances.
    pub model: String,
    /// What people call them.
    pub title: String,
    /// How many there are.
    pub count: u64,
    /// What one draws without work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_watts: Option<Option<Figure>>,
    /// What one draws at full load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_watts: Option<Option<Figure>>,
    /// What one costs, dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<Option<Figure>>,
}

/// A sum over parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sum {
    /// Of all parts; `null` if one of them is not known.
    pub total: Option<f64>,
    /// Of those parts that are known.
    pub known: f64,
    /// How many parts are not known.
    pub unknown: u64,
}

impl Sum {
    /// The number as people read it, and what is missing from it.
    pub(crate) fn text(&self, number: impl Fn(f64) -> String, missing: &str) -> String {
        match self.unknown {
            0 => number(self.known),
            n => format!("{} and {} without {missing}", number(self.known), parts(n)),
        }
    }
}

/// A sum over servers, over the network that joins them, and over both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// Nodes, and what stands in their racks.
    pub servers: Sum,
    /// Switches, cables and transceivers.
    pub network: Sum,
    /// Both.
    pub all: Sum,
}

/// All parts of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bill {
    /// The topology's name.
    pub topology: String,
    /// The topology in one line.
    pub title: String,
    /// Nodes.
    pub nodes: u64,
    /// GPUs.
    pub gpus: u64,
    /// Racks; `null` if the topology does not tell of any.
    pub racks: Option<u64>,
    /// The parts.
    pub lines: Vec<Line>,
    /// What fans and power supplies of servers take, as a part of what all else in them draws.
    pub server_overhead: Option<Figure>,
    /// What the building draws for each watt of the machine.
    pub pue: f64,
    /// What all draws without work, kW: parts, fans and power supplies, times `pue`.
    pub idle_kw: Split,
    /// The same at full load.
    pub busy_kw: Split,
    /// What all parts cost, dollars.
    pub usd: Split,
    /// Dollars per GPU and hour.
    pub usd_per_gpu_hour: Option<Figure>,
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    #[serde(flatten)]
    bill: &'a Bill,
}

/// The bill as a document.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn bill_json(bill: &Bill) -> Result<String, ReportError> {
    pretty(&Document {
        format: FORMAT,
        bill,
    })
}

const UNKNOWN: &str = "unknown";

/// Dollars as people read them.
pub(crate) fn dollars(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("${} M", three_digits(v / 1e6)),
        v if v >= 1e4 => format!("${:.0} k", v / 1e3),
        v => format!("${}", three_digits(v)),
    }
}

/// The bill as a table, the sums, and the sources of the figures.
#[must_use]
pub fn bill_text(bill: &Bill, colour: bool) -> String {
    let mut out = Out::new(colour);
    out.line(&format!("{}: {}", bill.topology, bill.title), STRONG);
    out.table(&columns(), &rows(bill));
    out.heading("Sums");
    out.table(
        &[left(""), left("servers"), left("network"), left("all")],
        &sums(bill),
    );
    let of_servers = match &bill.server_overhead {
        None => "what fans and power supplies of servers take is unknown".to_owned(),
        Some(part) => format!(
            "with {} % of what parts of servers draw for fans and power supplies",
            three_digits(part.value * 100.0)
        ),
    };
    let of_building = match bill.pue {
        1.0 => "without the building (PUE 1)".to_owned(),
        pue => format!("with the building (PUE {pue})"),
    };
    out.line(&format!("  power: {of_servers}, {of_building}"), HEADER);
    let (watts, prices) = (bill.busy_kw.all.unknown, bill.usd.all.unknown);
    for (count, what) in [(watts, "known watts"), (prices, "a known price")] {
        if count > 0 {
            out.line(&format!("  {} without {what}", parts(count)), WARNING);
        }
    }
    out.heading("Sources");
    for source in sources(bill) {
        out.line(&format!("  {source}"), HEADER);
    }
    out.text
}

fn columns() -> Vec<Column> {
    vec![
        right("count"),
        left("part"),
        left("model"),
        right("idle W"),
        right("busy W"),
        right("$ each"),
    ]
}

/// What all draws and costs.
fn sums(bill: &Bill) -> Vec<Vec<Cell>> {
    let kw = |value: f64| format!("{} kW", three_digits(value));
    let split = |what: &str, split: &Split, number: &dyn Fn(f64) -> String| {
        let text = |sum: &Sum| match sum.unknown {
            0 => number(sum.known),
            n => format!("{} and {}", number(sum.known), parts(n)),
        };
        let Split {
            servers,
            network,
            all,
        } = split;
        vec![
            cell(what),
            cell(text(servers)),
            cell(text(network)),
            styled(text(all), STRONG),
        ]
    };
    let one = |what: &str, text: Option<String>| {
        let text = text.unwrap_or_else(|| UNKNOWN.to_owned());
        vec![cell(what), cell(""), cell(""), styled(text, STRONG)]
    };
    let hour = bill.usd_per_gpu_hour.as_ref();
    vec![
        one("GPUs", Some(bill.gpus.to_string())),
        one("nodes", Some(bill.nodes.to_string())),
        one("racks", bill.racks.map(|racks| racks.to_string())),
        split("power without work", &bill.idle_kw, &kw),
        split("power at full load", &bill.busy_kw, &kw),
        split("price", &bill.usd, &dollars),
        one("a GPU for an hour", hour.map(|hour| dollars(hour.value))),
    ]
}

fn parts(count: u64) -> String {
    match count {
        1 => "1 part".to_owned(),
        count => format!("{count} parts"),
    }
}

fn rows(bill: &Bill) -> Vec<Vec<Cell>> {
    let figure = |figure: &Option<Option<Figure>>| match figure {
        None => cell("·"),
        Some(None) => styled(UNKNOWN, HEADER),
        Some(Some(figure)) => cell(three_digits(figure.value)),
    };
    let price = |figure: &Option<Option<Figure>>| match figure {
        None => cell("·"),
        Some(None) => styled(UNKNOWN, HEADER),
        Some(Some(figure)) => cell(dollars(figure.value)),
    };
    let row = |line: &Line| {
        vec![
            cell(line.count.to_string()),
            cell(line.part.clone()),
            cell(match line.title.as_str() {
                "" => line.model.clone(),
                title => title.to_owned(),
            }),
            figure(&line.idle_watts),
            figure(&line.busy_watts),
            price(&line.usd),
        ]
    };
    bill.lines.iter().map(row).collect()
}

fn sources(bill: &Bill) -> Vec<String> {
    let mut all = Vec::new();
    for line in &bill.lines {
        let source = |figure: &'_ Option<Option<Figure>>| {
            let figure = figure.iter().flatten().next();
            figure.map(|figure| figure.source.clone())
        };
        let (idle, busy) = (source(&line.idle_watts), source(&line.busy_watts));
        let figures = match idle == busy {
            true => vec![("watts", busy)],
            false => vec![("idle", idle), ("busy", busy)],
        };
        let price = [("price", source(&line.usd))];
        for (what, source) in figures.into_iter().chain(price) {
            if let Some(source) = source {
                all.push(format!("{} ({}), {what}: {source}", line.model, line.part));
            }
        }
    }
    if let Some(overhead) = &bill.server_overhead {
        all.push(format!("fans and power supplies: {}", overhead.source));
    }
    if let Some(hour) = &bill.usd_per_gpu_hour {
        all.push(format!("a GPU for an hour: {}", hour.source));
    }
    all
}
