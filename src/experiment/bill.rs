//! What a machine is made of, draws and costs, as a report's input.

use super::tariff::hourly_price;
use fabricsim_report::bill::{Bill, Line, Split, Sum};
use fabricsim_report::cards::Figure;
use fabricsim_topology::bill::{self, Load, Total};
use fabricsim_topology::{Sourced, Topology};
use fabricsim_units::{Money, Power};

/// The bill of a machine in a building that draws `pue` watts for each of the machine's.
#[must_use]
pub fn bill(topology: &Topology, pue: f64) -> Bill {
    let bill = topology.bill();
    let overhead = bill.server_overhead;
    Bill {
        topology: topology.name.clone(),
        title: topology.title.clone(),
        nodes: topology.nodes.len() as u64,
        gpus: topology.gpus().count() as u64,
        racks: bill.racks,
        lines: bill.lines.iter().map(line).collect(),
        server_overhead: overhead.map(|overhead| figure(overhead, |value| value)),
        pue,
        idle_kw: power(&bill, Load::IDLE, pue),
        busy_kw: power(&bill, Load::BUSY, pue),
        usd: price(&bill),
        usd_per_gpu_hour: hourly(topology),
    }
}

/// What it draws, kW.
pub(crate) fn power(bill: &bill::Bill<'_>, load: Load, pue: f64) -> Split {
    let kilowatts = |total| sum(total, |power: Power| power.kilowatts() * pue);
    Split {
        servers: kilowatts(bill.server_power(load)),
        network: kilowatts(bill.network_power(load)),
        all: kilowatts(bill.power(load)),
    }
}

/// What it costs, dollars.
pub(crate) fn price(bill: &bill::Bill<'_>) -> Split {
    Split {
        servers: sum(bill.price_of(true), Money::dollars),
        network: sum(bill.price_of(false), Money::dollars),
        all: sum(bill.price(), Money::dollars),
    }
}

fn sum<T: Copy>(total: Total<T>, number: impl Fn(T) -> f64) -> Sum {
    Sum {
        total: total.whole().map(&number),
        known: number(total.known),
        unknown: total.unknown,
    }
}

/// Dollars per GPU and hour by the models of its GPUs, with their sources.
pub(crate) fn hourly(topology: &Topology) -> Option<Figure> {
    let value = hourly_price(topology)?;
    let mut sources: Vec<&str> = Vec::new();
    for gpu in topology.gpus() {
        let price = topology.gpu_model(gpu)?.price_per_hour.as_ref()?;
        if !sources.contains(&price.source.as_str()) {
            sources.push(&price.source);
        }
    }
    Some(Figure {
        value,
        source: sources.join("; "),
    })
}

/// A sourced value as a number.
pub(crate) fn figure<T: Copy>(sourced: &Sourced<T>, number: impl Fn(T) -> f64) -> Figure {
    Figure {
        value: number(sourced.value),
        source: sourced.source.clone(),
    }
}

fn line(line: &bill::Line<'_>) -> Line {
    Line {
        part: line.part.label().to_owned(),
        model: line.model.to_owned(),
        title: line.title.to_owned(),
        count: line.count.round() as u64,
        idle_watts: known(&line.idle, Power::watts),
        busy_watts: known(&line.busy, Power::watts),
        usd: known(&line.price, Money::dollars),
    }
}

/// Nothing where another line holds it, `Some(None)` where it is unknown.
fn known<T: Copy>(
    found: &bill::Figure<'_, T>,
    number: impl Fn(T) -> f64,
) -> Option<Option<Figure>> {
    match found {
        bill::Figure::Known(sourced) => Some(Some(figure(sourced, number))),
        bill::Figure::Unknown => Some(None),
        bill::Figure::Held => None,
    }
}
