//! Layouts: what is refused, and how ranks are numbered.

use super::layout::{Batch, Layout};
use super::presets::find;
use super::ranks::{Coordinates, Dimension, ExpertCoordinates, Group, RankMap};
use super::spec::ModelSpec;

fn model(name: &str) -> ModelSpec {
    find(name).unwrap().model.clone()
}

const BATCH: Batch = Batch {
    global: 64,
    micro: 1,
    sequence: 8192,
};

/// Asserts that the layout is refused with `expected` among the text.
fn refused(model: &ModelSpec, layout: Layout, batch: Batch, gpus: Option<u64>, expected: &str) {
    let text = layout.check(model, &batch, gpus).unwrap_err().to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn megatrons_example_of_sixteen_ranks() {
    // megatron/core/parallel_state.py, initialize_model_parallel: 16 GPUs, tensor 2, pipeline 4.
    let layout = Layout {
        tp: 2,
        pp: 4,
        dp: 2,
        ..Layout::default()
    };
    let map = RankMap::new(&layout, &Dimension::MEGATRON).unwrap();
    let pairs = |of: &[[u32; 2]]| of.iter().map(|p| p.to_vec()).collect::<Vec<_>>();
    assert_eq!(
        map.groups(Group::Dp),
        pairs(&[
            [0, 2],
            [1, 3],
            [4, 6],
            [5, 7],
            [8, 10],
            [9, 11],
            [12, 14],
            [13, 15]
        ])
    );
    assert_eq!(
        map.groups(Group::Tp),
        pairs(&[
            [0, 1],
            [2, 3],
            [4, 5],
            [6, 7],
            [8, 9],
            [10, 11],
            [12, 13],
            [14, 15]
        ])
    );
    assert_eq!(
        map.groups(Group::Pp),
        [
            vec![0, 4, 8, 12],
            vec![1, 5, 9, 13],
            vec![2, 6, 10, 14],
            vec![3, 7, 11, 15]
        ]
    );
    assert_eq!(map.group_of(Group::Pp, 6), Some(vec![2, 6, 10, 14]));
    assert_eq!(map.group_of(Group::Pp, 16), None);
}

#[test]
fn ranks_and_places_are_inverse() {
    let layout = Layout {
        tp: 2,
        cp: 3,
        ep: 6,
        dp: 4,
        pp: 2,
        ..Layout::default()
    };
    let orders = [
        Dimension::MEGATRON,
        [
            Dimension::Cp,
            Dimension::Tp,
            Dimension::Ep,
            Dimension::Dp,
            Dimension::Pp,
        ],
    ];
    let map = RankMap::new(&layout, &orders[0]).unwrap();
    assert_eq!(map.world(), 48);
    for rank in 0..48 {
        let at = map.coordinates(rank).unwrap();
        assert_eq!(map.rank(at), Some(rank));
    }
    assert_eq!(map.coordinates(48), None);
    let outside = Coordinates {
        cp: 3,
        ..Coordinates::default()
    };
    assert_eq!(map.rank(outside), None);
    for group in [
        Group::Tp,
        Group::Cp,
        Group::Dp,
        Group::DpCp,
        Group::Pp,
        Group::Ep,
        Group::ExpertDp,
    ] {
        let mut all: Vec<u32> = map.groups(group).concat();
        all.sort_unstable();
        assert_eq!(all, (0..48).collect::<Vec<_>>(), "{group:?}");
    }
    // `cp` before `tp`: experts, which have no `cp`, would have other tensor groups.
    assert!(RankMap::new(&layout, &orders[1]).is_err());
}

#[test]
fn experts_are_spread_inside_data_and_context_parallelism() {
    let layout = Layout {
        tp: 2,
        cp: 2,
        ep: 4,
        dp: 4,
        ..Layout::default()
    };
    let map = RankMap::new(&layout, &Dimension::MEGATRON).unwrap();
    assert_eq!(map.groups(Group::Ep)[0], [0, 2, 4, 6]);
    assert_eq!(map.groups(Group::ExpertDp)[0], [0, 8]);
    assert_eq!(map.groups(Group::DpCp)[1], [1, 3, 5, 7, 9, 11, 13, 15]);
    let at = ExpertCoordinates {
        tp: 1,
        ep: 2,
        expert_dp: 1,
        pp: 0,
    };
    assert_eq!(map.expert_coordinates(13), Some(at));
}

#[test]
fn another_order_is_another_numbering() {
    let layout = Layout {
        tp: 2,
        pp: 4,
        dp: 2,
        ..Layout::default()
    };
    let order = [Dimension::Tp, Dimension::Pp, Dimension::Dp];
    let map = RankMap::new(&layout, &order).unwrap();
    assert_eq!(map.groups(Group::Pp)[0], [0, 2, 4, 6]);
    assert_eq!(map.groups(Group::Dp)[0], [0, 8]);
    let error = RankMap::new(&layout, &order[..2]).unwrap_err().to_string();
    assert!(error.contains("found:    tp-pp"), "{error}");
    assert!(error.contains("`dp` once"), "{error}");
}

#[test]
fn layers_are_dealt_out() {
    let llama = model("llama3-405b");
    let layout = Layout {
        pp: 16,
        ends_count_as_layers: true,
        ..Layout::default()
    };
    assert_eq!(layout.layers_of(&llama, 0, 0), 0..7);
    assert_eq!(layout.layers_of(&llama, 1, 0), 7..15);
    assert_eq!(layout.layers_of(&llama, 15, 0), 119..126);
    let gpt = model("gpt3-175b");
    let layout = Layout {
        pp: 8,
        virtual_stages: 3,
        ..Layout::default()
    };
    assert_eq!(layout.layers_of(&gpt, 1, 0), 4..8);
    assert_eq!(layout.layers_of(&gpt, 1, 2), 68..72);
}

#[test]
fn a_published_layout_is_accepted() {
    // arXiv 2407.21783 table 4, second row.
    let layout = Layout {
        tp: 8,
        dp: 128,
        pp: 16,
        sequence_parallel: true,
        ends_count_as_layers: true,
        ..Layout::default()
    };
    let batch = Batch {
        global: 2048,
        ..BATCH
    };
    let model = model("llama3-405b");
    assert_eq!(layout.check(&model, &batch, Some(16_384)), Ok(()));
    assert_eq!(layout.micro_batches(&batch), 16);
}

#[test]
fn refusals_say_what_would_do() {
    let llama = model("llama3-70b");
    let plain = Layout::default();
    let with = |change: fn(&mut Layout)| {
        let mut layout = plain;
        change(&mut layout);
        layout
    };
    let cases: [(Layout, Option<u64>, &str); 9] = [
        (
            with(|l| l.tp = 7),
            None,
            "a divisor of heads (64), such as 4 or 8",
        ),
        (
            with(|l| l.pp = 7),
            None,
            "a divisor of layers (80), such as 5 or 8",
        ),
        (
            with(|l| (l.pp, l.virtual_stages) = (8, 3)),
            None,
            "a divisor of (layers) / pp (10), such as 2 or 5",
        ),
        (with(|l| l.virtual_stages = 2), None, "1, for pp is 1"),
        (with(|l| l.dp = 3), None, "such as 63 or 66"),
        (with(|l| l.dp = 4), Some(32), "dp 32"),
        (with(|l| l.ep = 2), None, "the model has no experts"),
        (with(|l| l.cp = 3), None, "half the sequence (4096)"),
        (with(|l| l.cp = 0), None, "at least 1"),
    ];
    for (layout, gpus, expected) in cases {
        refused(&llama, layout, BATCH, gpus, expected);
    }
    let mixtral = model("mixtral-8x7b");
    let layout = with(|l| (l.ep, l.dp) = (16, 16));
    refused(
        &mixtral,
        layout,
        BATCH,
        None,
        "a divisor of experts.count (8), such as 8",
    );
    let layout = with(|l| (l.ep, l.dp) = (8, 4));
    refused(&mixtral, layout, BATCH, None, "a divisor of dp × cp (4)");
    // Two GPUs have a copy each of a head of keys and values.
    let wide = with(|l| l.tp = 16);
    assert_eq!(wide.check(&llama, &BATCH, None), Ok(()));
}
