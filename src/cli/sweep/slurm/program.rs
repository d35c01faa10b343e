//! What Slurm's own programs are asked: `sbatch`, `squeue`, `scontrol`. Not `sacct`: many clusters have
//! no accounting.

use crate::cli::CliError;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::{Command, Output, Stdio};

/// Where Slurm does not say: its own default.
const MAX_ARRAY_SIZE: u32 = 1001;

/// Whether there is a Slurm to give jobs to.
///
/// # Errors
/// There is none.
pub(super) fn check() -> Result<(), CliError> {
    match output("sbatch", &["--version".into()]) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(CliError::Slurm(
            "--slurm: there is no `sbatch` on the PATH. With another batch system, or none, let each job \
             run a part with `--shard I/N -o PART-I`, and then put them together: `fabricsim sweep merge \
             PART-* -o DIR`"
                .to_owned(),
        )),
        Err(error) => Err(CliError::Slurm(format!("--slurm: cannot run `sbatch`: {error}"))),
    }
}

/// The largest index that a task of an array may have.
pub(super) fn largest_index() -> u32 {
    let told = output("scontrol", &["show".into(), "config".into()]).ok();
    let told = told.and_then(|told| max_array_size(&String::from_utf8_lossy(&told.stdout)));
    told.unwrap_or(MAX_ARRAY_SIZE).saturating_sub(1)
}

/// `MaxArraySize` of `scontrol show config`.
fn max_array_size(config: &str) -> Option<u32> {
    let values = config.lines().filter_map(|line| line.split_once('='));
    let (_, value) = values
        .into_iter()
        .find(|(key, _)| key.trim() == "MaxArraySize")?;
    value.trim().parse().ok()
}

/// Submits a job; gives its id.
///
/// # Errors
/// What sbatch says against it.
pub(super) fn submit(options: &[OsString]) -> Result<String, CliError> {
    let refused = |why: &str| CliError::Slurm(format!("sbatch refuses the job array: {why}"));
    let told = output("sbatch", options).map_err(|error| refused(&error.to_string()))?;
    if !told.status.success() {
        return Err(refused(&words(&told)));
    }
    // With a cluster's name behind it, where there are several.
    let text = String::from_utf8_lossy(&told.stdout);
    let id = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    let id = id
        .and_then(|line| line.split(';').next())
        .unwrap_or_default();
    match !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(id.to_owned()),
        false => Err(CliError::Slurm(format!(
            "sbatch gave no id of a job but `{}`",
            text.trim()
        ))),
    }
}

/// Tasks of an array that have not ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) running: usize,
    pub(super) waiting: usize,
    /// Why the first of those that wait does, as Slurm says it.
    pub(super) reason: Option<String>,
}

impl Queued {
    /// For people.
    pub(super) fn told(&self) -> String {
        let mut told = format!("tasks: {} running", self.running);
        if self.waiting > 0 {
            told += &format!(", {} waiting", self.waiting);
        }
        // `None` until Slurm has looked at it.
        if let Some(reason) = self.reason.as_ref().filter(|reason| *reason != "None") {
            told += &format!(" ({reason})");
        }
        told
    }
}

/// What of a job array is in the queue; none if it has ended.
///
/// # Errors
/// What squeue says.
pub(super) fn queued(id: &str) -> Result<Option<Queued>, String> {
    // Jobs in partitions that are hidden, too.
    let options = [
        "--all",
        "--noheader",
        "--array",
        "--format=%T|%r",
        "--jobs",
        id,
    ];
    let told = output("squeue", &options.map(OsString::from)).map_err(|error| error.to_string())?;
    if told.status.success() {
        return Ok(read_queue(&String::from_utf8_lossy(&told.stdout)));
    }
    match words(&told) {
        // It ended so long ago that Slurm has forgotten it.
        why if why.contains("Invalid job id") => Ok(None),
        why => Err(why),
    }
}

fn read_queue(text: &str) -> Option<Queued> {
    let mut queued = Queued::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (state, reason) = line.split_once('|').unwrap_or((line, ""));
        if state == "PENDING" {
            queued.waiting += 1;
            queued.reason.get_or_insert_with(|| reason.to_owned());
        } else {
            queued.running += 1;
        }
    }
    (queued != Queued::default()).then_some(queued)
}

/// What a program that failed has to say.
fn words(told: &Output) -> String {
    let text = String::from_utf8_lossy(&told.stderr);
    match text.trim() {
        "" => format!("it ended with {}", told.status),
        text => {
            // `sbatch: error: …`, a line each.
            let told = |line: &str| match line.split_once(": error: ") {
                Some((_, told)) => told.to_owned(),
                None => line.to_owned(),
            };
            text.lines().map(told).collect::<Vec<_>>().join("\n    ")
        }
    }
}

fn output(program: &str, options: &[OsString]) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(options).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        // What the user likes to see of the queue is not all of it.
        if name.as_encoded_bytes().starts_with(b"SQUEUE_") {
            command.env_remove(name);
        }
    }
    // Ctrl-C is for this program alone: a submission is not to be cut in two.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scontrol_and_squeue_say() {
        let config = "MaxArraySize            = 4001\nMaxDBDMsgs              = 20004\n";
        assert_eq!(max_array_size(config), Some(4001));
        assert_eq!(max_array_size("slurm_load_ctl_conf error"), None);
        assert_eq!(read_queue("\n"), None);
        let queue =
            read_queue("RUNNING|None\nPENDING|Resources\nPENDING|Priority\nCOMPLETING|None\n");
        let queue = queue.unwrap();
        assert_eq!((queue.running, queue.waiting), (2, 2));
        assert_eq!(queue.told(), "tasks: 2 running, 2 waiting (Resources)");
        assert_eq!(
            read_queue("RUNNING|None\n").unwrap().told(),
            "tasks: 1 running"
        );
    }
}
