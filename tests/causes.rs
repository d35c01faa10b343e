//! What rows say limits them: the parts add up to their time in picoseconds, and folding or jumping over
//! what repeats itself makes no difference to them but for which of several equally long paths it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::collective::Collective;
use fabricsim::engine::path::{CriticalPath, Kind, Times};
use fabricsim::engine::{Options, simulate_folded_with, simulate_with};
use fabricsim::nccl::{Algorithm, Communicator, Env, Forced};
use fabricsim::plan::ProtocolKind as Protocol;
use fabricsim::topology::{Overrides, load};
use fabricsim::units::Time;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Parts by kind; links all together, for a path over one of several that are full at once is as good
/// as over another.
fn kinds(times: &Times) -> BTreeMap<Option<Kind>, Time> {
    let mut kinds = BTreeMap::new();
    for (&kind, &time) in times {
        let key = match kind {
            Kind::Limited(_) => None,
            other => Some(other),
        };
        *kinds.entry(key).or_insert(Time::ZERO) += time;
    }
    kinds
}

/// The critical paths of the last of three operations: in full, and folded.
fn paths(
    (machine, nodes, per_node): (&str, u32, u32),
    collective: Collective,
    bytes: u64,
    forced: Forced,
) -> Option<(Time, Times, Option<Times>, u64)> {
    let overrides = Overrides { nodes: Some(nodes) };
    let topology = load(machine, &overrides).unwrap();
    let env = Env::default();
    let mut ranks = Communicator::new(&topology, Some(per_node), &env, 1).ok()?;
    let planned = ranks.plan(collective, bytes, forced).ok()?;
    let options = || Options {
        operations: 3,
        ..Options::default()
    };
    let rate = |link| topology.rate(link);
    let mut path = CriticalPath::default();
    let full = simulate_with(&planned.plan, rate, options(), &mut path).unwrap();
    let time = full.end() - full.finish_of(1);
    let of_full = path.walk(&full, time)?;
    let mut path = CriticalPath::default();
    let folded = simulate_folded_with(&planned.plan, rate, options(), &mut path).unwrap();
    assert_eq!(folded.end() - folded.finish_of(1), time);
    Some((time, of_full, path.walk(&folded, time), folded.skipped))
}

fn sum(times: &Times) -> Time {
    times.values().copied().sum()
}

#[test]
fn paths_of_folded_runs_that_skip_are_those_of_full_ones() {
    let mut skipped = 0;
    for (machine, collective, bytes, algorithm, protocol) in [
        (
            ("dgx-h100", 1, 8),
            Collective::AllReduce,
            64 << 20,
            Algorithm::Ring,
            Protocol::Simple,
        ),
        (
            ("dgx-h100", 1, 8),
            Collective::AllReduce,
            64 << 10,
            Algorithm::Ring,
            Protocol::Ll,
        ),
        (
            ("dgx-h100", 2, 8),
            Collective::AllReduce,
            8 << 20,
            Algorithm::Ring,
            Protocol::Ll128,
        ),
        (
            ("dgx-h100", 2, 8),
            Collective::AllReduce,
            4 << 20,
            Algorithm::Tree,
            Protocol::Simple,
        ),
        (
            ("dgx-h100", 1, 8),
            Collective::AllReduce,
            64 << 20,
            Algorithm::Nvls,
            Protocol::Simple,
        ),
        (
            ("dgx-a100", 2, 8),
            Collective::AllGather,
            32 << 20,
            Algorithm::Ring,
            Protocol::Simple,
        ),
    ] {
        let forced = Forced {
            algorithm: Some(algorithm),
            protocol: Some(protocol),
        };
        let (time, full, folded, jumped) = paths(machine, collective, bytes, forced).unwrap();
        let folded = folded.unwrap();
        skipped += jumped;
        assert_eq!(
            (sum(&full), sum(&folded)),
            (time, time),
            "{machine:?} {bytes}"
        );
        let (full, folded) = (kinds(&full), kinds(&folded));
        for kind in full.keys().chain(folded.keys()) {
            let of = |kinds: &BTreeMap<_, Time>| kinds.get(kind).map_or(0.0, |t| t.micros());
            let apart = (of(&full) - of(&folded)).abs();
            assert!(
                apart <= 0.05 * time.micros(),
                "{machine:?} {algorithm:?} {protocol:?} {bytes}: {kind:?} {full:?} {folded:?}"
            );
        }
    }
    assert!(skipped > 1_000, "{skipped}");
}

fn cases() -> impl Strategy<Value = ((&'static str, u32, u32), Collective, u64)> {
    let machines = prop::sample::select(vec![
        ("dgx-h100", 1, 8),
        ("dgx-h100", 2, 4),
        ("dgx-a100", 2, 8),
        ("gb200-nvl72", 3, 4),
        ("x86-h100-pcie", 2, 2),
    ]);
    let collectives = prop::sample::select(vec![
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::AllToAll,
    ]);
    (machines, collectives, 4u32..24).prop_map(|(m, c, power)| (m, c, 1u64 << power))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn parts_add_up_to_the_last_operation((machine, collective, bytes) in cases()) {
        if let Some((time, full, folded, _)) = paths(machine, collective, bytes, Forced::default()) {
            prop_assert_eq!(sum(&full), time);
            if let Some(folded) = folded {
                prop_assert_eq!(sum(&folded), time);
            }
        }
    }
}
