//! Whether jobs fit into the memory of their GPUs, each by itself and those on one GPU together.

use super::valid::{PartWork, ValidConcurrent, ValidPart};
use crate::error::ScenarioError;
use crate::training::memory;
use fabricsim_report::concurrent::ConcurrentResult;
use fabricsim_topology::processes;
use fabricsim_units::Bytes;
use std::collections::BTreeMap;

/// Whether all training jobs fit into the memory of their GPUs, and jobs that are on one GPU at the
/// same time fit together; which do not. Nothing if there is neither.
pub(super) fn memories(
    valid: &ValidConcurrent,
    result: &ConcurrentResult,
) -> Result<(Option<bool>, Vec<String>), ScenarioError> {
    let (mut fits, mut warnings) = (None, Vec::new());
    let mut needs = Vec::with_capacity(valid.jobs.len());
    for part in &valid.jobs {
        let PartWork::Training(training) = &part.work else {
            needs.push(need(valid, part)?);
            continue;
        };
        let memory = memory(training, &valid.topology, &part.gpus, &part.env)?;
        fits = Some(fits.unwrap_or(true) && memory.fits);
        if !memory.fits {
            warnings.push(format!(
                "{} does not fit into memory: {:.1} GiB of {:.1} GiB",
                part.name,
                gib(memory.need()),
                gib(memory.capacity)
            ));
        }
        needs.push(memory.total);
    }
    for ((jobs, capacity), rank) in together(valid, result) {
        let total = jobs.iter().map(|&job| needs[job].get());
        let total = Bytes::new(total.fold(0, u64::saturating_add));
        fits = Some(fits.unwrap_or(true) && total <= capacity);
        if total > capacity {
            let names = jobs.iter().map(|&job| valid.jobs[job].name.as_str());
            warnings.push(format!(
                "{} do not fit into the memory of GPU {rank} together: {:.1} GiB of {:.1} GiB",
                names.collect::<Vec<_>>().join(" and "),
                gib(total),
                gib(capacity)
            ));
        }
    }
    Ok((fits, warnings))
}

/// What a job takes of each of its GPUs.
fn need(valid: &ValidConcurrent, part: &ValidPart) -> Result<Bytes, ScenarioError> {
    Ok(match &part.work {
        PartWork::Training(training) => {
            memory(training, &valid.topology, &part.gpus, &part.env)?.total
        }
        // An engine takes its share of the memory, whatever it holds.
        PartWork::Serving(served) => {
            let pools = served.pools.iter();
            let shares = pools.filter_map(|pool| Some(pool.memory?.share));
            shares.max().unwrap_or(Bytes::ZERO)
        }
        PartWork::Stream(stream) => {
            Bytes::new(stream.bytes.get().saturating_add(processes().taken().get()))
        }
        PartWork::Collective(operations) => {
            // Of a single one its size is looked at, too.
            let largest = operations.sizes.iter().max().copied().unwrap_or(0);
            Bytes::new(largest.saturating_add(processes().taken().get()))
        }
    })
}

/// What all jobs take of each GPU of the machine; nothing of those without a job.
pub(super) fn taken(valid: &ValidConcurrent) -> Result<Vec<Option<Bytes>>, ScenarioError> {
    let mut taken: Vec<Option<Bytes>> = vec![None; valid.gpus.len()];
    for part in &valid.jobs {
        let need = need(valid, part)?;
        for &rank in &part.ranks {
            let before = taken[rank as usize].map_or(0, Bytes::get);
            taken[rank as usize] = Some(Bytes::new(before.saturating_add(need.get())));
        }
    }
    Ok(taken)
}

/// Jobs that are on one GPU at the same time, and its memory; with the first such GPU.
fn together(
    valid: &ValidConcurrent,
    result: &ConcurrentResult,
) -> BTreeMap<(Vec<usize>, Bytes), u32> {
    let mut on_gpu: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, part) in valid.jobs.iter().enumerate() {
        for &rank in &part.ranks {
            on_gpu.entry(rank).or_default().push(index);
        }
    }
    let mut found = BTreeMap::new();
    for (rank, jobs) in on_gpu.into_iter().filter(|(_, jobs)| jobs.len() > 1) {
        let gpu = valid.topology.gpu_model(valid.gpus[rank as usize]);
        let capacity = gpu.map_or(Bytes::ZERO, |model| model.memory.value);
        for &job in &jobs {
            let with = jobs.iter().copied();
            let with: Vec<usize> = with
                .filter(|&other| meet(&valid.jobs, result, (job, other)))
                .collect();
            if with.len() > 1 {
                found.entry((with, capacity)).or_insert(rank);
            }
        }
    }
    found
}

/// Whether two jobs run at the same time; jobs that did not come to their end may.
fn meet(jobs: &[ValidPart], result: &ConcurrentResult, (a, b): (usize, usize)) -> bool {
    if result.jobs.len() != jobs.len() {
        return true;
    }
    let (a, b) = (&result.jobs[a], &result.jobs[b]);
    a.name == b.name || (a.start_us < b.end_us && b.start_us < a.end_us)
}

fn gib(bytes: Bytes) -> f64 {
    bytes.get() as f64 / f64::from(1 << 30)
}
