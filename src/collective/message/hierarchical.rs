//! Two levels: a ring in each node, and a ring over nodes for each local index.

use super::script::{Script, input, output, scratch};

/// Equal nodes of consecutive ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nodes {
    pub(super) nodes: u32,
    pub(super) size: u32,
}

/// A rank's place, and its neighbours in both rings.
struct Place {
    node: u32,
    local: u32,
    next: u32,
    before: u32,
    next_node: u32,
    node_before: u32,
}

/// `a - b` around a ring of `n`; `b` is at most `2 n`.
fn back(a: u32, b: u32, n: u32) -> u32 {
    (a + 2 * n - b) % n
}

impl Nodes {
    fn place(self, rank: u32) -> Place {
        let Nodes { nodes, size } = self;
        let (node, local) = (rank / size, rank % size);
        Place {
            node,
            local,
            next: node * size + (local + 1) % size,
            before: node * size + back(local, 1, size),
            next_node: (node + 1) % nodes * size + local,
            node_before: back(node, 1, nodes) * size + local,
        }
    }

    /// Local index `l` takes care of segments `l * nodes..(l + 1) * nodes`.
    pub(super) fn all_reduce(self, rank: u32) -> Script {
        let Nodes { nodes, size } = self;
        let at = self.place(rank);
        let mut script = Script::default();
        if nodes * size == 1 {
            script.copy(input(0, 1), output(0, 1));
        }
        let (mine, group) = (
            |g: u32| input(g * nodes, nodes),
            |g: u32| output(g * nodes, nodes),
        );
        for k in 0..size - 1 {
            let sent = back(at.local, 1 + k, size);
            script.send(at.next, if k == 0 { mine(sent) } else { group(sent) });
            let got = back(at.local, 2 + k, size);
            script.reduce(at.before, mine(got), group(got));
        }
        let first = at.local * nodes;
        let own: fn(u32, u32) -> _ = if size == 1 { input } else { output };
        for k in 0..nodes - 1 {
            let sent = first + back(at.node, 1 + k, nodes);
            let source = if k == 0 {
                own(sent, 1)
            } else {
                output(sent, 1)
            };
            script.send(at.next_node, source);
            let got = first + back(at.node, 2 + k, nodes);
            script.reduce(at.node_before, own(got, 1), output(got, 1));
        }
        for k in 0..nodes - 1 {
            let sent = output(first + back(at.node, k, nodes), 1);
            script.send(at.next_node, sent);
            let got = output(first + back(at.node, 1 + k, nodes), 1);
            script.receive(at.node_before, got);
        }
        for k in 0..size - 1 {
            script.send(at.next, group(back(at.local, k, size)));
            script.receive(at.before, group(back(at.local, 1 + k, size)));
        }
        script
    }

    /// In a node the blocks of all ranks with one local index go around together.
    pub(super) fn reduce_scatter(self, rank: u32) -> Script {
        let Nodes { nodes, size } = self;
        let at = self.place(rank);
        let mut script = Script::default();
        if nodes * size == 1 {
            script.copy(input(0, 1), output(0, 1));
        }
        // What was received in one step is sent in the next.
        let partial = |step: u32, node: u32| scratch(step % 2 * nodes + node, 1);
        for k in 0..size - 1 {
            for node in 0..nodes {
                let block = |k: u32| input(node * size + back(at.local, k, size), 1);
                let source = if k == 0 {
                    block(1)
                } else {
                    partial(k - 1, node)
                };
                script.send(at.next, source);
                let target = if nodes == 1 && k == size - 2 {
                    output(0, 1)
                } else {
                    partial(k, node)
                };
                script.reduce(at.before, block(2 + k), target);
            }
        }
        let sum = |node: u32| partial(size.saturating_sub(2), node);
        let own = |node: u32| if size == 1 { input(node, 1) } else { sum(node) };
        for k in 0..nodes - 1 {
            let sent = back(at.node, 1 + k, nodes);
            script.send(at.next_node, if k == 0 { own(sent) } else { sum(sent) });
            let got = back(at.node, 2 + k, nodes);
            let target = if k == nodes - 2 {
                output(0, 1)
            } else {
                sum(got)
            };
            script.reduce(at.node_before, own(got), target);
        }
        script
    }

    /// Over nodes first: then each rank has the blocks of its local index.
    pub(super) fn all_gather(self, rank: u32) -> Script {
        let Nodes { nodes, size } = self;
        let at = self.place(rank);
        let mut script = Script::default();
        script.copy(input(0, 1), output(rank, 1));
        let block = |node: u32, local: u32| output(node * size + local, 1);
        for k in 0..nodes - 1 {
            let sent = block(back(at.node, k, nodes), at.local);
            script.send(at.next_node, if k == 0 { input(0, 1) } else { sent });
            let got = block(back(at.node, 1 + k, nodes), at.local);
            script.receive(at.node_before, got);
        }
        for k in 0..size - 1 {
            for node in 0..nodes {
                script.send(at.next, block(node, back(at.local, k, size)));
                script.receive(at.before, block(node, back(at.local, 1 + k, size)));
            }
        }
        script
    }
}
