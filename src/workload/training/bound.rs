//! What no execution of a step can beat, from the job alone: nothing is lowered or simulated.
//!
//! A stage's kernels run one after the other, and communication of tensor parallelism and all-to-alls of
//! experts stand between them; the first micro-batch passes all stages before a stage, the gradients of
//! the last one pass them on the way back, and the first stage's optimiser follows. Of what goes on
//! beside kernels only that counts which nothing can hide: the first weights of a pass, the last
//! gradients of a step; and that all of it has to cross the network within a step. All other
//! communication, and the start of kernels, count as free.

use super::costs::{StageCosts, end_weights};
use super::lower::{gpu_of, order};
use super::owned::{stage_weights, updated, whole_layer};
use super::resolve::{Training, TrainingError};
use super::spec::{Compression, DataParallelSpec};
use crate::model::{Coordinates, Group, RankMap, Recompute};
use fabricsim_collective::Collective;
use fabricsim_plan::job::Kernels;
use fabricsim_topology::{DeviceId, Topology};
use fabricsim_units::{Bytes, Time};

/// What an operation takes at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least {
    /// From the first rank's start to the last one's end.
    pub whole: Time,
    /// What it adds to kernels that wait for it, one such operation after the other. No rank ends before
    /// all have begun, so what crosses a GPU's own ports counts in full. Where ranks share links, early
    /// ones may move their bytes while others compute; but not before the operation that precedes it
    /// has begun everywhere, so at least every second one counts.
    pub waits: Time,
}

impl Least {
    /// Nothing.
    pub const FREE: Least = Least {
        whole: Time::ZERO,
        waits: Time::ZERO,
    };
}

/// A time that no step of a job on these GPUs is below, once steps follow each other. `collective` is
/// what no operation of so many bytes between some GPUs can beat.
///
/// # Errors
/// A GPU of which too little is known, an order of ranks that is none.
pub fn step_bound(
    training: &Training,
    (topology, gpus): (&Topology, &[DeviceId]),
    collective: &dyn Fn(&[DeviceId], Collective, Bytes) -> Least,
) -> Result<Time, TrainingError> {
    let costs = StageCosts::new(training, gpu_of(training, topology, gpus)?)?;
    let places = RankMap::new(&training.dims, &order(training)?)?;
    let job = Job {
        training,
        costs: &costs,
        places: &places,
        gpus,
        collective,
    };
    let dims = training.dims;
    let tail = job.tail();
    let mut longest = Time::ZERO;
    // What the first micro-batch has to pass before a stage, and the last one's gradients after it.
    let mut ends = Time::ZERO;
    for stage in 0..dims.pp {
        let passes = Passes::of(&job, stage);
        let chunks: Vec<(Time, Time)> = (0..dims.virtual_stages)
            .map(|chunk| passes.chunk(chunk))
            .collect();
        let each = |(forward, backward): (Time, Time)| forward + backward + passes.gathers;
        let all = chunks.iter().fold(Time::ZERO, |all, &c| all + each(c));
        let whole = all.times(u64::from(training.micro_batches)) + ends + tail;
        longest = longest.max(whole).max(job.moved(stage));
        if let Some(&(forward, backward)) = chunks.first() {
            ends += forward + backward;
        }
    }
    Ok(longest)
}

/// A job on its GPUs.
struct Job<'t> {
    training: &'t Training,
    costs: &'t StageCosts,
    places: &'t RankMap,
    gpus: &'t [DeviceId],
    collective: &'t dyn Fn(&[DeviceId], Collective, Bytes) -> Least,
}

