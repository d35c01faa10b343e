use super::*;
use fabricsim_topology::{DeviceId, LinkId, Overrides, Topology, catalogue, expand};
use fabricsim_units::Time;
use proptest::prelude::*;
use std::sync::OnceLock;

/// Two nodes of eight GPUs on a rail-optimised network.
fn machine() -> &'static Topology {
    static MACHINE: OnceLock<Topology> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let spec = catalogue::find("dgx-h100").unwrap();
        let nodes = Some(2);
        expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
    })
}

fn gpus() -> Vec<DeviceId> {
    machine().gpus().collect()
}

fn spec(json: &str) -> FaultSpec {
    serde_json::from_str(json).unwrap()
}

fn faults(json: &str) -> Faults {
    Faults::resolve(&spec(json), machine(), &gpus(), 7).unwrap()
}

fn us(count: u64) -> Time {
    Time::from_micros(count)
}

fn work(step: u64, micro_batch: u32, kernel: u32) -> Work {
    Work {
        step,
        micro_batch,
        kernel,
    }
}

fn link(from: &str, to: &str) -> LinkId {
    let found = fabricsim_topology::select::links(machine(), &format!("{from} > {to}"), "x");
    found.unwrap()[0]
}

#[test]
fn a_slow_gpu_is_slow_in_its_windows() {
    let faults = faults(
        r#"[{"slow_gpu": {"ranks": [3, "8-9"], "speed": 0.5, "from": "10us", "to": "100us",
             "repeat": {"period": "20us", "duration": "5us"}}}]"#,
    );
    assert_eq!(faults.speed(3, us(10)), 0.5);
    assert_eq!(faults.speed(3, us(15)), 1.0);
    assert_eq!(faults.speed(2, us(10)), 1.0);
    assert_eq!(faults.next_speed_change(3, us(15)), Some(us(30)));
    assert_eq!(faults.next_change(us(95)), None);
    // 10 us normal, 5 us at half speed, so 2.5 us of 40 are lost twice: at 10 and at 30.
    let end = faults.compute_end(3, work(0, 0, 0), Time::ZERO, us(40));
    assert_eq!(end, Some(us(45)));
    let windows = faults.windows(us(32));
    assert_eq!(windows.len(), 2);
    assert_eq!(windows[1].to, us(32));
    assert_eq!(windows[0].place, "ranks 3, 8-9");
    assert_eq!(windows[0].what, "GPU at 0.5 of its speed");
}

#[test]
fn faults_that_meet_multiply() {
    let faults = faults(
        r#"[{"slow_gpu": {"ranks": "all", "speed": 0.5}},
            {"slow_gpu": {"ranks": 0, "speed": 0.5, "from": "1us"}},
            {"link": {"links": "node0/nic0 > compute", "factor": 0.5}},
            {"link": {"links": "node0/nic[0-1] > compute", "rate": "10GB/s", "from": "5us"}}]"#,
    );
    assert_eq!(faults.speed(0, us(1)), 0.25);
    assert_eq!(faults.speed(1, us(1)), 0.5);
    let (first, second) = (link("node0/nic0", "compute"), link("node0/nic1", "compute"));
    let full = machine().rate(first).bytes_per_sec() as f64;
    assert_eq!(faults.link_factor(first, us(0)), 0.5);
    assert_eq!(faults.link_factor(first, us(5)), 0.5 * 10e9 / full);
    assert_eq!(faults.link_factor(second, us(0)), 1.0);
    assert_eq!(faults.next_link_change(second, us(0)), Some(us(5)));
    let back = link("compute", "node0/nic0");
    assert_eq!(faults.link_factor(back, us(9)), 1.0);
    assert_eq!(faults.touched_links().count(), 2);
}

#[test]
fn a_flapping_link_comes_back() {
    let faults = faults(
        r#"[{"flap": {"links": "node0/nic3 <> compute", "from": "10us", "down": "2us",
             "up": "3us", "count": 3}}]"#,
    );
    let link = link("compute", "node0/nic3");
    let mut changes = Vec::new();
    let mut now = Time::ZERO;
    while let Some(next) = faults.next_link_change(link, now) {
        changes.push((next.micros(), faults.link_factor(link, next)));
        now = next;
    }
    let expected = [
        (10.0, 0.0),
        (12.0, 1.0),
        (15.0, 0.0),
        (17.0, 1.0),
        (20.0, 0.0),
        (22.0, 1.0),
    ];
    assert_eq!(changes, expected);
    assert_eq!(faults.windows(Time::MAX).len(), 3);
}

