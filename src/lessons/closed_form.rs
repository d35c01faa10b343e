//! The costs that textbooks give: Thakur, Rabenseifner, Gropp 2005 and Chan et al. 2007.
//!
//! `N` ranks, `S` bytes of nccl-tests' size, `α` for a message, `B` bytes per second of a
//! port that sends and receives at the same time. Reduction itself costs nothing. Those of trees
//! and switches follow from their steps, which are listed beside them; they hold where chunks are
//! of one size.

use super::ExplainAlgorithm;
use fabricsim_collective::{Collective, MessageAlgorithm};
use fabricsim_report::explanation::ClosedForm;

/// The closed form, if there is one for these ranks.
pub(super) fn closed_form(
    algorithm: ExplainAlgorithm,
    collective: Collective,
    ranks: u32,
    nodes: u32,
    (bytes, chunk): (u64, u64),
) -> Option<ClosedForm> {
    use Collective::{AllReduce, AllToAll, Broadcast, Gather, Reduce, Scatter};
    if ranks < 2 {
        return None;
    }
    let n = f64::from(ranks);
    let power = ranks.is_power_of_two();
    let rounds = f64::from(ranks.next_power_of_two().ilog2());
    let most = (n - 1.0) / n;
    let chunks = bytes.div_ceil(chunk).max(1);
    // Chunks of blocks go one after the other, and are closed forms of their own.
    let blocks =
        !(matches!(collective, AllReduce | Broadcast | Reduce) || collective.is_single_message());
    let one_chunk = chunk
        >= if blocks {
            bytes / u64::from(ranks)
        } else {
            bytes
        };
    let form =
        |formula: &str, steps: f64, volume: f64| Some(form(formula.to_owned(), steps, volume));
    let pipelined = match algorithm {
        ExplainAlgorithm::Tree
        | ExplainAlgorithm::BinaryTree
        | ExplainAlgorithm::CollnetChain
        | ExplainAlgorithm::CollnetDirect => true,
        ExplainAlgorithm::Nvls | ExplainAlgorithm::NvlsTree => collective == AllReduce,
        _ => matches!(collective, Broadcast | Reduce),
    };
    if !one_chunk && !pipelined {
        return None;
    }
    match algorithm {
        ExplainAlgorithm::Ring | ExplainAlgorithm::CpuRing => match collective {
            AllReduce => form("2(N-1) α + 2(N-1)/N S/B", 2.0 * (n - 1.0), 2.0 * most),
            Broadcast | Reduce => {
                let k = chunks as f64;
                let steps = n - 2.0 + k;
                form(&format!("(N-2+k)(α + S/kB), k={k}"), steps, steps / k)
            }
            _ => form("(N-1) α + (N-1)/N S/B", n - 1.0, most),
        },
        ExplainAlgorithm::PointToPoint => match collective {
            AllToAll | Scatter => form("(N-1) α + (N-1)/N S/B", n - 1.0, most),
            Gather => form("α + (N-1)/N S/B", 1.0, most),
            _ if collective.is_single_message() => form("α + S/B", 1.0, 1.0),
            _ => None,
        },
        ExplainAlgorithm::Message(_) if !one_chunk => None,
        ExplainAlgorithm::Message(algorithm) => match (algorithm, collective) {
            (MessageAlgorithm::RecursiveDoubling, AllReduce) if power => {
                form("lg N (α + S/B)", rounds, rounds)
            }
            (MessageAlgorithm::RecursiveDoubling, AllReduce) => {
                form("(⌊lg N⌋ + 2)(α + S/B)", rounds + 1.0, rounds + 1.0)
            }
            (MessageAlgorithm::RecursiveHalving, AllReduce) if power => {
                form("2 lg N α + 2(N-1)/N S/B", 2.0 * rounds, 2.0 * most)
            }
            (MessageAlgorithm::RecursiveHalving, AllReduce) => {
                let p = f64::from(1u32 << ranks.ilog2());
                form(
                    "(2 lg P + 2) α + (2(P-1)/P + 2) S/B, P=2^⌊lg N⌋",
                    2.0 * p.log2() + 2.0,
                    2.0 * (p - 1.0) / p + 2.0,
                )
            }
            (MessageAlgorithm::RecursiveDoubling | MessageAlgorithm::RecursiveHalving, _)
                if power =>
            {
                form("lg N α + (N-1)/N S/B", rounds, most)
            }
            (MessageAlgorithm::Bruck, AllToAll) if power => {
                form("lg N (α + S/2B)", rounds, rounds / 2.0)
            }
            (MessageAlgorithm::Bruck, Collective::AllGather) => {
                form("⌈lg N⌉ α + (N-1)/N S/B", rounds, most)
            }
            (MessageAlgorithm::Hierarchical { .. }, collective) => {
                let (nodes, size) = (f64::from(nodes), n / f64::from(nodes));
                let (times, steps) = match collective {
                    AllReduce => (2.0, 2.0 * (size - 1.0 + nodes - 1.0)),
                    // Blocks go one by one inside nodes.
                    _ if nodes > 1.0 => return None,
                    _ => (1.0, size - 1.0),
                };
                let formula = if times > 1.0 {
                    "2(g-1 + n-1) α + 2(N-1)/N S/B"
                } else {
                    "(N-1) α + (N-1)/N S/B"
                };
                form(formula, steps, times * most)
            }
            (MessageAlgorithm::ParameterServer, AllReduce) => {
                form("N α + 2(N-1) S/B", n, 2.0 * (n - 1.0))
            }
            (MessageAlgorithm::ParameterServer, Broadcast) => {
                form("(N-1)(α + S/B)", n - 1.0, n - 1.0)
            }
            (MessageAlgorithm::ParameterServer, _) => form("α + (N-1) S/B", 1.0, n - 1.0),
            (MessageAlgorithm::Binomial, AllReduce) => {
                form("2 ⌈lg N⌉ (α + S/B)", 2.0 * rounds, 2.0 * rounds)
            }
            (MessageAlgorithm::Binomial, _) => form("⌈lg N⌉ (α + S/B)", rounds, rounds),
            (MessageAlgorithm::Direct, AllReduce) => {
                form("2(N-1) α + 2(N-1)/N S/B", 2.0 * (n - 1.0), 2.0 * most)
            }
            (MessageAlgorithm::Direct, _) => form("(N-1) α + (N-1)/N S/B", n - 1.0, most),
            (MessageAlgorithm::Pat, _) if power => form("lg N α + (N-1)/N S/B", rounds, most),
            _ => None,
        },
        ExplainAlgorithm::Tree if nodes == 1 => Some(chain(n, chunks as f64)),
        ExplainAlgorithm::BinaryTree => binary_tree(ranks, chunks),
        ExplainAlgorithm::CollnetChain => {
            Some(chain_to_network(n / f64::from(nodes), chunks as f64))
        }
        ExplainAlgorithm::Nvls | ExplainAlgorithm::NvlsTree if nodes == 1 => {
            Some(switch(collective, n, chunks as f64))
        }
        ExplainAlgorithm::Nvls => Some(switch_and_network(n / f64::from(nodes), chunks as f64)),
        // Without a network only to each other and back.
        ExplainAlgorithm::CollnetDirect if nodes == 1 => {
            let k = chunks as f64;
            form(
                &format!("(k+1) α + 2(N-1)/N S/B, k={k}"),
                k + 1.0,
                2.0 * most,
            )
        }
        ExplainAlgorithm::CollnetDirect => {
            Some(direct_to_network(n / f64::from(nodes), chunks as f64))
        }
        ExplainAlgorithm::Tree => {
            let each = bytes.div_ceil(2).div_ceil(chunk).max(1);
            double_tree(nodes, ranks / nodes, each)
        }
        // Which heads' ports are busy at the same time depends on the shape of the trees.
        ExplainAlgorithm::NvlsTree => None,
    }
}

