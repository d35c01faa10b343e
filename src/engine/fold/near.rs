//! Classes by what is near, where no two units of a machine are alike.
//!
//! In two trees over many hosts each host has a place of its own, and telling that takes as many
//! rounds as the trees are deep, each of which gives most nodes a new colour. Yet much inside a
//! host is alike: channels that do the same, GPUs behind the same switches. So units are told
//! apart from the start, and so are channels whose workers and connections are not the same all in
//! all. Each node then takes in what its neighbours look like, a few times over, and those that still
//! look the same are a class, if the proof says so.

use super::period::{Guess, proven, repeats_after};
use super::refine::{mix, partner};
use super::scene::Scene;
use fabricsim_collective::{ConnId, WorkerId};
use fabricsim_plan::Plan;
use fabricsim_topology::DeviceId;
use rustc_hash::FxHashMap;

/// So often neighbours are taken in before a guess is tried, and so often more before the next
/// ones: what is alike behind a switch is told soon, a chain of GPUs when its ends have met.
const SWEEPS: [u32; 3] = [4, 4, 8];

/// Classes have to be so many times fewer than nodes for the guess to be worth its proof.
const LEAST_SAVING: usize = 4;

/// Classes by what is near; `None` if most nodes of a unit differ.
pub(super) fn guess(scene: &Scene<'_>, kinds: &[u64]) -> Option<Guess> {
    let unit = ranks_of_unit(scene.plan)? as u32;
    let nodes = scene.nodes;
    let mut looks = kinds.to_vec();
    let of_ranks = (0..nodes.workers).chain(scene.traces.ranks.iter().copied());
    for (look, rank) in looks.iter_mut().zip(of_ranks) {
        *look = mix(*look ^ mix(u64::from(rank / unit)));
    }
    let of_channels = channels(scene, &looks);
    let at = nodes.workers as usize..nodes.routes as usize;
    for (look, channel) in looks[at].iter_mut().zip(channel_of(scene)) {
        *look = mix(*look ^ of_channels[usize::from(channel)]);
    }
    let mut sums = vec![0u64; looks.len()];
    for sweeps in SWEEPS {
        for _ in 0..sweeps {
            sums.fill(0);
            scene.each_edge(&mut |a, b, label| {
                let (here, there) = (looks[a as usize], looks[b as usize]);
                let sum = &mut sums[a as usize];
                *sum = sum.wrapping_add(met(label, there));
                let sum = &mut sums[b as usize];
                *sum = sum.wrapping_add(met(partner(label), here));
            });
            for (look, &sum) in looks.iter_mut().zip(&sums) {
                *look = mix(look.rotate_left(23) ^ sum);
            }
        }
        let (classes, count) = classes(&looks)?;
        if let Some(graph) = proven(scene, kinds, &classes, count) {
            return Some(Guess { classes, graph });
        }
    }
    None
}

/// What all workers and connections of a channel look like together: what differs at one end of a
/// chain of hosts is told at the other end, too, however long it is.
fn channels(scene: &Scene<'_>, looks: &[u64]) -> Vec<u64> {
    let mut sums = Vec::new();
    for (&look, channel) in looks[scene.nodes.workers as usize..]
        .iter()
        .zip(channel_of(scene))
    {
        let channel = usize::from(channel);
        if sums.len() <= channel {
            sums.resize(channel + 1, 0u64);
        }
        sums[channel] = sums[channel].wrapping_add(mix(look));
    }
    sums
}

/// The channels of all workers, and then of all connections.
fn channel_of<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = u16> + 's {
    let program = scene.plan.program.as_ref();
    let senders = (0..program.connections()).map(|c| program.connection(ConnId(c)).from);
    let workers = (0..program.workers()).map(WorkerId).chain(senders);
    workers.map(|worker| program.worker(worker).channel)
}

/// How many ranks a unit has: their GPUs lie next to each other, and from the last one it is
/// farther to the next unit. `None` if there is one unit only.
fn ranks_of_unit(plan: &Plan) -> Option<usize> {
    let distance = |pair: &[DeviceId]| u64::from(pair[1].0.wrapping_sub(pair[0].0));
    let distances: Vec<u64> = plan.gpus.windows(2).map(distance).collect();
    let (unit, ranks) = (repeats_after(&distances).max(1), plan.gpus.len());
    (ranks.is_multiple_of(unit) && ranks / unit > 1).then_some(unit)
}

