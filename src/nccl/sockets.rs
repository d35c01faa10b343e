//! NCCL's socket transport: TCP by the kernel, through host memory.
//!
//! NCCL 2.30.7 `src/transport/net_socket.cc`: a connection has a control socket and a number of data
//! sockets; a message is a header of 4 bytes and tasks of 64 KiB or more, dealt to the sockets one
//! after the other, and complete when all are. Helper threads move tasks; without any, as by default
//! outside of AWS and Google, the proxy thread itself does, on the control socket. Interfaces reach
//! host memory only.

use super::env::{Binding, Env, Net};
use fabricsim_topology::hardware::{DeviceModel, NicProtocol};
use fabricsim_topology::{
    DeviceId, DeviceKind, LinkFamily, Mtu, NodeId, SocketModel, Topology, sockets,
};
use fabricsim_units::{Bandwidth, Bytes, Time};
use std::cmp::Reverse;

/// Most helper threads of a connection (NCCL: `MAX_THREADS`).
const MAX_THREADS: u32 = 16;

/// Most data sockets of a connection (NCCL: `MAX_SOCKETS`).
const MAX_SOCKETS: u32 = 64;

/// How connections over sockets move bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sockets {
    /// Helper threads of a connection, in each direction; none: the proxy thread does it.
    threads: u32,
    /// Data sockets of a connection.
    sockets: u32,
    /// Messages of no more bytes travel with their header.
    pub(super) inline: Bytes,
    /// Messages are cut into tasks no smaller than this.
    task: Bytes,
    /// What one core moves of one flow.
    flow: Bandwidth,
    /// What a helper thread moves.
    helper: Bandwidth,
    /// Thousandths of the mean that the slowest of several flows has.
    slowest: u64,
    /// From a send to what it looks like at the receiver, beyond the wires.
    pub(super) latency: Time,
    /// Handing a task to a helper that sleeps.
    wake: Time,
    /// Bytes of a flow that may be under way.
    window: Bytes,
    /// Thousandths of a core that a GPU's threads have, all together.
    cores: u64,
}

/// The CPU of a node that is farthest from another one of it, if there are others: over the slowest
/// link between sockets.
pub(super) fn farthest_cpu(topology: &Topology, near: DeviceId) -> Option<DeviceId> {
    let links = topology.links_from(near).into_iter();
    let others = links.filter(|&(link, to)| {
        topology.family(link) == LinkFamily::Socket
            && topology.device(to).kind == DeviceKind::Cpu
            && topology.node_of(to) == topology.node_of(near)
    });
    let far = others.max_by_key(|&(link, to)| (topology.latency(link), Reverse(to)));
    far.map(|(_, to)| to)
}

/// Thousandths of a core that each GPU's threads have: all cores of the CPU with most GPUs, or a part of one.
fn cores(topology: &Topology, env: &Env, model: &SocketModel) -> u64 {
    if env.threads_at() == Binding::OneCore {
        return (model.shared_core.value * 1000.0).round() as u64;
    }
    let cpus = topology
        .devices()
        .filter_map(|(id, _)| match topology.device_model(id) {
            DeviceModel::Cpu(cpu) => {
                Some((topology.node_of(id)?, u64::from(cpu.cores.as_ref()?.value)))
            }
            _ => None,
        });
    // Nodes are mostly alike: the first one stands for all.
    let of_first: Vec<(NodeId, u64)> = cpus.take_while(|(node, _)| node.index() == 0).collect();
    let cores: u64 = of_first.iter().map(|(_, cores)| cores).sum();
    let gpus = topology
        .nodes
        .first()
        .map_or(1, |node| node.gpus.len().max(1)) as u64;
    match cores {
        0 => u64::MAX,
        cores => cores * 1000 / gpus,
    }
}

/// Whether connections between hosts are sockets.
#[must_use]
pub fn over_sockets(topology: &Topology, env: &Env) -> bool {
    match env.net {
        Net::Own => env.over_sockets,
        Net::Sockets => true,
        Net::NoVerbs => {
            let verbs = |p| matches!(p, NicProtocol::Infiniband | NicProtocol::Roce);
            protocols(topology).any(verbs)
        }
    }
}

fn protocols(topology: &Topology) -> impl Iterator<Item = NicProtocol> {
    topology
        .device_models
        .iter()
        .filter_map(|(_, model)| match model {
            DeviceModel::Nic(nic) => Some(nic.protocol),
            _ => None,
        })
}

/// Threads and sockets of a connection, and what is said of those that are too many.
fn counts(topology: &Topology, env: &Env) -> (u32, u32, Option<String>) {
    // By the vendor of the interface: AWS, Google, all others.
    let (threads, each) = protocols(topology)
        .find_map(|protocol| match protocol {
            NicProtocol::Efa => Some((2, 8)),
            NicProtocol::Tcp => Some((4, 1)),
            _ => None,
        })
        .unwrap_or((0, 1));
    let asked = env.sockets.threads.unwrap_or(threads);
    let threads = asked.min(MAX_THREADS);
    let each = env.sockets.per_thread.unwrap_or(each);
    let mut cut = (asked > threads).then(|| {
        format!(
            "NCCL_SOCKET_NTHREADS={asked} is greater than the maximum of {MAX_THREADS} threads, which are taken"
        )
    });
    let fits = each.min(MAX_SOCKETS / threads.max(1));
    if fits < each {
        cut = Some(format!(
            "NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD: {threads} x {each} is more than the maximum of \
             {MAX_SOCKETS} sockets of a connection; {fits} sockets a thread are taken"
        ));
    }
    (threads, fits * threads.max(1), cut)
}