fn form(formula: String, steps: f64, volume: f64) -> ClosedForm {
    ClosedForm {
        formula,
        steps,
        volume,
        time_us: 0.0,
    }
}

/// `k` chunks up a chain of `n` ranks and down again: 2(n-1) messages each, one step after the other.
/// The ranks beside the root are the busiest: from the third chunk on they send (and receive) one up
/// and one down in the same step.
fn chain(n: f64, k: f64) -> ClosedForm {
    let steps = 2.0 * n - 3.0 + k;
    if n < 3.0 || k < 3.0 {
        return form(format!("(2N-3+k)(α + S/kB), k={k}"), steps, steps / k);
    }
    let volume = 2.0 * (n - 2.0 + k) / k;
    form(format!("(2N-3+k) α + 2(N-2+k)/k S/B, k={k}"), steps, volume)
}

/// `k` chunks over one binary tree of `n` ranks, a power of two: 2 lg n messages each. The busiest is the
/// root's child: it receives from two children and from the root, and sends up and to two. Where only the
/// sums or only the results are under way it moves two chunks in a step, else three: from the third chunk on.
fn binary_tree(n: u32, k: u64) -> Option<ClosedForm> {
    if n == 2 {
        return Some(chain(2.0, k as f64));
    }
    if !n.is_power_of_two() || k < 3 {
        return None;
    }
    let (l, k) = (f64::from(n.ilog2()), k as f64);
    let formula = format!("(2 lg N - 1 + k) α + (3 + (4 lg N - 3)/k) S/B, k={k}");
    Some(form(formula, 2.0 * l - 1.0 + k, 3.0 + (4.0 * l - 3.0) / k))
}

