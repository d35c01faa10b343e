//! Kernels on symmetric windows: published times, bytes on links, and when there are none.

use super::*;
use fabricsim_topology::{DeviceKind, Topology};

const MIB: u64 = 1 << 20;

fn machine(name: &str, nodes: u32) -> Topology {
    load(name, &Overrides { nodes: Some(nodes) }).unwrap()
}

fn symmetric(variables: &[(&str, &str)]) -> Env {
    let mut env = Env::parse(variables.iter().copied()).unwrap();
    env.register(Some(Registration::Symmetric));
    env.cuda_graph = true;
    env
}

/// What a call takes in a stream of them, and its plan.
fn timed(topology: &Topology, env: &Env, call: (Collective, u64)) -> (Planned, f64) {
    let mut comm = Communicator::new(topology, None, env, 1).unwrap();
    let planned = comm.plan(call.0, call.1, Forced::default()).unwrap();
    let options = Options {
        operations: 3,
        ..Options::default()
    };
    let outcome = simulate(&planned.plan, |l| topology.rate(l), options).unwrap();
    let time = outcome.finish_of(2) - outcome.finish_of(1);
    (planned, time.micros())
}

/// All-reduces of 8 B200 in CUDA graphs (NVIDIA/nccl-tests issue 333, `-R 2 -G 100`), in us.
#[test]
fn all_reduces_take_what_eight_b200_take() {
    let topology = machine("dgx-b200", 1);
    let env = symmetric(&[]);
    for (bytes, published, within) in [
        (64, 3.51, 0.05),
        (4096, 3.64, 0.05),
        (16 << 10, 3.80, 0.05),
        (64 << 10, 8.27, 0.05),
        (MIB, 11.49, 0.15),
        (4 * MIB, 20.14, 0.2),
        (16 * MIB, 47.37, 0.12),
        (256 * MIB, 594.2, 0.06),
        (1024 * MIB, 2315.6, 0.05),
    ] {
        let (planned, micros) = timed(&topology, &env, (Collective::AllReduce, bytes));
        let expected = if bytes < 64 << 10 {
            Algorithm::SymLlMulticast
        } else {
            Algorithm::SymMulticast
        };
        assert_eq!(planned.algorithm, expected, "{bytes}");
        let error = micros / published - 1.0;
        assert!(error.abs() < within, "{bytes}: {micros} us, {published}");
    }
}

/// Kernels' own times of 8 H100 (NVIDIA/Megatron-LM PR 5596), in us.
#[test]
fn gathers_and_scatters_take_what_eight_h100_take() {
    let topology = machine("dgx-h100", 1);
    let env = symmetric(&[]);
    for (mib, gather, scatter) in [
        (2, 10.9, Some(10.8)),
        (8, 27.4, Some(28.8)),
        (32, 95.3, Some(100.5)),
        (128, 363.2, None),
    ] {
        let of = |collective| timed(&topology, &env, (collective, mib * MIB)).1;
        let near = |micros: f64, published: f64| (micros / published - 1.0).abs() < 0.06;
        let micros = of(Collective::AllGather);
        assert!(near(micros, gather), "gather of {mib} MiB: {micros}");
        let micros = of(Collective::ReduceScatter);
        let right = scatter.is_none_or(|published| near(micros, published));
        assert!(right, "scatter of {mib} MiB: {micros}");
    }
}

