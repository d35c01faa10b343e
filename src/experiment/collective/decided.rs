//! What decides how a size runs: NCCL's cost model, or the file of an algorithm.

use super::valid::ValidCollective;
use fabricsim_nccl::Communicator;
use fabricsim_report::record::{Candidate, Decision};
use fabricsim_units::{Bytes, Time};

/// Sizes for which the algorithm's file is not made by its own word: MSCCL leaves them to NCCL.
pub(super) fn outside_range(spec: &ValidCollective) -> Option<String> {
    let file = spec.msccl.as_ref()?;
    let outside = spec.sizes.iter().filter(|&&bytes| !file.is_for(bytes));
    let outside: Vec<u64> = outside.copied().collect();
    let sizes = match outside.as_slice() {
        [] => return None,
        [one] => Bytes::new(*one).to_string(),
        [first, .., last] => format!(
            "{} sizes from {} to {}",
            outside.len(),
            Bytes::new(*first),
            Bytes::new(*last)
        ),
    };
    let least = Bytes::new(*file.sizes.start());
    let most = match *file.sizes.end() {
        u64::MAX => " on".to_owned(),
        most => format!(" to {}", Bytes::new(most)),
    };
    Some(format!(
        "{sizes}: `{}` says that it is for {least}{most} (minBytes, maxBytes), so MSCCL would leave \
         that to NCCL; here the file's algorithm is simulated all the same",
        file.name
    ))
}

/// What NCCL decides for a size, and whether a file's algorithm is in its place.
pub(super) fn decision(
    spec: &ValidCollective,
    communicator: &Communicator<'_>,
    bytes: u64,
) -> Decision {
    let all = communicator.candidates(spec.collective, bytes, spec.forced);
    let candidates = all.into_iter().map(|c| Candidate {
        algo: c.algorithm.name().to_owned(),
        proto: c.protocol.name().to_owned(),
        expected_us: c.expected.map(|e| Time::round_micros(e.micros)),
        latency_us: c.expected.map(|e| Time::round_micros(e.latency)),
        bandwidth_gbs: c.expected.map(|e| e.bandwidth),
        excluded: c.excluded,
        chosen: c.chosen,
    });
    Decision {
        bytes,
        candidates: candidates.collect(),
        in_place: spec.msccl.as_ref().map(|file| file.name.clone()),
    }
}
