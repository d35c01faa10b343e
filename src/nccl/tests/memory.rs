//! Buffers against what was seen of NCCL, and by hand.

use super::*;

const MIB: u64 = 1 << 20;

fn buffers(name: &str, nodes: u32, per_node: u32, env: &Env, traffic: Traffic) -> u64 {
    let topology = load(name, &Overrides { nodes: Some(nodes) }).unwrap();
    let communicator = Communicator::new(&topology, Some(per_node), env, 1).unwrap();
    communicator.buffers(traffic).get()
}

/// NVIDIA/nccl issue 1685: after the first all-to-all of 8 H100 each has 3.28 GB more, in blocks of
/// 10 and 2 MiB for each of 32 channels of 7 peers; those are 2.82 GB.
#[test]
fn an_all_to_all_on_one_node_takes_gigabytes() {
    let found = buffers("dgx-h100", 1, 8, &Env::default(), Traffic::AllToAll);
    assert_eq!(found, 7 * 32 * 12 * MIB);
}

/// NVIDIA/nccl issue 964: groups of two A100 and of more took 544 and 688 MB with all that a process
/// has beside; a second neighbour is what differs.
#[test]
fn a_ring_has_two_neighbours_at_any_size() {
    let of = |gpus| buffers("dgx-a100", 1, gpus, &Env::default(), Traffic::Collectives);
    let pair = of(2);
    assert_eq!(pair, 24 * 12 * MIB);
    assert_eq!(of(4), 2 * pair);
    assert_eq!(of(8), 2 * pair);
    assert_eq!(of(1), 0);
}

/// NVIDIA/nccl issue 986: memory does not grow beyond a few nodes, and is linear in channels.
#[test]
fn buffers_grow_with_channels_and_not_with_nodes() {
    let env = |most| Env {
        max_channels: Some(most),
        ..Env::default()
    };
    let of = |nodes, most| buffers("dgx-a100", nodes, 1, &env(most), Traffic::Collectives);
    assert_eq!(of(8, 1), of(5, 1));
    assert_eq!(of(8, 2), 2 * of(8, 1));
    // Both ends are on GPUs: 10 MiB each, of two neighbours of the ring and two of the tree.
    assert_eq!(of(8, 1), 4 * 20 * MIB);
    let off = Env { nvls: 0, ..env(16) };
    let rings = buffers("dgx-h100", 1, 8, &off, Traffic::Collectives);
    let all = buffers("dgx-h100", 1, 8, &env(16), Traffic::Collectives);
    // 8 heads, 16 channels, 8 slots of 128 KiB to and from each.
    assert_eq!(all - rings, 8 * 16 * 2 * 8 * MIB / 8);
}

/// Over a network sends of all peers share 16 slots of 128 KiB of a channel, in each direction.
#[test]
fn neighbours_beyond_a_network_share_a_pool() {
    let env = Env::default();
    let of = |nodes| buffers("dgx-a100", nodes, 1, &env, Traffic::Neighbours);
    assert_eq!(of(2), of(16));
    assert_eq!(of(2) % (2 * 16 * MIB / 8), 0);
    assert!((MIB..512 * MIB).contains(&of(2)));
}
