//! Gradients and weights on their way between replicas.

use super::buckets::Filling;
use super::compression::Hooked;
use super::costs::Weights;
use super::host::SyncPoint;
use super::layers::Deps;
use super::owned::{part, stage_weights, whole_layer};
use super::resolve::Training;
use super::script::{COMPUTE, DATA, Slot, collective};
use super::spec::{Backend, DataParallelSpec};
use super::step::{StepWriter, filling};
use crate::exchanges::Operation;
use fabricsim_collective::Collective;
use fabricsim_nccl::{Algorithm, Forced};
use fabricsim_plan::job::{BucketId, Kernels, TaskId, TaskKind};
use fabricsim_units::Bytes;
use std::collections::VecDeque;

/// Gradients that are ready and not sent, and weights that were asked for.
pub(super) struct Gradients {
    filling: Option<Filling>,
    waiting: u64,
    /// The task after which the last of them is there.
    ready: Option<TaskId>,
    /// Not to go out before the backward pass is over.
    held: Vec<u64>,
    /// Exchanges of gradients so far.
    pub(super) sent: Deps,
    /// Those of the step before, where the optimizer waits for these.
    pub(super) stale: Deps,
    /// Parameters that the CPU has updated as their gradients came, and after what they are there.
    pub(super) updated: (u64, Deps),
    /// Layers of the present pass whose weights are to be gathered, and those that have been
    /// asked for.
    pub(super) to_gather: VecDeque<u64>,
    pub(super) gathered: VecDeque<(u64, Option<TaskId>)>,
    /// Layers whose gradients wait for those of others, to be summed up with them.
    pub(super) to_sum: Vec<u64>,
    pub(super) ends: Option<TaskId>,
    /// New weights of this step, in the order of the forward pass: bytes up to which each
    /// all-gather brings them.
    pub(super) coming: VecDeque<(u64, Option<TaskId>)>,
    pub(super) taken: u64,
    first_step: bool,
    /// Buckets that went out in this step.
    buckets: u16,
}

impl Gradients {
    pub(super) fn new(training: &Training) -> Self {
        Gradients {
            filling: filling(training),
            waiting: 0,
            ready: None,
            held: Vec::new(),
            sent: Deps::default(),
            stale: Deps::default(),
            updated: Default::default(),
            to_gather: VecDeque::new(),
            gathered: VecDeque::new(),
            to_sum: Vec::new(),
            ends: None,
            coming: VecDeque::new(),
            taken: 0,
            first_step: true,
            buckets: 0,
        }
    }

    /// A step begins.
    pub(super) fn begin(&mut self) {
        self.sent = Deps::default();
        self.ends = None;
        self.taken = 0;
        self.buckets = 0;
        if let Some(filling) = &mut self.filling {
            filling.restart();
        }
    }
}

