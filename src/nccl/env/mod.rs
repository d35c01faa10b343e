//! NCCL's environment variables that change what moves where.
//!
//! Names, values and defaults as of NCCL 2.30.7. A variable that is known and has no effect
//! on a simulation, one whose effect is not modelled, and one that NCCL does not know are
//! all told in [`Env::warnings`] and [`Env::warnings_of_making`].

mod known;
mod network;
mod nics;
mod values;

use super::MOST_CHANNELS;
use super::algorithm::Algorithm;
use super::error::NcclError;
use super::graph_file::GraphFile;
use super::registration::Registration;
use super::version::Version;
use fabricsim_collective::Collective;
use fabricsim_plan::ProtocolKind;
use fabricsim_topology::{NodeId, PathType};
use fabricsim_units::Bytes;
pub use network::{Binding, Net, SocketEnv};
pub use nics::NicFilter;
use std::fmt;
use values::{ByFunction, Value};

/// What a set of `NCCL_*` variables asks for. `None` leaves it to NCCL.
#[derive(Debug, Clone, PartialEq)]
pub struct Env {
    /// The release whose rules are followed (not a variable of NCCL's).
    pub version: Version,
    /// Ranks that one process drives (nccl-tests' `-g`; not a variable of NCCL's).
    pub ranks_per_process: u32,
    /// So many operations of a rank are started before those of its process's next rank: where each
    /// rank has a thread (nccl-tests' `-t`), as many as it has to start.
    pub in_a_row: u32,
    /// Operations are nodes of a captured CUDA graph (nccl-tests' `-G`; not a variable of NCCL's).
    pub cuda_graph: bool,
    /// `NCCL_IB_QPS_PER_CONNECTION`.
    pub queue_pairs: u32,
    /// `NCCL_ALGO`.
    pub algorithms: Option<ByFunction<Algorithm>>,
    /// `NCCL_PROTO`.
    pub protocols: Option<ByFunction<ProtocolKind>>,
    /// `NCCL_MIN_NCHANNELS` and `NCCL_MIN_CTAS`.
    pub min_channels: Option<u16>,
    /// `NCCL_MAX_NCHANNELS` and `NCCL_MAX_CTAS`.
    pub max_channels: Option<u16>,
    /// `NCCL_NVLS_NCHANNELS`.
    pub nvls_channels: Option<u16>,
    /// `NCCL_NVLS_ENABLE`: 0, 1, or 2 (where supported).
    pub nvls: u8,
    /// `NCCL_NVLS_CHUNKSIZE`.
    pub nvls_chunk: Bytes,
    /// `NCCL_NVLSTREE_MAX_CHUNKSIZE`.
    pub nvls_tree_chunk: Option<Bytes>,
    /// `NCCL_COLLNET_ENABLE`.
    pub collnet: bool,
    /// `NCCL_COLLNET_NODE_THRESHOLD`: fewest hosts for it.
    pub collnet_hosts: u32,
    /// `NCCL_SHARP_DISABLE`, of SHARP's plugin.
    pub sharp_disable: bool,
    /// `NCCL_SHARP_GROUP_SIZE_THRESH`, of SHARP's plugin: fewest hosts of a group.
    pub sharp_hosts: u32,
    /// `NCCL_IGNORE_COLLNET_MISMATCH`: hosts may have different numbers of interfaces for CollNet.
    pub collnet_mismatch: bool,
    /// `NCCL_PAT_ENABLE`: 0, 1, or 2 (where it is believed to be good).
    pub pat: Option<bool>,
    /// `NCCL_LL128_C2C`.
    pub ll128_c2c: bool,
    /// `NCCL_NTHREADS` and `NCCL_LL128_NTHREADS`: most threads of a block.
    pub threads: Option<u32>,
    /// See there.
    pub ll128_threads: Option<u32>,
    /// `NCCL_THREAD_THRESHOLDS`: Tree then Ring, each LL, LL128, Simple.
    pub thread_thresholds: Option<[u64; 6]>,
    /// `NCCL_NET_OVERHEAD` in microseconds.
    pub net_overhead: Option<f64>,
    /// `NCCL_BUFFSIZE`.
    pub buffer: Bytes,
    /// `NCCL_LL_BUFFSIZE`.
    pub ll_buffer: Bytes,
    /// `NCCL_LL128_BUFFSIZE`.
    pub ll128_buffer: Bytes,
    /// `NCCL_P2P_LEVEL`; `NCCL_P2P_DISABLE` is `Loc`.
    pub p2p_level: Option<PathType>,
    /// `NCCL_SHM_DISABLE`.
    pub shm_disable: bool,
    /// `NCCL_NVB_DISABLE`: no NVLink through other GPUs.
    pub nvb_disable: bool,
    /// `NCCL_NET_GDR_LEVEL`.
    pub gdr_level: Option<PathType>,
    /// `NCCL_NET_GDR_READ`.
    pub gdr_read: Option<bool>,
    /// `NCCL_NET_GDR_C2C`.
    pub gdr_c2c: bool,
    /// `NCCL_PXN_DISABLE`.
    pub pxn_disable: bool,
    /// `NCCL_P2P_PXN_LEVEL`.
    pub p2p_pxn: u8,
    /// `NCCL_CROSS_NIC`.
    pub cross_nic: u8,
    /// `NCCL_MNNVL_ENABLE`: NVLink domains beyond a node count as one host.
    pub mnnvl: bool,
    /// `NCCL_IB_HCA`.
    pub nics: Option<NicFilter>,
    /// `NCCL_NET` and `NCCL_IB_DISABLE`.
    pub net: Net,
    /// Variables of the socket transport.
    pub sockets: SocketEnv,
    /// Where the launcher has bound processes (not a variable of NCCL's).
    pub binding: Binding,
    /// `NCCL_IGNORE_CPU_AFFINITY`: NCCL binds its threads near the GPU whatever the launcher did.
    pub ignore_affinity: bool,
    /// `NVSHMEM_IB_ENABLE_IBGDA`, of kernels that send themselves, such as DeepEP's; not NCCL's.
    pub gpu_posts: bool,
    /// Nodes whose interfaces do not reach GPU memory, whatever their hardware could, in order (not a
    /// variable of NCCL's).
    pub staged: Vec<NodeId>,
    /// Gloo does what it can in place of NCCL (not a variable of NCCL's).
    pub gloo: bool,
    /// Connections between hosts are sockets: found on a machine, see `Env::over_sockets`.
    pub over_sockets: bool,
    /// `NCCL_MIN_P2P_NCHANNELS`.
    pub min_p2p_channels: u16,
    /// `NCCL_MAX_P2P_NCHANNELS`.
    pub max_p2p_channels: u16,
    /// `NCCL_NCHANNELS_PER_NET_PEER`.
    pub channels_per_net_peer: Option<u16>,
    /// `NCCL_P2P_PER_CHANNEL_NET_BW` in GB/s.
    pub p2p_channel_net_rate: u32,
    /// `NCCL_P2P_SCHEDULE_GROUP_SIZE`.
    pub p2p_group: u32,
    /// `NCCL_P2P_NET_CHUNKSIZE`.
    pub p2p_net_chunk: Bytes,
    /// `NCCL_P2P_PCI_CHUNKSIZE`.
    pub p2p_pci_chunk: Bytes,
    /// `NCCL_P2P_NVL_CHUNKSIZE`.
    pub p2p_nvl_chunk: Bytes,
    /// `NCCL_P2P_LL_THRESHOLD`.
    pub p2p_ll_threshold: Bytes,
    /// `NCCL_CHUNK_SIZE`, of sends and receives.
    pub p2p_chunk: Option<Bytes>,
    /// `NCCL_ALLOC_P2P_NET_LL_BUFFERS`.
    pub p2p_net_ll: bool,
    /// How users' buffers are registered, if they are (not a variable of NCCL's); see
    /// [`Env::register`].
    pub registered: Option<Registration>,
    /// Some ranks' buffers are not registered: then NCCL treats all as if none were, but for kernels
    /// on symmetric windows that need no registration.
    pub partly_registered: bool,
    /// Symmetric windows and the kernels on them.
    pub symmetric: Symmetric,
    /// `NCCL_LOCAL_REGISTER`.
    pub local_register: Option<bool>,
    /// `NCCL_GRAPH_REGISTER`.
    pub graph_register: Option<bool>,
    /// `NCCL_CTA_POLICY`: with `EFFICIENCY` few thread blocks count for more than speed.
    pub efficiency: Option<bool>,
    /// `NCCL_RUNTIME_CONNECT`: connections are made by the first operation that needs them.
    pub runtime_connect: bool,
    /// `NCCL_OOB_NET_ENABLE`: ranks make each other's acquaintance over the network's plugin, not TCP.
    pub oob_net: bool,
    /// `NCCL_COMM_SPLIT_SHARE_RESOURCES`.
    pub split_share: bool,
    /// `NCCL_GRAPH_FILE`: its path. Whoever reads the variables reads it into `graph`.
    pub graph_file: Option<String>,
    /// What is in that file.
    pub graph: Option<GraphFile>,
    /// Variables that were given and have no effect here, each with the reason.
    pub warnings: Vec<String>,
    /// The same of variables that act on making communicators, and on nothing else.
    pub warnings_of_making: Vec<String>,
}

