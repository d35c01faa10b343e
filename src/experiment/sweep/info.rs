//! What a sweep's folder says of it.

use super::points::Sweep;
use crate::error::ScenarioError;
use crate::refusal::{fault, refusal};
use crate::site::Machines;
use fabricsim_report::sweep::{Shard, SweepInfo};
use fabricsim_report::{FORMAT, Metrics};
use fabricsim_topology::Fault;
use fabricsim_topology::error::nearest;
use serde_json::json;

impl Sweep {
    /// What its folder says of it; `program` is the build that runs it. Every value is put into its place once, so that
    /// those that have none are found before anything runs.
    ///
    /// # Errors
    /// Values that have no place in their scenario, an objective that is no metric, a plot of what is no
    /// axis or metric.
    pub fn info(
        &self,
        shard: Option<Shard>,
        machines: &Machines,
        (origin, program): (&str, &str),
    ) -> Result<SweepInfo, ScenarioError> {
        let spec = &self.spec;
        if let Some(name) = &spec.objective
            && !Metrics::names().any(|known| known == name)
        {
            let wrong = Fault {
                nearest: nearest(name, Metrics::names()),
                ..fault("objective", format!("`{name}`"), "the name of a metric")
            };
            return Err(refusal(origin, vec![wrong]));
        }
        if let Some(plot) = &spec.plot
            && let Err(wrong) = plot.check(&self.axes)
        {
            let known = wrong.known.iter().map(String::as_str);
            let found = format!("`{}`", wrong.name);
            let wrong = Fault {
                nearest: nearest(&wrong.name, known),
                ..fault(&format!("plot.{}", wrong.part), found, wrong.expected)
            };
            return Err(refusal(origin, vec![wrong]));
        }
        let digest = self.digest(machines)?;
        Ok(SweepInfo {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program: program.to_owned(),
            name: spec.name.clone(),
            title: spec.title.clone().unwrap_or_else(|| spec.name.clone()),
            digest,
            points: self.points.len() as u32,
            axes: self.axes.clone(),
            objective: match &spec.objective {
                Some(name) => name.clone(),
                None => self.natural_objective(machines).to_owned(),
            },
            shard,
            spec: json!(spec),
        })
    }

    /// By what jobs of the first point's kind are judged.
    fn natural_objective(&self, machines: &Machines) -> &'static str {
        let first = self.points.first();
        let first = first.and_then(|point| self.scenario(point, machines).ok());
        first.map_or("time_us", |scenario| scenario.spec.job.objective())
    }
}
