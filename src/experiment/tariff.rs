//! What running a machine takes: the power that it draws, and what its hours cost.

use super::error::ScenarioError;
use super::refusal::{fault, refuse};
use super::spec::ScenarioSpec;
use fabricsim_report::Variant;
use fabricsim_report::training::{ShareKind, StepResult};
use fabricsim_topology::Topology;
use fabricsim_topology::bill::{Bill, Load};
use fabricsim_units::Money;
use std::collections::BTreeMap;

/// What the scenario says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tariff {
    /// Dollars per GPU and hour by the names of machines, in place of what is below.
    pub prices: BTreeMap<String, f64>,
    /// Dollars per GPU and hour, in place of what the models of GPUs say.
    pub usd_per_gpu_hour: Option<f64>,
    /// What the building draws for each watt of the machine.
    pub pue: f64,
}

impl Tariff {
    /// That of a scenario.
    ///
    /// # Errors
    /// A price that is none, a power usage effectiveness below 1.
    pub(crate) fn of(spec: &ScenarioSpec, origin: &str) -> Result<Tariff, ScenarioError> {
        let mut faults = Vec::new();
        if let Some(price) = spec.dollars_per_gpu_hour
            && !(price.is_finite() && price > 0.0)
        {
            let wrong = fault("dollars_per_gpu_hour", price.to_string(), "more than 0");
            faults.push(wrong);
        }
        for (machine, price) in &spec.prices {
            if !(price.is_finite() && *price > 0.0) {
                let place = format!("prices.{machine}");
                faults.push(fault(&place, price.to_string(), "more than 0"));
            }
        }
        let pue = spec.pue.unwrap_or(1.0);
        if let Some(expected) = not_a_pue(pue) {
            faults.push(fault("pue", pue.to_string(), expected));
        }
        refuse(origin, faults)?;
        Ok(Tariff {
            prices: spec.prices.clone(),
            usd_per_gpu_hour: spec.dollars_per_gpu_hour,
            pue,
        })
    }

    fn kilowatts(&self, bill: &Bill<'_>, load: Load) -> Option<f64> {
        let power = bill.power(load).whole()?;
        Some(power.kilowatts() * self.pue)
    }

    /// What a machine draws at full load, kW; `None` if that is not known.
    pub(crate) fn busy_kw(&self, topology: &Topology) -> Option<f64> {
        self.kilowatts(&topology.bill(), Load::BUSY)
    }

    /// Dollars per GPU and hour of a machine; `None` if they are not known.
    pub(crate) fn gpu_hour(&self, topology: &Topology) -> Option<f64> {
        let own = self.prices.get(&topology.name).copied();
        own.or(self.usd_per_gpu_hour)
            .or_else(|| hourly_price(topology))
    }

    /// Adds to a variant's row what its machine draws and costs, and its last step.
    pub(crate) fn add_to(&self, variant: &mut Variant, topology: &Topology) {
        let bill = topology.bill();
        let kilowatts = |load| self.kilowatts(&bill, load);
        let price = self.gpu_hour(topology);
        let metrics = &mut variant.metrics;
        metrics.kw = Some(kilowatts(Load::BUSY));
        metrics.usd_per_gpu_hour = Some(price);
        if let Some(served) = variant.job.serving() {
            let gpus = f64::from(variant.gpus);
            let tokens = served.output_tokens_per_s * 3600.0;
            let busy: f64 = served
                .pools
                .iter()
                .map(|pool| pool.busy_share * f64::from(pool.engines * pool.gpus_per_engine))
                .sum();
            let all = topology.gpus().count().max(1) as f64;
            let load = Load {
                gpus: busy / all,
                rest: 1.0,
            };
            let per_mtok = |hourly: f64| (tokens > 0.0).then(|| hourly / tokens * 1e6);
            metrics.kwh_per_mtok = Some(kilowatts(load).and_then(per_mtok));
            metrics.usd_per_mtok = Some(price.and_then(|price| per_mtok(price * gpus)));
            return;
        }
        let Some(ran) = variant.job.training().and_then(|job| job.ran()) else {
            return;
        };
        let hours = ran.step_s / 3600.0;
        let all = topology.gpus().count().max(1) as f64;
        let load = Load {
            gpus: computing(ran) * f64::from(variant.gpus) / all,
            rest: 1.0,
        };
        let step = kilowatts(load).map(|kw| kw * hours);
        metrics.kwh_per_step = Some(step);
        metrics.kwh_per_mtok = Some(step.map(|kwh| kwh / ran.tokens as f64 * 1e6));
        metrics.usd_per_step = Some(price.map(|price| price * f64::from(variant.gpus) * hours));
    }
}

/// What is expected of a power usage effectiveness, if this is none.
#[must_use]
pub fn not_a_pue(pue: f64) -> Option<&'static str> {
    // The worst machine rooms have 3.
    (!(1.0..=10.0).contains(&pue)).then_some("a number from 1 to 10")
}

/// The part of its time that an average GPU of the job computes, 0 to 1.
fn computing(ran: &StepResult) -> f64 {
    let shares = ran.time.iter();
    let computing = shares.filter(|share| share.kind == ShareKind::Compute);
    let share: f64 = computing.map(|share| share.share).sum();
    share.clamp(0.0, 1.0)
}

/// Dollars per GPU and hour by the models of the machine's GPUs, on average; nothing if one of them
/// does not say it.
pub(crate) fn hourly_price(topology: &Topology) -> Option<f64> {
    let mut count = 0;
    let mut sum = Money::ZERO;
    for gpu in topology.gpus() {
        let price = topology.gpu_model(gpu)?.price_per_hour.as_ref()?;
        sum = sum.saturating_add(price.value);
        count += 1;
    }
    (count > 0).then(|| sum.divided(count).dollars())
}
