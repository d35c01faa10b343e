//! Dividing a transfer over all shortest paths, exactly; or choosing one of them.

use super::{Hop, Route, Share};
use crate::graph::{DeviceId, LinkId, Topology};
use fabricsim_units::Time;

/// All shortest paths between two devices, by distance from the source.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// The devices at each distance: first the source alone, last the destination alone.
    pub(super) devices: Vec<Vec<DeviceId>>,
    /// The links from each distance to the next, grouped by the device they leave.
    pub(super) edges: Vec<Vec<Edge>>,
}

/// A link between neighbouring levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    /// Position of its source in its level.
    pub(super) from: u32,
    /// The link.
    pub(super) link: LinkId,
    /// Position of its target in the next level.
    pub(super) to: u32,
}

/// How a transfer is divided where several links lead on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// In proportion to what the links, and those after them, can carry.
    Capacity,
    /// Evenly.
    Even,
}

impl Levels {
    /// Over all paths at once. Shares are exact; where they do not fit (links of odd rates,
    /// level upon level) every device divides evenly instead, and where even that does not
    /// fit, one path takes all.
    pub(super) fn spread(&self, topology: &Topology) -> Route {
        if self.edges.iter().all(|edges| edges.len() == 1) {
            return self.single(topology, |_, _| 0);
        }
        let hops = self
            .shares(topology, Split::Capacity)
            .or_else(|| self.shares(topology, Split::Even));
        match hops {
            Some(hops) => Route {
                hops,
                latency: self.latency(topology),
                ..Route::default()
            },
            None => self.single(topology, |_, _| 0),
        }
    }

    /// Along one path. At each device `pick` gets the device and the number of lanes that
    /// lead on, and names one of them.
    pub(super) fn single(
        &self,
        topology: &Topology,
        mut pick: impl FnMut(DeviceId, u64) -> u64,
    ) -> Route {
        let mut hops = Vec::with_capacity(self.edges.len());
        let mut latency = Time::ZERO;
        let mut at: u32 = 0;
        for (level, edges) in self.edges.iter().enumerate() {
            let start = edges.partition_point(|edge| edge.from < at);
            let end = edges.partition_point(|edge| edge.from <= at);
            let onward = &edges[start..end];
            let lanes = |edge: &Edge| u64::from(topology.link(edge.link).lanes);
            let device = self.devices[level][at as usize];
            let total = onward.iter().map(lanes).sum();
            let mut lane = if onward.len() > 1 {
                pick(device, total)
            } else {
                0
            };
            let mut chosen = None;
            for edge in onward {
                chosen = Some(edge);
                if lane < lanes(edge) {
                    break;
                }
                lane -= lanes(edge);
            }
            let Some(edge) = chosen else { break };
            if level > 0 {
                latency += topology.transit_latency(device);
            }
            latency += topology.latency(edge.link);
            hops.push(Hop {
                link: edge.link,
                share: Share::WHOLE,
            });
            at = edge.to;
        }
        Route {
            hops,
            latency,
            ..Route::default()
        }
    }

    /// What each device can pass on, level by level from the destination. A device that
    /// everything crosses has no say in how the transfer divides before it.
    fn capacities(&self, weight: impl Fn(LinkId) -> u64) -> Vec<Vec<u64>> {
        let mut all: Vec<Vec<u64>> = self
            .devices
            .iter()
            .map(|devices| vec![0; devices.len()])
            .collect();
        for level in (0..self.devices.len()).rev() {
            if let ([here, next, ..], Some(edges)) = (&mut all[level..], self.edges.get(level)) {
                for edge in edges {
                    let weight = weight(edge.link).min(next[edge.to as usize]);
                    let sum = &mut here[edge.from as usize];
                    *sum = sum.saturating_add(weight);
                }
            }
            if let [only] = &mut all[level][..] {
                *only = u64::MAX;
            }
        }
        all
    }