impl Job<'_> {
    /// An operation of the first group of a stage.
    fn least(&self, (group, stage): (Group, u32), what: Collective, bytes: u64) -> Least {
        if self.training.spec.free_communication || bytes == 0 {
            return Least::FREE;
        }
        let first = Coordinates {
            pp: stage,
            ..Coordinates::default()
        };
        let ranks = self.places.rank(first);
        let ranks = ranks.and_then(|rank| self.places.group_of(group, rank));
        let ranks = ranks.unwrap_or_default();
        if ranks.len() < 2 {
            return Least::FREE;
        }
        let group: Vec<DeviceId> = ranks.iter().map(|&rank| self.gpus[rank as usize]).collect();
        (self.collective)(&group, what, Bytes::new(bytes))
    }

    /// Activations of a micro-batch, all rows of a tensor-parallel group.
    fn activations(&self) -> u64 {
        let t = self.training;
        t.batch.sequences * t.batch.tokens / u64::from(t.dims.cp) * t.model.hidden * 2
    }

    /// Communication of tensor parallelism, if kernels wait for it.
    fn tensor(&self, what: Collective) -> Time {
        if self.training.spec.overlap_tensor_parallel {
            return Time::ZERO;
        }
        self.least((Group::Tp, 0), what, self.activations()).whole
    }

    /// Tokens on their way to experts of a stage, or back, if all ranks get the same.
    fn dispatch(&self, stage: u32) -> Least {
        let t = self.training;
        let Some(experts) = t.model.experts.as_ref() else {
            return Least::FREE;
        };
        if t.spec.routing.skew > 0.0 {
            return Least::FREE;
        }
        let parts = match t.spec.parallel.sequence_parallel {
            true => u64::from(t.dims.tp),
            false => 1,
        };
        let rows = t.batch.sequences * t.batch.tokens / u64::from(t.dims.cp) / parts;
        let bytes = rows * experts.per_token * t.model.hidden * 2;
        self.least((Group::Ep, stage), Collective::AllToAll, bytes)
    }

    /// Whether FSDP divides all weights over all replicas alike.
    fn divides_evenly(&self) -> bool {
        let t = self.training;
        t.dims.ep == 1 && t.shard_group == t.dims.dp * t.dims.cp
    }

    /// What FSDP gathers of a layer.
    fn gather(&self, stage: u32, layer: u64) -> Least {
        let (dense, experts) = whole_layer(self.training, layer);
        let bytes = (dense + experts) * 2;
        self.least((Group::DpCp, stage), Collective::AllGather, bytes)
    }

    /// After the last backward pass: the last gradients go out, and the first stage's optimiser runs; and
    /// before the first pass of the next step the first new weights come.
    fn tail(&self) -> Time {
        let t = self.training;
        // What a host takes is not counted.
        let own = updated(t, 0, 0).filter(|_| t.offload().is_none());
        let optimiser = own.map_or(Time::ZERO, |parameters| {
            time(self.costs.optimiser(parameters, t))
        });
        let data = |what, bytes| self.least((Group::DpCp, 0), what, bytes).waits;
        let [embedding, _] = end_weights(t);
        let width = u64::from(t.gradient_bytes());
        let (dense, _) = stage_weights(t, 0);
        let last = |overlap: bool| if overlap { embedding } else { dense } * width;
        let exchange = match &t.spec.data_parallel {
            DataParallelSpec::Ddp(ddp)
                if ddp.compression == Compression::None && ddp.is_exact() =>
            {
                data(Collective::AllReduce, last(ddp.overlap))
            }
            DataParallelSpec::Zero(zero) => {
                let sums = data(Collective::ReduceScatter, last(zero.overlap_gradients));
                let weights = match zero.overlap_weights {
                    true => Time::ZERO,
                    false => data(Collective::AllGather, dense * 2),
                };
                // Either may be what ranks that are early hide.
                sums.max(weights)
            }
            DataParallelSpec::Fsdp(_) if self.divides_evenly() => {
                // It begins beside the embedding's backward pass.
                let sums = data(Collective::ReduceScatter, embedding * width);
                sums.saturating_sub(time(self.costs.embedding.backward))
            }
            _ => Time::ZERO,
        };
        optimiser + exchange
    }

    /// What a stage's all-to-alls of a step take one after the other, or its gathers of weights.
    fn moved(&self, stage: u32) -> Time {
        let t = self.training;
        let passes = u64::from(t.micro_batches);
        let layers = || t.layers[stage as usize].iter().cloned().flatten();
        let sparse = layers().filter(|&layer| t.model.experts_of(layer).is_some());
        let times = match t.spec.recompute {
            Recompute::Full | Recompute::Sqrt => 6,
            _ => 4,
        };
        let dispatches = self.dispatch(stage).whole;
        let dispatches = dispatches.times(sparse.count() as u64 * times * passes);
        let gathers = match &t.spec.data_parallel {
            DataParallelSpec::Fsdp(fsdp) if self.divides_evenly() => {
                let of = |layer| self.gather(stage, layer).whole;
                let all = layers().map(of).fold(Time::ZERO, |all, one| all + one);
                all.times(if fsdp.reshard { 2 * passes } else { 1 })
            }
            _ => Time::ZERO,
        };
        dispatches.max(gathers)
    }
}

