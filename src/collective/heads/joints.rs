//! The places of hosts in the trees between them, and the numbers of their connections.

use super::Between;
use crate::collective::tree::binary_parent;

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
