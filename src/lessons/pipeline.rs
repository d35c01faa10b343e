//! In how many chunks data goes through algorithms that pass chunks on.

use super::{ExplainAlgorithm, ExplainSpec};
use fabricsim_collective::{Collective, binary_parent};

/// How an algorithm passes chunks on, several of which are under way at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pipeline {
    /// Messages that follow each other for one chunk.
    pub(super) steps: u32,
    /// What the busiest port moves of a chunk, of its size.
    pub(super) moved: f64,
    /// The data is divided over so many trees, each of which has chunks of its own.
    pub(super) parts: u32,
    /// Columns of the tables that a chunk takes.
    pub(super) columns: u32,
}

/// Tables of more columns are nothing that anybody reads.
const MOST_COLUMNS: u32 = 64;

impl Pipeline {
    /// Of algorithms that pass chunks on over more than one step.
    pub(super) fn of(
        algorithm: ExplainAlgorithm,
        collective: Collective,
        ranks: u32,
        nodes: u32,
    ) -> Option<Self> {
        let local = ranks / nodes;
        let share = 1.0 / f64::from(local);
        let inner = local - 1;
        let depths = [false, true].map(|second| depth(nodes, second));
        let deepest = depths.into_iter().max().unwrap_or(0);
        let parts = if nodes > 1 { 2 } else { 1 };
        let pipeline = |steps, moved, parts, columns| {
            Some(Pipeline {
                steps,
                moved,
                parts,
                columns,
            })
        };
        match algorithm {
            ExplainAlgorithm::Ring | ExplainAlgorithm::CpuRing
                if matches!(collective, Collective::Broadcast | Collective::Reduce) =>
            {
                pipeline(ranks - 1, 1.0, 1, 1)
            }
            ExplainAlgorithm::Tree => {
                let chains = if nodes > 1 && inner > 0 { 1.0 } else { 0.0 };
                pipeline(2 * (deepest + inner), 2.0 + chains, parts, 1)
            }
            ExplainAlgorithm::BinaryTree => pipeline(2 * depth(ranks, false), 3.0, 1, 1),
            ExplainAlgorithm::CollnetChain => pipeline(2 * inner + 1, 2.0, 1, 1),
            ExplainAlgorithm::CollnetDirect if nodes == 1 => {
                pipeline(2, 2.0 - 2.0 * share, 1, local)
            }
            ExplainAlgorithm::CollnetDirect if local > 1 => pipeline(3, 2.0 - share, 1, local),
            ExplainAlgorithm::Nvls | ExplainAlgorithm::NvlsTree
                if nodes == 1 && collective == Collective::AllReduce =>
            {
                pipeline(2, 1.0 + share, 1, local)
            }
            ExplainAlgorithm::Nvls if nodes > 1 => pipeline(3, 1.0 + 2.0 * share, 1, local),
            ExplainAlgorithm::NvlsTree => {
                pipeline(2 + 2 * deepest, 1.0 + 3.0 * share, parts, local)
            }
            _ => None,
        }
        .filter(|p| p.steps > 1)
    }

    /// The chunk with which `bytes` are soonest done: of k chunks of each part the last is through
    /// after (steps - 1 + k)(α + moved S/kB), which is least at k² = (steps - 1) moved S/B / α. There are
    /// at least so many that they can be seen to follow each other, and not more than tables can show.
    pub(super) fn chunk(&self, spec: &ExplainSpec, bytes: u64) -> u64 {
        let part = bytes.div_ceil(u64::from(self.parts));
        let moving = part as f64 / spec.rate.bytes_per_sec().max(1) as f64 * 1e6;
        let waits = f64::from(self.steps - 1);
        let best = (waits * self.moved * moving / spec.latency.micros().max(1e-6)).sqrt();
        // Powers of two divide most sizes into chunks of one size.
        let least = if self.columns > 1 { 1 } else { 2 };
        let most = MOST_COLUMNS / (self.parts * self.columns);
        let most = most.checked_ilog2().unwrap_or(0).max(least);
        let power = best.max(1.0).log2().round().min(63.0) as u32;
        let count = 1u64 << power.clamp(least, most);
        part.div_ceil(count).next_multiple_of(16).max(16)
    }
}

/// The longest way from a node to the root of NCCL's first or second tree.
fn depth(nodes: u32, second: bool) -> u32 {
    let above = |&node: &u32| binary_parent(nodes, node, second);
    let way = |node| std::iter::successors(Some(node), above).count() as u32 - 1;
    (0..nodes).map(way).max().unwrap_or(0)
}