/// What is asked for of symmetric windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symmetric {
    /// `NCCL_WIN_ENABLE`.
    pub windows: bool,
    /// `NCCL_SYM_KERNEL`: the only kernel that may be taken.
    pub kernel: Option<&'static str>,
    /// `NCCL_SYM_CTAS`: thread blocks of a kernel.
    pub blocks: Option<u16>,
    /// `NCCL_SYM_CE_THRESHOLD`: all-gathers of more elements a rank are copied by copy engines.
    pub copy_threshold: u64,
    /// One of these variables was set.
    given: Option<&'static str>,
}

impl Default for Symmetric {
    fn default() -> Self {
        Symmetric {
            windows: true,
            kernel: None,
            blocks: None,
            copy_threshold: 8 << 20,
            given: None,
        }
    }
}

/// A variable that is set and does not act on what NCCL takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WithoutEffect {
    /// `NCCL_P2P_DISABLE`, or `NCCL_P2P_LEVEL` at its lowest: NVLS needs multicast memory only and does
    /// not look at access between peers (NCCL 2.30.7 `src/transport/nvls.cc`).
    PeerAccessOff,
}

impl fmt::Display for WithoutEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WithoutEffect::PeerAccessOff => f.write_str(
                "peer-to-peer access is off (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL), which does not act \
                 where NVSwitches reduce: multicast memory needs no access between peers; \
                 NCCL_NVLS_ENABLE=0 turns that off, too",
            ),
        }
    }
}

