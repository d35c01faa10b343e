//! Which experts get tokens, and how many.

use rustc_hash::FxHasher;
use std::hash::Hasher;

/// How uneven a router is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// Each expert is as likely as any other.
    Even,
    /// Experts' shares follow a power law with this exponent, which is not 1, as profiles of
    /// aiconfigurator have it (1.2): its quantiles between 1 and 0.8 times the tokens where there are
    /// more choices than experts, between 0.01 and 2 where there are not. A GPU of several is the
    /// one with the most tokens.
    PowerLaw(f64),
}

/// What a layer's router has to share out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// Tokens that enter the layer, of all GPUs that share its experts.
    pub tokens: u64,
    /// Experts of the layer.
    pub experts: u64,
    /// Experts on one GPU.
    pub local: u64,
    /// Experts that a token goes to.
    pub top_k: u64,
    /// How uneven it is.
    pub skew: Skew,
}

/// How many experts of a GPU get how many tokens; those that get none are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpertLoad {
    /// So many experts, so many tokens each.
    groups: Vec<(f64, f64)>,
}

impl ExpertLoad {
    /// What a router's choices come to on one GPU: on average if it is even, on the GPU with the
    /// most tokens if not.
    #[must_use]
    pub fn of(routing: &Routing) -> ExpertLoad {
        let none = routing.tokens == 0 || routing.experts == 0 || routing.top_k == 0;
        if none || routing.local == 0 {
            return ExpertLoad { groups: Vec::new() };
        }
        match routing.skew {
            Skew::Even => even(routing),
            Skew::PowerLaw(exponent) => skewed(routing, exponent),
        }
    }

    /// Tokens, each counted for every expert that it goes to.
    #[must_use]
    pub fn tokens(&self) -> f64 {
        self.groups
            .iter()
            .map(|(experts, each)| experts * each)
            .sum()
    }

    /// Experts that get a token.
    #[must_use]
    pub fn experts(&self) -> f64 {
        self.groups.iter().map(|(experts, _)| experts).sum()
    }

    /// Tiles of so many rows.
    pub(super) fn tiles(&self, rows: u64) -> f64 {
        let rows = rows as f64;
        let tiles = self
            .groups
            .iter()
            .map(|(experts, each)| experts * (each / rows).ceil());
        tiles.sum()
    }
}

/// Expected values: an expert is left out by a token with probability 1 - k/E.
fn even(routing: &Routing) -> ExpertLoad {
    let experts = routing.experts as f64;
    let chosen = (routing.top_k as f64 / experts).min(1.0);
    let tokens = routing.tokens as f64;
    let local = routing.local.min(routing.experts) as f64;
    let hit = 1.0 - (1.0 - chosen).powf(tokens);
    ExpertLoad {
        groups: vec![(local * hit, tokens * chosen / hit)],
    }
}

fn skewed(routing: &Routing, exponent: f64) -> ExpertLoad {
    let experts = routing.experts as usize;
    let choices = routing.tokens * routing.top_k;
    let mut shares = quantiles(routing, exponent);
    shuffle(&mut shares);
    let all: f64 = shares.iter().sum();
    let whole = |share: &f64| (share / all * choices as f64).round() as u64;
    let mut tokens: Vec<u64> = shares.iter().map(whole).collect();
    let mut fullest: Vec<usize> = (0..experts).collect();
    fullest.sort_by_key(|&e| std::cmp::Reverse(tokens[e]));
    // Rounding leaves some over, or has given out too many: the fullest ones take them.
    let mut given: u64 = tokens.iter().sum();
    for &expert in fullest.iter().cycle() {
        match given.cmp(&choices) {
            std::cmp::Ordering::Less => {
                tokens[expert] += 1;
                given += 1;
            }
            std::cmp::Ordering::Greater => {
                let taken = u64::from(tokens[expert] > 0);
                tokens[expert] -= taken;
                given -= taken;
            }
            std::cmp::Ordering::Equal => break,
        }
    }
    let local = (routing.local as usize).clamp(1, experts);
    let most = tokens
        .chunks(local)
        .max_by_key(|gpu| gpu.iter().sum::<u64>());
    let mut most = most.unwrap_or_default().to_vec();
    most.sort_unstable();
    let mut groups: Vec<(f64, f64)> = Vec::new();
    for each in most.into_iter().filter(|&n| n > 0) {
        match groups.last_mut() {
            Some((experts, known)) if *known == each as f64 => *experts += 1.0,
            _ => groups.push((1.0, each as f64)),
        }
    }
    ExpertLoad { groups }
}

/// Quantiles of the power law, one an expert.
fn quantiles(routing: &Routing, exponent: f64) -> Vec<f64> {
    let (tokens, experts) = (routing.tokens as f64, routing.experts as f64);
    let (low, high): (f64, f64) = if tokens * routing.top_k as f64 > experts {
        (1.0, (0.8 * tokens).max(1.0))
    } else {
        (0.01, 2.0)
    };
    let power = 1.0 - exponent;
    let (from, to) = (low.powf(power), high.powf(power));
    let at = |expert: u64| {
        let quantile = (expert as f64 + 0.5) / experts;
        (from + (to - from) * quantile).powf(1.0 / power)
    };
    (0..routing.experts).map(at).collect()
}

/// Puts shares into an order that has nothing to do with them, always the same for so many.
fn shuffle(shares: &mut [f64]) {
    let key = |at: usize| {
        let mut hasher = FxHasher::default();
        hasher.write_u64(at as u64 + 1);
        hasher.finish()
    };
    let mut order: Vec<(u64, f64)> = shares
        .iter()
        .enumerate()
        .map(|(i, &s)| (key(i), s))
        .collect();
    order.sort_by_key(|&(key, _)| key);
    for (share, (_, other)) in shares.iter_mut().zip(order) {
        *share = other;
    }
}
