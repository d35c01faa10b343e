//! What it takes to send tokens to the GPUs of their experts and back: the kernels of DeepEP
//! (deepseek-ai/DeepEP), which engines use in place of NCCL's all-to-all where NVLink joins the GPUs of a node.
//!
//! A time is a start and the longer of two: bytes over NVLink, and bytes over the network. Kernels of low latency
//! send a token once for each of its experts; those of high throughput once to each GPU with any of them, and over the
//! network once to each node, from where NVLink takes it on.
//!
//! The figures were fitted once to published profiles of DeepEP on H100, H200, B200 and GB200 (aiconfigurator, sglang
//! 0.5.6.post2 and 0.5.12), by the mean of the logarithms of errors. Their median error is 7 % (90th percentile 22 %);
//! predicted for a GPU that was left out of the fit, 9 % in the median of the 16 groups of GPU, kernel and direction, 32 % in the
//! worst (GB200, low latency, back). Kernels of high throughput over 8 nodes were left out: tokens to experts take 2.5 times
//! as long there as DeepEP itself publishes.

use fabricsim_units::{Bandwidth, Time};

/// What is exchanged, of each GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchange {
    /// Tokens of a GPU.
    pub tokens: u64,
    /// Their width.
    pub hidden: u64,
    /// Experts of a token.
    pub per_token: u64,
    /// All experts.
    pub experts: u64,
    /// Bytes of an element on its way to experts, scales of blocks among them; back it is 2.
    pub sent_bytes: f64,
}

/// GPUs that experts are spread over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExchangeLinks {
    /// How many.
    pub gpus: u64,
    /// Of these, those that NVLink joins with each other.
    pub joined: u64,
    /// What NVLink carries from a GPU.
    pub nvlink: Bandwidth,
    /// What the network carries from a GPU; of no use where NVLink joins all.
    pub network: Bandwidth,
    /// What posting a message takes, of kernels of low latency, which send one for each token and expert:
    /// they do so themselves (IBGDA), or a proxy thread does.
    pub posting: Time,
    /// Compute capability 10.0 or later: kernels start later.
    pub is_blackwell: bool,
}

/// Which kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKernels {
    /// Of low latency: for passes of single tokens.
    LowLatency,
    /// Of high throughput, on so many multiprocessors: for prompts.
    Normal {
        /// Multiprocessors.
        sms: u64,
    },
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the experts.
    Dispatch,
    /// Back, summed.
    Combine,
}

/// Tokens of a GPU up to which engines use the kernels of low latency (vLLM's `VLLM_MOE_DP_CHUNK_SIZE`).
const LOW_LATENCY_TOKENS: u64 = 256;
/// Multiprocessors of kernels of high throughput, as DeepEP has them by default.
const SMS: u64 = 20;
/// Nodes that a token's experts are on at most, where models limit them (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
const NODES: f64 = 4.0;

/// The figures of kernels in a direction.
struct Figures {
    /// Microseconds until it starts: Hopper, Blackwell.
    start: [f64; 2],
    /// More for each 256 experts.
    experts: f64,
    /// More where a network is used.
    network_start: f64,
    /// What it reaches of NVLink's rate, and of the network's.
    shares: [f64; 2],
    /// GB/s of a multiprocessor.
    sm_rate: f64,
}

const fn figures(kernels: ExchangeKernels, direction: Direction) -> Figures {
    match (kernels, direction) {
        (ExchangeKernels::LowLatency, Direction::Dispatch) => Figures {
            start: [8.67, 14.9],
            experts: 3.46,
            network_start: 13.1,
            shares: [0.80, 0.98],
            sm_rate: f64::INFINITY,
        },
        (ExchangeKernels::LowLatency, Direction::Combine) => Figures {
            start: [9.40, 14.2],
            experts: 2.33,
            network_start: 13.7,
            shares: [0.73, 0.94],
            sm_rate: f64::INFINITY,
        },
        (ExchangeKernels::Normal { .. }, Direction::Dispatch) => Figures {
            start: [28.1, 34.3],
            experts: 0.0,
            network_start: 9.5,
            shares: [0.90, 0.88],
            sm_rate: 15.1,
        },
        (ExchangeKernels::Normal { .. }, Direction::Combine) => Figures {
            start: [49.2, 53.9],
            experts: 0.0,
            network_start: 10.3,
            shares: [0.91, 0.73],
            sm_rate: 16.7,
        },
    }
}

impl ExchangeKernels {
    /// Those that engines use for so many tokens of a GPU.
    #[must_use]
    pub const fn of(tokens: u64) -> Self {
        match tokens <= LOW_LATENCY_TOKENS {
            true => ExchangeKernels::LowLatency,
            false => ExchangeKernels::Normal { sms: SMS },
        }
    }
}

