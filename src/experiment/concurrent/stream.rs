//! A stream of bytes as transfers.

use super::valid::{Stream, ValidConcurrent, ValidPart};
use crate::error::ScenarioError;
use crate::refusal::{fault, refusal};
use crate::serving::over;
use fabricsim_plan::job::{
    Actor, Job, Script, StreamId, StreamRole, Tag, Task, TransferRoute, TransferRouteId, Work,
};
use fabricsim_topology::{DeviceId, LinkId, Route, RouteError, Router};
use fabricsim_units::Time;
use rustc_hash::FxHashSet;

/// Each GPU of the first half sends to that of the second half in its place, one transfer after the other.
///
/// # Errors
/// GPUs that no links join.
pub(super) fn stream(
    valid: &ValidConcurrent,
    (part, stream): (&ValidPart, &Stream),
    (mut router, gone): (Router<'_>, &[LinkId]),
) -> Result<Job, ScenarioError> {
    let gone: FxHashSet<LinkId> = gone.iter().copied().collect();
    let half = part.gpus.len() / 2;
    let mut job = Job {
        streams: vec![StreamRole::Compute, StreamRole::Transfer],
        names: vec!["stream".to_owned()],
        ..Job::default()
    };
    for rank in 0..half {
        let ends = (part.gpus[rank], part.gpus[half + rank]);
        let route = way(valid, &mut router, ends, &gone).map_err(|error| {
            let expected = "GPUs that NVLink, PCIe or a network joins";
            refusal(
                &valid.topology.name,
                vec![fault(&part.name, error.to_string(), expected)],
            )
        })?;
        job.transfer_routes.push(TransferRoute {
            route,
            rate: stream.rate,
            message: Time::ZERO,
        });
        let task = Task {
            stream: StreamId(1),
            after: Default::default(),
            work: Work::Transfer {
                route: TransferRouteId(rank as u32),
                bytes: stream.bytes,
                messages: 1,
            },
            tag: Tag::default(),
        };
        job.scripts.push(Script {
            tasks: vec![task; stream.repeat as usize],
        });
        job.actors.push(Actor {
            rank: rank as u32,
            alike: 1,
            script: Some(rank as u32),
            sms: 1,
            launch: Time::ZERO,
            run_ahead: false,
            groups: Vec::new(),
        });
    }
    Ok(job)
}

/// From GPU to GPU: peer to peer, else through the nearest interfaces whose cables are there.
fn way(
    valid: &ValidConcurrent,
    router: &mut Router<'_>,
    (from, to): (DeviceId, DeviceId),
    gone: &FxHashSet<LinkId>,
) -> Result<Route, RouteError> {
    let direct = router.peer(from, to);
    if direct.is_ok() {
        return direct;
    }
    let topology = &valid.topology;
    let joined = |nic: &DeviceId| {
        let mut cables = topology
            .links_out_of(*nic)
            .filter(|&(link, _)| topology.family(link) == fabricsim_topology::LinkFamily::Network);
        cables.any(|(link, _)| !gone.contains(&link))
    };
    let nearest = |router: &Router<'_>, gpu: DeviceId| {
        let ranked = router.ranked_nics(gpu).into_iter();
        let mut nics = ranked.map(|(.., nic)| nic);
        nics.find(joined)
    };
    match nearest(router, from).zip(nearest(router, to)) {
        Some(nics) => over(router, (from, to), nics),
        None => direct,
    }
}
