//! Attention over several ranks, and tokens on their way to experts.

use super::costs::BlockCost;
use super::script::{CONTEXT, Slot, collective};
use super::spec::ContextParallel;
use super::step::StepWriter;
use crate::exchanges::{Moves, Operation};
use fabricsim_collective::Collective;
use fabricsim_nccl::Forced;
use fabricsim_plan::job::{Kernels, TaskId};
use fabricsim_units::Bytes;
use smallvec::SmallVec;

/// What comes next has to wait for.
#[derive(Debug, Clone, Default)]
pub(super) struct Deps(SmallVec<[TaskId; 4]>);

impl Deps {
    pub(super) fn one(task: TaskId) -> Self {
        let mut deps = Deps::default();
        deps.0.push(task);
        deps
    }

    pub(super) fn from_task(task: Option<TaskId>) -> Self {
        let mut deps = Deps::default();
        deps.add(task);
        deps
    }

    pub(super) fn add(&mut self, task: Option<TaskId>) {
        if let Some(task) = task.filter(|t| !self.0.contains(t)) {
            self.0.push(task);
        }
    }

    pub(super) fn extend(&mut self, other: &Deps) {
        for &task in &other.0 {
            self.add(Some(task));
        }
    }

    pub(super) fn as_slice(&self) -> &[TaskId] {
        &self.0
    }
}

impl StepWriter<'_, '_, '_> {
    /// The attention block of a forward pass, with the communications around and inside.
    pub(super) fn attention(&mut self, cost: &BlockCost, deps: &mut Deps) {
        if !self.writer.has(Slot::Context) {
            self.around(deps, |me, deps| me.run("attention", cost.forward, deps));
            return;
        }
        let core = cost.core.0;
        let rest = cost.forward.without(core);
        self.around(deps, |me, deps| {
            let k = me.run("attention projections", rest, deps);
            me.core(core, &Deps::one(k), false)
        });
    }

    /// The same backward. Returns the task after which the weights' gradients are there.
    pub(super) fn attention_backward(&mut self, cost: &BlockCost, deps: &mut Deps) -> TaskId {
        if !self.writer.has(Slot::Context) {
            return self.block_backward("attention", cost, deps);
        }
        let k = self.core(cost.core.1, deps, true);
        *deps = Deps::one(k);
        let rest = BlockCost {
            backward: cost.backward.without(cost.core.1),
            ..*cost
        };
        self.block_backward("attention", &rest, deps)
    }

    /// The core of the attention with the keys and values of all context-parallel ranks.
    fn core(&mut self, core: Kernels, deps: &Deps, backward: bool) -> TaskId {
        let t = self.training;
        let name = if backward {
            "attention core backward"
        } else {
            "attention core"
        };
        let ranks = u64::from(t.dims.cp);
        let rows = t.batch.sequences * t.batch.tokens / ranks;
        let tp = u64::from(t.dims.tp);
        let kv_heads = (t.model.kv_heads() / tp).max(1);
        let kv = rows * kv_heads * (t.model.qk_dim() + t.model.v_dim()) * 2;
        match t.spec.parallel.context {
            ContextParallel::Ring => {
                let part = core.scaled(1.0 / ranks as f64);
                // Backward their gradients go round as well.
                let kv = if backward { 2 * kv } else { kv };
                let mut came = deps.clone();
                let mut task = self.run(name, part, deps);
                for _ in 1..ranks {
                    let shift = collective("keys and values", Collective::SendRecv, kv);
                    let called = self
                        .writer
                        .call(CONTEXT, Slot::Context, shift, came.as_slice());
                    came = Deps::from_task(called);
                    task = self.run(name, part, &came);
                }
                task
            }
            ContextParallel::AllGather => {
                let gather = collective(
                    "all-gather of keys and values",
                    Collective::AllGather,
                    kv * ranks,
                );
                let called = self
                    .writer
                    .call(CONTEXT, Slot::Context, gather, deps.as_slice());
                let mut came = Deps::default();
                came.add(called);
                let task = self.run(name, core, &came);
                if backward {
                    let sum = collective(
                        "reduce-scatter of keys and values",
                        Collective::ReduceScatter,
                        kv * ranks,
                    );
                    let after = Deps::one(task);
                    let called = self
                        .writer
                        .call(CONTEXT, Slot::Context, sum, after.as_slice());
                    let mut came = Deps::default();
                    came.add(called);
                    return self.run("after keys and values", Kernels::default(), &came);
                }
                task
            }
            ContextParallel::AllToAll => {
                let heads = t.model.heads / tp;
                let queries = rows * heads * t.model.qk_dim() * 2;
                let result = rows * heads * t.model.v_dim() * 2;
                // Backward it is the gradients: of the result there, of what came back.
                let (out, home) = if backward {
                    (result, queries + kv)
                } else {
                    (queries + kv, result)
                };
                let there = collective("heads for sequence", Collective::AllToAll, out);
                let called = self
                    .writer
                    .call(CONTEXT, Slot::Context, there, deps.as_slice());
                let mut came = Deps::default();
                came.add(called);
                let task = self.run(name, core, &came);
                let back = collective("sequence for heads", Collective::AllToAll, home);
                let after = Deps::one(task);
                let called = self
                    .writer
                    .call(CONTEXT, Slot::Context, back, after.as_slice());
                let mut came = Deps::default();
                came.add(called);
                self.run("after heads", Kernels::default(), &came)
            }
        }
    }

    /// Tokens go to their experts, or back.
    pub(super) fn dispatch(&mut self, deps: &mut Deps, back: bool) {
        let name = if back {
            "tokens from experts"
        } else {
            "tokens to experts"
        };
        // All layers and steps move the same, and a matrix of all ranks is not made for each.
        let known = self.dispatches[usize::from(back)];
        let Some(exchange) = known.or_else(|| self.dispatched(name, back)) else {
            return;
        };
        self.dispatches[usize::from(back)] = Some(exchange);
        let called =
            self.writer
                .call_again(CONTEXT, Slot::Expert, (name, exchange), deps.as_slice());
        *deps = Deps::from_task(Some(called));
    }

    /// The operation of a [`Self::dispatch`].
    fn dispatched(&mut self, name: &str, back: bool) -> Option<u16> {
        let t = self.training;
        let experts = t.model.experts.as_ref()?;
        let parts = if t.spec.parallel.sequence_parallel {
            t.dims.tp
        } else {
            1
        };
        let rows = t.batch.sequences * t.batch.tokens / u64::from(t.dims.cp) / u64::from(parts);
        let bytes = rows * experts.per_token * t.model.hidden * 2;
        let moves = if self.shares.is_empty() {
            Moves::Collective(Collective::AllToAll)
        } else {
            let shares = self.shares;
            let cell = |share: f64| (bytes as f64 * share) as u64 / 16 * 16;
            let matrix = (0..shares.len()).map(|from| {
                let to = |to: usize| cell(if back { shares[from] } else { shares[to] });
                (0..shares.len()).map(to).collect()
            });
            Moves::Matrix(matrix.collect())
        };
        let operation = Operation {
            name: name.to_owned(),
            moves,
            bytes: Bytes::new(bytes),
            forced: Forced::default(),
        };
        self.writer.operation(Slot::Expert, operation)
    }
}
