//! What is recorded of a large machine is what a record of every worker has, as far as it goes.

use super::*;
use fabricsim_nccl::{Algorithm, Communicator, Env, Forced, Planned};

const FAR: Limits = Limits {
    spans: usize::MAX,
    messages: usize::MAX,
    slices: usize::MAX,
    links: usize::MAX,
    ..Limits::LARGE
};

/// Machines of middle size, with rings, trees and messages from each to each.
fn plans() -> Vec<(Topology, Planned)> {
    let all = [
        (
            "superpod-h100",
            4,
            Collective::AllReduce,
            Algorithm::Ring,
            64 << 20,
        ),
        (
            "superpod-h100",
            4,
            Collective::AllReduce,
            Algorithm::Ring,
            1 << 20,
        ),
        (
            "dgx-h100",
            4,
            Collective::AllReduce,
            Algorithm::Tree,
            8 << 20,
        ),
        (
            "dgx-h100",
            4,
            Collective::AllReduce,
            Algorithm::NvlsTree,
            8 << 20,
        ),
        (
            "dgx-a100",
            2,
            Collective::AllGather,
            Algorithm::Ring,
            9_000_000,
        ),
    ];
    all.into_iter()
        .map(|(name, nodes, collective, algorithm, bytes)| {
            let topology = machine(name, nodes);
            let env = Env::default();
            let forced = Forced {
                algorithm: Some(algorithm),
                ..Forced::default()
            };
            let planned = Communicator::new(&topology, None, &env, 1)
                .unwrap()
                .plan(collective, bytes, forced)
                .unwrap();
            (topology, planned)
        })
        .collect()
}

fn recorded(topology: &Topology, plan: &Plan, limits: Limits) -> (Record, Outcome) {
    let rates = topology.rates();
    let options = Options::default();
    super::super::record((topology, plan), rates, options, limits, &|_, _| None).unwrap()
}

/// How many links of each kind there are.
fn loads(links: &[LinkUse]) -> BTreeMap<(String, u64, u64, u64), u32> {
    let mut loads = BTreeMap::new();
    for link in links {
        let (bytes, rate) = (link.bytes.get(), link.rate.bytes_per_sec());
        let key = (link.family.clone(), rate, bytes, link.utilisation.to_bits());
        *loads.entry(key).or_default() += link.alike;
    }
    loads
}

/// Bytes of all links of each family, in bins of `width` that end by `until`.
fn bytes_over_time(timeline: &Timeline, width: Time, until: Time) -> BTreeMap<String, Vec<f64>> {
    let each = width.picos() / timeline.bin.picos();
    let bins = until.picos() / width.picos();
    let mut of_family: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for series in &timeline.links {
        let family = of_family.entry(series.family.clone());
        let family = family.or_insert_with(|| vec![0.0; bins as usize]);
        for (bin, bytes) in series.bytes.iter().enumerate() {
            if let Some(cell) = family.get_mut(bin / each as usize) {
                *cell += bytes * f64::from(series.alike);
            }
        }
    }
    of_family
}

#[track_caller]
fn assert_same_bytes(part: &Timeline, whole: &Timeline, until: Time) {
    let width = part.bin.max(whole.bin);
    let [part, whole] = [part, whole].map(|t| bytes_over_time(t, width, until));
    for (family, whole) in whole {
        let part = part.get(&family).cloned().unwrap_or_default();
        let most = whole.iter().copied().fold(0.0, f64::max);
        for (bin, (part, whole)) in part.into_iter().zip(whole).enumerate() {
            let error = (part - whole).abs();
            assert!(error <= 1e-6 * most, "{family} {bin}: {part} {whole}");
        }
    }
}

