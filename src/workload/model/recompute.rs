//! What of the forward pass is done again in the backward pass, so that less is kept.

use super::flops::{ScoreCount, forward_flops_per_token, scores_per_token};
use super::kernel::{Kernel, KernelKind, Part, Pass};
use super::parameters::parameters;
use super::spec::{AttentionKind, ModelSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What of the forward pass is done again in the backward pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// Nothing: all activations are kept.
    #[default]
    None,
    /// Scores, their softmax and its product with the values (Korthikanti et al.,
    /// arXiv 2205.05198, section 5).
    Selective,
    /// The whole layer, from its input.
    Full,
    /// The inputs of every √l-th of a stage's l layers are kept; the layers between two of them are computed
    /// again together (Chen et al., arXiv 1604.06174).
    Sqrt,
    /// Every so many layers one is computed again from its input, the others not at all (TorchTitan's
    /// `selective_ac_option` with a number).
    Every(u32),
    /// Parts of each layer (Megatron-Core's `recompute_modules`).
    Operations(Operations),
}

/// A part of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Scores, their softmax and its product with the values; nothing with flash attention, which does so by itself.
    CoreAttention,
    /// The attention block from its norm's result: projections and core.
    Attention,
    /// The MLP or the experts from the norm's result.
    Mlp,
    /// Both norms.
    Norms,
    /// The MLP's activation.
    Activation,
}

/// Parts of a layer, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Operation>", into = "Vec<Operation>")]
pub struct Operations(u8);

impl JsonSchema for Operations {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Operations".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = Vec::<Operation>::json_schema(generator);
        schema.insert("description".into(), "Parts of a layer.".into());
        schema
    }
}

impl Operation {
    const ALL: [Operation; 5] = [
        Operation::CoreAttention,
        Operation::Attention,
        Operation::Mlp,
        Operation::Norms,
        Operation::Activation,
    ];

    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Operation::CoreAttention => "core_attention",
            Operation::Attention => "attention",
            Operation::Mlp => "mlp",
            Operation::Norms => "norms",
            Operation::Activation => "activation",
        }
    }
}

impl From<Vec<Operation>> for Operations {
    fn from(list: Vec<Operation>) -> Self {
        let bits = list.into_iter().map(|operation| 1 << operation as u8);
        Operations(bits.fold(0, |all, bit| all | bit))
    }
}

impl From<Operations> for Vec<Operation> {
    fn from(set: Operations) -> Self {
        let all = Operation::ALL.into_iter();
        all.filter(|&operation| set.bit(operation)).collect()
    }
}

impl Operations {
    const fn bit(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }

    /// Whether a part is computed again, by itself or inside another one.
    #[must_use]
    pub const fn has(self, operation: Operation) -> bool {
        let inside = match operation {
            Operation::CoreAttention => self.bit(Operation::Attention),
            Operation::Activation => self.bit(Operation::Mlp),
            _ => false,
        };
        inside || self.bit(operation)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a kernel of the forward pass runs again.
    pub(super) fn runs_again(self, kernel: &Kernel) -> bool {
        let pass = |pass| kernel.kind == KernelKind::Memory(pass);
        match kernel.part {
            Part::Attention => self.has(Operation::Attention),
            Part::AttentionCore => self.has(Operation::CoreAttention),
            Part::AttentionEntry | Part::MlpEntry => self.has(Operation::Norms) && pass(Pass::Norm),
            Part::Mlp | Part::SharedExperts | Part::Experts => {
                self.has(Operation::Mlp)
                    || self.has(Operation::Activation) && pass(Pass::Activation)
            }
            Part::Router => self.has(Operation::Mlp),
            _ => false,
        }
    }
}

impl Recompute {
    /// As people write it: `full`, `every 2`, `norms and activation`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Recompute::None => "none".to_owned(),
            Recompute::Selective => "selective".to_owned(),
            Recompute::Full => "full".to_owned(),
            Recompute::Sqrt => "sqrt".to_owned(),
            Recompute::Every(n) => format!("every {n}"),
            Recompute::Operations(set) => {
                let list: Vec<Operation> = set.into();
                let names: Vec<&str> = list.into_iter().map(Operation::name).collect();
                names.join(" and ")
            }
        }
    }

    /// What is done to one layer, counted from 0: nothing to some, all to others.
    #[must_use]
    pub const fn of_layer(self, layer: u64) -> Recompute {
        match self {
            Recompute::Every(n) if (layer + 1).is_multiple_of(n as u64) => Recompute::Full,
            Recompute::Every(_) => Recompute::None,
            Recompute::Sqrt => Recompute::Full,
            other => other,
        }
    }

    /// What is done to those layers to which most is done.
    #[must_use]
    pub const fn most(self) -> Recompute {
        match self {
            Recompute::Every(_) | Recompute::Sqrt => Recompute::Full,
            other => other,
        }
    }

    /// Layers that are computed again together, of so many of a stage: the root of their number, rounded up.
    #[must_use]
    pub fn segment(self, layers: u64) -> u64 {
        match self {
            Recompute::Sqrt => {
                let root = layers.isqrt();
                (root + u64::from(root * root < layers)).max(1)
            }
            _ => 1,
        }
    }

    /// The layers of a stage that keep what [`Recompute::of_layer`] says of them; the others keep nothing.
    pub fn keeping(self, layers: Range<u64>) -> impl Iterator<Item = u64> {
        let each = self.segment(layers.end.saturating_sub(layers.start));
        layers.step_by(usize::try_from(each).unwrap_or(usize::MAX))
    }

    /// Operations of a token that are computed again: [`forward_flops_per_token`] of what is, in closed form.
    #[must_use]
    pub fn flops_per_token(self, model: &ModelSpec, sequence: u64, scores: ScoreCount) -> f64 {
        let head = 2.0 * (model.vocabulary * model.hidden) as f64;
        let layers = || forward_flops_per_token(model, sequence, scores) - head;
        match self {
            Recompute::None => 0.0,
            Recompute::Selective => scores_per_token(model, sequence, scores),
            Recompute::Full | Recompute::Sqrt => layers(),
            Recompute::Every(n) => {
                let again = model.layers / u64::from(n.max(1));
                layers() * again as f64 / model.layers as f64
            }
            Recompute::Operations(set) => of_operations(set, model, sequence, scores),
        }
    }
}

