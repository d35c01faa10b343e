use super::shared_tests::two_racks;
use super::*;
use proptest::prelude::*;

fn spec(json: &str) -> LongRunSpec {
    serde_json::from_str(json).unwrap()
}

/// Nodes of so many GPUs, each with a NIC of its own.
fn cluster(nodes: u32, gpus: u32, step: Span) -> Cluster {
    Cluster {
        nodes,
        gpus_per_node: gpus,
        nics_per_node: gpus,
        step,
        ..Cluster::default()
    }
}

/// 16,384 GPUs.
fn meta() -> Cluster {
    cluster(2048, 8, Span::from_secs(6))
}

/// Llama 3 405B on 16,384 GPUs for 54 days. Published are the failures and that more than 90 %
/// of the time was effective; a blocking checkpoint is taken as R4 of the formulas (5.67 TB at
/// 2 TB/s), a restart as ten minutes with two until the failure is seen, by no more than the
/// order of size that others publish.
fn llama(interval: &str) -> LongRunSpec {
    spec(&format!(
        r#"{{"duration": "54d", "checkpoint": {{"interval": {interval},
                "cost": {{"write": {{"size": "5.67TB", "rate": "2TB/s"}}}}}},
            "detection": "2min", "restart": "10min", "replicas": 50}}"#
    ))
}

/// Failures per second of one kind alone.
pub(super) fn of(component: Component, rate: f64) -> [f64; Component::COUNT] {
    Component::ALL.map(|other| if other == component { rate } else { 0.0 })
}

/// A small job that fails every hour.
pub(super) fn hourly() -> Job {
    Job {
        rates: of(Component::Gpu, 1.0 / 3600.0),
        shared: SharedParts::default(),
        spares: 0,
        spares_per_domain: 0,
        step: Span::from_secs(1),
        cost: Span::from_secs(20),
        write: Span::ZERO,
        detection: Span::from_secs(60),
        restart: Span::from_secs(120),
        restart_parts: None,
        repair: None,
        drained: 0.0,
        duration: Span::parse("20d").unwrap(),
        replicas: 60,
    }
}

fn mean(job: &Job, interval: u64) -> f64 {
    let replicas = simulate(job, interval, 1, 2);
    replicas.iter().map(Replica::goodput).sum::<f64>() / replicas.len() as f64
}

#[test]
fn llama_3_was_effective_for_more_than_90_percent() {
    let result = goodput(&meta(), &llama("\"young\""), 1, 2).unwrap();
    let failures = result.mean_of(|replica| replica.failure_count() as f64);
    // Nothing fails during detection, which is 1 % of the time; the deviation of the mean over
    // 50 runs of √419 is 2.9.
    assert!((failures / 419.0 - 1.0).abs() < 0.03, "{failures} failures");
    assert!(0.90 < result.mean && result.mean < 0.93, "{}", result.mean);
    let expected = result.expected.unwrap();
    assert!(
        (result.mean - expected).abs() < 0.002,
        "{} for {expected}",
        result.mean
    );
    let gpu = result.mean_of(|replica| replica.failures[0] as f64);
    assert!(
        (gpu / failures - 268.0 / 419.0).abs() < 0.02,
        "{gpu} of GPUs"
    );
    // With NCCL's timeout of ten minutes for every failure it would have been less than 90 %.
    let slow = LongRunSpec {
        detection: None,
        ..llama("\"young\"")
    };
    assert!(goodput(&meta(), &slow, 1, 2).unwrap().mean < 0.89);
}

#[test]
fn the_simulation_is_where_the_formula_says() {
    let job = hourly();
    for interval in [60, 380, 1500] {
        let replicas = simulate(&job, interval, 3, 2);
        let values: Vec<f64> = replicas.iter().map(Replica::goodput).collect();
        let count = values.len() as f64;
        let found = values.iter().sum::<f64>() / count;
        let square = values.iter().map(|v| (v - found).powi(2)).sum::<f64>() / (count - 1.0);
        let work = Span::from_secs(interval);
        let mtbf = job.mtbf().unwrap();
        let expected = formulas::expected_goodput(work, job.cost, job.detection, job.restart, mtbf);
        // Four deviations of the mean, and the unfinished period at the end.
        let allowed = 4.0 * (square / count).sqrt() + 1e-4;
        assert!(
            (found - expected).abs() < allowed,
            "{interval}: {found} for {expected}"
        );
    }
}

