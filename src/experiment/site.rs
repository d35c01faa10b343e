//! Where a job runs: the machine, its GPUs, NCCL's variables, and what goes wrong. The same for every
//! job.

use super::allocation::allocated;
use super::error::ScenarioError;
use super::fallback::mismatches;
use super::refusal::{fault, refusal, refuse};
use super::spec::{ScenarioSpec, TopologyRef};
use fabricsim_fault::{Because, FallTo, FaultError, FaultKind, Faults};
use fabricsim_nccl::{
    Communicator, Env, GraphFile, NcclError, Net, Registration, over_sockets, socket_warnings,
    unknown_interfaces,
};
use fabricsim_topology::{
    DeviceId, Fault, Finding, Mtu, Overrides, Topology, TopologyError, catalogue, expand_and_check,
    load,
};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A machine, and what is worth knowing of it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) topology: Arc<Topology>,
    findings: Vec<Finding>,
    /// Of a file of another program: what was assumed.
    notes: Vec<String>,
}

/// A machine with the GPUs that take part, NCCL's variables and what goes wrong.
pub(crate) struct Site {
    pub(crate) topology: Arc<Topology>,
    /// Of a file of another program: what was assumed.
    pub(crate) notes: Vec<String>,
    /// These, what is odd about the machine and about NCCL's variables.
    pub(crate) warnings: Vec<String>,
    /// The GPU of each rank.
    pub(crate) gpus: Vec<DeviceId>,
    pub(crate) faults: Faults,
    pub(crate) env: Env,
}

/// Where a scenario is read.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    /// Relative paths start here.
    pub(crate) folder: &'a Path,
    /// For messages.
    pub(crate) origin: &'a str,
    /// Machines that are built already.
    pub(crate) machines: &'a Machines,
}

/// Machines that several jobs run on, each built once. Those that were asked for last are kept.
#[derive(Debug, Default)]
pub struct Machines {
    built: Mutex<Vec<(String, Arc<Machine>)>>,
}

/// So many machines are kept: large ones take much memory.
const MAX_MACHINES: usize = 8;

impl Machines {
    /// That of a scenario.
    ///
    /// # Errors
    /// What is wrong with its topology.
    pub(crate) fn of(
        &self,
        spec: &ScenarioSpec,
        folder: &Path,
        origin: &str,
    ) -> Result<Arc<Machine>, ScenarioError> {
        let frames = spec.mtu.map(|mtu| (mtu, sockets_asked(spec)));
        let key = format!("{:?} {:?} {frames:?} {folder:?}", spec.topology, spec.nodes);
        // A list of pointers is never half changed.
        let built = || self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let mut built = built();
            let place = built.iter().position(|(known, _)| *known == key);
            place.map(|place| {
                // What was asked for last stands last.
                let found = built.remove(place);
                let machine = Arc::clone(&found.1);
                built.push(found);
                machine
            })
        };
        if let Some(machine) = known {
            return Ok(machine);
        }
        let mut machine = machine(&spec.topology, spec.nodes, folder, origin)?;
        if let Some((mtu, env)) = frames {
            machine.set_mtu(mtu, &env, origin)?;
        }
        let machine = Arc::new(machine);
        let mut built = built();
        if built.len() >= MAX_MACHINES {
            built.remove(0);
        }
        built.push((key, Arc::clone(&machine)));
        Ok(machine)
    }
}

/// Variables of NCCL by which bytes may go over sockets. Wrong ones are told where they are read.
fn sockets_asked(spec: &ScenarioSpec) -> Env {
    let names = ["NCCL_NET", "NCCL_IB_DISABLE"];
    let variables = spec.environment.iter();
    let asked = variables.filter(|(name, _)| names.contains(&name.as_str()));
    let env = Env::parse(asked.map(|(name, value)| (name.as_str(), value.0.as_str())));
    let mut env = env.unwrap_or_default();
    let falls = spec.faults.0.iter().filter_map(|kind| match kind {
        FaultKind::Fallback(fall) => fall.to.or(fall.because.map(Because::to)),
        _ => None,
    });
    if falls.into_iter().any(|to| to != FallTo::Staged) {
        env.net = Net::Sockets;
    }
    env
}

impl Machine {
    /// Gives its networks frames of another size.
    fn set_mtu(&mut self, mtu: Mtu, env: &Env, origin: &str) -> Result<(), ScenarioError> {
        let tcp = over_sockets(&self.topology, env);
        let topology = Arc::make_mut(&mut self.topology);
        if topology.set_mtu(mtu, tcp) {
            return Ok(());
        }
        let expected = "a machine with a network of InfiniBand, RoCE or TCP; what headers take of others \
                        is in their links' `keeps` as a whole";
        let wrong = fault("mtu", mtu.bytes().to_string(), expected);
        Err(refusal(origin, vec![wrong]))
    }

