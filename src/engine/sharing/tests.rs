use super::*;
use crate::resources::{Resource, Use};
use proptest::prelude::*;

/// Resources with these capacities, and paths with these (resource, weight).
fn resources(capacities: &[u64], paths: &[Vec<(u32, u32)>]) -> Resources {
    let mut r = Resources::default();
    r.all.extend(capacities.iter().map(|&capacity| Resource {
        changes: false,
        links: Default::default(),
        capacity,
    }));
    for path in paths {
        r.add_path(
            path.iter()
                .map(|&(resource, weight)| Use { resource, weight }),
        );
    }
    r
}

fn rates(r: &Resources, caps: &[u64]) -> Vec<u64> {
    let mut sharing = Sharing::new(r, caps.len());
    for (flow, &cap) in caps.iter().enumerate() {
        sharing.start(r, flow as u32, flow as u32, cap);
    }
    sharing.solve(&mut Vec::new());
    (0..caps.len()).map(|f| sharing.rate(f as u32).0).collect()
}

#[test]
fn three_flows_on_two_links() {
    // formulas.md L8: A on l1, B on l1 and l2, C on l2; l1 = 10, l2 = 4: B = C = 2, A = 8.
    let r = resources(
        &[10, 4],
        &[vec![(0, 1)], vec![(0, 1), (1, 1)], vec![(1, 1)]],
    );
    assert_eq!(rates(&r, &[u64::MAX; 3]), [8, 2, 2]);
}

#[test]
fn a_capped_flow_leaves_its_rest_to_others() {
    let r = resources(&[90], &[vec![(0, 1)], vec![(0, 1)], vec![(0, 1)]]);
    assert_eq!(rates(&r, &[10, 1000, 1000]), [10, 40, 40]);
}

#[test]
fn a_flow_of_weight_two_takes_double() {
    // Equal rates; the second loads the link twice: 30 = r + 2 r.
    let r = resources(&[30], &[vec![(0, 1)], vec![(0, 2)]]);
    assert_eq!(rates(&r, &[u64::MAX; 2]), [10, 10]);
}

/// Max–min by its definition, in floating point: repeatedly the smallest of all caps
/// and fair shares, over all resources and flows.
fn naive(capacities: &[u64], paths: &[Vec<(u32, u32)>], caps: &[u64]) -> Vec<f64> {
    let mut rate: Vec<Option<f64>> = vec![None; paths.len()];
    while rate.iter().any(Option::is_none) {
        let mut best = (f64::INFINITY, Vec::new());
        for (resource, &capacity) in capacities.iter().enumerate() {
            let (mut rest, mut weight, mut who) = (capacity as f64, 0.0, Vec::new());
            for (flow, path) in paths.iter().enumerate() {
                for &(res, w) in path {
                    if res as usize == resource {
                        match rate[flow] {
                            Some(r) => rest -= r * f64::from(w),
                            None => {
                                weight += f64::from(w);
                                who.push(flow);
                            }
                        }
                    }
                }
            }
            if weight > 0.0 && rest / weight < best.0 {
                best = (rest / weight, who);
            }
        }
        for (flow, &cap) in caps.iter().enumerate() {
            if rate[flow].is_none() && (cap as f64) < best.0 {
                best = (cap as f64, vec![flow]);
            }
        }
        for flow in best.1 {
            rate[flow] = Some(best.0);
        }
    }
    rate.into_iter().flatten().collect()
}

/// Capacities, the loads of paths, and caps.
type Instance = (Vec<u64>, Vec<Vec<(u32, u32)>>, Vec<u64>);

fn instance() -> impl Strategy<Value = Instance> {
    (1usize..70, 1usize..60).prop_flat_map(|(resources, flows)| {
        let path = prop::collection::btree_map(0..resources as u32, 1u32..4, 1..5)
            .prop_map(|m| m.into_iter().collect::<Vec<_>>());
        (
            prop::collection::vec(1_000_000_000u64..1_000_000_000_000, resources),
            prop::collection::vec(path, flows),
            prop::collection::vec(
                prop_oneof![Just(u64::MAX), 1_000_000_000u64..400_000_000_000],
                flows,
            ),
        )
    })
}

proptest! {
    #[test]
    fn equals_the_naive_solver((capacities, paths, caps) in instance()) {
        let r = resources(&capacities, &paths);
        let fast = rates(&r, &caps);
        for (flow, (fast, slow)) in fast.iter().zip(naive(&capacities, &paths, &caps)).enumerate() {
            let fast = *fast as f64;
            prop_assert!((fast - slow).abs() <= 1e-7 * slow, "flow {}: {} against {}", flow, fast, slow);
        }
    }

    /// After any starts and stops, in any order, the rates are those of a fresh solve.
    #[test]
    fn changes_equal_a_fresh_solve(
        (capacities, paths, caps) in instance(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..40),
    ) {
        let r = resources(&capacities, &paths);
        let mut sharing = Sharing::new(&r, caps.len());
        let mut active = vec![false; caps.len()];
        for (which, solve) in changes {
            let flow = which.index(caps.len());
            if active[flow] {
                sharing.stop(flow as u32);
            } else {
                sharing.start(&r, flow as u32, flow as u32, caps[flow]);
            }
            active[flow] = !active[flow];
            if solve {
                sharing.solve(&mut Vec::new());
            }
        }
        sharing.solve(&mut Vec::new());
        let mut fresh = Sharing::new(&r, caps.len());
        for flow in (0..caps.len()).rev().filter(|&f| active[f]) {
            fresh.start(&r, flow as u32, flow as u32, caps[flow]);
        }
        fresh.solve(&mut Vec::new());
        for flow in (0..caps.len()).filter(|&f| active[f]) {
            prop_assert_eq!(sharing.rate(flow as u32), fresh.rate(flow as u32));
        }
    }
}

