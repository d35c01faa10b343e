//! Topology files, sound and broken, as users meet them.
//!
//! Every `tests/cases/broken-topologies/NAME.json` has its message in `NAME.expected`, in
//! full. To write the messages anew after a change of wording, run the tests with
//! `UPDATE_EXPECTED=1` and read the difference.

use fabricsim::topology::{
    Hardware, Overrides, Topology, TopologyError, TopologySpec, check, expand, load,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn hardware() -> Hardware {
    let text = include_str!("cases/topologies/hardware.json");
    load::parse_hardware(text, "hardware.json").unwrap_or_else(|e| panic!("{e}"))
}

fn machine(text: &str, origin: &str, hardware: &Hardware) -> Result<Topology, TopologyError> {
    let spec = load::parse(text, origin)?;
    expand(&spec, hardware, &Overrides::default()).map_err(|e| e.with_origin(origin))
}

#[test]
fn broken_files_get_the_message_beside_them() {
    let hardware = hardware();
    let folder = cases().join("broken-topologies");
    let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    names.sort();
    assert!(names.len() >= 20);
    let mut wrong = Vec::new();
    for path in names {
        let origin = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let message = match machine(&text, &origin, &hardware) {
            Ok(_) => "no error\n".to_owned(),
            Err(error) => {
                assert!(!error.places().is_empty(), "{origin}: no place");
                format!("{error}\n")
            }
        };
        let beside = path.with_extension("expected");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(&beside, &message).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if message != expected {
            wrong.push(format!(
                "{origin}\n--- expected\n{expected}--- found\n{message}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = load::load("no/such/file.json", &Overrides::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read no/such/file.json: "),
        "{error}"
    );
}

#[test]
fn a_shipped_name_with_a_slip_is_suggested() {
    let error = load::load("dgx-h10", &Overrides::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("did you mean `dgx-h100` or `dgx-h100-nvme`?"),
        "{error}"
    );
}

#[test]
fn oddities_that_can_be_simulated_are_warnings() {
    let hardware = hardware();
    let text = include_str!("cases/topologies/server.json");
    let mut spec: TopologySpec = load::parse(text, "server.json").unwrap();
    for link in &mut spec.components.get_mut("server").unwrap().links {
        if link.from.starts_with("nic") {
            link.lanes = 4;
        }
    }
    let topology = expand(&spec, &hardware, &Overrides::default()).unwrap();
    let findings: Vec<String> = check(&topology).iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        [
            "warning: node0/nic0 and 7 more: a NIC of 48.0 GB/s in a slot of 14.0 GB/s; \
             expected a slot as fast as the NIC"
        ]
    );
}

/// A file with some of its values, keys or characters changed.
fn mutated() -> impl Strategy<Value = String> {
    let files = prop::sample::select(vec![
        include_str!("cases/topologies/server.json"),
        include_str!("cases/topologies/rack.json"),
        include_str!("cases/topologies/pair.json"),
    ]);
    let pieces = prop::sample::select(vec![
        "\"\"",
        "0",
        "1",
        "3",
        "65535",
        "65537",
        "4294967295",
        "-1",
        "1.5",
        "1e308",
        "null",
        "true",
        "{}",
        "[]",
        "\"gpu\"",
        "\"gpu[*]\"",
        "\"gpu[0-7]\"",
        "\"nic[9]\"",
        "\"tray[*]/gpu[*]\"",
        "\"rack\"",
        "\"server\"",
        "\"nvlink\"",
        "\"cable\"",
        "\"switch-8\"",
        "\"each\"",
        "\"cpu\"",
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), pieces), 1..4);
    (files, edits, any::<Option<(prop::sample::Index, char)>>()).prop_map(|(file, edits, slip)| {
        let mut text = file.to_owned();
        for (at, piece) in edits {
            // Values and keys are what stands between the marks of JSON.
            let tokens: Vec<(usize, &str)> = text
                .match_indices(['"', ',', ':', '{', '}', '[', ']', '\n'])
                .filter(|(_, mark)| *mark == ":")
                .collect();
            if tokens.is_empty() {
                continue;
            }
            let start = tokens[at.index(tokens.len())].0 + 1;
            let end = text[start..]
                .find(['\n', '{', '['])
                .map_or(text.len(), |n| start + n);
            let comma = if text[start..end].ends_with(',') {
                ","
            } else {
                ""
            };
            text.replace_range(start..end, &format!(" {piece}{comma}"));
        }
        if let Some((at, c)) = slip {
            let places: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            let at = places[at.index(places.len())];
            text.insert(at, c);
        }
        text
    })
}

proptest! {
    #[test]
    fn changed_files_give_a_machine_or_an_error_with_a_place(
        text in mutated(),
        nodes in prop::option::of(0u32..40),
    ) {
        let hardware = hardware();
        let result = load::parse(&text, "changed")
            .and_then(|spec| expand(&spec, &hardware, &Overrides { nodes }));
        match result {
            Ok(topology) => prop_assert!(topology.gpus().next().is_some()),
            Err(error) => {
                prop_assert!(!error.places().is_empty());
                prop_assert!(error.places().iter().all(|place| !place.is_empty()));
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        prop_assert!(load::parse(&text, "anything").is_err());
    }
}
