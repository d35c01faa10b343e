//! Models are found by the names that people use.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;

fn fabricsim(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    let output = command.args(args).env_remove("CLICOLOR_FORCE").output();
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_list_has_every_model_with_its_parameters() {
    let (code, out, err) = fabricsim(&["model", "list", "--json"]);
    assert_eq!(code, 0, "{err}");
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["format"], 2);
    let models = list["models"].as_array().unwrap();
    let of = |name: &str| models.iter().find(|model| model["name"] == name).unwrap();
    assert_eq!(of("llama3-70b")["parameters"], 70_553_706_496_u64);
    assert_eq!(of("llama3-70b")["active_parameters"], 70_553_706_496_u64);
    assert_eq!(of("llama3-70b")["kind"], "dense");
    let experts = of("mixtral-8x7b");
    assert_eq!(
        (&experts["kind"], &experts["layers"]),
        (&"moe".into(), &32.into())
    );
    assert!(experts["active_parameters"].as_u64() < experts["parameters"].as_u64());
    let (_, text, _) = fabricsim(&["model", "list"]);
    assert_eq!(text.lines().count(), models.len());
    // One is shown by any of its names, with the shape that scenarios may have in place of the name.
    let (code, out, err) = fabricsim(&["model", "show", "Meta-Llama-3-70B", "--json"]);
    assert_eq!(code, 0, "{err}");
    let one: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(one["models"][0]["name"], "llama3-70b");
    assert_eq!(one["models"][0]["shape"]["layers"], 80);
}

#[test]
fn capitals_and_marks_are_forgiven_wherever_a_model_is_named() {
    let less = [
        "--over",
        "pp=1",
        "--over",
        "micro_batch=1",
        "--over",
        "bucket=null",
        "--json",
    ];
    let train = |name: &str| {
        let job = [
            "optimize",
            name,
            "-t",
            "dgx-h100",
            "--gpus",
            "8",
            "--global-batch",
            "8",
        ];
        fabricsim(&[&job[..], &less].concat())
    };
    let (code, usual, err) = train("gpt2-124m");
    assert_eq!(code, 0, "{err}");
    for name in ["GPT2_124M", "gpt-2-124m", "openai-community/gpt2"] {
        assert_eq!(train(name), (0, usual.clone(), String::new()), "{name}");
    }
    let serve = |name: &str| {
        let job = [
            "serve",
            name,
            "-t",
            "dgx-h100",
            "--gpus",
            "1",
            "--requests",
            "8",
            "--json",
        ];
        let (code, out, err) = fabricsim(&job);
        assert_eq!(code, 0, "{err}");
        let document: Value = serde_json::from_str(&out).unwrap();
        document["variants"].clone()
    };
    assert_eq!(serve("Llama3_8B"), serve("llama3-8b"));
    let (code, out, err) = fabricsim(&["scenario", "new", "training", "--model", "Llama-3-8B"]);
    assert!(
        code == 0 && out.contains(r#""preset": "llama3-8b""#),
        "{err}"
    );
}

#[test]
fn an_unknown_name_is_answered_with_models_and_scenarios() {
    let (code, _, err) = fabricsim(&["optimize", "lama3-70b", "--gpus", "8"]);
    assert!(code == 2 && err.contains("`llama3-70b`"), "{err}");
    let (_, _, err) = fabricsim(&["optimize", "dpp-buckets", "--gpus", "8"]);
    assert!(err.contains("`ddp-buckets`"), "{err}");
    assert!(
        err.contains("model list") && err.contains("scenario list"),
        "{err}"
    );
    // What is no name of a model, but of a file, is a file.
    let (code, _, err) = fabricsim(&["optimize", "nosuch/llama3.json", "--gpus", "8"]);
    assert!(code == 2 && err.contains("nosuch/llama3.json"), "{err}");
    let (code, _, err) = fabricsim(&["model", "show", "llama3-70"]);
    assert!(
        code == 2 && err.contains("did you mean `llama3-70b`?"),
        "{err}"
    );
}