/// The passes of a micro-batch through a stage.
struct Passes<'j> {
    job: &'j Job<'j>,
    stage: u32,
    /// Of tensor parallelism: before what is divided, and after it.
    before: Time,
    after: Time,
    /// Tokens on their way to experts, or back.
    dispatch: Time,
    /// Of FSDP: the first weights of both passes, of the smallest layer, and the sum of gradients.
    gathers: Time,
}

impl<'j> Passes<'j> {
    fn of(job: &'j Job<'j>, stage: u32) -> Self {
        let (before, after) = match job.training.spec.parallel.sequence_parallel {
            true => (
                job.tensor(Collective::AllGather),
                job.tensor(Collective::ReduceScatter),
            ),
            false => (Time::ZERO, job.tensor(Collective::AllReduce)),
        };
        let first = match &job.training.spec.data_parallel {
            DataParallelSpec::Fsdp(fsdp) if fsdp.reshard && job.divides_evenly() => {
                let layers = job.training.layers[stage as usize].iter().cloned();
                let gathers = layers.flatten().map(|layer| job.gather(stage, layer).waits);
                gathers.min().unwrap_or_default()
            }
            _ => Time::ZERO,
        };
        Passes {
            job,
            stage,
            before,
            after,
            dispatch: job.dispatch(stage).waits,
            gathers: first + first,
        }
    }

    /// The forward and the backward pass of a micro-batch through a virtual stage.
    fn chunk(&self, chunk: u32) -> (Time, Time) {
        let (training, costs) = (self.job.training, self.job.costs);
        let (dims, stage) = (training.dims, self.stage);
        let (mut forward, mut backward) = (Time::ZERO, Time::ZERO);
        if stage == 0 && chunk == 0 {
            forward += time(costs.embedding.forward) + self.after;
            backward += self.before + time(costs.embedding.backward);
        }
        if stage + 1 == dims.pp && chunk + 1 == dims.virtual_stages {
            forward += self.before + time(costs.head.forward);
            backward += time(costs.head.backward) + self.after;
        }
        for layer in training.layers[stage as usize][chunk as usize].clone() {
            let (there, back) = self.layer(layer);
            forward += there;
            backward += back;
        }
        (forward, backward)
    }

    /// The same of a layer.
    fn layer(&self, layer: u64) -> (Time, Time) {
        let training = self.job.training;
        let cost = self.job.costs.layer(training, layer);
        let recompute = training.spec.recompute.of_layer(layer);
        let full = recompute == Recompute::Full;
        let (mut forward, mut backward) = (Time::ZERO, Time::ZERO);
        // The block behind routed experts is not divided.
        let divided = [
            Some(&cost.attention),
            cost.experts.is_none().then_some(&cost.mlp),
        ];
        let whole = [
            cost.experts.as_ref(),
            cost.experts.is_some().then_some(&cost.mlp),
            Some(&cost.combine),
        ];
        for block in divided.into_iter().flatten() {
            let around = self.before + self.after;
            forward += time(block.forward) + around;
            // The sum for the block's input goes on beside the products for its weights.
            backward += self.before + time(block.backward) + time(block.weights).max(self.after);
            if full {
                backward += time(block.again) + around;
            }
        }
        for block in whole.into_iter().flatten() {
            forward += time(block.forward);
            backward += time(block.backward) + time(block.weights);
            if full {
                backward += time(block.again);
            }
        }
        match recompute {
            Recompute::Full | Recompute::None => {}
            _ => backward += time(cost.attention.again) + time(cost.mlp.again),
        }
        if cost.experts.is_some() {
            let there_and_back = self.dispatch + self.dispatch;
            forward += there_and_back;
            backward += there_and_back;
            if full {
                backward += there_and_back;
            }
        }
        (forward, backward)
    }
}

/// Kernels with all of a GPU.
fn time(kernels: Kernels) -> Time {
    kernels.compute + kernels.memory
}
