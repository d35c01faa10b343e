//! Not NCCL's: a ring of processes that stage the GPUs' data in host memory, as MPI and Gloo
//! do without GPUDirect. To compare with, and what is left where there is no RDMA.

use super::algorithm::Algorithm;
use super::communicator::{Communicator, Planned};
use super::costs::UNLIMITED;
use super::error::NcclError;
use fabricsim_collective::{Collective, ConnId, HostHop, HostRingProgram, Program, Role};
use fabricsim_plan::{
    Issue, Later, MessageCost, NetworkLeg, Plan, Protocol, ProtocolKind, RoleCosts, RouteId,
    SliceCost, Transport, WorkerCosts,
};
use fabricsim_topology::{DeviceId, Route, SocketModel, sockets};
use fabricsim_units::{Bytes, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Segments of a block that goes round at once; larger ones go in several.
const SEGMENTS: u32 = 4;

impl Communicator<'_> {
    /// The plan of a ring in host memory.
    pub(super) fn host_ring(
        &mut self,
        collective: Collective,
        bytes: u64,
    ) -> Result<Planned, NcclError> {
        let software = sockets();
        let ranks = u64::from(self.ranks());
        let segment = software.segment.value.get().max(1);
        let block = bytes.div_ceil(ranks).next_multiple_of(16).max(16);
        let chunk = match collective {
            // Pipelines: a segment at a time.
            Collective::Broadcast | Collective::Reduce => segment,
            _ => block.min(u64::from(SEGMENTS) * segment),
        };
        let program = HostRingProgram::new(collective, bytes, self.ranks(), chunk);
        let mut known = BTreeMap::new();
        let transports = (0..program.connections())
            .map(|c| self.host_transport(&program, ConnId(c), software, &mut known))
            .collect::<Result<_, _>>()?;
        let plan = Plan {
            transports,
            gpus: self.gpus.clone(),
            protocol: Protocol {
                kind: ProtocolKind::Simple,
                slices_per_chunk: SEGMENTS,
                min_slice: Bytes::new(segment),
                // Sends do not block: one block goes while the next is being summed.
                fifo_slices: 2 * SEGMENTS,
                wire: (1, 1),
            },
            routes: self.routes(),
            merged: Arc::default(),
            costs: self
                .architectures
                .iter()
                .map(|_| host_costs(software))
                .collect(),
            rank_costs: self.rank_models.clone(),
            // Processes of the ring each drive one rank.
            issue: Issue::FREE,
            program: Arc::new(program),
        };
        Ok(Planned {
            plan,
            algorithm: Algorithm::CpuRing,
            protocol: ProtocolKind::Simple,
            channels: 1,
            bytes,
        })
    }

    fn host_transport(
        &mut self,
        program: &HostRingProgram,
        conn: ConnId,
        software: &SocketModel,
        known: &mut BTreeMap<(DeviceId, DeviceId), RouteId>,
    ) -> Result<Transport, NcclError> {
        let ends = program.connection(conn);
        let gpu_of = |worker| self.gpus[program.worker(worker).rank.index()];
        let (from, to) = (gpu_of(ends.from), gpu_of(ends.to));
        // A machine without CPUs has its processes beside the GPU.
        let host = |gpu| self.ways.router().cpu_of(gpu).unwrap_or(gpu);
        let (here, there) = (host(from), host(to));
        let router = self.ways.router();
        let stored = match program.kind(conn) {
            HostHop::ToHost => Some((from, here, software.copy_start.value)),
            HostHop::FromHost => Some((there, to, software.copy_start.value)),
            HostHop::Ring if self.topology.node_of(from) == self.topology.node_of(to) => {
                Some((here, there, software.handover.value))
            }
            HostHop::Ring => None,
        };
        if let Some((source, target, begin)) = stored {
            let route = router.local(source, target)?;
            let latency = route.latency + begin;
            return Ok(Transport {
                store: Some(self.host_route((source, target), route, known)),
                load: None,
                network: None,
                latency,
                credit_latency: latency,
            });
        }
        let nic = |gpu: DeviceId, rank: u32| {
            let own = router.nic_candidates(gpu).first().copied();
            own.ok_or_else(|| self.no_nic(rank))
        };
        let out = nic(from, program.worker(ends.from).rank.0)?;
        let into = nic(to, program.worker(ends.to).rank.0)?;
        let head = router.local(here, out)?;
        let tail = router.local(into, there)?;
        let interfaces = self.topology.transit_latency(out) + self.topology.transit_latency(into);
        let message_overhead = self.topology.message_overhead(here, out);
        let middle = self
            .ways
            .router_mut()
            .network(out, into, u64::from(conn.0))?;
        let wires = head.latency + interfaces + middle.latency + tail.latency;
        let hops = [head.hops, middle.hops, tail.hops].concat();
        let route = Route {
            hops,
            latency: wires,
            ..Route::default()
        };
        Ok(Transport {
            store: None,
            load: None,
            network: Some(NetworkLeg {
                route: self.host_route((out, into), route, known),
                post_latency: Time::ZERO,
                message: MessageCost::flat(message_overhead),
                later: Later::NEVER,
                rate: software.stream_rate.value,
                ahead: 0,
            }),
            latency: wires + software.transfer_latency(),
            // Kernels acknowledge; no process waits for the other one to take the data.
            credit_latency: wires,
        })
    }

    /// A route of a plan's, each once: in the table of all that the communicator plans, for a
    /// job gives that to each of its plans.
    fn host_route(
        &mut self,
        ends: (DeviceId, DeviceId),
        route: Route,
        known: &mut BTreeMap<(DeviceId, DeviceId), RouteId>,
    ) -> RouteId {
        *known
            .entry(ends)
            .or_insert_with(|| self.ways.remember(route.hops, route.load))
    }
}

/// One core sums and copies for each process; copy engines do the rest.
fn host_costs(software: &SocketModel) -> RoleCosts {
    let core = WorkerCosts {
        slice: SliceCost::default(),
        send_rate: software.core_rate.value,
        local_rate: software.core_rate.value,
        streams: 0,
    };
    // What copy engines do is limited by links alone.
    let engine = WorkerCosts {
        send_rate: UNLIMITED,
        local_rate: UNLIMITED,
        ..core
    };
    RoleCosts::same(Time::ZERO, core)
        .with(Role::Send, engine)
        .with(Role::Receive, engine)
}
