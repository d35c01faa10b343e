//! What every kind of job does alike: an implementation a kind, beside its run.

use super::error::ScenarioError;
use super::tariff::Tariff;
use super::training::Counted;
use super::watch::Watch;
use fabricsim_budget::Budget;
use fabricsim_report::telemetry::Telemetry;
use fabricsim_report::{Output, Outputs, Recording, Summary, Variant};
use fabricsim_topology::{DeviceId, Topology};

/// How jobs are run.
#[derive(Clone, Copy)]
pub(crate) struct Ctx<'c> {
    /// Of every random choice.
    pub(crate) seed: u64,
    /// What a run may use.
    pub(crate) budget: &'c Budget,
    /// What is needed for them is recorded.
    pub(crate) outputs: &'c Outputs,
}

/// A variant that ran.
pub(crate) struct JobRun {
    /// What came of it.
    pub(crate) variant: Variant,
    /// What happened when, if that was asked for and it came to its end.
    pub(crate) recorded: Option<Recording>,
    /// What monitoring would have shown, likewise.
    pub(crate) telemetry: Option<Telemetry>,
    /// What is not as the scenario may lead to expect.
    pub(crate) warnings: Vec<String>,
    /// What training counted, to say why a variant is no faster.
    pub(crate) counted: Option<Counted>,
}

impl JobRun {
    /// Of a job that records nothing.
    pub(crate) fn of(variant: Variant) -> Self {
        JobRun {
            variant,
            recorded: None,
            telemetry: None,
            warnings: Vec::new(),
            counted: None,
        }
    }
}

/// A checked job on its machine.
pub(crate) trait JobKind {
    /// The machine.
    fn topology(&self) -> &Topology;

    /// The GPUs that take part, each once.
    fn gpus(&self) -> Vec<DeviceId>;

    /// Of a machine from a file of another program: what was assumed, left out or read otherwise than it looks.
    fn notes(&self) -> &[String];

    /// These, what is odd about the machine, and about NCCL's variables.
    fn warnings(&self) -> &[String];

    /// Runs it. `so_far` is the summary of the whole run as far as it is known, for `watch`.
    ///
    /// # Errors
    /// What NCCL refuses, a simulation that stalls, more than the memory of the budget holds, or what `watch` gives.
    /// A job that hangs is a result, not an error.
    fn run(
        &self,
        name: &str,
        ctx: Ctx<'_>,
        so_far: &Summary,
        watch: &mut dyn Watch,
    ) -> Result<JobRun, ScenarioError>;

    /// Adds what running it takes: power, energy and money.
    fn charge(&self, tariff: &Tariff, ran: &mut Variant) {
        tariff.add_to(ran, (self.topology(), &self.gpus()));
    }
}

/// That a job of this kind has no series, if they are asked for.
pub(crate) fn no_series(outputs: &Outputs, kind: &str) -> Option<String> {
    let asked = outputs.has(Output::Telemetry);
    asked.then(|| {
        format!(
            "No telemetry: a job of the kind `{kind}` has no timeline; collective, training, serving and \
             concurrent jobs have"
        )
    })
}
