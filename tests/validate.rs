//! `fabricsim validate` as a user meets it, on tables that are made up.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/measurements");

struct Done {
    code: i32,
    out: String,
    err: String,
}

fn validate(args: &[&str]) -> Done {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.arg("validate").args(args);
    let output = command.env_remove("CLICOLOR_FORCE").output().unwrap();
    Done {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What it prints; nothing may come on standard error, where a bar has no terminal.
fn succeeds(args: &[&str]) -> String {
    let done = validate(args);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{args:?}");
    done.out
}

fn refuses(args: &[&str], parts: &[&str]) {
    let done = validate(args);
    assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}");
    for part in parts {
        assert!(done.err.contains(part), "no `{part}` in: {}", done.err);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn tables_of_faulty_machines_are_skipped_unless_asked_for() {
    let faulty = format!("{TABLES}/made-up-faulty.json");
    let done = validate(&[&faulty]);
    assert_eq!(done.code, 1, "{}", done.out);
    assert!(done.out.contains("--unhealthy predicts it"), "{}", done.out);
    let out: Value = serde_json::from_str(&succeeds(&[&faulty, "--unhealthy", "--json"])).unwrap();
    assert_eq!(out["sets"][0]["id"], "made-up-faulty");
    assert_eq!(out["skipped"], serde_json::json!([]));
}

#[test]
fn steps_are_one_document_too() {
    let only = [
        "--steps",
        "validation/training.json",
        "--only",
        "kor-megatron-22B",
    ];
    let text = succeeds(&[&only[..], &["--json"]].concat());
    let out: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(out["format"], 2);
    assert_eq!(out["version"], env!("CARGO_PKG_VERSION"));
    let row = &out["tables"][0]["rows"][0];
    for key in [
        "name",
        "gpus",
        "predicted_s",
        "measured_s",
        "mfu",
        "problem",
    ] {
        assert!(row.get(key).is_some(), "{key} in {row}");
    }
}

#[test]
fn memory_of_jobs_is_one_document_too() {
    let own = ["--job-memory", "validation/memory.json", "--only", "bs0225"];
    let text = succeeds(&[&own[..], &["--json"]].concat());
    let out: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(out["format"], 2);
    assert_eq!(out["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(out["all"], out["tables"][0]["errors"]);
    assert_eq!(out["all"]["measured"], 9);
    assert_eq!(
        (&out["all"]["ran_out"], &out["all"]["ran_out_and_refused"]),
        (&1.into(), &1.into())
    );
    let row = &out["tables"][0]["rows"][0];
    assert!(row["predicted_gb"].as_f64().unwrap() > 40.0);
    assert_eq!(row["memory"]["parts"][0][0], "parameters");
    assert!(row["memory"]["parts"][0][1].is_u64());

    let text = succeeds(&own);
    for part in [
        "predicted GB",
        "ran out",
        "1 of 1 that ran out of memory are said not to fit",
    ] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    refuses(
        &["--job-memory", "validation/training.json"],
        &["training.json", "measures"],
    );
}

#[test]
fn a_step_that_is_no_job_names_its_file_and_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.json");
    let text = fs::read_to_string("validation/training.json").unwrap();
    let mut steps: Value = serde_json::from_str(&text).unwrap();
    let scenario = &mut steps["tables"][0]["scenario"];
    scenario["gpus_per_node"] = 65536.into();
    scenario["topology"] = serde_json::json!({"name": "dgx-a100"});
    fs::write(&path, steps.to_string()).unwrap();
    let row = steps["tables"][0]["rows"][0]["name"].as_str().unwrap();
    refuses(
        &["--steps", path.to_str().unwrap(), "--only", row],
        &["steps.json, row `", row, "gpus_per_node"],
    );
}

#[test]
fn a_log_of_nccl_tests_is_told_from_json() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("nccl-tests.log");
    fs::write(&log, "# nThread 1 nGpus 8 minBytes 8 maxBytes 64\n#\n").unwrap();
    refuses(
        &[log.to_str().unwrap()],
        &[
            "nccl-tests.log, line 1",
            "a text log of nccl-tests",
            "docs/guide-machines.md",
        ],
    );
}

#[test]
fn json_is_the_contract() {
    let out: Value = serde_json::from_str(&succeeds(&[TABLES, "--json"])).unwrap();
    let sets = out["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 1);
    let set = &sets[0];
    assert_eq!(set["id"], "made-up-all-reduce");
    assert_eq!(set["ranks"], 8);
    assert_eq!(set["one_nvlink_domain"], true);
    let rows = set["rows"].as_array().unwrap();
    // The last one has no figure.
    assert_eq!(rows.len(), 3);
    for (row, bytes) in rows.iter().zip([1024, 1 << 20, 1 << 25]) {
        assert_eq!(row["bytes"], bytes);
        for field in ["measured_us", "predicted_us", "baseline_us"] {
            assert!(row[field].as_f64().unwrap() > 0.0, "{field} of {row}");
        }
        assert!(row["algo"].is_string() && row["proto"].is_string());
        assert!(row["channels"].as_u64().unwrap() > 0);
    }
    assert_eq!(rows[0]["measured_us"], 20.0);
    // A bus bandwidth, as a time.
    let time = f64::from(1 << 25) * 1.75 / 300e3;
    assert!((rows[2]["measured_us"].as_f64().unwrap() - time).abs() < 1e-6);

    for scope in ["groups", "one_nvlink_domain"] {
        for band in ["below_64_kib", "64_kib_to_16_mib", "above_16_mib"] {
            for which in ["predicted", "baseline"] {
                let spread = &out["summary"][scope][band][which];
                assert_eq!(spread["count"], 1, "{scope} {band} {which}");
                for field in ["median", "p90", "ratio"] {
                    assert!(spread[field].is_f64(), "{scope} {band} {which} {field}");
                }
                assert_eq!(spread, &set["errors"][band][which]);
            }
        }
    }
    let error = rows[0]["predicted_us"].as_f64().unwrap() / 20.0 - 1.0;
    let median = &out["summary"]["groups"]["below_64_kib"]["predicted"]["median"];
    assert!((median.as_f64().unwrap() - error.abs()).abs() < 1e-9);
    let counts = &out["summary"]["counts"];
    let counted = ["tables", "healthy", "with_model", "modelled"].map(|n| counts[n].as_u64());
    assert_eq!(counted, [Some(4), Some(3), Some(2), Some(1)]);

    let skipped = out["skipped"].as_array().unwrap();
    let expected = [
        ("made-up-faulty", "unhealthy", "fault"),
        ("made-up-no-model", "no_model", "p2p_latency"),
        ("made-up-unknown-machine", "failed", "no-such-machine"),
    ];
    assert_eq!(skipped.len(), expected.len());
    for (set, (id, kind, why)) in skipped.iter().zip(expected) {
        assert_eq!((&set["id"], &set["kind"]), (&id.into(), &kind.into()));
        assert!(set["why"].as_str().unwrap().contains(why), "{set}");
    }
    assert_eq!(out["version"], env!("CARGO_PKG_VERSION"));
}

/// A table whose settings are taken to be otherwise than its source says is predicted both ways, and
/// counts among no others.
#[test]
fn inferred_settings_count_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tables.json");
    let table = |id: &str, nodes: u32, more: &str| {
        format!(
            r#"{{"id": "{id}", "collective": "all_reduce", "rows": [{{"bytes": 8192, "time_us": 20}}], {more}
            "model": {{"topology": "dgx-h100", "nodes": {nodes}, "gpus_per_node": 8, "collective": "all-reduce",
            "env": {{"NCCL_IB_DISABLE": "1"}}}}}}"#
        )
    };
    let inferred =
        r#""inferred": {"why": "too fast for sockets", "env": {"NCCL_IB_DISABLE": null}},"#;
    let text = format!("[{}, {}]", table("one", 1, ""), table("two", 2, inferred));
    fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let out: Value = serde_json::from_str(&succeeds(&[file, "--json"])).unwrap();
    let sets = out["sets"].as_array().unwrap();
    let told: Vec<_> = sets
        .iter()
        .map(|s| (&s["id"], &s["inferred"]["taken"]))
        .collect();
    let expected = [
        (Value::from("one"), Value::Null),
        ("two".into(), false.into()),
        ("two".into(), true.into()),
    ];
    assert!(
        told.iter()
            .zip(&expected)
            .all(|(a, b)| (a.0, a.1) == (&b.0, &b.1)),
        "{told:?}"
    );
    let time = |set: usize| sets[set]["rows"][0]["predicted_us"].as_f64().unwrap();
    assert!(time(1) > 1.5 * time(2), "sockets are slower than RDMA");
    for (line, set) in [("groups", 0), ("inferred_as_said", 1), ("inferred", 2)] {
        let all = &out["summary"][line]["below_64_kib"]["predicted"];
        assert_eq!(
            all, &sets[set]["errors"]["below_64_kib"]["predicted"],
            "{line}"
        );
    }
    let counts = &out["summary"]["counts"];
    assert_eq!(
        (&counts["modelled"], &counts["inferred"]),
        (&2.into(), &1.into())
    );
    let text = succeeds(&[file]);
    for part in [
        "two (inferred)",
        "settings inferred",
        "the same, as sources say",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn tables_can_be_told_how_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let table = at(
        "table.json",
        r#"{"id": "mine", "collective": "all_reduce", "rows": [{"bytes": 8192, "time_us": 20}]}"#,
    );
    let model =
        r#"{"topology": "dgx-h100", "nodes": 1, "gpus_per_node": 8, "collective": "all-reduce"}"#;
    let models = |field: &str| {
        let text =
            format!(r#"{{"tables": [{{"ids": ["mine"], "{field}": {model}, "why": "so"}}]}}"#);
        at("models.json", &text)
    };
    let count = |out: &str| {
        let out: Value = serde_json::from_str(out).unwrap();
        out["sets"].as_array().unwrap().len()
    };
    let predicted = |args: &[&str]| count(&succeeds(args));
    // Nothing predicted is no success; the document says what was skipped.
    let skipped = validate(&[&table, "--json"]);
    assert_eq!((skipped.code, count(&skipped.out)), (1, 0));
    assert_eq!(
        predicted(&[&table, "--json", "--models", &models("model")]),
        1
    );
    refuses(
        &[&table, "--models", &models("modle")],
        &["models.json", "unknown field `modle`"],
    );
}

#[test]
fn tables_are_for_people() {
    let out = succeeds(&[TABLES]);
    assert!(!out.contains('\u{1b}'), "colours in a pipe");
    for part in [
        "64 KiB-16 MiB",
        "median/p90/ratio",
        "NCCL's model",
        "inside one NVLink domain",
        "furthest off",
        "4 tables, 3 of them healthy, 2 of those with a model block, 1 of those predicted",
        "Skipped: 3",
        "made-up-no-model",
        "no-such-machine",
    ] {
        assert!(out.contains(part), "no `{part}` in:\n{out}");
    }
}

#[test]
fn a_folder_holds_the_same_and_pictures() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("new/report");
    let text = target.display().to_string();
    let out = succeeds(&[TABLES, "--json", "-o", &text]);
    assert_eq!(
        names(&target),
        ["curves.svg", "report.html", "validation.json"]
    );
    let read = |name: &str| fs::read_to_string(target.join(name)).unwrap();
    assert_eq!(out, read("validation.json"), "--json is validation.json");
    let page = read("report.html");
    for part in ["made-up-all-reduce", "made-up-faulty", "no-such-machine"] {
        assert!(page.contains(part), "no `{part}` in the page");
    }
    assert!(!page.contains("http://") && !page.contains("https://"));
    let curves = read("curves.svg");
    let drawing = roxmltree::Document::parse(&curves).unwrap();
    let circles = drawing.descendants().filter(|n| n.has_tag_name("circle"));
    // Three sizes and the legend.
    assert_eq!(circles.count(), 4);

    // Again, over the first: the same bytes, and nothing left beside it.
    let before = [out, page, curves];
    let told = succeeds(&[TABLES, "--jobs", "1", "-o", &text]);
    assert!(told.ends_with(&format!("Written to {text}\n")), "{told}");
    let after = ["validation.json", "report.html", "curves.svg"].map(read);
    assert!(before == after);
    assert_eq!(names(&home.path().join("new")), ["report"]);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("notes.txt"), "words").unwrap();
    let text = home.path().display().to_string();
    refuses(&[TABLES, "-o", &text], &["notes.txt", "it was left as"]);
    assert_eq!(names(home.path()), ["notes.txt"]);
}

#[test]
fn bad_files_are_told_with_their_place() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bad.json");
    let text = path.display().to_string();
    let cases: &[(&str, &[&str])] = &[
        ("{\n \"id\": 3 }", &["bad.json, line 2", "at id"]),
        (
            r#"{"id": "a", "collective": "all_reduce", "rows": [{"bytes": "many"}]}"#,
            &["bad.json, line 1", "rows[0].bytes"],
        ),
        (r#"{"id": "a", "rows": []}"#, &["bad.json", "collective"]),
        ("{", &["bad.json, line 1"]),
    ];
    for (content, parts) in cases {
        fs::write(&path, content).unwrap();
        refuses(&[&text], parts);
    }
    refuses(&["/no/such/table.json"], &["/no/such/table.json"]);
    refuses(
        &[TABLES, "--only", "real"],
        &["none of the 4 tables", "`real`"],
    );
    let kept: BTreeSet<String> = names(home.path()).into_iter().collect();
    assert_eq!(kept.len(), 1);
}

#[test]
fn values_of_a_fit_take_the_place_of_the_shipped_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    let path = file.to_str().unwrap();
    let write = |place: &str, value: &str| {
        let text = serde_json::json!({"comment": "mine", "values": {place: value}});
        fs::write(&file, text.to_string()).unwrap();
    };
    let smallest = |extra: &[&str]| {
        let args = [&[TABLES, "--json"], extra].concat();
        let out: Value = serde_json::from_str(&succeeds(&args)).unwrap();
        out["sets"][0]["rows"][0]["predicted_us"].as_f64().unwrap()
    };
    write("architectures.hopper.ll.launch", "1ms");
    assert!(smallest(&["--values", path]) > smallest(&[]) + 900.0);
    write("architectures.hooper.ll.launch", "1ms");
    refuses(&[TABLES, "--values", path], &["mine.json", "hooper"]);
    refuses(&[TABLES, "--values", "nowhere.json"], &["nowhere.json"]);
}

