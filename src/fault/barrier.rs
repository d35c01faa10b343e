//! A barrier that tells who did not come, as `torch.distributed.monitored_barrier`.
//!
//! PyTorch's rank 0 waits for every other rank, and the others for its answer, each for the
//! timeout (`ProcessGroupGloo::monitoredBarrier` with `wait_all_ranks`). So the first rank that
//! comes is the first whose wait ends: the clock starts with it. The messages between the
//! ranks take no time here.

use fabricsim_units::Time;
use std::fmt;
use thiserror::Error;

/// Some ranks did not come to a barrier in time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{} failed to pass monitoredBarrier in {} ms{}", ranks(missing), millis(*after), late(came_late))]
pub struct BarrierTimeout {
    /// The ranks that had not come, in order.
    pub missing: Vec<usize>,
    /// Those of them that came later, with the time.
    pub came_late: Vec<(usize, Time)>,
    /// The timeout.
    pub after: Time,
    /// When the barrier failed: the timeout after the first rank came.
    pub at: Time,
}

/// When all ranks have passed: the time of the last. `arrivals` holds for each rank when it
/// comes, `None` if it never does. A barrier that no rank comes to at all fails `timeout` after
/// the start; one of no ranks is passed at once.
///
/// # Errors
/// Names the ranks that do not come within `timeout` of the first.
pub fn monitored_barrier(arrivals: &[Option<Time>], timeout: Time) -> Result<Time, BarrierTimeout> {
    let first = arrivals.iter().flatten().min().copied();
    let at = first.unwrap_or(Time::ZERO) + timeout;
    let in_time = |arrival: Option<Time>| arrival.is_some_and(|time| time <= at);
    let late: Vec<(usize, Option<Time>)> = arrivals
        .iter()
        .copied()
        .enumerate()
        .filter(|&(_, arrival)| !in_time(arrival))
        .collect();
    if late.is_empty() {
        return Ok(arrivals
            .iter()
            .flatten()
            .max()
            .copied()
            .unwrap_or(Time::ZERO));
    }
    Err(BarrierTimeout {
        missing: late.iter().map(|&(rank, _)| rank).collect(),
        came_late: late
            .into_iter()
            .filter_map(|(rank, arrival)| Some((rank, arrival?)))
            .collect(),
        after: timeout,
        at,
    })
}

/// More missing ranks than this are only counted, and not all named.
const NAMED: usize = 32;

fn ranks(missing: &[usize]) -> String {
    match missing {
        [rank] => format!("Rank {rank}"),
        _ => {
            let named: Vec<String> = missing.iter().take(NAMED).map(usize::to_string).collect();
            let more = missing.len().saturating_sub(NAMED);
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("Ranks {}{more}", named.join(", "))
        }
    }
}

struct Millis(Time);

fn millis(time: Time) -> Millis {
    Millis(time)
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.picos() as f64 / 1e9)
    }
}

fn late(came_late: &[(usize, Time)]) -> String {
    match came_late.first() {
        None => String::new(),
        Some((rank, time)) => format!(" (rank {rank} came at {})", time.human()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(count: u64) -> Option<Time> {
        Some(Time::from_micros(count))
    }

    #[test]
    fn a_barrier_ends_with_the_last_rank() {
        let timeout = Time::from_micros(10);
        assert_eq!(
            monitored_barrier(&[us(5), us(15), us(7)], timeout),
            Ok(Time::from_micros(15))
        );
        assert_eq!(monitored_barrier(&[], timeout), Ok(Time::ZERO));
    }

    #[test]
    fn missing_ranks_are_named() {
        let timeout = Time::from_micros(2_000_000);
        let error = monitored_barrier(&[us(5), None, us(7), None], timeout).unwrap_err();
        assert_eq!(error.missing, [1, 3]);
        assert_eq!(error.at, Time::from_micros(2_000_005));
        assert_eq!(
            error.to_string(),
            "Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms"
        );
        let error = monitored_barrier(&[us(5), us(3_000_000)], timeout).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Rank 1 failed to pass monitoredBarrier in 2000 ms (rank 1 came at 3.00 s)"
        );
    }

    #[test]
    fn a_barrier_that_nobody_comes_to_names_everybody() {
        let error = monitored_barrier(&[None; 40], Time::from_micros(1500)).unwrap_err();
        assert_eq!(
            (error.missing.len(), error.at),
            (40, Time::from_micros(1500))
        );
        let text = error.to_string();
        assert!(
            text.ends_with("31 and 8 more failed to pass monitoredBarrier in 1.5 ms"),
            "{text}"
        );
    }
}
