//! Variants of training jobs beside each other: who wins, and what makes the difference.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::comparison::variants_text;
use fabricsim::report::training::{ShareKind, StepResult, ran};
use fabricsim::report::{Outputs, Summary};
use std::path::Path;

fn run(text: &str) -> Summary {
    let scenario = parse(text, "test.json", &[]).unwrap();
    let job = validate(scenario, Path::new("")).unwrap();
    let outputs = Outputs::default();
    let results = experiment::run(&job, &Budget::default(), &outputs, &mut Silent);
    results.unwrap().summary
}

fn refused(text: &str) -> String {
    let scenario = parse(text, "test.json", &[]).unwrap();
    match validate(scenario, Path::new("")) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it is not refused"),
    }
}

/// Llama 3 8B on two nodes.
fn scenario(more: &str, variants: &str) -> String {
    format!(
        r#"{{"name": "plan", "topology": {{"name": "dgx-h100"}}, "nodes": 2,
        "job": {{"training": {{"model": {{"preset": "llama3-8b"}}, "sequence": 4096,
            "micro_batch": 1, "global_batch": 16, "recompute": "full",
            "data_parallel": {{"fsdp": {{}}}}}}}},
        {more} "variants": {variants}}}"#
    )
}

fn result<'s>(summary: &'s Summary, name: &str) -> &'s StepResult {
    let variant = summary.variants.iter().find(|v| v.name == name).unwrap();
    ran(variant).unwrap()
}

/// Every step's time is the sum of its causes, and every difference that of its parts, exactly.
fn adds_up(summary: &Summary) {
    for variant in &summary.variants {
        let Some(result) = ran(variant) else {
            continue;
        };
        let sum: i64 = result.causes.iter().map(|part| part.time.0).sum();
        assert_eq!(
            sum,
            (result.step_s * 1e12).round() as i64,
            "{}",
            variant.name
        );
        assert!(result.causes.iter().all(|part| part.time.0 > 0));
    }
    for waterfall in &summary.waterfall {
        let sum: i64 = waterfall.parts.iter().map(|part| part.time.0).sum();
        assert_eq!(sum, waterfall.total.0);
    }
}

/// A leaf that is away makes collectives last longer, and so takes SMs from kernels for longer: that is
/// neither a slower kernel nor the network alone.
#[test]
fn what_collectives_take_from_kernels_is_a_cause_of_its_own() {
    let summary = run(&scenario(
        r#""baseline": "healthy","#,
        r#"[{"name": "healthy"},
            {"name": "dead-leaf", "set": {"faults": [{"failed": {"devices": "leaf2", "at": "0s"}}]}}]"#,
    ));
    adds_up(&summary);
    let waterfall = &summary.waterfall[0];
    let part = |name: &str| {
        let mut parts = waterfall.parts.iter().filter(|part| part.cause == name);
        parts.next().map_or(0, |part| part.time.0)
    };
    let total = waterfall.total.0;
    assert!(total > 0);
    for own in ["forward kernels", "backward kernels", "recomputation"] {
        assert!(part(own).abs() * 1000 < total, "{own}: {}", part(own));
    }
    let slowed = part("kernels slowed by collectives");
    assert!(slowed * 10 > total, "{slowed} of {total}");
    assert!(
        summary.answer.contains("kernels slowed by collectives"),
        "{}",
        summary.answer
    );
    // The table of where time goes has it, too, and the fault by its full name.
    let shares = &result(&summary, "dead-leaf").time;
    let share = shares
        .iter()
        .find(|share| share.kind == ShareKind::Slowed)
        .unwrap();
    assert_eq!(share.what, "kernels slowed by collectives");
    let disturbances = &result(&summary, "dead-leaf").disturbances;
    assert!(
        disturbances.iter().any(|d| d.place == "compute/leaf2"),
        "{disturbances:?}"
    );
}

