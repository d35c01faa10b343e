//! Variables that NCCL knows and a simulation does not act on, and why.

/// Names, and why they do nothing here.
const WITHOUT_EFFECT: [(&[&str], &str); 8] = [
    (
        &OF_MAKING,
        "acts on making communicators (`fabricsim communicator`), not on what an operation takes",
    ),
    (
        &[
            "NCCL_GIN_ENABLE",
            "NCCL_GIN_TYPE",
            "NCCL_GIN_GDAKI_QP_DEPTH",
        ],
        "is about kernels that send themselves (NCCL's device API); collectives and sends that the host \
         calls post through a proxy thread",
    ),
    (
        &[
            "NCCL_DEBUG",
            "NCCL_DEBUG_SUBSYS",
            "NCCL_DEBUG_FILE",
            "NCCL_TOPO_DUMP_FILE",
            "NCCL_TOPO_DUMP_FILE_RANK",
            "NCCL_GRAPH_DUMP_FILE",
            "NCCL_GRAPH_DUMP_FILE_RANK",
            "NCCL_RAS_ENABLE",
            "NCCL_PROFILER_PLUGIN",
        ],
        "is about messages and dumps, not about what moves; see --why, `topology paths`, `topology export` and `--outputs nccl-profiler`",
    ),
    (
        &["NCCL_TOPO_FILE"],
        "is set, but the machine is what --topology says; give the file there",
    ),
    (
        &[
            "NCCL_SOCKET_FAMILY",
            "NCCL_IB_GID_INDEX",
            "NCCL_IB_TC",
            "NCCL_IB_SL",
            "NCCL_IB_FIFO_TC",
            "NCCL_IB_TIMEOUT",
            "NCCL_IB_RETRY_CNT",
            "NCCL_IB_PCI_RELAXED_ORDERING",
            "NCCL_IB_ADAPTIVE_ROUTING",
            "NCCL_IB_AR_THRESHOLD",
            "NCCL_IB_DATA_DIRECT",
            "NCCL_IB_OOO_RQ",
            "NCCL_COMM_BLOCKING",
            "NCCL_HOSTID",
            "NCCL_CONF_FILE",
        ],
        "changes no bytes and no route in this model",
    ),
    (
        &[
            "NCCL_CGA_CLUSTER_SIZE",
            "NCCL_MEM_SYNC_DOMAIN",
            "NCCL_LAUNCH_ORDER_IMPLICIT",
            "NCCL_LAUNCH_MODE",
            "NCCL_SOCKET_RETRY_CNT",
            "NCCL_SOCKET_RETRY_SLEEP_MSEC",
            "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
            "NCCL_WORK_FIFO_BYTES",
            "NCCL_WORK_ARGS_BYTES",
            "NCCL_CUMEM_ENABLE",
            "NCCL_CUMEM_HOST_ENABLE",
            "NCCL_NVB_PRECONNECT",
            "NCCL_NET_SHARED_COMMS",
            "NCCL_NET_SHARED_BUFFERS",
            "NCCL_P2P_USE_CUDA_MEMCPY",
        ],
        "is about launching and connecting, which take no time here beyond the fixed launch",
    ),
    (
        &[
            "NCCL_P2P_DIRECT_DISABLE",
            "NCCL_P2P_READ_ENABLE",
            "NCCL_SYM_GIN_KERNELS_ENABLE",
            "NCCL_ALLGATHERV_ENABLE",
        ],
        "is set, but direct reads, kernels that drive interfaces and fused gathers are not modelled, so it has no effect",
    ),
    (
        &[
            "NCCL_NET_PLUGIN",
            "NCCL_TUNER_PLUGIN",
            "NCCL_TUNER_CONFIG_FILE",
            "NCCL_NETDEVS_POLICY",
            "NCCL_NET_MERGE_LEVEL",
            "NCCL_NET_FORCE_MERGE",
            "NCCL_NET_MERGE_POLICY",
            "NCCL_IB_MERGE_NICS",
            "NCCL_NET_DISABLE_INTRA",
            "NCCL_PXN_C2C",
            "NCCL_SHM_LOCALITY",
            "NCCL_IGNORE_DISABLED_P2P",
            "NCCL_MNNVL_UUID",
            "NCCL_MNNVL_CLIQUE_ID",
            "NCCL_MNNVL_CROSS_CLIQUE",
            "NCCL_MNNVL_SCATTER_NETS_ENABLE",
            "NCCL_MNNVL_RAIL_PER_HOST",
            "NCCL_SYM_TMA_ENABLE",
            "NCCL_MULTI_RANK_GPU_ENABLE",
            "NCCL_TOPO_SPLIT_MLOPART",
            "NCCL_NET_FORCE_FLUSH",
            "NCCL_GDR_FLUSH_DISABLE",
            "NCCL_GDRCOPY_ENABLE",
            "NCCL_P2P_MAX_PEERS",
            "NCCL_IB_SPLIT_DATA_ON_QPS",
        ],
        "is set, but its effect is not modelled",
    ),
];

