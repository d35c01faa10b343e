//! `fabricsim topology`: machines to look at.

mod asked;
mod cost;
mod paths;
mod show;

use super::examples::{Examples, examples};
use super::{CliError, output, terminal};
use asked::{CHECK, DRAW, EXPORT, IMPORT, LIST, NEW, PATHS, SHOW};
use clap::{Subcommand, ValueEnum};
use fabricsim_report::write_file;
use fabricsim_topology::compact::{Changes, compact};
use fabricsim_topology::import::{self, ImportOptions};
use fabricsim_topology::{
    NodeId, Overrides, Topology, TopologySpec, catalogue, check, draw, expand, export, load,
};
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    ("Which machines are shipped?", "fabricsim topology list"),
    (
        "What is a DGX H100 made of?",
        "fabricsim topology show dgx-h100",
    ),
    (
        "What does a smaller network look like?",
        "fabricsim topology new superpod-h100 -n 64 --oversubscription 2 -o mine.json\n\
         fabricsim topology show mine.json",
    ),
];

/// Lists, shows, checks, draws, exports and makes machines.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// A machine.
#[derive(Debug, clap::Args)]
struct Machine {
    /// A shipped topology (see `topology list`) or a topology file
    #[arg(value_name = "NAME|FILE")]
    topology: String,
    /// Nodes, in place of what the topology says
    #[arg(short, long)]
    nodes: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the shipped topologies
    #[command(after_long_help = examples(&LIST))]
    List,
    /// Shows what a machine is made of: devices, links and their rates, fabrics
    #[command(after_long_help = examples(&SHOW))]
    Show(Machine),
    /// Counts a machine's parts, with what they draw and cost
    ///
    /// Servers, switches, cables and transceivers, each with its watts and its price, their sources,
    /// and the sums. What no file says is unknown: `topology new NAME --set …` writes a file in which
    /// it can be put in.
    Cost(cost::Cost),
    /// Checks a topology; exits with 2 if it is not a machine
    #[command(after_long_help = examples(&CHECK))]
    Check(Machine),
    /// Draws a machine
    #[command(after_long_help = examples(&DRAW))]
    Draw {
        #[command(flatten)]
        machine: Machine,
        /// The file, in place of standard output
        #[arg(short, long, value_name = "FILE", value_parser = output::file_ending_in(&["svg", "dot"]))]
        output: Option<PathBuf>,
        /// A picture, or text for Graphviz [default: as the file's name ends, or svg]
        #[arg(long, value_enum)]
        format: Option<Drawing>,
    },
    /// Shows the paths inside a node as `nvidia-smi topo -m` and as NCCL sees them, or the
    /// links between two devices
    #[command(after_long_help = examples(&PATHS))]
    Paths {
        #[command(flatten)]
        machine: Machine,
        /// From this device: `node0/gpu3` (or `gpu3` for one of the first node) …
        #[arg(value_name = "A", requires = "to")]
        from: Option<String>,
        /// … to that one
        #[arg(value_name = "B")]
        to: Option<String>,
        /// The seed of paths that are chosen by a hash
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Makes a topology file of NCCL's topology XML (NCCL_TOPO_DUMP_FILE) or of what
    /// `nvidia-smi topo -m` prints
    #[command(after_long_help = examples(&IMPORT))]
    Import {
        /// The file; its format is found out
        file: PathBuf,
        /// The topology file, in place of standard output
        #[arg(short, long, value_name = "FILE", value_parser = output::file_ending_in(&["json"]))]
        output: Option<PathBuf>,
        /// What to call the topology, in place of the file's name
        #[arg(long)]
        name: Option<String>,
        /// The model of all GPUs, in place of what the file tells of them
        #[arg(long, value_name = "MODEL")]
        gpu: Option<String>,
        /// NVLinks of each GPU to an NVSwitch, for XML that names none
        #[arg(long, value_name = "COUNT")]
        nvlinks: Option<u32>,
    },
    /// Makes a topology file of a shipped one, in its compact form, with values of your own
    ///
    /// Components, instances with their count and fabrics with their shape stay as they are in
    /// the shipped file, so that it can be edited and takes any number of nodes.
    #[command(after_long_help = examples(&NEW))]
    New {
        /// A shipped topology (see `topology list`)
        name: String,
        /// Puts a value into the file: `--set fabrics.compute.routing=ecmp`; may be repeated
        #[arg(long, value_name = "PATH=VALUE")]
        set: Vec<String>,
        /// Nodes, as counts of the file's instances
        #[arg(short, long)]
        nodes: Option<u32>,
        /// Ports down : up of each leaf: 2 halves what leaves the leaves, 1 is non-blocking
        #[arg(long, value_name = "RATIO")]
        oversubscription: Option<f64>,
        /// The file, in place of standard output
        #[arg(short, long, value_name = "FILE", value_parser = output::file_ending_in(&["json"]))]
        output: Option<PathBuf>,
        /// Writes over a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Writes the whole machine, repetitions expanded, in another form
    #[command(after_long_help = examples(&EXPORT))]
    Export {
        #[command(flatten)]
        machine: Machine,
        /// The file, in place of standard output
        #[arg(short, long, value_name = "FILE", value_parser = output::file_ending_in(&["json", "dot", "xml"]))]
        output: Option<PathBuf>,
        /// A topology file that gives the same machine, text for Graphviz, or the first node
        /// as NCCL's topology XML or as `nvidia-smi topo -m` prints it [default: as the file's
        /// name ends, or json]
        #[arg(long, value_enum)]
        format: Option<Format>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Drawing {
    Svg,
    Dot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Dot,
    NcclXml,
    Smi,
}

impl Machine {
    /// The machine; what was assumed of a file of another program is said.
    fn load(&self, quiet: bool) -> Result<Topology, CliError> {
        let found = self.find(quiet)?;
        let overrides = Overrides { nodes: self.nodes };
        Ok(expand(&found, catalogue::hardware(), &overrides)
            .map_err(|error| error.with_origin(&self.topology))?)
    }

    fn find(&self, quiet: bool) -> Result<TopologySpec, CliError> {
        let found = load::find(&self.topology)?;
        if !quiet {
            terminal::notes(&found.notes);
        }
        Ok(found.spec)
    }
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    match &args.command {
        Command::List => list(),
        Command::Show(machine) => Ok(terminal::print(&show::show(&machine.load(quiet)?))?),
        Command::Cost(cost) => cost.run(quiet),
        Command::Check(machine) => check_machine(machine, quiet),
        Command::Draw {
            machine,
            output,
            format,
        } => {
            let endings = [("svg", Drawing::Svg), ("dot", Drawing::Dot)];
            let format = format_of(*format, output.as_deref(), &endings)?;
            let topology = machine.load(quiet)?;
            let text = match format {
                Drawing::Svg => draw::svg(&topology, &draw::Style::default()),
                Drawing::Dot => draw::dot(&topology),
            };
            put(&text, output.as_deref())
        }
        Command::Paths {
            machine,
            from,
            to,
            seed,
        } => {
            let topology = machine.load(quiet)?;
            let text = match (from, to) {
                (Some(from), Some(to)) => paths::between(&topology, from, to, *seed)?,
                _ => paths::matrix(&topology),
            };
            Ok(terminal::print(&text)?)
        }
        Command::New {
            name,
            set,
            nodes,
            oversubscription,
            output,
            force,
        } => {
            let changes = Changes {
                nodes: *nodes,
                oversubscription: *oversubscription,
                set: set.clone(),
            };
            let text = compact(name, &changes)?;
            match output {
                None => Ok(terminal::print(&text)?),
                Some(path) => output::write_new(path, &text, *force),
            }
        }
        Command::Export {
            machine,
            output,
            format,
        } => {
            let endings = [
                ("json", Format::Json),
                ("dot", Format::Dot),
                ("xml", Format::NcclXml),
            ];
            let format = format_of(*format, output.as_deref(), &endings)?;
            let topology = machine.load(quiet)?;
            let text = match format {
                Format::Json => export::to_json(&export::export(&topology)),
                Format::Dot => draw::dot(&topology),
                Format::NcclXml => export::nccl_xml(&topology, NodeId(0))?,
                Format::Smi => export::smi(&topology, NodeId(0)),
            };
            put(&text, output.as_deref())
        }
        Command::Import {
            file,
            output,
            name,
            gpu,
            nvlinks,
        } => {
            let options = ImportOptions {
                gpu: gpu.clone(),
                nvlinks: *nvlinks,
            };
            let name = name.clone().unwrap_or_else(|| import::name_of(file));
            if !import::is_name(&name) {
                return Err(CliError::Usage(format!(
                    "--name `{name}`: expected letters, digits, `-`, `_` and `.`, the first a \
                     letter or digit, at most 100"
                )));
            }
            import_file(file, &name, &options, output.as_deref(), quiet)
        }
    }
}

fn import_file(
    file: &Path,
    name: &str,
    options: &ImportOptions,
    output: Option<&Path>,
    quiet: bool,
) -> Result<(), CliError> {
    let text = load::read_text(file)?;
    let origin = file.display().to_string();
    let hardware = catalogue::hardware();
    let imported = import::import(&text, name, &origin, options, hardware)?;
    // A file that is no machine is told of now, not when it is used.
    expand(&imported.spec, hardware, &Overrides::default())
        .map_err(|error| error.with_origin(&origin))?;
    if !quiet {
        terminal::notes(&imported.notes);
    }
    put(&export::to_json(&imported.spec), output)
}

/// The format that was asked for, or that of the file's ending; the first one if neither says.
fn format_of<F: ValueEnum + PartialEq>(
    asked: Option<F>,
    file: Option<&Path>,
    endings: &[(&str, F)],
) -> Result<F, CliError> {
    let name = |format: &F| {
        let value = format.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    };
    let by_name = file.and_then(output::ending).and_then(|ending| {
        let mut endings = endings.iter();
        endings
            .find(|known| known.0 == ending)
            .map(|known| &known.1)
    });
    match (asked, by_name) {
        (Some(asked), Some(by_name)) if asked != *by_name => Err(CliError::Usage(format!(
            "--format {} goes not into {}, whose name says {}; expected another name or format",
            name(&asked),
            file.unwrap_or(Path::new("")).display(),
            name(by_name)
        ))),
        (Some(asked), _) => Ok(asked),
        (None, by_name) => Ok(by_name.unwrap_or(&endings[0].1).clone()),
    }
}

fn put(text: &str, file: Option<&Path>) -> Result<(), CliError> {
    match file {
        Some(file) => Ok(write_file(file, text.as_bytes())?),
        None => Ok(terminal::print(text)?),
    }
}

fn list() -> Result<(), CliError> {
    let width = catalogue::names().map(str::len).max().unwrap_or(0);
    let mut text = String::new();
    for name in catalogue::names() {
        let spec = catalogue::find(name)?;
        text += &format!("{name:<width$}  {}\n", spec.title);
    }
    Ok(terminal::print(&text)?)
}

fn check_machine(machine: &Machine, quiet: bool) -> Result<(), CliError> {
    let spec = machine.find(quiet)?;
    let overrides = Overrides {
        nodes: machine.nodes,
    };
    let topology = expand(&spec, catalogue::hardware(), &overrides)
        .map_err(|error| error.with_origin(&machine.topology))?;
    let findings = check(&topology);
    let mut text = String::new();
    for finding in &findings {
        text += &format!("{finding}\n");
    }
    text += &format!(
        "{}: a machine of {} devices and {} links, {}\n",
        machine.topology,
        topology.device_count(),
        topology.link_count(),
        match findings.len() {
            0 => "nothing to remark".to_owned(),
            1 => "1 warning".to_owned(),
            n => format!("{n} warnings"),
        }
    );
    Ok(terminal::print(&text)?)
}