impl Default for Env {
    fn default() -> Self {
        Env {
            version: Version::DEFAULT,
            ranks_per_process: 1,
            in_a_row: 1,
            cuda_graph: false,
            queue_pairs: 1,
            algorithms: None,
            protocols: None,
            min_channels: None,
            max_channels: None,
            nvls_channels: None,
            nvls: 2,
            nvls_chunk: Bytes::new(128 << 10),
            nvls_tree_chunk: None,
            collnet: false,
            collnet_hosts: 2,
            sharp_disable: false,
            sharp_hosts: 2,
            collnet_mismatch: false,
            pat: None,
            ll128_c2c: true,
            threads: None,
            ll128_threads: None,
            thread_thresholds: None,
            net_overhead: None,
            buffer: Bytes::new(4 << 20),
            ll_buffer: Bytes::new(512 << 10),
            ll128_buffer: Bytes::new(4_915_200),
            p2p_level: None,
            shm_disable: false,
            nvb_disable: false,
            gdr_level: None,
            gdr_read: None,
            gdr_c2c: true,
            pxn_disable: false,
            p2p_pxn: 2,
            cross_nic: 2,
            mnnvl: true,
            nics: None,
            net: Net::Own,
            sockets: SocketEnv::default(),
            binding: Binding::Near,
            ignore_affinity: false,
            gpu_posts: true,
            staged: Vec::new(),
            gloo: false,
            over_sockets: false,
            min_p2p_channels: 1,
            max_p2p_channels: MOST_CHANNELS,
            channels_per_net_peer: None,
            p2p_channel_net_rate: 14,
            p2p_group: 8,
            p2p_net_chunk: Bytes::new(128 << 10),
            p2p_pci_chunk: Bytes::new(128 << 10),
            p2p_nvl_chunk: Bytes::new(512 << 10),
            p2p_ll_threshold: Bytes::new(16 << 10),
            p2p_chunk: None,
            p2p_net_ll: false,
            registered: None,
            partly_registered: false,
            symmetric: Symmetric::default(),
            local_register: None,
            graph_register: None,
            efficiency: None,
            runtime_connect: true,
            oob_net: false,
            split_share: false,
            graph_file: None,
            graph: None,
            warnings: Vec::new(),
            warnings_of_making: Vec::new(),
        }
    }
}

