use super::*;

fn env(variables: &[(&str, &str)]) -> Env {
    Env::parse(variables.iter().copied()).unwrap()
}

#[test]
fn lists_can_differ_by_function() {
    let env = env(&[("NCCL_ALGO", "allreduce:tree;^ring")]);
    let left = |c| -> Vec<Algorithm> {
        let all = Algorithm::NCCL.into_iter();
        all.filter(|&a| env.allows_algorithm(c, a)).collect()
    };
    assert_eq!(left(Collective::AllReduce), [Algorithm::Tree]);
    assert_eq!(left(Collective::AllGather).len(), Algorithm::NCCL.len() - 1);
    assert!(!env.allows_algorithm(Collective::Broadcast, Algorithm::Ring));
}

#[test]
fn nccls_own_example_is_read() {
    let text = "ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring";
    let env = env(&[("NCCL_ALGO", text)]);
    assert!(env.allows_algorithm(Collective::AllReduce, Algorithm::Tree));
    assert!(!env.allows_algorithm(Collective::AllReduce, Algorithm::Ring));
    assert!(env.allows_algorithm(Collective::AllGather, Algorithm::CollnetDirect));
    assert!(!env.allows_algorithm(Collective::Broadcast, Algorithm::CollnetDirect));
}

#[test]
fn wrong_values_are_told_with_what_may_stand_there() {
    for (name, value, told) in [
        ("NCCL_ALGO", "rink", "Ring"),
        ("NCCL_ALGO", "allredude:ring", "allreduce"),
        ("NCCL_PROTO", "LL64", "LL128"),
        ("NCCL_P2P_LEVEL", "NEAR", "PXB"),
        ("NCCL_P2P_LEVEL", "9", "0 to 5"),
        ("NCCL_NVLS_ENABLE", "yes", "0 to 2"),
        ("NCCL_NTHREADS", "100", "multiple of 32"),
        ("NCCL_THREAD_THRESHOLDS", "1 2 3", "six"),
        ("NCCL_IB_HCA", "^", "names"),
        ("NCCL_CTA_POLICY", "FAST", "EFFICIENCY"),
        ("NCCL_PROFILE_EVENT_MASK", "all", "0 to"),
    ] {
        let error = Env::parse([(name, value)]).unwrap_err().to_string();
        assert!(error.contains(told), "{name}={value}: {error}");
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn what_has_no_effect_is_never_silent() {
    let env = env(&[
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_NVLS_ENABEL", "0"),
        ("NCCL_TUNER_PLUGIN", "x"),
        ("OMP_NUM_THREADS", "1"),
    ]);
    assert_eq!(env.warnings.len(), 4);
    assert!(
        env.warnings[1].contains("did you mean NCCL_NVLS_ENABLE?"),
        "{:?}",
        env.warnings
    );
}

#[test]
fn of_ucx_it_is_said_what_is_simulated() {
    for (name, value) in [
        ("NCCL_NET", "UCX"),
        ("NCCL_PLUGIN_P2P", "ucx"),
        ("NCCL_PLUGIN_P2P", "ucx_rma"),
    ] {
        let [warning] = &env(&[(name, value)]).warnings[..] else {
            panic!("{name}={value}");
        };
        assert!(warning.contains(&format!("{name}={value}")), "{warning}");
        assert!(
            warning.contains("NCCL's own verbs; not simulated are UCX's"),
            "{warning}"
        );
    }
    // The plugin's verbs are those that are simulated.
    assert!(env(&[("NCCL_PLUGIN_P2P", "ib")]).warnings.is_empty());
    let other = env(&[("NCCL_PLUGIN_P2P", "tcp")]).warnings;
    assert!(other[0].contains("knows ib, ucx and ucx_rma"), "{other:?}");
}

#[test]
fn registration_can_be_undone_and_is_told_where_there_is_none() {
    let registered = |variables: &[(&str, &str)], how| {
        let mut env = env(variables);
        env.register(how);
        (env.zero_copy(), env.warnings.len())
    };
    let (local, graph) = (Some(Registration::Local), Some(Registration::Graph));
    assert_eq!(registered(&[], None), (false, 0));
    assert_eq!(registered(&[], local), (true, 0));
    assert_eq!(
        registered(&[("NCCL_LOCAL_REGISTER", "0")], local),
        (false, 0)
    );
    assert_eq!(
        registered(&[("NCCL_LOCAL_REGISTER", "0")], graph),
        (true, 1)
    );
    assert_eq!(
        registered(&[("NCCL_GRAPH_REGISTER", "0")], graph),
        (false, 0)
    );
    assert_eq!(
        registered(&[("NCCL_GRAPH_REGISTER", "0")], None),
        (false, 1)
    );
    let policy = ("NCCL_CTA_POLICY", "EFFICIENCY|DEFAULT");
    assert_eq!(registered(&[policy], local), (true, 0));
    assert_eq!(registered(&[policy], None), (false, 1));
    assert_eq!(registered(&[("NCCL_CTA_POLICY", "2")], local), (true, 1));
}

#[test]
fn every_variable_that_acts_is_offered_to_those_who_misspell() {
    // Acting variables answer to some value out of these; the others are warned of.
    let values = [
        "1",
        "64",
        "160",
        "Ring",
        "LL",
        "PIX",
        "8 8 8 8 8 8",
        "65536",
        "nic0",
        "Socket",
        "ib",
        "AllReduce_AGxLL_R",
    ];
    for name in known::names() {
        let acts = values.iter().any(|&value| {
            Env::parse([(name, value)])
                .is_ok_and(|env| env.warnings.is_empty() && env.warnings_of_making.is_empty())
        });
        assert_eq!(acts, known::acts(name), "{name}");
    }
}

#[test]
fn interfaces_go_by_either_name() {
    let four = env(&[("NCCL_IB_HCA", "mlx5_0,nic1,mlx5_2:1,nic3")]);
    let allowed: Vec<usize> = (0..8)
        .filter(|&i| four.allows_nic(&[&format!("mlx5_{i}"), &format!("nic{i}")]))
        .collect();
    assert_eq!(allowed, [0, 1, 2, 3]);
    let others = env(&[("NCCL_IB_HCA", "^=mlx5_1")]);
    assert!(others.allows_nic(&["mlx5_10"]) && !others.allows_nic(&["mlx5_1"]));
}

#[test]
fn levels_are_names_or_the_old_digits() {
    assert_eq!(
        env(&[("NCCL_P2P_LEVEL", "2")]).p2p_level,
        Some(PathType::Pxb)
    );
    assert_eq!(
        env(&[("NCCL_P2P_LEVEL", "sys")]).p2p_level,
        Some(PathType::Sys)
    );
    assert_eq!(
        env(&[("NCCL_P2P_DISABLE", "1")]).p2p_level,
        Some(PathType::Loc)
    );
    assert_eq!(env(&[("NCCL_P2P_DISABLE", "0")]).p2p_level, None);
}

/// Who turns peer-to-peer access off expects slower rings; NVSwitches that reduce do not need it.
#[test]
fn what_does_not_act_on_the_algorithm_is_said() {
    let off = [("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "LOC")];
    for variable in off {
        let env = Env::parse([variable]).unwrap();
        let of = |algorithm| env.without_effect(algorithm);
        assert_eq!(of(Algorithm::Nvls), Some(WithoutEffect::PeerAccessOff));
        assert_eq!(of(Algorithm::Ring), None);
        let told = of(Algorithm::NvlsTree).map(|w| w.to_string()).unwrap();
        assert!(told.contains("NCCL_NVLS_ENABLE=0"), "{told}");
    }
    let near = Env::parse([("NCCL_P2P_LEVEL", "NVL")]).unwrap();
    assert_eq!(near.without_effect(Algorithm::Nvls), None);
}
