use super::file::parse;
use super::*;
use fabricsim_report::validation::{JudgedClaim, Verdict};
use serde_json::json;
use std::collections::BTreeSet;

fn ran(document: Value) -> Ran {
    Ran {
        exit: 0,
        document,
        said: String::new(),
    }
}

/// A claim of these fields about what `a` and `b` gave.
fn claims(fields: &Value) -> Claims {
    let mut claim = json!({
        "number": 1, "topic": "t", "claim": "c", "figure": "f",
        "commands": { "a": "first", "b": "second" },
    });
    let all = claim.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    let file = json!({
        "comment": "", "topics": [{ "key": "t", "title": "T" }], "scenarios": {}, "claims": [claim],
    });
    serde_json::from_value(file).unwrap()
}

fn verdict_of(fields: &Value, a: &Value, b: &Value) -> (Verdict, String) {
    let judged = judge(&claims(fields), &[], |lines| {
        assert_eq!(lines, ["first", "second"]);
        vec![ran(a.clone()), ran(b.clone())]
    });
    let row = judged.rows.into_iter().next().unwrap();
    (row.verdict, row.reason)
}

fn check(rule: &Value) -> Value {
    json!({ "say": "x", "rule": rule })
}

#[test]
fn each_kind_of_rule_is_as_wide_as_it_says() {
    let a =
        json!({ "n": 100, "s": "3.5TB/s", "list": [{ "k": "x", "v": 2 }, { "k": "y", "v": 3 }] });
    let b = json!("head\n  16 nvlink4 x4  82.5 of 100.0\n");
    for (rule, holds) in [
        (json!({ "near": ["a:/n", 125] }), true),
        (json!({ "near": ["a:/n", 79] }), false),
        (json!({ "within": ["a:/n", 100, 200] }), true),
        (json!({ "within": ["a:/n", 101, 200] }), false),
        (json!({ "ratio": ["a:/n", 50, 1.54] }), true),
        (json!({ "ratio": ["a:/n", 50, 2.61] }), false),
        (json!({ "more": ["a:/n", 95] }), true),
        (json!({ "more": ["a:/n", 96] }), false),
        (json!({ "much": ["a:/n", 50] }), true),
        (json!({ "much": ["a:/n", 51] }), false),
        (json!({ "equal": ["a:/n", 98] }), true),
        (json!({ "equal": ["a:/n", 97] }), false),
        (json!({ "magnitude": ["a:/n", 1, 300] }), true),
        (json!({ "magnitude": ["a:/n", 1, 320] }), false),
        (json!({ "equal": ["a:/s", 3.5] }), true),
        (json!({ "equal": ["a:/list/k=y/v", 3] }), true),
        (json!({ "equal": ["a:/list/*/v", 5] }), true),
        (json!({ "equal": [["count", "a:/list"], 2] }), true),
        (json!({ "equal": [["max", 1, "a:/n", 7], 100] }), true),
        (
            json!({ "equal": [["-", ["*", 2, ["/", "a:/n", 4]], ["+", 1, 2]], 47] }),
            true,
        ),
        (json!({ "equal": ["b:nvlink4#2", 100] }), true),
        (json!({ "is": ["a:/list/0/k", "x"] }), true),
        (json!({ "holds": ["b:", "82.5 of"] }), true),
        (json!({ "exit": ["a", 0] }), true),
        (json!({ "says": ["a", "word"] }), false),
    ] {
        let fields = json!({ "checks": [check(&rule)] });
        let expected = if holds {
            Verdict::Agree
        } else {
            Verdict::Disagree
        };
        assert_eq!(verdict_of(&fields, &a, &b).0, expected, "{rule}");
    }
}

