//! How engines choose what the next pass computes.
//!
//! A policy reads and changes a [`Scheduler`] and knows nothing else: not the time, not what a pass takes.
//! One file a policy; [`PolicyKind`] names them.

mod sglang;
mod static_batch;
mod trtllm;
mod vllm;

#[cfg(test)]
mod tests;

use super::request::Request;
use super::scheduler::{Live, Part, Pass, Scheduler};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose way of batching an engine has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyKind {
    /// vLLM's v1 scheduler: requests that run first, then as much of new prompts as the token budget
    /// leaves.
    #[default]
    Vllm,
    /// SGLang's: new prompts first, in passes of their own, then one token for each request that runs.
    Sglang,
    /// TensorRT-LLM's in-flight batching without eviction: a request is let in if all that it will ever
    /// need fits.
    Trtllm,
    /// As many requests as fit start together, and all are done before others start.
    Static,
}

impl PolicyKind {
    /// What files call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Vllm => "vllm",
            PolicyKind::Sglang => "sglang",
            PolicyKind::Trtllm => "trtllm",
            PolicyKind::Static => "static",
        }
    }

    /// Tokens of a block of KV cache, as the engine has them by default (vLLM's `block_size`, SGLang's
    /// `page_size`, TensorRT-LLM's `tokens_per_block`).
    #[must_use]
    pub const fn block_tokens(self) -> u32 {
        match self {
            PolicyKind::Vllm | PolicyKind::Static => 16,
            PolicyKind::Sglang => 1,
            PolicyKind::Trtllm => 32,
        }
    }

    /// Tokens whose blocks a request that waits has to hold for this policy to let it in, whatever else runs.
    #[must_use]
    pub fn needed(self, live: &Live) -> u32 {
        match self {
            PolicyKind::Vllm | PolicyKind::Sglang => live.tokens,
            PolicyKind::Trtllm | PolicyKind::Static => {
                live.tokens + live.output - live.generated - 1
            }
        }
    }

    /// What the next pass computes; no part if there is nothing to do.
    pub fn decide(self, scheduler: &mut Scheduler, requests: &[Request], pass: &mut Pass) {
        pass.parts.clear();
        pass.preempted.clear();
        match self {
            PolicyKind::Vllm => vllm::decide(scheduler, requests, pass),
            PolicyKind::Sglang => sglang::decide(scheduler, requests, pass),
            PolicyKind::Trtllm => trtllm::decide(scheduler, requests, pass),
            PolicyKind::Static => static_batch::decide(scheduler, requests, pass),
        }
    }
}

/// Gives a request that holds no blocks what the prefix cache has of it; whether it held none.
fn find_prefix(scheduler: &mut Scheduler, requests: &[Request], id: u32) -> bool {
    let fresh = scheduler.live(id).held.count() == 0;
    if fresh && scheduler.pool.keeps_prefixes() {
        let request = &requests[scheduler.live(id).request as usize];
        scheduler.take_prefix(id, request);
    }
    fresh
}

/// So many tokens of a request, from where it stands.
fn part(scheduler: &Scheduler, id: u32, tokens: u32) -> Part {
    let live = scheduler.live(id);
    Part {
        live: id,
        context: live.computed,
        tokens,
        emits: live.computed + tokens == live.tokens,
        in_prompt: live.is_in_prompt(),
    }
}
