//! What an engineer calls: one collective measured, or a whole scenario run.

use fabricsim_budget::Budget;
use fabricsim_collective::Collective;
use fabricsim_experiment::{
    CollectiveSpec, EnvValue, JobSpec, Scenario, ScenarioError, ScenarioSpec, Silent, SizesSpec,
    TopologyRef, ValidExperiment, Watch, catalogue, parse, run, validate,
};
use fabricsim_nccl::Algorithm;
use fabricsim_plan::ProtocolKind;
use fabricsim_report::record::Row;
use fabricsim_report::{Outputs, Results, Summary};
use fabricsim_units::{Bandwidth, Bytes, Time};
use std::collections::BTreeMap;
use std::path::Path;

/// One collective on one machine, as nccl-tests would time it: what [`measure`] is asked.
///
/// [`Measure::new`] has NCCL's own choice on the whole machine; other fields are set by name.
#[derive(Debug, Clone)]
pub struct Measure {
    /// The machine: a shipped name, a file, or the topology itself.
    pub machine: TopologyRef,
    /// So many nodes in place of what the topology says.
    pub nodes: Option<u32>,
    /// So many GPUs of each node; all of them if absent.
    pub gpus_per_node: Option<u32>,
    /// Which collective.
    pub collective: Collective,
    /// The sizes, as nccl-tests counts them.
    pub sizes: Vec<Bytes>,
    /// The algorithm, in place of NCCL's choice.
    pub algorithm: Option<Algorithm>,
    /// The protocol, in place of NCCL's choice.
    pub protocol: Option<ProtocolKind>,
    /// NCCL's environment variables.
    pub environment: BTreeMap<String, String>,
    /// Processors and memory that it may use; as many and as much as there are by default.
    pub budget: Budget,
}

impl Measure {
    /// A collective at some sizes on a machine. Text is the name of a shipped machine or the path of a
    /// topology file; a [`TopologySpec`](fabricsim_topology::TopologySpec) is a machine of one's own.
    #[must_use]
    pub fn new(
        machine: impl Into<TopologyRef>,
        collective: Collective,
        sizes: impl Into<Vec<Bytes>>,
    ) -> Self {
        Measure {
            machine: machine.into(),
            nodes: None,
            gpus_per_node: None,
            collective,
            sizes: sizes.into(),
            algorithm: None,
            protocol: None,
            environment: BTreeMap::new(),
            budget: Budget::default(),
        }
    }

    /// The scenario that says the same.
    fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let sizes = SizesSpec {
            list: Some(self.sizes.clone()),
            ..SizesSpec::default()
        };
        let job = CollectiveSpec {
            algorithm: self.algorithm,
            protocol: self.protocol,
            ..CollectiveSpec::new(self.collective, sizes)
        };
        let variables = self.environment.iter();
        let name = self.collective.name().to_owned();
        let job = JobSpec::Collective(Box::new(job));
        let spec = ScenarioSpec {
            nodes: self.nodes,
            gpus_per_node: self.gpus_per_node,
            environment: variables
                .map(|(name, value)| (name.clone(), EnvValue(value.clone())))
                .collect(),
            ..ScenarioSpec::new(name, self.machine.clone(), job)
        };
        Scenario::of(spec, "measure")
    }
}

/// What [`measure`] finds.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredCollective {
    /// Sizes in the order in which they were asked for.
    pub sizes: Vec<MeasuredSize>,
    /// All that is known beside: the ranks, what limits each size, warnings. The same as `summary.json`.
    pub summary: Summary,
}

/// One size of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredSize {
    /// The size, as nccl-tests rounds it; 0 where that leaves nothing to move.
    pub size: Bytes,
    /// What nccl-tests times: what one more operation adds when they are issued back to back.
    pub time: Time,
    /// Size over time.
    pub algorithm_bandwidth: Bandwidth,
    /// That times nccl-tests' factor of the collective, to be compared with what links carry.
    pub bus_bandwidth: Bandwidth,
    /// The algorithm that ran; nothing where nothing moves.
    pub algorithm: Option<Algorithm>,
    /// The protocol that ran, likewise.
    pub protocol: Option<ProtocolKind>,
    /// Thread blocks of each rank.
    pub channels: u32,
    /// No algorithm can be faster on this machine.
    pub bound: Time,
}