    fn shares(&self, topology: &Topology, split: Split) -> Option<Vec<Hop>> {
        let rates = topology.rates();
        // A link's say in a division: its usable rate.
        let weight = |link| rates(link).bytes_per_sec();
        let capacities = match split {
            Split::Capacity => self.capacities(weight),
            Split::Even => Vec::new(),
        };
        let mut weights: Vec<u64> = Vec::new();
        // Parts of the same devices' links are mostly the same, too.
        let mut last: Option<(Fraction, u64, u64, Fraction, Share)> = None;
        let mut hops = Vec::with_capacity(self.edges.iter().map(Vec::len).sum());
        let mut here = vec![Fraction { num: 1, den: 1 }];
        for (level, edges) in self.edges.iter().enumerate() {
            let mut next = vec![Fraction { num: 0, den: 1 }; self.devices[level + 1].len()];
            for onward in edges.chunk_by(|a, b| a.from == b.from) {
                let whole = here[onward[0].from as usize].reduced();
                weights.clear();
                weights.extend(onward.iter().map(|edge| match split {
                    Split::Capacity => {
                        weight(edge.link).min(capacities[level + 1][edge.to as usize])
                    }
                    Split::Even => 1,
                }));
                // Weights are rates of some 10^10 bytes per second; their common divisor
                // is a lane, which keeps the fractions small.
                let common = |unit, &weight: &u64| {
                    if unit == weight {
                        unit
                    } else {
                        gcd(unit, weight)
                    }
                };
                let unit = weights.iter().fold(0, common).max(1);
                let total: u64 = weights
                    .iter()
                    .try_fold(0_u64, |sum, w| sum.checked_add(w / unit))?;
                for (edge, &weight) in onward.iter().zip(&weights) {
                    let weight = weight / unit;
                    let (part, share) = match last {
                        Some((w, n, t, part, share)) if (w, n, t) == (whole, weight, total) => {
                            (part, share)
                        }
                        _ => {
                            let part = whole.times(weight, total)?;
                            let share = if part.num > 0 {
                                part.share()?
                            } else {
                                Share::WHOLE
                            };
                            last = Some((whole, weight, total, part, share));
                            (part, share)
                        }
                    };
                    let sum = &mut next[edge.to as usize];
                    *sum = sum.plus(part)?;
                    if part.num > 0 {
                        hops.push(Hop {
                            link: edge.link,
                            share,
                        });
                    }
                }
            }
            here = next;
        }
        Some(hops)
    }

    /// Of the slowest path.
    fn latency(&self, topology: &Topology) -> Time {
        let mut here = vec![Time::ZERO];
        for (level, edges) in self.edges.iter().enumerate() {
            let mut next = vec![Time::ZERO; self.devices[level + 1].len()];
            for edge in edges {
                let mut time = here[edge.from as usize] + topology.latency(edge.link);
                if level > 0 {
                    time += topology.transit_latency(self.devices[level][edge.from as usize]);
                }
                let slowest = &mut next[edge.to as usize];
                *slowest = time.max(*slowest);
            }
            here = next;
        }
        here.into_iter().max().unwrap_or_default()
    }
}

/// A fraction that may be 0 and need not be in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction {
    num: u64,
    den: u64,
}

impl Fraction {
    fn reduced(self) -> Fraction {
        let divisor = gcd(self.num, self.den).max(1);
        Fraction {
            num: self.num / divisor,
            den: self.den / divisor,
        }
    }

    fn times(self, num: u64, den: u64) -> Option<Fraction> {
        let (a, b) = (gcd(self.num, den).max(1), gcd(num, self.den).max(1));
        Some(Fraction {
            num: (self.num / a).checked_mul(num / b)?,
            den: (self.den / b).checked_mul(den / a)?,
        })
    }

    fn plus(self, other: Fraction) -> Option<Fraction> {
        if self.num == 0 {
            return Some(other);
        }
        if self.den == other.den {
            return Some(Fraction {
                num: self.num.checked_add(other.num)?,
                den: self.den,
            });
        }
        let common = self.den / gcd(self.den, other.den).max(1);
        let den = common.checked_mul(other.den)?;
        let num = self
            .num
            .checked_mul(den / self.den)?
            .checked_add(other.num.checked_mul(den / other.den)?)?;
        Some(Fraction { num, den }.reduced())
    }

    fn share(self) -> Option<Share> {
        Share::reduced(self.num, self.den)
    }
}

/// Both together; `None` if in lowest terms that is too large.
pub(super) fn sum(a: Share, b: Share) -> Option<Share> {
    let [a, b] = [a, b].map(|share| Fraction {
        num: u64::from(share.num),
        den: u64::from(share.den),
    });
    a.plus(b)?.share()
}

/// The greatest common divisor; the other number if one is 0.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
