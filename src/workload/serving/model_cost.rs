//! What a pass takes on a GPU of an engine: its kernels by the law of their generation, what tensor and expert
//! parallelism send, and what the host takes.
//!
//! Of data-parallel parts the slowest counts for attention; experts get the tokens of all. Engines pad passes of
//! single tokens to the sizes that they have CUDA graphs of (vLLM: 1, 2, 4, and multiples of 8 up to 512), and so
//! do we: of all else than attention a time is computed once for each size.

use super::engine_shape::{EngineShape, mla_widths};
use super::exchange::Exchange;
use super::layers::{Dense, Sum, ends, mixture, mlp, projections};
use super::pass_time::{PassCost, PassShape};
use crate::kernel::{AttentionDecode, AttentionPrefill, Kernel, KernelLaw, MlaDecode, MlaPrefill};
use crate::model::AttentionKind;
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;

/// What communications of an engine take.
pub trait EngineLinks {
    /// An all-reduce of so many bytes over the GPUs of tensor parallelism.
    fn all_reduce(&mut self, bytes: Bytes) -> Time;
    /// An all-to-all over the GPUs that experts are spread over: so many bytes from each GPU.
    fn all_to_all(&mut self, bytes: Bytes) -> Time;
    /// Tokens to the GPUs of their experts and back by kernels of the engine's own; nothing where it has none for
    /// these links.
    fn exchange(&mut self, _: &Exchange) -> Option<Time> {
        None
    }
    /// So many bytes to the next stage.
    fn send(&mut self, bytes: Bytes) -> Time;
}

/// What passes of a pool's engines did, all together, of one GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PassWork {
    /// Passes.
    pub passes: u64,
    /// Time in them, one stage each.
    pub busy: Time,
    /// Tokens that were computed, all parts together.
    pub tokens: u64,
    /// Operations on a GPU.
    pub operations: f64,
    /// Bytes of weights and KV cache that a GPU read.
    pub bytes: f64,
}

/// What passes take on engines of one pool.
pub struct ModelCost<'l> {
    shape: EngineShape,
    law: KernelLaw<'static>,
    links: Box<dyn EngineLinks + 'l>,
    /// By tokens of the fullest part, tokens of all parts, and tokens that logits are computed of.
    dense: FxHashMap<(u64, u64, u64), Dense>,
    /// What passes did.
    pub work: PassWork,
}

/// Sizes beyond which passes are not padded to those of graphs.
const MAX_GRAPH: u64 = 512;

/// Tokens of the graph that a pass of so many runs as.
fn padded(tokens: u64) -> u64 {
    match tokens {
        0..=2 => tokens,
        3..=4 => 4,
        5..=MAX_GRAPH => tokens.next_multiple_of(8),
        // Long prompts differ in every token: a step of 1 % at most.
        _ => tokens.next_multiple_of(((tokens / 128).next_power_of_two()).max(8)),
    }
}

impl<'l> ModelCost<'l> {
    /// Engines of such a shape on such GPUs.
    #[must_use]
    pub fn new(
        shape: EngineShape,
        law: KernelLaw<'static>,
        links: Box<dyn EngineLinks + 'l>,
    ) -> Self {
        ModelCost {
            shape,
            law,
            links,
            dense: FxHashMap::default(),
            work: PassWork::default(),
        }
    }

    /// What a pass takes on a stage.
    #[must_use]
    pub fn stage(&mut self, shapes: &[PassShape]) -> Time {
        let checked = self.shape.checked;
        let tokens = |shape: &PassShape| shape.prompt_tokens() + u64::from(shape.decodes) * checked;
        let fullest = shapes.iter().map(tokens).max().unwrap_or(0);
        let all: u64 = shapes.iter().map(tokens).sum();
        let emits = shapes.iter().map(|s| u64::from(s.emits)).max().unwrap_or(0);
        let stages = self.shape.pp;
        let layers = self.shape.model.layers.div_ceil(stages);
        let dense = self.dense(fullest, all, emits * checked);
        let full = self.shape.model.full_layers(layers);
        let window = self.shape.model.sliding.map(|sliding| sliding.window);
        let mut attention = Time::ZERO;
        let (mut operations, mut bytes) = (0.0, 0.0);
        for shape in shapes {
            let mut sum = Time::ZERO;
            for (count, window) in [(full, None), (layers - full, window)] {
                if count > 0 {
                    let (time, ops, read) = self.attention(shape, window);
                    sum += time.times(count);
                    operations += ops * count as f64;
                    bytes += read * count as f64;
                }
            }
            attention = attention.max(sum);
        }
        let parts = shapes.len().max(1) as f64;
        let mut kernels = dense.time + attention;
        let has_prompts = shapes.iter().any(|shape| !shape.prompts.is_empty());
        let is_long = has_prompts && fullest > self.shape.graph_tokens;
        if is_long || !self.shape.has_graphs {
            // The host runs ahead, unless kernels are shorter than starting them.
            kernels = kernels.max(self.shape.eager.times(layers));
        }
        let drafted = (kernels.picos() as f64 * self.shape.draft * (checked - 1) as f64) as u64;
        let host = self.shape.host.0 + self.shape.host.1.times(emits);
        let time = kernels + Time::from_picos(drafted) + host;
        self.work.passes += 1;
        self.work.busy += time;
        self.work.tokens += all;
        self.work.operations += dense.operations + operations / parts;
        self.work.bytes += dense.bytes + bytes / parts;
        time
    }

