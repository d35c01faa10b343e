//! What running a job takes: the power that it draws, and what its hours cost. All of it is told of the
//! job's share of its machine, and of the whole units that have to be powered for it.

use super::concurrent::ValidPart;
use super::error::ScenarioError;
use super::refusal::{fault, refuse};
use super::spec::ScenarioSpec;
use fabricsim_nccl::Env;
use fabricsim_report::Variant;
use fabricsim_report::concurrent::ConcurrentResult;
use fabricsim_report::training::StepResult;
use fabricsim_topology::bill::{Bill, Load};
use fabricsim_topology::{Basis, DeviceId, Taken, Topology};
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
    /// Whether NVLink joins GPUs of several nodes: not where `NCCL_MNNVL_ENABLE` is 0.
    pub nvlink_between_nodes: bool,
}

/// What a job is charged.
pub(crate) struct Charge<'t> {
    share: Bill<'t>,
    whole: Bill<'t>,
    gpus: f64,
    usd_per_gpu_hour: Option<f64>,
    pue: f64,
}

impl<'t> Charge<'t> {
    /// What its share draws, its GPUs at work for a part of the time, kW; `None` if that is not known.
    fn kw(&self, busy: f64) -> Option<f64> {
        self.kilowatts(&self.share, busy)
    }

    /// What all that is powered for it draws: GPUs that take no part are without work, kW.
    fn kw_whole(&self, busy: f64) -> Option<f64> {
        self.kilowatts(&self.whole, busy)
    }

    fn kilowatts(&self, bill: &Bill<'_>, busy: f64) -> Option<f64> {
        let load = Load {
            gpus: busy * self.gpus / bill.gpus().max(1.0),
            rest: 1.0,
        };
        let power = bill.power(load).whole()?;
        Some(power.kilowatts() * self.pue)
    }

    /// What all that is powered for it draws at full load, kW; `None` if that is not known.
    pub(crate) fn powered_kw(&self) -> Option<f64> {
        self.kw_whole(1.0)
    }

    /// The parts that are powered for it.
    pub(crate) fn powered(&self) -> &Bill<'t> {
        &self.whole
    }

    /// Dollars for an hour of its GPUs; `None` if they are not known.
    pub(crate) fn usd_per_hour(&self) -> Option<f64> {
        Some(self.usd_per_gpu_hour? * self.gpus)
    }

    /// Dollars for an hour of all GPUs of its nodes.
    fn usd_per_hour_whole(&self) -> Option<f64> {
        Some(self.usd_per_gpu_hour? * self.whole.gpus())
    }
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
        // A wrong one is told where all variables are read.
        let mnnvl = spec.environment.get_key_value("NCCL_MNNVL_ENABLE");
        let env = Env::parse(mnnvl.map(|(name, value)| (name.as_str(), value.0.as_str())));
        Ok(Tariff {
            prices: spec.prices.clone(),
            usd_per_gpu_hour: spec.dollars_per_gpu_hour,
            pue,
            nvlink_between_nodes: env.unwrap_or_default().mnnvl,
        })
    }

    /// Dollars per GPU and hour of a machine; `None` if they are not known.
    pub(crate) fn gpu_hour(&self, topology: &Topology) -> Option<f64> {
        let own = self.prices.get(&topology.name).copied();
        own.or(self.usd_per_gpu_hour)
            .or_else(|| hourly_price(topology))
    }

    /// What a job on these GPUs is charged.
    pub(crate) fn charge<'t>(&self, topology: &'t Topology, gpus: &[DeviceId]) -> Charge<'t> {
        let taken = Taken {
            gpus,
            nvlink_between_nodes: self.nvlink_between_nodes,
        };
        let price = self.gpu_hour(topology);
        Charge {
            share: topology.bill_of(taken, Basis::Share),
            whole: topology.bill_of(taken, Basis::Whole),
            gpus: gpus.len() as f64,
            usd_per_gpu_hour: price,
            pue: self.pue,
        }
    }

    /// Adds to each of several jobs at once what its GPUs' share of the machine draws.
    pub(crate) fn add_to_parts(
        &self,
        result: &mut ConcurrentResult,
        (topology, parts): (&Topology, &[ValidPart]),
    ) {
        for (job, part) in result.jobs.iter_mut().zip(parts) {
            job.kw = Some(self.charge(topology, &part.gpus).kw(1.0));
        }
    }

    /// Adds to a variant's row what its job on these GPUs draws and costs, and its last step.
    pub(crate) fn add_to(&self, variant: &mut Variant, (topology, gpus): (&Topology, &[DeviceId])) {
        let charge = self.charge(topology, gpus);
        let price = charge.usd_per_gpu_hour;
        let metrics = &mut variant.metrics;
        metrics.kw = Some(charge.kw(1.0));
        metrics.kw_whole = Some(charge.kw_whole(1.0));
        metrics.usd_per_gpu_hour = Some(price);
        metrics.usd_per_hour = Some(charge.usd_per_hour());
        if let Some(served) = variant.job.serving() {
            let at_work: f64 = served
                .pools
                .iter()
                .map(|pool| pool.busy_share * f64::from(pool.engines * pool.gpus_per_engine))
                .sum();
            let busy = at_work / charge.gpus.max(1.0);
            let tokens = served.output_tokens_per_s * 3600.0 / 1e6;
            let per_mtok = |hourly: Option<f64>| {
                let hourly = hourly.filter(|_| tokens > 0.0);
                Some(hourly.map(|hourly| hourly / tokens))
            };
            metrics.kwh_per_mtok = per_mtok(charge.kw(busy));
            metrics.kwh_per_mtok_whole = per_mtok(charge.kw_whole(busy));
            metrics.usd_per_mtok = per_mtok(charge.usd_per_hour());
            metrics.usd_per_mtok_whole = per_mtok(charge.usd_per_hour_whole());
            return;
        }
        let Some(ran) = variant.job.training().and_then(|job| job.ran()) else {
            return;
        };
        let hours = ran.step_s / 3600.0;
        let busy = computing(ran);
        let mtok = ran.tokens as f64 / 1e6;
        let step = |hourly: Option<f64>| hourly.map(|hourly| hourly * hours);
        let per_mtok = |hourly: Option<f64>| Some(step(hourly).map(|step| step / mtok));
        metrics.kwh_per_step = Some(step(charge.kw(busy)));
        metrics.kwh_per_mtok = per_mtok(charge.kw(busy));
        metrics.kwh_per_mtok_whole = per_mtok(charge.kw_whole(busy));
        metrics.usd_per_step = Some(step(charge.usd_per_hour()));
        metrics.usd_per_mtok_whole = per_mtok(charge.usd_per_hour_whole());
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
    let computing = shares.filter(|share| share.kind.is_computing());
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