#[test]
fn kernels_are_predicted_by_their_laws_and_what_is_not_is_told() {
    let folder = format!("{TABLES}/serving");
    let out = succeeds(&["--serving", &folder, "--json"]);
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["format"], 2);
    let sets = out["sets"].as_array().unwrap();
    let groups: Vec<&str> = sets.iter().map(|s| s["group"].as_str().unwrap()).collect();
    let expected = [
        "h100-sxm gemm bfloat16",
        "h100-sxm attention decode bfloat16/fp8",
        "h100-sxm experts fp8_block",
        "h100-sxm custom all-reduce bfloat16",
    ];
    assert_eq!(groups, expected);
    let products = sets[0]["rows"].as_array().unwrap();
    // 8192^3 products of 16 bits take 1,112 us at the peak, weights of 134 MB 40 us.
    let predicted = |row: &Value| row["predicted"].as_f64().unwrap();
    assert!(predicted(&products[0]) > 40.0 && predicted(&products[0]) < 60.0);
    assert!(predicted(&products[2]) > 1112.0 && predicted(&products[2]) < 1600.0);
    assert_eq!(products[0]["unit"], "us");
    let all = &out["summary"][0];
    assert_eq!(
        (&all["kind"], &all["quantity"]),
        (&"kernel_profile".into(), &"all".into())
    );
    assert_eq!(
        (all["groups"].as_u64(), all["rows"].as_u64()),
        (Some(4), Some(6))
    );
    let skipped = out["skipped"].as_array().unwrap();
    let whys: Vec<(&str, u64)> = skipped
        .iter()
        .map(|s| (s["why"].as_str().unwrap(), s["rows"].as_u64().unwrap()))
        .collect();
    for why in [
        "a data type that no law has",
        "faster than the GPU's peaks allow",
        "the host starts each all-reduce, which takes longer than it does",
        "tables of the kind `trace` are not predicted",
    ] {
        assert!(whys.contains(&(why, 1)), "{why}: {whys:?}");
    }
    let text = succeeds(&["--serving", &folder, "--only", "kernels"]);
    assert!(text.contains("in the median of 4 groups"), "{text}");
    assert!(!text.contains("made-up-trace"), "{text}");
}

