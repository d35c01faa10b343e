//! Tables, page and drawings of a validation.

use crate::ReportError;
use crate::published::Crossing;
use crate::validation::{
    BandErrors, Counts, InferredSettings, Overall, SkipKind, SkippedSet, Spread, ValidatedRow,
    ValidatedSet, Validation, curves_svg, validation_json, validation_page, validation_text,
};

fn row(bytes: u64, measured_us: f64, predicted_us: f64) -> ValidatedRow {
    ValidatedRow {
        bytes,
        measured_us,
        predicted_us,
        baseline_us: measured_us * 2.0,
        algo: "ring".into(),
        proto: "ll128".into(),
        channels: 8,
    }
}

fn spread(median: f64) -> Option<Spread> {
    Some(Spread {
        count: 2,
        median,
        p90: 0.456,
        ratio: 1.04,
    })
}

fn band(name: &str, predicted: Option<Spread>, baseline: Option<Spread>) -> BandErrors {
    BandErrors {
        key: name.to_lowercase(),
        name: name.into(),
        predicted,
        baseline,
    }
}

fn set(id: &str, topology: &str, collective: &str, rows: usize) -> ValidatedSet {
    ValidatedSet {
        id: id.into(),
        title: Some("A <title> & more".into()),
        address: Some("https://example.org/x".into()),
        topology: topology.into(),
        ranks: 8,
        collective: collective.into(),
        one_domain: true,
        crosses: Crossing::Nvlink,
        nodes: 1,
        inferred: None,
        errors: vec![
            band("Small", spread(0.123), spread(0.3)),
            band("Large", None, None),
        ],
        rows: (0..rows)
            .map(|i| row(1024 << i, 10.0, 11.0 + i as f64))
            .collect(),
    }
}

fn validation(sets: Vec<ValidatedSet>) -> Validation {
    let skipped = |id: &str, why: &str, kind| SkippedSet {
        id: id.into(),
        why: why.into(),
        kind,
    };
    Validation {
        overall: vec![Overall {
            key: "groups".into(),
            name: "all groups".into(),
            bands: vec![
                band("Small", spread(0.05), spread(0.3)),
                band("Large", spread(0.4), spread(12.0)),
            ],
        }],
        counts: Counts {
            tables: sets.len() + 3,
            healthy: sets.len() + 2,
            with_model: sets.len() + 1,
            modelled: sets.len(),
            inferred: sets.iter().filter(|s| s.inferred.is_some()).count() / 2,
        },
        sets,
        skipped: vec![
            skipped("ill", "a fault", SkipKind::Unhealthy),
            skipped("b", "nothing says how", SkipKind::NoModel),
            skipped("a", "nothing says how", SkipKind::NoModel),
        ],
        version: "0.1.0".into(),
    }
}

