//! `fabricsim sweep list` and `copy`: the sweeps that the program carries with it.

use crate::cli::examples::{Examples, examples};
use crate::cli::{CliError, output, terminal};
use fabricsim_experiment::sweep::{SweepEntry, sweep_entries, sweep_text};
use fabricsim_report::FORMAT;
use serde::Serialize;
use std::io;
use std::path::PathBuf;

const EXAMPLES: Examples = [
    (
        "How is a sweep of my own made of a shipped one?",
        "fabricsim sweep copy crossover -o mine.json\n\
         fabricsim sweep run mine.json",
    ),
    (
        "Where does a copy go without -o? To buckets.json, here",
        "fabricsim sweep copy buckets",
    ),
    (
        "How is a folder of sweeps begun?",
        "fabricsim sweep copy straggler -o sweeps",
    ),
];

/// A shipped sweep, and where its file is to be.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct CopyArgs {
    /// Which one
    name: String,
    /// The file, or the folder for it [default: NAME.json]
    #[arg(short, long, value_name = "FILE|DIR", value_parser = output::file_ending_in(&["json"]))]
    output: Option<PathBuf>,
    /// Writes over a file that is there
    #[arg(long)]
    force: bool,
}

/// The document of `sweep list --json`.
#[derive(Serialize)]
struct List {
    format: u32,
    sweeps: Vec<SweepEntry>,
}

pub(super) fn list(json: bool) -> Result<(), CliError> {
    let sweeps = sweep_entries()?;
    if json {
        let format = FORMAT;
        let text = serde_json::to_string_pretty(&List { format, sweeps });
        return Ok(terminal::print(&format!(
            "{}\n",
            text.map_err(io::Error::from)?
        ))?);
    }
    let rows = sweeps
        .iter()
        .map(|sweep| (sweep.name, sweep.axes.join(", "), &sweep.title));
    let rows: Vec<_> = rows.collect();
    let name = rows
        .iter()
        .map(|row| row.0.chars().count())
        .max()
        .unwrap_or(0);
    let axes = rows
        .iter()
        .map(|row| row.1.chars().count())
        .max()
        .unwrap_or(0);
    let (mut text, columns) = (String::new(), terminal::width());
    for (a, b, title) in rows {
        text += &terminal::cut(&format!("{a:<name$}  {b:<axes$}  {title}"), columns);
        text.push('\n');
    }
    Ok(terminal::print(&text)?)
}

pub(super) fn copy(args: &CopyArgs, quiet: bool) -> Result<(), CliError> {
    let text = sweep_text(&args.name)?;
    let path = output::copy_target(&args.name, args.output.as_deref());
    output::write_new(&path, text, args.force)?;
    if quiet {
        return Ok(());
    }
    let path = path.display();
    let text = format!("Written to {path}; run it with: fabricsim sweep run {path}\n");
    Ok(terminal::print(&text)?)
}
