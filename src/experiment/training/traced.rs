//! Which ranks a trace of a large job is of.

use fabricsim_report::training::JobSpan;
use std::collections::BTreeSet;

/// GPUs beyond which a trace has no more tasks than this.
const MANY_GPUS: usize = 1_024;
const MOST_TRACED: usize = 15_000;

/// Places among those shown of the ranks that a trace of a job on so many GPUs is of; none, if it is of
/// all.
pub(super) fn in_trace(spans: &[JobSpan], ranks: usize, gpus: usize) -> BTreeSet<u32> {
    match gpus <= MANY_GPUS {
        true => BTreeSet::new(),
        false => traced(spans, ranks, MOST_TRACED),
    }
}

/// Places of ranks whose tasks are in a trace of so many, from the first to the last rank: as many as
/// fit. None, if all do.
fn traced(spans: &[JobSpan], ranks: usize, most: usize) -> BTreeSet<u32> {
    if spans.len() <= most || ranks < 2 {
        return BTreeSet::new();
    }
    let mut tasks = vec![0; ranks];
    for span in spans {
        tasks[span.rank as usize] += 1;
    }
    let spread = |count: usize| -> BTreeSet<u32> {
        let place = |index: usize| index * (ranks - 1) / (count - 1).max(1);
        (0..count).map(|index| place(index) as u32).collect()
    };
    let fits = |count: &usize| {
        let places = spread(*count);
        let own: usize = places.iter().map(|&place| tasks[place as usize]).sum();
        own <= most
    };
    let count = (1..ranks).rev().find(fits).unwrap_or(1);
    spread(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_report::training::SpanKind;
    use fabricsim_units::{Bytes, Time};

    #[test]
    fn a_trace_is_of_whole_ranks_from_the_first_to_the_last() {
        let span = |rank| JobSpan {
            rank,
            stream: 0,
            what: String::new(),
            kind: SpanKind::Other,
            bytes: Bytes::ZERO,
            micro_batch: None,
            chunk: 0,
            communication: None,
            bucket: None,
            message: None,
            step: 0,
            launched: (Time::ZERO, Time::ZERO),
            ready: Time::ZERO,
            came: Time::ZERO,
            kernels: None,
            start: Time::ZERO,
            end: Time::ZERO,
        };
        let spans: Vec<JobSpan> = (0..16).flat_map(|rank| vec![span(rank); 10]).collect();
        let of = |most| Vec::from_iter(traced(&spans, 16, most));
        assert!(of(160).is_empty());
        assert_eq!(of(159).len(), 15);
        assert_eq!(of(49), [0, 5, 10, 15]);
        assert_eq!(of(20), [0, 15]);
        assert_eq!(of(5), [0]);
    }
}