    /// All but attention, of a stage.
    fn dense(&mut self, fullest: u64, all: u64, emits: u64) -> Dense {
        let key = (padded(fullest), padded(all), padded(emits));
        if let Some(&known) = self.dense.get(&key) {
            return known;
        }
        let mut sum = Sum {
            law: &self.law,
            shape: &self.shape,
            seconds: Time::ZERO,
            operations: 0.0,
            bytes: 0.0,
        };
        let shape = &self.shape;
        let model = &shape.model;
        let (tokens, all, logits) = key;
        let layers = model.layers;
        let with_experts = model
            .experts
            .map_or(0, |e| layers - e.first_dense_layers.min(layers));
        let without = layers - with_experts;
        // Of each kind of layer a stage has its share.
        let share = |count: u64, sum: &Sum<'_>| sum.scaled(count as f64 / shape.pp as f64);
        let mut total = Dense::default();
        let mut add = |part: Dense| {
            total.time += part.time;
            total.operations += part.operations;
            total.bytes += part.bytes;
        };
        projections(shape, tokens, &mut sum);
        add(share(layers, &sum));
        sum.clear();
        mlp(shape, model.ffn, tokens, shape.weights, &mut sum);
        add(share(without, &sum));
        sum.clear();
        if let Some(experts) = &model.experts {
            mixture(shape, experts, (tokens, all), &mut sum);
            add(share(with_experts, &sum));
            sum.clear();
        }
        ends(shape, tokens, logits, &mut sum);
        // Both ends are on different stages; passes wait for the slower one.
        add(sum.scaled(1.0));
        let messages = self.messages(tokens, with_experts);
        total.time += messages;
        self.dense.insert(key, total);
        total
    }

    /// What a stage's communications take.
    fn messages(&mut self, tokens: u64, with_experts: u64) -> Time {
        let shape = &self.shape;
        let model = &shape.model;
        let row = tokens * model.hidden;
        let share = |time: Time, count: u64| {
            let picos = time.picos() as f64 * count as f64 / shape.pp as f64;
            Time::from_picos(picos.round() as u64)
        };
        let mut time = Time::ZERO;
        if tokens == 0 {
            return time;
        }
        if shape.tp > 1 {
            let once = self.links.all_reduce(Bytes::new(2 * row));
            // Behind attention and behind the MLP; experts that are spread over GPUs bring their sums with them.
            let spread = if shape.ep > 1 && shape.attention_dp > 1 {
                with_experts
            } else {
                0
            };
            time += share(once, 2 * model.layers - spread);
        }
        if let Some(experts) = model.experts
            && shape.ep > 1
            && shape.attention_dp > 1
        {
            let sent = shape.experts.bytes().max(1.0);
            let exchange = Exchange {
                tokens,
                hidden: model.hidden,
                per_token: experts.per_token,
                experts: experts.count,
                // Below 16 bits blocks of 128 have a scale of 32.
                sent_bytes: if sent < 2.0 { sent + 4.0 / 128.0 } else { sent },
            };
            let both = self.links.exchange(&exchange).unwrap_or_else(|| {
                // A token goes once to each GPU that has one of its experts.
                let ep = shape.ep as f64;
                let copies = ep * (1.0 - (1.0 - 1.0 / ep).powi(experts.per_token as i32));
                let bytes = |each: f64| Bytes::new((row as f64 * copies * each) as u64);
                self.links.all_to_all(bytes(sent)) + self.links.all_to_all(bytes(2.0))
            });
            time += share(both, with_experts);
        }
        if shape.pp > 1 {
            time += self.links.send(Bytes::new(2 * row));
        }
        time
    }

