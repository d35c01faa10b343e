//! Events of ranks in the form of NCCL's example profiler plugin, beside the results of the same runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::{Output, Outputs, Summary, write_results};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TWO_NODES: &str = r#""nodes": 2, "gpus_per_node": 2"#;

/// Runs a job and writes its events into a folder; its summary.
fn run(mask: Option<u32>, nodes: &str, job: &str, folder: &Path) -> Summary {
    let environment = mask.map_or_else(String::new, |mask| {
        format!(r#""environment": {{"NCCL_PROFILE_EVENT_MASK": {mask}}},"#)
    });
    let text = format!(
        r#"{{"name": "t", "topology": {{"name": "dgx-h100"}}, {environment} {nodes}, "job": {job}}}"#
    );
    let job = validate(parse(&text, "t", &[]).unwrap(), Path::new("")).unwrap();
    let outputs = Outputs::of([Output::NcclProfiler]);
    let results = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    write_results(folder, &results, &outputs).unwrap();
    results.summary
}

fn collective(mask: Option<u32>, name: &str, folder: &Path) -> Summary {
    let job = format!(r#"{{"collective": {{"name": "{name}", "sizes": {{"list": ["4MiB"]}}}}}}"#);
    run(mask, TWO_NODES, &job, folder)
}

/// An event: category, name, from, to, what it carries.
type Event = (String, String, f64, f64, Value);

/// The events of a rank, each with its begin and its end.
fn events(folder: &Path, rank: u32) -> Vec<Event> {
    let path = folder.join(format!("nccl-profiler/rank-{rank}.json"));
    let all: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut begun: BTreeMap<u64, Event> = BTreeMap::new();
    for event in all.as_array().unwrap() {
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        let (id, at) = (event["id"].as_u64().unwrap(), event["ts"].as_f64().unwrap());
        assert_eq!(event["pid"], rank);
        match event["ph"].as_str().unwrap() {
            "b" => {
                let carries = event["args"].clone();
                let new = begun.insert(id, (text("cat"), text("name"), at, -1.0, carries));
                assert!(new.is_none());
            }
            "e" => {
                let event = begun.get_mut(&id).unwrap();
                assert!(event.3 < 0.0 && event.2 <= at, "{event:?}");
                assert_eq!((&event.0, &event.1), (&text("cat"), &text("name")));
                event.3 = at;
            }
            other => panic!("{other}"),
        }
    }
    assert!(begun.values().all(|event| event.3 >= 0.0));
    begun.into_values().collect()
}

fn categories(folder: &Path) -> BTreeSet<String> {
    events(folder, 0).into_iter().map(|event| event.0).collect()
}

#[test]
fn a_collective_between_hosts_has_its_group_its_channels_and_its_proxies() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("o");
    let summary = collective(None, "all-reduce", &folder);
    let row = summary.only_collective().unwrap();
    let row = &row.result.rows[0];
    for rank in 0..4 {
        let all = events(&folder, rank);
        let of = |category: &str| -> Vec<&Event> {
            all.iter().filter(|event| event.0 == category).collect()
        };
        let (group, operation) = (of("GROUP_API"), of("COLL"));
        assert_eq!((group.len(), operation.len()), (1, 1));
        assert_eq!(operation[0].1, "AllReduce");
        assert_eq!(operation[0].4["Algorithm"], row.algo.to_uppercase());
        assert_eq!(operation[0].4["Protocol"], row.proto.to_uppercase());
        assert_eq!(of("GPU").len(), row.channels as usize);
        assert!(of("P2P").is_empty());
        // All of it is inside the group.
        for event in of("GPU") {
            assert!(group[0].2 <= event.2 && event.3 <= group[0].3, "{event:?}");
        }
        // Each step is one of its proxy's.
        let steps: u64 = of("PROXY")
            .iter()
            .map(|event| event.4["Steps"].as_u64().unwrap())
            .sum();
        assert!(steps > 0, "rank {rank}");
        assert_eq!(steps, of("NET").len() as u64);
        for event in of("PROXY") {
            let peer = event.4["Peer"].as_u64().unwrap();
            assert_ne!(peer / 2, u64::from(rank) / 2, "a proxy is for another host");
        }
    }
    // What one host sends the other receives.
    let moved = |rank: u32, name: &str| -> u64 {
        let all = events(&folder, rank);
        let own = all
            .iter()
            .filter(|e| e.0 == "PROXY" && e.1 == format!("Progress{name}"));
        own.map(|e| e.4["transSize"].as_u64().unwrap()).sum()
    };
    let both = |ranks: [u32; 2], name| ranks.map(|rank| moved(rank, name)).iter().sum::<u64>();
    assert_eq!(both([0, 1], "Send"), both([2, 3], "Recv"));
    assert_eq!(both([2, 3], "Send"), both([0, 1], "Recv"));
}

#[test]
fn the_mask_chooses_and_what_there_is_none_of_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o");
    let known = |all: &[&str]| -> BTreeSet<String> { all.iter().map(|&c| c.into()).collect() };
    let summary = collective(Some(2 + 8), "all-reduce", &out);
    assert_eq!(categories(&out), known(&["COLL", "PROXY"]));
    assert_eq!(summary.warnings, Vec::<String>::new());
    let summary = collective(Some(1 + 32 + 128), "all-reduce", &out);
    assert_eq!(categories(&out), known(&["GROUP_API"]));
    let [warning] = &summary.warnings[..] else {
        panic!("{:?}", summary.warnings);
    };
    assert!(
        warning.contains("NCCL_PROFILE_EVENT_MASK=161")
            && warning.contains("(32), network plugins"),
        "{warning}"
    );
}

#[test]
fn an_all_to_all_is_sends_and_receives() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("o");
    collective(None, "all-to-all", &folder);
    let all = events(&folder, 0);
    assert!(all.iter().all(|event| event.0 != "COLL"));
    let peers = |name: &str| -> BTreeSet<u64> {
        let own = all.iter().filter(|e| e.0 == "P2P" && e.1 == name);
        own.map(|e| e.4["Peer"].as_u64().unwrap()).collect()
    };
    assert!(peers("Send").is_superset(&BTreeSet::from([1, 2, 3])));
    assert_eq!(peers("Send"), peers("Recv"));
}

#[test]
fn communications_of_a_step_are_collectives_of_their_communicator() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("o");
    let job = r#"{"training": {"model": {"preset": "gpt2-124m"}, "global_batch": 8, "steps": 1}}"#;
    run(None, r#""nodes": 1"#, job, &folder);
    // Ranks that are alike are recorded once.
    let all = events(&folder, 0);
    let groups = all.iter().filter(|event| event.0 == "GROUP_API").count();
    let reduced = all.iter().filter(|e| e.0 == "COLL" && e.1 == "AllReduce");
    assert_eq!(groups, all.len() - groups);
    assert!(
        reduced.clone().count() > 1
            && reduced
                .clone()
                .all(|e| e.4["CommHash"] == all[1].4["CommHash"]
                    && e.4["Rank"] == 0
                    && e.4["Datatype"] == "ncclUint8"
                    && e.4["Count"].as_u64() > Some(0)),
        "{all:?}"
    );
}