impl Env {
    /// Reads variables as (name, value). Unknown ones, and those whose effect is not modelled,
    /// become warnings.
    ///
    /// # Errors
    /// [`NcclError::Env`] for a known variable whose value NCCL would refuse.
    pub fn parse<'a>(
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, NcclError> {
        let mut env = Env::default();
        for (name, value) in variables {
            let value = Value {
                name,
                text: value.trim(),
            };
            env.set_up(value)?;
            if !env.set(value)? {
                let warnings = match known::is_of_making(name) {
                    true => &mut env.warnings_of_making,
                    false => &mut env.warnings,
                };
                warnings.push(known::warning(name));
            }
        }
        Ok(env)
    }

    /// Takes a variable in; false if it has no effect.
    fn set(&mut self, value: Value<'_>) -> Result<bool, NcclError> {
        match value.name {
            "NCCL_ALGO" => {
                self.algorithms = Some(value.by_function(&Algorithm::NCCL, Algorithm::nccl_name)?);
            }
            "NCCL_PROTO" => {
                self.protocols = Some(value.by_function(&ProtocolKind::ALL, protocol_name)?);
            }
            "NCCL_MIN_NCHANNELS" | "NCCL_MIN_CTAS" | "NCCL_MIN_NRINGS" => {
                self.min_channels = Some(value.number(1, MOST_CHANNELS)?);
            }
            "NCCL_MAX_NCHANNELS" | "NCCL_MAX_CTAS" | "NCCL_MAX_NRINGS" => {
                self.max_channels = Some(value.number(1, MOST_CHANNELS)?);
            }
            "NCCL_NVLS_NCHANNELS" => self.nvls_channels = Some(value.number(1, MOST_CHANNELS)?),
            "NCCL_NVLS_ENABLE" => self.nvls = value.number(0, 2)?,
            "NCCL_NVLS_CHUNKSIZE" => self.nvls_chunk = value.bytes(16 << 10)?,
            "NCCL_NVLSTREE_MAX_CHUNKSIZE" => self.nvls_tree_chunk = Some(value.bytes(16 << 10)?),
            "NCCL_COLLNET_ENABLE" => self.collnet = value.switch()?,
            "NCCL_COLLNET_NODE_THRESHOLD" => self.collnet_hosts = value.number(0, u32::MAX)?,
            "NCCL_SHARP_DISABLE" => self.sharp_disable = value.switch()?,
            "NCCL_SHARP_GROUP_SIZE_THRESH" => self.sharp_hosts = value.number(0, u32::MAX)?,
            "NCCL_IGNORE_COLLNET_MISMATCH" => self.collnet_mismatch = value.switch()?,
            "NCCL_PAT_ENABLE" => {
                self.pat = match value.number(0, 2)? {
                    0u8 => Some(false),
                    1 => Some(true),
                    _ => None,
                }
            }
            "NCCL_LL128_C2C" => self.ll128_c2c = value.switch()?,
            "NCCL_NTHREADS" => self.threads = Some(value.threads(64, 512)?),
            "NCCL_LL128_NTHREADS" => self.ll128_threads = Some(value.threads(160, 640)?),
            "NCCL_THREAD_THRESHOLDS" => self.thread_thresholds = Some(value.six_numbers()?),
            "NCCL_NET_OVERHEAD" => {
                let nanos: i64 = value.number(-2, i64::MAX)?;
                self.net_overhead = (nanos >= 0).then_some(nanos as f64 / 1000.0);
            }
            "NCCL_BUFFSIZE" => self.buffer = value.bytes(8 * 512)?,
            "NCCL_LL_BUFFSIZE" => self.ll_buffer = value.bytes(8 * 32)?,
            "NCCL_LL128_BUFFSIZE" => self.ll128_buffer = value.bytes(8 * 1920)?,
            "NCCL_P2P_DISABLE" => {
                if value.switch()? {
                    self.p2p_level = Some(PathType::Loc);
                }
            }
            "NCCL_P2P_LEVEL" => self.p2p_level = Some(value.level()?),
            "NCCL_SHM_DISABLE" => self.shm_disable = value.switch()?,
            "NCCL_NVB_DISABLE" => self.nvb_disable = value.switch()?,
            "NCCL_NET_GDR_LEVEL" | "NCCL_IB_GDR_LEVEL" => self.gdr_level = Some(value.level()?),
            "NCCL_NET_GDR_READ" => self.gdr_read = Some(value.switch()?),
            "NCCL_NET_GDR_C2C" => self.gdr_c2c = value.switch()?,
            "NCCL_PXN_DISABLE" => self.pxn_disable = value.switch()?,
            "NCCL_P2P_PXN_LEVEL" => self.p2p_pxn = value.number(0, 2)?,
            "NCCL_CROSS_NIC" => self.cross_nic = value.number(0, 2)?,
            "NCCL_MNNVL_ENABLE" => self.mnnvl = value.number(0u8, 2)? != 0,
            "NCCL_IB_HCA" => self.nics = Some(NicFilter::parse(value)?),
            "NCCL_NET" => self.choose_net(value.text),
            // What a run writes, not what it takes.
            "NCCL_PROFILE_EVENT_MASK" => {
                value.number(0, u32::MAX)?;
            }
            "NCCL_PLUGIN_P2P" => self.choose_plugin(value.text),
            "NCCL_IGNORE_CPU_AFFINITY" => self.ignore_affinity = value.switch()?,
            "NVSHMEM_IB_ENABLE_IBGDA" => self.gpu_posts = value.switch()?,
            "NCCL_IB_DISABLE" => {
                if value.switch()? && self.net == Net::Own {
                    self.net = Net::NoVerbs;
                }
            }
            "NCCL_MIN_P2P_NCHANNELS" => self.min_p2p_channels = value.number(1, MOST_CHANNELS)?,
            "NCCL_MAX_P2P_NCHANNELS" => self.max_p2p_channels = value.number(1, MOST_CHANNELS)?,
            "NCCL_NCHANNELS_PER_NET_PEER" => {
                self.channels_per_net_peer = Some(value.number(1, MOST_CHANNELS)?);
            }
            "NCCL_P2P_PER_CHANNEL_NET_BW" => self.p2p_channel_net_rate = value.number(1, 1000)?,
            "NCCL_P2P_SCHEDULE_GROUP_SIZE" => self.p2p_group = value.number(1, 1 << 16)?,
            "NCCL_P2P_NET_CHUNKSIZE" => self.p2p_net_chunk = value.bytes(4096)?,
            "NCCL_P2P_PCI_CHUNKSIZE" => self.p2p_pci_chunk = value.bytes(4096)?,
            "NCCL_P2P_NVL_CHUNKSIZE" => self.p2p_nvl_chunk = value.bytes(4096)?,
            "NCCL_P2P_LL_THRESHOLD" => self.p2p_ll_threshold = value.bytes(0)?,
            "NCCL_CHUNK_SIZE" => {
                self.p2p_chunk = Some(value.bytes(0)?).filter(|b| b.get() > 0);
            }
            "NCCL_ALLOC_P2P_NET_LL_BUFFERS" => self.p2p_net_ll = value.switch()?,
            "NCCL_IB_QPS_PER_CONNECTION" => self.queue_pairs = value.number(1, 128)?,
            "NCCL_LOCAL_REGISTER" => self.local_register = Some(value.switch()?),
            "NCCL_GRAPH_REGISTER" => self.graph_register = Some(value.switch()?),
            "NCCL_CTA_POLICY" => {
                let policies = value.policies()?;
                self.efficiency = Some(policies.contains(&"EFFICIENCY"));
                if policies.contains(&"ZERO") {
                    let why = "NCCL_CTA_POLICY=ZERO asks for copies by copy engines, which are not modelled";
                    self.warnings.push(why.to_owned());
                }
            }
            "NCCL_WIN_ENABLE" => {
                self.symmetric.windows = value.switch()?;
                self.symmetric.given = Some("NCCL_WIN_ENABLE");
            }
            "NCCL_SYM_KERNEL" => {
                self.symmetric.kernel = value.symmetric_kernel()?;
                self.symmetric.given = Some("NCCL_SYM_KERNEL");
            }
            "NCCL_SYM_CTAS" => {
                self.symmetric.blocks = Some(value.number(0, MOST_CHANNELS)?).filter(|&b| b > 0);
                self.symmetric.given = Some("NCCL_SYM_CTAS");
            }
            "NCCL_SYM_CE_THRESHOLD" => {
                self.symmetric.copy_threshold = value.number(0, u64::MAX)?;
                self.symmetric.given = Some("NCCL_SYM_CE_THRESHOLD");
            }
            "NCCL_GRAPH_FILE" => self.graph_file = Some(value.text.to_owned()),
            _ => return self.sockets.set(value),
        }
        Ok(true)
    }

