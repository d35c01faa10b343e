//! How GPUs meet interfaces: found once for each pair, whatever the number of connections.

use super::error::NcclError;
use super::transport::{Ways, join};
use crate::plan::RouteId;
use crate::topology::{DeviceId, Route, RouteError, Router};
use crate::units::Time;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// A GPU at one end of a network connection, and its interface there.
#[derive(Debug)]
pub(super) struct Port {
    /// The interface reaches the GPU's memory itself.
    pub(super) direct: bool,
    /// Whose memory it is that the interface reads or writes.
    pub(super) memory: DeviceId,
    /// The CPU on which the proxy runs.
    pub(super) cpu: DeviceId,
    /// Between memory and interface, in the direction of the data.
    pub(super) data: Route,
    /// Between GPU and CPU, in the direction of the data.
    pub(super) notice: Route,
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Sends,
    Receives,
}

/// A network route from memory to memory: where it begins, its interfaces, where it ends, and
/// what else may tell it apart.
type Crossing = (DeviceId, DeviceId, DeviceId, DeviceId, u64);

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Ports {
    known: FxHashMap<(DeviceId, DeviceId, End), Rc<Port>>,
    crossings: FxHashMap<Crossing, (RouteId, Time)>,
    inside: FxHashMap<(DeviceId, DeviceId), (RouteId, Time)>,
}

impl Ways<'_> {
    /// A GPU and its interface, at one end of a connection.
    pub(super) fn port(
        &mut self,
        gpu: DeviceId,
        nic: DeviceId,
        end: End,
    ) -> Result<Rc<Port>, NcclError> {
        if let Some(port) = self.ports.known.get(&(gpu, nic, end)) {
            return Ok(Rc::clone(port));
        }
        let cpu = self.cpu_of(gpu)?;
        let port = match end {
            End::Sends => {
                let (direct, memory) = self.to_memory(gpu, nic, self.reads_directly())?;
                Port {
                    direct,
                    memory,
                    cpu,
                    data: self.router().local(memory, nic)?,
                    notice: self.router().local(gpu, cpu)?,
                }
            }
            End::Receives => {
                let (direct, memory) = self.to_memory(gpu, nic, true)?;
                Port {
                    direct,
                    memory,
                    cpu,
                    data: self.router().local(nic, memory)?,
                    notice: self.router().local(cpu, gpu)?,
                }
            }
        };
        let port = Rc::new(port);
        self.ports.known.insert((gpu, nic, end), Rc::clone(&port));
        Ok(port)
    }

    /// A route between two devices of a node and its latency, one for all connections that take
    /// it.
    pub(super) fn inside(
        &mut self,
        ends: (DeviceId, DeviceId),
        find: impl FnOnce(&Router<'_>) -> Result<Route, RouteError>,
    ) -> Result<(RouteId, Time), NcclError> {
        if let Some(&known) = self.ports.inside.get(&ends) {
            return Ok(known);
        }
        let route = find(self.router())?;
        let latency = route.latency;
        let known = (self.remember(route), latency);
        self.ports.inside.insert(ends, known);
        Ok(known)
    }

    /// A route from memory to memory over a network, and the latency of its network part; one
    /// for all connections that take it.
    pub(super) fn crossing(
        &mut self,
        (sender, out): (&Port, DeviceId),
        (receiver, into): (&Port, DeviceId),
        flow: u64,
    ) -> Result<(RouteId, Time), NcclError> {
        let key = (sender.memory, out, into, receiver.memory, flow);
        if let Some(&known) = self.ports.crossings.get(&key) {
            return Ok(known);
        }
        let middle = self.router_mut().network(out, into, flow)?;
        let latency = middle.latency;
        let route = join([&sender.data, &middle, &receiver.data]);
        let known = (self.remember(route), latency);
        self.ports.crossings.insert(key, known);
        Ok(known)
    }
}