    /// Attention of one layer, of a window if it has one: time, operations, bytes read.
    fn attention(&self, pass: &PassShape, window: Option<u64>) -> (Time, f64, f64) {
        let (mut time, mut operations, mut bytes) = (Time::ZERO, 0.0, 0.0);
        let shape = &self.shape;
        let model = &shape.model;
        let heads = (model.heads / shape.tp).max(1);
        let kv_heads = (model.kv_heads() / shape.tp).max(1);
        let widths = (model.qk_dim() + model.v_dim()) as f64;
        if pass.decodes > 0 {
            let sequences = u64::from(pass.decodes);
            let context = window.map_or(pass.decode_context, |window| {
                pass.decode_context.min(sequences.saturating_mul(window))
            });
            let kernel = match model.attention {
                AttentionKind::Mla(mla) => Kernel::MlaDecode(MlaDecode {
                    sequences: sequences * shape.checked,
                    context: context * shape.checked,
                    heads,
                    widths: mla_widths(&mla),
                    format: shape.kv,
                }),
                AttentionKind::MultiHead => Kernel::AttentionDecode(AttentionDecode {
                    sequences,
                    context,
                    heads: heads * shape.checked,
                    kv_heads,
                    head_dim: model.qk_dim(),
                    format: shape.kv,
                }),
            };
            time += self.shape.taken(&self.law, &kernel);
            operations += 2.0 * context as f64 * heads as f64 * widths;
            bytes += context as f64 * shape.kv_row();
        }
        if let Some((sequences, tokens, prefix)) = evened(pass, window) {
            let kernel = match model.attention {
                AttentionKind::Mla(mla) => Kernel::MlaPrefill(MlaPrefill {
                    sequences,
                    tokens,
                    prefix,
                    heads,
                    widths: mla_widths(&mla),
                    format: shape.kv,
                }),
                AttentionKind::MultiHead => Kernel::AttentionPrefill(AttentionPrefill {
                    sequences,
                    tokens,
                    prefix,
                    heads,
                    kv_heads,
                    head_dim: model.qk_dim(),
                    format: shape.kv,
                }),
            };
            time += self.shape.taken(&self.law, &kernel);
            let pairs = sequences as f64 * tokens as f64 * (prefix as f64 + tokens as f64 / 2.0);
            operations += 2.0 * pairs * heads as f64 * widths;
            bytes += sequences as f64 * (prefix + tokens) as f64 * shape.kv_row();
        }
        (time, operations, bytes)
    }
}

/// Parts of prompts as so many of the same length and the same prefix, with the same tokens and as many pairs of
/// tokens. With a window they are cut into pieces of its length.
fn evened(pass: &PassShape, window: Option<u64>) -> Option<(u64, u64, u64)> {
    if let ([only], None) = (pass.prompts.as_slice(), window) {
        return Some((1, u64::from(only.tokens), u64::from(only.context)));
    }
    let (mut count, mut pairs) = (0, 0.0);
    for chunk in &pass.prompts {
        let window = window.unwrap_or(u64::MAX);
        // Tokens that see all before them.
        let free = window.saturating_sub(u64::from(chunk.context));
        let free = free.min(u64::from(chunk.tokens)) as f64;
        pairs += free * (f64::from(chunk.context) + free / 2.0);
        pairs += (f64::from(chunk.tokens) - free) * window as f64;
        count += u64::from(chunk.tokens).div_ceil(window);
    }
    let tokens = pass.prompt_tokens().checked_div(count)?.max(1);
    let mean = tokens as f64;
    let prefix = pairs / (count as f64 * mean) - mean / 2.0;
    Some((count, tokens, prefix.round().max(0.0) as u64))
}

/// Pools of engines, each with its own shape.
pub struct PoolCosts<'l> {
    /// Of each pool.
    pub pools: Vec<ModelCost<'l>>,
    /// The pool of each engine.
    pub of_engine: Vec<usize>,
}

impl PassCost for PoolCosts<'_> {
    fn time(&mut self, engine: usize, shapes: &[PassShape]) -> Time {
        self.pools[self.of_engine[engine]].stage(shapes)
    }

    fn estimate(&mut self, engine: usize, shapes: &[PassShape]) -> Time {
        let pool = &mut self.pools[self.of_engine[engine]];
        let work = pool.work;
        let time = pool.stage(shapes).times(pool.shape.pp);
        pool.work = work;
        time
    }
}
