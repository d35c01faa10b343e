use super::*;
use fabricsim_budget::Budget;
use fabricsim_report::Outputs;
use fabricsim_report::record::Row;
use std::path::Path;

/// A small scenario with `{}` in place of what is to be wrong.
fn text(sizes: &str, more: &str) -> String {
    format!(
        r#"{{
  "name": "test",
  "topology": {{ "name": "dgx-h100" }},
  "job": {{ "collective": {{ "name": "all-reduce", "sizes": {sizes} }} }}{more}
}}"#
    )
}

fn experiment(text: &str, overrides: &[&str]) -> Result<ValidExperiment, ScenarioError> {
    let overrides: Vec<String> = overrides.iter().map(|&o| o.to_owned()).collect();
    validate(parse(text, "test.json", &overrides)?, Path::new(""))
}

fn valid(text: &str, overrides: &[&str]) -> Result<ValidCollective, ScenarioError> {
    let experiment = experiment(text, overrides)?;
    Ok(experiment.only_collective().unwrap().clone())
}

/// The rows of a collective that is run without a folder.
fn rows(text: &str, overrides: &[&str]) -> Vec<Row> {
    let experiment = experiment(text, overrides).unwrap();
    let outputs = Outputs::of([]);
    let run = run(&experiment, &Budget::default(), &outputs, &mut Silent).unwrap();
    let view = run.summary.only_collective().unwrap();
    view.result.rows.clone()
}