/// Out of and into each of n GPUs, for S bytes in all: with flags everyone's S, twice, to everyone;
/// loads and stores 2 S (n - 1) / n; with switches S + S / n; a gather's and a scatter's own.
#[test]
fn links_carry_what_the_closed_forms_say() {
    let topology = machine("dgx-h100", 1);
    let bytes = 8 * MIB;
    let (n, share) = (8, bytes / 8);
    for (kernel, out, into) in [
        (
            "AllReduce_AGxLL_R",
            2 * bytes * (n - 1),
            2 * bytes * (n - 1),
        ),
        ("AllReduce_AGxLLMC_R", 2 * bytes, 2 * bytes * n),
        (
            "AllReduce_RSxLD_AGxST",
            2 * share * (n - 1),
            2 * share * (n - 1),
        ),
        ("AllReduce_RSxLDMC_AGxSTMC", bytes + share, bytes + share),
        ("AllGather_LL", 2 * share * (n - 1), 2 * share * (n - 1)),
        ("AllGather_LLMC", 2 * share, 2 * bytes),
        ("AllGather_ST", share * (n - 1), share * (n - 1)),
        ("AllGather_STMC", share, bytes),
        ("ReduceScatter_LL", 2 * share * (n - 1), 2 * share * (n - 1)),
        ("ReduceScatter_LD", share * (n - 1), share * (n - 1)),
        ("ReduceScatter_LDMC", bytes, share),
    ] {
        let collective = match kernel.split('_').next() {
            Some("AllReduce") => Collective::AllReduce,
            Some("AllGather") => Collective::AllGather,
            _ => Collective::ReduceScatter,
        };
        let env = symmetric(&[("NCCL_SYM_KERNEL", kernel)]);
        let mut comm = Communicator::new(&topology, None, &env, 1).unwrap();
        let planned = comm.plan(collective, bytes, Forced::default()).unwrap();
        let taken = planned.algorithm.symmetric_kernel(collective);
        assert_eq!(taken, Some(kernel));
        verify(planned.plan.program.as_ref(), 8).unwrap();
        let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
        let sum = |from, to| -> u64 {
            let links = outcome.link_bytes(&planned.plan).into_iter();
            let kind = |d| topology.device(d).kind;
            links
                .filter(|&(link, _)| {
                    let (a, b) = topology.ends(link);
                    (kind(a), kind(b)) == (from, to)
                })
                .map(|(_, bytes)| bytes.get())
                .sum()
        };
        let (gpu, switch) = (DeviceKind::Gpu, DeviceKind::NvSwitch);
        assert_eq!(sum(gpu, switch), n * out, "{kernel}");
        assert_eq!(sum(switch, gpu), n * into, "{kernel}");
    }
}

/// Above 8 Mi elements a rank copy engines gather on Blackwell, with no thread block at all.
#[test]
fn copy_engines_gather_large_blocks_on_blackwell() {
    let call = |mib: u64| (Collective::AllGather, mib * MIB);
    let of = |name, variables: &[(&str, &str)], mib| {
        let (planned, _) = timed(&machine(name, 1), &symmetric(variables), call(mib));
        (planned.algorithm, planned.channels)
    };
    assert_ne!(of("dgx-b200", &[], 256).0, Algorithm::SymCopy);
    assert_eq!(of("dgx-b200", &[], 257), (Algorithm::SymCopy, 0));
    assert_ne!(of("dgx-h100", &[], 512).0, Algorithm::SymCopy);
    let lower = [("NCCL_SYM_CE_THRESHOLD", "1024")];
    assert_eq!(of("dgx-b200", &lower, 1).0, Algorithm::SymCopy);
}

#[test]
fn kernels_are_left_out_for_a_reason() {
    let reason = |name, nodes, env: &Env, collective| {
        let topology = machine(name, nodes);
        let comm = Communicator::new(&topology, None, env, 1).unwrap();
        let all = comm.candidates(collective, 16 * MIB, Forced::default());
        assert!(all.iter().filter(|c| c.chosen).count() == 1);
        let mut kernels = all.into_iter().filter(|c| c.algorithm.is_symmetric());
        kernels.next_back().and_then(|c| c.excluded)
    };
    let all_reduce = Collective::AllReduce;
    let why = |name, nodes, env: &Env| reason(name, nodes, env, all_reduce).unwrap_or_default();
    let plain = symmetric(&[]);
    assert_eq!(why("dgx-h100", 1, &plain), "");
    assert!(why("dgx-h100", 2, &plain).contains("2 NVLink domains"));
    assert!(why("dgx-a100", 1, &plain).contains("multicast"));
    assert!(why("l40s-pcie", 1, &plain).contains("NVLink"));
    assert_eq!(
        why("dgx-h100", 1, &symmetric(&[("NCCL_WIN_ENABLE", "0")])),
        "NCCL_WIN_ENABLE=0"
    );
    let old = Env {
        version: "2.26".parse().unwrap(),
        ..symmetric(&[])
    };
    assert!(why("dgx-h100", 1, &old).contains("2.27"));
    let no_switches = symmetric(&[("NCCL_NVLS_ENABLE", "0")]);
    assert_eq!(why("dgx-h100", 1, &no_switches), "NCCL_NVLS_ENABLE=0");
    let bad = Env::parse([("NCCL_SYM_KERNEL", "AllReduce_STMC")]).unwrap_err();
    assert!(
        bad.to_string().contains("AllReduce_RSxLDMC_AGxSTMC"),
        "{bad}"
    );
}

