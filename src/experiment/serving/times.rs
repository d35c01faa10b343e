//! The times of requests, and what half of them see.

use super::valid::ValidServing;
use fabricsim_units::Time;
use fabricsim_workload::serving::fleet::Served;
use fabricsim_workload::serving::record::RequestRecord;
use fabricsim_workload::serving::spec::SloSpec;

/// The times of a request that was served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) arrived: Time,
    pub(super) first: Time,
    pub(super) finished: Time,
    generated: u32,
}

impl Times {
    pub(super) fn of(record: &RequestRecord) -> Option<Times> {
        Some(Times {
            arrived: record.arrived?,
            first: record.first_token?,
            finished: record.finished?,
            generated: record.generated,
        })
    }

    /// From its arrival to its first token.
    pub(super) fn until_first(&self) -> Time {
        self.first.saturating_sub(self.arrived)
    }

    /// The mean time from token to token; nothing of a single token.
    pub(super) fn per_token(&self) -> Option<Time> {
        let tokens = u64::from(self.generated)
            .checked_sub(1)
            .filter(|&n| n > 0)?;
        let all = self.finished.saturating_sub(self.first).picos();
        Some(Time::from_picos(all / tokens))
    }

    pub(super) fn keeps(&self, slo: &SloSpec) -> bool {
        let within = |limit: Option<Time>, time: Time| limit.is_none_or(|limit| time <= limit);
        within(slo.ttft, self.until_first())
            && within(slo.e2e, self.finished.saturating_sub(self.arrived))
            && within(slo.tpot, self.per_token().unwrap_or(Time::ZERO))
    }
}

/// What half of the requests see.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Medians {
    /// Until the first token.
    pub(crate) first_token: Time,
    /// From token to token.
    pub(crate) token: Time,
    /// When the last one was done.
    pub(crate) end: Time,
}

/// Those of requests that are counted.
pub(crate) fn medians(valid: &ValidServing, served: &Served) -> Medians {
    let done = served.records.iter().skip(valid.spec.warm_up as usize);
    let done: Vec<Times> = done.filter_map(Times::of).collect();
    let median = |of: &dyn Fn(&Times) -> Option<Time>| {
        let mut all: Vec<Time> = done.iter().filter_map(of).collect();
        all.sort_unstable();
        all.get(all.len().div_ceil(2).saturating_sub(1)).copied()
    };
    Medians {
        first_token: median(&|t| Some(t.until_first())).unwrap_or(Time::ZERO),
        token: median(&|t| t.per_token()).unwrap_or(Time::ZERO),
        end: served.end,
    }
}

pub(super) fn millis(time: Time) -> f64 {
    time.seconds() * 1e3
}
