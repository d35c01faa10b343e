//! What one rank does in a training step.

use super::activations::Travelling;
use super::buckets::Filling;
use super::costs::{BlockCost, LayerCost, StageCosts, end_weights, layer_weights};
use super::gradients::Gradients;
use super::host::SyncPoint;
use super::layers::Deps;
use super::owned::updated;
use super::resolve::Training;
use super::script::{
    BACKWARD_IN, BACKWARD_OUT, COMPUTE, EMBEDDING, END, FORWARD_IN, FORWARD_OUT, Slot, TENSOR,
    Writer, collective, send,
};
use super::spec::DataParallelSpec;
use super::ways::HostSide;
use crate::model::{Coordinates, Recompute};
use crate::pipeline::Pass;
use fabricsim_collective::Collective;
use fabricsim_plan::job::{Tag, TaskId, TaskKind};

/// Writes the steps of one rank.
pub(super) struct StepWriter<'t, 'w, 'c> {
    pub(super) training: &'t Training,
    pub(super) costs: &'t StageCosts,
    pub(super) writer: &'w mut Writer<'c>,
    pub(super) at: Coordinates,
    /// How many tokens come to this rank's experts, as a multiple of the mean.
    pub(super) load: f64,
    /// The part of all tokens that goes to each rank of the expert-parallel group.
    pub(super) shares: &'t [f64],
    /// The operations of [`Self::dispatch`], there and back, once they are known.
    pub(super) dispatches: [Option<u16>; 2],
    pub(super) gradients: Gradients,
    /// Its host, if that has something to do.
    pub(super) host: Option<HostSide>,
    /// The batch that is being read ahead, if one is.
    pub(super) batch: Option<Vec<TaskId>>,
    /// With delayed updates: after which the parameters of the step before are on the GPU.
    pub(super) delayed: Deps,
    /// Activations that go to the host and come back.
    pub(super) travelling: Travelling,
    /// The last kernels so far.
    pub(super) last: Option<TaskId>,
    pub(super) first_micro_batch: bool,
    pub(super) last_micro_batch: bool,
    /// Gradients of the present pass go out as they come.
    pub(super) sends_gradients: bool,
}

