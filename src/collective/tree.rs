//! All-reduce over trees: sums go up to a root and the result comes down, chunk by chunk,
//! both at the same time.
//!
//! Step lists: NCCL 2.30 `all_reduce.h` (`runTreeSplit`), restated. Between hosts NCCL
//! uses two complementary binary trees (Sanders, Speck & Träff 2009), each for half of the
//! channels; inside a host a chain.

use super::goal::Collective;
use super::program::{
    At, Buffer, ConnId, Connection, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use super::ring::Part;
use std::sync::Arc;

/// Most children of a rank: one in its host, two in others.
const MOST_CHILDREN: usize = 3;

/// A tree over all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    root: u32,
    parents: Vec<u32>,
    children: Vec<[u32; MOST_CHILDREN]>,
}

const NOBODY: u32 = u32::MAX;

/// Why parents make no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Not exactly one rank is without a parent.
    #[error("{0} ranks have no parent; a tree has one root")]
    Roots(usize),
    /// A rank has more children than a kernel can take in.
    #[error("rank {rank} has {children} children, more than {MOST_CHILDREN}")]
    Children {
        /// The rank.
        rank: u32,
        /// How many children it has.
        children: usize,
    },
    /// A parent that does not exist, or ranks that are their own ancestors.
    #[error("rank {0} does not descend from the root")]
    Detached(u32),
}

impl Tree {
    /// A tree by the parent of each rank.
    ///
    /// # Errors
    /// Parents that make no tree, or one with too many children.
    pub fn new(parents: &[Option<u32>]) -> Result<Self, TreeError> {
        let roots: Vec<usize> = (0..parents.len())
            .filter(|&r| parents[r].is_none())
            .collect();
        let [root] = roots.as_slice() else {
            return Err(TreeError::Roots(roots.len()));
        };
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); parents.len()];
        for (rank, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                lists
                    .get_mut(parent as usize)
                    .ok_or(TreeError::Detached(rank as u32))?
                    .push(rank as u32);
            }
        }
        let mut seen = vec![false; parents.len()];
        let mut open = vec![*root as u32];
        while let Some(rank) = open.pop() {
            seen[rank as usize] = true;
            open.extend(&lists[rank as usize]);
        }
        if let Some(rank) = seen.iter().position(|s| !s) {
            return Err(TreeError::Detached(rank as u32));
        }
        let mut children = vec![[NOBODY; MOST_CHILDREN]; parents.len()];
        for (rank, list) in lists.iter().enumerate() {
            if list.len() > MOST_CHILDREN {
                return Err(TreeError::Children {
                    rank: rank as u32,
                    children: list.len(),
                });
            }
            children[rank][..list.len()].copy_from_slice(list);
        }
        Ok(Tree {
            root: *root as u32,
            parents: parents.iter().map(|p| p.unwrap_or(NOBODY)).collect(),
            children,
        })
    }

    /// How many ranks it spans.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.parents.len() as u32
    }

    /// Its root.
    #[must_use]
    pub fn root(&self) -> u32 {
        self.root
    }

    /// A rank's parent.
    #[must_use]
    pub fn parent(&self, rank: u32) -> Option<u32> {
        Some(self.parents[rank as usize]).filter(|&p| p != NOBODY)
    }

    /// A rank's children, in order.
    pub fn children(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        let all = self.children[rank as usize].iter().copied();
        all.take_while(|&c| c != NOBODY)
    }

    /// The longest way from a rank to the root.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let mut deepest = 0;
        let mut open = vec![(self.root, 0)];
        while let Some((rank, depth)) = open.pop() {
            deepest = deepest.max(depth);
            open.extend(self.children(rank).map(|c| (c, depth + 1)));
        }
        deepest
    }
}

/// The parent of `host` in the first or the `second` of two complementary binary trees over
/// `hosts`: each host is a leaf of one of them at least (but for the roots).
///
/// NCCL `trees.cc`, restated. First tree: host 0 is the root, and the largest power of two
/// below `hosts` its only child; else, with b the lowest bit set, the parent is the host
/// without b and with 2b, or without b where there is no such host. Second tree: the first
/// mirrored (even number of hosts) or shifted by one (odd).
#[must_use]
pub fn binary_parent(hosts: u32, host: u32, second: bool) -> Option<u32> {
    if second {
        return if hosts.is_multiple_of(2) {
            binary_parent(hosts, hosts - 1 - host, false).map(|p| hosts - 1 - p)
        } else {
            binary_parent(hosts, (host + hosts - 1) % hosts, false).map(|p| (p + 1) % hosts)
        };
    }
    if host == 0 {
        return None;
    }
    let bit = host & host.wrapping_neg();
    let up = (host ^ bit) | (bit << 1);
    Some(if up >= hosts { host ^ bit } else { up })
}

/// An all-reduce on trees, one for each channel.
#[derive(Debug, Clone)]
pub struct TreeProgram {
    bytes: u64,
    trees: Vec<Arc<Tree>>,
    parts: Vec<Part>,
}