/// Whether GPUs have CPUs that are not theirs.
fn has_far_cpus(topology: &Topology) -> bool {
    let sockets = topology.links().map(|(link, _)| link);
    sockets
        .into_iter()
        .any(|link| topology.family(link) == LinkFamily::Socket)
}

/// What is to be said of the variables of sockets on a machine.
#[must_use]
pub fn socket_warnings(topology: &Topology, env: &Env) -> Vec<String> {
    let mut warnings = Vec::new();
    let over = over_sockets(topology, env);
    if env.net == Net::NoVerbs && !over {
        warnings.push(
            "NCCL_IB_DISABLE=1 has no effect: no interface of this machine is driven by verbs; \
             NCCL_NET=Socket would take sockets in place of its plugin"
                .to_owned(),
        );
    }
    if env.binding == Binding::Far && !has_far_cpus(topology) {
        warnings.push("threads cannot run far from their GPUs: no node has another CPU".to_owned());
    }
    if over {
        warnings.extend(counts(topology, env).2);
        if env.nics.is_some() && env.sockets.interfaces.is_none() {
            warnings.push(
                "NCCL_IB_HCA has no effect on sockets; NCCL_SOCKET_IFNAME names their interfaces"
                    .to_owned(),
            );
        }
    } else {
        let given = env.sockets.given.iter();
        warnings.extend(given.map(|name| {
            format!(
                "{name} has no effect: bytes go by the interfaces' own transport, and sockets only set up \
                 connections; NCCL_NET=Socket or NCCL_IB_DISABLE=1 would move bytes over TCP"
            )
        }));
    }
    warnings
}

impl Sockets {
    /// Those of a machine, if connections between hosts are sockets.
    pub(super) fn of(topology: &Topology, env: &Env) -> Option<Sockets> {
        if !over_sockets(topology, env) {
            return None;
        }
        let model = sockets();
        let tcp = &model.tcp;
        let (threads, sockets, _) = counts(topology, env);
        let buffers = [
            env.sockets
                .receive_buffer
                .unwrap_or(tcp.receive_buffer.value),
            env.sockets.send_buffer.unwrap_or(tcp.send_buffer.value),
        ];
        Some(Sockets {
            threads,
            sockets,
            inline: env.sockets.inline,
            task: env.sockets.task,
            flow: model.flow_rate(topology.mtu.unwrap_or(Mtu::JUMBO)),
            helper: tcp.helper_rate.value,
            slowest: (tcp.slowest.value * 1000.0).round() as u64,
            latency: tcp.latency.value,
            wake: tcp.helper_wake.value,
            window: buffers[0].min(buffers[1]),
            cores: cores(topology, env, model),
        })
    }

    /// What handing a message to helpers takes, at both ends.
    pub(super) fn handed_over(&self) -> Time {
        match self.threads {
            0 => Time::ZERO,
            _ => self.wake + self.wake,
        }
    }

    /// The fastest that a connection goes which has so many messages under way of so many bytes, if
    /// the threads at its ends move bytes of so many connections, and what is sent is acknowledged
    /// after so long.
    pub(super) fn rate(
        &self,
        served: u32,
        (messages, bytes): (u32, u64),
        round_trip: Time,
    ) -> Bandwidth {
        let flow = self.flow.min(self.window_rate(round_trip)).bytes_per_sec();
        let served = u64::from(served.max(1));
        // What so many cores move, for each connection of a GPU.
        let of_cores = |cores: u64| {
            let all = u128::from(self.flow.bytes_per_sec()) * u128::from(cores) / 1000;
            u64::try_from(all / u128::from(served)).unwrap_or(u64::MAX)
        };
        if self.threads == 0 {
            let core = of_cores(self.cores.min(1000));
            return Bandwidth::from_bytes_per_sec(flow.min(core).max(1));
        }
        let tasks = bytes.div_ceil(self.task.get().max(1)).max(1);
        let busy = (tasks * u64::from(messages)).clamp(1, u64::from(self.sockets));
        let flows = match busy {
            1 => flow,
            // A message is complete when the slowest is.
            _ => flow * busy * self.slowest / 1000,
        };
        let threads = busy.min(u64::from(self.threads));
        let moved = self.helper.bytes_per_sec() * threads;
        Bandwidth::from_bytes_per_sec(flows.min(moved).min(of_cores(self.cores)).max(1))
    }

