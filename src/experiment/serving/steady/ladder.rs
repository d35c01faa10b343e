//! A run goes on until its figures are known.

use super::intervals::of_mean;
use super::saturation::Saturated;
use super::window::{Known, RESIDENCES, Window};
use crate::serving::horizon::{at_once, rate};
use crate::serving::times::Times;
use crate::serving::valid::ValidServing;
use fabricsim_workload::serving::fleet::{Seen, Watch};
use fabricsim_workload::serving::spec::{SloSpec, SteadySpec};

/// Looks at a run after so many requests, and again after half as many more.
#[derive(Debug)]
pub(in crate::serving) struct Ladder {
    most: SteadySpec,
    /// The first so many requests are left out, in place of what MSER-5 cuts.
    warm_up: u32,
    /// The number of requests that are there at once, of a closed loop.
    at_once: Option<u32>,
    /// Requests per second that come, else.
    rate: Option<f64>,
    saturated: Option<Saturated>,
    /// It is enough to know whether that part of requests keeps these limits, or, without limits, whether engines keep up.
    decides: Option<(Option<SloSpec>, f64)>,
}

/// Requests of the first look at a load that comes at random.
const FIRST: u32 = 600;

/// Figures that would take so many times the most passes are left as they are, from that part of the most passes on.
const HOPELESS: f64 = 4.0;
const HOPELESS_FROM: u64 = 3;

impl Ladder {
    pub(in crate::serving) fn new(
        valid: &ValidServing,
        most: SteadySpec,
        saturated: Option<Saturated>,
    ) -> Self {
        Ladder {
            most,
            warm_up: valid.spec.warm_up,
            at_once: at_once(&valid.spec.load),
            rate: rate(&valid.spec.load),
            decides: valid.decides.map(|share| (valid.spec.slo.clone(), share)),
            saturated,
        }
    }

    /// Whether what is to be decided is known.
    fn is_decided(&self, window: &Window, seen: &Seen<'_>) -> bool {
        let (slo, needed) = match &self.decides {
            None => return false,
            Some((None, _)) => return true,
            Some((Some(slo), needed)) => (slo, needed),
        };
        let counted = seen.records[window.first..window.end].iter();
        let kept = counted
            .filter_map(Times::of)
            .map(|times| f64::from(u8::from(times.keeps(slo))));
        let kept: Vec<f64> = kept.collect();
        let share = kept.iter().sum::<f64>() / kept.len().max(1) as f64;
        let missed: Vec<f64> = kept.iter().map(|kept| 1.0 - kept).collect();
        // Of the rarer ones the interval is narrower.
        let apart = match share < 0.5 {
            true => of_mean(&kept).map(|half| share * half),
            false => of_mean(&missed).map(|half| (1.0 - share) * half),
        };
        let none = share == 0.0 || share == 1.0;
        none || apart.is_some_and(|apart| (share - needed).abs() > apart)
    }

    /// Whether requests come faster than engines can serve them, and pile up.
    fn is_backlogged(&self, window: &Window, seen: &Seen<'_>) -> bool {
        let above = self.rate.zip(self.saturated);
        above.is_some_and(|(rate, most)| rate > most.hi && window.shows_backlog(rate / most.hi))
            && window.grows(seen.records)
    }

    /// Whether figures are known as well as they are to be, or not even the mean would be after several times the most that
    /// is simulated.
    fn is_settled(&self, window: &Window, seen: &Seen<'_>) -> bool {
        if window.residences() < RESIDENCES || !window.is_level() || window.grows(seen.records) {
            return false;
        }
        if self.is_decided(window, seen) {
            return true;
        }
        let known = Known::of(seen.records, window, self.at_once);
        if known.is_within(self.most.precision) {
            return true;
        }
        // Half widths go with the root of the length. Those of percentiles far out may stay wide; the mean is worth its time.
        let mean = known.0.ttft_ms_mean.unwrap_or(f64::INFINITY);
        let times = (mean / self.most.precision).powi(2);
        let needed = seen.passes as f64 * times;
        seen.passes >= self.most.most_passes / HOPELESS_FROM
            && needed > HOPELESS * self.most.most_passes as f64
    }
}

impl Watch for Ladder {
    fn first_look(&self) -> u32 {
        let first = match self.at_once {
            // Of engines that do the same again and again little is enough.
            Some(at_once) => at_once.saturating_mul(8).max(40),
            None => FIRST,
        };
        first
            .max(self.warm_up.saturating_mul(2))
            .min(self.most.most_requests)
    }

    fn most_passes(&self) -> u64 {
        self.most.most_passes.saturating_mul(2)
    }

    fn look(&mut self, seen: Seen<'_>) -> Option<u32> {
        let most = &self.most;
        if seen.over >= most.most_requests || seen.passes >= most.most_passes {
            return None;
        }
        let window = Window::steady(seen.records, seen.over as usize, self.warm_up as usize);
        if let Some(window) = window
            && (self.is_backlogged(&window, &seen) || self.is_settled(&window, &seen))
        {
            return None;
        }
        // As many as passes are left for, at this pace.
        let each = seen.passes as f64 / f64::from(seen.over.max(1));
        let left = (most.most_passes - seen.passes) as f64 / each.max(f64::MIN_POSITIVE);
        let more = (seen.over / 2).max(20).min(left.min(1e9) as u32 + 1);
        Some(seen.over.saturating_add(more).min(most.most_requests))
    }
}
