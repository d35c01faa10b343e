//! Laying algorithms with heads onto the machine: ranks of a host that meet in switches, of NVLinks
//! or of networks.

use super::algorithm::Algorithm;
use super::communicator::Communicator;
use super::error::NcclError;
use super::transport::Way;
use fabricsim_collective::{Between, Collective, ConnId, HeadsProgram, HopKind, Part, Program};
use std::sync::Arc;

impl Communicator<'_> {
    /// The heads of each host (ranks), of algorithms that have some.
    pub(super) fn heads(&self, algorithm: Algorithm) -> Vec<Vec<u32>> {
        let graphs = &self.setup().graphs;
        let count = match algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree => graphs.nvls.map(|g| g.channels),
            Algorithm::CollnetDirect => graphs.collnet_direct.map(|g| g.channels),
            _ => None,
        };
        let count = count.unwrap_or(1) as usize;
        let several = self.hosts.len() > 1;
        self.hosts
            .iter()
            .map(|host| {
                let locals: Vec<usize> = if several {
                    host.owners()
                } else {
                    (0..host.ranks.len()).collect()
                };
                let ranks = locals.into_iter().map(|l| host.ranks[l]);
                ranks.take(count).collect()
            })
            .collect()
    }

    /// The ranks that a loop of multicast memory waits for: those of a host, and in a tree those of
    /// its parent and two children.
    pub(super) fn waited_for(&self, algorithm: Algorithm) -> u32 {
        let host = self.hosts.iter().map(|h| h.ranks.len()).max().unwrap_or(1);
        let hosts = match algorithm {
            Algorithm::NvlsTree => self.hosts.len().min(4),
            _ => 1,
        };
        (host * hosts) as u32
    }

    /// Between `heads`, the ranks with interfaces of a channel, and the network's switches: up
    /// and down.
    pub(super) fn switch_ways(
        &mut self,
        heads: &[u32],
        channel: u32,
    ) -> Result<[Way; 2], NcclError> {
        let mut members = Vec::with_capacity(heads.len());
        for &rank in heads {
            let (host, local) = self.place_of[rank as usize];
            let door = self.hosts[host as usize].door(channel);
            let own = door.filter(|d| d.local == local as usize).map(|d| d.nic);
            let nic = own.or(self.hosts[host as usize].nics[local as usize]);
            members.push((
                self.gpus[rank as usize],
                nic.ok_or_else(|| self.no_nic(rank))?,
            ));
        }
        self.ways.reduction_tree(&members, u64::from(channel))
    }

    pub(super) fn with_heads(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
        heads: &[Vec<u32>],
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let between = match (self.hosts.len(), algorithm) {
            (1, _) => Between::Nothing,
            (_, Algorithm::NvlsTree) => Between::Trees,
            _ => Between::Switches,
        };
        let multicast = algorithm != Algorithm::CollnetDirect;
        let hosts: Vec<(Vec<u32>, Vec<u32>)> = self
            .hosts
            .iter()
            .zip(heads)
            .map(|(host, heads)| (host.ranks.clone(), heads.clone()))
            .collect();
        let blocks = collective != Collective::AllReduce;
        if blocks && (hosts.len() > 1 || heads[0].len() != self.gpus.len()) {
            return Err(NcclError::NothingLeft {
                collective: collective.name(),
                reason: format!("{algorithm} needs one host in which every rank is a head"),
            });
        }
        // The ways that switches serve, by head: inside its host, and by channel between hosts.
        let mut inside = vec![[Way::LOCAL; 2]; self.gpus.len()];
        let waited_for = self.waited_for(algorithm);
        // What goes up and what comes down between hosts are other warps' (NCCL: `all_reduce.h`,
        // `runNvlsTree`), and with registered buffers no loop waits for copies: ports never pause.
        let sustained = between != Between::Nothing || self.env().zero_copy();
        if multicast {
            for (ranks, heads) in &hosts {
                let members: Vec<_> = ranks.iter().map(|&r| self.gpus[r as usize]).collect();
                for &head in heads {
                    let gpu = self.gpus[head as usize];
                    let model = &self.architectures[usize::from(self.rank_models[head as usize])];
                    let nvls = model.nvls.as_ref();
                    let share = nvls.map_or(1.0, |m| m.reached(waited_for, sustained));
                    inside[head as usize] = self.ways.multicast(gpu, &members, share)?;
                }
            }
        }
        let mut outside = Vec::new();
        if between == Between::Switches {
            for channel in 0..parts.len() as u32 {
                let group = |index: usize| heads.iter().map(move |host| host[index]);
                let groups = (0..heads[0].len()).map(|index| group(index).collect::<Vec<_>>());
                let ways = groups.map(|group| self.switch_ways(&group, channel));
                outside.push(ways.collect::<Result<Vec<_>, _>>()?);
            }
        }
        let mut index_of = vec![0; self.gpus.len()];
        for host in heads {
            for (index, &head) in host.iter().enumerate() {
                index_of[head as usize] = index;
            }
        }
        // One connection of a group carries the bytes of all.
        let group = |way: Way, first: bool| if first { way } else { way.carried() };
        let program = HeadsProgram::new(collective, bytes, &hosts, between, parts);
        let mut ways = Vec::with_capacity(program.connections() as usize);
        for c in (0..program.connections()).map(ConnId) {
            let ends = program.connection(c);
            let (from, to) = (program.worker(ends.from), program.worker(ends.to));
            let (a, b) = (from.rank.0, to.rank.0);
            let channel = usize::from(from.channel);
            let switches =
                |head: u32, direction: usize| outside[channel][index_of[head as usize]][direction];
            ways.push(match program.kind(ends) {
                HopKind::ToHead { first } if multicast => group(inside[b as usize][0], first),
                HopKind::FromHead { first } if multicast => group(inside[a as usize][1], first),
                HopKind::ToHead { .. } | HopKind::FromHead { .. } => self.way(a, b, None, 0)?,
                HopKind::Network => {
                    let nics = Some(self.own_nics(a, b)?);
                    self.way(a, b, nics, channel as u64)?
                }
                HopKind::ToSwitch { first } => group(switches(a, 0), first),
                HopKind::FromSwitch { first } => group(switches(b, 1), first),
            });
        }
        Ok((Arc::new(program), ways))
    }
}