impl<'t, 'w, 'c> StepWriter<'t, 'w, 'c> {
    pub(super) fn new(
        training: &'t Training,
        costs: &'t StageCosts,
        writer: &'w mut Writer<'c>,
        at: Coordinates,
        (load, shares): (f64, &'t [f64]),
        host: Option<HostSide>,
    ) -> Self {
        StepWriter {
            gradients: Gradients::new(training),
            training,
            costs,
            writer,
            at,
            load,
            shares,
            dispatches: [None; 2],
            host,
            batch: None,
            delayed: Deps::default(),
            travelling: Travelling::default(),
            last: None,
            first_micro_batch: true,
            last_micro_batch: false,
            sends_gradients: false,
        }
    }

    pub(super) fn steps(&mut self) {
        for step in 0..self.training.spec.steps {
            self.writer.tag = Tag {
                step,
                ..Tag::default()
            };
            self.step();
        }
    }

    fn step(&mut self) {
        let t = self.training;
        self.gradients.begin();
        self.next_batch();
        if t.spec.data_parallel == DataParallelSpec::SingleProcess {
            self.spread();
        }
        self.new_weights();
        let passes = t.schedule.passes(
            self.at.pp,
            t.dims.pp,
            t.micro_batches,
            t.dims.virtual_stages,
        );
        let mut sending = sending(t, &passes).into_iter();
        for pass in passes {
            self.writer.tag.micro_batch = Some(pass.micro_batch as u16);
            self.writer.tag.chunk = pass.chunk as u16;
            self.first_micro_batch = pass.micro_batch == 0;
            self.last_micro_batch = pass.micro_batch + 1 == t.micro_batches;
            if pass.backward {
                self.writer.tag.kind = TaskKind::Backward;
                self.sends_gradients = sending.next().unwrap_or(true) && t.local_steps().is_none();
                self.backward(pass.chunk);
            } else {
                self.writer.tag.kind = TaskKind::Forward;
                self.forward(pass.chunk);
            }
        }
        self.writer.tag.micro_batch = None;
        self.writer.tag.chunk = 0;
        self.writer.tag.kind = TaskKind::Optimiser;
        self.finish_step();
    }

    fn is_first(&self, chunk: u32) -> bool {
        self.at.pp == 0 && chunk == 0
    }

    fn is_last(&self, chunk: u32) -> bool {
        self.at.pp + 1 == self.training.dims.pp && chunk + 1 == self.training.dims.virtual_stages
    }

    /// Bytes of the activations of a micro-batch between layers, all rows of a tensor-parallel
    /// group.
    pub(super) fn activations(&self) -> u64 {
        let t = self.training;
        let rows = t.batch.sequences * t.batch.tokens / u64::from(t.dims.cp);
        rows * t.model.hidden * 2
    }

    /// What goes to another stage: with sequence parallelism each rank's rows.
    fn message(&self) -> u64 {
        let t = self.training;
        let parallel = &t.spec.parallel;
        let parts = if parallel.sequence_parallel || parallel.scatter_gather {
            t.dims.tp
        } else {
            1
        };
        self.activations() / u64::from(parts)
    }

    /// Parts that came from another stage are gathered, if whole rows are to go on.
    fn gather_parts(&mut self, deps: &mut Deps) {
        let parallel = &self.training.spec.parallel;
        if parallel.scatter_gather && !parallel.sequence_parallel {
            let bytes = self.activations();
            let operation = collective("all-gather of what came", Collective::AllGather, bytes);
            let called = self
                .writer
                .call(TENSOR, Slot::Tensor, operation, deps.as_slice());
            if called.is_some() {
                *deps = Deps::default();
                deps.add(called);
            }
        }
    }

    fn forward(&mut self, chunk: u32) {
        let t = self.training;
        let message = self.message();
        let before = self.last;
        let mut deps = Deps::default();
        if !self.is_first(chunk) {
            let operation = send("activations", message);
            let came = self
                .writer
                .call(FORWARD_IN, Slot::ForwardIn, operation, before.as_slice());
            deps.add(came);
            self.gather_parts(&mut deps);
        }
        let layers = t.layers[self.at.pp as usize][chunk as usize].clone();
        if self.is_first(chunk) {
            self.gather_ends(&mut deps);
            let k = self.run("embedding", self.costs.embedding.forward, &deps);
            deps = Deps::one(k);
            self.after_block(&mut deps);
        }
        self.begin_gathers(layers.clone().collect(), false);
        self.begin_activations(chunk);
        for layer in layers {
            self.gather(layer, &mut deps, false);
            self.room_for_activations(&mut deps);
            self.layer_forward(layer, &mut deps);
            self.activations_leave(layer);
            self.may_synchronise(SyncPoint::Layer, false);
        }
        if self.is_last(chunk) {
            self.gather_ends(&mut deps);
            self.before_block(&mut deps);
            self.run("head and loss", self.costs.head.forward, &deps);
            self.may_synchronise(SyncPoint::Pass, false);
        } else {
            self.may_synchronise(SyncPoint::Pass, false);
            let operation = send("activations", message);
            self.writer
                .call(FORWARD_OUT, Slot::ForwardOut, operation, deps.as_slice());
        }
    }

    fn backward(&mut self, chunk: u32) {
        let t = self.training;
        let message = self.message();
        let before = self.last;
        let mut deps = Deps::default();
        let [embedding, head] = end_weights(t);
        if self.is_last(chunk) {
            self.before_backward();
            let k = self.run("head backward", self.costs.head.backward, &deps);
            deps = Deps::one(k);
            self.after_block(&mut deps);
            self.gradient(&[head], 0, k);
        } else {
            let operation = send("gradients of activations", message);
            let came =
                self.writer
                    .call(BACKWARD_IN, Slot::BackwardIn, operation, before.as_slice());
            deps.add(came);
            self.gather_parts(&mut deps);
        }
        let layers: Vec<u64> = t.layers[self.at.pp as usize][chunk as usize]
            .clone()
            .rev()
            .collect();
        self.begin_activations(chunk);
        if t.spec.recompute == Recompute::Sqrt {
            self.segments_backward(&layers, &mut deps);
        } else {
            self.begin_gathers(layers.clone(), true);
            for (number, &layer) in layers.iter().enumerate() {
                self.gather(layer, &mut deps, true);
                let next = layers.get(number + 1).copied();
                self.activations_come(layer, next, &mut deps);
                self.layer_backward(layer, &mut deps);
                self.may_synchronise(SyncPoint::Layer, true);
            }
        }
        if self.is_first(chunk) {
            self.before_block(&mut deps);
            let k = self.run("embedding backward", self.costs.embedding.backward, &deps);
            self.gradient(&[embedding], 0, k);
            self.may_synchronise(SyncPoint::Pass, true);
        } else {
            self.may_synchronise(SyncPoint::Pass, true);
            let operation = send("gradients of activations", message);
            self.writer
                .call(BACKWARD_OUT, Slot::BackwardOut, operation, deps.as_slice());
        }
        self.end_chunk();
    }

    /// What `write` adds is of a kind of its own.
    pub(super) fn of_kind<T>(&mut self, kind: TaskKind, write: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.writer.tag.kind, kind);
        let written = write(self);
        self.writer.tag.kind = before;
        written
    }

