//! Timelines and critical paths that can be worked out by hand.

use super::*;

/// What leaves a GPU of this machine by NVLink.
fn nvlink_out(topology: &Topology) -> f64 {
    let gpu = topology.gpus().next().unwrap();
    let links = topology.links_from(gpu).into_iter();
    links
        .filter(|&(l, _)| topology.family(l) == fabricsim_topology::LinkFamily::Nvlink)
        .map(|(l, _)| topology.rate(l).bytes_per_sec() as f64)
        .sum()
}

#[track_caller]
fn close(time: Time, micros: f64) {
    assert!(
        (time.micros() - micros).abs() < 2e-3,
        "{time} is not {micros} us"
    );
}

#[test]
fn one_message_is_launch_streaming_synchronisation_and_latency() {
    let t = machine("dgx-h100", 1);
    let costs = Costs {
        latency: us(3),
        launch: us(5),
        sync: us(1),
        ..Costs::default()
    };
    let plan = nvlink_plan(&t, Collective::Broadcast, 2, 10_000_000, 1 << 30, costs);
    let (record, outcome) = record(&t, &plan, 1);
    assert_consistent(&t, &plan, &record, &outcome);
    let path = &record.attribution.critical_path;
    assert_eq!(time(path, "kernel launch"), us(5));
    // The receiver, too, is done only after it has synchronised.
    assert_eq!(time(path, "protocol synchronisation"), us(2));
    assert_eq!(time(path, "latency of links and network"), us(3));
    let streams = 10e6 / nvlink_out(&t) * 1e6;
    let what = "limited by NVLink from node0/gpu0 to node0/gpu1";
    close(time(path, what), streams);
    assert_eq!(path[0].what, what);
    // The receiver waits while the sender streams and synchronises.
    let waits = record.timeline.spans.iter();
    let waits: Vec<_> = waits
        .filter(|s| s.doing.activity() == Activity::WaitData)
        .collect();
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].doing, Doing::WaitForData(0));
    close(waits[0].end - waits[0].start, streams + 1.0);
}

#[test]
fn a_small_message_is_all_launch() {
    let t = machine("dgx-h100", 1);
    let costs = Costs {
        latency: us(1),
        launch: us(8),
        sync: us(1),
        ..Costs::default()
    };
    let plan = nvlink_plan(&t, Collective::Broadcast, 2, 16, 16, costs);
    let (record, outcome) = record(&t, &plan, 1);
    assert_consistent(&t, &plan, &record, &outcome);
    let path = &record.attribution.critical_path;
    // A few bytes take a few picoseconds.
    let told = path.iter().filter(|p| p.time > Time::from_nanos(1));
    let named: Vec<_> = told.map(|p| (p.what.as_str(), p.time)).collect();
    let expected = [
        ("kernel launch", us(8)),
        ("protocol synchronisation", us(2)),
        ("latency of links and network", us(1)),
    ];
    assert_eq!(named, expected);
}

#[test]
fn credit_that_comes_late_is_on_the_path() {
    // One slot; it is back 10 us after the receiver took it. The path goes from each slice
    // to the one that freed its slot: both latencies a message, but none after the last.
    let t = machine("dgx-h100", 1);
    let costs = Costs {
        latency: us(10),
        slots: 1,
        ..Costs::default()
    };
    let plan = nvlink_plan(&t, Collective::Broadcast, 2, 1_000_000, 100_000, costs);
    let (record, outcome) = record(&t, &plan, 1);
    assert_consistent(&t, &plan, &record, &outcome);
    let path = &record.attribution.critical_path;
    assert_eq!(
        time(path, "latency of links and network"),
        us(10 * (10 + 9))
    );
    // Meanwhile the data is on its way to the receiver, who frees the slot at once.
    let waits = time(&record.attribution.total, "waiting for credit");
    close(waits, 9.0 * 10.0);
    let spans = record.timeline.spans.iter();
    let late = spans.filter(|s| s.doing == Doing::CreditOnItsWay(1));
    assert_eq!(late.count(), 9);
}

#[test]
fn operations_follow_each_other_on_the_path() {
    let t = machine("dgx-h100", 1);
    let costs = Costs {
        latency: us(2),
        launch: us(7),
        sync: us(1),
        ..Costs::default()
    };
    let plan = nvlink_plan(&t, Collective::AllReduce, 4, 4_000_000, 1 << 30, costs);
    let (one, _) = record(&t, &plan, 1);
    let (three, outcome) = record(&t, &plan, 3);
    assert_consistent(&t, &plan, &three, &outcome);
    let (one, three) = (
        &one.attribution.critical_path,
        &three.attribution.critical_path,
    );
    assert_eq!(time(one, "kernel launch"), us(7));
    for what in [
        "kernel launch",
        "latency of links and network",
        "protocol synchronisation",
    ] {
        assert_eq!(time(three, what).picos(), 3 * time(one, what).picos());
    }
}

