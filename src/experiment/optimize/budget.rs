//! What a budget pays.

use super::ask::{Ask, Limit, Size};
use super::ground::{Ground, Searched};
use crate::error::ScenarioError;
use crate::refusal::{fault, refusal};
use crate::site::Machines;
use crate::spec::{ScenarioSpec, TopologyRef};
use crate::tariff::Tariff;
use fabricsim_report::optimize::Over;
use fabricsim_topology::bill::Part;
use fabricsim_topology::{Bill, DeviceId, Fault, Topology, catalogue};
use fabricsim_units::Money;

/// Without a number of GPUs no more than these are tried.
pub(super) const MAX_GPUS: u32 = 1024;

/// What the GPUs of a search draw and cost.
pub(super) struct Running {
    /// All that is powered for them, at full load.
    pub(super) kw: Option<f64>,
    /// Parts of it whose watts are not known, by their places in the machine's file.
    unknown_watts: Vec<String>,
    pub(super) usd_per_hour: Option<f64>,
    /// To buy the switches, cables and transceivers that they use.
    pub(super) network_usd: Option<f64>,
}

impl Running {
    pub(super) fn of(
        spec: &ScenarioSpec,
        origin: &str,
        (topology, gpus): (&Topology, &[DeviceId]),
    ) -> Result<Self, ScenarioError> {
        let charge = Tariff::of(spec, origin)?.charge(topology, gpus);
        let network = charge.powered().price_of(false).whole();
        Ok(Running {
            kw: charge.powered_kw(),
            unknown_watts: unknown_watts(charge.powered()),
            usd_per_hour: charge.usd_per_hour(),
            network_usd: network.map(Money::dollars),
        })
    }
}

/// The limits that a machine is above.
///
/// # Errors
/// A limit on what is not known of it.
pub(super) fn over(
    running: &Running,
    limits: &[Limit],
    (topology, origin): (&Topology, &str),
) -> Result<Vec<Over>, ScenarioError> {
    let mut over = Vec::new();
    for limit in limits {
        let needs = match limit {
            Limit::UsdPerHour(_) => running.usd_per_hour,
            Limit::Kw(_) => running.kw,
        };
        let needs =
            needs.ok_or_else(|| refusal(origin, vec![running.unknown(*limit, topology)]))?;
        let (what, budget) = limit.named();
        if needs > budget {
            let what = what.to_owned();
            over.push(Over {
                what,
                needs,
                budget,
            });
        }
    }
    Ok(over)
}

impl Running {
    /// That what a limit is on is not known.
    fn unknown(&self, limit: Limit, topology: &Topology) -> Fault {
        let name = &topology.name;
        match limit {
            Limit::UsdPerHour(_) => fault(
                "--budget usd_per_hour",
                format!("no price of a GPU-hour of {name}"),
                "a price: --set dollars_per_gpu_hour=2.5",
            ),
            Limit::Kw(_) => {
                let (found, first) = match self.unknown_watts.split_first() {
                    None => (
                        "server_overhead".to_owned(),
                        "hardware.server_overhead.value=0.1".to_owned(),
                    ),
                    Some((first, rest)) => {
                        let more = match rest.len() {
                            0 => String::new(),
                            n => format!(" and {n} more"),
                        };
                        let value = r#"{"value": "20W", "source": "mine"}"#;
                        (format!("{first}{more}"), format!("'{first}={value}'"))
                    }
                };
                fault(
                    "--budget kw",
                    format!("unknown watts of {name}: {found}"),
                    format!(
                        "a machine that says them: fabricsim topology new {name} --set {first} -o mine.json"
                    ),
                )
            }
        }
    }
}

fn unknown_watts(bill: &Bill<'_>) -> Vec<String> {
    let parts = bill.lines.iter().filter(|line| line.busy.is_unknown());
    parts.map(|line| place(line.part, line.model)).collect()
}

/// Where the file of a machine says what a part draws.
fn place(part: Part, model: &str) -> String {
    match part {
        Part::Whole => format!("components.{model}"),
        Part::Cable(_) => format!("hardware.links.{model}.cable"),
        Part::Transceiver => format!("hardware.links.{model}.cable.transceiver.power.busy"),
        Part::Device(_) => {
            let device = catalogue::hardware().devices.get(model);
            let device = device.and_then(|device| serde_json::to_value(device).ok());
            let kind = device.as_ref().and_then(|device| {
                let mut fields = device.as_object()?.iter();
                fields.find(|(_, value)| value.is_object())
            });
            let kind = kind.map_or("…", |(kind, _)| kind.as_str());
            format!("hardware.devices.{model}.{kind}.power.busy")
        }
    }
}

/// The numbers of nodes of a machine that are tried where the budget says how many there are: the most
/// that it pays, fewer until a layout divides them, and powers of two below.
///
/// # Errors
/// A machine that is none, a limit on what is not known of it.
pub(super) fn sizes(
    searched: Searched<'_>,
    (machine, ratio): (&TopologyRef, Option<f64>),
    ask: Ask<'_>,
    machines: &Machines,
) -> Result<Vec<Size>, ScenarioError> {
    let of = |nodes: u32| {
        let place = (machine, Size::Nodes(nodes), ratio);
        Ground::new(searched, place, ask, machines)
    };
    let one = of(1)?;
    let each = one.gpus().max(1);
    if one.cluster(ask)?.why.is_some() {
        return Ok(vec![Size::Nodes(1)]);
    }
    // What draws or costs too much does so with more nodes, too; a machine that has no more nodes
    // says so.
    let (mut pays, mut too_many) = (1, MAX_GPUS / each + 1);
    while too_many - pays > 1 {
        let middle = u32::midpoint(pays, too_many);
        match of(middle) {
            Ok(ground) if ground.cluster(ask)?.why.is_none() => pays = middle,
            _ => too_many = middle,
        }
    }
    let mut sizes = Vec::new();
    let mut nodes = pays;
    loop {
        sizes.push(Size::Nodes(nodes));
        if nodes == 1 || of(nodes)?.divides() {
            break;
        }
        nodes -= 1;
    }
    let powers = (0..u32::BITS).rev().map(|bit| 1 << bit);
    sizes.extend(powers.filter(|&power| power < nodes).map(Size::Nodes));
    Ok(sizes)
}
