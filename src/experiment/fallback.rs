//! Slower ways that software takes without an error, and releases of NCCL that differ.

use super::refusal::fault;
use fabricsim_fault::{FallTo, Faults};
use fabricsim_nccl::{Env, Net, Version};
use fabricsim_topology::{DeviceId, Fault, NodeId, Topology};
use std::borrow::Cow;

/// NCCL's variables where software falls back as `faults` say.
pub(crate) fn fallen<'e>(env: &'e Env, faults: &Faults) -> Cow<'e, Env> {
    let mut env = Cow::Borrowed(env);
    for fall in faults.falls() {
        let env = env.to_mut();
        match fall.to {
            FallTo::Staged => env.staged.extend(fall.nodes),
            FallTo::Tcp => env.net = Net::Sockets,
            FallTo::Gloo => {
                // What Gloo does not do, NCCL over sockets stands for.
                env.net = Net::Sockets;
                env.gloo = true;
            }
        }
        env.staged.sort_unstable();
        env.staged.dedup();
    }
    env
}

/// What NCCL says to ranks of other releases than the rest.
pub(crate) fn mismatches(
    faults: &Faults,
    env: &Env,
    (topology, gpus): (&Topology, &[DeviceId]),
) -> Vec<Fault> {
    let code =
        |v: Version| u32::from(v.major) * 10_000 + u32::from(v.minor) * 100 + u32::from(v.patch);
    let rank_on = |inside: &dyn Fn(NodeId) -> bool| {
        gpus.iter()
            .position(|&gpu| topology.node_of(gpu).is_some_and(inside))
    };
    let of =
        |release: &fabricsim_fault::Release| {
            let Ok(other) = release.nccl.parse::<Version>() else {
                let expected = "a release of NCCL from 2.12 on, such as 2.27 or 2.29.7";
                return Some(fault(
                    &release.place,
                    format!("`{}`", release.nccl),
                    expected,
                ));
            };
            let there = rank_on(&|node| release.nodes.binary_search(&node).is_ok())?;
            let here = rank_on(&|node| release.nodes.binary_search(&node).is_err())?;
            (other != env.version).then(|| {
            let found = format!("NCCL {other} on rank {there}, {} on rank {here}", env.version);
            let expected = format!(
                "one release on all nodes: ncclCommInitRank ends with \"Mismatched NCCL version \
                 detected : rank {here} version {} rank {there} version {}\"",
                code(env.version),
                code(other)
            );
            fault(&release.place, found, expected)
        })
        };
    faults.other_releases().filter_map(of).collect()
}
