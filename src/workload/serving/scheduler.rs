//! What one engine has to do: requests that wait, requests that run, and their KV cache.
//!
//! A [policy](super::policy) looks at it and says what the next pass computes. The state is that of one
//! scheduler: an engine whose attention is data parallel has one for each part.

use super::blocks::{BlockPool, Held};
use super::request::Request;
use std::collections::VecDeque;

/// What an engine lets into one pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Tokens that one pass computes at most (vLLM's `max_num_batched_tokens`, SGLang's
    /// `chunked_prefill_size`).
    pub token_budget: u32,
    /// Requests that run at once at most (`max_num_seqs`, `max_running_requests`).
    pub max_sequences: u32,
    /// Whether a prompt may be computed in parts.
    pub chunked_prefill: bool,
    /// Tokens that are guessed ahead of each request that generates; 0 without speculation.
    pub guessed: u32,
    /// Tokens that a request gets from a pass on average, guesses that were right among them: 1 or more.
    pub gained: f64,
}

impl Limits {
    /// Without speculation.
    #[must_use]
    pub const fn plain(token_budget: u32, max_sequences: u32, chunked_prefill: bool) -> Self {
        Limits {
            token_budget,
            max_sequences,
            chunked_prefill,
            guessed: 0,
            gained: 1.0,
        }
    }

    /// Tokens that a request gets from a pass on average, of so many that are guessed ahead, each right with the
    /// same chance if all before it were: 1 + a + a² + … (Leviathan et al., arXiv 2211.17192, equation 1).
    #[must_use]
    pub fn gain(guessed: u32, acceptance: f64) -> f64 {
        (0..=guessed).map(|k| acceptance.powi(k as i32)).sum()
    }
}

/// A request that an engine has, under a number of the engine's own.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Its number among all requests.
    pub request: u32,
    /// Tokens that are known: the prompt and what has been generated.
    pub tokens: u32,
    /// Tokens whose keys and values are in the cache.
    pub computed: u32,
    /// Tokens that it has generated here.
    pub generated: u32,
    /// Tokens that it generates here.
    pub output: u32,
    /// Tokens that count as its prompt when they are computed: after it lost its blocks, all that were known.
    pub prompt: u32,
    /// Its blocks.
    pub held: Held,
    /// Tokens that were found in the prefix cache when it was last let in.
    pub cached: u32,
    /// How often it lost its blocks.
    pub preemptions: u32,
    /// A pass that computes it is under way.
    pub in_flight: bool,
    /// The part of a token that guesses have brought it, beside whole ones.
    pub ahead: f64,
    /// Tiers below the GPUs' memory have been searched for its blocks since it last lost them.
    pub sought: bool,
}

impl Live {
    /// Tokens that are still to be computed before it gets its next one.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.tokens - self.computed
    }

    /// Whether what is computed next is a part of its prompt.
    #[must_use]
    pub fn is_in_prompt(&self) -> bool {
        self.computed < self.prompt
    }
}

/// A part of a pass: what it computes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The engine's number of the request.
    pub live: u32,
    /// Tokens before, whose keys and values it reads.
    pub context: u32,
    /// Tokens that are computed.
    pub tokens: u32,
    /// Whether it ends with a token that is generated.
    pub emits: bool,
    /// Whether it computes a part of a prompt, rather than going on from the last token.
    pub in_prompt: bool,
}

/// What an engine computes at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pass {
    /// Its parts, in the order in which requests run.
    pub parts: Vec<Part>,
    /// Requests that lost their blocks for it.
    pub preempted: Vec<u32>,
}

/// The state of one scheduler.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// What it lets in.
    pub limits: Limits,
    /// The KV cache.
    pub pool: BlockPool,
    /// Requests that wait, the first to be let in first.
    pub waiting: VecDeque<u32>,
    /// Requests that run, in the order in which they were let in.
    pub running: Vec<u32>,
    /// A request that waits and that is not let in for now: there is no room yet to read its blocks into.
    pub barred: Option<u32>,
    live: Vec<Live>,
    unused: Vec<u32>,
    /// Tokens in the cache, of all that run.
    kv_tokens: u64,
    /// Whether KV caches ever came from elsewhere: only then may a request that waits hold blocks.
    takes_over: bool,
}

