//! What a machine is made of, part by part, with what the parts draw and cost.
//!
//! Counted from the graph. What no file says is unknown and stays so: a sum says of how many parts it
//! does not know. What a job is charged of it is a bill, too, with parts of one (`charge.rs`).

use super::charge::Weights;
use super::graph::{DeviceKind, Place, Topology};
use super::hardware::{DeviceModel, LinkFamily, PcieRole, Sourced};
use super::power::{Medium, PowerModel};
use fabricsim_units::{Money, Power};
use std::collections::BTreeMap;

/// A kind of part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A component that is sold as a whole: a server, a rack.
    Whole,
    /// A device.
    Device(DeviceKind),
    /// A cable of the network, of a kind that its model may not say.
    Cable(Option<Medium>),
    /// One end of an optical cable.
    Transceiver,
}

impl Part {
    /// The name used in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Part::Whole => "as a whole",
            Part::Device(kind) => kind.label(),
            Part::Cable(Some(medium)) => medium.label(),
            Part::Cable(None) => "cable",
            Part::Transceiver => "transceiver",
        }
    }
}

/// A figure of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure<'t, T> {
    /// Its value and source.
    Known(&'t Sourced<T>),
    /// It has none of its own: that of another line holds it.
    Held,
    /// No file says it.
    Unknown,
}

impl<'t, T> Figure<'t, T> {
    fn of(found: Option<&'t Sourced<T>>) -> Self {
        found.map_or(Figure::Unknown, Figure::Known)
    }

    /// The figure with its source, if it is known.
    #[must_use]
    pub const fn known(&self) -> Option<&'t Sourced<T>> {
        match self {
            Figure::Known(sourced) => Some(sourced),
            Figure::Held | Figure::Unknown => None,
        }
    }

    /// Whether no file says it.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Figure::Unknown)
    }
}

/// Equal parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Line<'t> {
    /// What they are.
    pub part: Part,
    /// The name of their model; of what is sold as a whole that of its instances.
    pub model: &'t str,
    /// What people call them.
    pub title: &'t str,
    /// How many there are; of what a job shares with others a part of one.
    pub count: f64,
    /// Whether a server's fans cool them and its power supplies feed them.
    pub in_server: bool,
    /// What one draws without work.
    pub idle: Figure<'t, Power>,
    /// What one draws at full load.
    pub busy: Figure<'t, Power>,
    /// What one costs.
    pub price: Figure<'t, Money>,
}

/// All parts of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill<'t> {
    /// The parts, by kind and model.
    pub lines: Vec<Line<'t>>,
    /// What fans and power supplies of servers take, as a part of what all else in them draws.
    pub server_overhead: Option<&'t Sourced<f64>>,
    /// Racks, where the machine is described by racks.
    pub racks: Option<u64>,
}

/// A sum, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Total<T> {
    /// Of those parts whose figures are known.
    pub known: T,
    /// How many parts it leaves out.
    pub unknown: u64,
}

impl<T: Copy> Total<T> {
    /// The sum, if it is of all parts.
    #[must_use]
    pub fn whole(&self) -> Option<T> {
        (self.unknown == 0).then_some(self.known)
    }
}

/// How much of the time parts work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// An average GPU, 0 to 1.
    pub gpus: f64,
    /// All else, 0 to 1.
    pub rest: f64,
}

impl Load {
    /// Nothing works.
    pub const IDLE: Load = Load {
        gpus: 0.0,
        rest: 0.0,
    };
    /// All works all the time.
    pub const BUSY: Load = Load {
        gpus: 1.0,
        rest: 1.0,
    };
}

impl Line<'_> {
    /// What one draws on average, working so much of the time; `None` if that is not known.
    fn power(&self, share: f64) -> Option<Power> {
        let of = |figure: &Figure<'_, Power>| match figure {
            Figure::Known(sourced) => Some(sourced.value),
            Figure::Held => Some(Power::ZERO),
            Figure::Unknown => None,
        };
        if share <= 0.0 {
            return of(&self.idle);
        }
        if share >= 1.0 {
            return of(&self.busy);
        }
        let (idle, busy) = (of(&self.idle)?, of(&self.busy)?);
        Some(idle.scaled(1.0 - share).saturating_add(busy.scaled(share)))
    }
}

impl<T> Total<T> {
    fn with(self, other: Total<T>, add: impl Fn(T, T) -> T) -> Total<T> {
        Total {
            known: add(self.known, other.known),
            unknown: self.unknown + other.unknown,
        }
    }
}

