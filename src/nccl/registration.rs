//! Registered user buffers: where NCCL then moves data without copying it to and from buffers
//! of its own.
//!
//! NCCL 2.30.7, `register/coll_reg.cc`, `register/sendrecv_reg.cc` and `enqueue.cc`. NVSwitches
//! read and write users' buffers themselves; the last hop to a peer by NVLink or PCIe is where
//! the data is to be; interfaces read and write there too, for sends and receives and for
//! gathering rings of one rank a host. Left out: CollNet; sends to a plan's peers of other
//! hosts where others of its peers are inside. Symmetric windows have kernels of their own
//! (`symmetric/`).

use super::algorithm::Algorithm;
use super::communicator::Communicator;
use super::costs::UNLIMITED;
use super::transport::Way;
use fabricsim_collective::{Collective, Role};
use fabricsim_plan::{ProtocolKind, RoleCosts, SliceCost, WorkerCosts};
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How users' buffers came to be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Registration {
    /// By `ncclCommRegister`, as nccl-tests' `-R 1`; `NCCL_LOCAL_REGISTER=0` undoes it.
    Local,
    /// As buffers of a captured graph, as nccl-tests' `-G`; `NCCL_GRAPH_REGISTER=0` undoes it.
    Graph,
    /// By `ncclCommWindowRegister` as symmetric windows, as nccl-tests' `-R 2`; `NCCL_WIN_ENABLE=0`
    /// undoes it. Where NCCL has kernels on such it takes them.
    Symmetric,
}

impl Registration {
    /// Every way.
    pub const ALL: [Registration; 3] = [
        Registration::Local,
        Registration::Graph,
        Registration::Symmetric,
    ];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Registration::Local => "local",
            Registration::Graph => "graph",
            Registration::Symmetric => "symmetric",
        }
    }
}

/// The longest network message of a registered send.
pub(super) const LONGEST_MESSAGE: u64 = 1 << 30;

/// Thread blocks that NCCL recommends for NVLS on registered buffers: few, as they copy
/// nothing. `interface` is the rate of a network interface in GB/s.
pub(super) fn nvls_channels(
    collective: Collective,
    compute_capability: u32,
    hosts: u32,
    heads: u32,
    interface: f64,
) -> u16 {
    let blackwell = compute_capability >= 100;
    let factor = match (hosts, collective) {
        (1, Collective::ReduceScatter) if blackwell => 6,
        (1, Collective::ReduceScatter) => 5,
        (1, Collective::AllReduce) if blackwell => 8,
        (1, _) => 4,
        _ if !blackwell => 6,
        _ if interface >= 96.0 => 10,
        _ => 7,
    };
    (8u32 * factor).div_ceil(heads.max(1)) as u16
}

