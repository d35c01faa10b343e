//! KV caches travel from the engine of a prompt to the one that generates.
//!
//! vLLM's order: the prompt is computed and held; the engine that generates reserves blocks for all of it,
//! reads it, and tells the other one to let go (`NixlConnector`). SGLang's order: the engine that
//! generates reserves first, then the prompt is computed, sent, and its first token with it.

use super::{Fleet, Purpose, Role};
use crate::serving::scheduler::{Live, Pass};
use fabricsim_plan::job::{ActorId, Batch, StreamId, Tag, Task, TransferRouteId, Work};
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who begins a hand-over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoverOrder {
    /// The engine that generates reads, once the prompt is there (vLLM).
    #[default]
    Pull,
    /// The engine of the prompt writes, into blocks that were reserved before (SGLang).
    Push,
}

/// How KV caches travel.
#[derive(Debug, Clone, Default)]
pub struct Handover {
    /// Who begins.
    pub order: HandoverOrder,
    /// Whether each part of a prompt is sent as soon as it is computed; with [`HandoverOrder::Push`] alone.
    pub pipelined: bool,
    /// What starting one takes, beside what moves.
    pub setup: Time,
    /// The ways between two engines, from the one of prompts to the one that generates: what each of their GPUs
    /// sends. None: it takes no time.
    pub legs: FxHashMap<(u32, u32), Vec<Leg>>,
    /// What a token's bytes take between two engines on links that nobody else uses.
    pub near: FxHashMap<(u32, u32), Time>,
}

/// What one GPU sends to another.
#[derive(Debug, Clone, Copy)]
pub struct Leg {
    /// The GPU on whose streams it goes.
    pub actor: ActorId,
    /// Streams that transfers have there: from 1 on.
    pub streams: u8,
    /// Bytes of each token.
    pub bytes_per_token: u64,
    /// Descriptors of each block.
    pub descriptors_per_block: f64,
    /// Bytes that flow while one is posted: only what posting takes longer than bytes counts.
    pub bytes_per_posting: f64,
    /// How they go.
    pub work: LegWork,
}

impl Leg {
    /// Of the descriptors of so many blocks those that are still to be posted when all bytes could have flowed.
    fn exposed(&self, bytes: u64, blocks: u32) -> u32 {
        let all = f64::from(blocks) * self.descriptors_per_block;
        let beside = match self.bytes_per_posting > 0.0 {
            true => bytes as f64 / self.bytes_per_posting,
            false => 0.0,
        };
        (all - beside).round().max(0.0) as u32
    }
}

/// How a leg's bytes go.
#[derive(Debug, Clone, Copy)]
pub enum LegWork {
    /// Over links that others use, too.
    Route(TransferRouteId),
    /// At this rate, in bytes per second, whatever else goes on.
    Given(f64),
}

impl Handover {
    /// Whether blocks are reserved before the prompt is computed.
    pub(super) fn is_pushed(&self) -> bool {
        self.order == HandoverOrder::Push
    }

    /// Whether parts of a prompt go on their own.
    pub(super) fn is_pipelined(&self) -> bool {
        self.pipelined && self.is_pushed()
    }

    /// What orders ways by how fast they are: see [`Handover::near`].
    pub(super) fn pace(&self, from: u32, to: u32) -> Time {
        self.near.get(&(from, to)).copied().unwrap_or(Time::ZERO)
    }
}

/// A hand-over of some tokens that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moving {
    request: u32,
    legs: u32,
}