#[test]
fn a_table_of_kernels_with_words_for_numbers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.json");
    let table = r#"{"id": "broken", "kind": "kernel_profile", "system": {"gpu": "H100"},
        "rows": [{"dtype": "bfloat16", "m": "many", "n": 1, "k": 1, "latency_ms": 1.0}]}"#;
    fs::write(&path, table).unwrap();
    refuses(&["--serving", path.to_str().unwrap()], &["broken", "many"]);
}

/// Runs of engines: what is predicted of each row, by name.
fn runs(set: &Value) -> Vec<(&str, &Value)> {
    let rows = set["rows"].as_array().unwrap();
    rows.iter()
        .map(|row| (row["name"].as_str().unwrap(), row))
        .collect()
}

#[test]
fn runs_of_engines_are_simulated_and_what_is_missing_is_named() {
    let folder = format!("{TABLES}/engines");
    let text = succeeds(&["--serving", &folder, "--json", "--jobs", "1"]);
    assert_eq!(
        text,
        succeeds(&["--serving", &folder, "--json", "--jobs", "2"])
    );
    let out: Value = serde_json::from_str(&text).unwrap();
    let sets = out["sets"].as_array().unwrap();
    let groups: Vec<&str> = sets.iter().map(|s| s["group"].as_str().unwrap()).collect();
    assert_eq!(
        groups,
        [
            "H100 vllm llama3-8b aggregated",
            "A100 trtllm mistral-7b static"
        ]
    );
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let rows = runs(&sets[0]);
    // Weights of 15 GB take 4.5 ms at the peak of memory, those of two GPUs half of that.
    let tpot = |at: usize| number(rows[at].1, "predicted_tpot_ms");
    assert!(tpot(0) > 4.5 && tpot(0) < 9.0, "{}", tpot(0));
    assert!(tpot(1) > tpot(0) && tpot(2) < 0.8 * tpot(1));
    assert_eq!(rows[0].0, "tp 1, 512 in, 64 out, 1 at once");
    // Lengths of a run with a date are drawn from four fifths on.
    assert_eq!(rows[2].1["input_tokens"], 461);
    assert_eq!(rows[3].1["queue_limited"], true);
    assert_eq!(rows[4].1["request_rate"], 2.0);
    let rate = number(rows[1].1, "predicted_tokens_s");
    assert!(rate > 300.0 && rate < 4.0 * 1e3 / tpot(1), "{rate}");
    // Of an A100 of 80 GB; rates are of all GPUs.
    let rows = runs(&sets[1]);
    assert!(number(rows[0].1, "predicted_ttft_ms") > 23.0);
    assert_eq!(number(rows[2].1, "measured_tokens_s"), 1400.0);
    let summary = out["summary"].as_array().unwrap();
    let of = |quantity: &str| {
        let found = summary.iter().find(|line| line["quantity"] == quantity);
        found.map(|line| {
            (
                line["groups"].as_u64().unwrap(),
                line["rows"].as_u64().unwrap(),
            )
        })
    };
    // Fewer than three rows are no group, and those that waited for the server's limits are none of it.
    assert_eq!(of("tpot"), Some((1, 4)));
    assert_eq!(of("ttft"), Some((1, 4)));
    assert_eq!(of("throughput"), None);
    assert_eq!(of("ttft, queue limited"), None);
    let skipped = out["skipped"].as_array().unwrap();
    let whys: Vec<&str> = skipped.iter().map(|s| s["why"].as_str().unwrap()).collect();
    for why in [
        "marked `dp_fields_suspect` by its source",
        "speculative decoding, and how many guesses are right is not published",
        "the shape of `Made-Up-9B` is not among the shipped models",
        "no shipped machine has the card `Abacus`",
        "Qwen3.5-397B-A17B: its layers with linear attention are not modelled",
        "not published: the number of GPUs of an engine (`tp`)",
        "not published: how many requests run at once, or come per second",
        "not published: the precision `roman`",
    ] {
        assert!(whys.contains(&why), "{why}: {whys:?}");
    }
    let large = whys.iter().find(|why| why.contains("of weights"));
    assert!(
        large.is_some_and(|why| why.contains("tp 16 or more")),
        "{whys:?}"
    );
    let incomplete = skipped.iter().find(|s| s["id"] == "made-up-incomplete");
    assert_eq!(incomplete.unwrap()["rows"], 2);
    let text = succeeds(&["--serving", &folder]);
    assert!(
        text.contains("H100 vllm llama3-8b aggregated tpot"),
        "{text}"
    );
    let none = format!("{folder}/made-up-incomplete.json");
    assert_eq!(validate(&["--serving", &none]).code, 1);
}