/// `k` chunks of S/2k over each of two trees between `nodes`, a power of two, in which a chain of `g`
/// ranks hangs on each: 2(lg n + g-1) messages each. Once the trees are full, a node's first rank
/// sends up and to two children in one tree, up in the other, and down its chain in both: 3 S, or 2 S
/// where either the chains or second children are missing. Steps in which they fill and run empty have
/// fewer of these, by as much only if there are chunks enough to fill them.
fn double_tree(nodes: u32, g: u32, k: u64) -> Option<ClosedForm> {
    let levels = u64::from(nodes.ilog2());
    let full = if g == 1 { 2 * levels - 2 } else { 2 * levels };
    if !nodes.is_power_of_two() || k <= full {
        return None;
    }
    let (l, r, k) = (levels as f64, f64::from(g), k as f64);
    let steps = 2.0 * l + 2.0 * r - 3.0 + k;
    let (volume, formula) = match (g, nodes) {
        (1, 2) => (1.0, "(k+1) α + S/B".to_owned()),
        (1, _) => (
            2.0 + (2.0 * l - 3.0) / k,
            "(2 lg n - 1 + k) α + (2 + (2 lg n - 3)/k) S/B".to_owned(),
        ),
        (_, 2) => (
            2.0 + (4.0 * r - 3.0) / (2.0 * k),
            format!("(2g-1+k) α + (2 + (4g-3)/2k) S/B, g={g}"),
        ),
        _ => (
            3.0 + (4.0 * r + 6.0 * l - 9.0) / (2.0 * k),
            format!("(2 lg n + 2g-3+k) α + (3 + (4g + 6 lg n - 9)/2k) S/B, g={g}"),
        ),
    };
    Some(form(format!("{formula}, n={nodes}, k={k}"), steps, volume))
}

/// `k` chunks up a chain of `g` ranks, through the network's switches, and down again: 2g-1 messages
/// each. From the second chunk on the first rank sends one to the network and one down.
fn chain_to_network(g: f64, k: f64) -> ClosedForm {
    let steps = 2.0 * g - 2.0 + k;
    if g < 2.0 || k < 2.0 {
        return form(
            format!("(2g-2+k)(α + S/kB), g={g}, k={k}"),
            steps,
            steps / k,
        );
    }
    let volume = 2.0 * (g - 1.0 + k) / k;
    form(
        format!("(2g-2+k) α + 2(g-1+k)/k S/B, g={g}, k={k}"),
        steps,
        volume,
    )
}

/// `k` chunks through a node's switches, which read S from each rank and give each S/n (load-reduce),
/// then take S/n from each and give each S (multicast): but for the first load and the last
/// multicast both at the same time.
fn switch(collective: Collective, n: f64, k: f64) -> ClosedForm {
    if collective != Collective::AllReduce {
        // Only one of the two.
        return form("α + S/B".to_owned(), 1.0, 1.0);
    }
    let volume = 1.0 + 1.0 / n + (1.0 - 1.0 / n) / k;
    form(
        format!("(k+1) α + (1 + 1/N + (1-1/N)/k) S/B, k={k}"),
        k + 1.0,
        volume,
    )
}

/// The same of `g` ranks a node, with each rank's S/g through the network's switches in between.
fn switch_and_network(g: f64, k: f64) -> ClosedForm {
    let steps = k + 2.0;
    if k < 2.0 {
        return form(format!("3 α + (2 + 1/g) S/B, g={g}"), steps, 2.0 + 1.0 / g);
    }
    let volume = 1.0 + 2.0 / g + 2.0 * (1.0 - 1.0 / g) / k;
    form(
        format!("(k+2) α + (1 + 2/g + 2(1-1/g)/k) S/B, g={g}, k={k}"),
        steps,
        volume,
    )
}

/// `k` chunks from `g` ranks a node to each other, through the network's switches, and back to each
/// other: (1-1/g) S, S/g and (1-1/g) S, out and in alike.
fn direct_to_network(g: f64, k: f64) -> ClosedForm {
    if g < 2.0 {
        return form(format!("k α + S/B, k={k}"), k, 1.0);
    }
    form(
        format!("(k+2) α + (2 - 1/g) S/B, g={g}, k={k}"),
        k + 2.0,
        2.0 - 1.0 / g,
    )
}
