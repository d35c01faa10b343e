//! Variables of what moves bytes between hosts: InfiniBand's verbs, a plugin, or sockets.

use super::{Env, NicFilter, Value};
use crate::error::NcclError;
use fabricsim_topology::PathType;
use fabricsim_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may move bytes between hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Net {
    /// What NCCL takes by itself: a plugin, else verbs.
    #[default]
    Own,
    /// No verbs (`NCCL_IB_DISABLE=1`): sockets, where no plugin drives the interfaces.
    NoVerbs,
    /// Sockets (`NCCL_NET=Socket`).
    Sockets,
}

/// Where the threads of processes run: their mask of CPUs, as the launcher sets it.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// On CPUs near their GPU, or anywhere: NCCL then binds its threads near the GPU.
    #[default]
    Near,
    /// On another socket than their GPU: NCCL keeps to the launcher's CPUs, as none is near the GPU.
    Far,
    /// Each process on one core near its GPU, as Open MPI maps by default: its threads share that.
    OneCore,
}

impl Binding {
    /// All of them.
    pub const ALL: [Binding; 3] = [Binding::Near, Binding::Far, Binding::OneCore];

    /// What files and flags call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Binding::Near => "near",
            Binding::Far => "far",
            Binding::OneCore => "one_core",
        }
    }
}

/// Variables of the socket transport.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketEnv {
    /// `NCCL_SOCKET_NTHREADS`: helper threads of a connection.
    pub threads: Option<u32>,
    /// `NCCL_NSOCKS_PERTHREAD`.
    pub per_thread: Option<u32>,
    /// `NCCL_SOCKET_INLINE`: no more bytes travel with the header.
    pub inline: Bytes,
    /// `NCCL_SOCKET_MIN_TASKSIZE`: messages are cut into tasks no smaller than this.
    pub task: Bytes,
    /// `NCCL_SOCKET_SNDBUF`: the kernel's buffer of a socket, in place of what grows by itself.
    pub send_buffer: Option<Bytes>,
    /// `NCCL_SOCKET_RCVBUF`.
    pub receive_buffer: Option<Bytes>,
    /// `NCCL_SOCKET_IFNAME`.
    pub interfaces: Option<NicFilter>,
    /// Names of those that were given.
    pub(crate) given: Vec<&'static str>,
}

impl Default for SocketEnv {
    fn default() -> Self {
        SocketEnv {
            threads: None,
            per_thread: None,
            inline: Bytes::new(128),
            task: Bytes::new(64 << 10),
            send_buffer: None,
            receive_buffer: None,
            interfaces: None,
            given: Vec::new(),
        }
    }
}

/// More is cut to the limits anyway.
const MANY: u32 = 1 << 16;

impl SocketEnv {
    /// Takes a variable in; false if it is another's.
    pub(super) fn set(&mut self, value: Value<'_>) -> Result<bool, NcclError> {
        // -1 leaves it to the kernel, -2 to NCCL.
        let count = || -> Result<Option<u32>, NcclError> {
            let number: i64 = value.number(-2, i64::from(MANY))?;
            Ok(u32::try_from(number).ok())
        };
        let buffer = || -> Result<Option<Bytes>, NcclError> {
            let number: i64 = value.number(-1, 1 << 40)?;
            Ok(u64::try_from(number).ok().map(Bytes::new))
        };
        let name = match value.name {
            "NCCL_SOCKET_NTHREADS" => {
                self.threads = count()?;
                "NCCL_SOCKET_NTHREADS"
            }
            "NCCL_NSOCKS_PERTHREAD" => {
                self.per_thread = count()?.map(|number| number.max(1));
                "NCCL_NSOCKS_PERTHREAD"
            }
            "NCCL_SOCKET_INLINE" => {
                self.inline = value.bytes(0)?;
                "NCCL_SOCKET_INLINE"
            }
            "NCCL_SOCKET_MIN_TASKSIZE" => {
                self.task = value.bytes(1)?;
                "NCCL_SOCKET_MIN_TASKSIZE"
            }
            "NCCL_SOCKET_SNDBUF" => {
                self.send_buffer = buffer()?;
                "NCCL_SOCKET_SNDBUF"
            }
            "NCCL_SOCKET_RCVBUF" => {
                self.receive_buffer = buffer()?;
                "NCCL_SOCKET_RCVBUF"
            }
            "NCCL_SOCKET_IFNAME" => {
                self.interfaces = Some(NicFilter::parse(value)?);
                "NCCL_SOCKET_IFNAME"
            }
            _ => return Ok(false),
        };
        self.given.push(name);
        Ok(true)
    }
}

/// What HPC-X's plugin calls its networks over UCX, from memory of github.com/Mellanox/nccl-rdma-sharp-plugins.
const UCX: [&str; 2] = ["UCX", "UCX-RMA"];

/// What a choice of UCX changes here, and what not.
fn over_ucx(variable: &str, choice: &str) -> String {
    format!(
        "{variable}={choice} takes HPC-X's plugin, which carries NCCL over UCX: simulated are the same transfers, in the \
         same chunks over the same interfaces and links, by NCCL's own verbs; not simulated are UCX's choice of \
         transports, its rendezvous and its latency (docs/host.md)"
    )
}

impl Env {
    /// Where NCCL's threads run.
    #[must_use]
    pub fn threads_at(&self) -> Binding {
        match self.ignore_affinity {
            true => Binding::Near,
            false => self.binding,
        }
    }

    /// `NCCL_NET`.
    pub(super) fn choose_net(&mut self, name: &str) {
        if name.eq_ignore_ascii_case("Socket") {
            self.net = Net::Sockets;
        } else if UCX.iter().any(|ucx| name.eq_ignore_ascii_case(ucx)) {
            self.warnings.push(over_ucx("NCCL_NET", name));
        } else if !name.eq_ignore_ascii_case("IB") {
            self.warnings.push(format!(
                "NCCL_NET={name} has no effect: interfaces are driven as their models say; of others \
                 only Socket is modelled"
            ));
        }
    }

    /// `NCCL_PLUGIN_P2P`, which says what HPC-X's plugin sends with: `ib`, or a way of UCX.
    pub(super) fn choose_plugin(&mut self, name: &str) {
        if name.to_ascii_lowercase().starts_with("ucx") {
            self.warnings.push(over_ucx("NCCL_PLUGIN_P2P", name));
        } else if !name.eq_ignore_ascii_case("ib") {
            self.warnings.push(format!(
                "NCCL_PLUGIN_P2P={name} has no effect: HPC-X's plugin knows ib, ucx and ucx_rma"
            ));
        }
    }

    /// The same where all that leaves a host goes over sockets: interfaces read and write host memory
    /// alone, no GPU lends another one its own, and no switch reduces.
    #[must_use]
    pub(crate) fn over_sockets(&self) -> Self {
        Env {
            over_sockets: true,
            nics: self.sockets.interfaces.clone(),
            gdr_level: Some(PathType::Loc),
            gdr_read: Some(false),
            gdr_c2c: false,
            pxn_disable: true,
            p2p_pxn: 0,
            collnet: false,
            ..self.clone()
        }
    }
}