#[test]
fn a_checkpoint_that_is_not_yet_written_does_not_count() {
    // Training stands still for 2 s, and what is copied is written for 50 s after that.
    let job = Job {
        cost: Span::from_secs(2),
        write: Span::from_secs(50),
        ..hourly()
    };
    for interval in [20, 60, 380] {
        let work = Span::from_secs(interval);
        let replicas = simulate(&job, interval, 3, 2);
        let values: Vec<f64> = replicas.iter().map(Replica::goodput).collect();
        let count = values.len() as f64;
        let found = values.iter().sum::<f64>() / count;
        let square = values.iter().map(|v| (v - found).powi(2)).sum::<f64>() / (count - 1.0);
        // Periods of τ + C, and C + W − τ where the next checkpoint waits for the one before. After a
        // restart of R the k-th of them counts if nothing fails for k periods and W more: the sum of
        // exp(−(k T + W) / M) over all k is exp(−W / M) / (exp(T / M) − 1).
        let blocked = if interval < 50 { 52 - interval } else { 2 };
        assert_eq!(job.blocked(work), Span::from_secs(blocked));
        let (m, period) = (3600.0_f64, (interval + blocked) as f64);
        let counted = (-(120.0 + 50.0) / m).exp() / (period / m).exp_m1();
        let expected = interval as f64 * counted / (m + 60.0);
        assert!((job.expected(work).unwrap() - expected).abs() < 1e-12);
        let allowed = 4.0 * (square / count).sqrt() + 1e-4;
        assert!(
            (found - expected).abs() < allowed,
            "{interval}: {found} for {expected}"
        );
    }
    // Writing beside the steps costs less than standing still for it.
    let blocking = Job {
        cost: Span::from_secs(52),
        ..hourly()
    };
    assert!(mean(&blocking, 380) < mean(&job, 380));
}

