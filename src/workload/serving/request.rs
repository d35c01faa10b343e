//! Requests: what arrives, and what came of it.

use fabricsim_units::Time;
use std::sync::Arc;

/// A request to generate text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it arrives; of a closed loop the earliest that it may.
    pub arrival: Time,
    /// Tokens of its prompt: 1 or more.
    pub input: u32,
    /// Tokens that it generates: 1 or more.
    pub output: u32,
    /// What its prompt has in common with others, if that is known.
    pub prefix: Option<Arc<Prefix>>,
}

/// Names of the blocks of a prompt. Two prompts whose first blocks have the same names begin with the
/// same tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// Tokens of a block; the last may have fewer.
    pub block_tokens: u32,
    /// The names, of the whole prompt.
    pub names: Vec<u64>,
}

impl Request {
    /// A request whose prompt has nothing in common with others.
    #[must_use]
    pub fn new(arrival: Time, input: u32, output: u32) -> Self {
        Request {
            arrival,
            input,
            output,
            prefix: None,
        }
    }

    /// The name of a full block of KV cache of this request (number `id`): blocks with the same name hold
    /// the same. Those beyond a known prefix are the request's own.
    #[must_use]
    pub fn block_name(&self, id: u32, block: u32, block_tokens: u32) -> u64 {
        let first = block * block_tokens;
        if let Some(prefix) = &self.prefix
            && first + block_tokens <= self.input
            && prefix.block_tokens.is_multiple_of(block_tokens)
            && let Some(name) = prefix.names.get((first / prefix.block_tokens) as usize)
        {
            let part = u64::from(first % prefix.block_tokens / block_tokens);
            return mixed(name.wrapping_mul(2), part);
        }
        mixed(u64::from(id).wrapping_mul(2) + 1, u64::from(block))
    }
}

/// Two numbers as one, with all bits of both in all bits (the finaliser of SplitMix64, Steele et al.,
/// OOPSLA 2014).
fn mixed(name: u64, part: u64) -> u64 {
    let mut z = name
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(part.wrapping_mul(0xD1B5_4A32_D192_ED03))
        .wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
