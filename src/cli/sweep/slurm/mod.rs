//! `fabricsim sweep run --slurm`: the points of a sweep as the tasks of a job array.
//!
//! The sweep is divided into parts (`--shard I/N`), each a task that writes `DIR/slurm/shard-I`; this
//! program submits them, waits, and takes their points into DIR. Then `DIR/slurm` goes: DIR is what it
//! would be if the sweep had been run here. What is missing after the array has ended, a later call submits
//! again; `DIR/slurm/job.json` says which array that was.

mod args;
mod follow;
mod job;
mod parts;
mod program;
mod script;

use crate::cli::{CliError, signals, terminal};
pub(super) use args::SlurmArgs;
use fabricsim_report::sweep::{PointRow, Shard, SweepFolder, SweepInfo};
use fabricsim_report::write_file;
use job::{Job, io};
use parts::Whole;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// A task has at least so many points, where it may have them: to begin costs as much as a small one.
const POINTS_PER_TASK: u32 = 4;
/// More tasks are made only where they are asked for.
const TASKS: u32 = 1000;

/// Looks for what a task wrote on another machine are repeated so often, a second apart: a network file
/// system shows it late.
const LOOKS: usize = 4;

/// What of the command's own flags its tasks are given.
pub(super) struct Passed {
    /// What names the sweep.
    pub(super) arguments: Vec<OsString>,
    /// Threads of each.
    pub(super) jobs: Option<NonZeroUsize>,
    /// Parts may be of another build of the program.
    pub(super) accept_program: bool,
    /// Show nothing.
    pub(super) hidden: bool,
}

impl SlurmArgs {
    /// Whether the sweep is to be run as a job array.
    ///
    /// # Errors
    /// It is, and there is no Slurm.
    pub(super) fn wanted(&self) -> Result<bool, CliError> {
        if self.slurm {
            program::check()?;
        }
        Ok(self.slurm)
    }
}

/// Runs the points that a sweep's folder lacks as tasks of a job array, and adds them to it. An array that
/// is in the queue is followed.
///
/// # Errors
/// Slurm refuses; tasks did not run all of their points.
pub(super) fn run(
    args: &SlurmArgs,
    passed: &Passed,
    (path, info, folder): (&Path, &SweepInfo, &SweepFolder),
) -> Result<(), CliError> {
    let path = std::path::absolute(path).map_err(|source| io("find", path, source))?;
    let slurm = path.join(FOLDER);
    let mut whole = Whole {
        info,
        accept_program: passed.accept_program,
        folder,
        left: folder.left().into_iter().collect(),
    };
    let known = Job::read(&slurm)?;
    if let Some(job) = &known {
        check(job, args, info, &slurm)?;
        if program::queued(&job.job)
            .map_err(CliError::Slurm)?
            .is_some()
        {
            say(passed, || format!("following job array {}", job.job));
            return finish(job, &mut whole, &slurm, passed.hidden);
        }
        whole.take(&slurm, job.of)?;
    }
    if whole.left.is_empty() {
        return Ok(());
    }
    let of = match known {
        Some(job) => job.of,
        None => number_of_tasks(args, info.points)?,
    };
    let job = submit(args, passed, (&whole, of), &slurm)?;
    finish(&job, &mut whole, &slurm, passed.hidden)
}

/// The points of a sweep's folder, with those that the tasks of its job array have by now.
///
/// # Errors
/// Files that cannot be read.
pub(super) fn with_tasks(
    path: &Path,
    info: &SweepInfo,
    points: Vec<PointRow>,
) -> Result<Vec<PointRow>, CliError> {
    let slurm = path.join(FOLDER);
    let Some(job) = Job::read(&slurm)? else {
        return Ok(points);
    };
    let mut all: BTreeMap<u32, PointRow> = points.into_iter().map(|p| (p.point, p)).collect();
    for index in 1..=job.of {
        let shard = Shard { index, of: job.of };
        for point in parts::points_of((info, true), shard, &slurm)? {
            all.entry(point.point).or_insert(point);
        }
    }
    Ok(all.into_values().collect())
}