#[test]
fn a_slow_link_is_named_and_equal_ones_are_not() {
    let t = machine("dgx-h100", 1);
    let bytes = 800_000_000;
    let plan = nvlink_plan(
        &t,
        Collective::AllReduce,
        8,
        bytes,
        1 << 20,
        Costs::default(),
    );
    let (even, outcome) = record(&t, &plan, 1);
    assert_consistent(&t, &plan, &even, &outcome);
    let path = &even.attribution.critical_path;
    assert_eq!(path[0].what, "limited by NVLink between GPUs");
    assert!(path[0].fraction > 0.999, "{path:?}");
    let slow: Vec<LinkId> = plan
        .routes
        .get(RouteId(3))
        .hops
        .iter()
        .map(|h| h.link)
        .collect();
    let rate = |l: LinkId| {
        let factor = if slow.contains(&l) { 0.25 } else { 1.0 };
        t.rate(l).scaled(factor)
    };
    let (uneven, outcome) = record_with(&t, &plan, 1, Limits::WHOLE, rate);
    assert_consistent(&t, &plan, &uneven, &outcome);
    let path = &uneven.attribution.critical_path;
    assert_eq!(
        path[0].what,
        "limited by NVLink from node0/gpu3 to node0/gpu4"
    );
}

#[test]
fn a_proxys_message_handling_is_on_its_track_and_on_the_path() {
    let t = machine("dgx-h100", 2);
    let costs = Costs {
        latency: us(2),
        launch: us(4),
        wire: (2, 1),
        ..Costs::default()
    };
    let plan = network_plan(&t, 100_000, us(9), costs);
    let (record, outcome) = record(&t, &plan, 2);
    assert_consistent(&t, &plan, &record, &outcome);
    let path = &record.attribution.critical_path;
    // A message of 4 us on the wire leaves 5 us of its 9 us of handling uncovered.
    let handling = share(path, "message handling of network proxies");
    let wire = share(path, "limited by network from node0/nic0 to node1/nic0");
    assert!(handling > 0.4 && wire > 0.3, "{path:?}");
    let proxy = record.timeline.spans.iter();
    let proxy: Vec<_> = proxy.filter(|s| s.track == Track::Proxy(0)).collect();
    assert!(proxy.iter().all(|s| s.rank == 0));
    let streams = proxy
        .iter()
        .filter(|s| s.doing.activity() == Activity::Stream);
    assert_eq!(streams.map(|s| s.bytes.get()).sum::<u64>(), 16_000_000);
    // Each message goes from the sender's thread block through its proxy to the receiver's.
    let messages = &record.timeline.messages;
    assert_eq!(messages.len(), 160);
    let tracks = [
        (0, Track::Worker(0, Lane::Whole)),
        (0, Track::Proxy(0)),
        (1, Track::Worker(0, Lane::Whole)),
    ];
    for ends in messages {
        let told: Vec<_> = ends.iter().map(|end| (end.rank, end.track)).collect();
        assert_eq!(told, tracks);
    }
    // Where the path is too long to remember, what the receiver waits for is what the proxy does.
    let short = CriticalPath::of_at_most(3);
    let causes = causes_of(&t, &plan, (2, true), short, &|l| t.rate(l));
    assert_eq!(causes.method, Method::WorkerTime);
    assert_eq!(causes.total(), outcome.end());
    assert!(causes.parts.iter().all(|p| p.cause != Cause::Waiting));
    let most = [
        "message handling of network proxies",
        "network from node0/nic0 to node1/nic0",
    ];
    assert!(most.contains(&causes.parts[0].cause.name()), "{causes:?}");
}