/// The scenario is refused with a message that holds all of `parts`.
fn refused(text: &str, overrides: &[&str], parts: &[&str]) {
    let error = match valid(text, overrides) {
        Ok(_) => panic!("accepted: {text} with {overrides:?}"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

const RANGE: &str = r#"{ "from": "1KiB", "to": "4KiB" }"#;

#[test]
fn sizes_double_by_default_and_the_largest_is_recorded() {
    let spec = valid(&text(RANGE, ""), &[]).unwrap();
    assert_eq!(spec.sizes, [1024, 2048, 4096]);
    assert_eq!(spec.traced, Some(2));
    let outputs = experiment(&text(RANGE, ""), &[]).unwrap().outputs;
    assert_eq!(outputs, Path::new("runs/test"));
}

#[test]
fn sizes_can_step_or_be_listed() {
    let step = r#"{ "from": "8B", "to": "30B", "step": "8B" }"#;
    assert_eq!(valid(&text(step, ""), &[]).unwrap().sizes, [8, 16, 24]);
    let list = r#"{ "list": ["1MiB", "8B"] }"#;
    let spec = valid(&text(list, ""), &[]).unwrap();
    assert_eq!((spec.sizes, spec.traced), (vec![1 << 20, 8], Some(0)));
}

#[test]
fn sizes_end_where_numbers_end() {
    let all = r#"{ "from": "1B", "to": "10TiB", "factor": 18446744073709551615 }"#;
    assert_eq!(valid(&text(all, ""), &[]).unwrap().sizes, [1]);
}

#[test]
fn wrong_sizes_are_told_with_their_place() {
    let at = "job.collective.sizes";
    let cases: &[(&str, &[&str])] = &[
        (
            r#"{ "from": "2KiB", "to": "1KiB" }"#,
            &[".to", "1KiB", "at least `from`, 2KiB"],
        ),
        (
            r#"{ "from": "0B", "to": "1KiB" }"#,
            &[".from", "at least 1B"],
        ),
        (
            r#"{ "from": "1KiB", "to": "2KiB", "factor": 1 }"#,
            &[".factor", "at least 2"],
        ),
        (
            r#"{ "from": "1KiB", "to": "2KiB", "factor": 0 }"#,
            &[".factor", "at least 2"],
        ),
        (
            r#"{ "from": "1KiB", "to": "2KiB", "step": "0B" }"#,
            &[".step", "at least 1B"],
        ),
        (
            r#"{ "from": "1KiB", "to": "2KiB", "step": "1B", "factor": 2 }"#,
            &["one of the two"],
        ),
        (
            r#"{ "from": "1B", "to": "1GiB", "step": "1B" }"#,
            &[".step", "10000"],
        ),
        (r#"{ "from": "1KiB" }"#, &["no `to`"]),
        ("{}", &["neither", "or a `list`"]),
        (r#"{ "list": [] }"#, &[".list", "0 sizes"]),
        (r#"{ "list": ["1B", "0B"] }"#, &[".list[1]", "at least 1B"]),
        (
            r#"{ "list": ["1B"], "to": "1KiB" }"#,
            &["a list and a range"],
        ),
        (
            r#"{ "list": ["1TiB"] }"#,
            &["1TiB", "a GPU's memory of 79.6 GiB"],
        ),
        (r#"{ "list": ["1"] }"#, &[".list[0]", "no unit", "line 4"]),
        (
            r#"{ "form": "1KiB" }"#,
            &["unknown field `form`", "did you mean `from`"],
        ),
        (
            r#"{ "from": "99999999TiB", "to": "1B" }"#,
            &[".from", "too large"],
        ),
    ];
    for (sizes, parts) in cases {
        let mut parts = parts.to_vec();
        parts.push(at);
        refused(&text(sizes, ""), &[], &parts);
    }
}

#[test]
fn wrong_values_are_told_with_their_place() {
    let cases: &[(&str, &[&str])] = &[
        (r#", "nodes": 0"#, &["nodes"]),
        (
            r#", "nods": 1"#,
            &["unknown field `nods`", "did you mean `nodes`", "line 4"],
        ),
        (
            r#", "environment": { "NCCL_ALGO": "Rong" }"#,
            &["NCCL_ALGO=Rong", "Ring"],
        ),
        (
            r#", "environment": { "NCCL_ALGO": [] }"#,
            &["environment.NCCL_ALGO", "a string"],
        ),
        (
            r#", "environment": { "A": "1", "A": "2" }"#,
            &["`A` stands twice"],
        ),
        (r#", "seed": -1"#, &["seed", "-1"]),
        (r#", "name": "b""#, &["the name `name` stands twice"]),
    ];
    for (more, parts) in cases {
        refused(&text(RANGE, more), &[], parts);
    }
}

#[test]
fn overrides_find_their_place_or_say_why_not() {
    let text = text(RANGE, "");
    let experiment = experiment(
        &text,
        &[
            "job.collective.sizes.to=2KiB",
            "environment.NCCL_MAX_NCHANNELS=4",
            "seed=7",
            "job.collective.protocol=ll",
            "outputs=elsewhere",
        ],
    )
    .unwrap();
    let spec = experiment.only_collective().unwrap();
    assert_eq!((spec.sizes.len(), spec.seed), (2, 7));
    assert_eq!(spec.env.max_channels, Some(4));
    assert_eq!(experiment.outputs, Path::new("elsewhere"));
    assert_eq!(experiment.json["job"]["collective"]["protocol"], "ll");

    refused(&text, &["seed"], &["--set seed", "path=value"]);
    refused(&text, &["=3"], &["--set =3", "joined by dots"]);
    refused(&text, &["a..b=3"], &["joined by dots"]);
    refused(
        &text,
        &["name.x=3"],
        &["`name` is \"test\"", "no field `x`"],
    );
    refused(
        &text,
        &["sead=3"],
        &["with --set", "unknown field `sead`", "`seed`"],
    );
    refused(
        &text,
        &["job.collective.trace=3MiB"],
        &["trace", "3MiB", "such as 4KiB"],
    );
    refused(&text, &["name=../x"], &["name", "`../x`", "letters"]);
    refused(
        &text,
        &["topology.name=dgx-h10"],
        &["dgx-h10", "did you mean `dgx-h100`"],
    );
    let list = r#"{ "list": ["1KiB"] }"#;
    refused(
        &super::tests::text(list, ""),
        &["job.collective.sizes.list.1=3"],
        &["is a list of 1"],
    );
}

#[test]
fn names_that_are_not_there_yet_are_told_with_those_that_are() {
    let other = text(RANGE, "").replace("all-reduce", "all-to-one");
    refused(&other, &[], &["`all-to-one`", "`all-gather`"]);
    refused(
        &text(RANGE, ""),
        &["job.collective.algorithm=treee"],
        &["`treee`", "`ring`"],
    );
}

#[test]
fn what_rounding_leaves_nothing_of_takes_no_time() {
    let gather = text(r#"{ "list": ["8B", "1KiB"] }"#, "").replace("all-reduce", "all-gather");
    let rows = rows(&gather, &[]);
    assert_eq!((rows[0].bytes, rows[0].time_us), (0, 0.0));
    // 1 KiB of 8 ranks are 128 bytes, 32 floats, each.
    assert_eq!((rows[1].bytes, rows[1].count), (1024, 32));
    assert!(rows[1].time_us > 0.0);
}

#[test]
fn an_isolated_operation_is_no_faster_than_one_of_many() {
    let time = |overrides: &[&str]| rows(&text(RANGE, ""), overrides)[0].time_us;
    assert!(time(&["job.collective.isolated=true"]) >= time(&[]));
}