#[test]
fn a_restart_is_a_constant_or_its_parts() {
    let restart = |text: &str| {
        let text = format!(
            r#"{{"duration": "1h", {text} "checkpoint": {{"interval": {{"steps": 10}},
                "cost": {{"write": {{"size": "4TB", "rate": "1TB/s"}}}}}}}}"#
        );
        Job::new(&meta(), &spec(&text)).map(|job| job.restart)
    };
    assert_eq!(restart("").unwrap(), Span::from_secs(900));
    assert_eq!(
        restart(r#""restart": "5min","#).unwrap(),
        Span::from_secs(300)
    );
    // 111 s + 16,384 × 6.04 ms, 17 s, and 4 s to read what takes as long to write.
    let parts = restart(r#""restart_parts": {},"#).unwrap();
    assert_eq!(
        parts,
        Span::from_nanos(132_000_000_000 + 16_384 * 6_040_000)
    );
    let both = restart(r#""restart": "5min", "restart_parts": {},"#).unwrap_err();
    assert_eq!(both.problems[0].path, "restart");
}

#[test]
fn young_and_daly_are_near_the_simulated_best() {
    for cost in [20, 120] {
        let job = Job {
            cost: Span::from_secs(cost),
            ..hourly()
        };
        let best = best_interval(&job, 1, 2);
        let mtbf = job.mtbf().unwrap();
        for (name, work) in [
            ("Young", formulas::young(job.cost, mtbf)),
            ("Daly", formulas::daly(job.cost, mtbf)),
            ("exact", formulas::exact(job.cost, mtbf)),
        ] {
            let there = mean(&job, job.steps_of(work));
            let off = 1.0 - there / best.goodput;
            // They are tried, too.
            assert!(
                (0.0..0.005).contains(&off),
                "{name} at {cost} s: {there} for {}",
                best.goodput
            );
        }
        let edges = [best.tried[0].1, best.tried[best.tried.len() - 1].1];
        assert!(edges.into_iter().all(|edge| edge < best.goodput - 0.01));
    }
}

#[test]
fn a_run_without_failures_only_makes_checkpoints() {
    let job = Job {
        rates: [0.0; Component::COUNT],
        duration: Span::from_secs(1000),
        ..hourly()
    };
    // Ten cycles of 80 + 20.
    let replicas = simulate(&job, 80, 0, 1);
    assert_eq!(replicas.len(), 60);
    assert_eq!(replicas[0].ledger.checkpointing, Span::from_secs(200));
    assert_eq!((replicas[0].steps, replicas[0].goodput()), (800, 0.8));
    let none = spec(
        r#"{"rates": "none", "duration": "1h", "checkpoint": {"interval": "daly", "cost": {"blocking": "1min"}}}"#,
    );
    let result = goodput(&cluster(1, 1, Span::from_secs(1)), &none, 0, 1).unwrap();
    assert_eq!(
        (result.mean, result.mtbf, result.interval),
        (1.0, None, 3600)
    );
}

#[test]
fn nodes_that_are_out_are_waited_for() {
    let repaired = |spares| Job {
        repair: Some(Span::parse("2h").unwrap()),
        drained: 1.0,
        spares,
        ..hourly()
    };
    // Without spares every failure waits for its repair: an hour of exposure, then two hours.
    let replicas = simulate(&repaired(0), 380, 1, 2);
    for replica in &replicas {
        let waits = replica.failure_count() as f64 * 7200.0;
        let waited = replica.ledger.waiting.seconds();
        // The last wait may be cut short by the end.
        assert!(
            waits - 7200.0 <= waited && waited <= waits,
            "{waited} of {waits}"
        );
    }
    let many = simulate(&repaired(1000), 380, 1, 2);
    assert!(
        many.iter()
            .all(|replica| replica.ledger.waiting == Span::ZERO)
    );
}

#[test]
fn threads_change_nothing() {
    let job = hourly();
    let one = simulate(&job, 380, 5, 1);
    for threads in [2, 3, 7, 1000] {
        assert_eq!(simulate(&job, 380, 5, threads), one);
    }
    assert_ne!(simulate(&job, 380, 6, 1), one);
}

#[test]
fn intervals_are_as_the_file_says() {
    for (interval, steps) in [
        (r#"{"steps": 17}"#, 17),
        (r#"{"every": "5min"}"#, 50),
        // √(2 × 2.835 s × 11,135 s) = 251.3 s.
        ("\"young\"", 42),
        ("\"daly\"", 42),
        ("\"exact\"", 42),
        // With 720 s of recovery: √(2 × 2.835 × (11,135 + 720)) = 259.3 s.
        ("\"recovery\"", 43),
    ] {
        let short = LongRunSpec {
            duration: Span::from_secs(3600),
            replicas: Some(1),
            ..llama(interval)
        };
        assert_eq!(
            goodput(&meta(), &short, 0, 1).unwrap().interval,
            steps,
            "{interval}"
        );
    }
    let best = LongRunSpec {
        duration: Span::parse("5d").unwrap(),
        replicas: Some(20),
        ..llama("\"best\"")
    };
    let best = goodput(&meta(), &best, 0, 2).unwrap();
    let search = best.search.unwrap();
    assert_eq!(best.interval, search.steps);
    assert_eq!(best.mean, search.goodput);
}

#[test]
fn bad_jobs_are_told_with_all_their_problems() {
    let bad = spec(
        r#"{"rates": "lama3-405b", "drained": 2, "mtbf": {"nic": "0s"}, "replicas": 0, "duration": "1h",
            "checkpoint": {"interval": {"steps": 0},
                "cost": {"write": {"size": "1TB", "rate": "0B/s"}}}}"#,
    );
    let error = Job::new(&cluster(0, 8, Span::ZERO), &bad).unwrap_err();
    let paths: Vec<&str> = error.problems.iter().map(|p| p.path.as_str()).collect();
    let expected = [
        "nodes",
        "replicas",
        "step",
        "checkpoint.interval.steps",
        "drained",
        "drained",
        "checkpoint.cost.write.rate",
        "rates",
        "mtbf.nic",
    ];
    assert_eq!(paths, expected);
    assert!(
        error.to_string().contains("did you mean `llama3-405b`?"),
        "{error}"
    );
    let frail = spec(
        r#"{"mtbf": {"gpu": "1s"}, "duration": "1d",
            "checkpoint": {"interval": "best", "cost": {"blocking": "1s"}}}"#,
    );
    assert_eq!(
        Job::new(&cluster(1_000_000, 8, Span::from_secs(1)), &frail)
            .unwrap_err()
            .problems[0]
            .path,
        "duration"
    );
    for (json, expected) in [
        (r#"{"nodes": 1}"#, "unknown field `nodes`"),
        (r#"{"mtbf": {"gpus": "1d"}}"#, "unknown variant `gpus`"),
    ] {
        let error = serde_json::from_str::<LongRunSpec>(json)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_schema_takes_what_is_written() {
    let schema = serde_json::to_value(schemars::schema_for!(LongRunSpec)).unwrap();
    for interval in ["\"best\"", r#"{"every": "5min"}"#] {
        let written = serde_json::to_value(llama(interval)).unwrap();
        assert!(jsonschema::is_valid(&schema, &written), "{written}");
        assert_eq!(
            serde_json::from_value::<LongRunSpec>(written).unwrap(),
            llama(interval)
        );
    }
}

fn job() -> impl Strategy<Value = Job> {
    let rates = prop::array::uniform8(0.0..2e-4);
    let seconds = |most| (0u64..most).prop_map(Span::from_secs);
    let waits = (
        seconds(900),
        seconds(2000),
        seconds(3000),
        prop::option::of(seconds(40_000)),
    );
    let numbers = (0u32..4, 1u64..100, 0.0..=1.0, 1u64..400_000, 0u64..2000);
    let parts = prop_oneof![Just(SharedParts::default()), Just(two_racks())];
    let more = (parts, 0u32..3);
    (rates, waits, numbers, more).prop_map(|(rates, waits, numbers, (shared, own))| {
        job_of(rates, waits, numbers, (shared, own))
    })
}

fn job_of(
    rates: [f64; Component::COUNT],
    waits: (Span, Span, Span, Option<Span>),
    (spares, step, drained, duration, write): (u32, u64, f64, u64, u64),
    (shared, spares_per_domain): (SharedParts, u32),
) -> Job {
    Job {
        rates,
        shared,
        spares,
        spares_per_domain,
        step: Span::from_secs(step),
        cost: waits.0,
        write: Span::from_secs(write),
        detection: waits.1,
        restart: waits.2,
        restart_parts: None,
        repair: waits.3,
        drained,
        duration: Span::from_secs(duration),
        replicas: 3,
    }
}

proptest! {
    #[test]
    fn all_time_is_accounted_for(job in job(), interval in 1u64..200, seed in any::<u64>()) {
        for replica in simulate(&job, interval, seed, 1) {
            prop_assert_eq!(replica.ledger.total(), job.duration);
            prop_assert!((0.0..=1.0).contains(&replica.goodput()));
            prop_assert!(job.step.saturating_mul(replica.steps) <= replica.ledger.productive);
            prop_assert!(replica.drained <= replica.failure_count());
        }
    }

    #[test]
    fn more_spares_are_never_worse(job in job(), interval in 1u64..200, seed in any::<u64>()) {
        let more = Job { spares: job.spares + 1, ..job.clone() };
        let (few, many) = (simulate(&job, interval, seed, 1), simulate(&more, interval, seed, 1));
        for (few, many) in few.iter().zip(&many) {
            // Work of an unfinished period counts as productive at the end, so a run that stops
            // just before a failure may look better by up to one period, or two if a checkpoint was
            // not yet written.
            let slack = job.step.saturating_mul(2 * interval);
            prop_assert!(few.ledger.productive <= many.ledger.productive.saturating_add(slack));
            prop_assert!(many.ledger.waiting.nanos() == 0 || few.ledger.waiting.nanos() != 0);
        }
    }

    #[test]
    fn formulas_stay_within_reason(cost in 1u64..10_000, mtbf in 1u64..10_000_000, work in 1u64..1_000_000) {
        let [cost, mtbf, work] = [cost, mtbf, work].map(Span::from_secs);
        let at = |work| formulas::expected_goodput(work, cost, Span::ZERO, Span::ZERO, mtbf);
        prop_assert!((0.0..=1.0).contains(&at(work)));
        prop_assert!(at(work) <= at(formulas::exact(cost, mtbf)) * (1.0 + 1e-9));
        prop_assert!(formulas::exact(cost, mtbf) <= formulas::young(cost, mtbf));
    }
}

#[test]
fn runs_are_spread_and_kinds_of_parts_have_their_price() {
    let own = goodput(&meta(), &llama(r#""daly""#), 3, 2).unwrap();
    let all = own.replicas.len() as f64;
    // By nearest rank so many reach it.
    for share in [0.1, 0.5, 0.9] {
        let at = own.quantile(share);
        let below = own.replicas.iter().filter(|r| r.goodput() < at).count() as f64;
        let not_above = own.replicas.iter().filter(|r| r.goodput() <= at).count() as f64;
        assert!(below < share * all && not_above >= share * all, "{share}");
    }
    assert!(own.quantile(0.1) < own.mean && own.mean < own.quantile(0.9));
    // Each kind that fails costs something, and all together about what is lost to failures.
    let how = (own.interval, 3);
    let without = without_each(&meta(), &llama(r#""daly""#), how, 2).unwrap();
    assert!(without.len() > 3, "{without:?}");
    assert!(
        without.iter().all(|&(_, mean)| mean > own.mean),
        "{without:?}"
    );
    let none = spec(
        r#"{"duration": "54d", "rates": "none", "checkpoint": {"interval": "daly",
            "cost": {"blocking": "3s"}}, "replicas": 1}"#,
    );
    assert!(without_each(&meta(), &none, (1, 3), 2).unwrap().is_empty());
}