#[test]
fn one_for_all_that_are_alike_gives_the_record_of_all() {
    for (topology, planned) in plans() {
        let plan = &planned.plan;
        let (whole, outcome) = recorded(&topology, plan, Limits::WHOLE);
        let (part, folded) = recorded(&topology, plan, FAR);
        assert!(whole.recorded.is_none());
        let told = part.recorded.unwrap();
        assert_eq!(folded.end(), outcome.end());
        assert_eq!((told.until, told.end), (outcome.end(), outcome.end()));
        assert_eq!(part.attribution, whole.attribution);
        assert_eq!(loads(&part.links), loads(&whole.links));
        assert!(part.links.len() < whole.links.len());
        assert_same_bytes(&part.timeline, &whole.timeline, outcome.end());
        // Of those GPUs that are shown, all is as it was.
        let shown: Vec<u32> = part.timeline.ranks.iter().map(|r| r.rank).collect();
        assert!(shown.starts_with(&[0]));
        assert_eq!(told.gpus as usize, shown.len());
        let of_shown = whole.timeline.spans.into_iter();
        let of_shown: Vec<_> = of_shown.filter(|s| shown.contains(&s.rank)).collect();
        assert_eq!(part.timeline.spans.len(), of_shown.len());
        for (part, whole) in part.timeline.spans.iter().zip(&of_shown) {
            assert_eq!(part, whole);
        }
        let mut messages = whole.timeline.messages;
        let all = messages.len();
        messages.retain(|ends| ends.iter().all(|end| shown.contains(&end.rank)));
        let known = &part.timeline.messages;
        assert!(messages.iter().all(|ends| known.contains(ends)));
        assert!(known.len() == messages.len() || all > Limits::WHOLE.messages);
        assert!(shown.len() == 1 || !messages.is_empty());
    }
}

#[test]
fn a_record_that_ends_early_has_all_up_to_then() {
    for (topology, planned) in plans() {
        let plan = &planned.plan;
        let (whole, outcome) = recorded(&topology, plan, Limits::WHOLE);
        let limits = Limits { slices: 40, ..FAR };
        let (part, _) = recorded(&topology, plan, limits);
        let until = part.recorded.unwrap().until;
        assert!(until < outcome.end());
        assert_eq!(part.timeline.end, until);
        assert_eq!(part.attribution, whole.attribution);
        assert_eq!(loads(&part.links), loads(&whole.links));
        assert_same_bytes(&part.timeline, &whole.timeline, until);
        let shown: Vec<u32> = part.timeline.ranks.iter().map(|r| r.rank).collect();
        let until_then = |spans: Vec<Span>| -> Vec<Span> {
            let spans = spans.into_iter();
            spans
                .filter(|s| s.end < until && shown.contains(&s.rank))
                .collect()
        };
        let [part, whole] = [part, whole].map(|record| until_then(record.timeline.spans));
        assert!(!part.is_empty());
        let unknown: Vec<_> = part.iter().filter(|s| !whole.contains(s)).collect();
        assert_eq!(unknown, Vec::<&Span>::new(), "before {until:?}");
    }
}

#[test]
fn of_too_many_messages_each_slice_keeps_the_one_that_came_last() {
    // Tree: up to three queues are taken from at once.
    let (topology, planned) = plans().remove(2);
    let record = |messages| {
        let limits = Limits { messages, ..FAR };
        recorded(&topology, &planned.plan, limits).0.timeline
    };
    let (all, few) = (record(usize::MAX), record(0));
    assert_eq!(all.spans, few.spans);
    assert!(few.messages.len() < all.messages.len());
    let receivers = |timeline: &Timeline| -> Vec<_> {
        let receivers = timeline.messages.iter().map(|ends| ends[ends.len() - 1]);
        let mut places: Vec<_> = receivers.map(|end| (end.rank, end.track, end.at)).collect();
        places.sort_unstable();
        places
    };
    assert!(few.messages.iter().all(|ends| all.messages.contains(ends)));
    let once = receivers(&few);
    assert!(once.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn limits_of_a_timeline_hold() {
    let (topology, planned) = plans().remove(0);
    let limits = Limits {
        spans: 500,
        cells: 300,
        links: 3,
        accounts: 5,
        ..Limits::LARGE
    };
    let (record, _) = recorded(&topology, &planned.plan, limits);
    let (timeline, told) = (&record.timeline, record.recorded.unwrap());
    assert_eq!(timeline.ranks.len(), 1);
    // The last one goes beyond.
    assert!((500..=501).contains(&timeline.spans.len()));
    let cells: usize = timeline.links.iter().map(|l| l.bytes.len()).sum();
    assert!(cells <= 300 + timeline.links.len(), "{cells}");
    assert_eq!((record.links.len(), record.attribution.ranks.len()), (3, 5));
    let (all, _) = recorded(&topology, &planned.plan, Limits::WHOLE);
    let shown: u64 = record.links.iter().map(|l| u64::from(l.alike)).sum();
    assert_eq!(shown + told.links_left_out, all.links.len() as u64);
    let others = |link: &&fabricsim_report::record::LinkSeries| link.name.starts_with("mean of");
    assert!(timeline.links.iter().filter(others).count() > 0);
}