impl TreeProgram {
    /// An all-reduce of `bytes`, `parts[c]` of it on tree `trees[c]`.
    ///
    /// # Panics
    /// If there are not as many trees as parts, they differ in size, or a chunk is zero.
    #[must_use]
    pub fn new(bytes: u64, trees: Vec<Arc<Tree>>, parts: Vec<Part>) -> Self {
        assert_eq!(trees.len(), parts.len(), "a tree for each part");
        assert!(trees.windows(2).all(|w| w[0].ranks() == w[1].ranks()));
        assert!(parts.iter().all(|p| p.chunk > 0), "chunks hold something");
        TreeProgram {
            bytes,
            trees,
            parts,
        }
    }

    fn channels(&self) -> u32 {
        self.parts.len() as u32
    }

    /// The connection between a rank and its parent; `down` for the way back.
    fn to_parent(&self, channel: u16, rank: u32, down: bool) -> ConnId {
        // The root has none, so those after it move up.
        let root = self.trees[usize::from(channel)].root;
        let index = rank - u32::from(rank > root);
        ConnId((index * self.channels() + u32::from(channel)) * 2 + u32::from(down))
    }

    fn worker_of(&self, channel: u16, rank: u32, down: bool) -> WorkerId {
        WorkerId((rank * self.channels() + u32::from(channel)) * 2 + u32::from(down))
    }
}

impl Program for TreeProgram {
    fn collective(&self) -> Collective {
        Collective::AllReduce
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn waits_inside(&self) -> bool {
        false
    }

    fn ranks(&self) -> u32 {
        self.trees[0].ranks()
    }

    fn workers(&self) -> u32 {
        self.ranks() * self.channels() * 2
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let block = id.0 / 2;
        let (rank, channel) = (block / self.channels(), block % self.channels());
        let role = if !id.0.is_multiple_of(2) {
            Role::Down
        } else if self.trees[channel as usize].root == rank {
            // It turns around what arrives, with all of its warps.
            Role::Block
        } else {
            Role::Up
        };
        Worker {
            rank: Rank(rank),
            channel: channel as u16,
            role,
        }
    }

    fn connections(&self) -> u32 {
        (self.ranks() - 1) * self.channels() * 2
    }

    fn connection(&self, id: ConnId) -> Connection {
        let channel = ((id.0 / 2) % self.channels()) as u16;
        let tree = &self.trees[usize::from(channel)];
        let index = id.0 / 2 / self.channels();
        let rank = index + u32::from(index >= tree.root);
        let parent = tree.parents[rank as usize];
        if id.0.is_multiple_of(2) {
            Connection {
                from: self.worker_of(channel, rank, false),
                to: self.worker_of(channel, parent, false),
            }
        } else {
            // The root turns around: one worker does both.
            Connection {
                from: self.worker_of(channel, parent, parent != tree.root),
                to: self.worker_of(channel, rank, true),
            }
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let Worker {
            rank,
            channel,
            role,
        } = self.worker(worker);
        if role == Role::Down && self.trees[usize::from(channel)].root == rank.0 {
            return 0;
        }
        let part = &self.parts[usize::from(channel)];
        part.len.div_ceil(part.chunk)
    }

    fn repeats(&self) -> bool {
        true
    }

    /// All steps of whole chunks.
    fn same_after(&self, worker: WorkerId, index: u64, shift: u64) -> u64 {
        let part = &self.parts[usize::from(self.worker(worker).channel)];
        part.same_after(part.chunk, index, shift)
    }

    /// All connections of one side are used in every step.
    fn alike(&self, worker: WorkerId) -> Option<u64> {
        let Worker {
            rank,
            channel,
            role,
        } = self.worker(worker);
        let part = &self.parts[usize::from(channel)];
        let tree = &self.trees[usize::from(channel)];
        let same = |p: &Part| p.len == part.len && p.chunk == part.chunk;
        let first = self.parts.iter().position(same)? as u64;
        let children = tree.children(rank.0).count() as u64;
        let is_root = u64::from(tree.root == rank.0);
        Some((first << 1 | u64::from(role == Role::Down)) << 8 | children << 1 | is_root)
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let Worker {
            rank,
            channel,
            role,
        } = self.worker(worker);
        let part = &self.parts[usize::from(channel)];
        let tree = &self.trees[usize::from(channel)];
        let done = index * part.chunk;
        let at = |buffer| {
            Some(At {
                buffer,
                offset: part.offset + done,
            })
        };
        let children = |down| {
            Peers::list(
                tree.children(rank.0)
                    .map(|c| self.to_parent(channel, c, down)),
            )
        };
        let parent = |down| match tree.parent(rank.0) {
            Some(_) => Peers::one(self.to_parent(channel, rank.0, down)),
            None => Peers::NONE,
        };
        let len = part.chunk.min(part.len - done);
        if role == Role::Down {
            return Step {
                recv: parent(true),
                send: children(true),
                target: at(Buffer::Output),
                len,
                ..Step::NOTHING
            };
        }
        let is_root = tree.root == rank.0;
        Step {
            recv: children(false),
            send: if is_root {
                children(true)
            } else {
                parent(false)
            },
            source: at(Buffer::Input),
            target: at(Buffer::Output).filter(|_| is_root),
            len,
            ..Step::NOTHING
        }
    }
}
