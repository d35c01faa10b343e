//! The part of a run that its figures are of, and how well they are known.

use super::growth::{CLEARLY, SPELLS, Spells};
use super::intervals::{of_mean, of_percentile};
use super::warm_up::mser5;
use crate::serving::times::Times;
use fabricsim_report::serving::{HalfWidths, WindowRule};
use fabricsim_units::Time;
use fabricsim_workload::serving::record::RequestRecord;

/// A window is to be so many times as long as a request stays, on average.
pub(in crate::serving) const RESIDENCES: f64 = 10.0;

/// Requests that show a backlog of such a load.
const SOME: usize = 400;

/// The part of a run that its figures are of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::serving) struct Window {
    /// The first request that counts.
    pub(in crate::serving) first: usize,
    /// The one behind the last.
    pub(in crate::serving) end: usize,
    /// Where rates are counted from.
    pub(in crate::serving) from: Time,
    /// Where they are counted to.
    pub(in crate::serving) to: Time,
    /// How it was found.
    pub(in crate::serving) rule: WindowRule,
    /// How long a request stays, on average.
    pub(in crate::serving) residence: Time,
    /// How long of that it is served: from its first pass on.
    service: Time,
}

impl Window {
    /// The whole run; the first so many requests are left out of percentiles.
    pub(in crate::serving) fn whole(records: &[RequestRecord], warm_up: usize) -> Window {
        let arrived = records.iter().filter_map(|record| record.arrived);
        let finished = records.iter().filter_map(|record| record.finished);
        Window {
            first: warm_up.min(records.len()),
            end: records.len(),
            from: arrived.min().unwrap_or(Time::ZERO),
            to: finished.max().unwrap_or(Time::ZERO),
            rule: WindowRule::Whole,
            residence: mean(records, |record| record.arrived),
            service: mean(records, |record| record.scheduled),
        }
    }

    /// Behind the warm-up, of the first so many requests, which are over; as long as requests arrive. The warm-up is what
    /// MSER-5 cuts of times to the first token and per token, at least as long as a request stays; or so many requests
    /// as are said. Nothing if nothing is left.
    pub(in crate::serving) fn steady(
        records: &[RequestRecord],
        over: usize,
        warm_up: usize,
    ) -> Option<Window> {
        let records = &records[..over.min(records.len())];
        let residence = mean(records, |record| record.arrived);
        let arrived = |index: usize| records.get(index)?.arrived;
        let (first, rule) = match warm_up {
            0 => {
                let full = arrived(0)? + residence;
                let filled = records.partition_point(|r| r.arrived.is_some_and(|at| at < full));
                (filled.max(cut(records)), WindowRule::Mser5)
            }
            first => (first, WindowRule::WarmUp),
        };
        let (from, to) = (arrived(first)?, arrived(records.len().checked_sub(1)?)?);
        (from < to).then_some(Window {
            first,
            end: records.len(),
            from,
            to,
            rule,
            residence,
            service: mean(records, |record| record.scheduled),
        })
    }

    /// Of so many requests the beginning that is cut is less than half.
    pub(in crate::serving) fn is_level(&self) -> bool {
        self.rule != WindowRule::Mser5 || self.first * 2 < self.end
    }

    /// So many times as long as a request stays, on average.
    pub(in crate::serving) fn residences(&self) -> f64 {
        self.times(self.residence)
    }

    /// So many times as long as a request is served. (Where more and more wait, their stay is as long as the run.)
    fn services(&self) -> f64 {
        self.times(self.service)
    }

    /// Whether it is long enough to call what piles up in it a backlog, of a load that is so many times what full engines
    /// do: ten times as long as a request is served, or, of a load that is clearly above, of some hundred requests.
    /// (Where hand-overs are what piles up, requests are served as long as the run is.)
    pub(super) fn shows_backlog(&self, times: f64) -> bool {
        let is_clear = times > CLEARLY && self.end - self.first >= SOME;
        is_clear || self.services() >= RESIDENCES
    }

    fn times(&self, length: Time) -> f64 {
        match length.seconds() {
            0.0 => f64::INFINITY,
            length => self.to.saturating_sub(self.from).seconds() / length,
        }
    }

    pub(super) fn spells(&self) -> Spells {
        Spells {
            from: self.from,
            to: self.to,
        }
    }

    /// Whether requests pile up in it.
    pub(super) fn grows(&self, records: &[RequestRecord]) -> bool {
        self.spells().grows(records, self.end - self.first)
    }
}