fn of_operations(set: Operations, model: &ModelSpec, sequence: u64, scores: ScoreCount) -> f64 {
    let unbiased = ModelSpec {
        biases: false,
        ..model.clone()
    };
    let all = parameters(&unbiased).layers;
    // The compression of latent attention is before what is computed again.
    let compression = match model.attention {
        AttentionKind::MultiHead => 0,
        AttentionKind::Mla(mla) => {
            let columns = mla.q_lora.unwrap_or(0) + mla.kv_lora + mla.rope_dim;
            model.layers * model.hidden * columns
        }
    };
    let mut flops = 0.0;
    if set.has(Operation::CoreAttention) {
        flops += scores_per_token(model, sequence, scores);
    }
    if set.has(Operation::Attention) {
        flops += 2.0 * all.attention.saturating_sub(compression) as f64;
    }
    if set.has(Operation::Mlp) {
        let active = all.mlp + all.router + all.shared_experts + all.active_experts;
        flops += 2.0 * active as f64;
    }
    flops
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::model::kernel::{MicroBatch, Sharding, Style, flops};
    use crate::model::{layer_activations, layer_kernels, presets};

    const BATCH: MicroBatch = MicroBatch {
        sequences: 2,
        tokens: 1024,
    };

    fn style(text: &str) -> Style {
        Style {
            recompute: serde_json::from_str(text).unwrap(),
            ..Style::MODERN
        }
    }

    /// Of a GPT a layer keeps 34 bytes of an element less the 2 of masks (arXiv 2205.05198, equation 2): 8 of norms
    /// and inputs, 8 of attention, 16 of the MLP.
    #[test]
    fn operations_keep_nothing_of_their_own() {
        let model = &presets::find("gpt3-175b").unwrap().model;
        let element = 2 * 1024 * model.hidden;
        for (recompute, bytes) in [
            (r#""none""#, 32),
            (r#"{"operations": ["core_attention"]}"#, 32),
            (r#"{"operations": ["attention"]}"#, 24),
            (r#"{"operations": ["mlp"]}"#, 16),
            (r#"{"operations": ["norms"]}"#, 28),
            (r#"{"operations": ["activation"]}"#, 24),
            (r#"{"operations": ["attention", "mlp", "norms"]}"#, 4),
            (r#""full""#, 2),
        ] {
            let style = style(recompute);
            let kept = layer_activations(model, 0, BATCH, &Sharding::WHOLE, &style);
            assert_eq!(kept, bytes * element, "{recompute}");
        }
    }

    /// What kernels compute again is what the closed form says, of matrix products and scores.
    #[test]
    fn kernels_that_run_again_do_the_operations_of_the_closed_form() {
        for name in ["gpt3-175b", "llama3-8b", "mixtral-8x7b"] {
            let model = &presets::find(name).unwrap().model;
            let again = |text: &str| {
                let style = style(text);
                let layers = 0..model.layers;
                let layers = layers.map(|layer| {
                    let of = layer_kernels(model, layer, BATCH, &Sharding::WHOLE, &style);
                    flops(&of.unwrap().recompute)
                });
                let closed = style
                    .recompute
                    .flops_per_token(model, 1024, ScoreCount::Causal);
                (layers.sum::<f64>(), closed * 2048.0)
            };
            for text in [
                r#"{"operations": ["attention"]}"#,
                r#"{"operations": ["mlp"]}"#,
                r#"{"operations": ["attention", "mlp", "norms"]}"#,
                r#"{"every": 2}"#,
                r#"{"every": 3}"#,
                r#""full""#,
            ] {
                let (found, closed) = again(text);
                assert!(
                    (found / closed - 1.0).abs() < 2e-3,
                    "{name} {text}: {found} {closed}"
                );
            }
            let (norms, _) = again(r#"{"operations": ["norms", "activation", "core_attention"]}"#);
            assert!(norms < 1.0, "{name}: {norms}");
        }
    }

    #[test]
    fn segments_are_of_the_root_of_their_layers() {
        let segment = |layers| Recompute::Sqrt.segment(layers);
        assert_eq!([1, 4, 5, 16, 80].map(segment), [1, 2, 3, 4, 9]);
        let kept: Vec<u64> = Recompute::Sqrt.keeping(10..26).collect();
        assert_eq!(kept, [10, 14, 18, 22]);
        let full = (0..8).filter(|&l| Recompute::Every(3).of_layer(l) == Recompute::Full);
        assert_eq!(full.collect::<Vec<_>>(), [2, 5]);
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        for text in [
            r#""sqrt""#,
            r#"{"every":2}"#,
            r#"{"operations":["mlp","norms"]}"#,
        ] {
            let read: Recompute = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}