#[test]
fn what_does_not_fit_wins_nothing_and_the_baseline_is_named() {
    // DDP is faster than FSDP without prefetching, and needs 16 bytes a parameter.
    let summary = run(&scenario(
        r#""baseline": "no-prefetch","#,
        r#"[{"name": "fsdp"},
            {"name": "no-prefetch", "set": {"job.training.data_parallel.fsdp.prefetch": 0}},
            {"name": "ddp", "set": {"job.training.data_parallel": {"ddp": {}}}}]"#,
    ));
    adds_up(&summary);
    assert!(!result(&summary, "ddp").memory.fits);
    assert_eq!(summary.baseline.as_deref(), Some("no-prefetch"));
    assert_eq!(summary.best.as_deref(), Some("fsdp"));
    assert_eq!(summary.title, "plan");
    let answer = &summary.answer;
    assert!(answer.starts_with("fsdp is 1."), "{answer}");
    assert!(
        answer.contains("as fast per GPU as no-prefetch, the baseline"),
        "{answer}"
    );
    assert!(answer.contains(" ddp (it needs "), "{answer}");
    let waterfall = &summary.waterfall[0];
    assert_eq!(
        (waterfall.from.as_str(), waterfall.to.as_str()),
        ("no-prefetch", "fsdp")
    );
    assert!(waterfall.total.0 < 0 && waterfall.parts[0].cause.contains("data parallel"));
    // Nothing fits: nothing has won.
    let summary = run(&scenario(
        "",
        r#"[{"name": "a", "set": {"job.training.data_parallel": {"ddp": {}}}},
            {"name": "b", "set": {"job.training.data_parallel": {"ddp": {"bucket": "100MiB"}}}}]"#,
    ));
    assert_eq!(summary.best, None);
    assert!(
        summary.answer.starts_with("No variant fits into"),
        "{}",
        summary.answer
    );
}

#[test]
fn two_changes_are_told_one_at_a_time_if_variants_allow() {
    let summary = run(&scenario(
        r#""baseline": "slow-few","#,
        r#"[{"name": "slow-few", "set": {"nodes": 1, "job.training.recompute": "full"}},
            {"name": "few", "set": {"nodes": 1, "job.training.recompute": "none", "job.training.sequence": 4096}},
            {"name": "many", "set": {"topology": {"name": "gb200-nvl72"}, "nodes": 2, "job.training.recompute": "none"}}]"#,
    ));
    adds_up(&summary);
    assert_eq!(summary.best.as_deref(), Some("many"));
    let answer = &summary.answer;
    assert!(
        answer.contains("One change at a time: recompute 1.")
            && answer.contains("(slow-few → few), then machine "),
        "{answer}"
    );
    // The way from one to the next is a waterfall of its own.
    let pairs: Vec<_> = summary
        .waterfall
        .iter()
        .map(|w| (w.from.as_str(), w.to.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [("slow-few", "few"), ("slow-few", "many"), ("few", "many")]
    );
    let best = summary.variants.iter().find(|v| v.name == "many").unwrap();
    assert_eq!(best.differs, ["job.training.recompute", "machine"]);
    // Without the one in between it is said that two things differ.
    let summary = run(&scenario(
        "",
        r#"[{"name": "slow-few", "set": {"nodes": 1}},
            {"name": "many", "set": {"topology": {"name": "gb200-nvl72"}, "nodes": 2, "job.training.recompute": "none"}}]"#,
    ));
    assert!(
        summary.answer.contains("They differ in 2 things at once"),
        "{}",
        summary.answer
    );
}

#[test]
fn a_slow_gpu_is_the_cause_of_what_it_costs() {
    // DDP, one of eight GPUs at 0.8 of its speed: the others wait for it.
    let text = std::fs::read_to_string("scenarios/ddp-straggler.json").unwrap();
    let summary = run(&text);
    adds_up(&summary);
    assert_eq!(summary.best.as_deref(), Some("healthy"));
    let [waterfall] = summary.waterfall.as_slice() else {
        panic!("{:?}", summary.waterfall);
    };
    assert!(waterfall.total.0 > 0);
    let of_rank: i64 = waterfall
        .parts
        .iter()
        .filter(|part| part.cause.ends_with("rank 5"))
        .map(|part| part.time.0)
        .sum();
    assert!(
        of_rank as f64 > 0.5 * waterfall.total.0 as f64,
        "{waterfall:?}"
    );
    assert!(
        summary
            .answer
            .contains("healthy, the baseline, is the fastest"),
        "{}",
        summary.answer
    );
    assert!(
        summary.answer.contains("waiting for rank 5 +"),
        "{}",
        summary.answer
    );
}