impl Fleet<'_> {
    /// A prompt is computed: its KV cache goes on its way, or asks for blocks first.
    pub(super) fn prompt_is_done(&mut self, request: u32, now: Time, out: &mut Batch) {
        if self.handover.is_pushed() {
            self.send_rest(request, now, out);
        } else {
            self.is_to_come(request);
        }
    }

    /// A request asks an engine for blocks to generate in.
    pub(super) fn is_to_come(&mut self, request: u32) {
        let from = self.places[request as usize].prompt.map(|place| place.0);
        let (engine, part) = self.routing.generator(from, &self.handover, &self.workers);
        self.places[request as usize].generates = Some((engine, part, None));
        self.served.records[request as usize].engines[1] = Some(engine);
        self.workers[engine as usize].arriving[usize::from(part)].push_back(request);
        self.touch(engine);
    }

    /// Blocks for requests that are to come, in order, as long as there are enough.
    pub(super) fn reserve(&mut self, engine: u32, now: Time, out: &mut Batch) {
        for part in 0..self.workers[engine as usize].engine.parts.len() {
            while let Some(&request) = self.workers[engine as usize].arriving[part].front() {
                let of = &self.requests[request as usize];
                let scheduler = &mut self.workers[engine as usize].engine.parts[part];
                let id = scheduler.add(Live {
                    request,
                    tokens: of.input,
                    output: of.output,
                    ..Live::default()
                });
                if scheduler.pool.keeps_prefixes() {
                    scheduler.take_prefix(id, of);
                }
                if !scheduler.grow(id, of.input) {
                    scheduler.remove(id);
                    break;
                }
                self.workers[engine as usize].arriving[part].pop_front();
                self.is_reserved(request, (engine, part as u16, id), now, out);
            }
        }
    }

    /// A request has its blocks where it will generate.
    fn is_reserved(
        &mut self,
        request: u32,
        (engine, part, id): (u32, u16, u32),
        now: Time,
        out: &mut Batch,
    ) {
        self.served.records[request as usize].reserved = Some(now);
        let known = self.workers[engine as usize].engine.parts[usize::from(part)]
            .live(id)
            .computed;
        let place = &mut self.places[request as usize];
        place.generates = Some((engine, part, Some(id)));
        place.sent = known;
        if self.handover.is_pushed() {
            self.wait_for_prompt(request);
        } else {
            self.send_rest(request, now, out);
        }
    }

    /// What is computed of prompts after a pass goes on its way.
    pub(super) fn send_chunks(&mut self, engine: u32, part: usize, pass: &Pass, out: &mut Batch) {
        for step in &pass.parts {
            if !step.emits {
                let scheduler = &self.workers[engine as usize].engine.parts[part];
                let request = scheduler.live(step.live).request;
                self.send(request, step.context + step.tokens, out);
            }
        }
    }

    /// All that has not been sent of a prompt goes on its way.
    fn send_rest(&mut self, request: u32, now: Time, out: &mut Batch) {
        let all = self.requests[request as usize].input;
        self.send(request, all, out);
        if self.places[request as usize].legs == 0 {
            self.is_handed_over(request, now, out);
        }
    }

    /// A prompt's tokens up to this number go on their way.
    fn send(&mut self, request: u32, until: u32, out: &mut Batch) {
        let place = &mut self.places[request as usize];
        let tokens = until.saturating_sub(place.sent);
        place.sent = place.sent.max(until);
        let (Some((from, ..)), Some((to, part, _))) = (place.prompt, place.generates) else {
            return;
        };
        let pool = &self.workers[to as usize].engine.parts[usize::from(part)].pool;
        let blocks = pool.blocks_for(tokens);
        let block_tokens = u64::from(pool.block_tokens());
        let legs = self.handover.legs.get(&(from, to)).cloned();
        let legs = legs.unwrap_or_default();
        if legs.is_empty() || tokens == 0 {
            return;
        }
        self.places[request as usize].legs += 1;
        let moving = self.moving.len() as u32;
        self.moving.push(Moving {
            request,
            legs: legs.len() as u32,
        });
        for leg in legs {
            let bytes = u64::from(blocks) * block_tokens * leg.bytes_per_token;
            let purpose = Some(Purpose::Leg { moving });
            self.send_leg(leg, (bytes, blocks), (self.handover.setup, purpose), out);
        }
    }

    /// One GPU's part of blocks that move, on the stream of its that comes next.
    pub(super) fn send_leg(
        &mut self,
        leg: Leg,
        (bytes, blocks): (u64, u32),
        (setup, purpose): (Time, Option<Purpose>),
        out: &mut Batch,
    ) {
        let turn = &mut self.streams[leg.actor.0 as usize];
        let stream = StreamId(1 + *turn % leg.streams.max(1));
        *turn = (*turn + 1) % leg.streams.max(1);
        let task = |work| Task {
            stream,
            after: Default::default(),
            work,
            tag: Tag::default(),
        };
        if setup > Time::ZERO {
            self.write(leg.actor, task(Work::Wait(setup)), None, out);
        }
        let work = match leg.work {
            LegWork::Route(route) => Work::Transfer {
                route,
                bytes: Bytes::new(bytes),
                messages: leg.exposed(bytes, blocks),
            },
            LegWork::Given(rate) => {
                let time = bytes as f64 / rate * 1e12;
                Work::Wait(Time::from_picos(time.round() as u64))
            }
        };
        self.write(leg.actor, task(work), purpose, out);
    }

    /// A part of a hand-over has arrived.
    pub(super) fn leg_over(&mut self, moving: u32, now: Time, out: &mut Batch) {
        let one = &mut self.moving[moving as usize];
        one.legs -= 1;
        let request = one.request;
        if one.legs > 0 {
            return;
        }
        let place = &mut self.places[request as usize];
        place.legs -= 1;
        let all_sent = place.sent >= self.requests[request as usize].input;
        let computed = self.served.records[request as usize].prefilled.is_some();
        if place.legs == 0 && all_sent && computed {
            self.is_handed_over(request, now, out);
        }
    }

    /// A KV cache is where it is needed: the engine of the prompt lets go of it, the other one goes on.
    fn is_handed_over(&mut self, request: u32, now: Time, out: &mut Batch) {
        self.served.records[request as usize].handed_over = Some(now);
        let place = self.places[request as usize];
        if let Some((engine, part, id)) = place.prompt {
            let worker = &mut self.workers[engine as usize];
            debug_assert_eq!(worker.engine.role, Role::Prefill);
            worker.engine.parts[usize::from(part)].remove(id);
            self.touch(engine);
        }
        let Some((engine, part, Some(id))) = place.generates else {
            return;
        };
        let input = self.requests[request as usize].input;
        let pushed = self.handover.is_pushed();
        let scheduler = &mut self.workers[engine as usize].engine.parts[usize::from(part)];
        // With vLLM the last token is computed once more, to get the first one that is generated; SGLang sends
        // that along.
        let computed = if pushed { input } else { input - 1 };
        scheduler.comes(id, computed, pushed);
        self.touch(engine);
        if pushed {
            let record = &mut self.served.records[request as usize];
            record.first_token = Some(now);
            record.generated = 1;
            self.places[request as usize].last_token = now;
            if self.requests[request as usize].output == 1 {
                self.workers[engine as usize].engine.parts[usize::from(part)].remove(id);
                self.is_done(request, now, out);
                return;
            }
        }
        let scheduler = &mut self.workers[engine as usize].engine.parts[usize::from(part)];
        scheduler.waiting.push_back(id);
    }
}
