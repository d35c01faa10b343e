//! Communicators whose every part has been checked, ready to be made.

use super::groups::{Kind, kinds};
use super::spec::CommunicatorSpec;
use crate::collective::check_memory;
use crate::error::ScenarioError;
use crate::refusal::{fault, refusal, refuse};
use crate::site::{At, Site, environment};
use crate::spec::ScenarioSpec;
use fabricsim_nccl::Env;
use fabricsim_topology::{DeviceId, Topology};
use std::sync::Arc;

/// Checked communicators.
#[derive(Debug, Clone)]
pub struct ValidCommunicator {
    /// The machine.
    pub topology: Arc<Topology>,
    /// What is odd about it, and about NCCL's variables.
    pub warnings: Vec<String>,
    /// Of a machine from a file of another program: what was assumed, left out or read otherwise
    /// than it looks.
    pub notes: Vec<String>,
    /// The GPUs that take part, by rank.
    pub gpus: Vec<DeviceId>,
    /// NCCL's variables.
    pub env: Env,
    /// The seed.
    pub seed: u64,
    /// What is asked for.
    pub spec: CommunicatorSpec,
    pub(super) kinds: Vec<Kind>,
}

/// Checks communicators and builds their machine.
///
/// # Errors
/// Everything that is wrong with the values of their scenario, or with its topology.
pub(crate) fn communicator(
    spec: &ScenarioSpec,
    job: &CommunicatorSpec,
    at: At<'_>,
) -> Result<ValidCommunicator, ScenarioError> {
    let At { folder, origin, .. } = at;
    let place = "job.communicator";
    let mut faults = Vec::new();
    let mut env = environment(spec, None, (folder, origin), &mut faults)?;
    // Here these act.
    env.warnings_of_making.clear();
    if !spec.faults.0.is_empty() {
        let found = format!("{} faults", spec.faults.0.len());
        faults.push(fault(
            "faults",
            found,
            "none: communicators are made on a machine without faults",
        ));
    }
    let split_off_world = job.groups.first().is_none_or(|name| name == "world");
    if job.split && !split_off_world {
        let found = format!("`{}` first", job.groups[0]);
        faults.push(fault(
            &format!("{place}.groups"),
            found,
            "`world` first, which others are split off",
        ));
    }
    if job.roots.is_some_and(|roots| roots > 1) && env.version.before(23) {
        let found = format!("{} with NCCL {}", job.roots.unwrap_or(0), env.version);
        faults.push(fault(
            &format!("{place}.roots"),
            found,
            "1: several are since NCCL 2.23",
        ));
    }
    let counts = [
        ("roots", job.roots.map(u64::from)),
        ("ports", job.ports),
        ("open_files", job.open_files),
        ("sockets_per_connection", job.sockets_per_connection),
    ];
    for (name, _) in counts.into_iter().filter(|(_, count)| *count == Some(0)) {
        faults.push(fault(&format!("{place}.{name}"), "0".into(), "1 or more"));
    }
    refuse(origin, faults)?;
    let machine = at.machines.of(spec, folder, origin)?;
    let mut faults = Vec::new();
    if let Some(first) = &job.first {
        check_memory(
            &[first.size.get()],
            &machine.topology,
            &format!("{place}.first.size"),
            &mut faults,
        );
    }
    refuse(origin, faults)?;
    let Site {
        topology,
        notes,
        warnings,
        gpus,
        env,
        ..
    } = machine.with(spec, env, origin)?;
    let all = gpus.len() as u32;
    if job.roots.is_some_and(|roots| roots > all) {
        let found = job.roots.unwrap_or(0).to_string();
        let wrong = fault(
            &format!("{place}.roots"),
            found,
            format!("at most {all}, the ranks"),
        );
        return Err(refusal(origin, vec![wrong]));
    }
    let kinds = kinds(&job.groups, all).map_err(|(index, found, expected)| {
        refusal(
            origin,
            vec![fault(&format!("{place}.groups[{index}]"), found, expected)],
        )
    })?;
    Ok(ValidCommunicator {
        topology,
        warnings,
        notes,
        gpus,
        env,
        seed: spec.seed,
        spec: job.clone(),
        kinds,
    })
}
