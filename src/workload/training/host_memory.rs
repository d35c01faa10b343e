//! Whether what is offloaded fits the memory of hosts, and their drives.

use super::lower::order;
use super::offload::{Away, OffloadDevice};
use super::resolve::{Training, TrainingError, TrainingFault};
use super::ways::Ways;
use crate::model::RankMap;
use fabricsim_topology::{DeviceId, DeviceModel, Topology};
use fabricsim_units::Bytes;

/// What the fullest host has of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostUse {
    /// The node.
    pub node: String,
    /// Its GPUs of the job.
    pub ranks: u32,
    /// Of all of them.
    pub away: Away,
    /// Its memory, if that is known.
    pub memory: Option<Bytes>,
    /// What its drives hold, if they are used.
    pub drives: Option<Bytes>,
    /// The memory of a processor and of the GPUs that its C2C joins to it, which is one.
    pub superchip: Option<Bytes>,
}

/// What the fullest host of a job has, if anything is offloaded.
///
/// # Errors
/// More than a host's memory or its drives hold, drives that the machine does not have.
pub fn host_use(
    training: &Training,
    (topology, gpus): (&Topology, &[DeviceId]),
) -> Result<Option<HostUse>, TrainingError> {
    let faulty = |fault| TrainingError::Faults(vec![fault]);
    let places = RankMap::new(&training.dims, &order(training)?)?;
    let ways = Ways::new(training, (topology, gpus), (0, &[]), &places).map_err(faulty)?;
    let (Some(ways), Some(offload)) = (ways, training.outside()) else {
        return Ok(None);
    };
    let mut fullest: Option<HostUse> = None;
    for (node, ranks) in ways.nodes() {
        let mut sum = Away::default();
        for &rank in ranks {
            let at = places.coordinates(rank).unwrap_or_default();
            sum.add(&training.away(at.pp, ways.staged(rank)));
        }
        if fullest
            .as_ref()
            .is_some_and(|f| (f.away.host(), f.away.drives) >= (sum.host(), sum.drives))
        {
            continue;
        }
        let memory = ways.hosts_of(node).iter().map(|&id| {
            let DeviceModel::Cpu(model) = topology.device_model(id) else {
                return None;
            };
            model.memory.as_ref().map(|memory| memory.value.get())
        });
        let memory: Option<u64> = memory.sum();
        let held = ways.drives_of(node).into_iter();
        let held = held.filter_map(|id| topology.storage_model(id));
        let held: u64 = held.map(|model| model.capacity.value.get()).sum();
        let name = node.and_then(|node| topology.nodes.get(node.0 as usize));
        fullest = Some(HostUse {
            node: name.map_or_else(String::new, |node| node.name.clone()),
            ranks: ranks.len() as u32,
            away: sum,
            memory: offload.host_memory.or(memory.map(Bytes::new)),
            drives: offload.uses_drives().then(|| Bytes::new(held)),
            superchip: ranks.first().and_then(|&rank| ways.superchip(rank)),
        });
    }
    if let Some(used) = &fullest {
        fits(used, training).map_err(faulty)?;
    }
    Ok(fullest)
}

/// What does not fit, and what would.
fn fits(used: &HostUse, training: &Training) -> Result<(), TrainingFault> {
    let Some(offload) = training.outside() else {
        return Ok(());
    };
    let gigabytes = |bytes: u64| format!("{:.0} GB", bytes as f64 / 1e9);
    let each = |bytes: u64| bytes / u64::from(used.ranks.max(1));
    if let Some(memory) = used.memory
        && used.away.host() > memory.get()
    {
        let mut ways = Vec::new();
        if used.away.activations > 0 {
            ways.push("fewer `activation_layers`, or `recompute`");
        }
        if offload.optimizer == OffloadDevice::Cpu {
            ways.push("`\"optimizer\": \"nvme\"` on a machine with drives");
        }
        if offload.parameters == OffloadDevice::Cpu {
            ways.push("`\"parameters\": \"none\"`");
        }
        if offload.optimizer.is_away() {
            ways.push("more nodes, over which `zero` or `fsdp` divides states");
        }
        ways.push("a smaller model");
        return Err(TrainingFault {
            path: "offload".into(),
            found: format!(
                "{} of {} in the memory of {} for {} GPUs, {} for each (buffers included)",
                gigabytes(used.away.host()),
                gigabytes(memory.get()),
                used.node,
                used.ranks,
                gigabytes(each(used.away.host()))
            ),
            expected: format!(
                "at most {} for each GPU: {}; `host_memory` says it if a host has more",
                gigabytes(each(memory.get())),
                ways.join(", or ")
            ),
        });
    }
    if let Some(drives) = used.drives
        && used.away.drives > drives.get()
    {
        return Err(TrainingFault {
            path: "offload.devices".into(),
            found: format!(
                "{} for drives of {}, which hold {}",
                gigabytes(used.away.drives),
                used.node,
                gigabytes(drives.get())
            ),
            expected: "more or larger drives, more nodes, or a smaller model".into(),
        });
    }
    Ok(())
}