impl StepWriter<'_, '_, '_> {
    /// Gradients of these weights are there after a task.
    pub(super) fn gradient(&mut self, dense: &[u64], experts: u64, after: TaskId) {
        if !self.sends_gradients || self.gradients.filling.is_none() {
            return;
        }
        let width = u64::from(self.training.gradient_bytes());
        for tensor in dense {
            self.gradients.waiting += tensor * width;
            self.gradients.ready = Some(after);
            let full = self
                .gradients
                .filling
                .as_mut()
                .is_some_and(|f| f.add(Bytes::new(tensor * width)));
            if full {
                self.send_bucket();
            }
        }
        if experts > 0 {
            let operation = self.exchange("gradients of experts", experts * width);
            let called = self
                .writer
                .call(DATA, Slot::ExpertData, operation, &[after]);
            self.gradients.sent.add(called);
            let own = self.divided_gradients(0, experts);
            self.gradients_to_host(own, called.or(Some(after)));
        }
    }

    /// What replicas do with gradients.
    fn exchange(&self, name: &str, bytes: u64) -> Operation {
        match &self.training.spec.data_parallel {
            DataParallelSpec::Ddp(ddp) => {
                let operation = collective(
                    &format!("all-reduce of {name}"),
                    Collective::AllReduce,
                    bytes,
                );
                let algorithm = match ddp.backend {
                    Backend::Nccl => None,
                    Backend::Gloo => Some(Algorithm::CpuRing),
                };
                Operation {
                    forced: Forced {
                        algorithm,
                        protocol: None,
                    },
                    ..operation
                }
            }
            _ => collective(
                &format!("reduce-scatter of {name}"),
                Collective::ReduceScatter,
                bytes,
            ),
        }
    }

    fn send_bucket(&mut self) {
        let bytes = std::mem::take(&mut self.gradients.waiting);
        let overlap = match &self.training.spec.data_parallel {
            DataParallelSpec::Ddp(ddp) => ddp.overlap,
            DataParallelSpec::Zero(zero) => zero.overlap_gradients,
            _ => true,
        };
        if overlap {
            let after = self.gradients.ready;
            self.send_gradients(bytes, after);
        } else {
            self.gradients.held.push(bytes);
        }
    }

    fn send_gradients(&mut self, bytes: u64, after: Option<TaskId>) {
        let mut after = Deps::from_task(after);
        let whole = bytes / u64::from(self.training.gradient_bytes()).max(1);
        let hooked = match &self.training.spec.data_parallel {
            DataParallelSpec::Ddp(ddp) if self.writer.has(Slot::Data) => self.hooked(ddp, bytes),
            _ => Hooked::plain(bytes),
        };
        self.compress(&hooked, &mut after);
        let operation = match hooked.collective {
            Collective::AllReduce => self.exchange("gradients", hooked.bytes),
            other => collective("all-gather of selected gradients", other, hooked.bytes),
        };
        self.writer.tag.bucket = Some(BucketId::new(self.gradients.buckets));
        let called = self
            .writer
            .call(DATA, Slot::Data, operation, after.as_slice());
        let own = self.divided_gradients(whole, 0);
        self.gradients_to_host(own, called.or(after.as_slice().last().copied()));
        self.writer.tag.bucket = None;
        self.gradients.buckets = self.gradients.buckets.saturating_add(1);
        let mut came = Deps::from_task(called);
        self.decompress(&hooked, &mut came);
        self.gradients.sent.extend(&came);
        self.may_synchronise(SyncPoint::Bucket, true);
    }

    /// A virtual stage is through with a micro-batch whose gradients go out: what is left of its gradients goes
    /// out, but for DDP, whose buckets know no stages.
    pub(super) fn end_chunk(&mut self) {
        let zero = matches!(self.training.spec.data_parallel, DataParallelSpec::Zero(_));
        if zero && self.sends_gradients && self.gradients.waiting > 0 {
            self.send_bucket();
            if let Some(filling) = &mut self.gradients.filling {
                filling.restart();
            }
        }
        if self.training.divides_each_micro_batch() && !self.gradients.held.is_empty() {
            self.send_held();
            // The next micro-batch's gradients take the place of these.
            let sent = self.gradients.sent.clone();
            self.of_kind(TaskKind::Gradients, |me| {
                me.run("gradients sent", Kernels::default(), &sent)
            });
        }
    }

    /// What was not to go out before the backward pass is over.
    fn send_held(&mut self) {
        for bytes in std::mem::take(&mut self.gradients.held) {
            let after = self.last;
            self.send_gradients(bytes, after);
        }
    }

    /// Gradients of each micro-batch are added to those of the ones before, where products do not do so
    /// themselves: whole ones, or with ZeRO's stage 2 the part of them that this GPU updates. Returns
    /// what whole ones have to wait for before they go out.
    pub(super) fn accumulate(&mut self, weights: &[&Weights]) -> Option<TaskId> {
        let t = self.training;
        let sharded = matches!(t.spec.data_parallel, DataParallelSpec::Fsdp(_));
        if t.fused_accumulation() || sharded || t.micro_batches == 1 {
            return None;
        }
        let dense: u64 = weights.iter().flat_map(|w| &w.dense).sum();
        let experts: u64 = weights.iter().map(|w| w.experts).sum();
        if t.gradients_leave() {
            // The host adds them up.
            return None;
        }
        let own = if t.divides_each_micro_batch() {
            part(t, dense, experts)
        } else {
            dense + experts
        };
        let kernels = self.costs.accumulation(own, t);
        let sum = self.of_kind(TaskKind::Gradients, |me| {
            me.run("accumulate gradients", kernels, &Deps::default())
        });
        (!t.divides_each_micro_batch()).then_some(sum)
    }

    /// All gradients that have not gone out.
    pub(super) fn flush_gradients(&mut self) {
        if self.gradients.waiting > 0 {
            self.send_bucket();
        }
        self.send_held();
        if self.training.spec.data_parallel == DataParallelSpec::SingleProcess {
            let width = u64::from(self.training.gradient_bytes());
            let bytes = stage_weights(self.training, self.at.pp).0 * width;
            let operation = collective("sum of gradients", Collective::Reduce, bytes);
            let after = self.last;
            let called = self
                .writer
                .call(DATA, Slot::Data, operation, after.as_slice());
            self.gradients.sent.add(called);
        }
        self.gradients.first_step = false;
    }

    /// The first GPU's weights and the inputs go to all others.
    pub(super) fn spread(&mut self) {
        let bytes = stage_weights(self.training, self.at.pp).0 * 4;
        let after = self.last;
        let weights = collective("weights from the first GPU", Collective::Broadcast, bytes);
        let called = self
            .writer
            .call(DATA, Slot::Data, weights, after.as_slice());
        let k = self
            .writer
            .kernels("inputs", Kernels::default(), called.as_slice());
        self.last = Some(k);
    }

    /// Outputs go to the first GPU for the loss, and their gradients come back; or the graph is
    /// walked for gradients that no loss reaches.
    pub(super) fn before_backward(&mut self) {
        let t = self.training;
        let after = self.last;
        match &t.spec.data_parallel {
            DataParallelSpec::SingleProcess => {
                let rows = t.batch.sequences * t.batch.tokens * u64::from(t.dims.dp);
                let bytes = rows * t.model.vocabulary * 4;
                let there = collective("outputs to the first GPU", Collective::Gather, bytes);
                let back = collective("gradients of outputs", Collective::Scatter, bytes);
                self.writer.call(DATA, Slot::Data, there, after.as_slice());
                let called = self.writer.call(DATA, Slot::Data, back, after.as_slice());
                let came = called.as_slice();
                self.last = Some(self.writer.kernels("loss", Kernels::default(), came));
            }
            DataParallelSpec::Ddp(ddp) => {
                if let Some(time) = ddp.find_unused {
                    let k =
                        self.writer
                            .wait(COMPUTE, "find unused parameters", time, after.as_slice());
                    self.last = Some(k);
                }
            }
            _ => {}
        }
    }

    /// Weights that the optimiser made in the step before come back from those who made them.
    pub(super) fn new_weights(&mut self) {
        let DataParallelSpec::Zero(zero) = &self.training.spec.data_parallel else {
            return;
        };
        let (overlap, bucket) = (zero.overlap_weights, zero.bucket.get());
        if self.gradients.first_step {
            return;
        }
        let after = self.last;
        let (dense, experts) = stage_weights(self.training, self.at.pp);
        let mut rest = dense * 2;
        // As many parts as gradients have, which are twice as wide or as wide.
        let width = u64::from(self.training.gradient_bytes());
        let part = (bucket * 2 / width.max(1)).max(1);
        let mut until = 0;
        self.gradients.coming.clear();
        while rest > 0 {
            let bytes = rest.min(part);
            rest -= bytes;
            until += bytes;
            let operation = collective("all-gather of weights", Collective::AllGather, bytes);
            let called = self
                .writer
                .call(DATA, Slot::Data, operation, after.as_slice());
            self.gradients.coming.push_back((until, called));
        }
        if experts > 0 {
            let operation = collective("all-gather of experts", Collective::AllGather, experts * 2);
            let called = self
                .writer
                .call(DATA, Slot::ExpertData, operation, after.as_slice());
            self.gradients.coming.push_back((until, called));
        }
        if !overlap && let Some((_, Some(last))) = self.gradients.coming.back().copied() {
            let k = self
                .writer
                .kernels("new weights", Kernels::default(), &[last]);
            self.last = Some(k);
            self.gradients.coming.clear();
        }
    }

    pub(super) fn layer_bytes(&self, layer: u64, width: u64) -> u64 {
        let (dense, experts) = whole_layer(self.training, layer);
        (dense + experts) * width
    }
}