    /// Takes in a variable that acts on making communicators, and on nothing else.
    fn set_up(&mut self, value: Value<'_>) -> Result<(), NcclError> {
        match value.name {
            "NCCL_RUNTIME_CONNECT" => self.runtime_connect = value.switch()?,
            "NCCL_OOB_NET_ENABLE" => self.oob_net = value.switch()?,
            "NCCL_COMM_SPLIT_SHARE_RESOURCES" => self.split_share = value.switch()?,
            _ => {}
        }
        Ok(())
    }

    /// Says how users' buffers are registered; variables that then do nothing are told.
    pub fn register(&mut self, how: Option<Registration>) {
        self.registered = how;
        let local = how == Some(Registration::Local);
        let graph = how == Some(Registration::Graph);
        let symmetric = how == Some(Registration::Symmetric);
        let idle = [
            (
                "NCCL_LOCAL_REGISTER",
                self.local_register.is_some() && !local,
            ),
            (
                "NCCL_GRAPH_REGISTER",
                self.graph_register.is_some() && !graph,
            ),
            (
                "NCCL_CTA_POLICY",
                self.efficiency == Some(true) && !self.zero_copy(),
            ),
        ];
        if let Some(name) = self.symmetric.given.filter(|_| !symmetric) {
            self.warnings.push(format!(
                "{name} is set, but no buffers are registered as symmetric windows \
                 (--registered=symmetric), so it has no effect"
            ));
        }
        for (name, _) in idle.into_iter().filter(|(_, idle)| *idle) {
            self.warnings.push(format!(
                "{name} is set, but no such buffers are registered (--registered), so it has no effect"
            ));
        }
    }

