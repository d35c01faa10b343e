//! What a pass takes: from its shape.

use super::scheduler::{Pass, Scheduler};
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A part of a prompt that a pass computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Tokens before it.
    pub context: u32,
    /// Its tokens.
    pub tokens: u32,
}

/// The shape of a pass: all that its time follows from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassShape {
    /// Parts of prompts.
    pub prompts: SmallVec<[Chunk; 8]>,
    /// Requests that get one more token from their last one.
    pub decodes: u32,
    /// The tokens that those read, themselves among them, all together.
    pub decode_context: u64,
    /// Requests that get a token, at the end of their prompt or after their last one.
    pub emits: u32,
    /// Tokens in the KV cache once it is through, of all that run.
    pub kv_tokens: u64,
    /// Tokens that the KV cache holds.
    pub kv_capacity: u64,
}

impl PassShape {
    /// Of a pass that has begun.
    pub fn read(&mut self, pass: &Pass, scheduler: &Scheduler) {
        self.prompts.clear();
        (self.decodes, self.decode_context, self.emits) = (0, 0, 0);
        for part in &pass.parts {
            self.emits += u32::from(part.emits);
            if part.in_prompt {
                self.prompts.push(Chunk {
                    context: part.context,
                    tokens: part.tokens,
                });
            } else {
                self.decodes += 1;
                self.decode_context += u64::from(part.context + part.tokens);
            }
        }
        let pool = &scheduler.pool;
        self.kv_tokens = scheduler.kv_tokens();
        self.kv_capacity = u64::from(pool.total()) * u64::from(pool.block_tokens());
    }

    /// Tokens of prompts.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.prompts
            .iter()
            .map(|chunk| u64::from(chunk.tokens))
            .sum()
    }
}

/// What passes take on an engine.
pub trait PassCost {
    /// What a pass takes on each stage of an engine; one shape for each part of data-parallel attention.
    fn time(&mut self, engine: usize, shapes: &[PassShape]) -> Time;

    /// The same of a pass that does not take place: it counts nowhere.
    fn estimate(&mut self, engine: usize, shapes: &[PassShape]) -> Time {
        self.time(engine, shapes)
    }
}

/// What a pass takes that has parts of prompts and single tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MixedPass {
    /// One pass over all tokens: with given times, that of its prompts.
    #[default]
    Fused,
    /// The time of prompts and, if anyone gets a token, that of single tokens.
    Sum,
    /// The longer of the two.
    Max,
}

impl MixedPass {
    /// The time of a pass, from those of its two kinds of work.
    #[must_use]
    pub fn of(self, prompts: Option<Time>, tokens: Option<Time>, any_decodes: bool) -> Time {
        let (first, second) = (prompts.unwrap_or(Time::ZERO), tokens.unwrap_or(Time::ZERO));
        match self {
            MixedPass::Fused if prompts.is_some() => first,
            MixedPass::Fused => second,
            MixedPass::Sum => first + second,
            MixedPass::Max if any_decodes => first.max(second),
            MixedPass::Max => first,
        }
    }
}

/// Given times of passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GivenTime {
    /// Always the same.
    Fixed {
        /// A pass with prompts.
        prefill: Time,
        /// A pass in which requests get single tokens.
        decode: Time,
    },
    /// Polynomials: of the tokens of prompts in a pass, and of the share of the KV cache that is in use;
    /// coefficients from the constant one on, in milliseconds.
    Polynomial {
        /// Of the tokens.
        prefill: [f64; 3],
        /// Of the share.
        decode: [f64; 3],
        /// A pass takes no less.
        least: f64,
    },
}

/// Passes of given times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GivenCost {
    /// The times.
    pub time: GivenTime,
    /// Passes of both kinds.
    pub mixed: MixedPass,
}

impl PassCost for GivenCost {
    fn time(&mut self, _: usize, shapes: &[PassShape]) -> Time {
        let of = |shape: &PassShape| {
            let prompts = (!shape.prompts.is_empty()).then(|| self.time.prefill(shape));
            let tokens = (shape.emits > 0).then(|| self.time.decode(shape));
            self.mixed.of(prompts, tokens, shape.decodes > 0)
        };
        shapes.iter().map(of).max().unwrap_or(Time::ZERO)
    }
}

impl GivenTime {
    fn prefill(&self, shape: &PassShape) -> Time {
        match *self {
            GivenTime::Fixed { prefill, .. } => prefill,
            GivenTime::Polynomial { prefill, .. } => {
                millis(quadratic(prefill, shape.prompt_tokens() as f64))
            }
        }
    }

    fn decode(&self, shape: &PassShape) -> Time {
        match *self {
            GivenTime::Fixed { decode, .. } => decode,
            GivenTime::Polynomial { decode, least, .. } => {
                let share = shape.kv_tokens as f64 / shape.kv_capacity.max(1) as f64;
                millis(quadratic(decode, share).max(least))
            }
        }
    }
}

fn quadratic([c0, c1, c2]: [f64; 3], x: f64) -> f64 {
    c0 + x * (c1 + x * c2)
}

fn millis(ms: f64) -> Time {
    Time::from_picos((ms * 1e9).round().max(0.0) as u64)
}
