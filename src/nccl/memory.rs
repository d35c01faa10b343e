//! What a communicator's buffers take of a GPU's memory.
//!
//! Sources: NCCL 2.30 (`init.cc` for the buffers of a connection, `transport/p2p.cc` and
//! `transport/net.cc` for who has them, `transport/nvls.cc`), and what was seen of it: NVIDIA/nccl
//! issue 1685 (10 MiB where a connection receives, 2 MiB where it sends), 986 (memory grows with
//! channels, not with nodes beyond two) and 2363 (the pool that sends over a network share).

use super::communicator::Communicator;
use super::p2p::Channels;
use fabricsim_collective::Collective;
use fabricsim_units::Bytes;

/// What a communicator is used for: connections are made when they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// Collectives by rings and trees, or in switches.
    Collectives,
    /// Every rank sends to every other one.
    AllToAll,
    /// Ranks send to and receive from their neighbours, first and last one being some.
    Neighbours,
}

/// The driver hands out device memory in pages of this size.
const PAGE: u64 = 2 << 20;
/// Slots of a connection (`NCCL_STEPS`).
const STEPS: u64 = 8;
/// Slots of the pool of sends over a network, of each channel and direction
/// (`NCCL_SHARED_STEPS`).
const SHARED_STEPS: u64 = 16;

impl Communicator<'_> {
    /// What the buffers of a rank take, if all that `traffic` needs is connected: of the rank that
    /// has most.
    #[must_use]
    pub fn buffers(&self, traffic: Traffic) -> Bytes {
        if self.ranks() < 2 {
            return Bytes::ZERO;
        }
        Bytes::new(match traffic {
            Traffic::Collectives => self.of_rings_and_trees() + self.of_switches(),
            Traffic::AllToAll => self.of_sends(u64::from(self.ranks() - 1)),
            Traffic::Neighbours => self.of_sends(u64::from(self.ranks() - 1).min(2)),
        })
    }

    /// Rings have two neighbours, and so have the chains of trees inside a host: the same ones.
    /// Between hosts trees have others, if there are more than two.
    fn of_rings_and_trees(&self) -> u64 {
        let alone = self.setup().most_local == 1;
        let between_hosts = if alone { 4 } else { 2 };
        let peers = u64::from(self.ranks() - 1).min(between_hosts);
        let sent = if alone { self.of_sender() } else { PAGE };
        u64::from(self.channels()) * peers * (self.of_receiver() + sent)
    }

    /// Where a connection ends: slots of all protocols.
    fn of_receiver(&self) -> u64 {
        let env = self.env();
        let all = env.ll_buffer.get() + env.ll128_buffer.get() + env.buffer.get();
        all.next_multiple_of(PAGE)
    }

    /// Where it begins, over a network with GPUDirect: as that, but for LL, whose slots are on the
    /// host.
    fn of_sender(&self) -> u64 {
        let env = self.env();
        (env.ll128_buffer.get() + env.buffer.get()).next_multiple_of(PAGE)
    }

    /// Slots for multicast: of each head and channel, to it and from it.
    fn of_switches(&self) -> u64 {
        let heads = self.setup().graphs.nvls.map_or(0, |graph| graph.channels);
        if self.setup().nvls.is_err() {
            return 0;
        }
        let channels = u64::from(self.nvls_channels(Collective::AllReduce, heads));
        let each = 2 * STEPS * self.env().nvls_chunk.get();
        (channels * u64::from(heads) * each).next_multiple_of(PAGE)
    }

    /// Sends to so many peers and as many receives: of each peer on the host connections of its own,
    /// of those beyond a network the pool.
    fn of_sends(&self, peers: u64) -> u64 {
        let Channels { all, per_peer } = self.p2p_channels();
        let on_host = u64::from(self.setup().most_local - 1).min(peers);
        let local = on_host * u64::from(per_peer) * (self.of_receiver() + PAGE);
        let shared = if self.setup().hosts > 1 {
            2 * SHARED_STEPS * u64::from(all) * self.env().p2p_net_chunk.get()
        } else {
            0
        };
        local + shared
    }
}
