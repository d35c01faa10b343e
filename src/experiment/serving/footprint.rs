//! Memory that serving takes, before it does.

use super::horizon::Horizon;
use super::valid::ValidServing;
use fabricsim_budget::Purpose;
use fabricsim_workload::serving::spec::LoadSpec;

/// Bytes of a request with what becomes of it, measured on the shipped scenarios as all of these.
const REQUEST: u64 = 500;
/// Bytes of the times between tokens that a pass brings, mostly of one length, in a list that grows by half.
const GAP: u64 = 40;
/// Times as many requests as the first ones, of a load without end: what most runs take.
const AS_MANY: u64 = 4;
/// Stays of all requests at once, of a closed loop: what such runs take.
const STAYS: u64 = 100;
/// Bytes of a block that has a name.
const BLOCK: u64 = 48;
/// Bytes of the files of a folder, and of the spans in its timeline.
const FILES: u64 = 5_000_000;

/// What a job's requests, the times between their tokens and KV blocks take at least: with how many others a request
/// is in passes is seen as they come, and memory for more is asked for then.
pub(crate) fn serving_footprint(valid: &ValidServing, recorded: bool) -> Vec<(Purpose, u64)> {
    let engines: u64 = valid
        .pools
        .iter()
        .map(|pool| pool.engines.len() as u64)
        .sum();
    let at_once = match &valid.spec.load {
        LoadSpec::Closed(load) => (u64::from(load.concurrency) / engines.max(1)).max(1),
        _ => seats(valid).max(1),
    };
    let tokens: u64 = valid
        .requests
        .iter()
        .map(|request| u64::from(request.output))
        .sum();
    let names = valid
        .requests
        .iter()
        .filter_map(|request| request.prefix.as_ref());
    let names: u64 = names.map(|prefix| 8 * prefix.names.len() as u64).sum();
    // Of a load without end some times as many as the first ones.
    let times = match valid.horizon {
        Horizon::Known(_) => match &valid.spec.load {
            LoadSpec::Closed(load) => {
                let first = valid.requests.len().max(1) as u64;
                (STAYS * u64::from(load.concurrency) / first).max(AS_MANY)
            }
            _ => AS_MANY,
        },
        Horizon::Whole | Horizon::Fixed => 1,
    };
    let mut requests =
        times * valid.requests.len() as u64 * REQUEST + names + times * tokens / at_once * GAP;
    if valid.spec.engine.prefix_cache {
        let blocks = valid.pools.iter().map(|pool| {
            let parts = pool.engines.len() as u64 * u64::from(pool.parallel.attention_dp);
            u64::from(pool.blocks) * parts
        });
        requests += blocks.sum::<u64>() * BLOCK;
    }
    let files = if recorded { FILES } else { 0 };
    vec![(Purpose::Requests, requests), (Purpose::Record, files)]
}

/// Requests that an engine has room for in a pass.
fn seats(valid: &ValidServing) -> u64 {
    let seats = valid.pools.iter().map(|pool| {
        let parts = u64::from(pool.parallel.attention_dp);
        u64::from(pool.limits.max_sequences) * parts
    });
    seats.max().unwrap_or(1)
}
