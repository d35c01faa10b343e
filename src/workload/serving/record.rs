//! What came of each request, and what engines did.

use fabricsim_units::Time;

/// When what happened to a request. Times that never came are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// It arrived.
    pub arrived: Option<Time>,
    /// It was through the front end.
    pub queued: Option<Time>,
    /// The engine that computed its prompt, and the one that generated.
    pub engines: [Option<u32>; 2],
    /// Blocks of its prompt began to be read from a tier.
    pub reload_begun: Option<Time>,
    /// They were there.
    pub reloaded: Option<Time>,
    /// The first pass with a part of its prompt began.
    pub scheduled: Option<Time>,
    /// The last pass of its prompt ended, where it was computed.
    pub prefilled: Option<Time>,
    /// The engine that generates had reserved blocks for it.
    pub reserved: Option<Time>,
    /// Its KV cache had been handed over.
    pub handed_over: Option<Time>,
    /// How long that would have taken with the links for itself.
    pub handover_alone: Time,
    /// Its first token was there.
    pub first_token: Option<Time>,
    /// Its last token was there.
    pub finished: Option<Time>,
    /// How often it lost its blocks.
    pub preemptions: u32,
    /// Tokens of its prompt that were found in a prefix cache.
    pub cached: u32,
    /// Tokens that it got.
    pub generated: u32,
    /// It was refused: it could never have run.
    pub refused: bool,
    /// Time between its parts of a prompt and single tokens in which it took part in a pass, until the first token.
    pub in_passes: Time,
}

/// What a tier below the GPUs' memory did, for all engines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierRecord {
    /// How often a request read blocks from it.
    pub reads: u64,
    /// Tokens whose blocks were read.
    pub hits: u64,
    /// Tokens whose blocks were there, but that were computed again because that was faster.
    pub recomputed: u64,
    /// Bytes that were read, by all GPUs.
    pub read: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Blocks that it gave up for others.
    pub given_up: u64,
}

/// Times between tokens, run-length coded: so many of the same length at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// When the later tokens came.
    pub at: Time,
    /// From one token to the next.
    pub time: Time,
    /// How many.
    pub count: u32,
}

/// A pass, as it took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassRecord {
    /// Of which engine.
    pub engine: u32,
    /// When it began.
    pub begun: Time,
    /// When it ended.
    pub ended: Time,
    /// Tokens of prompts.
    pub prompt_tokens: u32,
    /// Requests that went on from their last token.
    pub decodes: u32,
    /// Requests that waited for the engine when it began.
    pub waiting: u32,
    /// Share of the KV blocks that were taken, in thousandths.
    pub kv_permille: u16,
}
