//! The law of help: every command has three examples that run, completes the names that it takes, and has a manual page;
//! what it reads or writes is in a schema, where there is one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::cargo::cargo_bin;
use clap::{Command as Described, CommandFactory, Parser};
use fabricsim::cli::Cli;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Examples that are not run here: they need files of the repository and take minutes or longer, or never end.
const NOT_RUN: [&str; 2] = ["fit", "lab"];

/// The same: what takes several seconds, each.
const SLOW: [&str; 5] = [
    "fabricsim sweep run straggler",
    "fabricsim sweep run crossover",
    "fabricsim sweep run mine.json",
    "--split none,2:2",
    "--only 24",
];

/// A command: its words behind `fabricsim`, and what clap knows of it.
struct Known {
    words: String,
    described: Described,
}

/// All commands, those in others too, without `help`.
fn commands() -> Vec<Known> {
    fn add(described: &Described, words: &str, all: &mut Vec<Known>) {
        for inner in described.get_subcommands() {
            let words = format!("{words} {}", inner.get_name());
            let words = words.trim_start().to_owned();
            add(inner, &words, all);
            let described = inner.clone();
            all.push(Known { words, described });
        }
    }
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut all = Vec::new();
    add(&program, "", &mut all);
    assert!(all.len() > 40);
    all
}

/// The lines of commands among a command's examples, after a look at their form.
fn examples(of: &Known) -> Vec<String> {
    let words = &of.words;
    let end = of.described.get_after_long_help();
    let end = end.unwrap_or_else(|| panic!("{words} has no examples"));
    let end = end.to_string();
    let (heading, lines) = end.split_once('\n').unwrap();
    assert_eq!(heading, "Examples:", "{words}");
    let mut shown: Vec<Vec<String>> = Vec::new();
    for line in lines.lines() {
        assert!(line.chars().count() <= 100, "{words}: {line}");
        match line.strip_prefix("  # ") {
            Some(_) => shown.push(Vec::new()),
            None => {
                let command = line.strip_prefix("  ").unwrap().to_owned();
                assert!(command.starts_with("fabricsim "), "{words}: {line}");
                shown.last_mut().unwrap().push(command);
            }
        }
    }
    assert_eq!(shown.len(), 3, "{words}");
    for commands in &shown {
        // A group's examples are of the commands in it, or of what comes next.
        let own = format!("fabricsim {words}");
        let own = commands.iter().any(|command| command.starts_with(&own));
        assert!(
            own || of.described.has_subcommands(),
            "{words}: {commands:?}"
        );
    }
    shown.concat()
}

/// What the shell hands to the program.
fn arguments(line: &str) -> Vec<&str> {
    let line = line.split_once(" | ").map_or(line, |(own, _)| own);
    let line = line.split_once(" > ").map_or(line, |(own, _)| own);
    line.split(' ').collect()
}

/// Runs a line in a folder, as a shell does where the program is installed.
fn run(shell: &str, line: &str, folder: &Path) -> Output {
    let program = cargo_bin("fabricsim");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let mut command = Command::new(shell);
    command.args(["-c", line]).current_dir(folder);
    command.env("PATH", path);
    command.env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    command.output().unwrap()
}

