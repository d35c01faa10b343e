//! Laying algorithms whose ranks follow each other onto the machine: rings, trees, and the chains of
//! hosts that meet in switches of networks.

use super::communicator::Communicator;
use super::error::NcclError;
use super::gates::start_of;
use super::transport::Way;
use fabricsim_collective::{
    ChainProgram, Chains, Collective, ConnId, Part, Program, RingProgram, Rings, Role, Tree,
    TreeProgram, binary_parent,
};
use std::sync::Arc;

impl Communicator<'_> {
    /// `NCCL_MIN_NCHANNELS` beyond the rings found uses them again from the first.
    fn rings_for(&self, channels: u16) -> Arc<Rings> {
        if channels <= self.graph.rings.channels() {
            Arc::clone(&self.graph.rings)
        } else {
            Arc::new(self.graph.rings.repeated(channels))
        }
    }

    pub(super) fn ring(
        &mut self,
        collective: Collective,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let channels = parts.len() as u16;
        let rings = self.rings_for(channels);
        let program = RingProgram::new(collective, bytes, Arc::clone(&rings), parts);
        while self.ring_ways.len() < usize::from(channels) {
            let channel = self.ring_ways.len() as u16;
            let ways = match self.same_ring(&rings, channel) {
                Some(before) => Arc::clone(&self.ring_ways[usize::from(before)]),
                None => self.ways_of_ring(&rings, channel)?.into(),
            };
            self.ring_ways.push(ways);
        }
        let ways = (0..program.connections())
            .map(|c| {
                let from = program.worker(program.connection(ConnId(c)).from);
                self.ring_ways[usize::from(from.channel)][from.rank.index()]
            })
            .collect();
        Ok((Arc::new(program), ways))
    }

    /// A channel before this one whose connections take the same ways.
    fn same_ring(&self, rings: &Rings, channel: u16) -> Option<u16> {
        let gates = |channel| &self.graph.gates[usize::from(channel) % self.graph.gates.len()];
        let same = |&before: &u16| {
            rings.have_same_order(before, channel) && gates(before) == gates(channel)
        };
        (0..channel)
            .find(same)
            .filter(|_| !self.ways.hashes_flows())
    }

    /// The ways of a ring's connections, by sending rank.
    fn ways_of_ring(&mut self, rings: &Rings, channel: u16) -> Result<Vec<Way>, NcclError> {
        let order = rings.order(channel);
        let gates = self.graph.gates[usize::from(channel) % self.graph.gates.len()].clone();
        let mut ways: Vec<Option<Way>> = vec![None; order.len()];
        for (position, &rank) in order.iter().enumerate() {
            let next = order[(position + 1) % order.len()];
            let (here, there) = (
                self.place_of[rank as usize].0,
                self.place_of[next as usize].0,
            );
            let nics = if here == there {
                None
            } else {
                let out = gates[here as usize]
                    .leave
                    .ok_or_else(|| self.no_nic(rank))?;
                let into = gates[there as usize]
                    .enter
                    .ok_or_else(|| self.no_nic(next))?;
                Some((out, into))
            };
            ways[rank as usize] = Some(self.way(rank, next, nics, u64::from(channel))?);
        }
        Ok(ways.into_iter().flatten().collect())
    }

    /// The chain of a channel through a host: from the GPU with the channel's interface.
    fn chain_of(&self, host: usize, channel: u32) -> Vec<u32> {
        // The ways that rings found; on several hosts, which are alike, one after the other.
        if self.hosts.len() == 1 || self.graph.meshed {
            let rings = u32::from(self.graph.rings.channels());
            let order = self.graph.rings.order((channel % rings) as u16);
            let g = self.hosts[host].ranks.len();
            return order[host * g..][..g].to_vec();
        }
        let host = &self.hosts[host];
        let (g, start) = (host.ranks.len(), start_of(host, channel));
        let mut locals: Vec<usize> = (0..g).map(|i| (start + i) % g).collect();
        // The second GPU takes part in the network's traffic if it is as near.
        if g > 2 && host.door(channel).and_then(|d| d.mate) == Some((start + g - 1) % g) {
            locals[1..].reverse();
        }
        locals.into_iter().map(|l| host.ranks[l]).collect()
    }

    /// The tree of a channel. Channels beyond the search's are the complementary trees.
    fn tree_of(&self, channel: u32) -> Result<Tree, NcclError> {
        let found = self.setup().graphs.tree.channels.max(1);
        let second = (channel / found) % 2 == 1;
        let within = channel % found;
        let hosts = self.hosts.len() as u32;
        let chains: Vec<Vec<u32>> = (0..self.hosts.len())
            .map(|h| self.chain_of(h, within))
            .collect();
        let plain = self.setup().graphs.tree.plain_tree;
        let mut parents = vec![None; self.gpus.len()];
        let mut first_child = vec![true; self.hosts.len()];
        for (h, chain) in chains.iter().enumerate() {
            for pair in chain.windows(2) {
                parents[pair[1] as usize] = Some(pair[0]);
            }
            parents[chain[0] as usize] = binary_parent(hosts, h as u32, second).map(|above| {
                let above = above as usize;
                // Balanced: the first child host attaches to the second GPU of the chain.
                let at = usize::from(!plain && first_child[above] && chains[above].len() > 1);
                first_child[above] = false;
                chains[above][at]
            });
        }
        Tree::new(&parents).map_err(|error| NcclError::NothingLeft {
            collective: "a tree",
            reason: error.to_string(),
        })
    }

    pub(super) fn tree(
        &mut self,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        while self.trees.len() < parts.len() {
            let tree = self.tree_of(self.trees.len() as u32)?;
            self.trees.push(Arc::new(tree));
        }
        let trees = self.trees[..parts.len()].to_vec();
        let program = TreeProgram::new(bytes, trees, parts);
        let found = self.setup().graphs.tree.channels.max(1);
        let ways = self.ways_of(&program, |comm, a, b, channel| {
            comm.channel_nics(a, b, channel % found)
        })?;
        Ok((Arc::new(program), ways))
    }

    pub(super) fn chain(
        &mut self,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let found = self.setup().graphs.collnet_chain.channels.max(1);
        let chains: Vec<Chains> = (0..parts.len() as u32)
            .map(|c| {
                let hosts = 0..self.hosts.len();
                hosts.map(|h| self.chain_of(h, c % found)).collect()
            })
            .collect();
        let mut groups = Vec::with_capacity(chains.len());
        for (channel, chains) in (0..).zip(&chains) {
            let heads: Vec<u32> = chains.iter().map(|chain| chain[0]).collect();
            groups.push(self.switch_ways(&heads, channel % found)?);
        }
        let program = ChainProgram::new(bytes, &chains, parts);
        let mut ways = Vec::with_capacity(program.connections() as usize);
        for c in 0..program.connections() {
            let ends = program.connection(ConnId(c));
            let (from, to) = (program.worker(ends.from), program.worker(ends.to));
            let channel = usize::from(from.channel);
            // The first host's carries the bytes of all.
            let group = |head: u32, way: Way| {
                let first = chains[channel][0][0] == head;
                if first { way } else { way.carried() }
            };
            ways.push(match (from.role, to.role) {
                (_, Role::Switch) => group(from.rank.0, groups[channel][0]),
                (Role::Switch, _) => group(to.rank.0, groups[channel][1]),
                _ => self.way(from.rank.0, to.rank.0, None, 0)?,
            });
        }
        Ok((Arc::new(program), ways))
    }
}