/// The page of claims: of each its number, its own words and its verdict.
fn claims_page() -> Vec<[String; 3]> {
    let page = include_str!("../docs/claims.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let number = cells.first()?.strip_prefix("| ")?;
        number.parse::<u32>().ok()?;
        let verdict = cells.last()?.trim_end_matches(" |");
        let verdict = verdict.split(": ").next()?;
        Some([number, cells[1], verdict].map(str::to_owned))
    });
    rows.collect()
}

#[test]
fn the_page_of_claims_has_all_of_them_once_and_counts_them() {
    let file: Value = serde_json::from_str(include_str!("../validation/claims.json")).unwrap();
    let claims = file["claims"].as_array().unwrap();
    let rows = claims_page();
    assert_eq!((claims.len(), rows.len()), (173, 173));
    for (index, ([number, words, _], claim)) in rows.iter().zip(claims).enumerate() {
        assert_eq!(number.parse::<usize>().unwrap(), index + 1);
        assert_eq!(claim["number"], index + 1);
        assert_eq!(claim["claim"], **words);
    }
    let page = include_str!("../docs/claims.md");
    for (verdict, said) in [
        ("agree", " of 173 claims agree"),
        ("holds only if", " under a condition"),
        ("partly", " in part"),
        ("note wrong", " where the notes are wrong"),
        ("disagree", " not explained"),
        ("missing", " not simulated"),
        ("out of scope", " out of scope"),
        ("failed", " failed"),
    ] {
        let count = rows.iter().filter(|[_, _, v]| v == verdict).count();
        let sentence = page.lines().nth(2).unwrap();
        let has = sentence.contains(&format!("{count}{said}"));
        assert!(has || count == 0, "{count}{said}: {sentence}");
    }
}

