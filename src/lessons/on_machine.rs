//! The page of `explain -t`: algorithms side by side on a machine, as NCCL would run them there.

use super::explained::{Beside, time};
use super::simulated::{Drawings, heat, simulated};
use super::{ExplainAlgorithm, LessonError};
use fabricsim_budget::Budget;
use fabricsim_collective::Collective;
use fabricsim_experiment::{
    CollectiveSpec, EnvValue, JobSpec, Scenario, ScenarioSpec, SizesSpec, TopologyRef,
};
use fabricsim_nccl::Algorithm;
use fabricsim_report::lesson::{Lesson, Position, Shown};
use fabricsim_report::numbers::size;
use fabricsim_units::Bytes;

/// What a page of a machine shows.
const COLD: &str = "One cold operation each, as `fabricsim collective --isolated` simulates it: with NCCL's protocols, its kernels' launch, and the machine's links.";

/// Algorithms on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineSpec {
    /// The machine.
    pub topology: TopologyRef,
    /// Nodes, in place of what it says.
    pub nodes: Option<u32>,
    /// GPUs of each node that take part.
    pub gpus_per_node: Option<u32>,
    /// The collective.
    pub collective: Collective,
    /// The algorithms; NCCL's choice, if there is none.
    pub algorithms: Vec<ExplainAlgorithm>,
    /// Sizes, in order; the knob's positions.
    pub sizes: Vec<Bytes>,
    /// The size that is shown first, an index.
    pub shown: usize,
}

/// Every algorithm at every size, as one cold operation each.
///
/// # Errors
/// Algorithms that NCCL does not have or refuses here, a machine that is none.
pub fn explained_on(spec: &MachineSpec, budget: &Budget) -> Result<Lesson, LessonError> {
    let mut drawings = Drawings::default();
    let mut positions = Vec::new();
    for &bytes in &spec.sizes {
        let mut scenes = Vec::new();
        for (name, algorithm) in named(spec)? {
            let scenario = scenario(spec, algorithm, bytes)?;
            let ran = simulated(scenario, &name, Shown::default(), budget, &mut drawings)?;
            scenes.push(ran.scene);
        }
        positions.push(Position {
            label: size(bytes.get() as f64),
            figures: scenes.iter().map(time).collect(),
            scenes,
        });
    }
    let names = named(spec)?.into_iter().map(|(name, _)| name);
    let beside = Beside {
        collective: spec.collective,
        names: names.collect(),
        positions,
        shown: spec.shown,
        leaves_out: COLD,
    };
    Ok(beside.lesson(drawings, heat()))
}

/// NCCL's algorithms and their names on the page.
fn named(spec: &MachineSpec) -> Result<Vec<(String, Option<Algorithm>)>, LessonError> {
    if spec.algorithms.is_empty() {
        return Ok(vec![("NCCL's choice".to_owned(), None)]);
    }
    let known = spec.algorithms.iter().map(|algorithm| {
        let name = algorithm.name();
        let of_nccl = Algorithm::ALL
            .into_iter()
            .find(|known| known.name() == name);
        let of_nccl = of_nccl.ok_or(LessonError::NotOfNccl(name))?;
        Ok((name.to_owned(), Some(of_nccl)))
    });
    known.collect()
}

fn scenario(
    spec: &MachineSpec,
    algorithm: Option<Algorithm>,
    bytes: Bytes,
) -> Result<Scenario, LessonError> {
    let job = JobSpec::Collective(Box::new(CollectiveSpec {
        comment: None,
        name: spec.collective,
        sizes: SizesSpec {
            list: Some(vec![bytes]),
            ..SizesSpec::default()
        },
        algorithm,
        algorithm_file: None,
        matrix: None,
        protocol: None,
        registered: None,
        unregistered: Vec::new(),
        cuda_graph: false,
        isolated: true,
        why: false,
        trace: None,
    }));
    let name = spec.collective.name().to_owned();
    let mut scenario = ScenarioSpec::new(name, spec.topology.clone(), job);
    scenario.nodes = spec.nodes;
    scenario.gpus_per_node = spec.gpus_per_node;
    // Switches that add up have to be asked for.
    let collnet = [Algorithm::CollnetDirect, Algorithm::CollnetChain];
    if algorithm.is_some_and(|algorithm| collnet.contains(&algorithm)) {
        let on = ("NCCL_COLLNET_ENABLE".to_owned(), EnvValue("1".to_owned()));
        scenario.environment.extend([on]);
    }
    let json = serde_json::to_value(&scenario).map_err(LessonError::Steps)?;
    Ok(Scenario {
        spec: scenario,
        json,
        origin: "command line".to_owned(),
    })
}