#[test]
fn what_changes_nothing_says_why() {
    let text = scenario(
        "",
        r#"[{"name": "base"},
            {"name": "late", "set": {"nodes": 2, "faults": [{"flap": {"links": "node[0]/nic[2]",
                "from": "900s", "down": "150ms", "up": "400ms", "count": 2}}]}},
            {"name": "same", "set": {"job.training.data_parallel.fsdp": {"prefetch": 1}}}]"#,
    );
    let summary = run(&text);
    adds_up(&summary);
    let why = |name: &str| {
        let variant = summary.variants.iter().find(|v| v.name == name).unwrap();
        variant.no_effect.clone().unwrap_or_default()
    };
    assert!(
        why("late").contains("before its faults begin"),
        "{}",
        why("late")
    );
    assert!(why("same").contains("the same tasks"), "{}", why("same"));
    // What the fault costs is no second sentence: neither in the answer nor in the table.
    assert!(
        !summary.answer.contains("costs nothing"),
        "{}",
        summary.answer
    );
    let table = variants_text(&summary, None, false);
    for name in ["late", "same"] {
        let sentence = format!("{name} is as fast as base");
        assert_eq!(table.matches(&sentence).count(), 1, "{table}");
    }
    assert!(
        summary.answer.contains("same is as fast as base"),
        "{}",
        summary.answer
    );
}

#[test]
fn spines_that_nothing_uses_are_said_to_carry_nothing() {
    // Two nodes of one scalable unit: each rail has its leaf, and none needs a spine.
    let text = std::fs::read_to_string("topologies/superpod-h100.json").unwrap();
    let machine: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut thin = machine.clone();
    let shape = &mut thin["fabrics"]["compute"]["shape"]["rail_optimized"];
    assert!(shape.is_object(), "{shape}");
    shape["oversubscription"] = serde_json::json!(4);
    let mut scenario: serde_json::Value = serde_json::from_str(&scenario("", "[]")).unwrap();
    scenario["topology"] = serde_json::json!({"inline": machine});
    scenario["nodes"] = serde_json::json!(2);
    scenario["variants"] = serde_json::json!([
        {"name": "full"},
        {"name": "thin", "set": {"topology": {"inline": thin}}},
    ]);
    let summary = run(&scenario.to_string());
    adds_up(&summary);
    let why = summary.variants[1].no_effect.clone().unwrap_or_default();
    assert_eq!(
        why,
        "what differs, the network between switches, carried 0 B"
    );
}

#[test]
fn a_baseline_that_is_no_variant_is_refused_with_the_nearest() {
    let variants = r#"[{"name": "healthy"}, {"name": "slow"}]"#;
    let error = refused(&scenario(r#""baseline": "helthy","#, variants));
    for expected in [
        "baseline",
        "`helthy`",
        "healthy, slow",
        "did you mean `healthy`?",
    ] {
        assert!(error.contains(expected), "{expected}\n{error}");
    }
    let error = refused(&scenario(r#""baseline": "x","#, "[]"));
    assert!(error.contains("there are no variants"), "{error}");
}

#[test]
fn nothing_that_fits_is_exit_status_1_with_the_results_written() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("plan.json");
    let out = home.path().join("out");
    let ddp = r#"[{"name": "ddp", "set": {"job.training.data_parallel": {"ddp": {}}}}]"#;
    std::fs::write(&file, scenario("", ddp)).unwrap();
    let mut command = assert_cmd::Command::cargo_bin("fabricsim").unwrap();
    let output = command.arg("run").arg(&file).arg("-o").arg(&out);
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("nothing fits into the memory"), "{error}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("It does not fit: stage 0 needs"));
}