/// NCCL has kernels that need no registration for all-reduces alone, those with flags; everything
/// else goes as if nobody's buffers were registered.
#[test]
fn one_rank_that_has_not_registered_costs_all_of_them_their_kernels() {
    let topology = machine("dgx-h100", 1);
    let partly = Env {
        partly_registered: true,
        ..symmetric(&[])
    };
    let taken =
        |env: &Env, collective, bytes| timed(&topology, env, (collective, bytes)).0.algorithm;
    let all_reduce = |bytes| taken(&partly, Collective::AllReduce, bytes);
    assert_eq!(all_reduce(8 << 10), Algorithm::SymLlMulticast);
    assert_eq!(all_reduce(MIB), Algorithm::Ring);
    assert_eq!(all_reduce(64 * MIB), Algorithm::Nvls);
    for collective in [Collective::AllGather, Collective::ReduceScatter] {
        assert!(taken(&symmetric(&[]), collective, MIB).is_symmetric());
        assert_eq!(taken(&partly, collective, MIB), Algorithm::Ring);
    }
    // Copies that were spared are back.
    let mut local = Env::default();
    local.register(Some(Registration::Local));
    let spared = timed(&topology, &local, (Collective::AllReduce, 64 * MIB)).1;
    local.partly_registered = true;
    let partly = timed(&topology, &local, (Collective::AllReduce, 64 * MIB)).1;
    let plain = timed(
        &topology,
        &Env::default(),
        (Collective::AllReduce, 64 * MIB),
    )
    .1;
    assert!(partly == plain && partly != spared);
}

/// No kernel beats what has to cross the machine's narrowest cut, and one rank stands for all as
/// exactly as where each is simulated.
#[test]
fn no_kernel_beats_the_bound_and_folding_changes_nothing() {
    let collectives = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
    ];
    for (name, per_node) in [("dgx-h100", 8), ("dgx-b200", 5), ("dgx-a100", 8)] {
        let topology = machine(name, 1);
        let env = symmetric(&[]);
        let mut comm = Communicator::new(&topology, Some(per_node), &env, 1).unwrap();
        let ranks = u64::from(comm.ranks());
        for (collective, algorithm, bytes) in collectives.into_iter().flat_map(|c| {
            let sizes = [64, 100_000, 64 * MIB].map(|size| (c, size * ranks));
            sizes
                .into_iter()
                .flat_map(|(c, size)| Algorithm::SYMMETRIC.map(|a| (c, a, size)))
        }) {
            let forced = Forced {
                algorithm: Some(algorithm),
                protocol: None,
            };
            let Ok(planned) = comm.plan(collective, bytes, forced) else {
                continue;
            };
            let plan = &planned.plan;
            let full = simulate(plan, |l| topology.rate(l), Options::default()).unwrap();
            let folded =
                fabricsim_engine::simulate_folded(plan, |l| topology.rate(l), Options::default());
            assert_eq!(
                folded.unwrap().end(),
                full.end(),
                "{name}, {collective}, {algorithm}"
            );
            let operation = Operation {
                collective,
                bytes: planned.bytes,
                matrix: None,
            };
            let bounds = Cuts::of(&topology, comm.gpus(), false).bounds(operation);
            let least = if algorithm.offloads() {
                bounds.in_switches
            } else {
                bounds.plain
            };
            let least = least.map_or(0.0, |cut| cut.time().micros());
            let micros = full.end().micros();
            assert!(
                micros >= least,
                "{name}, {collective}, {algorithm}, {bytes}: {micros}, {least}"
            );
        }
    }
}
