//! More bandwidth never slows a symmetric collective that is alone on the machine, with the plan held.

use super::all_cases;
use super::draw::Draw;
use fabricsim::collective::Collective;
use fabricsim::engine::{Options, simulate_folded};
use fabricsim::nccl::{Communicator, Env, Forced};
use fabricsim::topology::{LinkFamily, Overrides, load};

const MACHINES: [(&str, u64); 10] = [
    ("dgx-h100", 3),
    ("dgx-a100", 2),
    ("dgx-b200", 2),
    ("gb200-nvl72", 4),
    ("gh200-quad", 3),
    ("a100-quad-slingshot", 3),
    ("hgx-h100-roce", 3),
    ("x86-h100-pcie", 2),
    ("l40s-pcie", 2),
    ("dgx-1-v100", 2),
];

/// Every rank does the same in these.
const SYMMETRIC: [Collective; 5] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllToAll,
    Collective::SendRecv,
];

#[test]
fn more_bandwidth_never_slows_a_collective() {
    all_cases(120, |number| {
        let mut draw = Draw::new(number ^ 0xBA4D);
        let (name, most) = draw.of(&MACHINES);
        let nodes = 1 + draw.below(most) as u32;
        let topology = load(name, &Overrides { nodes: Some(nodes) }).unwrap();
        let mut communicator = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
        let collective = draw.of(&SYMMETRIC);
        let bytes = draw.scaled(1e3, 64e6) as u64;
        let Ok(planned) = communicator.plan(collective, bytes, Forced::default()) else {
            return Ok(false);
        };
        let families = [
            None,
            Some(LinkFamily::Nvlink),
            Some(LinkFamily::Pcie),
            Some(LinkFamily::Network),
        ];
        let options = || Options {
            operations: 1,
            ..Options::default()
        };
        let (family, factor) = (draw.of(&families), draw.scaled(1.05, 4.0));
        let time = |factor: f64| {
            let rate = |link| {
                let rate = topology.rate(link);
                match family {
                    Some(only) if topology.family(link) != only => rate,
                    _ => rate.scaled(factor),
                }
            };
            simulate_folded(&planned.plan, rate, options())
                .unwrap()
                .end()
        };
        let (before, after) = (time(1.0), time(factor));
        if after > before {
            return Err(format!(
                "{collective} of {bytes} bytes on {nodes} nodes of {name} by {} {:?}: {} us, with {factor} times the rate of {family:?} {} us",
                planned.algorithm,
                planned.protocol,
                before.micros(),
                after.micros()
            ));
        }
        Ok(true)
    });
}