/// Variables that [`super::Env`] acts on, to find what a misspelt one may have meant.
const WITH_EFFECT: [&str; 71] = [
    "NVSHMEM_IB_ENABLE_IBGDA",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_NET",
    "NCCL_PLUGIN_P2P",
    "NCCL_PROFILE_EVENT_MASK",
    "NCCL_IB_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_SOCKET_INLINE",
    "NCCL_SOCKET_MIN_TASKSIZE",
    "NCCL_SOCKET_SNDBUF",
    "NCCL_SOCKET_RCVBUF",
    "NCCL_WIN_ENABLE",
    "NCCL_SYM_KERNEL",
    "NCCL_SYM_CTAS",
    "NCCL_SYM_CE_THRESHOLD",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_IGNORE_COLLNET_MISMATCH",
    "NCCL_SHARP_DISABLE",
    "NCCL_SHARP_GROUP_SIZE_THRESH",
    "NCCL_PAT_ENABLE",
    "NCCL_LL128_C2C",
    "NCCL_NTHREADS",
    "NCCL_LL128_NTHREADS",
    "NCCL_THREAD_THRESHOLDS",
    "NCCL_NET_OVERHEAD",
    "NCCL_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_NVB_DISABLE",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C",
    "NCCL_PXN_DISABLE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_CROSS_NIC",
    "NCCL_MNNVL_ENABLE",
    "NCCL_IB_HCA",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_P2P_PER_CHANNEL_NET_BW",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_P2P_SCHEDULE_GROUP_SIZE",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_LL_THRESHOLD",
    "NCCL_LOCAL_REGISTER",
    "NCCL_GRAPH_REGISTER",
    "NCCL_CTA_POLICY",
    "NCCL_GRAPH_FILE",
    "NCCL_CHUNK_SIZE",
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_MIN_NRINGS",
    "NCCL_MAX_NRINGS",
];

/// Those that act on making communicators.
const OF_MAKING: [&str; 3] = [
    "NCCL_RUNTIME_CONNECT",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
];

/// Whether a variable is one of those.
pub(super) fn is_of_making(name: &str) -> bool {
    OF_MAKING.contains(&name)
}

/// A name that differs by more characters from a known one is another name.
const MOST_TYPOS: usize = 3;

/// What to say of a variable that was given and does nothing.
pub(super) fn warning(name: &str) -> String {
    let known = WITHOUT_EFFECT
        .iter()
        .find(|(names, _)| names.contains(&name));
    if let Some((_, why)) = known {
        return format!("{name} {why}");
    }
    let all = WITHOUT_EFFECT
        .iter()
        .flat_map(|(names, _)| names.iter().copied())
        .chain(WITH_EFFECT);
    // Names that differ by more than so much in length alone are not compared.
    let nearest = all
        .filter(|known| known.len().abs_diff(name.len()) <= MOST_TYPOS * 4)
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .min()
        .filter(|(distance, _)| *distance <= MOST_TYPOS);
    match nearest {
        Some((_, known)) => format!("{name} is no variable of NCCL; did you mean {known}?"),
        None => format!("{name} is no variable of NCCL that is known here; it has no effect"),
    }
}

#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    WITHOUT_EFFECT
        .iter()
        .flat_map(|(names, _)| names.iter().copied())
        .chain(WITH_EFFECT)
}

#[cfg(test)]
pub(super) fn acts(name: &str) -> bool {
    WITH_EFFECT.contains(&name)
}
