//! Checkpoints on the machine's storage: who writes what over which links, and how long that takes.
//!
//! All that write begin at once and share links by max–min fairness, as transfers of jobs do
//! ([`fabricsim_engine::job`]). Each file is on one device, the next one's on the next device; with fewer
//! files than devices each file is in as many pieces as reach all of them. Without GPUDirect Storage a piece goes
//! to host memory and then on, as a thread does that reads a file and copies it. Left out: what training
//! communicates beside a checkpoint that is written in the background, degraded links, file systems.

use super::memory::memory_plan;
use crate::ScenarioError;
use crate::refusal::{fault, refusal};
use crate::storage::storage_devices;
use fabricsim_engine::job::{JobError, JobOptions, Unseen, run_job};
use fabricsim_fault::goodput::{StorageSpec, StorageTimes};
use fabricsim_plan::job::{
    Actor, Job, Script, StreamId, StreamRole, Tag, Task, TransferRoute, TransferRouteId,
    Undisturbed, Work,
};
use fabricsim_report::training::{CheckpointUse, StorageLimit, StorageMove};
use fabricsim_topology::{
    DeviceId, DeviceKind, LinkFamily, LinkId, Route, RouteError, Router, Topology,
};
use fabricsim_units::{Bytes, Span, Time};
use fabricsim_workload::training::checkpoint::saved_states;
use fabricsim_workload::training::resolve::Training;
use std::collections::BTreeMap;

/// Where in a scenario it is said.
const PATH: &str = "long_run.checkpoint.cost.storage";

/// A checkpoint as transfers over the machine.
#[derive(Debug)]
pub(super) struct Checkpoint {
    bytes: Bytes,
    devices: u32,
    /// To the hosts' memory, if training goes on after that.
    copy: Option<Vec<Piece>>,
    write: Vec<Piece>,
    read: Vec<Piece>,
}

/// Bytes of a rank on their way.
#[derive(Debug)]
struct Piece {
    rank: u32,
    bytes: Bytes,
    /// One after the other: through a buffer in host memory there are two.
    legs: Vec<Route>,
}

/// A file is in so many pieces at most: a GPU has as many streams.
const MAX_PIECES: usize = 64;

impl Checkpoint {
    /// The checkpoint of a job on the storage that the scenario says.
    ///
    /// # Errors
    /// There is no such storage, or no links lead there.
    pub(super) fn new(
        spec: &StorageSpec,
        training: &Training,
        (topology, gpus): (&Topology, &[DeviceId]),
        origin: &str,
    ) -> Result<Checkpoint, ScenarioError> {
        let expected = "a topology with storage devices, or a cost that is `blocking` or `write`";
        let named = spec.devices.as_deref();
        let devices = storage_devices(named, topology, (PATH, expected), origin)?;
        let states = saved_states(training, &memory_plan(training))?;
        let written: Vec<Bytes> = states.iter().map(|state| state.written).collect();
        let read: Vec<Bytes> = states.iter().map(|state| state.read).collect();
        let mut router = Router::new(topology, 0);
        let direct = spec.gds.unwrap_or(true);
        let mut routes = |background: bool| -> Result<_, RouteError> {
            let write = pieces((topology, gpus), &devices, &written, |gpu, device, flow| {
                let from_host = background || !direct;
                let out = router.to_storage((gpu, device), from_host, flow)?;
                // What is written in the background is in the host already.
                Ok(match from_host && !background {
                    true => vec![to_host(&router, gpu)?, out],
                    false => vec![out],
                })
            })?;
            let read = pieces((topology, gpus), &devices, &read, |gpu, device, flow| {
                let into = router.from_storage((device, gpu), !direct, flow)?;
                if direct {
                    return Ok(vec![into]);
                }
                let host = router.cpu_of(gpu).unwrap_or(gpu);
                Ok(vec![into, router.local(host, gpu)?])
            })?;
            let copy = background.then(|| copies(&router, gpus, &written));
            Ok((write, read, copy.transpose()?))
        };
        let (write, read, copy) = routes(spec.asynchronous).map_err(|error| {
            let expected = "storage that links lead to from all GPUs";
            refusal(origin, vec![fault(PATH, error.to_string(), expected)])
        })?;
        Ok(Checkpoint {
            bytes: Bytes::new(written.iter().map(|bytes| bytes.get()).sum()),
            devices: devices.len() as u32,
            copy,
            write,
            read,
        })
    }

