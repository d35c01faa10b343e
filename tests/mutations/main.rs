//! Any input either runs or is refused with a place: mutants of every format that the program
//! reads, from a seed. No panic, no endless work, no more memory than the budget.
//!
//! `FUZZ_CASES=100000` tries so many of each format in place of 2,000; `FUZZ_SEED` draws others;
//! `FUZZ_FIRST=N` begins with another case; `FUZZ_KEEP=1` writes those that fail, and those slower than
//! all before them, into the folder for temporary files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod formats;
mod json;
mod random;
mod text;

use random::Random;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What became of an input that was read without a complaint.
#[derive(PartialEq)]
pub(crate) enum Fate {
    /// It ran to its end.
    Ran,
    /// It was checked; what a run finds refused it in words, or it is too large to be run here.
    Checked,
}

/// What became of an input, or the words in which it was refused.
pub(crate) type Verdict = Result<Fate, String>;

/// Longer than any input of the corpus may take, on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Far more than the budgets of inputs that run at once, and their texts.
const MOST_MEMORY: u64 = 2 << 30;

/// The most memory that this process ever held, where the system tells it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn setting(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().unwrap())
}

/// The words of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

/// Writes a mutant into the folder for temporary files, if that is wanted.
fn keep(format: &str, case: u64, input: &str) {
    if setting("FUZZ_KEEP", 0) > 0 {
        let name = format!("mutant-{}-{case}", format.replace(' ', "-"));
        std::fs::write(std::env::temp_dir().join(name), input).unwrap();
    }
}

/// Tries mutants of one format. `mutant` makes one, `verdict` says what becomes of it, and a refusal
/// has to name one of `places`.
fn holds(
    format: &str,
    mutant: impl Fn(&mut Random) -> String,
    verdict: impl Fn(&str) -> Verdict,
    places: &[&str],
) {
    let cases = setting("FUZZ_CASES", 2000);
    let seed = setting("FUZZ_SEED", 1);
    let (mut ran, mut checked, mut slowest) = (0, 0, (Duration::ZERO, 0));
    let mut failures = Vec::new();
    let first = setting("FUZZ_FIRST", 0);
    for case in first..first + cases {
        let mut random = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(case));
        let input = mutant(&mut random);
        if cases == 1 {
            // The one that is looked into, which may never end.
            keep(format, case, &input);
        }
        let began = Instant::now();
        let found = catch_unwind(AssertUnwindSafe(|| verdict(&input)));
        let took = began.elapsed();
        if took > slowest.0 {
            slowest = (took, case);
            keep(format, case, &input);
        }
        let problem = match found {
            Err(panic) => Some(format!("panics: {}", words(panic.as_ref()))),
            Ok(_) if took > LONGEST => Some(format!("takes {took:?}")),
            Ok(Ok(fate)) => {
                let count = if fate == Fate::Ran {
                    &mut ran
                } else {
                    &mut checked
                };
                *count += 1;
                None
            }
            Ok(Err(text)) if !places.iter().any(|place| text.contains(place)) => {
                Some(format!("names no place: {text}"))
            }
            Ok(Err(_)) => None,
        };
        if let Some(problem) = problem {
            let shown: String = problem.chars().take(300).collect();
            keep(format, case, &input);
            failures.push(format!("case {case} {shown}"));
        }
        if failures.len() > 20 {
            break;
        }
    }
    let (longest, slow) = slowest;
    println!(
        "{format}: {cases} mutants, {ran} ran, {checked} only checked, slowest {longest:?} (case {slow})"
    );
    assert!(
        failures.is_empty(),
        "{format} (FUZZ_SEED={seed}):\n{}",
        failures.join("\n")
    );
    // All formats are tried at once, in one process.
    let held = peak().unwrap_or(0);
    assert!(held < MOST_MEMORY, "{held} bytes");
    // A corpus of which nothing runs shows little.
    assert!(ran * 100 >= cases, "{ran} of {cases} {format} run");
}

#[test]
fn scenarios_of_collectives() {
    let seeds = formats::collectives();
    holds(
        "scenarios of collectives",
        |random| json::mutant(&seeds[random.below(seeds.len())], random),
        formats::scenario,
        &["m.json", "job", "`"],
    );
}

#[test]
fn scenarios_of_training() {
    let seeds = formats::trainings();
    holds(
        "scenarios of training",
        |random| json::mutant(&seeds[random.below(seeds.len())], random),
        formats::scenario,
        &["m.json", "job", "model", "variants", "`"],
    );
}

#[test]
fn scenarios_of_communicators_and_calls() {
    let seeds = formats::callings();
    holds(
        "scenarios of communicators and calls",
        |random| json::mutant(&seeds[random.below(seeds.len())], random),
        formats::scenario,
        &["m.json", "job", "`"],
    );
}

#[test]
fn faults() {
    let (scenario, seeds) = (formats::small("all-reduce"), formats::faults());
    holds(
        "faults",
        |random| json::mutant(&seeds[random.below(seeds.len())], random),
        |text| formats::scenario(&formats::with(&scenario, "faults", text)),
        &["m.json", "faults"],
    );
}

