//! More bytes take longer, within one algorithm and protocol.

use super::cases::{Run, outcome, planned, view};
use fabricsim::collective::WorkerId;
use fabricsim::report::record::Row;
use serde_json::Value;

/// Why a larger operation may be faster.
struct Mechanism {
    /// What it is.
    name: &'static str,
    /// Where it is from.
    source: &'static str,
    /// Whether it is at work between a smaller operation and a larger one.
    applies: fn(&Facts, &Facts) -> bool,
    /// A collective that fails without it: a scenario's `job`, `topology` and so on.
    example: &'static str,
}

/// All of them.
const MECHANISMS: [Mechanism; 3] = [
    Mechanism {
        name: "more thread blocks share the bytes",
        source: "NCCL, src/enqueue.cc: scheduleCollTasksToPlan and calcP2pChannelCount give larger operations more channels",
        applies: |small, large| small.workers < large.workers,
        example: r#"{ "topology": { "name": "gb300-nvl72" }, "nodes": 4, "job": { "collective": {
            "name": "send-recv", "isolated": true, "sizes": { "list": ["55416812B", "135093268B"] } } } }"#,
    },
    Mechanism {
        name: "messages too long for their descriptors",
        source: "topologies/hardware/nics.json, `inline`: small messages are copied into the descriptor by the processor",
        applies: |small, large| {
            small.shortest_on_wire <= small.inline && large.longest_on_wire > small.inline
        },
        example: r#"{ "topology": { "name": "gh200-quad" }, "nodes": 3, "job": { "collective": {
            "name": "broadcast", "isolated": true, "algorithm": "ring", "protocol": "ll128",
            "sizes": { "list": ["160B", "216B"] } } } }"#,
    },
    Mechanism {
        name: "the first lines of a chunk leave before its last ones arrive",
        source: "NCCL, src/device/prims_ll128.h: warps that go round more than once send what they have of a chunk",
        applies: |small, large| small.slices() < large.slices(),
        example: r#"{ "topology": { "name": "dgx-h200" }, "nodes": 3, "gpus_per_node": 3, "job": { "collective": {
            "name": "all-gather", "isolated": true, "algorithm": "ring", "protocol": "ll128",
            "sizes": { "list": ["3499920B", "3999888B"] } } } }"#,
    },
];

/// What of a plan changes in steps as sizes grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Bytes of the operation.
    pub(crate) bytes: u64,
    /// Workers that move something.
    pub(crate) workers: u64,
    /// Steps of the one that has most.
    pub(crate) steps: u64,
    /// Bytes of the longest step.
    pub(crate) longest: u64,
    /// Bytes of the shortest.
    pub(crate) shortest: u64,
    /// Bytes of a slice of the longest.
    pub(crate) slice: u64,
    /// Of the shortest and the longest slice, with what the protocol adds.
    pub(crate) shortest_on_wire: u64,
    pub(crate) longest_on_wire: u64,
    /// Messages of so many bytes at most travel in their descriptors.
    pub(crate) inline: u64,
}

impl Facts {
    /// Slices of the longest step.
    fn slices(&self) -> u64 {
        self.longest.div_ceil(self.slice.max(1))
    }

    fn of(scenario: &Value, bytes: u64) -> Option<Self> {
        let (plan, inline) = planned(scenario, bytes)?;
        let mut facts = Facts {
            bytes,
            workers: 0,
            steps: 0,
            longest: 0,
            shortest: u64::MAX,
            slice: 0,
            shortest_on_wire: 0,
            longest_on_wire: 0,
            inline,
        };
        for worker in (0..plan.program.workers()).map(WorkerId) {
            let steps = plan.program.steps(worker);
            let lens = (0..steps).map(|step| plan.program.step(worker, step).len);
            let lens: Vec<u64> = lens.filter(|&len| len > 0).collect();
            facts.workers += u64::from(!lens.is_empty());
            facts.steps = facts.steps.max(lens.len() as u64);
            for len in lens {
                facts.longest = facts.longest.max(len);
                facts.shortest = facts.shortest.min(len);
            }
        }
        facts.slice = plan.protocol.slice_len(facts.longest);
        let (wire, payload) = plan.protocol.wire;
        let on_wire = |len: u64| len * u64::from(wire) / u64::from(payload);
        facts.shortest_on_wire = on_wire(facts.shortest.min(facts.slice));
        facts.longest_on_wire = on_wire(facts.slice);
        Some(facts)
    }
}

pub(crate) fn time_grows_with_size(scenario: &Value, run: &Run) -> Result<(), String> {
    // What comes and goes meets larger operations in another state.
    if scenario.get("faults").is_some() {
        return Ok(());
    }
    for (small, large) in falls(run) {
        if !excuses(scenario, small, large).is_empty() {
            continue;
        }
        let facts = [small, large].map(|row| Facts::of(scenario, row.bytes));
        return Err(format!(
            "{} bytes take {} us by {} {}, {} take {} us: {facts:?}",
            small.bytes, small.time_us, small.algo, small.proto, large.bytes, large.time_us
        ));
    }
    Ok(())
}

/// The mechanisms that are at work between two rows.
fn excuses(scenario: &Value, small: &Row, large: &Row) -> Vec<&'static str> {
    let facts = [small, large].map(|row| Facts::of(scenario, row.bytes));
    let [Some(small), Some(large)] = facts else {
        return Vec::new();
    };
    let mechanisms = MECHANISMS.iter();
    let at_work = mechanisms.filter(|mechanism| (mechanism.applies)(&small, &large));
    at_work.map(|mechanism| mechanism.name).collect()
}

/// A table that says more than there is would let falls pass that have no reason.
#[test]
fn every_mechanism_is_needed_and_has_a_source() {
    assert!(MECHANISMS.len() <= 10);
    for mechanism in &MECHANISMS {
        assert!(mechanism.source.contains('.'), "{}", mechanism.name);
        let mut scenario: Value = serde_json::from_str(mechanism.example).unwrap();
        scenario["name"] = "example".into();
        let run = outcome(&scenario).unwrap();
        let mut fallen = falls(&run).into_iter();
        assert!(
            fallen.any(|(small, large)| excuses(&scenario, small, large) == [mechanism.name]),
            "{} is not needed: {:?}",
            mechanism.name,
            view(&run).result.rows
        );
    }
}

/// Rows of which the larger takes less time.
fn falls(run: &Run) -> Vec<(&Row, &Row)> {
    let rows = &view(run).result.rows;
    let pairs = rows.iter().enumerate();
    let pairs = pairs.flat_map(|(i, small)| rows[i + 1..].iter().map(move |large| (small, large)));
    pairs
        .filter(|(small, large)| {
            (&small.algo, &small.proto) == (&large.algo, &large.proto)
                && small.bytes > 0
                && small.bytes < large.bytes
                && small.time_us > large.time_us
        })
        .collect()
}