    /// A window's bytes in each round trip.
    fn window_rate(&self, round_trip: Time) -> Bandwidth {
        let picos = u128::from(round_trip.picos().max(1));
        let rate = u128::from(self.window.get()) * 1_000_000_000_000 / picos;
        Bandwidth::from_bytes_per_sec(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// So many messages of so many bytes the kernels' buffers hold.
    pub(super) fn ahead(&self, message: u64) -> u32 {
        u32::try_from(self.window.get() / message.max(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::{Overrides, load};

    fn sockets_of(machine: &str, variables: &[(&str, &str)]) -> Option<Sockets> {
        let topology = load(machine, &Overrides::default()).unwrap();
        let env = Env::parse(variables.iter().copied()).unwrap();
        Sockets::of(&topology, &env)
    }

    const SOCKET: (&str, &str) = ("NCCL_NET", "Socket");

    #[test]
    fn defaults_are_by_vendor() {
        let counts = |machine| {
            let found = sockets_of(machine, &[SOCKET]).unwrap();
            (found.threads, found.sockets)
        };
        assert_eq!(counts("dgx-h100"), (0, 1));
        assert_eq!(counts("aws-p4d"), (2, 16));
        assert_eq!(counts("gcp-a3-high"), (4, 4));
    }

    #[test]
    fn verbs_are_not_all_that_moves_bytes() {
        let off = ("NCCL_IB_DISABLE", "1");
        assert!(sockets_of("dgx-h100", &[off]).is_some());
        assert!(sockets_of("hgx-h100-roce", &[off]).is_some());
        // A plugin of its own.
        assert!(sockets_of("aws-p5", &[off]).is_none());
        assert!(sockets_of("dgx-h100", &[]).is_none());
        assert!(sockets_of("dgx-h100", &[("NCCL_IB_DISABLE", "0")]).is_none());
    }

    #[test]
    fn more_than_64_sockets_are_cut_with_a_warning() {
        let topology = load("dgx-h100", &Overrides::default()).unwrap();
        let counted = |threads, each| {
            let variables = [
                SOCKET,
                ("NCCL_SOCKET_NTHREADS", threads),
                ("NCCL_NSOCKS_PERTHREAD", each),
            ];
            let env = Env::parse(variables).unwrap();
            let found = Sockets::of(&topology, &env).unwrap();
            let warnings = socket_warnings(&topology, &env);
            (found.threads, found.sockets, warnings.join("\n"))
        };
        assert_eq!(counted("8", "8"), (8, 64, String::new()));
        let (threads, sockets, said) = counted("16", "8");
        assert_eq!((threads, sockets), (16, 64));
        assert!(
            said.contains("16 x 8") && said.contains("4 sockets a thread"),
            "{said}"
        );
        assert_eq!(counted("99", "1").0, 16);
    }

    /// A window over a round trip: 4 MiB over 60 ms are 70 MB/s, 0.56 Gb/s; 0.62 were measured.
    #[test]
    fn a_window_limits_long_ways() {
        let found = sockets_of("dgx-h100", &[SOCKET]).unwrap();
        let far = found.rate(1, (1, 1 << 20), Time::from_micros(60_000));
        assert_eq!(far.bytes_per_sec(), (4 << 20) * 1000 / 60);
        // Within a data centre it does not.
        assert_eq!(
            found.rate(1, (1, 1 << 20), Time::from_micros(100)),
            found.flow
        );
        let small = [SOCKET, ("NCCL_SOCKET_SNDBUF", "65536")];
        let small = sockets_of("dgx-h100", &small).unwrap();
        let near = small.rate(1, (1, 1 << 20), Time::from_micros(100));
        assert_eq!(near.bytes_per_sec(), 655_360_000);
    }

    /// The proxy thread divides its core; helpers add up; the slowest flow counts; a task has 64 KiB.
    #[test]
    fn threads_and_flows_limit() {
        let soon = Time::from_micros(60);
        let own = sockets_of("dgx-h100", &[SOCKET]).unwrap();
        let part = |served| own.rate(served, (1, 1 << 20), soon).bytes_per_sec();
        assert_eq!((part(2), part(4)), (part(1) / 2, part(1) / 4));
        let helped = |threads, each, message| {
            let variables = [
                SOCKET,
                ("NCCL_SOCKET_NTHREADS", threads),
                ("NCCL_NSOCKS_PERTHREAD", each),
            ];
            let found = sockets_of("dgx-h100", &variables).unwrap();
            found.rate(4, (1, message), soon).gb_per_sec()
        };
        assert_eq!(helped("1", "1", 1 << 20), 1.25);
        assert_eq!(helped("4", "1", 1 << 20), 5.0);
        assert_eq!(helped("4", "1", 100 << 10), 2.5);
        // 8 tasks, so 8 threads of the 16.
        assert_eq!(helped("16", "4", 512 << 10), 10.0);
        // Frames of 1500 bytes cost more than jumbo frames: 2.5 of 3.5 GB/s a core.
        let topology = load("dgx-h100", &Overrides::default()).unwrap();
        let env = Env::parse([SOCKET]).unwrap();
        let mut small = topology;
        small.set_mtu(Mtu::ETHERNET, true);
        let small = Sockets::of(&small, &env).unwrap();
        assert!(
            (small.flow.gb_per_sec() - 2.49).abs() < 0.02,
            "{}",
            small.flow
        );
    }
}