impl ExchangeLinks {
    /// What one direction takes.
    #[must_use]
    pub fn time(&self, of: &Exchange, kernels: ExchangeKernels, direction: Direction) -> Time {
        let figures = figures(kernels, direction);
        let width = match direction {
            Direction::Dispatch => of.sent_bytes,
            Direction::Combine => 2.0,
        };
        let bytes = (of.tokens * of.hidden) as f64 * width;
        let nodes = (self.gpus as f64 / self.joined.max(1) as f64).max(1.0);
        let chosen = of.per_token as f64;
        // Of so many places those that have one of a token's experts.
        let reached = |places: f64| places * (1.0 - (1.0 - 1.0 / places).powf(chosen));
        let away = 1.0 - 1.0 / nodes;
        let (near, far) = match kernels {
            ExchangeKernels::LowLatency => (chosen / nodes, chosen * away),
            ExchangeKernels::Normal { .. } => {
                (reached(self.gpus as f64), reached(nodes.min(NODES)) * away)
            }
        };
        let by_sms = match kernels {
            ExchangeKernels::LowLatency => f64::INFINITY,
            ExchangeKernels::Normal { sms } => sms as f64 * figures.sm_rate * 1e9,
        };
        let nvlink = (self.nvlink.bytes_per_sec() as f64 * figures.shares[0]).min(by_sms);
        let network = self.network.bytes_per_sec() as f64 * figures.shares[1];
        let mut start = figures.start[usize::from(self.is_blackwell)];
        start += figures.experts * of.experts as f64 / 256.0;
        let mut moves = bytes * near / nvlink;
        if nodes > 1.0 {
            start += figures.network_start;
            let posted = match kernels {
                ExchangeKernels::LowLatency => of.tokens as f64 * far * self.posting.seconds(),
                ExchangeKernels::Normal { .. } => 0.0,
            };
            moves = moves.max(bytes * far / network).max(posted);
        }
        Time::from_picos((start * 1e6 + moves * 1e12).round() as u64)
    }

    /// Both directions, with the kernels that engines use.
    #[must_use]
    pub fn both(&self, of: &Exchange) -> Time {
        let kernels = ExchangeKernels::of(of.tokens);
        self.time(of, kernels, Direction::Dispatch) + self.time(of, kernels, Direction::Combine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hopper(nodes: u64) -> ExchangeLinks {
        ExchangeLinks {
            gpus: 8 * nodes,
            joined: 8,
            nvlink: Bandwidth::from_bytes_per_sec(371_250_000_000),
            network: Bandwidth::from_gb_per_sec(49),
            posting: Time::from_picos(4650),
            is_blackwell: false,
        }
    }

    const TOKENS: Exchange = Exchange {
        tokens: 128,
        hidden: 7168,
        per_token: 8,
        experts: 256,
        sent_bytes: 1.0 + 4.0 / 128.0,
    };

    /// DeepEP's README, H800 (whose network is that of H100), low latency, 128 tokens: 118 and 195 us over 16 GPUs, 173 and 314
    /// over 64. (Over 8 its figures are of a release that went over the network inside the node, too.)
    #[test]
    fn deepeps_own_figures_of_low_latency() {
        for (nodes, dispatch, combine) in [(2, 118.0, 195.0), (8, 173.0, 314.0)] {
            let links = hopper(nodes);
            let of = |direction| links.time(&TOKENS, ExchangeKernels::LowLatency, direction);
            let error = |time: Time, measured: f64| (time.micros() / measured - 1.0).abs();
            assert!(error(of(Direction::Dispatch), dispatch) < 0.15, "{nodes}");
            assert!(error(of(Direction::Combine), combine) < 0.06, "{nodes}");
        }
    }

    /// 1.7 million puts a second: 128 tokens of 8 experts, half of them on another node, take 301 us, more than
    /// the 77 of their bytes. Where NVLink joins all, nothing is posted.
    #[test]
    fn a_proxy_posts_one_message_after_the_other() {
        let proxy = |nodes| ExchangeLinks {
            posting: Time::from_picos(588_000),
            ..hopper(nodes)
        };
        let of = |links: ExchangeLinks| {
            let low = ExchangeKernels::LowLatency;
            links.time(&TOKENS, low, Direction::Dispatch).micros()
        };
        let start = 8.67 + 3.46 + 13.1;
        let posted = 128.0 * 4.0 * 0.588;
        assert!(
            (of(proxy(2)) - start - posted).abs() < 0.01,
            "{}",
            of(proxy(2))
        );
        assert!(of(proxy(2)) > 2.5 * of(hopper(2)));
        assert_eq!(of(proxy(1)), of(hopper(1)));
    }

    #[test]
    fn it_is_a_start_and_then_bytes_over_a_rate() {
        let links = hopper(1);
        let kernels = ExchangeKernels::Normal { sms: 24 };
        let at =
            |tokens: u64| links.time(&Exchange { tokens, ..TOKENS }, kernels, Direction::Combine);
        assert_eq!(at(0).micros(), 49.2);
        // 8 GPUs, 8 experts of 256: 5.25 copies of 2 bytes over 91 % of NVLink.
        let copies = 8.0 * (1.0 - (7.0_f64 / 8.0).powi(8));
        let moves = 65_536.0 * 7168.0 * 2.0 * copies / (371.25e9 * 0.91) * 1e6;
        assert!((at(65_536).micros() - 49.2 - moves).abs() < 0.01);
        // Fewer multiprocessors than NVLink needs.
        let few = ExchangeKernels::Normal { sms: 12 };
        let slow = links.time(
            &Exchange {
                tokens: 65_536,
                ..TOKENS
            },
            few,
            Direction::Combine,
        );
        assert!((slow.micros() - 49.2 - moves * 371.25 * 0.91 / (12.0 * 16.7)).abs() < 0.01);
    }
}
