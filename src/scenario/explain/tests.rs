use super::*;
use crate::report::explanation::CellState;
use crate::report::{explanation_page, explanation_text};

fn spec(collective: Collective, algorithm: ExplainAlgorithm, ranks: u32) -> ExplainSpec {
    ExplainSpec {
        collective,
        algorithm: Some(algorithm),
        ranks,
        nodes: None,
        bytes: None,
        chunk: None,
        latency: Time::from_micros(1),
        rate: Bandwidth::from_gb_per_sec(100),
    }
}

fn all() -> impl Iterator<Item = (ExplainAlgorithm, Collective)> {
    ExplainAlgorithm::ALL
        .into_iter()
        .flat_map(|a| a.collectives().into_iter().map(move |c| (a, c)))
}

#[test]
fn all_that_can_be_built_can_be_explained() {
    for (algorithm, collective) in all() {
        for ranks in [1, 2, 3, 4, 5, 6, 8] {
            let told = explain(&spec(collective, algorithm, ranks))
                .unwrap_or_else(|e| panic!("{}, {collective}, {ranks}: {e}", algorithm.name()));
            // At the end everything is there, and was from some step on.
            let last = told.steps.last().map_or(&told.before, |s| &s.holds);
            let outputs = last.iter().flatten().filter(|c| c.state == CellState::Done);
            assert!(
                outputs.count() > 0 || told.bytes == 0,
                "{}",
                algorithm.name()
            );
            assert!(!explanation_text(&told, false).is_empty());
            assert!(explanation_page(&told).contains("</html>"));
        }
    }
}

/// formulas.md 2: the programs take as many steps and move as much as the closed forms say.
#[test]
fn programs_cost_what_textbooks_say() {
    let mut compared = 0;
    for (algorithm, collective) in all() {
        for ranks in [2, 3, 4, 5, 8, 16] {
            let mut spec = spec(collective, algorithm, ranks);
            // Divides evenly by all of these.
            spec.bytes = Some(16 * 3 * 5 * 16 * 64);
            let told = explain(&spec).unwrap();
            let Some(form) = &told.cost.closed_form else {
                continue;
            };
            let name = format!("{} by {}, {ranks}", collective, algorithm.name());
            let (steps, volume) = (f64::from(told.cost.steps), told.cost.volume);
            // Who has no partner in a round begins the next one at once: two send to the same
            // rank, which is less in steps and more in volume.
            let early = ["recursive", "binomial"].iter().any(|n| name.contains(n));
            if early && !u32::is_power_of_two(ranks) {
                assert!(steps <= form.steps, "{name}: {steps} {form:?}");
                continue;
            }
            assert_eq!(steps, form.steps, "{name}");
            assert!(
                (volume - form.volume).abs() < 1e-3,
                "{name}: {volume} {form:?}"
            );
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared}");
}

/// formulas.md, table of C7 to C10: 8 ranks, 3 us, 100 GB/s, 1 MB (of whole segments).
#[test]
fn the_engine_agrees_where_steps_cannot_overlap() {
    let cases = [
        ("ring", 59.5),
        ("recursive-doubling", 39.0),
        ("recursive-halving", 35.5),
        ("binomial", 78.0),
    ];
    for (name, expected) in cases {
        let algorithm = ExplainAlgorithm::ALL.into_iter().find(|a| a.name() == name);
        let mut spec = spec(Collective::AllReduce, algorithm.unwrap(), 8);
        spec.bytes = Some(1_000_000 / 128 * 128 + 128);
        spec.latency = Time::from_micros(3);
        let cost = explain(&spec).unwrap().cost;
        for time in [cost.counted_us, cost.simulated_us] {
            assert!((time - expected).abs() < 0.01 * expected, "{name}: {time}");
        }
    }
}

#[test]
fn a_ring_of_three_reads_like_a_textbook() {
    let told = explain(&spec(Collective::AllReduce, ExplainAlgorithm::Ring, 3)).unwrap();
    let text = explanation_text(&told, false);
    let expected = "\
all-reduce by ring: 3 ranks, 3 KiB
";
    assert!(text.starts_with(expected), "{text}");
    let steps: Vec<&str> = text.lines().filter(|l| l.starts_with("Step")).collect();
    assert_eq!(steps.len(), 4);
}

#[test]
fn what_cannot_be_explained_is_said() {
    let message = |spec: ExplainSpec| explain(&spec).unwrap_err().to_string();
    let ring = ExplainAlgorithm::Ring;
    assert_eq!(
        message(spec(Collective::AllReduce, ring, 65)),
        "--ranks 65: expected 1 to 64, which is what a table can show"
    );
    assert_eq!(
        message(spec(Collective::AllToAll, ring, 4)),
        "ring does not do all-to-all; it does all-reduce, all-gather, reduce-scatter, broadcast, reduce"
    );
    let mut uneven = spec(Collective::AllReduce, ring, 4);
    uneven.nodes = Some(3);
    assert_eq!(
        message(uneven),
        "--nodes 3: 4 ranks cannot be spread evenly; expected a divisor of 4"
    );
    let mut tiny = spec(Collective::AllReduce, ring, 64);
    (tiny.bytes, tiny.chunk) = (Some(1 << 20), Some(16));
    assert!(message(tiny).contains("fewer ranks or larger chunks"));
}