    /// The machine with what the scenario says of it.
    ///
    /// # Errors
    /// More GPUs than a node has, faults of what is not there.
    pub(crate) fn with(
        &self,
        spec: &ScenarioSpec,
        mut env: Env,
        origin: &str,
    ) -> Result<Site, ScenarioError> {
        let Machine {
            topology,
            findings,
            notes,
        } = self;
        env.warnings.extend(unknown_interfaces(topology, &env));
        env.warnings.extend(socket_warnings(topology, &env));
        let mut gpus = gpus(topology, spec.gpus_per_node, origin)?;
        if let Some(allocation) = &spec.allocation {
            gpus = allocated(topology, gpus, (allocation, spec.seed), origin)?;
        }
        let faults = Faults::resolve(&spec.faults, topology, &gpus, spec.seed)
            .map_err(|FaultError { problems }| refusal(origin, problems))?;
        refuse(origin, mismatches(&faults, &env, (topology, &gpus)))?;
        let warnings = notes
            .iter()
            .cloned()
            .chain(findings.iter().map(ToString::to_string))
            .chain(env.warnings.iter().cloned())
            .chain(env.warnings_of_making.iter().cloned());
        Ok(Site {
            warnings: warnings.collect(),
            topology: Arc::clone(topology),
            notes: notes.clone(),
            gpus,
            faults,
            env,
        })
    }
}

/// The site of a scenario whose processes have no variables of their own.
///
/// # Errors
/// What is wrong with its environment, its topology, its GPUs or its faults.
pub(crate) fn site(spec: &ScenarioSpec, at: At<'_>) -> Result<Site, ScenarioError> {
    let At { folder, origin, .. } = at;
    let mut faults = Vec::new();
    let env = environment(spec, None, (folder, origin), &mut faults)?;
    refuse(origin, faults)?;
    at.machines
        .of(spec, folder, origin)?
        .with(spec, env, origin)
}

/// A topology as its own file has it.
///
/// # Errors
/// What is wrong with it.
pub fn machine_of(
    topology: &TopologyRef,
    folder: &Path,
    origin: &str,
) -> Result<Arc<Topology>, TopologyError> {
    resized(topology, None, folder, origin)
}

/// A topology with so many nodes in place of what its file says.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn resized(
    topology: &TopologyRef,
    nodes: Option<u32>,
    folder: &Path,
    origin: &str,
) -> Result<Arc<Topology>, TopologyError> {
    Ok(machine(topology, nodes, folder, origin)?.topology)
}

/// The machine of a scenario.
fn machine(
    topology: &TopologyRef,
    nodes: Option<u32>,
    folder: &Path,
    origin: &str,
) -> Result<Machine, TopologyError> {
    let read;
    let mut notes = Vec::new();
    let (spec, name) = match topology {
        TopologyRef::Name(name) => {
            read = catalogue::find(name).map_err(|e| e.at(origin, "topology.name"))?;
            (&read, name.clone())
        }
        TopologyRef::Path(path) => {
            let path = folder.join(path);
            let found = load::read(&path)?;
            (read, notes) = (found.spec, found.notes);
            (&read, path.display().to_string())
        }
        TopologyRef::Inline(spec) => (&**spec, format!("{origin}, topology.inline")),
    };
    let (topology, findings) = expand_and_check(spec, catalogue::hardware(), &Overrides { nodes })
        .map_err(|error| match nodes {
            Some(nodes) => error.with_origin(&format!("{origin}, with {nodes} nodes of {name}")),
            None => error.with_origin(&name),
        })?;
    Ok(Machine {
        topology: Arc::new(topology),
        findings,
        notes,
    })
}

/// The GPUs of a scenario, by rank.
///
/// # Errors
/// A node with fewer.
fn gpus(
    topology: &Topology,
    gpus_per_node: Option<u32>,
    origin: &str,
) -> Result<Vec<DeviceId>, ScenarioError> {
    Communicator::gpus_of(topology, gpus_per_node).map_err(|error| match error {
        NcclError::GpusPerNode { asked, node, has } => {
            let (nodes, all) = (topology.nodes.len(), topology.gpus().count());
            let each = match nodes {
                1 => String::new(),
                _ => format!(
                    ", for each of the {nodes} nodes alike; without it all {all} GPUs take part"
                ),
            };
            let expected = format!("1 to {has}, the GPUs of {node}{each}");
            let wrong = fault("gpus_per_node", asked.to_string(), expected);
            refusal(origin, vec![wrong])
        }
        other => other.into(),
    })
}

/// NCCL's environment of a scenario that is read from `origin` in `folder`.
pub(crate) fn environment(
    spec: &ScenarioSpec,
    registered: Option<Registration>,
    (folder, origin): (&Path, &str),
    faults: &mut Vec<Fault>,
) -> Result<Env, ScenarioError> {
    let variables = spec.environment.iter();
    let mut env = Env::parse(variables.map(|(name, value)| (name.as_str(), value.0.as_str())))
        .map_err(|error| error.in_file(&format!("{origin}, at environment.")))?;
    env.register(registered.or(spec.registered));
    if let Some(path) = &env.graph_file {
        let path = folder.join(path);
        let text = load::read_text(&path).map_err(|error| NcclError::Env {
            name: "NCCL_GRAPH_FILE".into(),
            value: path.display().to_string(),
            problem: error.to_string(),
        })?;
        env.graph = Some(GraphFile::parse(&text, &path.display().to_string())?);
    }
    env.binding = spec.host.unwrap_or_default().binding;
    match spec.ranks_per_process {
        None => {}
        Some(0) => faults.push(fault("ranks_per_process", "0".into(), "1 or more")),
        Some(ranks) => env.ranks_per_process = ranks,
    }
    if let Some(text) = &spec.nccl_version {
        match text.parse() {
            Ok(version) => env.version = version,
            Err(_) => faults.push(fault(
                "nccl_version",
                format!("`{text}`"),
                "a release of NCCL from 2.12 on, such as 2.27 or 2.29.7",
            )),
        }
    }
    Ok(env)
}
