//! Whether engines keep up with their load.

use super::saturation::Saturated;
use super::window::{RESIDENCES, Window};
use crate::serving::horizon::{Horizon, rate};
use crate::serving::valid::ValidServing;
use fabricsim_report::serving::{TooShort, Verdict};
use fabricsim_workload::serving::fleet::Served;
use fabricsim_workload::serving::record::RequestRecord;
use fabricsim_workload::serving::spec::LoadSpec;

/// A verdict and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::serving) struct Judged {
    pub(in crate::serving) verdict: Verdict,
    /// Requests per second that come; of a closed loop nothing.
    pub(in crate::serving) offered: Option<f64>,
    /// Of a backlog: the rate that would hold.
    pub(in crate::serving) holds: Option<f64>,
    /// Why it cannot be told.
    pub(in crate::serving) too_short: Option<TooShort>,
}

/// Of what a trace brings so much may be left at its end: bursts are no backlog.
const LEFT_OF_TRACE: f64 = 0.05;

/// Judges a run by its window. Requests pile up if there are more and more of them over it; engines keep up if there are
/// not, and the load is below what they do at most. What the two do not agree on, and what is shorter than ten times
/// the stay of a request, cannot be told.
pub(in crate::serving) fn judge(
    valid: &ValidServing,
    served: &Served,
    (window, most): (&Window, Option<Saturated>),
) -> Judged {
    let records = served.records.as_slice();
    let offered = offered(valid, records);
    let judged = |verdict| Judged {
        verdict,
        offered,
        holds: None,
        too_short: None,
    };
    let unclear = |why| Judged {
        too_short: Some(why),
        ..judged(Verdict::TooShort)
    };
    if served.is_overloaded || served.is_stuck {
        return Judged {
            holds: most.map(|most| most.rate),
            ..judged(Verdict::Overloaded)
        };
    }
    let is_open = !matches!(valid.spec.load, LoadSpec::Closed(_));
    let arrives = Window::steady(records, window.end, window.first);
    if let (Some(arrives), Some(offered), Some(most)) = (&arrives, offered, most)
        && offered > most.hi
        && arrives.shows_backlog(offered / most.hi)
        && arrives.grows(records)
    {
        return Judged {
            holds: Some(most.lo),
            ..judged(Verdict::Backlogged)
        };
    }
    let Some(arrives) = arrives else {
        return unclear(TooShort::Residences);
    };
    if arrives.residences() < RESIDENCES {
        return unclear(TooShort::Residences);
    }
    if !is_open {
        return match window.is_level() {
            true => judged(Verdict::Stable),
            false => unclear(TooShort::WarmUp),
        };
    }
    let grows = arrives.grows(records);
    let Some((offered, most)) = offered.zip(most) else {
        // Of a trace there is no rate that engines do at most.
        let left = records[..window.end].iter();
        let left = left
            .filter(|r| r.finished.is_none_or(|at| at > arrives.to))
            .count();
        let piled = grows && left as f64 > LEFT_OF_TRACE * (window.end - window.first) as f64;
        return judged(if piled {
            Verdict::Backlogged
        } else {
            Verdict::Stable
        });
    };
    match (grows, offered) {
        (_, offered) if offered > most.hi => unclear(TooShort::AboveSaturation),
        (_, offered) if offered >= most.lo => unclear(TooShort::NearSaturation),
        (true, _) => unclear(TooShort::Growing),
        (false, _) if !window.is_level() && valid.horizon == Horizon::Fixed => {
            unclear(TooShort::WarmUp)
        }
        (false, _) => judged(Verdict::Stable),
    }
}

/// Requests per second that come: as said, or as a trace has them.
fn offered(valid: &ValidServing, records: &[RequestRecord]) -> Option<f64> {
    if !matches!(valid.spec.load, LoadSpec::Trace(_)) {
        return rate(&valid.spec.load);
    }
    let all = records.iter().filter_map(|record| record.arrived);
    let (first, last) = (all.clone().min()?, all.clone().max()?);
    let seconds = last.saturating_sub(first).seconds();
    (seconds > 0.0).then(|| (all.count() - 1) as f64 / seconds)
}
