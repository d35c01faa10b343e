//! How much of a load is kept, where no way to serve keeps all of it.

use super::Search;
use super::place::{AT_ONCE, Place};
use super::trial::Goal;
use super::ways::Way;
use crate::error::ScenarioError;
use crate::serving::amount;
use fabricsim_report::optimize::{Held, ServingChoice};
use serde_json::{Value, json};

/// A load is halved so often until it is kept, then what is between is halved so often.
const MAX_HALVINGS: u32 = 10;
const BISECTIONS: u32 = 4;

impl Search<'_> {
    /// Puts down how much of the load is kept on these GPUs, and by which engines; nothing of a trace, or where not even
    /// a thousandth is.
    pub(super) fn hold(&mut self, place: &Place) -> Result<(), ScenarioError> {
        let Some((asked, is_whole)) = amount(&self.load) else {
            return Ok(());
        };
        let rounded = |amount: f64| if is_whole { amount.floor() } else { amount };
        // Engines that do most come first.
        let mut ways: Vec<&ServingChoice> = place.choices.iter().collect();
        let full = |choice: &ServingChoice| choice.full_requests_per_s.unwrap_or(f64::INFINITY);
        ways.sort_by(|a, b| full(b).total_cmp(&full(a)));
        let (mut kept, mut not_kept) = (None, asked);
        for _ in 0..MAX_HALVINGS {
            let less = rounded(not_kept / 2.0);
            if less <= 0.0 || less >= not_kept {
                break;
            }
            kept = self.keeps(&ways, less)?.map(|choice| (less, choice));
            if kept.is_some() {
                break;
            }
            not_kept = less;
        }
        let Some((mut kept, mut choice)) = kept else {
            return Ok(());
        };
        for _ in 0..BISECTIONS {
            let middle = rounded(kept.midpoint(not_kept));
            if middle <= kept || middle >= not_kept {
                break;
            }
            match self.keeps(&ways, middle)? {
                Some(better) => (kept, choice) = (middle, better),
                None => not_kept = middle,
            }
        }
        self.found.held.push(Held {
            kept,
            not_kept,
            at_once: is_whole,
            choice,
        });
        Ok(())
    }

    /// A way that keeps so much of the load. Those whose full engines do less are not simulated.
    fn keeps(
        &mut self,
        ways: &[&ServingChoice],
        amount: f64,
    ) -> Result<Option<ServingChoice>, ScenarioError> {
        let may =
            |choice: &&&ServingChoice| choice.full_requests_per_s.is_none_or(|full| full >= amount);
        let ways: Vec<Way> = ways
            .iter()
            .filter(may)
            .map(|choice| Way {
                scenario: with_amount(&choice.scenario, amount),
                ..Way::from(*choice)
            })
            .collect();
        for some in ways.chunks(AT_ONCE) {
            let results = self.run(some, Goal::Decided);
            self.found.simulated += some.len() as u64;
            for result in results {
                let choice = result?;
                if choice.meets {
                    return Ok(Some(choice));
                }
            }
        }
        Ok(None)
    }
}

/// The scenario with so much of its load.
fn with_amount(scenario: &Value, amount: f64) -> Value {
    let mut scenario = scenario.clone();
    let load = &mut scenario["job"]["serving"]["load"];
    let kind = load
        .as_object()
        .and_then(|load| load.keys().next().cloned());
    if let Some(kind) = kind {
        match kind.as_str() {
            "closed" => load[&kind]["concurrency"] = json!(amount as u64),
            _ => load[&kind]["rate"] = json!(amount),
        }
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_another_amount_at_its_place() {
        let of = |load: Value| json!({ "job": { "serving": { "load": load } } });
        let closed = with_amount(&of(json!({ "closed": { "concurrency": 9 } })), 4.0);
        assert_eq!(closed, of(json!({ "closed": { "concurrency": 4 } })));
        let open = of(json!({ "gamma": { "rate": 9.0, "cv": 2.0 } }));
        let less = with_amount(&open, 4.5);
        assert_eq!(less, of(json!({ "gamma": { "rate": 4.5, "cv": 2.0 } })));
    }
}
