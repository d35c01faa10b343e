//! `fabricsim validate --claims`: claims of lecture notes, each checked by commands of this program.

use super::validate::bar;
use super::{CliError, output, terminal};
use fabricsim_budget::threads;
use fabricsim_calibration::{Claims, Ran, judge};
use fabricsim_report::validation::{Verdict, claims_json, claims_page, claims_text};
use fabricsim_report::{ReportError, write_file};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Between commands that follow each other.
const AND: &str = " && ";

/// What is asked for.
pub(super) struct Asked<'a> {
    /// A file of claims, in place of the shipped one.
    pub(super) own: Option<&'a Path>,
    /// Numbers, separated by commas; all, if there are none.
    pub(super) only: &'a [String],
    pub(super) json: bool,
    pub(super) quiet: bool,
    /// Commands at a time.
    pub(super) jobs: usize,
    /// A page, or a folder for it and the scenarios.
    pub(super) output: Option<&'a Path>,
}

/// Runs the commands of claims and prints their verdicts.
pub(super) fn run(asked: &Asked<'_>) -> Result<(), CliError> {
    let claims = match asked.own {
        Some(path) => Claims::read(path)?,
        None => Claims::shipped()?,
    };
    let only = numbers(&claims, asked.only)?;
    let program = std::env::current_exe()?;
    let folder = tempfile::tempdir()?;
    let mut failure = None;
    let judged = judge(&claims, &only, |lines| {
        let bar = bar(lines.len(), "commands", asked.quiet);
        let lines: Vec<(usize, &str)> = lines.iter().copied().enumerate().collect();
        let ran = threads::each(
            &lines,
            Some(asked.jobs),
            || (),
            |(), &(index, line)| {
                let own = folder.path().join(index.to_string());
                let ran =
                    write_scenarios(&claims, line, &own).and_then(|()| start(&program, line, &own));
                bar.inc(1);
                ran
            },
        );
        bar.finish_and_clear();
        let ran = ran.into_iter().map(|ran| {
            ran.unwrap_or_else(|error| {
                let said = error.to_string();
                failure.get_or_insert(error);
                Ran {
                    exit: -1,
                    document: Value::Null,
                    said,
                }
            })
        });
        ran.collect()
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let written = write(&claims, &judged, asked.output)?;
    if asked.json {
        terminal::print(&claims_json(&judged)?)?;
    } else if !asked.quiet {
        let width = terminal::width();
        let text = claims_text(&judged, false);
        let lines = text.lines().map(|line| terminal::cut(line, width) + "\n");
        let written = written.map(|path| format!("\nWritten to {}\n", path.display()));
        terminal::print(&lines.chain(written).collect::<String>())?;
    }
    match judged.count(Verdict::Failed) {
        0 => Ok(()),
        failed => Err(CliError::ClaimsFailed(failed)),
    }
}

/// The numbers that `--only` names.
fn numbers(claims: &Claims, only: &[String]) -> Result<Vec<u32>, CliError> {
    let texts = only.iter().flat_map(|text| text.split(','));
    let numbers = texts.map(|text| {
        let number = text.trim().parse().ok();
        let known = number.filter(|number| claims.claims.iter().any(|c| c.number == *number));
        known.ok_or_else(|| {
            let last = claims.claims.last().map_or(0, |claim| claim.number);
            CliError::Usage(format!(
                "--only: there is no claim `{text}`; expected numbers from 1 to {last}, such as `1,88`"
            ))
        })
    });
    numbers.collect()
}

/// The words of a command: what stands between `'…'` is one.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Writes the scenarios that a command names into a folder.
fn write_scenarios(claims: &Claims, line: &str, folder: &Path) -> Result<(), CliError> {
    output::make_folder(folder)?;
    for word in words(line) {
        let Some(name) = word.strip_suffix(".json") else {
            continue;
        };
        if let Some(scenario) = claims.scenarios.get(name) {
            let text =
                serde_json::to_string_pretty(scenario).map_err(|source| ReportError::Json {
                    what: "a scenario",
                    source,
                })?;
            write_file(&folder.join(&word), format!("{text}\n").as_bytes())?;
        }
    }
    Ok(())
}

/// Runs commands of this program, one after the other (`… && …`), in a folder of their own: what the
/// last one gave, or the first that failed.
fn start(program: &Path, line: &str, folder: &Path) -> Result<Ran, CliError> {
    let mut lines = line.split(AND).peekable();
    loop {
        let words = words(lines.next().unwrap_or_default());
        let mut command = Command::new(program);
        command.args(&words);
        match words.first().map(String::as_str) {
            // Most of what it prints is text.
            Some("topology") => {}
            // The document is the same without files beside it.
            Some("run") if !words.iter().any(|word| word == "--outputs") => {
                command.args(["--json", "--quiet", "--outputs", "summary"]);
            }
            _ => {
                command.args(["--json", "--quiet"]);
            }
        }
        let done = command.current_dir(folder).stdin(Stdio::null()).output()?;
        if done.status.success() && lines.peek().is_some() {
            continue;
        }
        return Ok(Ran {
            exit: done.status.code().unwrap_or(-1),
            document: serde_json::from_slice(&done.stdout)
                .unwrap_or_else(|_| String::from_utf8_lossy(&done.stdout).into()),
            said: String::from_utf8_lossy(&done.stderr).into_owned(),
        });
    }
}

/// Writes a page, or a folder with it and all scenarios that are named.
fn write(
    claims: &Claims,
    judged: &fabricsim_report::validation::JudgedClaims,
    target: Option<&Path>,
) -> Result<Option<PathBuf>, CliError> {
    let Some(target) = target else {
        return Ok(None);
    };
    let page = claims_page(judged);
    if output::ending(target).as_deref() == Some("md") {
        write_file(target, page.as_bytes())?;
        return Ok(Some(target.to_owned()));
    }
    output::make_folder(target)?;
    for line in judged.rows.iter().flat_map(|row| &row.commands) {
        write_scenarios(claims, line, target)?;
    }
    write_file(&target.join("claims.md"), page.as_bytes())?;
    Ok(Some(target.to_owned()))
}
