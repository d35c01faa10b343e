//! A sweep as a job array, with programs in place of Slurm's that run its tasks at once, or refuse. With a
//! real Slurm: `.ci/slurm`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Runs the tasks of an array, but for those in `dead`; writes its arguments to `submitted`.
const SBATCH: &str = r#"#!/bin/sh
here="$(dirname "$0")"
[ "$1" = --version ] && exit
echo "$@" >> "$here/submitted"
for word; do
    case "$word" in --array=*) array="${word#--array=}" ;; esac
done
slurm="$(dirname "$word")"
for range in $(echo "${array%\%*}" | tr , ' '); do
    for task in $(seq "${range%-*}" "${range#*-}"); do
        if grep -qsx "$task" "$here/dead"; then
            echo "slurmstepd: error: Detected 1 oom_kill event" > "$slurm/task-$task.log"
        else
            SLURM_ARRAY_TASK_ID="$task" sh "$word" > "$slurm/task-$task.log" 2>&1
        fi
    done
done
echo "7;cluster"
"#;

const SQUEUE: &str = "#!/bin/sh\nexit 0\n";

const SCONTROL: &str = "#!/bin/sh\necho 'MaxArraySize            = 4'\n";

const SCENARIO: &str = r#"{"name": "mine", "topology": {"name": "dgx-h100"},
    "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["1MiB"]}}}}"#;

struct Cluster {
    folder: tempfile::TempDir,
}

struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Cluster {
    fn new() -> Self {
        let cluster = Cluster {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(cluster.path("bin")).unwrap();
        fs::write(cluster.path("mine.json"), SCENARIO).unwrap();
        cluster.program("sbatch", SBATCH);
        cluster.program("squeue", SQUEUE);
        cluster.program("scontrol", SCONTROL);
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What sbatch was given, a line each time.
    fn submitted(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("bin/submitted")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// `sweep run` of twelve points.
    fn sweep(&self, args: &[&str]) -> Done {
        let mut command = Command::cargo_bin("fabricsim").unwrap();
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.current_dir(self.folder.path());
        command.args(["sweep", "run", "mine.json"]);
        command.args(["--over", "size=64KiB,1MiB,2MiB", "--over", "seed=1,2,3,4"]);
        done(command.args(args))
    }

    /// As a sweep that is run here leaves it, and nothing else.
    fn assert_whole(&self, folder: &str) {
        let here = self.sweep(&["-o", "here", "-q"]);
        assert_eq!(here.code, 0, "{}", here.err);
        assert_eq!(files(&self.path(folder)), files(&self.path("here")));
    }
}

fn done(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    Done {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Names and contents of a folder's files.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap();
    let file = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(&path).unwrap())
    };
    let mut files: Vec<_> = entries.map(|entry| file(entry.unwrap().path())).collect();
    files.sort();
    files
}

#[test]
fn an_array_leaves_what_a_run_here_leaves() {
    let cluster = Cluster::new();
    let here = cluster.sweep(&["-o", "here"]);
    let there = cluster.sweep(&[
        "-o",
        "there",
        "--slurm",
        "--partition=p",
        "--account=a",
        "--time=1:00",
        "--mem=2G",
        "--array-limit=2",
        "--sbatch-arg=--qos=long",
        "--sbatch-arg=-x",
        "--jobs=3",
        "--memory=1GiB",
    ]);
    assert_eq!(there.code, 0, "{}", there.err);
    assert_eq!(
        there.out.replace("Written to there", "Written to here"),
        here.out
    );
    assert_eq!(there.err, "submitted job array 7: 3 tasks for 12 points\n");
    cluster.assert_whole("there");
    let submitted = cluster.submitted();
    assert_eq!(submitted.len(), 1);
    for option in [
        "--array=1-3%2 ",
        "--partition=p --account=a --time=1:00 --mem=2G --cpus-per-task=3 --qos=long -x /",
        "there/slurm/job.sh",
    ] {
        assert!(submitted[0].contains(option), "{}", submitted[0]);
    }
    // All is there: nothing is submitted.
    let again = cluster.sweep(&["-o", "there", "--slurm", "--json"]);
    assert_eq!((again.code, &*again.err), (0, ""));
    assert_eq!(cluster.submitted().len(), 1);
}

#[test]
fn tasks_are_as_many_as_asked_for_and_slurm_allows() {
    let cluster = Cluster::new();
    let more = cluster.sweep(&["-o", "there", "--slurm", "--tasks=4"]);
    assert_eq!(more.code, 2);
    assert!(
        more.err
            .contains("--tasks 4: expected at most 3, for Slurm's MaxArraySize is 4")
    );
    let one = cluster.sweep(&["-o", "there", "--slurm", "--tasks=1", "-q"]);
    assert_eq!((one.code, &*one.out, &*one.err), (0, "", ""));
    assert!(cluster.submitted()[0].contains("--array=1 "));
    cluster.assert_whole("there");
    // A scontrol that fails: Slurm's default. Not more tasks than points.
    cluster.program("scontrol", "#!/bin/sh\nexit 1\n");
    let many = cluster.sweep(&["-o", "many", "--slurm", "--tasks=1000", "-q"]);
    assert_eq!((many.code, &*many.err), (0, ""));
    assert!(cluster.submitted()[1].contains("--array=1-12 "));
    cluster.assert_whole("many");
}

#[test]
fn a_task_that_dies_is_named_and_submitted_again() {
    let cluster = Cluster::new();
    fs::write(cluster.path("bin/dead"), "2\n").unwrap();
    let dead = cluster.sweep(&["-o", "there", "--slurm"]);
    assert_eq!((dead.code, &*dead.out), (3, ""));
    for part in [
        "job array 7 has ended and 4 of 12 points are missing, of 1 of 3 tasks",
        "task 2 (shard 2/3): points 1, 4, 7, 10 are missing",
        "there/slurm/task-2.log ends with\n        slurmstepd: error: Detected 1 oom_kill event",
        "The same command submits these tasks again",
    ] {
        assert!(dead.err.contains(part), "{}", dead.err);
    }
    let other = cluster.sweep(&["-o", "there", "--slurm", "--tasks=2"]);
    assert_eq!(other.code, 2);
    assert!(
        other.err.contains("divides this sweep into 3"),
        "{}",
        other.err
    );
    fs::remove_file(cluster.path("bin/dead")).unwrap();
    let again = cluster.sweep(&["-o", "there", "--slurm"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(again.err, "submitted job array 7: 1 task for 4 points\n");
    assert!(cluster.submitted()[1].contains("--array=2 "));
    cluster.assert_whole("there");
}

#[test]
fn what_tasks_did_not_do_can_be_run_here() {
    let cluster = Cluster::new();
    fs::write(cluster.path("bin/dead"), "1\n3\n").unwrap();
    assert_eq!(cluster.sweep(&["-o", "there", "--slurm"]).code, 3);
    let here = cluster.sweep(&["-o", "there", "-q"]);
    assert_eq!(here.code, 0, "{}", here.err);
    let whole = cluster.sweep(&["-o", "there", "--slurm", "-q"]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    assert_eq!(cluster.submitted().len(), 1);
    cluster.assert_whole("there");
}

#[test]
fn a_refusal_is_told_and_blocks_nothing() {
    let cluster = Cluster::new();
    let refuses = "#!/bin/sh\n[ \"$1\" = --version ] && exit\n\
        echo 'sbatch: error: invalid partition specified: p' >&2\nexit 1\n";
    cluster.program("sbatch", refuses);
    let refused = cluster.sweep(&["-o", "there", "--slurm", "--partition=p"]);
    assert_eq!((refused.code, &*refused.out), (3, ""));
    assert_eq!(
        refused.err,
        "error: sbatch refuses the job array: invalid partition specified: p\n"
    );
    cluster.program(
        "sbatch",
        "#!/bin/sh\n[ \"$1\" = --version ] || echo Welcome\n",
    );
    let strange = cluster.sweep(&["-o", "there", "--slurm"]);
    assert_eq!(strange.code, 3);
    assert!(
        strange.err.contains("no id of a job but `Welcome`"),
        "{}",
        strange.err
    );
    cluster.program("sbatch", SBATCH);
    let taken = cluster.sweep(&["-o", "there", "--slurm", "--tasks=2"]);
    assert_eq!(taken.code, 0, "{}", taken.err);
    cluster.assert_whole("there");
}

#[test]
fn a_queue_that_cannot_be_read_leaves_the_array() {
    let cluster = Cluster::new();
    cluster.program(
        "squeue",
        "#!/bin/sh\necho 'squeue: error: Unable to contact slurm controller' >&2\nexit 1\n",
    );
    let lost = cluster.sweep(&["-o", "there", "--slurm"]);
    assert_eq!(lost.code, 3);
    for part in [
        "squeue cannot say what job array 7 does: Unable to contact slurm controller",
        "the same command follows it again",
    ] {
        assert!(lost.err.contains(part), "{}", lost.err);
    }
    // Its tasks' folders say how far it is.
    let mut status = Command::cargo_bin("fabricsim").unwrap();
    status.current_dir(cluster.folder.path());
    let status = done(status.args(["sweep", "status", "there"]));
    assert!(
        status.out.starts_with("mine: 12 of 12 points are over.\n"),
        "{}",
        status.out
    );
    // It is not submitted again as long as nobody knows.
    assert_eq!(cluster.sweep(&["-o", "there", "--slurm"]).code, 3);
    // It ended long ago.
    cluster.program(
        "squeue",
        "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n",
    );
    let found = cluster.sweep(&["-o", "there", "--slurm"]);
    assert_eq!((found.code, &*found.err), (0, ""));
    assert_eq!(cluster.submitted().len(), 1);
    cluster.assert_whole("there");
}

#[test]
fn an_array_that_is_in_the_queue_is_followed() {
    let cluster = Cluster::new();
    // Tasks end while they are followed.
    cluster.program(
        "squeue",
        "#!/bin/sh\nhere=\"$(dirname \"$0\")\"\n\
        [ -e \"$here/seen\" ] && exit\ntouch \"$here/seen\"\necho 'PENDING|Resources'\n",
    );
    fs::write(cluster.path("bin/dead"), "1\n").unwrap();
    fs::write(cluster.path("bin/seen"), "").unwrap();
    assert_eq!(cluster.sweep(&["-o", "there", "--slurm"]).code, 3);
    fs::remove_file(cluster.path("bin/seen")).unwrap();
    let followed = cluster.sweep(&["-o", "there", "--slurm"]);
    assert_eq!(followed.code, 3);
    assert!(
        followed.err.starts_with("following job array 7\nerror: "),
        "{}",
        followed.err
    );
    assert_eq!(cluster.submitted().len(), 1);
}

#[test]
fn a_scenario_that_changes_meanwhile_is_no_result() {
    let cluster = Cluster::new();
    let changes = SBATCH.replace(
        "slurm=",
        "sed -i.old s/dgx-h100/dgx-h200/ \"$here/../mine.json\"\nslurm=",
    );
    cluster.program("sbatch", &changes);
    let changed = cluster.sweep(&["--slurm", "-o", "there"]);
    assert_eq!(changed.code, 2, "{}", changed.err);
    assert!(
        changed
            .err
            .contains("there/slurm/shard-1` has points of another sweep"),
        "{}",
        changed.err
    );
}

#[test]
fn without_slurm_there_are_shards() {
    let cluster = Cluster::new();
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.env("PATH", cluster.path("there"));
    command.current_dir(cluster.folder.path());
    command.args(["sweep", "run", "mine.json", "--over", "seed=1,2"]);
    let none = done(command.args(["--slurm", "-o", "there"]));
    assert_eq!((none.code, &*none.out), (3, ""));
    for part in ["no `sbatch` on the PATH", "--shard I/N", "sweep merge"] {
        assert!(none.err.contains(part), "{}", none.err);
    }
    assert!(!cluster.path("there").exists());
    for (args, part) in [
        (
            ["--slurm", "--shard=1/2"],
            "cannot be used with '--shard <I/N>'",
        ),
        (["--tasks=3", "-q"], "--slurm"),
    ] {
        let wrong = cluster.sweep(&args);
        assert_eq!(wrong.code, 2);
        assert!(wrong.err.contains(part), "{}", wrong.err);
    }
}
