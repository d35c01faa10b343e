use super::*;
use fabricsim_report::explanation::{CellState, Switch, SwitchOperation, TreeView};
use fabricsim_report::explanations_text;
use fabricsim_report::lesson::{Picture, nano};
use std::collections::BTreeMap;

fn spec(collective: Collective, algorithm: ExplainAlgorithm, ranks: u32) -> ExplainSpec {
    ExplainSpec {
        collective,
        algorithm: Some(algorithm),
        file: None,
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
            assert!(!explanations_text(&[told], false).is_empty());
        }
    }
}

/// What is played moves the bytes that are counted, within the time that is simulated, and what is
/// in memory at its end is what the collective promises.
#[test]
fn what_is_played_is_what_is_explained() {
    for (algorithm, collective) in all() {
        let spec = spec(collective, algorithm, 4);
        let name = format!("{} by {}", collective.name(), algorithm.name());
        let told = explain(&spec).unwrap();
        let scene = steps_scene(&spec).unwrap();
        let Picture::Steps(picture) = &scene.picture else {
            panic!("{name}: no picture of steps");
        };
        let mut sent = vec![0; 4];
        for message in &picture.messages {
            assert!(
                message.0 <= message.1 && message.1 <= nano(scene.end) + 0.1,
                "{name}"
            );
            if let Some(rank) = picture.places[message.2 as usize].rank {
                sent[rank as usize] += message.5;
            }
        }
        assert_eq!(sent, told.sent, "{name}");
        let mut memory: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for write in picture.writes.iter().filter(|write| !write.4) {
            memory.insert((write.1, write.2), write.3.clone());
        }
        for (rank, row) in (0u32..).zip(&picture.promised) {
            for (column, promised) in (0u32..).zip(row) {
                let Some(promised) = promised else { continue };
                let held = memory.get(&(rank, column));
                let held = held.unwrap_or_else(|| panic!("{name}: rank {rank}, {column} is empty"));
                let held: Vec<_> = held.iter().map(|&v| &picture.values[v as usize]).collect();
                assert_eq!(
                    held,
                    [&picture.values[*promised as usize]],
                    "{name}, {rank}, {column}"
                );
            }
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
    let text = explanations_text(std::slice::from_ref(&told), false);
    let expected = "\
all-reduce by ring: 3 ranks, 3 KiB
";
    assert!(text.starts_with(expected), "{text}");
    let steps: Vec<&str> = text.lines().filter(|l| l.starts_with("Step")).collect();
    // Own data, and four messages of each rank.
    assert_eq!(steps.len(), 5);
}

/// By name, with whole chunks: `ranks` on `nodes`, `chunks` of 16 KiB a rank.
fn chunked(name: &str, ranks: u32, nodes: u32, chunks: u64) -> ExplainSpec {
    let algorithm = ExplainAlgorithm::ALL.into_iter().find(|a| a.name() == name);
    let mut spec = spec(Collective::AllReduce, algorithm.unwrap(), ranks);
    let chunk = u64::from(ranks) << 14;
    spec.nodes = Some(nodes);
    // Over several nodes each of two trees has so many.
    let trees = u64::from(name == "tree" && nodes > 1) + 1;
    spec.bytes = Some(chunk * chunks * trees);
    spec.chunk = Some(chunk);
    spec
}

/// Sums of switches and chains: the closed forms are what is counted, over ranks, nodes and chunks.
#[test]
fn pipelines_cost_what_their_closed_forms_say() {
    let mut compared = 0;
    for name in [
        "tree",
        "binary-tree",
        "nvls",
        "nvls-tree",
        "collnet-direct",
        "collnet-chain",
    ] {
        for (ranks, nodes) in [
            (2, 1),
            (3, 1),
            (4, 2),
            (5, 1),
            (6, 3),
            (8, 1),
            (8, 2),
            (8, 8),
            (16, 2),
        ] {
            for chunks in [1, 2, 3, 4, 7, 16] {
                let spec = chunked(name, ranks, nodes, chunks);
                let cost = explain(&spec).unwrap().cost;
                let Some(form) = &cost.closed_form else {
                    let full = chunks > 12 && u32::is_power_of_two(nodes);
                    let between = nodes > 1 && (name == "nvls-tree" || name == "tree" && !full);
                    let odd = name == "binary-tree" && (chunks < 3 || !ranks.is_power_of_two());
                    assert!(between || odd, "{name}, {ranks} on {nodes}");
                    continue;
                };
                let what = format!("{name}, {ranks} on {nodes}, {chunks}: {form:?}");
                assert_eq!(f64::from(cost.steps), form.steps, "{what}");
                assert!(
                    (cost.volume - form.volume).abs() < 1e-9,
                    "{}: {what}",
                    cost.volume
                );
                // Steps overlap where they can, and never take longer.
                let late = cost.simulated_us / cost.counted_us;
                assert!(late < 1.001, "{late}: {what}");
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

/// S(1 + 1/n) through each port in each direction, of which n-th parts are loaded as sums and stored once.
#[test]
fn nvls_reduces_in_the_switch() {
    for ranks in [2, 4, 8, 16] {
        for bytes in [1 << 20, 1 << 30] {
            let mut spec = spec(Collective::AllReduce, ExplainAlgorithm::Nvls, ranks);
            spec.bytes = Some(bytes);
            let told = explain(&spec).unwrap();
            let expected = bytes + bytes / u64::from(ranks);
            assert!(
                told.sent
                    .iter()
                    .chain(&told.received)
                    .all(|&b| b == expected)
            );
            let messages = || told.steps.iter().flat_map(|s| &s.messages);
            // One end of each message is the node's switch.
            assert!(messages().all(|m| m.from.is_some() != m.to.is_some()));
            assert!(messages().all(|m| m.switch == Some(Switch::Node(0))));
            let first = &told.steps[0].messages;
            let sums = first.iter().filter(|m| m.from.is_none());
            for sum in sums {
                let all = if ranks > 4 { "all" } else { "0+1" };
                assert!(sum.data.contains(all), "{}", sum.data);
                assert_eq!(sum.operation, Some(SwitchOperation::LoadReduce));
            }
            let last = &told.steps[told.steps.len() - 1].messages;
            assert!(
                last.iter()
                    .all(|m| m.operation == Some(SwitchOperation::Multicast))
            );
        }
    }
    // Of the other collectives there is one of the two.
    for (collective, out, into) in [
        (Collective::AllGather, 1, 8),
        (Collective::ReduceScatter, 8, 1),
    ] {
        let mut spec = spec(collective, ExplainAlgorithm::Nvls, 8);
        spec.bytes = Some(8 << 20);
        let told = explain(&spec).unwrap();
        assert_eq!((told.sent[3], told.received[3]), (out << 20, into << 20));
        assert_eq!(told.cost.steps, 1);
    }
}

#[test]
fn no_rank_sends_to_itself() {
    for (algorithm, collective) in all() {
        for ranks in [1, 2, 3, 4, 8] {
            let told = explain(&spec(collective, algorithm, ranks)).unwrap();
            let messages = told.steps.iter().flat_map(|s| &s.messages);
            for message in messages {
                assert!(
                    message.from.is_none() || message.from != message.to,
                    "{}: {message:?}",
                    algorithm.name()
                );
            }
        }
    }
}

/// What each rank sends is as far as it has it, so that the first table shows it.
#[test]
fn step_zero_is_own_data() {
    for (algorithm, collective) in all() {
        for ranks in [2, 4, 8] {
            let told = explain(&spec(collective, algorithm, ranks)).unwrap();
            let senders: Vec<u32> = told.steps.first().map_or(vec![], |step| {
                step.messages.iter().filter_map(|m| m.from).collect()
            });
            assert!(
                !senders.is_empty() || told.bytes == 0,
                "{}",
                algorithm.name()
            );
            for rank in senders {
                let row = &told.own.holds[rank as usize];
                assert!(
                    row.iter().any(|cell| cell.state == CellState::Own),
                    "{}: {row:?}",
                    algorithm.name()
                );
            }
        }
    }
    let told = explain(&spec(Collective::AllReduce, ExplainAlgorithm::Ring, 4)).unwrap();
    assert!(told.own.holds[2].iter().all(|cell| cell.text == "2"));
    // And stays until something else comes.
    assert_eq!(told.steps[0].holds[0][0].state, CellState::Own);
}

#[test]
fn two_trees_between_nodes_share_the_work() {
    let mut spec = spec(Collective::AllReduce, ExplainAlgorithm::Tree, 8);
    spec.bytes = Some(1 << 20);
    assert_eq!(explain(&spec).unwrap().trees.len(), 1);
    spec.nodes = Some(8);
    let told = explain(&spec).unwrap();
    let [first, second] = told.trees.as_slice() else {
        panic!("{:?}", told.trees);
    };
    for rank in 0..8 {
        let inside = |tree: &TreeView| tree.parents.contains(&Some(rank));
        let root = |tree: &TreeView| tree.parents[rank as usize].is_none();
        assert!(
            inside(first) != inside(second) || root(first) || root(second),
            "{rank}"
        );
    }
    // Nobody moves more than twice the data.
    assert!(told.sent.iter().all(|&b| b <= 2 << 20), "{:?}", told.sent);
    let text = explanations_text(std::slice::from_ref(&told), false);
    assert!(
        text.contains("Tree 2, ranks, 512 KiB:\n  level 0: 7\n  level 1: 3→7\n"),
        "{text}"
    );
}

/// The picture of an algorithm.
fn picture(spec: &ExplainSpec) -> Box<fabricsim_report::lesson::StepsPicture> {
    match steps_scene(spec).unwrap().picture {
        Picture::Steps(picture) => picture,
        other => panic!("{other:?}"),
    }
}

/// Trees are drawn level by level: a root on top, children below their parents, nothing on something else,
/// and the second tree beside the first with ranks of its own.
#[test]
fn trees_are_drawn_by_levels() {
    for (algorithm, nodes, trees) in [
        (ExplainAlgorithm::BinaryTree, None, 1),
        (ExplainAlgorithm::Tree, None, 1),
        (ExplainAlgorithm::Tree, Some(8), 2),
        (ExplainAlgorithm::Tree, Some(4), 2),
    ] {
        let mut spec = spec(Collective::AllReduce, algorithm, 8);
        spec.nodes = nodes;
        let told = explain(&spec).unwrap();
        let drawn = picture(&spec);
        assert_eq!((told.trees.len(), drawn.places.len()), (trees, 8 * trees));
        assert_eq!(drawn.headings.len(), if trees > 1 { trees } else { 0 });
        for (tree, places) in told.trees.iter().zip(drawn.places.chunks(8)) {
            let top = places.iter().map(|place| place.y).fold(f64::MAX, f64::min);
            for (place, parent) in places.iter().zip(&tree.parents) {
                match parent {
                    Some(parent) => assert!(place.y > places[*parent as usize].y),
                    None => assert!(place.y <= top),
                }
            }
        }
        for (index, a) in drawn.places.iter().enumerate() {
            assert!(a.x >= a.size && a.x + a.size <= drawn.size.0 && a.y + a.size <= drawn.size.1);
            for b in &drawn.places[index + 1..] {
                assert!(
                    (a.x - b.x).hypot(a.y - b.y) > a.size + b.size,
                    "{algorithm:?}"
                );
            }
        }
        // What goes over a tree stays in it.
        for message in &drawn.messages {
            assert_eq!(message.2 / 8, message.3 / 8);
            let tree = &told.trees[message.2 as usize / 8].parents;
            let (from, to) = (message.2 % 8, message.3 % 8);
            let joined = tree[from as usize] == Some(to) || tree[to as usize] == Some(from);
            assert!(joined, "{from} to {to}");
        }
    }
    let chain = spec(Collective::AllReduce, ExplainAlgorithm::Tree, 4);
    assert_eq!(steps_scene(&chain).unwrap().name, "tree (a chain)");
}

/// One tree and NCCL's two for the same data: its inner ranks move three times the data, theirs twice.
#[test]
fn one_tree_burdens_its_inner_ranks() {
    let moved = |algorithm| {
        let mut spec = spec(Collective::AllReduce, algorithm, 8);
        (spec.nodes, spec.bytes) = (Some(8), Some(1 << 20));
        let mut sent = explain(&spec).unwrap().sent;
        sent.sort_unstable();
        sent.into_iter()
            .map(|bytes| bytes >> 20)
            .collect::<Vec<u64>>()
    };
    assert_eq!(
        moved(ExplainAlgorithm::BinaryTree),
        [1, 1, 1, 1, 1, 3, 3, 3]
    );
    assert_eq!(moved(ExplainAlgorithm::Tree), [1, 1, 2, 2, 2, 2, 2, 2]);
}

/// What counting and simulating differ in is said, and by how much.
#[test]
fn overlapping_steps_are_named() {
    let told = |algorithm, bytes| {
        let mut spec = spec(Collective::AllReduce, algorithm, 8);
        spec.bytes = Some(bytes);
        explain(&spec).unwrap().cost
    };
    let ring = told(ExplainAlgorithm::Ring, 1 << 20);
    assert!(
        ring.overlap().starts_with("Simulated as counted: "),
        "{ring:?}"
    );
    let tree = told(ExplainAlgorithm::BinaryTree, 8 << 10);
    let less = 100.0 * (1.0 - tree.simulated_us / tree.counted_us);
    let expected = format!("Simulated takes {less:.0} % less than counted. ");
    assert!(
        less > 5.0 && tree.overlap().starts_with(&expected),
        "{tree:?}"
    );
}

#[test]
fn chunks_may_be_large() {
    for algorithm in [
        ExplainAlgorithm::Ring,
        ExplainAlgorithm::Nvls,
        ExplainAlgorithm::Tree,
    ] {
        let mut spec = spec(Collective::AllReduce, algorithm, 4);
        spec.bytes = Some(400 << 30);
        spec.chunk = Some(400 << 30);
        let cost = explain(&spec).unwrap().cost;
        let ratio = cost.simulated_us / cost.counted_us;
        assert!((ratio - 1.0).abs() < 1e-3, "{algorithm:?}: {ratio}");
    }
    let mut spec = spec(Collective::AllReduce, ExplainAlgorithm::Ring, 4);
    spec.bytes = Some(100 << 40);
    assert_eq!(
        explain(&spec).unwrap_err().to_string(),
        "a chunk of 25TiB; expected at most 16TiB: ask for a smaller --size or --chunk"
    );
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
    let mut apart = spec(Collective::AllGather, ExplainAlgorithm::Nvls, 4);
    apart.nodes = Some(2);
    assert_eq!(
        message(apart),
        "--nodes 2: nvls does all-gather inside one node; expected 1"
    );
    let mut tiny = spec(Collective::AllReduce, ring, 64);
    (tiny.bytes, tiny.chunk) = (Some(1 << 20), Some(16));
    assert!(message(tiny).contains("fewer ranks or larger chunks"));
}