/// Progressive filling in whole bytes, step by step over everything: rates and limits.
fn plain(r: &Resources, flows: &[(PathId, u64)]) -> Vec<(u64, Limit)> {
    let own: Vec<(u64, Limit)> = flows
        .iter()
        .map(|&(path, cap)| {
            let mut own = (cap, Limit::Cap);
            for u in r.path(path) {
                let alone = r.all[u.resource as usize].capacity / u64::from(u.weight);
                if alone < own.0 {
                    own = (alone, Limit::Resource(u.resource));
                }
            }
            own
        })
        .collect();
    let mut settled: Vec<Option<(u64, Limit)>> = vec![None; flows.len()];
    while settled.contains(&None) {
        let level = |resource: u32| {
            let (mut rest, mut rising) = (r.all[resource as usize].capacity, 0);
            for (&(path, _), rate) in flows.iter().zip(&settled) {
                let uses = r.path(path).iter().filter(|u| u.resource == resource);
                for weight in uses.map(|u| u64::from(u.weight)) {
                    match rate {
                        Some((rate, _)) => rest -= rate * weight,
                        None => rising += weight,
                    }
                }
            }
            rest.checked_div(rising).unwrap_or(u64::MAX)
        };
        let levels: Vec<u64> = (0..r.all.len() as u32).map(level).collect();
        let lowest = levels.iter().copied().min().unwrap_or(u64::MAX);
        let rising = (0..flows.len()).filter(|&f| settled[f].is_none());
        let least = rising.map(|f| own[f].0).min().unwrap_or(u64::MAX);
        for (f, &(path, _)) in flows.iter().enumerate() {
            if settled[f].is_some() {
                continue;
            }
            if least <= lowest {
                settled[f] = (own[f].0 == least).then_some(own[f]);
            } else {
                let full = r.path(path).iter().map(|u| u.resource);
                let first = full.filter(|&p| levels[p as usize] == lowest).min();
                settled[f] = first.map(|p| (lowest, Limit::Resource(p)));
            }
        }
    }
    settled.into_iter().flatten().collect()
}

proptest! {
    // What is taken in, and when, has many cases.
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Many transfers over few paths, with so little of everything that rounding matters: rates
    /// and limits are those of filling everything anew, and each change is told.
    #[test]
    fn groups_and_parts_equal_plain_filling(
        capacities in prop::collection::vec(prop_oneof![1u64..60, Just(20u64), 1_000u64..3_000], 1..9),
        paths in prop::collection::vec(prop::collection::btree_map(0u32..9, 1u32..3, 1..4), 1..7),
        caps in prop::collection::vec(prop_oneof![1u64..30, Just(5u64), Just(u64::MAX)], 1..4),
        changes in prop::collection::vec((0u32..24, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..60),
    ) {
        let paths: Vec<Vec<(u32, u32)>> = paths
            .into_iter()
            .map(|p| {
                let inside = p.into_iter().map(|(r, w)| (r % capacities.len() as u32, w));
                let once: std::collections::BTreeMap<u32, u32> = inside.collect();
                once.into_iter().collect()
            })
            .collect();
        let r = resources(&capacities, &paths);
        let mut sharing = Sharing::new(&r, 24);
        let mut flows: Vec<Option<(PathId, u64)>> = vec![None; 24];
        let mut told = [0u64; 24];
        let mut changed = Vec::new();
        for (flow, path, cap, solve) in changes {
            if flows[flow as usize].take().is_some() {
                sharing.stop(flow);
                told[flow as usize] = 0;
            } else {
                let (path, cap) = (path.index(paths.len()) as PathId, caps[cap.index(caps.len())]);
                sharing.start(&r, flow, path, cap);
                flows[flow as usize] = Some((path, cap));
            }
            if !solve {
                continue;
            }
            sharing.solve(&mut changed);
            for change in &changed {
                prop_assert_eq!(told[change.flow as usize], change.rate);
                told[change.flow as usize] = sharing.rate(change.flow).0;
            }
            let ids: Vec<u32> = (0..24).filter(|&f| flows[f as usize].is_some()).collect();
            let active: Vec<_> = flows.iter().flatten().copied().collect();
            for (&id, expected) in ids.iter().zip(plain(&r, &active)) {
                prop_assert_eq!(sharing.rate(id), expected);
                prop_assert_eq!(told[id as usize], expected.0);
            }
        }
    }
}