/// A table with inferred settings stands twice: as its source says, and with these.
#[test]
fn inferred_settings_are_told_apart() {
    let of = |taken| ValidatedSet {
        inferred: Some(InferredSettings {
            why: "8 B take <13 us>".into(),
            taken,
        }),
        ..set("odd", "m", "all-reduce", 1)
    };
    let validation = validation(vec![of(false), of(true)]);
    let text = validation_text(&validation, false);
    for part in ["\nodd  ", "\nodd (inferred)  ", "\n1 with settings that"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = validation_page(&validation);
    for part in [
        "id=\"odd\"",
        "id=\"odd-inferred\"",
        "href=\"#odd-inferred\"",
        "Settings inferred: 8 B take &lt;13 us&gt;",
        "As its source says, which is taken to be otherwise: 8 B",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&validation_json(&validation).unwrap()).unwrap();
    assert_eq!(json["sets"][1]["inferred"]["taken"], true);
    assert_eq!(json["summary"]["counts"]["inferred"], 1);
}

#[test]
fn tables_are_aligned() {
    let validation = validation(vec![set("a-long-name", "m", "all-reduce", 2)]);
    let expected = "\
Errors by set, % of the measured time
                            Small                                Large
                     simulated      NCCL's model          simulated      NCCL's model
set           median/p90/ratio  median/p90/ratio   median/p90/ratio  median/p90/ratio
a-long-name     12.3/45.6/ 104    30.0/45.6/ 104                  -                 -

Errors over all, %: of each group (topology, ranks, collective) the median of its rows
                                  simulated      NCCL's model
            size   groups  median/p90/ratio  median/p90/ratio
all groups  Small       2     5.0/45.6/ 104    30.0/45.6/ 104
            Large       2    40.0/45.6/ 104    1200/45.6/ 104

The rows that are furthest off
set              size   measured  simulated           NCCL's model           chosen
a-long-name     2 KiB    10.0 µs    12.0 µs    +20 %       20.0 µs   +100 %  ring LL128, 8 ch
a-long-name     1 KiB    10.0 µs    11.0 µs    +10 %       20.0 µs   +100 %  ring LL128, 8 ch

4 tables, 3 of them healthy, 2 of those with a model block, 1 of those predicted

Skipped: 3
2, no model block: nothing says how
  b a
1, not healthy: a fault
  ill
";
    let found = validation_text(&validation, false);
    assert_eq!(found, expected);
}

#[test]
fn colours_only_where_wanted() {
    let validation = validation(vec![set("a", "m", "all-reduce", 2)]);
    assert!(!validation_text(&validation, false).contains('\u{1b}'));
    let coloured = validation_text(&validation, true);
    // Nearer than NCCL's model.
    assert!(coloured.contains("\u{1b}[32m"), "{coloured:?}");
}

#[test]
fn the_worst_rows_are_as_far_below_as_above() {
    let mut one = set("one", "m", "all-reduce", 0);
    one.rows = vec![row(1, 10.0, 12.0), row(2, 10.0, 2.0), row(3, 10.0, 40.0)];
    let text = validation_text(&validation(vec![one]), false);
    let worst = text.split("furthest off").nth(1).unwrap();
    let errors: Vec<&str> = ["-80 %", "+300 %", "+20 %"].into();
    let places: Vec<usize> = errors.iter().map(|e| worst.find(e).unwrap()).collect();
    assert!(places.is_sorted(), "{worst}");
}

#[test]
fn nothing_predicted_is_told_as_well() {
    let none = validation(Vec::new());
    let text = validation_text(&none, false);
    assert!(text.starts_with("3 tables, 2 of them healthy"), "{text}");
    assert!(text.contains("2, no model block: nothing says how\n  b a\n"));
    let page = validation_page(&none);
    assert!(page.contains("nothing says how") && !page.contains("Curves"));
    roxmltree::Document::parse(&curves_svg(&none)).unwrap();
}

#[test]
fn a_page_needs_nothing_else_and_says_names_as_they_are() {
    let page = validation_page(&validation(vec![set("a&b", "m", "all-reduce", 2)]));
    assert!(page.contains("A &lt;title&gt; &amp; more"));
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("src=") && !page.contains("@import"));
    assert!(page.contains("href=\"https://example.org/x\""));

    let mut odd = set("a", "m", "all-reduce", 1);
    odd.address = Some("javascript:alert(1)".into());
    let page = validation_page(&validation(vec![odd]));
    assert!(!page.contains("href=\"javascript"));
}

#[test]
fn ten_sets_are_chosen_by_the_rule() {
    let mut sets = vec![
        set("short", "a", "all-reduce", 3),
        set("long", "a", "all-reduce", 5),
        set("second", "a", "broadcast", 9),
        set("other", "b", "all-reduce", 1),
    ];
    sets.extend((0..12).map(|i| set(&format!("c{i:02}"), "c", &format!("kind {i}"), 2)));
    let svg = curves_svg(&validation(sets));
    let drawing = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = drawing.descendants().filter_map(|n| n.text()).collect();
    let ids = [
        "second", "c00", "other", "long", "c01", "c02", "c03", "c04", "c05", "c06",
    ];
    let places: Vec<_> = ids.map(|id| texts.iter().position(|t| *t == id)).into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted());
    assert!(!texts.contains(&"short") && !texts.contains(&"c07"));
}

#[test]
fn odd_numbers_do_not_stop_a_drawing_but_the_document() {
    let mut one = set("one", "m", "all-reduce", 1);
    let whole = curves_svg(&validation(vec![one.clone()]));
    assert!(!whole.contains("NaN") && !whole.contains("inf"));
    one.rows[0].baseline_us = f64::INFINITY;
    let odd = validation(vec![one]);
    let svg = curves_svg(&odd);
    assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
    let error = validation_json(&odd).unwrap_err();
    assert!(matches!(error, ReportError::NotFinite { .. }), "{error}");
}