    /// How long it takes, by simulation.
    ///
    /// # Errors
    /// It takes longer than the clock goes.
    pub(super) fn times(&self, topology: &Topology) -> Result<StorageUse, JobError> {
        let moved = |pieces: &[Piece]| moved(pieces, topology);
        Ok(StorageUse {
            bytes: self.bytes,
            writers: writers(&self.write),
            devices: self.devices,
            copy: self.copy.as_deref().map(moved).transpose()?,
            write: moved(&self.write)?,
            read: moved(&self.read)?,
        })
    }
}

/// What a checkpoint takes.
#[derive(Debug, Clone)]
pub(super) struct StorageUse {
    bytes: Bytes,
    writers: u32,
    devices: u32,
    copy: Option<Moved>,
    write: Moved,
    read: Moved,
}

/// What moving all pieces takes, and the link that is busy longest.
#[derive(Debug, Clone)]
struct Moved {
    time: Time,
    limit: StorageLimit,
    link: String,
}

impl StorageUse {
    pub(super) fn times(&self) -> StorageTimes {
        let time = |moved: &Moved| Span::from(moved.time);
        StorageTimes {
            copy: self.copy.as_ref().map_or(Span::ZERO, time),
            write: time(&self.write),
            read: time(&self.read),
        }
    }

    /// For a report; training stands still for `blocked`.
    pub(super) fn told(&self, blocked: Span) -> CheckpointUse {
        let told = |moved: &Moved| StorageMove {
            time_s: moved.time.seconds(),
            limit: moved.limit,
            link: moved.link.clone(),
        };
        CheckpointUse {
            bytes: self.bytes,
            writers: self.writers,
            devices: self.devices,
            blocked_s: blocked.seconds(),
            copy: self.copy.as_ref().map(told),
            write: told(&self.write),
            read: told(&self.read),
        }
    }
}

/// Each rank's bytes on their ways: to the devices of its node, if there are any, else to all, in turns.
fn pieces(
    (topology, gpus): (&Topology, &[DeviceId]),
    devices: &[DeviceId],
    bytes: &[Bytes],
    mut legs: impl FnMut(DeviceId, DeviceId, u64) -> Result<Vec<Route>, RouteError>,
) -> Result<Vec<Piece>, RouteError> {
    let mut of_node: BTreeMap<_, Vec<DeviceId>> = BTreeMap::new();
    for &device in devices {
        of_node
            .entry(topology.node_of(device))
            .or_default()
            .push(device);
    }
    // Ranks by the devices that they share.
    let mut sharing: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (rank, &gpu) in (0..).zip(gpus) {
        let node = topology.node_of(gpu);
        let own = of_node.contains_key(&node).then_some(node);
        if bytes[rank as usize] > Bytes::ZERO {
            sharing.entry(own).or_default().push(rank);
        }
    }
    let mut pieces = Vec::new();
    for (own, ranks) in sharing {
        let targets = own.and_then(|node| of_node.get(&node));
        let targets = targets.map_or(devices, Vec::as_slice);
        let count = targets.len().div_ceil(ranks.len()).min(MAX_PIECES) as u64;
        let mut next = targets.iter().copied().cycle();
        for rank in ranks {
            let whole = bytes[rank as usize].get();
            for (piece, device) in (0..count).zip(&mut next) {
                let flow = pieces.len() as u64;
                pieces.push(Piece {
                    rank,
                    // What does not divide goes to the first ones.
                    bytes: Bytes::new(whole / count + u64::from(piece < whole % count)),
                    legs: legs(gpus[rank as usize], device, flow)?,
                });
            }
        }
    }
    Ok(pieces)
}