impl MeasuredSize {
    /// A row of the summary with its units.
    fn of(row: &Row) -> Self {
        // Rows have whole picoseconds as a decimal fraction; what is no number becomes 0.
        let time = |micros: f64| Time::from_picos((micros * 1e6).round() as u64);
        let rate = |gbs: f64| Bandwidth::from_bytes_per_sec((gbs * 1e9).round() as u64);
        let mut algorithms = Algorithm::ALL.into_iter();
        let mut protocols = ProtocolKind::ALL.into_iter();
        MeasuredSize {
            size: Bytes::new(row.bytes),
            time: time(row.time_us),
            algorithm_bandwidth: rate(row.algbw_gbs),
            bus_bandwidth: rate(row.busbw_gbs),
            algorithm: algorithms.find(|known| known.name() == row.algo),
            protocol: protocols.find(|known| known.name() == row.proto),
            channels: row.channels,
            bound: time(row.bound_us),
        }
    }
}

/// Times a collective on a machine, size by size, without running anything on real hardware.
///
/// # Errors
/// A machine that is not known or not valid, sizes that are none or do not fit a GPU, what NCCL refuses,
/// more memory than the budget has.
///
/// # Examples
/// NCCL's choice for 64 MiB on one DGX H100, and what rings alone would do:
///
/// ```
/// use fabricsim::{Algorithm, Bytes, Collective, Measure, measure};
///
/// # fn main() -> Result<(), fabricsim::ScenarioError> {
/// let asked = Measure::new("dgx-h100", Collective::AllReduce, [Bytes::from_mib(64)]);
/// let rings = Measure {
///     algorithm: Some(Algorithm::Ring),
///     ..asked.clone()
/// };
/// let (chosen, rings) = (measure(&asked)?.sizes[0], measure(&rings)?.sizes[0]);
/// assert_eq!(chosen.algorithm, Some(Algorithm::Nvls));
/// assert!(chosen.time < rings.time && chosen.time >= chosen.bound);
/// println!("{} in place of {}", chosen.time.human(), rings.time.human());
/// # Ok(())
/// # }
/// ```
///
/// What is wrong is an error that says what was expected:
///
/// ```
/// use fabricsim::{Bytes, Collective, Measure, measure};
///
/// let asked = Measure::new("dgx-h1000", Collective::AllReduce, [Bytes::from_mib(1)]);
/// let error = measure(&asked).unwrap_err();
/// assert!(error.to_string().contains("did you mean `dgx-h100`?"));
/// ```
pub fn measure(asked: &Measure) -> Result<MeasuredCollective, ScenarioError> {
    let mut experiment = Experiment::check(asked.scenario()?, Path::new(""))?;
    experiment.budget = asked.budget.clone();
    let summary = experiment.run()?;
    let rows = summary.only_collective().map(|view| &*view.result.rows);
    let sizes = rows.unwrap_or_default().iter().map(MeasuredSize::of);
    Ok(MeasuredCollective {
        sizes: sizes.collect(),
        summary,
    })
}

/// A scenario of any job, checked and ready to run: what `fabricsim run` does, as a value.
///
/// # Examples
/// A scenario as text, with two variants; the summary is that of `summary.json`:
///
/// ```
/// use fabricsim::Experiment;
///
/// # fn main() -> Result<(), fabricsim::ScenarioError> {
/// let experiment = Experiment::parse(
///     r#"{
///         "name": "gather",
///         "topology": { "name": "dgx-a100" },
///         "nodes": 1,
///         "job": { "collective": { "name": "all-gather", "sizes": { "list": ["16MiB"] } } },
///         "variants": [
///             { "name": "as-built" },
///             { "name": "four-gpus", "set": { "gpus_per_node": 4 } }
///         ]
///     }"#,
/// )?;
/// let summary = experiment.run()?;
/// for variant in &summary.variants {
///     println!("{}: {:?} µs", variant.name, variant.metrics.time_us);
/// }
/// assert_eq!(summary.variants[1].gpus, 4);
/// assert_eq!(summary, experiment.run()?);
/// # Ok(())
/// # }
/// ```
///
/// Built as a value:
///
/// ```
/// use fabricsim::Experiment;
/// use fabricsim::collective::Collective;
/// use fabricsim::experiment::{CollectiveSpec, JobSpec, ScenarioSpec, SizesSpec};
///
/// # fn main() -> Result<(), fabricsim::ScenarioError> {
/// let sizes = SizesSpec {
///     from: Some("1KiB".parse().unwrap()),
///     to: Some("1MiB".parse().unwrap()),
///     factor: Some(32),
///     ..SizesSpec::default()
/// };
/// let job = CollectiveSpec::new(Collective::ReduceScatter, sizes);
/// let job = JobSpec::Collective(Box::new(job));
/// let spec = ScenarioSpec::new("scatter".into(), "dgx-h100".into(), job);
/// let summary = Experiment::new(spec)?.run()?;
/// let rows = &summary.only_collective().unwrap().result.rows;
/// assert_eq!(rows.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Experiment {
    /// The scenario with its machines, checked.
    pub checked: ValidExperiment,
    /// Processors and memory that it may use; as many and as much as there are by default.
    pub budget: Budget,
}