    /// Whether users' buffers are registered, and used so.
    #[must_use]
    pub fn zero_copy(&self) -> bool {
        match self.registered {
            None => false,
            Some(_) if self.partly_registered => false,
            Some(Registration::Symmetric) => self.symmetric.windows && !self.version.before(27),
            Some(Registration::Local) => self.local_register != Some(false),
            Some(Registration::Graph) => self.graph_register != Some(false),
        }
    }

    /// What was asked for and does not act where NCCL takes this algorithm.
    #[must_use]
    pub fn without_effect(&self, algorithm: Algorithm) -> Option<WithoutEffect> {
        let nvls = matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
        (nvls && self.p2p_level == Some(PathType::Loc)).then_some(WithoutEffect::PeerAccessOff)
    }

    /// Whether an algorithm is left for a collective.
    #[must_use]
    pub fn allows_algorithm(&self, collective: Collective, algorithm: Algorithm) -> bool {
        let list = self.algorithms.as_ref();
        list.is_none_or(|l| l.of(collective).contains(&algorithm))
    }

    /// Whether a protocol is left for a collective.
    #[must_use]
    pub fn allows_protocol(&self, collective: Collective, protocol: ProtocolKind) -> bool {
        let list = self.protocols.as_ref();
        list.is_none_or(|l| l.of(collective).contains(&protocol))
    }

    /// Whether `NCCL_ALGO` names nothing but algorithms that need SHARP: whoever does so has it.
    #[must_use]
    pub fn names_collnet(&self) -> bool {
        let collnet =
            |a: &Algorithm| matches!(a, Algorithm::CollnetDirect | Algorithm::CollnetChain);
        let list = self.algorithms.as_ref();
        list.map(|l| l.of(Collective::AllReduce))
            .is_some_and(|l| !l.is_empty() && l.iter().all(collnet))
    }

    /// Whether LL128 was named: then it is used even where NCCL would not by itself.
    #[must_use]
    pub fn names_ll128(&self, collective: Collective) -> bool {
        self.protocols.is_some() && self.allows_protocol(collective, ProtocolKind::Ll128)
    }

    /// Whether an interface may be used, by the names that it has.
    #[must_use]
    pub fn allows_nic(&self, names: &[&str]) -> bool {
        let filter = self.nics.as_ref();
        filter.is_none_or(|filter| filter.allows(names))
    }
}

/// The name in `NCCL_PROTO`.
fn protocol_name(protocol: ProtocolKind) -> &'static str {
    match protocol {
        ProtocolKind::Ll => "LL",
        ProtocolKind::Ll128 => "LL128",
        ProtocolKind::Simple => "Simple",
    }
}

#[cfg(test)]
mod tests;
