//! The trace: valid, complete, and nothing overlaps.

use super::samples;
use crate::record::{Doing, Span, Timeline, Track};
use crate::{write_links_csv, write_trace};
use fabricsim_units::{Bytes, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn events(timeline: &Timeline) -> Vec<Value> {
    let mut text = Vec::new();
    write_trace(timeline, &mut text).unwrap();
    let trace: Value = serde_json::from_slice(&text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn every_process_and_thread_of_a_trace_has_a_name() {
    let events = events(&samples::ring().1);
    let mut named = BTreeSet::new();
    for event in events.iter().filter(|event| event["ph"] == "M") {
        let kind = event["name"].as_str().unwrap().to_owned();
        named.insert((kind, event["pid"].as_u64(), event["tid"].as_u64()));
    }
    for event in events.iter().filter(|event| event["ph"] != "M") {
        let (pid, tid) = (event["pid"].as_u64(), event["tid"].as_u64());
        assert!(
            named.contains(&("process_name".to_owned(), pid, Some(0))),
            "{event}"
        );
        if event["ph"] == "X" {
            assert!(
                named.contains(&("thread_name".to_owned(), pid, tid)),
                "{event}"
            );
        }
    }
    let first = events.iter().find(|event| event["name"] == "process_name");
    assert_eq!(first.unwrap()["args"]["name"], "rank 0: node0/gpu0");
}

#[test]
fn spans_of_a_thread_do_not_overlap_and_none_is_lost() {
    let timeline = samples::ring().1;
    let mut threads: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let mut count = 0;
    for event in events(&timeline).iter().filter(|event| event["ph"] == "X") {
        let number = |field: &str| event[field].as_f64().unwrap();
        assert!(number("dur") >= 0.0, "{event}");
        let thread = (number("pid") as u64, number("tid") as u64);
        let span = (number("ts"), number("ts") + number("dur"));
        threads.entry(thread).or_default().push(span);
        count += 1;
    }
    assert_eq!(count, timeline.spans.len());
    for spans in threads.values_mut() {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Half a picosecond: the sum of two floats is not exact.
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 5e-7));
    }
}

#[test]
fn picoseconds_and_odd_names_survive() {
    let timeline = Timeline {
        spans: vec![Span {
            rank: 4,
            track: Track::Proxy(2),
            doing: Doing::Moves("send \"x\" </script>\n"),
            bytes: Bytes::new(7),
            start: Time::from_picos(123_456_789_000_001),
            end: Time::from_picos(123_456_789_500_001),
        }],
        end: Time::from_picos(123_456_789_500_001),
        ..Timeline::default()
    };
    let mut text = Vec::new();
    write_trace(&timeline, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let golden = r#"{"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","pid":5,"tid":0,"name":"process_name","args":{"name":"rank 4"}},
{"ph":"M","pid":5,"tid":0,"name":"process_sort_index","args":{"sort_index":5}},
{"ph":"M","pid":5,"tid":2322,"name":"thread_name","args":{"name":"channel 2 proxy"}},
{"ph":"M","pid":5,"tid":2322,"name":"thread_sort_index","args":{"sort_index":2322}},
{"ph":"X","pid":5,"tid":2322,"name":"send \"x\" </script>\n","cat":"stream","ts":123456789.000001,"dur":0.5,"args":{"bytes":7}}
]}
"#;
    assert_eq!(text, golden);
}

#[test]
fn counters_hold_gigabytes_per_second_and_end_at_zero() {
    let events = events(&samples::ring().1);
    let of = |pid: u64, name: &str| -> Vec<&Value> {
        let counters = events.iter().filter(|event| event["ph"] == "C");
        counters
            .filter(|event| event["pid"] == pid && event["name"] == name)
            .collect()
    };
    // Four NVLink links of 100 GB/s out of each GPU, 95 % times 0.8 to 1.0 of it used.
    let out = of(1, "NVLink out, GB/s");
    let peak = out
        .iter()
        .map(|event| event["args"]["GB/s"].as_f64().unwrap());
    let peak = peak.fold(0.0, f64::max);
    assert!((304.0..=380.0).contains(&peak), "{peak}");
    assert_eq!(out.last().unwrap()["args"]["GB/s"], 0);
    let links = u64::from(samples::GPUS) + 1;
    let busiest = of(links, "NVLink: busiest link, %");
    assert!(
        busiest
            .iter()
            .all(|event| event["args"]["%"].as_f64().unwrap() <= 100.0)
    );
    assert!(!of(links, "PCIe: mean of links, %").is_empty());
}

#[test]
fn spans_that_move_bytes_say_what_and_how_and_those_that_wait_for_whom() {
    let events = events(&samples::ring().1);
    let of = |category: &str| events.iter().find(|event| event["cat"] == category);
    let moved = serde_json::json!({
        "bytes": 2 << 20, "operation": "all-reduce", "ranks": 8, "algorithm": "ring", "protocol": "simple"
    });
    assert_eq!(of("stream").unwrap()["args"], moved);
    let waits = of("wait_credit").unwrap();
    assert_eq!(waits["name"], "waiting for credit from rank 1");
    assert_eq!(waits["args"], serde_json::json!({ "peer": 1 }));
    assert_eq!(of("sync").unwrap()["args"], serde_json::json!({}));
}

#[test]
fn each_message_is_an_arrow_from_one_moving_span_to_another() {
    let timeline = samples::ring().1;
    let events = events(&timeline);
    let starts: BTreeSet<String> = events
        .iter()
        .filter(|event| event["cat"] == "stream")
        .map(|event| format!("{} {} {}", event["pid"], event["tid"], event["ts"]))
        .collect();
    let mut arrows: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["cat"] == "message") {
        let place = format!("{} {} {}", event["pid"], event["tid"], event["ts"]);
        assert!(starts.contains(&place), "{event}");
        let number = event["id"].as_u64().unwrap();
        arrows.entry(number).or_default().push(event);
    }
    assert_eq!(arrows.len(), timeline.messages.len());
    for ends in arrows.values() {
        let phases: Vec<_> = ends.iter().map(|end| end["ph"].as_str().unwrap()).collect();
        assert_eq!(phases, ["s", "f"]);
        assert!(ends[0]["ts"].as_f64() < ends[1]["ts"].as_f64());
        assert_eq!(ends[1]["bp"], "e");
    }
}

#[test]
fn an_empty_timeline_is_a_valid_trace() {
    assert!(events(&Timeline::default()).is_empty());
}

#[test]
fn rows_of_links_add_up_to_what_each_link_carried() {
    let timeline = samples::ring().1;
    let mut text = Vec::new();
    write_links_csv(&timeline, &mut text).unwrap();
    let mut csv = csv::Reader::from_reader(text.as_slice());
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for row in csv.records() {
        let row = row.unwrap();
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        assert!(number(2) < number(3));
        assert!((0.0..=1.0).contains(&number(5)), "{row:?}");
        *sums.entry(row[0].to_owned()).or_default() += number(4);
    }
    assert_eq!(sums.len(), timeline.links.len());
    for series in &timeline.links {
        let carried: f64 = series.bytes.iter().sum();
        assert!(
            (sums[&series.name] - carried).abs() < 1.0,
            "{}",
            series.name
        );
    }
    assert!(String::from_utf8(text).unwrap().starts_with(
        "link,family,start_us,end_us,bytes,utilisation\nnode0/gpu0 > node0/nvswitch0,NVLink,0,5,0,0\n"
    ));
}
