//! `fabricsim completions`: scripts that complete the command in a shell.

use super::examples::{Examples, examples};
use super::{Cli, CliError, terminal};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use fabricsim_collective::Collective;
use fabricsim_experiment::sweep::sweep_names;
use fabricsim_experiment::{Because, FallTo, catalogue as scenarios, mistakes};
use fabricsim_lessons::course::lessons;
use fabricsim_topology::catalogue as machines;
use fabricsim_workload::model::presets;

const EXAMPLES: Examples = [
    (
        "What completes in bash? Read this file from ~/.bashrc",
        "fabricsim completions bash > fabricsim.bash",
    ),
    (
        "And in zsh? Put this file into a folder of $fpath",
        "fabricsim completions zsh > _fabricsim",
    ),
    (
        "And in fish? Put this file into ~/.config/fish/completions",
        "fabricsim completions fish > fabricsim.fish",
    ),
];

/// Prints a script that completes commands, flags and names in a shell.
///
/// Names are those of shipped machines, models, scenarios, sweeps and lessons, and those that flags
/// choose from. PowerShell's and Elvish's scripts have commands and flags only.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Which shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut command = with_names(Cli::command(), "");
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "fabricsim", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match args.shell {
        Shell::Bash => script.replace(&format!("{OR_FILE} "), ""),
        Shell::Zsh => zsh(&script),
        Shell::Fish => fish(&script) + &fish_words(&command),
        _ => script.into_owned(),
    };
    Ok(terminal::print(&script)?)
}

/// Stands first among the names of an argument that a file may be, too, until the script is written.
const OR_FILE: &str = "@file";

/// The names that an argument of a command takes, where no parser of it knows them: they are looked up later, where a
/// wrong one is answered with the nearest. Nothing of other arguments.
fn names(command: &str, argument: &str) -> Option<Vec<&'static str>> {
    let file = || [OR_FILE].into_iter();
    let course = || lessons().map(|lesson| lesson.name.as_ref());
    Some(match (command, argument) {
        ("topology new", "name") | ("fit", "without") => machines::names().collect(),
        (_, "topology") => file().chain(machines::names()).collect(),
        ("run", "scenario") => file().chain(scenarios::names()).collect(),
        ("scenario show" | "scenario copy", "name") => scenarios::names().collect(),
        ("sweep run", "target") => {
            let sweeps = file().chain(sweep_names());
            sweeps.chain(scenarios::names()).collect()
        }
        ("sweep copy", "name") => sweep_names().collect(),
        (_, "model") | ("model show", "name") => presets::names().collect(),
        ("optimize", "job") => {
            let models = file().chain(presets::names());
            models.chain(scenarios::names()).collect()
        }
        ("compare", "what") => {
            let collectives = Collective::ALL.iter().map(|collective| collective.name());
            let jobs = scenarios::names().chain(presets::names());
            file().chain(collectives).chain(jobs).collect()
        }
        ("hang", "name") => ["list"]
            .into_iter()
            .chain(mistakes().map(|mistake| mistake.name))
            .collect(),
        ("lesson", "what") => file().chain(["list", "all"]).chain(course()).collect(),
        (_, "fallback") => {
            let ways = FallTo::ALL.iter().map(|way| way.name());
            ways.chain(Because::ALL.iter().map(|why| why.name()))
                .collect()
        }
        _ => return None,
    })
}

/// A command whose arguments take names, for a script alone: it is never asked to read arguments.
fn with_names(command: Command, path: &str) -> Command {
    let named = |argument: Arg| match names(path, argument.get_id().as_str()) {
        Some(names) => argument.value_parser(PossibleValuesParser::new(names)),
        None => argument,
    };
    command.mut_args(named).mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        with_names(inner, path.trim_start())
    })
}

/// Names or files, in zsh.
fn zsh(script: &str) -> String {
    let function = "_fabricsim_or_file() {\n    compadd -- \"$@\"\n    _files\n}\n\n";
    let mut lines = Vec::new();
    for line in script.lines() {
        // `(@file a b)`: of a command's words.
        let Some((before, after)) = line.split_once(&format!("({OR_FILE} ")) else {
            lines.push(line.to_owned());
            continue;
        };
        let (names, rest) = after.split_once(')').unwrap_or((after, ""));
        lines.push(format!("{before} _fabricsim_or_file {names}{rest}"));
    }
    let script = lines.join("\n") + "\n";
    // Behind the line that says what the file completes.
    script.replacen("\n\n", &format!("\n\n{function}"), 1)
}

/// Names or files, in fish.
fn fish(script: &str) -> String {
    script.replace(&format!("-r -f -a \"{OR_FILE}\\t''\n"), "-r -F -a \"")
}

/// What clap's script for fish leaves out: names that are no flag's.
fn fish_words(program: &Command) -> String {
    fn add(command: &Command, path: &[&str], script: &mut String) {
        for word in command.get_positionals() {
            let names = word.get_possible_values();
            let names = names.iter().map(|name| name.get_name());
            let names: Vec<&str> = names.filter(|name| *name != OR_FILE).collect();
            if let ([first, inner @ ..], false) = (path, names.is_empty()) {
                let inner = inner
                    .iter()
                    .map(|name| format!("; and __fish_seen_subcommand_from {name}"));
                let inner: String = inner.collect();
                let names = names.join(" ");
                *script += &format!(
                    "complete -c fabricsim -n \"__fish_fabricsim_using_subcommand {first}{inner}\" -a \"{names}\"\n"
                );
            }
        }
        for inner in command.get_subcommands() {
            let path: Vec<&str> = path.iter().copied().chain([inner.get_name()]).collect();
            add(inner, &path, script);
        }
    }
    let mut script = String::new();
    add(program, &[], &mut script);
    script
}