/// All is in the sweep's folder: that of its tasks goes.
///
/// # Errors
/// It cannot be removed.
pub(super) fn tidy(path: &Path) -> Result<(), CliError> {
    let slurm = path.join(FOLDER);
    gone(fs::remove_dir_all(&slurm), &slurm)
}

/// What was removed, or was not there.
fn gone(removed: std::io::Result<()>, path: &Path) -> Result<(), CliError> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io("remove", path, error)),
        _ => Ok(()),
    }
}

const FOLDER: &str = "slurm";

/// A job array of an earlier call was of this sweep, and divided as it is wanted.
fn check(job: &Job, args: &SlurmArgs, info: &SweepInfo, slurm: &Path) -> Result<(), CliError> {
    let slurm = slurm.display();
    if job.digest != info.digest {
        return Err(CliError::Usage(format!(
            "`{slurm}` has tasks of another sweep; name another folder, or remove this one"
        )));
    }
    match args.tasks {
        Some(tasks) if tasks.get() != job.of => Err(CliError::Usage(format!(
            "--tasks {tasks}: `{slurm}` divides this sweep into {}; leave the option out, or remove that \
             folder to run all of its points again",
            job.of
        ))),
        _ => Ok(()),
    }
}

fn number_of_tasks(args: &SlurmArgs, points: u32) -> Result<u32, CliError> {
    let most = program::largest_index().max(1);
    match args.tasks {
        Some(tasks) if tasks.get() > most => Err(CliError::Usage(format!(
            "--tasks {tasks}: expected at most {most}, for Slurm's MaxArraySize is {}",
            most + 1
        ))),
        Some(tasks) => Ok(tasks.get().min(points)),
        None => Ok((points / POINTS_PER_TASK).clamp(1, most.min(TASKS))),
    }
}

/// Submits the parts that lack points.
fn submit(
    args: &SlurmArgs,
    passed: &Passed,
    (whole, of): (&Whole<'_>, u32),
    slurm: &Path,
) -> Result<Job, CliError> {
    let here = Path::new(".");
    let here = std::env::current_dir().map_err(|source| io("find", here, source))?;
    let program = Path::new("fabricsim");
    let program = std::env::current_exe().map_err(|source| io("find", program, source))?;
    fs::create_dir_all(slurm).map_err(|source| io("create", slurm, source))?;
    let command = script::Command {
        program: &program,
        here: &here,
        arguments: &passed.arguments,
        of,
        slurm,
    };
    let file: PathBuf = slurm.join("job.sh");
    write_file(&file, &command.script())?;
    let parts = whole.parts_left(of);
    for part in &parts {
        // What an earlier array said of it is over.
        let log = slurm.join(Job::log_name(&part.to_string()));
        gone(fs::remove_file(&log), &log)?;
    }
    let name = &whole.info.name;
    let mut options = script::options(args, passed.jobs, (name, &parts), slurm);
    options.push(file.into());
    // Not interrupted between the two: an array that nothing names would be submitted again.
    let held = signals::held();
    let id = program::submit(&options)?;
    let job = Job::new(id, &whole.info.digest, of, parts);
    job.write(slurm)?;
    drop(held);
    say(passed, || {
        let (tasks, points) = (job.parts.len(), whole.left.len());
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        format!(
            "submitted job array {}: {tasks} task{} for {points} point{}",
            job.job,
            plural(tasks),
            plural(points)
        )
    });
    Ok(job)
}

/// Waits for an array, and takes what its tasks wrote.
fn finish(job: &Job, whole: &mut Whole<'_>, slurm: &Path, hidden: bool) -> Result<(), CliError> {
    follow::follow(job, whole.info, slurm, hidden)?;
    for look in 0..LOOKS {
        if look > 0 {
            sleep(Duration::from_secs(1));
        }
        whole.take(slurm, job.of)?;
        if whole.left.is_empty() {
            return Ok(());
        }
    }
    Err(whole.undone(job, slurm))
}

fn say(passed: &Passed, text: impl FnOnce() -> String) {
    if !passed.hidden {
        terminal::complain(&text());
    }
}
