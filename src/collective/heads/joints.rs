//! The places of hosts in the trees between them, and the numbers of their connections.

use super::Between;
use crate::tree::binary_parent;

#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) ranks: Vec<u32>,
    pub(super) heads: Vec<u32>,
}

/// A host's place in one of the trees. Numbers are of connections, relative to the
/// channel's first, of head 0; each other head's are `stride` further on.
#[derive(Debug, Clone, Default)]
pub(super) struct Joint {
    pub(super) parent: Option<u32>,
    pub(super) children: Vec<u32>,
    /// Into the head: from each local rank, then from children.
    pub(super) into: u32,
    pub(super) into_stride: u32,
    /// Out of the head: to each local rank, then to children.
    pub(super) out: u32,
    pub(super) out_stride: u32,
    /// Its place among its parent's children.
    pub(super) nth: u32,
}

/// Places of all hosts in a tree, and the numbers of their connections.
pub(super) fn joints(hosts: &[Host], heads: u32, between: Between, second: bool) -> Vec<Joint> {
    let n = hosts.len() as u32;
    let mut joints: Vec<Joint> = vec![Joint::default(); hosts.len()];
    if between == Between::Trees {
        for host in 0..n {
            let parent = binary_parent(n, host, second);
            joints[host as usize].parent = parent;
            if let Some(parent) = parent {
                let siblings = &mut joints[parent as usize].children;
                siblings.push(host);
                joints[host as usize].nth = joints[parent as usize].children.len() as u32 - 1;
            }
        }
    }
    let mut next = 0;
    for (joint, host) in joints.iter_mut().zip(hosts) {
        let block = (host.ranks.len() + joint.children.len()) as u32;
        (joint.into, joint.into_stride) = (next, block);
        (joint.out, joint.out_stride) = (next + heads * block, block);
        next += 2 * heads * block;
    }
    joints
}

/// Which host a connection is of: looked up by parts of so many (as a power of two), fewer than a
/// large host has.
const PART: u32 = 6;

/// Whose connections are whose.
#[derive(Debug, Clone)]
pub(super) struct Owners {
    /// The host of the first connection of each part.
    at: Vec<u32>,
}

impl Owners {
    pub(super) fn new(joints: &[Joint]) -> Self {
        let mut at = Vec::new();
        for (host, joint) in (0..).zip(joints) {
            // As many go out as come in.
            let end = joint.out + (joint.out - joint.into);
            while (at.len() as u32) << PART < end {
                at.push(host);
            }
        }
        Owners { at }
    }

    /// The host of a connection, relative to the channel's first.
    pub(super) fn of(&self, connection: u32, joints: &[Joint]) -> usize {
        let mut host = self.at[(connection >> PART) as usize] as usize;
        while joints
            .get(host + 1)
            .is_some_and(|next| next.into <= connection)
        {
            host += 1;
        }
        host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_is_of_the_host_whose_numbers_it_is_among() {
        // Hosts of one to seven ranks: parts hold several hosts, and hosts several parts.
        let hosts: Vec<Host> = (0..40u32)
            .map(|host| Host {
                ranks: (0..1 + host % 7).collect(),
                heads: vec![0],
            })
            .collect();
        for heads in [1, 8] {
            let joints = joints(&hosts, heads, Between::Trees, true);
            let owners = Owners::new(&joints);
            let last = &joints[joints.len() - 1];
            for connection in 0..last.out + (last.out - last.into) {
                let among = joints.partition_point(|j| j.into <= connection) - 1;
                assert_eq!(owners.of(connection, &joints), among);
            }
        }
    }
}