impl Experiment {
    /// The scenario of a file, or a shipped one by its name.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown name, or what is wrong with the scenario.
    pub fn open(path_or_name: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let (scenario, folder) = catalogue::find(path_or_name.as_ref(), &[])?;
        Self::check(scenario, &folder)
    }

    /// A scenario's text. Paths in it start at the current folder.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn parse(json: &str) -> Result<Self, ScenarioError> {
        Self::check(parse(json, "the scenario", &[])?, Path::new(""))
    }

    /// A scenario as a value. Paths in it start at the current folder.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn new(spec: ScenarioSpec) -> Result<Self, ScenarioError> {
        Self::check(Scenario::of(spec, "the scenario")?, Path::new(""))
    }

    /// A scenario that was read already; paths in it start at `folder`.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn check(scenario: Scenario, folder: &Path) -> Result<Self, ScenarioError> {
        Ok(Experiment {
            checked: validate(scenario, folder)?,
            budget: Budget::default(),
        })
    }

    /// Runs all variants and compares them. The same experiment gives the same summary, always.
    ///
    /// # Errors
    /// What NCCL refuses, a collective that stalls, more memory than the budget has. A job that hangs or does
    /// not fit is a result, not an error.
    pub fn run(&self) -> Result<Summary, ScenarioError> {
        let results = self.run_for(&Outputs::of([]), &mut Silent)?;
        Ok(results.summary.reproducible())
    }

    /// As [`Experiment::run`], with what files of `outputs` need recorded, for
    /// [`write_results`](fabricsim_report::write_results); `watch` hears of rows as they come. Only how long
    /// simulations took on the wall clock differs from run to run.
    ///
    /// # Errors
    /// As [`Experiment::run`], or what `watch` gives.
    pub fn run_for(
        &self,
        outputs: &Outputs,
        watch: &mut dyn Watch,
    ) -> Result<Results, ScenarioError> {
        run(&self.checked, &self.budget, outputs, watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(machine: &str, sizes: &[u64]) -> Measure {
        let sizes: Vec<Bytes> = sizes.iter().copied().map(Bytes::new).collect();
        Measure::new(machine, Collective::AllGather, sizes)
    }

    /// Types say what `summary.json` says.
    #[test]
    fn sizes_are_the_rows_of_the_summary() {
        let asked = Measure {
            gpus_per_node: Some(4),
            protocol: Some(ProtocolKind::Ll),
            ..one("dgx-a100", &[4, 1 << 20])
        };
        let measured = measure(&asked).unwrap_or_else(|e| panic!("{e}"));
        let rows = &measured.summary.only_collective().unwrap().result.rows;
        assert_eq!(measured.sizes.len(), rows.len());
        let [nothing, large] = measured.sizes[..] else {
            panic!("{:?}", measured.sizes);
        };
        assert_eq!((nothing.size.get(), nothing.algorithm), (0, None));
        assert_eq!(large.size.get(), 1 << 20);
        assert_eq!(large.time.micros(), rows[1].time_us);
        assert_eq!(large.bound.micros(), rows[1].bound_us);
        assert!((large.bus_bandwidth.gb_per_sec() - rows[1].busbw_gbs).abs() < 1e-8);
        assert_eq!(large.bus_bandwidth, large.algorithm_bandwidth.scaled(0.75));
        assert_eq!(large.protocol, Some(ProtocolKind::Ll));
        assert_eq!(large.channels, rows[1].channels);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let none = measure(&one("dgx-a100", &[])).unwrap_err().to_string();
        assert!(none.starts_with("measure"), "{none}");
        assert!(none.contains("job.collective.sizes"), "{none}");
        let most = measure(&one("dgx-a100", &[u64::MAX])).unwrap_err();
        assert!(matches!(most, ScenarioError::Input(_)), "{most}");
        let mut odd = one("dgx-a100", &[1024]);
        odd.environment.insert("NCCL_ALGO".into(), "?".into());
        let odd = measure(&odd).unwrap_err().to_string();
        assert!(odd.contains("NCCL_ALGO"), "{odd}");
        let small = Measure {
            budget: Budget {
                memory: fabricsim_budget::Memory::of(Bytes::new(1)),
                ..Budget::default()
            },
            ..one("dgx-a100", &[1024])
        };
        let small = measure(&small).unwrap_err();
        assert!(matches!(small, ScenarioError::Memory(_)), "{small}");
        for text in ["", "{}", "[1]"] {
            assert!(matches!(
                Experiment::parse(text),
                Err(ScenarioError::Input(_))
            ));
        }
        let unknown = Experiment::open("no-such-scenario").unwrap_err();
        assert!(
            matches!(unknown, ScenarioError::UnknownName { .. }),
            "{unknown}"
        );
    }
}