#[test]
fn a_failed_node_takes_its_ranks_and_links() {
    let faults = faults(
        r#"[{"failed": {"devices": "node1", "at": "10us"}},
            {"failed": {"devices": "node0/nvswitch[2]", "at": "20us"}}]"#,
    );
    assert_eq!(faults.failed_at(8), Some(us(10)));
    assert_eq!(faults.failed_at(7), None);
    assert_eq!(faults.speed(8, us(10)), 0.0);
    let end = |start, duration| faults.compute_end(8, work(0, 0, 0), us(start), us(duration));
    assert_eq!(end(0, 10), Some(us(10)));
    assert_eq!(end(0, 11), None);
    assert_eq!(end(20, 1), None);
    assert_eq!(
        faults.compute_end(0, work(0, 0, 0), us(20), us(1)),
        Some(us(21))
    );
    assert_eq!(
        faults.link_factor(link("compute", "node1/nic0"), us(10)),
        0.0
    );
    let nvlink = link("node0/gpu4", "node0/nvswitch2");
    assert_eq!(faults.link_factor(nvlink, us(19)), 1.0);
    assert_eq!(faults.link_factor(nvlink, us(20)), 0.0);
    let dead: Vec<_> = faults.failed_devices().filter(|d| d.1 == us(20)).collect();
    assert_eq!(dead.len(), 1);
    assert_eq!(faults.device_failed_at(dead[0].0), Some(us(20)));
}

#[test]
fn signatures_split_only_what_faults_distinguish() {
    let faults = faults(
        r#"[{"slow_gpu": {"ranks": "2-4", "speed": 0.9}},
            {"slow_gpu": {"ranks": 4, "speed": 0.9}},
            {"jitter": {"ranks": "0-1", "per": "kernel", "add": {"exponential": {"mean": "1us"}}}},
            {"jitter": {"ranks": "node1/gpu[*]", "per": "step", "add": {"constant": {"value": "1us"}}}}]"#,
    );
    let classes: Vec<u32> = (0..16).map(|rank| faults.signature(rank)).collect();
    let plain: Vec<bool> = (0..16).map(|rank| faults.is_plain(rank)).collect();
    assert_eq!(classes, [1, 2, 3, 3, 4, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5]);
    for rank in 0..16 {
        assert_eq!(plain[rank], classes[rank] == 0);
    }
}

#[test]
fn delays_come_once_per_part() {
    let of = |per: &str| {
        faults(&format!(
            r#"[{{"jitter": {{"ranks": 0, "per": "{per}", "from_step": 1, "to_step": 2,
                 "add": {{"constant": {{"value": "3us"}}}},
                 "stretch": {{"uniform": {{"low": 0.1, "high": 0.2}}}}}}}}]"#
        ))
    };
    for (per, delays, draws) in [("kernel", 4, 4), ("micro_batch", 2, 2), ("step", 1, 1)] {
        let faults = of(per);
        let parts = [work(1, 0, 0), work(1, 0, 1), work(1, 1, 0), work(1, 1, 1)];
        let delayed = parts
            .iter()
            .filter(|&&w| faults.delay(0, w) == us(3))
            .count();
        let mut stretches = parts.map(|w| faults.stretch(0, w).to_bits()).to_vec();
        stretches.sort_unstable();
        stretches.dedup();
        assert_eq!((delayed, stretches.len()), (delays, draws), "{per}");
        assert!(
            stretches
                .iter()
                .all(|&s| (1.1..1.2).contains(&f64::from_bits(s)))
        );
        for step in [0, 2] {
            assert_eq!(faults.delay(0, work(step, 0, 0)), Time::ZERO);
            assert_eq!(faults.stretch(0, work(step, 0, 0)), 1.0);
        }
    }
}

/// The mean over steps of the slowest of `ranks`, in the unit of `value`.
fn slowest(ranks: usize, steps: u64, value: impl Fn(usize, Work) -> f64) -> f64 {
    let of_step = |step| {
        (0..ranks)
            .map(|rank| value(rank, work(step, 0, 0)))
            .fold(0.0, f64::max)
    };
    (0..steps).map(of_step).sum::<f64>() / steps as f64
}

