//! The storage devices that a scenario means.

use crate::ScenarioError;
use crate::refusal::{fault, refusal, refuse};
use fabricsim_topology::{DeviceId, DeviceKind, Topology, select};

/// The devices that `text` names; without, all file servers, or all drives if there are none. `path` is the place in
/// the scenario, `expected` what it takes if the machine has no storage.
///
/// # Errors
/// Devices that are not there or no storage.
pub(crate) fn storage_devices(
    text: Option<&str>,
    topology: &Topology,
    (path, expected): (&str, &str),
    origin: &str,
) -> Result<Vec<DeviceId>, ScenarioError> {
    let is_storage = |id: &DeviceId| topology.device(*id).kind == DeviceKind::Storage;
    if let Some(text) = text {
        let path = format!("{path}.devices");
        let named = select::devices(topology, text, &path);
        let named = named.map_err(|fault| refusal(origin, vec![fault]))?;
        let other = named.iter().find(|id| !is_storage(id));
        let faults = other.map(|&id| {
            let kind = topology.device(id).kind.label();
            let found = format!("{}, a {kind}", topology.device_name(id));
            fault(&path, found, "storage devices")
        });
        refuse(origin, faults.into_iter().collect())?;
        return Ok(named);
    }
    let all = topology.devices().map(|(id, _)| id).filter(is_storage);
    let (drives, servers): (Vec<_>, Vec<_>) = all.partition(|&id| topology.node_of(id).is_some());
    if servers.is_empty() && drives.is_empty() {
        let found = format!("{}, which has no storage", topology.name);
        refuse(origin, vec![fault(path, found, expected)])?;
    }
    Ok(if servers.is_empty() { drives } else { servers })
}
