//! What NCCL would do on machines of the catalogue: every record is consistent.

use super::*;
use crate::nccl::{Communicator, Env, Forced};

#[test]
fn records_of_nccls_plans_are_consistent() {
    for (name, nodes, per_node, bytes) in [
        ("dgx-h100", 1, None, 8),
        ("dgx-h100", 1, None, 64 << 20),
        ("dgx-h100", 2, None, 4 << 20),
        ("dgx-a100", 2, Some(2), 1 << 20),
        ("gb200-nvl72", 2, None, 1 << 20),
        ("x86-h100-pcie", 2, None, 2 << 20),
    ] {
        let t = machine(name, nodes);
        let mut comm = Communicator::new(&t, per_node, &Env::default(), 1).unwrap();
        for collective in [Collective::AllReduce, Collective::AllGather] {
            let planned = comm.plan(collective, bytes, Forced::default()).unwrap();
            let (record, outcome) = record(&t, &planned.plan, 2);
            assert_consistent(&t, &planned.plan, &record, &outcome);
            assert!(record.bottleneck.ends_with(" %."), "{}", record.bottleneck);
            assert!(!short_bottleneck(&t, &planned.plan, &outcome).is_empty());
            let again = super::record(&t, &planned.plan, 2).0;
            assert_eq!(record, again);
        }
    }
}