#[test]
fn a_verdict_follows_from_the_checks_of_the_claim_and_of_its_reasons() {
    let (yes, no) = (
        check(&json!({ "more": [2, 1] })),
        check(&json!({ "more": [1, 2] })),
    );
    let because = |check: &Value| json!({ "text": "because", "checks": [check] });
    for (fields, expected, reason) in [
        (json!({ "checks": [yes] }), Verdict::Agree, ""),
        (
            json!({ "checks": [yes], "only_if": because(&yes) }),
            Verdict::OnlyIf,
            "because",
        ),
        (
            json!({ "checks": [yes], "only_if": because(&no) }),
            Verdict::Disagree,
            "because",
        ),
        (
            json!({ "checks": [yes, no] }),
            Verdict::Partly,
            "x: the first is not more",
        ),
        (
            json!({ "checks": [yes, no], "wrong": because(&yes) }),
            Verdict::Partly,
            "because",
        ),
        (
            json!({ "checks": [no], "wrong": because(&yes) }),
            Verdict::NoteWrong,
            "because",
        ),
        (
            json!({ "checks": [no], "wrong": because(&no) }),
            Verdict::Disagree,
            "x: the first is not more",
        ),
        (json!({}), Verdict::Missing, ""),
        (
            json!({ "checks": [check(&json!({ "missing": "no clocks" }))] }),
            Verdict::Missing,
            "no clocks",
        ),
        (
            json!({ "out_of_scope": "other" }),
            Verdict::OutOfScope,
            "other",
        ),
        (
            json!({ "checks": [check(&json!({ "more": ["a:/none", 1] }))] }),
            Verdict::Failed,
            "none",
        ),
    ] {
        let (verdict, why) = verdict_of(&fields, &json!({}), &json!({}));
        assert_eq!(verdict, expected, "{fields}");
        assert!(why.contains(reason), "{why}");
    }
}

/// What the commands of a claim over nodes and sizes gave: rows of two sizes, in which `a` takes so
/// many times as long as `b`.
fn over_a_range(ratios: &[[f64; 2]; 2]) -> JudgedClaim {
    let fields = json!({
        "ranges": { "nodes": ["1", "2"], "size": ["1K", "1M"] },
        "commands": { "a-{nodes}": "first -n {nodes}", "b": "second" },
        "checks": [check(&json!({
            "more": ["a-{nodes}:/rows/bytes={size}/us", "b:/rows/bytes={size}/us"]
        }))],
    });
    let rows = |[k, m]: [f64; 2]| {
        ran(json!({ "rows": [{ "bytes": 1024, "us": k }, { "bytes": 1_048_576, "us": m }] }))
    };
    let judged = judge(&claims(&fields), &[], |lines| {
        assert_eq!(lines, ["first -n 1", "first -n 2", "second"]);
        vec![rows(ratios[0]), rows(ratios[1]), rows([1.0, 1.0])]
    });
    judged.rows.into_iter().next().unwrap()
}

#[test]
fn a_claim_over_a_range_agrees_only_if_it_holds_at_all_points() {
    let all = over_a_range(&[[2.0, 1.5], [1.1, 4.0]]);
    assert_eq!((all.verdict, &*all.reason), (Verdict::Agree, ""));
    let found = "x: holds at all of 4, from 1.10 × (nodes 2, size 1K) to 4.00 × (nodes 2, size 1M)";
    assert_eq!(all.checks[0].found, found);
    assert_eq!(all.checks[0].points[3].at, "nodes 2, size 1M");

    let one_size = over_a_range(&[[1.0, 1.0], [1.0, 1.1]]);
    assert_eq!(one_size.verdict, Verdict::Partly);
    let reason = "x: the first is not more by 5 % except at nodes 2 (size 1M)";
    assert_eq!(one_size.reason, reason);
    assert!(one_size.checks[0].found.starts_with("x: holds at 1 of 4, "));

    let large = over_a_range(&[[1.0, 1.2], [1.0, 1.1]]);
    assert_eq!(large.verdict, Verdict::Partly);
    let reason = "x: the first is not more by 5 % at nodes 1 (size 1K); nodes 2 (size 1K)";
    assert_eq!(large.reason, reason);

    let none = over_a_range(&[[1.0, 1.0], [1.0, 1.0]]);
    assert_eq!(none.verdict, Verdict::Disagree);
    assert!(none.reason.ends_with("at all of 4"), "{}", none.reason);
}