#[test]
fn whole_ranks_are_left_out_of_a_timeline_that_is_too_long() {
    let t = machine("dgx-h100", 1);
    let costs = Costs {
        launch: us(1),
        ..Costs::default()
    };
    let plan = nvlink_plan(&t, Collective::AllReduce, 8, 8_000_000, 100_000, costs);
    let (whole, outcome) = record(&t, &plan, 1);
    assert_eq!(whole.timeline.ranks_omitted, 0);
    let limits = Limits {
        spans: whole.timeline.spans.len() / 2,
        ..Limits::WHOLE
    };
    let (part, _) = record_with(&t, &plan, 1, limits, |l| t.rate(l));
    assert_consistent(&t, &plan, &part, &outcome);
    let kept = part.timeline.ranks.len() as u32;
    assert!((3..=4).contains(&kept), "{kept}");
    assert_eq!(part.timeline.ranks_omitted, 8 - kept);
    let same = whole.timeline.spans.into_iter().filter(|s| s.rank < kept);
    assert_eq!(part.timeline.spans, same.collect::<Vec<_>>());
    assert_eq!(part.attribution, whole.attribution);
}

#[test]
fn bins_are_as_many_as_asked_for_whatever_the_duration() {
    let t = machine("dgx-h100", 1);
    for bytes in [160, 160_000, 160_000_000] {
        let plan = nvlink_plan(
            &t,
            Collective::AllReduce,
            4,
            bytes,
            1 << 16,
            Costs::default(),
        );
        let limits = Limits {
            bins: 50,
            ..Limits::WHOLE
        };
        let (record, outcome) = record_with(&t, &plan, 1, limits, |l| t.rate(l));
        assert_consistent(&t, &plan, &record, &outcome);
        let timeline = &record.timeline;
        for series in &timeline.links {
            let bins = series.bytes.len() as u64;
            assert_eq!(
                bins,
                timeline.end.picos().div_ceil(timeline.bin.picos()).max(1)
            );
            assert!(bins <= 50 && (bytes < 1_000_000 || bins > 25), "{bins}");
        }
    }
}

#[test]
fn too_many_slices_leave_no_critical_path_but_parts_that_add_up() {
    let t = machine("dgx-h100", 1);
    let plan = nvlink_plan(
        &t,
        Collective::AllReduce,
        4,
        8_000_000,
        10_000,
        Costs::default(),
    );
    let of = |most| {
        let path = CriticalPath::of_at_most(most);
        causes_of(&t, &plan, (1, false), path, &|l| t.rate(l))
    };
    let (whole, part) = (of(1 << 20), of(10));
    assert_eq!(
        (whole.method, part.method),
        (Method::CriticalPath, Method::WorkerTime)
    );
    assert_eq!(whole.total(), part.total());
    assert_eq!(whole.parts[0].cause, part.parts[0].cause);
}

#[test]
fn nothing_to_do_is_a_launch() {
    let t = machine("dgx-h100", 1);
    let costs = Costs {
        launch: us(6),
        ..Costs::default()
    };
    let plan = nvlink_plan(&t, Collective::AllReduce, 4, 0, 16, costs);
    let (record, outcome) = record(&t, &plan, 2);
    assert_consistent(&t, &plan, &record, &outcome);
    assert_eq!(outcome.end(), us(12));
    let path = &record.attribution.critical_path;
    assert_eq!(path.len(), 1);
    assert_eq!(time(path, "kernel launch"), us(12));
}

#[test]
fn proxies_that_share_a_track_do_not_overlap_on_it() {
    let t = machine("dgx-h100", 2);
    let plan = network_plan(&t, 100_000, us(1), Costs::default());
    let mut recorder = Recorder::new(&plan, Limits::WHOLE);
    // A second proxy of the same rank and channel, as a worker with two receivers has.
    recorder.cast.double_proxy();
    let slice = |actor, free, start, end| Slice {
        actor,
        free: us(free),
        posted: us(free),
        start: us(start),
        end: us(end),
        done: us(end),
        cause: fabricsim_engine::probe::Cause::Own,
        bytes: 1,
        moved: 1,
        name: "network",
        recv: &[],
        send: &[],
    };
    for s in [
        slice(2, 0, 1, 5),
        slice(3, 2, 3, 6),
        slice(2, 5, 6, 6),
        slice(3, 7, 8, 9),
    ] {
        recorder.spans.slice(&recorder.cast, &s);
    }
    let kept = recorder
        .spans
        .finish(&recorder.cast, &t, &plan, (us(9), true));
    let spans = kept.spans;
    let proxies = spans.iter().filter(|s| s.track == Track::Proxy(0));
    let proxies: Vec<_> = proxies.map(|s| (s.start, s.end)).collect();
    let expected = [(0, 1), (1, 5), (5, 6), (7, 8), (8, 9)];
    assert_eq!(proxies, expected.map(|(from, to)| (us(from), us(to))));
}