impl Bill<'_> {
    /// What the machine draws.
    #[must_use]
    pub fn power(&self, load: Load) -> Total<Power> {
        let network = self.network_power(load);
        self.server_power(load).with(network, Power::saturating_add)
    }

    /// What servers draw: their parts, and what fans and power supplies add.
    #[must_use]
    pub fn server_power(&self, load: Load) -> Total<Power> {
        let parts = self.power_of(true, load);
        let overhead = self.server_overhead.map(|overhead| overhead.value);
        let unfed = overhead.is_none() && parts.known > Power::ZERO;
        Total {
            known: parts.known.scaled(1.0 + overhead.unwrap_or_default()),
            unknown: parts.unknown + u64::from(unfed),
        }
    }

    /// What switches of the network draw, fans and power supplies included, and transceivers.
    #[must_use]
    pub fn network_power(&self, load: Load) -> Total<Power> {
        self.power_of(false, load)
    }

    fn power_of(&self, in_server: bool, load: Load) -> Total<Power> {
        let mut total = Total::default();
        for line in self.lines.iter().filter(|l| l.in_server == in_server) {
            let share = match line.part {
                Part::Device(DeviceKind::Gpu) => load.gpus,
                _ => load.rest,
            };
            let lines = match line.power(share) {
                Some(one) => Total {
                    known: one.scaled(line.count),
                    unknown: 0,
                },
                None => Total {
                    known: Power::ZERO,
                    unknown: at_most(line.count),
                },
            };
            total = total.with(lines, Power::saturating_add);
        }
        total
    }

    /// How many GPUs it has.
    #[must_use]
    pub fn gpus(&self) -> f64 {
        let gpus = self.lines.iter();
        let gpus = gpus.filter(|line| line.part == Part::Device(DeviceKind::Gpu));
        gpus.map(|line| line.count).sum()
    }

    /// What all parts cost.
    #[must_use]
    pub fn price(&self) -> Total<Money> {
        self.price_of(true)
            .with(self.price_of(false), Money::saturating_add)
    }

    /// What servers cost, or the network.
    #[must_use]
    pub fn price_of(&self, in_server: bool) -> Total<Money> {
        let mut total = Total::default();
        for line in self.lines.iter().filter(|l| l.in_server == in_server) {
            match line.price {
                Figure::Known(one) => {
                    let all: Money = one.value.scaled(line.count);
                    total.known = all.saturating_add(total.known);
                }
                Figure::Held => {}
                Figure::Unknown => total.unknown += at_most(line.count),
            }
        }
        total
    }
}

/// How many parts a number of parts is, those of one counted as one.
fn at_most(count: f64) -> u64 {
    count.ceil() as u64
}