fn printed(line: &str, folder: &Path) -> String {
    let output = run("sh", line, folder);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_ends_its_long_help_with_three_examples_that_parse() {
    for known in commands() {
        for line in examples(&known) {
            let read = Cli::try_parse_from(arguments(&line));
            assert!(read.is_ok(), "{line}: {}", read.err().unwrap());
        }
        let mut long = known.described.clone().term_width(100);
        let mut short = known.described;
        let end = long.get_after_long_help().unwrap().to_string();
        let help = long.render_long_help().to_string();
        assert!(help.trim_end().ends_with(&end), "{}:\n{help}", known.words);
        let short = short.render_help().to_string();
        assert!(!short.contains("Examples:"), "{}:\n{short}", known.words);
    }
}

#[test]
fn examples_run_in_a_folder_that_holds_nothing() {
    for known in commands() {
        if NOT_RUN.contains(&known.words.as_str()) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        for line in examples(&known) {
            if SLOW.iter().any(|part| line.contains(part)) {
                continue;
            }
            let output = run("sh", &line, folder.path());
            let error = String::from_utf8_lossy(&output.stderr);
            // That a job hangs is the answer of `hang`.
            let hangs = line.starts_with("fabricsim hang ") && output.status.code() == Some(1);
            assert!(output.status.success() || hangs, "{line}: {error}");
        }
    }
}

#[test]
fn what_ifs_are_a_line_each_in_the_short_help() {
    let here = Path::new(".");
    for command in ["run", "collective", "compare", "serve"] {
        let help = printed(&format!("fabricsim {command} -h"), here);
        let (_, group) = help.split_once("\nWhat-ifs:\n").unwrap();
        let mut lines = group.lines();
        for flag in [
            "--slow-gpu",
            "--nic",
            "--link",
            "--flap",
            "--kill",
            "--nodelist",
            "--distribution",
            "--fallback",
            "--binding",
            "--oversubscription",
            "--mtu",
        ] {
            let line = lines.next().unwrap();
            assert!(line.trim_start().starts_with(flag), "{command}: {line}");
        }
    }
}

/// What bash offers for the last of these words.
fn offered(words: &str, script: &str, folder: &Path) -> Vec<String> {
    fs::write(folder.join("complete.bash"), script).unwrap();
    let ask = format!(
        "source ./complete.bash
        COMP_WORDS=(fabricsim {words} \"\"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _fabricsim fabricsim \"\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\" 2>/dev/null
        printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let output = run("bash", &ask, folder);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_command_and_the_names_that_it_takes_complete() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let bash = printed("fabricsim completions bash", at);
    for known in commands() {
        let offered = offered(&known.words, &bash, at);
        assert!(offered.contains(&"--help".to_owned()), "{}", known.words);
        for argument in known.described.get_arguments() {
            let value = argument.get_value_names().unwrap_or_default();
            let mut words = value.iter().flat_map(|name| name.split('|'));
            if !words.any(|word| word == "NAME") || argument.get_id() == "output" {
                continue;
            }
            // Of an option its names alone, of a word options, too.
            let name = format!("{} {}", known.words, argument.get_id());
            match argument.get_long() {
                Some(_) if name == "compare baseline" || name == "topology import name" => {}
                Some(long) => {
                    let words = format!("{} --{long}", known.words);
                    let names = self::offered(&words, &bash, at);
                    assert!(names.len() > 10, "{words}: {names:?}");
                }
                None => assert!(offered.iter().any(|name| !name.starts_with('-')), "{name}"),
            }
        }
    }
    for (words, name) in [
        ("collective", "all-reduce"),
        ("collective all-reduce -t", "gb200-nvl72"),
        ("collective all-reduce --algo", "nvls-tree"),
        ("collective all-reduce --proto", "ll128"),
        ("run", "ddp-buckets"),
        ("run ddp-buckets --fallback", "no_peermem"),
        ("run ddp-buckets --binding", "one_core"),
        ("sweep run", "crossover"),
        ("sweep run", "ddp-straggler"),
        ("sweep copy", "buckets"),
        ("scenario new training --model", "gpt2-124m"),
        ("serve", "llama3-70b"),
        ("optimize", "llama3-70b"),
        ("compare", "send-recv"),
        ("lesson", "gpipe"),
        ("hang", "different-order"),
        ("topology show", "dgx-h100"),
        ("model show", "deepseek-v3"),
        ("schema", "topology"),
        ("completions", "fish"),
    ] {
        let names = offered(words, &bash, at);
        assert!(names.iter().any(|one| one == name), "{words}: {names:?}");
    }
    for (shell, part) in [
        ("zsh", ":NAME|FILE: _fabricsim_or_file dgx-1-v100 "),
        ("zsh", "compadd"),
        ("fish", "-r -F -a \"dgx-1-v100\\t''"),
        (
            "fish",
            "-n \"__fish_fabricsim_using_subcommand lesson\" -a \"list all ring ",
        ),
    ] {
        let script = printed(&format!("fabricsim completions {shell}"), at);
        assert!(script.contains(part), "{shell}: {part}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&format!("fabricsim completions {shell}"), at);
        assert!(!script.contains("@file"), "{shell}");
    }
}

/// Where parsers look names up, a wrong one is answered as it was, although scripts know the names.
#[test]
fn wrong_names_are_answered_by_those_who_look_them_up() {
    for (line, parts) in [
        ("fabricsim collective all-reduce -t dgx-h10", "dgx-h100"),
        ("fabricsim run ddp-bucket", "did you mean `ddp-buckets`"),
        ("fabricsim collective all-reduce -t", "none was supplied"),
    ] {
        let output = run("sh", line, Path::new("."));
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {error}");
        assert!(error.contains(parts), "{line}: {error}");
        assert!(!error.contains("possible values"), "{line}: {error}");
    }
}

#[test]
fn every_command_has_a_manual_page_and_pages_replace_nothing_but_pages() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let said = printed("fabricsim man new/man1", at);
    let names: Vec<String> = commands()
        .iter()
        .map(|known| format!("fabricsim-{}.1", known.words.replace(' ', "-")))
        .chain(["fabricsim.1".to_owned()])
        .collect();
    let entries = fs::read_dir(at.join("new/man1")).unwrap();
    let mut pages: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(pages, expected);
    assert_eq!(said.lines().count(), names.len());
    for name in &names {
        let page = fs::read_to_string(at.join("new/man1").join(name)).unwrap();
        assert!(page.contains(".TH fabricsim"), "{name}");
        let (_, end) = page.split_once(".SH EXAMPLES\n").unwrap();
        assert_eq!(end.matches(".PP\n").count(), 3, "{name}: {end}");
    }
    // Again, in place of those that are there; beside anything else not at all.
    assert_eq!(printed("fabricsim man new/man1 -q", at), "");
    fs::write(at.join("new/man1/ls.1"), "of somebody else").unwrap();
    fs::write(at.join("new/man1/fabricsim.1"), "edited").unwrap();
    for (line, code) in [("fabricsim man new/man1", 2), ("fabricsim man x.json", 2)] {
        let output = run("sh", line, at);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
    }
    let kept = fs::read_to_string(at.join("new/man1/fabricsim.1")).unwrap();
    assert_eq!(kept, "edited");
}

#[test]
fn documents_of_commands_are_as_their_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut formats = Vec::new();
    for (format, lines) in [
        (
            "topology",
            &["topology new dgx-h100", "topology export dgx-h100 -n 1"][..],
        ),
        (
            "scenario",
            &[
                "scenario show nic-flap",
                "scenario new collective",
                "scenario new training",
                "hang different-order --show",
            ],
        ),
        ("sweep", &["sweep copy crossover -q && cat crossover.json"]),
        (
            "summary",
            &[
                "run ddp-straggler --json -q",
                "communicator -t dgx-h100 --json -q",
                "serve llama3-8b -t dgx-h100 --rate 5 --requests 20 --json -q",
                "hang wrong-data --json -q",
            ],
        ),
        ("job-summary", &["run ddp-straggler --json -q"]),
    ] {
        let schema = printed(&format!("fabricsim schema {format}"), at);
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        for line in lines {
            let output = run("sh", &format!("fabricsim {line}"), at);
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let wrong = schema.validate(&document).err();
            assert!(wrong.is_none(), "{line}: {}", wrong.unwrap());
        }
        formats.push(format);
    }
    let all = commands().into_iter();
    let schema = all
        .into_iter()
        .find(|known| known.words == "schema")
        .unwrap();
    let known = schema.described.get_positionals().next().unwrap();
    let known = known.get_possible_values();
    let known: Vec<&str> = known.iter().map(|value| value.get_name()).collect();
    assert_eq!(known, formats);
}
