//! What a job's execution moved between GPUs, hosts and drives, for the report.

use super::valid::ValidTraining;
use crate::ScenarioError;
use fabricsim_engine::job::JobOutcome;
use fabricsim_plan::job::{Job, StreamRole, TaskKind, TransferRouteId, Work};
use fabricsim_report::training::{DataLoaderUse, HostMemory, HostMove, OffloadUse};
use fabricsim_units::{Bytes, Time};
use fabricsim_workload::training::host_memory::host_use;
use fabricsim_workload::training::lower::Lowered;

/// The streams of copies, in the order in which they are shown.
const COPIES: [StreamRole; 4] = [
    StreamRole::HostOut,
    StreamRole::HostIn,
    StreamRole::StorageOut,
    StreamRole::StorageIn,
];

/// What was offloaded, if anything was.
///
/// # Errors
/// What a checked job has not.
pub(super) fn offload_use(
    variant: &ValidTraining,
    lowered: &Lowered,
    outcome: &JobOutcome,
) -> Result<Option<OffloadUse>, ScenarioError> {
    let training = &variant.training;
    let machine = (&*variant.topology, variant.gpus.as_slice());
    let (Some(spec), Some(host)) = (training.outside(), host_use(training, machine)?) else {
        return Ok(None);
    };
    let job = &lowered.job;
    let mut most: Option<(u64, Vec<HostMove>, [Time; 2])> = None;
    for index in 0..job.actors.len() {
        let (moves, cpu) = of_actor(job, index, outcome);
        let bytes: u64 = moves.iter().map(|moved| moved.bytes.get()).sum();
        if most.as_ref().is_none_or(|(known, ..)| *known < bytes) {
            most = Some((bytes, moves, cpu));
        }
    }
    let (_, moves, [update, sums]) = most.unwrap_or_default();
    let stages = 0..training.dims.pp;
    let stages = stages.filter(|_| training.offload().is_some());
    let updated = stages.filter_map(|stage| training.updated(stage)).max();
    let gpus: f64 = job.actors.iter().map(|a| f64::from(a.alike)).sum();
    let exposed = outcome.last_step.iter().zip(&job.actors);
    let exposed = exposed.map(|(ledger, actor)| {
        (ledger.transfers + ledger.other).seconds() * f64::from(actor.alike)
    });
    let away = host.away;
    Ok(Some(OffloadUse {
        moves,
        updated: updated.unwrap_or(0),
        cpu_s: update.seconds(),
        sums_s: sums.seconds(),
        exposed_s: exposed.sum::<f64>() / gpus.max(1.0),
        delayed: spec.delayed_update,
        host: HostMemory {
            node: host.node,
            gpus: host.ranks,
            optimizer: Bytes::new(away.optimizer),
            gradients: Bytes::new(away.gradients),
            parameters: Bytes::new(away.parameters),
            activations: Bytes::new(away.activations),
            buffers: Bytes::new(away.buffers),
            total: Bytes::new(away.host()),
            capacity: host.memory.map(Bytes::get),
            drives: Bytes::new(away.drives),
            superchip: host.superchip.map(Bytes::get),
        },
    }))
}

/// What an actor copies in the last step, and how long its CPU updates and adds up.
fn of_actor(job: &Job, index: usize, outcome: &JobOutcome) -> (Vec<HostMove>, [Time; 2]) {
    let actor = &job.actors[index];
    let tasks = actor.script.map(|script| &job.scripts[script as usize]);
    let tasks = tasks.map_or(&[][..], |script| script.tasks.as_slice());
    let last = tasks.last().map_or(0, |task| task.tag.step);
    let own = || tasks.iter().filter(|task| task.tag.step == last);
    let role = |stream: fabricsim_plan::job::StreamId| job.streams[usize::from(stream.0)];
    // The optimizer comes after the backward pass, sums of gradients beside it.
    let cpu = |kind: fn(TaskKind) -> bool| -> Time {
        let cpu = own().filter(|task| role(task.stream) == StreamRole::HostCompute);
        let cpu = cpu.filter(|task| kind(task.tag.kind));
        let times = cpu.map(|task| match task.work {
            Work::Wait(time) => time,
            _ => Time::ZERO,
        });
        times.sum()
    };
    let update = cpu(|kind| kind == TaskKind::Optimiser);
    let sums = cpu(|kind| kind != TaskKind::Optimiser);
    let moves = COPIES.into_iter().filter_map(|way| {
        let copies = own().filter(|task| role(task.stream) == way);
        let copies = copies.filter_map(|task| match task.work {
            Work::Transfer { route, bytes, .. } => Some((route, bytes)),
            _ => None,
        });
        let copies: Vec<(TransferRouteId, Bytes)> = copies.collect();
        let &(route, _) = copies.first()?;
        let bytes: u64 = copies.iter().map(|(_, bytes)| bytes.get()).sum();
        // Of all steps, of which the last is as the others.
        let all = outcome.transfers.get(route.0 as usize)?;
        let part = bytes as f64 / (all.bytes.get() as f64).max(1.0);
        let time_s = all.time.seconds() * part;
        Some(HostMove {
            way: way.name().to_owned(),
            copies: copies.len() as u32,
            bytes: Bytes::new(bytes),
            time_s,
            alone_s: all.alone.seconds() * part,
            gbs: if time_s > 0.0 {
                bytes as f64 / time_s / 1e9
            } else {
                0.0
            },
        })
    });
    (moves.collect(), [update, sums])
}

/// What batches took, if they come from storage.
pub(super) fn loader_use(
    variant: &ValidTraining,
    lowered: &Lowered,
    outcome: &JobOutcome,
) -> Option<DataLoaderUse> {
    let training = &variant.training;
    training.spec.data_loader.as_ref()?;
    let job = &lowered.job;
    let is = |role: StreamRole| job.streams.iter().position(|&stream| stream == role);
    let (read, copy) = (is(StreamRole::Loader)?, is(StreamRole::LoaderIn)?);
    let bytes = training.batch_bytes();
    let (mut readers, mut read_s, mut stall_s, mut gbs) = (0, 0.0_f64, 0.0_f64, 0.0);
    for (actor, ledger) in job.actors.iter().zip(&outcome.last_step) {
        let tasks = actor
            .script
            .map(|script| &job.scripts[script as usize].tasks);
        let route = tasks
            .into_iter()
            .flatten()
            .find_map(|task| match task.work {
                Work::Transfer { route, .. } if usize::from(task.stream.0) == read => Some(route),
                _ => None,
            });
        let Some(of) = route.and_then(|route| outcome.transfers.get(route.0 as usize)) else {
            continue;
        };
        let each = of.time.seconds() / f64::from(of.count.max(1));
        readers += actor.alike;
        read_s = read_s.max(each);
        gbs += bytes as f64 / each.max(f64::MIN_POSITIVE) / 1e9 * f64::from(actor.alike);
        let mut waits = ledger.exposed[read] + ledger.exposed[copy];
        if training.offload().is_none() {
            // The CPU does nothing else than decode.
            waits += ledger.other;
        }
        stall_s = stall_s.max(waits.seconds());
    }
    (readers > 0).then(|| DataLoaderUse {
        readers,
        bytes: Bytes::new(bytes),
        read_s,
        decode_s: training.decoding().seconds(),
        stall_s,
        gbs,
    })
}
