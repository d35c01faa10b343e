//! One switch that everything is plugged into.

use super::{Parts, Plan, Port};

/// Plans the fabric; the switch has as many ports as it needs.
pub(super) fn plan(ports: &[Port], parts: Parts) -> Plan {
    let mut plan = Plan {
        leaf_ports: parts.radix,
        ..Plan::default()
    };
    let switch = plan.add_switches("switch", 0, 1);
    for &port in ports {
        plan.add_port(port, switch);
    }
    plan
}
