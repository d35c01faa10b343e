//! Trees in words.

use super::{Explanation, TreeOf, TreeView};
use crate::numbers::size;

impl Explanation {
    /// Each tree, from the root on.
    pub(super) fn tree_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let several = self.trees.len() > 1;
        if several {
            lines.push(match self.trees[0].of {
                TreeOf::Ranks if self.nodes < self.ranks => "Two binary trees between the first ranks of nodes, each for half of the data (a node inside of one is a leaf of the other); in each node a chain.".to_owned(),
                TreeOf::Ranks => "Two binary trees, each for half of the data: what is inside of one is a leaf of the other.".to_owned(),
                TreeOf::Nodes => "Two binary trees between nodes, each for half of the data: a node inside of one is a leaf of the other. Each rank goes on with its share over the ranks of its index.".to_owned(),
            });
        }
        for (k, tree) in self.trees.iter().enumerate() {
            match chain(tree) {
                Some(chain) if !several => {
                    let inside = if self.algorithm == "tree" && self.nodes == 1 {
                        "Inside a node NCCL's tree is a chain"
                    } else {
                        "The tree is a chain"
                    };
                    lines.push(format!("{inside}: {}.", joined(&chain, " ← ")));
                }
                _ => {
                    let whose = match tree.of {
                        TreeOf::Ranks => "ranks",
                        TreeOf::Nodes => "nodes",
                    };
                    lines.push(format!(
                        "Tree {}, {whose}, {}:",
                        k + 1,
                        size(tree.bytes as f64)
                    ));
                    for (level, all) in levels(tree).iter().enumerate() {
                        lines.push(format!("  level {level}: {}", all.join("  ")));
                    }
                }
            }
        }
        lines
    }
}

fn joined(ranks: &[u32], by: &str) -> String {
    let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
    names.join(by)
}

/// The root, its only child, and so on, if nothing has two children.
fn chain(tree: &TreeView) -> Option<Vec<u32>> {
    let mut way: Vec<u32> = Vec::new();
    let mut above = None;
    loop {
        let mut below = children(tree, above);
        match (below.next(), below.next()) {
            (Some(next), None) => way.push(next),
            (None, _) => return Some(way),
            _ => return None,
        }
        above = way.last().copied();
    }
}

/// What is below one, or the root.
fn children(tree: &TreeView, above: Option<u32>) -> impl Iterator<Item = u32> + '_ {
    let all = (0u32..).zip(&tree.parents);
    all.filter(move |(_, parent)| **parent == above)
        .map(|(one, _)| one)
}

/// By distance from the root: `2→4` is 2 below 4.
fn levels(tree: &TreeView) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let mut level: Vec<u32> = children(tree, None).collect();
    while !level.is_empty() {
        let name = |&one: &u32| match tree.parents[one as usize] {
            Some(parent) => format!("{one}→{parent}"),
            None => one.to_string(),
        };
        out.push(level.iter().map(name).collect());
        level = level
            .iter()
            .flat_map(|&one| children(tree, Some(one)))
            .collect();
    }
    out
}