impl Scheduler {
    /// One that has nothing to do.
    #[must_use]
    pub fn new(limits: Limits, pool: BlockPool) -> Self {
        Scheduler {
            limits,
            pool,
            waiting: VecDeque::new(),
            running: Vec::new(),
            barred: None,
            live: Vec::new(),
            unused: Vec::new(),
            kv_tokens: 0,
            takes_over: false,
        }
    }

    /// The place of the first request that waits and holds blocks: its KV cache has come from elsewhere.
    #[must_use]
    pub fn holder(&self) -> Option<usize> {
        let holds = |&id: &u32| self.live(id).held.count() > 0;
        let mut waiting = self.waiting.iter();
        self.takes_over.then(|| waiting.position(holds))?
    }

    /// A request under the engine's number.
    #[must_use]
    pub fn live(&self, id: u32) -> &Live {
        &self.live[id as usize]
    }

    /// A request under the engine's number, to be changed.
    pub fn live_mut(&mut self, id: u32) -> &mut Live {
        &mut self.live[id as usize]
    }

    /// Requests that wait or run.
    #[must_use]
    pub fn load(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Tokens in the cache, of all that run.
    #[must_use]
    pub fn kv_tokens(&self) -> u64 {
        self.kv_tokens
    }

    /// The engine gets to know a request, which neither waits nor runs yet.
    pub fn add(&mut self, live: Live) -> u32 {
        self.kv_tokens += u64::from(live.computed);
        if let Some(id) = self.unused.pop() {
            self.live[id as usize] = live;
            return id;
        }
        self.live.push(live);
        self.live.len() as u32 - 1
    }

    /// The engine forgets a request that neither waits nor runs.
    pub fn remove(&mut self, id: u32) {
        let live = &mut self.live[id as usize];
        self.kv_tokens -= u64::from(live.computed);
        self.pool.release(&mut live.held);
        *live = Live::default();
        self.unused.push(id);
    }

    /// Blocks for all tokens of a request up to this number; `false` if too few are free.
    pub fn grow(&mut self, id: u32, tokens: u32) -> bool {
        self.pool.grow(&mut self.live[id as usize].held, tokens)
    }

    /// A request that runs no more loses its blocks, and waits as the first.
    pub fn preempt(&mut self, id: u32) {
        let live = &mut self.live[id as usize];
        self.kv_tokens -= u64::from(live.computed);
        live.computed = 0;
        live.prompt = live.tokens;
        live.preemptions += 1;
        live.sought = false;
        self.pool.release(&mut live.held);
        self.waiting.push_front(id);
    }

    /// The prefix cache gives a request without blocks what it has of it, but for its last token, which
    /// has to be computed to get another. Returns how many tokens.
    pub fn take_prefix(&mut self, id: u32, request: &Request) -> u32 {
        let (live, names) = self.names(id, request);
        let known = self.pool.known(names);
        let tokens = known * self.pool.block_tokens();
        let number = live.request;
        let block_tokens = self.pool.block_tokens();
        let live = &mut self.live[id as usize];
        let names = (0..known).map(|block| request.block_name(number, block, block_tokens));
        self.pool.take_known(&mut live.held, names);
        live.computed = tokens;
        live.cached = tokens;
        self.kv_tokens += u64::from(tokens);
        tokens
    }

    /// A request that was not let in after all gives back what [`Scheduler::take_prefix`] gave it.
    pub fn give_back(&mut self, id: u32) {
        let live = &mut self.live[id as usize];
        self.kv_tokens -= u64::from(live.computed);
        (live.computed, live.cached) = (0, 0);
        self.pool.release(&mut live.held);
    }

    /// A request, and the names of its full blocks before its last token.
    fn names<'r>(&self, id: u32, request: &'r Request) -> (&Live, impl Iterator<Item = u64> + 'r) {
        let live = &self.live[id as usize];
        let (number, block_tokens) = (live.request, self.pool.block_tokens());
        let full = live.tokens.saturating_sub(1) / block_tokens;
        let names = move |block| request.block_name(number, block, block_tokens);
        (live, (0..full).map(names))
    }