#[test]
fn the_slowest_rank_is_where_order_statistics_say() {
    let exponential = faults(
        r#"[{"jitter": {"ranks": "0-7", "per": "step", "add": {"exponential": {"mean": "10us"}}}}]"#,
    );
    let mean = slowest(8, 20_000, |rank, work| {
        exponential.delay(rank, work).micros()
    }) / 10.0;
    // The deviation of one maximum is √(1 + 1/4 + … + 1/64) = 1.24; of the mean 0.009.
    // The largest of n draws of mean 1 is the harmonic number 1 + 1/2 + … + 1/n.
    let harmonic: f64 = (1..=8).map(|k| 1.0 / f64::from(k)).sum();
    assert!((mean - harmonic).abs() < 0.03, "{mean}");
    let normal = faults(
        r#"[{"jitter": {"ranks": "all", "per": "step", "stretch": {"normal": {"sd": 0.05}}}}]"#,
    );
    let mean = (slowest(16, 20_000, |rank, work| normal.stretch(rank, work)) - 1.0) / 0.05;
    // The largest of 16 standard normal draws, as tables of order statistics have it.
    assert!((mean - 1.7660).abs() < 0.02, "{mean}");
}

#[test]
fn distributions_have_the_moments_asked_for() {
    let cases = [
        (r#"{"lognormal": {"mean": "10us", "sd": "5us"}}"#, 10.0, 5.0),
        (r#"{"normal": {"mean": "100us", "sd": "5us"}}"#, 100.0, 5.0),
        (
            r#"{"uniform": {"low": "0us", "high": "12us"}}"#,
            6.0,
            12.0 / 12f64.sqrt(),
        ),
        // least × shape / (shape − 1); variance least² shape / ((shape − 1)² (shape − 2)).
        (
            r#"{"pareto": {"least": "4us", "shape": 5.0}}"#,
            5.0,
            (80.0f64 / 48.0).sqrt(),
        ),
    ];
    for (json, mean, deviation) in cases {
        let json = format!(r#"[{{"jitter": {{"ranks": 0, "per": "step", "add": {json}}}}}]"#);
        let faults = faults(&json);
        let draws: Vec<f64> = (0..40_000)
            .map(|s| faults.delay(0, work(s, 0, 0)).micros())
            .collect();
        let count = draws.len() as f64;
        let found = draws.iter().sum::<f64>() / count;
        let square = draws.iter().map(|d| (d - found).powi(2)).sum::<f64>() / count;
        assert!((found / mean - 1.0).abs() < 0.015, "{json}: mean {found}");
        assert!(
            (square.sqrt() / deviation - 1.0).abs() < 0.05,
            "{json}: sd {}",
            square.sqrt()
        );
    }
}

#[test]
fn percentiles_are_met() {
    let faults = faults(
        r#"[{"jitter": {"ranks": 0, "per": "kernel",
             "add": {"lognormal": {"p50": "10us", "p99": "100us"}}}}]"#,
    );
    let draws = (0..20_000).map(|kernel| faults.delay(0, work(0, 0, kernel)));
    let draws: Vec<Time> = draws.collect();
    let share = |limit| draws.iter().filter(|&&d| d < limit).count() as f64 / 20_000.0;
    assert!((share(us(10)) - 0.5).abs() < 0.012);
    assert!((share(us(100)) - 0.99).abs() < 0.003);
}

#[test]
fn stalls_are_as_frequent_as_they_are_likely() {
    let faults = faults(
        r#"[{"data_loader_stall": {"ranks": "all", "probability": 0.1,
             "stall": {"constant": {"value": "50ms"}}}}]"#,
    );
    let stalled = (0..20_000).filter(|&step| faults.loader_stall(5, step) != Time::ZERO);
    let stalled = stalled.count();
    assert!((1830..2170).contains(&stalled), "{stalled}");
}