#[test]
fn claims_are_judged_by_running_their_commands() {
    let only = "12,29,56,64,70,83,93,94,110,152,172";
    let args = ["--claims", "--only", only, "--json"];
    let out: Value = serde_json::from_str(&succeeds(&args)).unwrap();
    assert_eq!(out["format"], 2);
    let page = claims_page();
    let claims = out["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 11);
    for claim in claims {
        let number = claim["number"].as_u64().unwrap();
        let verdict = claim["verdict"].as_str().unwrap().replace('_', " ");
        let verdict = verdict.replace("only if", "holds only if");
        let [_, _, shown] = &page[usize::try_from(number).unwrap() - 1];
        assert_eq!(&verdict, shown, "{number}");
    }
    assert_eq!(out["counts"]["note_wrong"], 3);
    let ring = claims.iter().find(|claim| claim["number"] == 94).unwrap();
    assert_eq!(ring["checks"][0]["points"].as_array().unwrap().len(), 42);
}

#[test]
fn a_claim_s_scenarios_are_written_for_its_commands() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("twelve");
    let args = ["--claims", "--only", "12", "-o", target.to_str().unwrap()];
    let text = succeeds(&args);
    assert!(text.starts_with("1 of 1 claims agree"), "{text}");
    assert_eq!(names(&target), ["claims.md", "single-process.json"]);
    let run = ["run", "single-process.json", "--json", "-q"];
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(run).current_dir(&target).assert().success();
}

#[test]
fn claims_that_are_not_there_or_do_not_fit_together_are_refused() {
    refuses(
        &["--claims", "--only", "174"],
        &["no claim `174`", "from 1 to 173"],
    );
    refuses(&["--claims", "validation"], &["--claims"]);
    refuses(&["validation", "-o", "x.md"], &["expected a folder"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.json");
    let own = r#"{ "comment": "", "topics": [{ "key": "t", "title": "T" }], "scenarios": {}, "claims": [
        { "number": 1, "topic": "u", "claim": "c", "figure": "f", "commands": { "one": "hang list" },
          "checks": [{ "say": "s", "rule": { "exit": ["once", 0] } }] }] }"#;
    fs::write(&path, own).unwrap();
    let own = format!("--claims={}", path.display());
    refuses(
        &[&own],
        &["claims[0].topic", "claims[0].checks", "did you mean `one`?"],
    );
}