    /// Kernels on the main stream.
    pub(super) fn run(
        &mut self,
        name: &str,
        kernels: fabricsim_plan::job::Kernels,
        deps: &Deps,
    ) -> TaskId {
        let task = self.writer.kernels(name, kernels, deps.as_slice());
        self.last = Some(task);
        task
    }

    /// Before what tensor parallelism divides: all rows, with sequence parallelism.
    pub(super) fn before_block(&mut self, deps: &mut Deps) {
        if self.training.spec.parallel.sequence_parallel {
            let bytes = self.activations();
            let operation = collective("all-gather of activations", Collective::AllGather, bytes);
            self.tensor(operation, deps);
        }
    }

    /// After it: sums.
    pub(super) fn after_block(&mut self, deps: &mut Deps) {
        let bytes = self.activations();
        let operation = if self.training.spec.parallel.sequence_parallel {
            collective(
                "reduce-scatter of activations",
                Collective::ReduceScatter,
                bytes,
            )
        } else {
            collective("all-reduce of activations", Collective::AllReduce, bytes)
        };
        self.tensor(operation, deps);
    }

    fn tensor(&mut self, operation: crate::exchanges::Operation, deps: &mut Deps) {
        let called = self
            .writer
            .call(TENSOR, Slot::Tensor, operation, deps.as_slice());
        if called.is_some() {
            // If it goes on chunk by chunk beside the products, what follows waits for both.
            if !self.training.spec.overlap_tensor_parallel {
                *deps = Deps::default();
            }
            deps.add(called);
        }
    }

    fn layer_forward(&mut self, layer: u64, deps: &mut Deps) {
        let cost = self.costs.layer(self.training, layer).clone();
        self.attention(&cost.attention, deps);
        self.block("mlp", &cost.mlp, deps, cost.experts.is_none());
        if let Some(experts) = &cost.experts {
            self.dispatch(deps, false);
            let k = self.run("experts", experts.forward.scaled(self.load), deps);
            *deps = Deps::one(k);
            self.dispatch(deps, true);
            let k = self.run("combine", cost.combine.forward, deps);
            *deps = Deps::one(k);
        }
    }

    fn block(&mut self, name: &str, cost: &BlockCost, deps: &mut Deps, divided: bool) {
        if !divided {
            let k = self.run(name, cost.forward, deps);
            *deps = Deps::one(k);
            return;
        }
        self.around(deps, |me, deps| me.run(name, cost.forward, deps));
    }

    /// Kernels between the communications of tensor parallelism.
    pub(super) fn around(&mut self, deps: &mut Deps, run: impl FnOnce(&mut Self, &Deps) -> TaskId) {
        if self.training.spec.overlap_tensor_parallel {
            let mut first = deps.clone();
            self.before_block(&mut first);
            let k = run(self, deps);
            // The sum begins with the first rows, that is with the products.
            let mut sum = deps.clone();
            self.after_block(&mut sum);
            *deps = Deps::one(k);
            deps.extend(&first);
            deps.extend(&sum);
        } else {
            self.before_block(deps);
            let k = run(self, deps);
            *deps = Deps::one(k);
            self.after_block(deps);
        }
    }

    pub(super) fn layer_backward(&mut self, layer: u64, deps: &mut Deps) {
        let cost = self.costs.layer(self.training, layer).clone();
        let [attention, mlp] = layer_weights(self.training, layer);
        let recompute = match self.training.spec.recompute {
            // Its segment has been computed again before.
            Recompute::Sqrt => Recompute::None,
            other => other.of_layer(layer),
        };
        match recompute {
            Recompute::Full => {
                self.of_kind(TaskKind::Recompute, |me| me.layer_again(&cost, deps));
            }
            Recompute::Operations(set) => self.mlp_again(set, &cost, deps),
            _ => {}
        }
        let ready = if let Some(experts) = &cost.experts {
            let k = self.run("combine backward", cost.combine.backward, deps);
            *deps = Deps::one(k);
            self.dispatch(deps, false);
            let mut kernels = experts.backward;
            kernels += experts.weights;
            let k = self.run("experts backward", kernels.scaled(self.load), deps);
            *deps = Deps::one(k);
            self.dispatch(deps, true);
            let mut kernels = cost.mlp.backward;
            kernels += cost.mlp.weights;
            let k = self.run("mlp backward", kernels, deps);
            *deps = Deps::one(k);
            k
        } else {
            self.block_backward("mlp", &cost.mlp, deps)
        };
        self.gradient(&mlp.dense, mlp.experts, ready);
        if let Recompute::Operations(set) = recompute {
            self.attention_again(set, &cost, deps);
        } else if recompute == Recompute::Selective && cost.attention.again.launches > 0 {
            let again = cost.attention.again;
            let k = self.of_kind(TaskKind::Recompute, |me| {
                me.run("attention core again", again, deps)
            });
            deps.add(Some(k));
        }
        let mut ready = self.attention_backward(&cost.attention, deps);
        if let Some(sum) = self.accumulate(&[&attention, &mlp]) {
            ready = sum;
        }
        self.gradient(&attention.dense, 0, ready);
        self.layer_done(layer, ready);
    }