/// The first draws of every distribution: a new release of the crates must not change results
/// unnoticed.
#[test]
fn draws_stay_what_they_are() {
    let distributions = [
        r#"{"normal": {"mean": "10us", "sd": "1us"}}"#,
        r#"{"lognormal": {"mean": "10us", "sd": "1us"}}"#,
        r#"{"exponential": {"mean": "10us"}}"#,
        r#"{"pareto": {"least": "10us", "shape": 2.0}}"#,
        r#"{"uniform": {"low": "10us", "high": "20us"}}"#,
    ];
    let mut table = String::new();
    for distribution in distributions {
        let json =
            format!(r#"[{{"jitter": {{"ranks": 1, "per": "step", "add": {distribution}}}}}]"#);
        let faults = faults(&json);
        for step in 0..3 {
            // To a nanosecond: the last bits of logarithms are the machine's.
            let nanos = faults.delay(1, work(step, 0, 0)).picos() / 1000;
            table.push_str(&format!("{nanos} "));
        }
    }
    assert_eq!(table, GOLDEN);
}

const GOLDEN: &str =
    "10860 8995 9591 10841 9001 9553 11982 1785 3437 11191 27625 17532 17984 11310 13253 ";

#[test]
fn compute_can_take_less_by_a_share_but_not_less_than_nothing() {
    let json = |stretch: &str| {
        format!(r#"[{{"jitter": {{"ranks": 0, "per": "kernel", "stretch": {stretch}}}}}]"#)
    };
    let resolve = |stretch: &str| Faults::resolve(&spec(&json(stretch)), machine(), &gpus(), 0);
    let shorter = resolve(r#"{"uniform": {"low": -0.1, "high": 0.2}}"#).unwrap();
    let draws: Vec<f64> = (0..1000)
        .map(|k| shorter.stretch(0, work(0, 0, k)))
        .collect();
    assert!(draws.iter().all(|d| (0.9..=1.2).contains(d)));
    assert!(draws.iter().any(|d| *d < 0.95));
    let constant = resolve(r#"{"constant": {"value": -0.1}}"#).unwrap();
    assert!((constant.stretch(0, work(0, 0, 0)) - 0.9).abs() < 1e-12);
    let error = resolve(r#"{"constant": {"value": -1.5}}"#).unwrap_err();
    assert_eq!(
        error.problems[0].path,
        "faults[0].jitter.stretch.constant.value"
    );
    assert_eq!(error.problems[0].expected, "-1 or more");
}

#[test]
fn bad_faults_are_all_told_with_their_places() {
    let json = r#"[
        {"slow_gpu": {"ranks": 16, "speed": 0.5}},
        {"slow_gpu": {"ranks": "1-", "speed": 1.5}},
        {"slow_gpu": {"ranks": 1, "speed": 0.5, "from": "2us", "to": "1us"}},
        {"slow_gpu": {"ranks": 1, "speed": 0.5, "repeat": {"period": "2us", "duration": "2us"}}},
        {"jitter": {"ranks": ["node0/nic0"], "per": "step"}},
        {"jitter": {"ranks": 1, "per": "step", "add": {"lognormal": {"mean": "1us", "p99": "2us"}}}},
        {"jitter": {"ranks": 1, "per": "step", "stretch": {"normal": {"sd": -0.1}}}},
        {"data_loader_stall": {"ranks": 1, "probability": 2.0, "stall": {"constant": {"value": "1us"}}}},
        {"link": {"links": "node0/nci0", "factor": 0.5}},
        {"link": {"links": "node0/nic0 > compute", "factor": 0.5, "rate": "1GB/s"}},
        {"link": {"links": "node0/nic0 > compute", "rate": "1TB/s"}},
        {"flap": {"links": "node0/nic0 > node1/nic0", "from": "1us", "down": "1us", "count": 2}},
        {"failed": {"devices": "node7", "at": "1us"}}
    ]"#;
    let error = Faults::resolve(&spec(json), machine(), &gpus(), 0).unwrap_err();
    let places: Vec<&str> = error.problems.iter().map(|p| p.path.as_str()).collect();
    let expected = [
        "faults[0].slow_gpu.ranks",
        "faults[1].slow_gpu.ranks",
        "faults[1].slow_gpu.speed",
        "faults[2].slow_gpu.to",
        "faults[3].slow_gpu.repeat.duration",
        "faults[4].jitter.ranks[0]",
        "faults[4].jitter",
        "faults[5].jitter.add.lognormal",
        "faults[6].jitter.stretch.normal.sd",
        "faults[7].data_loader_stall.probability",
        "faults[8].link.links",
        "faults[9].link",
        "faults[10].link.rate",
        "faults[11].flap.links",
        "faults[11].flap",
        "faults[12].failed.devices",
    ];
    assert_eq!(places, expected);
    let text = error.to_string();
    for part in [
        "did you mean `nic`?",
        "`node[0-1]`",
        "0 to 15",
        "`mean`, `p99`",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn unknown_fields_and_variants_are_refused() {
    for (json, expected) in [
        (r#"[{"slow_gpus": {}}]"#, "unknown variant `slow_gpus`"),
        (
            r#"[{"slow_gpu": {"ranks": 1, "speed": 1, "form": "1us"}}]"#,
            "unknown field `form`",
        ),
        (
            r#"[{"slow_gpu": {"ranks": 1.5, "speed": 1}}]"#,
            "ranks such as",
        ),
        (
            r#"[{"jitter": {"ranks": 1, "per": "step", "add": {"normal": {"sigma": "1us"}}}}]"#,
            "unknown field `sigma`",
        ),
    ] {
        let error = serde_json::from_str::<FaultSpec>(json)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn specs_are_written_as_they_are_read() {
    let json = r#"[{"slow_gpu":{"ranks":[3,"8-9"],"speed":0.5,"from":"10us"}},{"jitter":{"comment":"OS noise","ranks":"all","add":{"pareto":{"least":"4us","shape":1.5,"most":"1s"}},"per":"kernel"}}]"#;
    assert_eq!(serde_json::to_string(&spec(json)).unwrap(), json);
    let schema = serde_json::to_value(schemars::schema_for!(FaultSpec)).unwrap();
    assert!(jsonschema::is_valid(
        &schema,
        &serde_json::from_str(json).unwrap()
    ));
    let wrong = serde_json::json!([{"slow_gpu": {"ranks": "all", "speed": 0.5, "form": "1us"}}]);
    assert!(!jsonschema::is_valid(&schema, &wrong));
}

/// Faults of every kind, to ask many things of.
fn many() -> Faults {
    faults(
        r#"[{"slow_gpu": {"ranks": "0-5", "speed": 0.7, "from": "3us",
                "repeat": {"period": "7us", "duration": "2us"}}},
            {"jitter": {"ranks": "all", "per": "kernel", "add": {"exponential": {"mean": "1us"}},
                "stretch": {"normal": {"sd": 0.3}}}},
            {"jitter": {"ranks": "all", "per": "micro_batch",
                "add": {"pareto": {"least": "1us", "shape": 0.8}}}},
            {"data_loader_stall": {"ranks": "3", "probability": 0.5,
                "stall": {"exponential": {"mean": "1us"}}}},
            {"failed": {"devices": "node1/gpu[7]", "at": "40us"}}]"#,
    )
}

proptest! {
    #[test]
    fn answers_do_not_depend_on_the_order_of_questions(
        questions in prop::collection::vec((0usize..16, 0u64..4, 0u32..3, 0u32..3), 1..40),
    ) {
        let faults = many();
        let answer = |&(rank, step, micro_batch, kernel): &(usize, u64, u32, u32)| {
            let work = work(step, micro_batch, kernel);
            (faults.delay(rank, work), faults.stretch(rank, work).to_bits(), faults.loader_stall(rank, step))
        };
        let forward: Vec<_> = questions.iter().map(answer).collect();
        let mut backward: Vec<_> = questions.iter().rev().map(answer).collect();
        backward.reverse();
        prop_assert_eq!(forward, backward);
    }

    #[test]
    fn compute_ends_later_the_later_it_starts(
        rank in 0usize..16, kernel in 0u32..50, start in 0u64..60_000, later in 0u64..5000, duration in 0u64..30_000,
    ) {
        let faults = many();
        let nanos = Time::from_nanos;
        let end = |start| faults.compute_end(rank, work(0, 0, kernel), nanos(start), nanos(duration));
        let (early, late) = (end(start), end(start + later));
        // What never ends counts as later than all that does.
        prop_assert!(early.unwrap_or(Time::MAX) <= late.unwrap_or(Time::MAX));
        let begun = nanos(start) + faults.delay(rank, work(0, 0, kernel));
        prop_assert!(early.is_none_or(|end| begun <= end));
        if let (Some(end), Some(failed)) = (early, faults.failed_at(rank)) {
            prop_assert!(end <= failed || duration == 0 || faults.stretch(rank, work(0, 0, kernel)) == 0.0);
        }
    }

    #[test]
    fn windows_and_speeds_agree(rank in 0usize..6, time in 0u64..100_000) {
        let faults = many();
        let time = Time::from_nanos(time);
        let on = faults.windows(Time::from_micros(200)).iter().any(|window| {
            window.place == "ranks 0-5" && window.from <= time && time < window.to
        });
        prop_assert_eq!(faults.speed(rank, time), if on { 0.7 } else { 1.0 });
        let next = faults.next_speed_change(rank, time).unwrap();
        prop_assert!(faults.next_change(time).unwrap() <= next);
        prop_assert!(faults.speed(rank, next) != faults.speed(rank, time));
    }
}