    /// How many tokens of a request the prefix cache has.
    #[must_use]
    pub fn known_prefix(&self, id: u32, request: &Request) -> u32 {
        let (_, names) = self.names(id, request);
        self.pool.known(names) * self.pool.block_tokens()
    }

    /// The KV cache of a request has come from elsewhere, with its first token or without.
    pub fn comes(&mut self, id: u32, computed: u32, with_token: bool) {
        self.takes_over = true;
        let live = &mut self.live[id as usize];
        self.kv_tokens += u64::from(computed.saturating_sub(live.computed));
        live.computed = live.computed.max(computed);
        if with_token {
            live.generated += 1;
            live.tokens += 1;
        }
    }

    /// The first request that waits, if it may be let in.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        let first = self.waiting.front().copied();
        first.filter(|_| first != self.barred)
    }

    /// The first tokens of a request have been read from a tier: their blocks get names.
    pub fn is_reloaded(&mut self, id: u32, tokens: u32, request: &Request) {
        self.comes(id, tokens, false);
        let block_tokens = self.pool.block_tokens();
        let live = &mut self.live[id as usize];
        live.cached = tokens;
        let number = live.request;
        let name = |block| request.block_name(number, block, block_tokens);
        self.pool.name_full(&mut live.held, tokens, name);
    }

    /// A pass begins: what it computes is counted as computed.
    pub fn begin(&mut self, pass: &Pass) {
        for part in &pass.parts {
            let live = &mut self.live[part.live as usize];
            live.computed += part.tokens;
            live.in_flight = true;
            self.kv_tokens += u64::from(part.tokens);
        }
    }

    /// Tokens that a part of a pass brings its request.
    #[must_use]
    pub fn brings(&self, part: &Part) -> u32 {
        match part.emits {
            true => gained(self.live(part.live), part, self.limits.gained).0,
            false => 0,
        }
    }

    /// Tokens that a request's blocks are to hold when a pass has computed so many.
    #[must_use]
    pub fn room_for(&self, id: u32, tokens: u32) -> u32 {
        let live = self.live(id);
        match live.is_in_prompt() {
            true => tokens,
            false => tokens + self.limits.guessed.min(live.output - live.generated),
        }
    }

    /// A pass is over: requests get their tokens. `done` is told of those
    /// that have all; they run no more, and hold their blocks until they are removed.
    pub fn end(&mut self, pass: &Pass, requests: &[Request], mut done: impl FnMut(u32)) {
        let named = self.pool.keeps_prefixes();
        let block_tokens = self.pool.block_tokens();
        let mut finished = false;
        for part in &pass.parts {
            let live = &mut self.live[part.live as usize];
            live.in_flight = false;
            if named {
                let number = live.request;
                let request = &requests[number as usize];
                let name = |block| request.block_name(number, block, block_tokens);
                self.pool.name_full(&mut live.held, live.computed, name);
            }
            if part.emits {
                let (tokens, ahead) = gained(live, part, self.limits.gained);
                live.ahead = ahead;
                live.generated += tokens;
                live.tokens += tokens;
                // Keys and values of guesses that were right are there already.
                live.computed += tokens - 1;
                self.kv_tokens += u64::from(tokens - 1);
                finished |= live.generated >= live.output;
            }
        }
        if finished {
            let live = &self.live;
            self.running.retain(|&id| {
                let over = live[id as usize].generated >= live[id as usize].output;
                if over {
                    done(id);
                }
                !over
            });
        }
    }
}

/// Tokens that a request gets from a pass: one, and of those that were guessed as many as are right on average; and the
/// part of a token that is left over.
fn gained(live: &Live, part: &Part, mean: f64) -> (u32, f64) {
    if mean <= 1.0 || part.in_prompt {
        return (1, live.ahead);
    }
    let ahead = live.ahead + mean - 1.0;
    let whole = ahead.floor();
    let left = live.output.saturating_sub(live.generated).max(1);
    ((1 + whole as u32).min(left), ahead - whole)
}
