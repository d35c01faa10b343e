//! Shapes of models that tables of operators name.

/// A dense model, as its operators need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) hidden: u64,
    pub(super) ffn: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head_dim: u64,
}

/// By name: the `config.json` of each on Hugging Face.
const MODELS: [(&str, Shape); 5] = [
    ("meta-llama/Llama-2-70b-hf", shape(8192, 28672, 64, 8)),
    ("meta-llama/Meta-Llama-3-70B", shape(8192, 28672, 64, 8)),
    ("meta-llama/Meta-Llama-3-8B", shape(4096, 14336, 32, 8)),
    (
        "codellama/CodeLlama-34b-Instruct-hf",
        shape(8192, 22016, 64, 8),
    ),
    ("Qwen/Qwen-72B", shape(8192, 24576, 64, 64)),
];

const fn shape(hidden: u64, ffn: u64, heads: u64, kv_heads: u64) -> Shape {
    Shape {
        hidden,
        ffn,
        heads,
        kv_heads,
        head_dim: 128,
    }
}

/// The model of a name.
pub(super) fn of(name: &str) -> Option<Shape> {
    let found = MODELS.iter().find(|(known, _)| *known == name);
    found.map(|(_, shape)| *shape)
}
