//! The costs that textbooks give: Thakur, Rabenseifner, Gropp 2005 and Chan et al. 2007.
//!
//! `N` ranks, `S` bytes of nccl-tests' size, `α` for a message, `B` bytes per second of a
//! port that sends and receives at the same time. Reduction itself costs nothing.

use super::ExplainAlgorithm;
use crate::collective::{Collective, MessageAlgorithm};
use crate::report::explanation::ClosedForm;

/// The closed form, if there is one for these ranks.
pub(super) fn closed_form(
    algorithm: ExplainAlgorithm,
    collective: Collective,
    ranks: u32,
    nodes: u32,
    bytes: u64,
    chunk: u64,
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
    let form = |formula: &str, steps: f64, volume: f64| {
        Some(ClosedForm {
            formula: formula.to_owned(),
            steps,
            volume,
            time_us: 0.0,
        })
    };
    let pipelined = matches!(collective, Broadcast | Reduce);
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
        ExplainAlgorithm::Tree
        | ExplainAlgorithm::Nvls
        | ExplainAlgorithm::NvlsTree
        | ExplainAlgorithm::CollnetDirect
        | ExplainAlgorithm::CollnetChain => None,
    }
}
