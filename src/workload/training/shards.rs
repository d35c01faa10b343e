//! Weights that FSDP divides over replicas: gathered for each layer, their gradients summed and divided.
//!
//! Ranks of an expert-parallel group have different experts, so that these are divided over fewer ranks
//! than other weights: those that have the same experts (torchtitan's `parallelize.py` shards them over
//! the data-parallel mesh divided by `ep`, apart from the rest of the layer).

use super::costs::{end_weights, layer_weights};
use super::layers::Deps;
use super::script::{DATA, REPLICAS, Slot, collective};
use super::spec::DataParallelSpec;
use super::step::StepWriter;
use fabricsim_collective::Collective;
use fabricsim_plan::job::{TaskId, TaskKind};

/// What is divided.
const NAMES: [&str; 2] = ["weights", "experts"];

/// Weights that the same ranks divide.
#[derive(Clone, Copy)]
struct Divided {
    weights: u64,
    /// Over whom, and how many these are.
    over: Slot,
    shards: u64,
    /// Those that have the same part, if not all are in `over`.
    same: Option<Slot>,
}

impl StepWriter<'_, '_, '_> {
    /// The layers of a pass, in its order, whose weights FSDP gathers ahead.
    pub(super) fn begin_gathers(&mut self, layers: Vec<u64>, backward: bool) {
        let DataParallelSpec::Fsdp(fsdp) = &self.training.spec.data_parallel else {
            return;
        };
        let needed = if fsdp.reshard {
            true
        } else {
            !backward && self.first_micro_batch
        };
        self.gradients.to_gather.clear();
        self.gradients.gathered.clear();
        if needed {
            self.gradients.to_gather.extend(layers);
        }
    }

    /// What a layer's kernels have to wait for until its weights are there; and those of the
    /// layers after it are asked for.
    pub(super) fn gather(&mut self, layer: u64, deps: &mut Deps, backward: bool) {
        if let DataParallelSpec::Fsdp(_) = &self.training.spec.data_parallel {
            let ahead = self.training.prefetch as usize + 1;
            let at_once = self.training.bucketing.max(1) as usize;
            let after = self.last;
            // The first of a pass has nothing to wait for.
            while self.gradients.gathered.len().div_ceil(at_once) < ahead {
                let waiting = &mut self.gradients.to_gather;
                let bucket: Vec<u64> = waiting.drain(..at_once.min(waiting.len())).collect();
                let Some(whole) = self.divided_together(&bucket) else {
                    break;
                };
                let mut last = None;
                for (name, part) in NAMES.into_iter().zip(whole) {
                    let fetched =
                        self.parameters_from_host(part.weights / part.shards, after.as_slice());
                    let name = format!("all-gather of {name}");
                    let bytes = part.weights * 2;
                    let operation = collective(&name, Collective::AllGather, bytes);
                    let after = fetched.or(after);
                    let called = self
                        .writer
                        .call(DATA, part.over, operation, after.as_slice());
                    // One after the other on their stream.
                    last = called.or(fetched).or(last);
                }
                let bucket = bucket.into_iter().map(|layer| (layer, last));
                self.gradients.gathered.extend(bucket);
            }
            if let Some(&(next, called)) = self.gradients.gathered.front()
                && next == layer
            {
                deps.add(called);
                self.gradients.gathered.pop_front();
            }
        } else if !backward && self.first_micro_batch {
            // Weights of the layer, of those that come in the order of the forward pass.
            self.gradients.taken += self.layer_bytes(layer, 2);
            while let Some(&(until, called)) = self.gradients.coming.front() {
                deps.add(called);
                if until > self.gradients.taken {
                    break;
                }
                self.gradients.coming.pop_front();
            }
        }
    }

    /// The same of the embedding and the head, which stay.
    pub(super) fn gather_ends(&mut self, deps: &mut Deps) {
        if let DataParallelSpec::Fsdp(_) = &self.training.spec.data_parallel {
            if self.first_micro_batch && self.gradients.ends.is_none() {
                let [embedding, head] = end_weights(self.training);
                let after = self.last;
                let operation = collective(
                    "all-gather of weights",
                    Collective::AllGather,
                    (embedding + head) * 2,
                );
                let Divided { over, shards, .. } = self.evenly(0);
                let fetched =
                    self.parameters_from_host((embedding + head) / shards, after.as_slice());
                let after = fetched.or(after);
                let called = self.writer.call(DATA, over, operation, after.as_slice());
                self.gradients.ends = called.or(fetched);
            }
            deps.add(self.gradients.ends);
        }
    }

    /// Weights that all replicas have.
    fn evenly(&self, weights: u64) -> Divided {
        let t = self.training;
        let all = t.shard_group == t.dims.dp * t.dims.cp;
        let (over, same) = match all {
            true => (Slot::Data, None),
            false => (Slot::Shard, Some(Slot::Replica)),
        };
        Divided {
            weights,
            over,
            shards: u64::from(t.shard_group),
            same,
        }
    }

    /// A layer's weights, and its experts where these are divided otherwise.
    fn divided(&self, layer: u64) -> [Divided; 2] {
        let t = self.training;
        let halves = layer_weights(t, layer);
        let experts: u64 = halves.iter().map(|half| half.experts).sum();
        let dense: u64 = halves.iter().flat_map(|half| &half.dense).sum();
        if t.dims.ep == 1 {
            return [self.evenly(dense + experts), self.evenly(0)];
        }
        let all = t.expert_shards() == t.dims.dp * t.dims.cp / t.dims.ep;
        let (over, same) = match all {
            true => (Slot::ExpertData, None),
            false => (Slot::ExpertShard, Some(Slot::ExpertReplica)),
        };
        let experts = Divided {
            weights: experts,
            over,
            shards: u64::from(t.expert_shards()),
            same,
        };
        [self.evenly(dense), experts]
    }

    /// The same of several layers together; none of none.
    fn divided_together(&self, layers: &[u64]) -> Option<[Divided; 2]> {
        let all = layers.iter().map(|&layer| self.divided(layer));
        all.reduce(|sum, next| {
            let [a, b] = [
                sum[0].weights + next[0].weights,
                sum[1].weights + next[1].weights,
            ];
            [
                Divided {
                    weights: a,
                    ..sum[0]
                },
                Divided {
                    weights: b,
                    ..sum[1]
                },
            ]
        })
    }

    /// A layer's backward pass is done: FSDP sums and divides its gradients, of as many layers as it gathers
    /// at once together.
    pub(super) fn layer_done(&mut self, layer: u64, after: TaskId) {
        let t = self.training;
        if !matches!(t.spec.data_parallel, DataParallelSpec::Fsdp(_)) {
            return;
        }
        self.gradients.to_sum.push(layer);
        let own = t.layers[self.at.pp as usize].iter();
        let ends_chunk = own.clone().any(|chunk| chunk.start == layer);
        if !ends_chunk && self.gradients.to_sum.len() < t.bucketing.max(1) as usize {
            return;
        }
        let bucket = std::mem::take(&mut self.gradients.to_sum);
        let Some(parts) = self.divided_together(&bucket) else {
            return;
        };
        for (name, part) in NAMES.into_iter().zip(parts) {
            self.sum_shards(name, part, after);
        }
        if t.micro_batches > 1 && !t.gradients_leave() {
            let own = parts.iter().map(|part| part.weights / part.shards).sum();
            let kernels = self.costs.accumulation(own, t);
            self.of_kind(TaskKind::Gradients, |me| {
                me.run("accumulate gradients", kernels, &Deps::default())
            });
        }
        // The ends' gradients go with the last layer's.
        if self.last_micro_batch && self.at.pp == 0 && layer == 0 {
            let [embedding, head] = end_weights(t);
            self.sum_shards("weights", self.evenly(embedding + head), after);
        }
    }

    fn sum_shards(&mut self, name: &str, part: Divided, after: TaskId) {
        let width = u64::from(self.training.gradient_bytes());
        let bytes = part.weights * width;
        let of = match name {
            "weights" => "gradients".to_owned(),
            name => format!("gradients of {name}"),
        };
        let operation = collective(
            &format!("reduce-scatter of {of}"),
            Collective::ReduceScatter,
            bytes,
        );
        let called = self.writer.call(DATA, part.over, operation, &[after]);
        self.gradients.sent.add(called);
        let mut reduced = called.unwrap_or(after);
        if let Some(same) = part.same {
            let operation = collective(
                &format!("all-reduce of {of}"),
                Collective::AllReduce,
                bytes / part.shards,
            );
            let before = called.map_or(vec![after], |c| vec![c]);
            let called = self.writer.call(REPLICAS, same, operation, &before);
            self.gradients.sent.add(called);
            reduced = called.unwrap_or(reduced);
        }
        self.gradients_to_host(part.weights / part.shards, Some(reduced));
    }
}