/// Each rank's bytes on their way to its host's memory.
fn copies(
    router: &Router<'_>,
    gpus: &[DeviceId],
    bytes: &[Bytes],
) -> Result<Vec<Piece>, RouteError> {
    let ranks = (0..).zip(gpus).zip(bytes);
    let copies = ranks.filter(|(_, bytes)| **bytes > Bytes::ZERO);
    let copies = copies.map(|((rank, &gpu), &bytes)| {
        let legs = vec![to_host(router, gpu)?];
        Ok(Piece { rank, bytes, legs })
    });
    copies.collect()
}

/// From a GPU to its host's memory.
fn to_host(router: &Router<'_>, gpu: DeviceId) -> Result<Route, RouteError> {
    router.local(gpu, router.cpu_of(gpu).unwrap_or(gpu))
}

fn writers(pieces: &[Piece]) -> u32 {
    let mut ranks: Vec<u32> = pieces.iter().map(|piece| piece.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks.len() as u32
}

/// All pieces at once.
fn moved(pieces: &[Piece], topology: &Topology) -> Result<Moved, JobError> {
    let rate = topology.rates();
    let outcome = run_job(
        &job(pieces),
        &[],
        &rate,
        &Undisturbed,
        JobOptions::default(),
        &mut Unseen,
    )?;
    let mut busy: BTreeMap<LinkId, f64> = BTreeMap::new();
    for piece in pieces {
        for hop in piece.legs.iter().flat_map(|leg| &leg.hops) {
            let bytes = piece.bytes.get() as f64 * hop.share.as_f64();
            *busy.entry(hop.link).or_default() += bytes / rate(hop.link).bytes_per_sec() as f64;
        }
    }
    // Of equals the last in order of ids.
    let longest = busy.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let link = longest.map(|(link, _)| link);
    Ok(Moved {
        time: outcome.end,
        limit: link.map_or(StorageLimit::Host, |link| limit(topology, link)),
        link: link.map_or_else(String::new, |link| topology.link_name(link)),
    })
}

/// What kind of link holds transfers up.
fn limit(topology: &Topology, link: LinkId) -> StorageLimit {
    let (from, to) = topology.ends(link);
    let ends = [from, to].map(|id| topology.device(id).kind);
    if ends.contains(&DeviceKind::Storage) {
        match topology.is_storages_own(link) {
            true => StorageLimit::Storage,
            false => StorageLimit::StorageLink,
        }
    } else if ends.contains(&DeviceKind::Nic) {
        StorageLimit::Nic
    } else if topology.family(link) == LinkFamily::Network {
        StorageLimit::Switches
    } else {
        StorageLimit::Host
    }
}

/// A job of transfers alone: each rank is one actor, each of its pieces on a stream.
fn job(pieces: &[Piece]) -> Job {
    let mut of_rank: BTreeMap<u32, Vec<Task>> = BTreeMap::new();
    let mut pieces_of: BTreeMap<u32, u8> = BTreeMap::new();
    let mut number = 0;
    for piece in pieces {
        let tasks = of_rank.entry(piece.rank).or_default();
        let stream = pieces_of.entry(piece.rank).or_default();
        for _ in &piece.legs {
            tasks.push(Task {
                stream: StreamId(*stream),
                after: Default::default(),
                work: Work::Transfer {
                    route: TransferRouteId(number),
                    bytes: piece.bytes,
                    messages: 1,
                },
                tag: Tag::default(),
            });
            number += 1;
        }
        *stream += 1;
    }
    let streams = pieces_of.values().copied().max().map_or(1, usize::from);
    let actors = (0..).zip(of_rank.keys());
    Job {
        streams: vec![StreamRole::default(); streams],
        names: vec!["checkpoint".to_owned()],
        actors: actors
            .map(|(script, &rank)| Actor {
                rank,
                alike: 1,
                script: Some(script),
                sms: 1,
                launch: Time::ZERO,
                run_ahead: false,
                groups: Vec::new(),
            })
            .collect(),
        scripts: of_rank
            .into_values()
            .map(|tasks| Script { tasks })
            .collect(),
        transfer_routes: pieces
            .iter()
            .flat_map(|piece| &piece.legs)
            .map(|leg| TransferRoute {
                route: leg.clone(),
                rate: None,
                message: Time::ZERO,
            })
            .collect(),
        ..Job::default()
    }
}