/// A neighbour with a look, under a label.
fn met(label: u32, look: u64) -> u64 {
    mix(look ^ u64::from(label).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Numbers for looks, as they occur; `None` if they are too many, for they only get more.
fn classes(looks: &[u64]) -> Option<(Vec<u32>, u32)> {
    let most = looks.len() / LEAST_SAVING;
    let mut known: FxHashMap<u64, u32> = FxHashMap::default();
    let mut classes = Vec::with_capacity(looks.len());
    for &look in looks {
        let next = known.len() as u32;
        let class = *known.entry(look).or_insert(next);
        if class as usize > most {
            return None;
        }
        classes.push(class);
    }
    Some((classes, known.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::is_that_of_all;
    use crate::fold::traces::Traces;
    use crate::resources::Resources;
    use fabricsim_collective::{ConnId, Part, Program, Tree, TreeProgram, binary_parent};
    use fabricsim_plan::{
        Issue, Protocol, ProtocolKind, RoleCosts, RouteId, SliceCost, Transport, WorkerCosts,
    };
    use fabricsim_topology::{Hop, LinkId, Route, Share};
    use fabricsim_units::{Bandwidth, Bytes, Time};
    use std::sync::Arc;

    const LOCAL: u32 = 4;

    /// Chains of four ranks in hosts that a binary tree joins; each rank has a port out and one
    /// in, which all channels use. `gap` is how much larger the numbers of a host's GPUs are than
    /// those of the host before.
    fn tree(hosts: u32, gap: u32, channels: u16) -> Plan {
        let ranks = hosts * LOCAL;
        let parents: Vec<Option<u32>> = (0..ranks)
            .map(|rank| match rank % LOCAL {
                0 => binary_parent(hosts, rank / LOCAL, false).map(|host| host * LOCAL),
                _ => Some(rank - 1),
            })
            .collect();
        let len = 1 << 16;
        let parts = (0..u64::from(channels)).map(|channel| Part {
            offset: channel * len,
            len,
            chunk: 1 << 13,
        });
        let tree = Arc::new(Tree::new(&parents).unwrap());
        let trees = (0..channels).map(|_| tree.clone()).collect();
        let program = TreeProgram::new(len * u64::from(channels), trees, parts.collect());
        let rank_of = |worker| program.worker(worker).rank.0;
        let hop = |link| Hop {
            link: LinkId(link),
            share: Share::WHOLE,
        };
        let ends = (0..program.connections()).map(|c| program.connection(ConnId(c)));
        let routes = ends.map(|ends| Route {
            hops: vec![hop(rank_of(ends.from)), hop(ranks + rank_of(ends.to))],
            ..Route::default()
        });
        let routes = Arc::new(routes.collect());
        let transports = (0..program.connections()).map(|c| Transport {
            store: Some(RouteId(c)),
            load: None,
            network: None,
            latency: Time::from_micros(1),
            credit_latency: Time::from_micros(1),
        });
        let fast = Bandwidth::from_gb_per_sec(100);
        Plan {
            transports: transports.collect(),
            gpus: (0..ranks)
                .map(|rank| DeviceId(rank / LOCAL * gap + rank % LOCAL))
                .collect(),
            protocol: Protocol {
                kind: ProtocolKind::Simple,
                slices_per_chunk: 1,
                min_slice: Bytes::new(16),
                fifo_slices: 8,
                wire: (1, 1),
            },
            routes,
            merged: Arc::default(),
            costs: vec![RoleCosts::same(
                Time::ZERO,
                WorkerCosts {
                    slice: SliceCost::default(),
                    send_rate: fast,
                    local_rate: fast,
                    streams: 0,
                },
            )],
            rank_costs: vec![0; ranks as usize],
            issue: Issue::FREE,
            program: Arc::new(program),
        }
    }

    /// Looks at a plan of which nothing has room to spare.
    fn with_scene<T>(plan: &Plan, look: impl FnOnce(&Scene<'_>, &[u64]) -> T) -> T {
        let rate = |_| Bandwidth::from_gb_per_sec(10);
        let resources = Resources::new(&plan.routes, (1, 1), rate);
        let traces = Traces::new(plan.program.as_ref(), None).unwrap();
        let roomy = vec![false; resources.all.len()];
        let scene = Scene::new(plan, &resources, &roomy, &traces);
        let kinds = scene.kinds();
        look(&scene, &kinds)
    }

    #[test]
    fn channels_of_a_host_are_alike_where_hosts_are_not() {
        for (hosts, channels) in [(8, 8), (23, 16)] {
            with_scene(&tree(hosts, 100, channels), |scene, kinds| {
                let guess = guess(scene, kinds).unwrap();
                assert!(guess.saves(channels as usize / 2), "{hosts} hosts");
                let colours = guess.colours().unwrap();
                assert!(is_that_of_all(&colours, scene, kinds), "{hosts} hosts");
            });
        }
    }

    #[test]
    fn what_differs_far_away_is_told_by_channels() {
        // The last host, which is a leaf, is slower on every other channel: so all hosts above it
        // have two kinds of channels, up to the root and down again.
        const HOSTS: u32 = 600;
        let mut plan = tree(HOSTS, 100, 16);
        let sender = |c| plan.program.worker(plan.program.connection(ConnId(c)).from);
        let slow = |c| {
            let from = sender(c);
            from.rank.0 / LOCAL == HOSTS - 1 && from.channel % 2 == 1
        };
        let transports = (0..).zip(plan.transports.iter());
        plan.transports = transports
            .map(|(c, transport)| Transport {
                latency: transport.latency * if slow(c) { 2 } else { 1 },
                ..transport
            })
            .collect();
        with_scene(&plan, |scene, kinds| {
            let guess = guess(scene, kinds).unwrap();
            assert!(guess.saves(4));
            let colours = guess.colours().unwrap();
            assert!(is_that_of_all(&colours, scene, kinds));
        });
    }

    #[test]
    fn one_channel_saves_nothing() {
        with_scene(&tree(16, 100, 1), |scene, kinds| {
            assert!(guess(scene, kinds).is_none());
        });
    }
}
