//! The script of a job array, and the options with which it is submitted.

use super::args::SlurmArgs;
use super::job::Job;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::Path;

/// What each task runs.
pub(super) struct Command<'a> {
    /// This program.
    pub(super) program: &'a Path,
    /// The current folder: messages of points name files as they do when they are run here.
    pub(super) here: &'a Path,
    /// Arguments behind `sweep run`, which name the sweep.
    pub(super) arguments: &'a [OsString],
    /// How many parts the sweep has.
    pub(super) of: u32,
    /// The folder of the parts.
    pub(super) slurm: &'a Path,
}

impl Command<'_> {
    /// The script, for a POSIX shell.
    pub(super) fn script(&self) -> Vec<u8> {
        let mut text = b"#!/bin/sh\n\
            # Task I of the job array runs part I of the sweep. Written by `fabricsim sweep run --slurm`.\n"
            .to_vec();
        let mut add = |part: &[u8]| text.extend_from_slice(part);
        add(b"cd ");
        add(&quoted(self.here.as_os_str()));
        add(b" || exit\nexec ");
        add(&quoted(self.program.as_os_str()));
        // As many threads as the task has processors; a number of threads never shows in results.
        add(b" sweep run --quiet --jobs \"${SLURM_CPUS_ON_NODE:-1}\"");
        add(format!(" --shard \"$SLURM_ARRAY_TASK_ID/{}\"", self.of).as_bytes());
        add(b" -o ");
        add(&quoted(self.slurm.as_os_str()));
        add(b"/shard-\"$SLURM_ARRAY_TASK_ID\"");
        for argument in self.arguments {
            add(b" ");
            add(&quoted(argument));
        }
        add(b"\n");
        text
    }
}

/// One word of a shell's.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut text = vec![b'\''];
    for &byte in word.as_encoded_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
    text
}

/// Options of sbatch for the tasks of some parts; with the script they are all its arguments. On the
/// command line nothing in the environment (`SBATCH_PARTITION` …) overrides them.
pub(super) fn options(
    args: &SlurmArgs,
    jobs: Option<NonZeroUsize>,
    (name, parts): (&str, &[u32]),
    slurm: &Path,
) -> Vec<OsString> {
    let limit = args
        .array_limit
        .map(|n| format!("%{n}"))
        .unwrap_or_default();
    let mut options: Vec<OsString> = vec![
        "--parsable".into(),
        format!("--job-name=fabricsim-{name}").into(),
        format!("--array={}{limit}", ranges(parts)).into(),
        "--nodes=1".into(),
        "--ntasks=1".into(),
        "--open-mode=truncate".into(),
    ];
    let mut folder = OsString::from("--chdir=");
    folder.push(slurm);
    options.push(folder);
    let mut log = OsString::from("--output=");
    log.push(pattern(slurm));
    log.push(format!("/{}", Job::log_name("%a")));
    options.push(log);
    let mut add = |option: &str, value: Option<&str>| {
        options.extend(value.map(|value| format!("--{option}={value}").into()));
    };
    add("partition", args.partition.as_deref());
    add("account", args.account.as_deref());
    add("time", args.time.as_deref());
    add("mem", args.mem.as_deref());
    add("cpus-per-task", jobs.map(|n| n.to_string()).as_deref());
    options.extend(args.sbatch_arg.iter().map(OsString::from));
    options
}

/// A path where Slurm reads `%a` and its like; what is no text stays as it is.
fn pattern(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) => text.replace('%', "%%").into(),
        None => path.into(),
    }
}

/// Numbers in order as Slurm takes them: `1-3,7`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|&one, &next| one + 1 == next);
    let told = runs.map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    told.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_s_words_are_what_was_given() {
        let words = ["--over=nodes=1,2".into(), "it's $HOME".into()];
        let command = Command {
            program: Path::new("/opt/a b/fabricsim"),
            here: Path::new("/home/me"),
            arguments: &words,
            of: 7,
            slurm: Path::new("/home/me/out/slurm"),
        };
        let script = String::from_utf8(command.script()).unwrap();
        let lines: Vec<&str> = script.lines().skip(2).collect();
        assert_eq!(lines[0], "cd '/home/me' || exit");
        assert_eq!(
            lines[1],
            "exec '/opt/a b/fabricsim' sweep run --quiet --jobs \"${SLURM_CPUS_ON_NODE:-1}\" \
             --shard \"$SLURM_ARRAY_TASK_ID/7\" -o '/home/me/out/slurm'/shard-\"$SLURM_ARRAY_TASK_ID\" \
             '--over=nodes=1,2' 'it'\\''s $HOME'"
        );
    }

    #[test]
    fn parts_as_slurm_counts_them() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(ranges(&[4]), "4");
    }
}