impl Topology {
    /// Its parts, with what they draw and cost.
    #[must_use]
    pub fn bill(&self) -> Bill<'_> {
        self.bill_by(None)
    }

    /// As much of them as the weights say; all without.
    pub(super) fn bill_by(&self, weights: Option<&Weights>) -> Bill<'_> {
        let sold = self.sold();
        let mut lines = self.wholes(&sold, weights);
        lines.extend(self.parts(&sold, weights));
        lines.extend(self.cables(weights));
        lines.retain(|line| line.count > 0.0);
        let racks = self.places.iter().filter(|place| is_rack(place)).count() as u64;
        Bill {
            lines,
            server_overhead: self.server_overhead.as_ref(),
            racks: (racks > 0).then_some(racks),
        }
    }

    /// Components that are sold as a whole; those within others are held by them.
    fn wholes(&self, sold: &[Sold], weights: Option<&Weights>) -> Vec<Line<'_>> {
        let mut counts: BTreeMap<(&str, u16), f64> = BTreeMap::new();
        for (index, (place, &sold)) in self.places.iter().zip(sold).enumerate() {
            if let (Some(price), Sold::Itself) = (place.price, sold) {
                let part = weights.map_or(1.0, |weights| weights.place(index));
                *counts.entry((stem(place), price)).or_default() += part;
            }
        }
        let line = |((name, price), count)| Line {
            part: Part::Whole,
            model: name,
            title: "",
            count,
            in_server: true,
            idle: Figure::Held,
            busy: Figure::Held,
            price: Figure::Known(&self.prices[usize::from(price)]),
        };
        counts.into_iter().map(line).collect()
    }

    /// The devices, but for what is only a part of another one.
    fn parts(&self, sold: &[Sold], weights: Option<&Weights>) -> Vec<Line<'_>> {
        let mut counts: BTreeMap<(DeviceKind, u16, bool, bool), f64> = BTreeMap::new();
        for (id, device) in self.devices() {
            let model = &self.device_models[usize::from(device.model)].1;
            if matches!(model, DeviceModel::PcieSwitch(m) if m.role != PcieRole::Switch) {
                continue;
            }
            let place = device.place as usize;
            let in_server = self.places[place].fabric.is_none();
            let held = sold[place] != Sold::InParts;
            let key = (device.kind, device.model, in_server, held);
            let part = weights.map_or(1.0, |weights| weights.device(id));
            *counts.entry(key).or_default() += part;
        }
        let line = |((kind, model, in_server, held), count)| {
            let (name, model) = &self.device_models[usize::from(model)];
            let (idle, busy) = watts(model.power());
            Line {
                part: Part::Device(kind),
                model: name,
                title: model.title(),
                count,
                in_server,
                idle,
                busy,
                price: match held {
                    true => Figure::Held,
                    false => Figure::of(model.price()),
                },
            }
        };
        counts.into_iter().map(line).collect()
    }

    /// The cables of networks, and the transceivers at their ends.
    fn cables(&self, weights: Option<&Weights>) -> Vec<Line<'_>> {
        let mut counts: BTreeMap<u16, f64> = BTreeMap::new();
        // Both directions of a cable follow each other.
        for (id, link) in self.links().step_by(2) {
            if self.family(id) == LinkFamily::Network {
                let part = weights.map_or(1.0, |weights| weights.cable(self.ends(id)));
                *counts.entry(link.model).or_default() += f64::from(link.lanes) * part;
            }
        }
        let mut lines = Vec::new();
        for (model, count) in counts {
            let (name, model) = &self.link_models[usize::from(model)];
            let cable = model.cable.as_ref();
            let ends = cable.and_then(|cable| cable.transceiver.as_ref());
            let medium = cable.map(|cable| cable.medium.value);
            // Whether a cable of an unknown kind has transceivers, and what they draw, is unknown too.
            let own = match (medium, ends) {
                (Some(Medium::Copper), _) | (Some(Medium::Optical), Some(_)) => Figure::Held,
                (Some(Medium::Optical), None) | (None, _) => Figure::Unknown,
            };
            let price = Figure::of(cable.and_then(|cable| cable.price.as_ref()));
            lines.push(Line {
                part: Part::Cable(medium),
                model: name,
                title: "",
                count,
                in_server: false,
                idle: own,
                busy: own,
                price,
            });
            if let Some(end) = ends.filter(|_| medium == Some(Medium::Optical)) {
                let (idle, busy) = watts(end.power.as_ref());
                lines.push(Line {
                    part: Part::Transceiver,
                    model: name,
                    title: &end.title,
                    count: 2.0 * count,
                    in_server: false,
                    idle,
                    busy,
                    price: match (&end.price, price) {
                        (None, Figure::Known(_)) => Figure::Held,
                        (own, _) => Figure::of(own.as_ref()),
                    },
                });
            }
        }
        lines
    }

    /// By place: how what is in it is sold.
    fn sold(&self) -> Vec<Sold> {
        let mut known: BTreeMap<&str, Sold> = BTreeMap::new();
        let mut all = Vec::with_capacity(self.places.len());
        for place in &self.places {
            // An outer place always comes before those within it.
            let outer = place.name.rsplit_once('/').map(|(outer, _)| outer);
            let sold = match outer.and_then(|outer| known.get(outer)) {
                Some(Sold::Itself | Sold::Within) => Sold::Within,
                _ if place.price.is_some() => Sold::Itself,
                _ => Sold::InParts,
            };
            known.insert(&place.name, sold);
            all.push(sold);
        }
        all
    }
}

/// How what is in a place is sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sold {
    /// Part by part.
    InParts,
    /// The place as a whole.
    Itself,
    /// With a place around it.
    Within,
}

fn watts(model: Option<&PowerModel>) -> (Figure<'_, Power>, Figure<'_, Power>) {
    let idle = model.and_then(|model| model.idle.as_ref());
    let busy = model.and_then(|model| model.busy.as_ref());
    (Figure::of(idle), Figure::of(busy))
}

/// Whether a place is called a rack: `rack0`, `pod1/rack3`.
fn is_rack(place: &Place) -> bool {
    place.fabric.is_none() && stem(place) == "rack"
}

/// The last part of a place's name, without its number.
fn stem(place: &Place) -> &str {
    let last = place.name.rsplit('/').next().unwrap_or_default();
    last.trim_end_matches(|c: char| c.is_ascii_digit())
}
