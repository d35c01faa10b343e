//! `fabricsim man`: pages for `man`, one a command.

use super::examples::{Examples, HEADING, examples};
use super::{Cli, CliError, output, terminal};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use fabricsim_report::{Content, FolderKind, write_file, write_folder};
use std::io;
use std::path::PathBuf;

const EXAMPLES: Examples = [
    (
        "Which pages are there? One a command",
        "fabricsim man pages",
    ),
    (
        "How does `MANPATH=$PWD/man man fabricsim-run` find them?",
        "fabricsim man man/man1",
    ),
    (
        "How are they made anew after an update, without a word?",
        "fabricsim man pages --quiet",
    ),
];

/// Writes a folder of manual pages, one a command.
///
/// They say what `--help` says. The folder is written whole or not at all; pages of an earlier call
/// in its place are replaced, and a folder that holds anything else is refused.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// The folder for the pages: of its own, such as `man/man1`
    #[arg(value_name = "DIR", value_parser = output::folder())]
    folder: PathBuf,
}

/// The page of the program itself, which is always there.
const MARK: &str = "fabricsim.1";

/// What stands below a page.
const SOURCE: &str = concat!("fabricsim ", env!("CARGO_PKG_VERSION"));

/// A folder of pages, as it is known again.
const KIND: FolderKind<'static> = FolderKind {
    files: &[MARK],
    families: &[("fabricsim-", ".1")],
    folders: &[],
    mark: MARK,
    content: Content::Text(".TH fabricsim 1"),
};

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages)?;
    write_folder(&args.folder, &[&KIND], |folder| {
        let mut pages = pages.iter();
        pages.try_for_each(|(name, page)| write_file(&folder.join(name), page))
    })?;
    if !quiet {
        for (name, _) in &pages {
            terminal::print(&format!("{}\n", args.folder.join(name).display()))?;
        }
    }
    Ok(())
}

/// Adds the page of a command, with its name, and those of the commands in it.
fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let man = Man::new(command.clone()).source(SOURCE);
    pages.push((man.get_filename(), page(command, &man)?));
    let mut inner = command.get_subcommands();
    inner.try_for_each(|command| add_pages(command, pages))
}

/// What `--help` says of a command, as `man` reads it.
fn page(command: &Command, man: &Man) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(end) = command.get_after_long_help() {
        shown(&end.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// The examples of `--help`, each line as it is.
fn shown(end: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]);
    for line in end.lines().filter(|line| *line != HEADING) {
        let line = line.trim_start();
        match line.strip_prefix("# ") {
            Some(asked) => section.control("PP", []).text([roman(asked)]),
            None => section
                .control("RS", ["4"])
                .control("nf", [])
                .text([bold(line)])
                .control("fi", [])
                .control("RE", []),
        };
    }
    section
}