/// From a moment of theirs until they are done, of requests that are, on average.
fn mean(records: &[RequestRecord], since: impl Fn(&RequestRecord) -> Option<Time>) -> Time {
    let stays = records
        .iter()
        .filter_map(|record| Some(record.finished?.saturating_sub(since(record)?)));
    let (count, sum) = stays.fold((0u64, 0u128), |(count, sum), stay| {
        (count + 1, sum + u128::from(stay.picos()))
    });
    Time::from_picos((sum / u128::from(count.max(1))) as u64)
}

/// Requests that MSER-5 leaves out.
fn cut(records: &[RequestRecord]) -> usize {
    let of = |value: &dyn Fn(&Times) -> Option<Time>| {
        let all = (0..).zip(records).filter_map(|(index, record)| {
            let time = value(&Times::of(record)?)?;
            Some((index, time.seconds()))
        });
        let (places, values): (Vec<usize>, Vec<f64>) = all.unzip();
        places.get(mser5(&values)).copied().unwrap_or(0)
    };
    of(&|times| Some(times.until_first())).max(of(&|times| times.per_token()))
}

/// How well the figures of a window are known: half widths of 95 % intervals, as parts of the figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::serving) struct Known(pub(in crate::serving) HalfWidths);

impl Known {
    /// In a window of these records, of a load with a rate of its own or of a closed loop with so many at once.
    pub(in crate::serving) fn of(
        records: &[RequestRecord],
        window: &Window,
        at_once: Option<u32>,
    ) -> Known {
        let counted = records[window.first..window.end].iter();
        let (mut ttft, mut tpot) = (Vec::new(), Vec::new());
        let (mut stays, mut tokens) = (Vec::new(), Vec::new());
        for (record, times) in counted.filter_map(|record| Some((record, Times::of(record)?))) {
            ttft.push(times.until_first().seconds());
            tpot.extend(times.per_token().map(Time::seconds));
            stays.push(times.finished.saturating_sub(times.arrived).seconds());
            tokens.push(f64::from(record.generated));
        }
        let served = match at_once {
            None => open_rate(records, window, &tokens),
            Some(at_once) => closed_rate(&stays, &tokens, at_once),
        };
        Known(HalfWidths {
            output_tokens_per_s: served,
            ttft_ms_mean: of_mean(&ttft),
            ttft_ms_p50: of_percentile(&ttft, 0.5),
            ttft_ms_p99: of_percentile(&ttft, 0.99),
            tpot_ms_mean: of_mean(&tpot),
            tpot_is_none: tpot.is_empty(),
        })
    }

    /// Whether all are known that well; of requests of one token there is no time per token.
    pub(in crate::serving) fn is_within(&self, precision: f64) -> bool {
        let known = &self.0;
        let within = |half: Option<f64>| half.is_some_and(|half| half <= precision);
        within(known.output_tokens_per_s)
            && within(known.ttft_ms_mean)
            && within(known.ttft_ms_p50)
            && within(known.ttft_ms_p99)
            && (known.tpot_is_none || within(known.tpot_ms_mean))
    }
}

/// Of a load with a rate of its own as much is served as comes, but for what more or less is there at the end than at
/// the beginning; and requests bring more tokens or fewer.
fn open_rate(records: &[RequestRecord], window: &Window, tokens: &[f64]) -> Option<f64> {
    // Of the difference of two numbers of requests: 95 % of a normal one.
    const APART: f64 = 1.96 * std::f64::consts::SQRT_2;
    let there = window.spells().there(records);
    let mean = there.iter().sum::<f64>() / SPELLS as f64;
    let squares: f64 = there.iter().map(|there| (there - mean).powi(2)).sum();
    let spread = (squares / (SPELLS as f64 - 1.0)).max(mean).sqrt();
    let left = APART * spread / tokens.len().max(1) as f64;
    of_mean(tokens).map(|tokens| left.hypot(tokens))
}

/// Of a closed loop with so many requests at once: by Little's law as well known as the mean of their stay; and up to all of
/// them may be done at the same moment, just inside or outside of the window.
fn closed_rate(stays: &[f64], tokens: &[f64], at_once: u32) -> Option<f64> {
    // The standard deviation of what is even from -1 to 1.
    const EVEN: f64 = 0.577;
    let edge = EVEN * f64::from(at_once) / stays.len().max(1) as f64;
    let (stay, tokens) = (of_mean(stays)?, of_mean(tokens)?);
    Some(stay.hypot(tokens).hypot(edge))
}
