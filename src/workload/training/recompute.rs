//! Parts of the forward pass once more: segments of layers, and operations of one.

use super::costs::LayerCost;
use super::host::SyncPoint;
use super::layers::Deps;
use super::step::StepWriter;
use crate::model::{Operation, Operations};
use fabricsim_plan::job::TaskKind;

impl StepWriter<'_, '_, '_> {
    /// The backward pass of layers, last first, of which only every so many has kept its input: those between two
    /// of them go forward once more, then backward.
    pub(super) fn segments_backward(&mut self, layers: &[u64], deps: &mut Deps) {
        let each = self.training.spec.recompute.segment(layers.len() as u64);
        let first = layers.last().copied().unwrap_or(0);
        let segment = |layer: &u64| (layer - first) / each;
        let segments: Vec<Vec<u64>> = layers
            .chunk_by(|a, b| segment(a) == segment(b))
            .map(<[u64]>::to_vec)
            .collect();
        // The last layer of a segment goes backward when it has just gone forward.
        let order = segments.iter().flat_map(|backward| {
            let forward = backward.iter().rev();
            forward.chain(backward.iter().skip(1)).copied()
        });
        self.begin_gathers(order.collect(), true);
        for (number, backward) in segments.iter().enumerate() {
            if let Some(&first) = backward.last() {
                let next = segments.get(number + 1).and_then(|next| next.last());
                self.activations_come(first, next.copied(), deps);
            }
            for &layer in backward.iter().rev() {
                self.gather(layer, deps, true);
                let cost = self.costs.layer(self.training, layer).clone();
                self.of_kind(TaskKind::Recompute, |me| me.layer_again(&cost, deps));
            }
            for (number, &layer) in backward.iter().enumerate() {
                if number > 0 {
                    self.gather(layer, deps, true);
                }
                self.layer_backward(layer, deps);
                self.may_synchronise(SyncPoint::Layer, true);
            }
        }
    }

    /// What of an MLP, or of experts, is computed again before their backward pass. A whole block has its
    /// communication, too, as Megatron-LM's checkpoints have.
    pub(super) fn mlp_again(&mut self, set: Operations, cost: &LayerCost, deps: &mut Deps) {
        let whole = set.has(Operation::Mlp);
        self.of_kind(TaskKind::Recompute, |me| {
            if cost.mlp.again.launches > 0 {
                if whole && cost.experts.is_none() {
                    me.around(deps, |me, deps| me.run("mlp again", cost.mlp.again, deps));
                } else {
                    let k = me.run("mlp again", cost.mlp.again, deps);
                    deps.add(Some(k));
                }
            }
            let Some(experts) = cost.experts.filter(|e| e.again.launches > 0) else {
                return;
            };
            if whole {
                me.dispatch(deps, false);
            }
            let k = me.run("experts again", experts.again.scaled(me.load), deps);
            deps.add(Some(k));
            if whole {
                me.dispatch(deps, true);
            }
        });
    }

    /// The same of attention.
    pub(super) fn attention_again(&mut self, set: Operations, cost: &LayerCost, deps: &mut Deps) {
        let again = cost.attention.again;
        if again.launches == 0 {
            return;
        }
        self.of_kind(TaskKind::Recompute, |me| {
            if set.has(Operation::Attention) {
                me.around(deps, |me, deps| me.run("attention again", again, deps));
            } else {
                let k = me.run("attention again", again, deps);
                deps.add(Some(k));
            }
        });
    }
}