impl Communicator<'_> {
    /// The costs of a collective's thread blocks, less the copies that registered buffers
    /// spare them.
    pub(super) fn without_copies(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        kind: ProtocolKind,
        ways: &[Way],
        costs: Vec<RoleCosts>,
    ) -> Vec<RoleCosts> {
        if !self.env().zero_copy() || kind != ProtocolKind::Simple {
            return costs;
        }
        let several = self.hosts.len() > 1;
        let inside = || ways.iter().filter(|w| !w.is_network());
        let by_peers = inside().next().is_some() && inside().all(Way::is_direct);
        let change: fn(RoleCosts) -> RoleCosts = match (algorithm, collective) {
            (Algorithm::Nvls | Algorithm::NvlsTree, _) => {
                let directions = 1 + u64::from(several);
                let ahead = |costs| agreed_ahead(costs, directions);
                return costs.into_iter().map(ahead).collect();
            }
            // Sums need the data of both sides in hand, so these gain at their last steps.
            (
                Algorithm::Ring,
                Collective::AllReduce | Collective::AllGather | Collective::Broadcast,
            ) if !several && by_peers => |costs| changed(costs, Role::Block, stored_by_peer),
            (Algorithm::Ring, Collective::AllGather)
                if several
                    && self.ranks() == self.hosts.len() as u32
                    && ways.iter().all(Way::is_rdma) =>
            {
                |costs| changed(costs, Role::Block, nothing_copied)
            }
            // Chains inside hosts end in leaves that only receive.
            (Algorithm::Tree, _) if by_peers => |costs| changed(costs, Role::Down, stored_by_peer),
            _ => return costs,
        };
        costs.into_iter().map(change).collect()
    }

    /// The same for sends and receives, and whether interfaces read users' buffers.
    pub(super) fn sends_without_copies(
        &self,
        kind: ProtocolKind,
        ways: &[Way],
        costs: Vec<RoleCosts>,
    ) -> (Vec<RoleCosts>, bool) {
        // With PXN the data goes to another GPU first, and there are copies as ever.
        let able = ways.iter().all(|w| w.is_direct() || w.is_rdma());
        if !self.env().zero_copy() || kind != ProtocolKind::Simple || !able || ways.is_empty() {
            return (costs, false);
        }
        let network = ways.iter().any(Way::is_network);
        let only_network = ways.iter().all(Way::is_network);
        let change = |costs| {
            let costs = changed(costs, Role::Receive, stored_by_peer);
            if only_network {
                changed(costs, Role::Send, nothing_copied)
            } else {
                costs
            }
        };
        (costs.into_iter().map(change).collect(), network)
    }
}

fn changed(costs: RoleCosts, role: Role, change: fn(WorkerCosts) -> WorkerCosts) -> RoleCosts {
    let own = change(*costs.of(role));
    costs.with(role, own)
}

/// Who receives finds the data where it is to be.
fn stored_by_peer(costs: WorkerCosts) -> WorkerCosts {
    WorkerCosts {
        local_rate: UNLIMITED,
        ..costs
    }
}

/// Nor does who sends have to touch it.
fn nothing_copied(costs: WorkerCosts) -> WorkerCosts {
    WorkerCosts {
        send_rate: UNLIMITED,
        local_rate: UNLIMITED,
        ..costs
    }
}

/// Nothing is copied, and the data of all loops is there from the start: ranks agree on loops ahead of
/// the one that moves (NCCL has `NCCL_STEPS` of them under way), so that only the first one waits for
/// that, in each direction.
fn agreed_ahead(costs: RoleCosts, directions: u64) -> RoleCosts {
    let once = costs.of(Role::Up).slice.each.picos() * directions;
    let launch = costs.launch + Time::from_picos(once);
    let costs = changed(costs, Role::Scatter, nothing_copied);
    let costs = changed(costs, Role::Gather, nothing_copied);
    let costs = changed(costs, Role::Up, never_late);
    changed(costs, Role::Down, never_late).launching(launch)
}

fn never_late(costs: WorkerCosts) -> WorkerCosts {
    WorkerCosts {
        slice: SliceCost::default(),
        ..costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ceil(8 f / heads), f = 5 or 6, 4, and 4 or 8 on one host; 6, 7 or 10 on
    /// several.
    #[test]
    fn recommended_channels_are_nccls() {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        let one = |collective, cc| nvls_channels(collective, cc, 1, 8, 0.0);
        assert_eq!([one(ReduceScatter, 90), one(ReduceScatter, 100)], [5, 6]);
        assert_eq!([one(AllGather, 90), one(AllGather, 100)], [4, 4]);
        assert_eq!([one(AllReduce, 90), one(AllReduce, 100)], [4, 8]);
        let several = |cc, interface| nvls_channels(AllReduce, cc, 2, 8, interface);
        assert_eq!(
            [several(90, 50.0), several(100, 50.0), several(100, 100.0)],
            [6, 7, 10]
        );
        assert_eq!(nvls_channels(AllReduce, 100, 1, 32, 0.0), 2);
    }
}
