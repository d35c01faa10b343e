//! What commands print, word by word: one of each behaviour, to be read when it changes. `.ci/digest` sees that
//! any of several hundred others changed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The file under `tests/golden`, and the command whose standard output is in it.
const GOLDEN: [(&str, &str); 12] = [
    (
        "allreduce-dgx-h100",
        "collective all-reduce --topology dgx-h100 -f 8 -e 1G",
    ),
    (
        "choice",
        "collective all-reduce -t dgx-h100 -n 2 -s 64M --why",
    ),
    ("training", "run ddp-straggler -o out"),
    (
        "serving",
        "serve llama3-8b -t dgx-h100 --rate 5 --requests 200 -o out",
    ),
    (
        "machines",
        "compare all-reduce -t dgx-h100 -t dgx-a100 --gpus 8 -s 1M -s 64M -o out",
    ),
    (
        "sweep",
        "sweep run allreduce-dgx-h100 --over size=1KiB,64MiB --over algorithm=ring,tree -o out",
    ),
    (
        "layouts",
        "optimize gpt2-124m -t dgx-h100 --gpus 8 --global-batch 64",
    ),
    ("steps", "explain all-reduce --algo binary-tree --ranks 4"),
    ("communicator", "communicator -t dgx-h100 -n 2"),
    ("hang", "hang different-order"),
    ("machine", "topology show dgx-h100"),
    (
        "published",
        "validate tests/measurements/made-up-all-reduce.json",
    ),
];

#[test]
fn what_is_printed_is_the_golden_text() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut different = Vec::new();
    for (name, line) in GOLDEN {
        let folder = tempfile::tempdir().unwrap();
        symlink(here.join("tests"), folder.path().join("tests")).unwrap();
        let mut command = Command::cargo_bin("fabricsim").unwrap();
        command.args(line.split(' ')).current_dir(folder.path());
        command.env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        // Where the longest points stand is a matter of the machine.
        let printed = match printed.split_once("points that took longest") {
            Some((before, _)) => before.to_owned(),
            None => printed,
        };
        let golden = here.join(format!("tests/golden/{name}.txt"));
        if std::env::var_os("FABRICSIM_BLESS").is_some() {
            fs::write(&golden, &printed).unwrap();
        }
        if fs::read_to_string(&golden).ok().as_ref() != Some(&printed) {
            different.push(format!("{name}: fabricsim {line}\n{printed}"));
        }
    }
    assert!(
        different.is_empty(),
        "run with FABRICSIM_BLESS=1 if the change is meant:\n{}",
        different.join("\n")
    );
}