#[test]
fn matrices() {
    let scenario = formats::small("all-to-all-v");
    let seed = serde_json::json!([[0, 1, 2, 3], [4, 0, 5, 6], [7, 8, 0, 9], [1, 1, 1, 0]]);
    holds(
        "matrices",
        |random| json::mutant(&seed, random),
        |text| formats::scenario(&formats::with_matrix(&scenario, text)),
        &["m.json", "matrix"],
    );
}

#[test]
fn topologies() {
    let seeds = formats::topologies();
    holds(
        "topologies",
        |random| json::mutant(&seeds[random.below(seeds.len())], random),
        formats::topology,
        &["m.json"],
    );
}

#[test]
fn hardware_of_a_topology() {
    let (topology, hardware) = formats::hardware();
    holds(
        "hardware",
        |random| formats::with(&topology, "hardware", &json::mutant(&hardware, random)),
        formats::topology,
        &["m.json"],
    );
}

#[test]
fn hardware_under_a_job() {
    let (topology, hardware) = formats::hardware();
    let scenario = formats::smallest_training();
    holds(
        "hardware under a job",
        |random| {
            let inline = formats::with(&topology, "hardware", &json::mutant(&hardware, random));
            formats::with(&scenario, "topology", &format!("{{\"inline\": {inline}}}"))
        },
        formats::scenario,
        &["m.json", "hardware"],
    );
}

#[test]
fn fitted_values() {
    let seed = formats::read("topologies/hardware/fitted.json");
    holds(
        "fitted values",
        |random| json::mutant(&seed, random),
        formats::fitted,
        &["m.json"],
    );
}

#[test]
fn measurements() {
    let seeds = formats::measurements();
    holds(
        "measurements",
        |random| json::mutant(&seeds[random.below(seeds.len())], random),
        formats::measurement,
        &["m.json"],
    );
}

#[test]
fn models_of_measurements() {
    let seed = formats::read("validation/models.json");
    holds(
        "models.json",
        |random| json::mutant(&seed, random),
        formats::models,
        &["m.json"],
    );
}

#[test]
fn published_steps() {
    let seed = formats::published();
    holds(
        "training.json",
        |random| json::mutant(&seed, random),
        formats::steps,
        &["m.json", "job", "model", "small", "`"],
    );
}

#[test]
fn specs_of_fits() {
    let seed = formats::read("validation/fit.json");
    holds(
        "fit.json",
        |random| json::mutant(&seed, random),
        formats::fit,
        &["m.json"],
    );
}

#[test]
fn topologies_of_nccl() {
    let seeds = formats::nccl_xml();
    holds(
        "NCCL topology XML",
        |random| text::xml_mutant(&seeds[random.below(seeds.len())], random),
        formats::import,
        &["m.json", "line "],
    );
}

#[test]
fn tables_of_nvidia_smi() {
    let seeds = formats::smi();
    holds(
        "nvidia-smi topo",
        |random| text::table_mutant(&seeds[random.below(seeds.len())], '\t', random),
        formats::import,
        &["m.json", "line "],
    );
}

#[test]
fn series_of_monitoring() {
    let tables = formats::series();
    let answer = formats::answer();
    holds(
        "series of monitoring",
        |random| match random.one_in(4) {
            true => json::mutant(&answer, random),
            false => {
                let (text, by) = tables[random.below(tables.len())];
                text::table_mutant(text, by, random)
            }
        },
        formats::measured,
        &["line "],
    );
}

#[test]
fn traces_of_requests() {
    let tables = formats::traces();
    let rows = formats::rows_of_traces();
    holds(
        "traces of requests",
        |random| match random.one_in(2) {
            true => text::table_mutant(tables[random.below(tables.len())], ',', random),
            false => {
                let mut lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
                let at = random.below(lines.len());
                lines[at] = json::mutant(&rows[at], random);
                lines.join("\n")
            }
        },
        formats::trace,
        &["line "],
    );
}

#[test]
fn journals_of_sweeps() {
    let home = tempfile::tempdir().unwrap();
    let (info, rows) = formats::journal(home.path());
    holds(
        "journals of sweeps",
        |random| {
            let mut lines: Vec<String> = rows.iter().map(|row| format!("{row}\n")).collect();
            let at = random.below(lines.len());
            match random.below(4) {
                0 => {
                    let text = lines.concat();
                    text::lines_changed(&text, random)
                }
                1 => {
                    let text = lines.concat();
                    text::characters_changed(&text, random)
                }
                _ => {
                    lines[at] = json::mutant(&rows[at], random) + "\n";
                    lines.concat()
                }
            }
        },
        |text| formats::journalled(home.path(), &info, text),
        &["line "],
    );
}

#[test]
fn algorithms_of_msccl() {
    let seeds = formats::msccl();
    holds(
        "MSCCL XML",
        |random| text::xml_mutant(&seeds[random.below(seeds.len())], random),
        formats::algorithm,
        &["line ", "XML", "it is no ", "ranks"],
    );
}

#[test]
fn graphs_of_nccl() {
    let seeds = formats::graphs();
    holds(
        "NCCL graph XML",
        |random| text::xml_mutant(&seeds[random.below(seeds.len())], random),
        formats::graph,
        &["m.json", "line ", "NCCL_GRAPH_FILE"],
    );
}