    /// A layer's forward pass once more.
    pub(super) fn layer_again(&mut self, cost: &LayerCost, deps: &mut Deps) {
        self.around(deps, |me, deps| {
            me.run("attention again", cost.attention.again, deps)
        });
        if cost.experts.is_none() {
            self.around(deps, |me, deps| me.run("mlp again", cost.mlp.again, deps));
        } else {
            let k = self.run("mlp again", cost.mlp.again, deps);
            *deps = Deps::one(k);
        }
        if let Some(experts) = &cost.experts {
            self.dispatch(deps, false);
            let k = self.run("experts again", experts.again.scaled(self.load), deps);
            *deps = Deps::one(k);
            self.dispatch(deps, true);
        }
    }

    /// The backward pass of a block: the sum for its input goes on beside the products that
    /// make the weights' gradients. Returns these.
    pub(super) fn block_backward(
        &mut self,
        name: &str,
        cost: &BlockCost,
        deps: &mut Deps,
    ) -> TaskId {
        let sequence = self.training.spec.parallel.sequence_parallel;
        let mut again = Deps::default();
        if sequence && self.writer.has(Slot::Tensor) {
            let before = deps.clone();
            self.before_block(deps);
            // The input was kept in parts and has to be whole for the weights' gradients.
            let bytes = self.activations();
            let operation = collective("all-gather of inputs", Collective::AllGather, bytes);
            let called = self
                .writer
                .call(TENSOR, Slot::Tensor, operation, before.as_slice());
            again.add(called);
        }
        let k = self.run(&format!("{name} backward"), cost.backward, deps);
        *deps = Deps::one(k);
        self.after_block(deps);
        let w = self.run(&format!("{name} weights"), cost.weights, &again);
        if !self.writer.has(Slot::Tensor) {
            *deps = Deps::one(w);
        }
        w
    }

    /// Kernels outside of any micro-batch, and the communication that ends a step.
    fn finish_step(&mut self) {
        self.flush_gradients();
        let mut deps = Deps::default();
        deps.add(self.last);
        let exchanged = self.exchanged();
        deps.extend(&exchanged);
        let [table, _] = end_weights(self.training);
        if self.training.model.tied_embeddings {
            let bytes = table * u64::from(self.training.gradient_bytes());
            let operation = collective("all-reduce of the table", Collective::AllReduce, bytes);
            let called = self
                .writer
                .call(EMBEDDING, Slot::Embedding, operation, deps.as_slice());
            deps.add(called);
        }
        // The norm of all gradients, by which they are clipped.
        let operation = collective("all-reduce of the norm", Collective::AllReduce, 4);
        let called = self
            .writer
            .call(END, Slot::Model, operation, deps.as_slice());
        deps.add(called);
        if self.training.offload().is_some() && self.host.is_some() {
            self.update_on_host(&deps);
        } else if let Some(parameters) = updated(self.training, self.at.pp, self.at.dp) {
            let kernels = self.costs.optimiser(parameters, self.training);
            self.run("optimiser", kernels, &deps);
        } else {
            let nothing = fabricsim_units::Time::ZERO;
            let k = self
                .writer
                .wait(COMPUTE, "step done", nothing, deps.as_slice());
            self.last = Some(k);
        }
        self.mean_of_weights();
        self.end_step();
    }
}

/// Of each backward pass: whether its gradients go out. Those of a virtual stage's last micro-batch do;
/// divided ones ([`Training::divides_gradients`]) each time that another virtual stage is next, and
/// without a pipeline after each.
fn sending(training: &Training, passes: &[Pass]) -> Vec<bool> {
    let backward: Vec<&Pass> = passes.iter().filter(|pass| pass.backward).collect();
    let of = |(index, pass): (usize, &&Pass)| {
        let next: Option<&&Pass> = backward.get(index + 1);
        let leaves = next.is_none_or(|next| next.chunk != pass.chunk);
        pass.micro_batch + 1 == training.micro_batches
            || training.divides_each_micro_batch()
            || training.divides_gradients() && leaves
    };
    backward.iter().enumerate().map(of).collect()
}

/// A bucket's caps: of the first, and of the others.
pub(super) fn filling(training: &Training) -> Option<Filling> {
    match &training.spec.data_parallel {
        DataParallelSpec::Ddp(ddp) => Some(Filling::new(ddp.first_bucket, ddp.bucket)),
        DataParallelSpec::Zero(zero) => Some(Filling::new(zero.bucket, zero.bucket)),
        DataParallelSpec::Fsdp(_) | DataParallelSpec::SingleProcess => None,
    }
}
