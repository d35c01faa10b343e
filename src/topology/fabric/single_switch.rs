//! One switch that everything is plugged into.

use super::{Plan, Port};

/// Plans the fabric; the switch has as many ports as it needs.
pub(super) fn plan(ports: &[Port]) -> Plan {
    let mut plan = Plan::default();
    let switch = plan.add_switches("switch", 0, 1);
    for &port in ports {
        plan.add_port(port, switch);
    }
    plan
}