#[test]
fn what_is_wrong_with_a_note_does_not_count_where_it_holds_at_some_points() {
    let at = |from: i32| json!({ "within": ["{n}", from, 9] });
    for (from, expected) in [(5, Verdict::NoteWrong), (2, Verdict::Partly)] {
        let fields = json!({
            "ranges": { "n": ["1", "2"] }, "checks": [check(&at(from))],
            "wrong": { "text": "because", "checks": [check(&json!({ "more": [2, 1] }))] },
        });
        assert_eq!(verdict_of(&fields, &json!({}), &json!({})).0, expected);
    }
}

#[test]
fn a_formula_takes_the_values_of_a_range() {
    let fields = json!({
        "ranges": { "m": ["8", "16"] },
        "checks": [check(&json!({ "equal": ["a:/{m}", ["/", 3, ["+", "{m}", 3]]] }))],
    });
    let exact = verdict_of(&fields, &json!({ "8": 0.273, "16": 0.158 }), &json!({}));
    assert_eq!(exact.0, Verdict::Agree);
    let (verdict, reason) = verdict_of(&fields, &json!({ "8": 0.273, "16": 0.18 }), &json!({}));
    assert_eq!(verdict, Verdict::Partly);
    assert_eq!(reason, "x: not equal within 2 % at m 16");
}

#[test]
fn ranges_without_values_or_that_no_rule_names_are_refused() {
    let with = |ranges: &Value| {
        let claim = json!({
            "number": 1, "topic": "t", "claim": "c", "figure": "f", "ranges": ranges,
            "commands": { "a-{nodes}": "first -n {nodes}" },
            "checks": [check(&json!({ "exit": ["a-{nodes}", 0] }))],
        });
        let file = json!({
            "comment": "", "topics": [{ "key": "t", "title": "T" }], "scenarios": {},
            "claims": [claim],
        });
        parse(&file.to_string(), "own").map_err(|error| error.to_string())
    };
    assert!(with(&json!({ "nodes": ["1"] })).is_ok());
    let unnamed = with(&json!({ "nodes": ["1"], "size": ["1K"] })).unwrap_err();
    assert!(unnamed.contains("claims[0].ranges"), "{unnamed}");
    assert!(unnamed.contains("`size`"), "{unnamed}");
    assert!(with(&json!({ "nodes": [] })).is_err());
}

#[test]
fn a_command_that_fails_has_no_verdict_unless_its_failure_is_the_claim() {
    let judged = |rule: Value| {
        let claims = claims(&json!({ "checks": [check(&rule)] }));
        let failed = Ran {
            exit: 1,
            document: Value::Null,
            said: "error: it hangs".into(),
        };
        judge(&claims, &[], |_| vec![failed, ran(json!({ "n": 1 }))]).rows[0].verdict
    };
    assert_eq!(judged(json!({ "equal": ["b:/n", 1] })), Verdict::Failed);
    assert_eq!(judged(json!({ "exit": ["a", 1] })), Verdict::Agree);
    assert_eq!(judged(json!({ "says": ["a", "hangs"] })), Verdict::Agree);
}

#[test]
fn the_shipped_claims_fit_together() {
    let claims = Claims::shipped().unwrap();
    let titles: BTreeSet<&str> = claims.topics.iter().map(|t| &*t.key).collect();
    let used: BTreeSet<&str> = claims.claims.iter().map(|c| &*c.topic).collect();
    assert!(used.is_subset(&titles));
    let lines: Vec<String> = claims
        .claims
        .iter()
        .flat_map(|c| c.all_commands().into_values())
        .collect();
    for name in claims.scenarios.keys() {
        let file = format!("{name}.json");
        assert!(
            lines.iter().any(|l| l.split(' ').any(|w| w == file)),
            "{name}"
        );
    }
}
