//! What streams of a GPU are for.

/// What a stream of a GPU is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamRole {
    /// Kernels: the main stream.
    #[default]
    Compute,
    /// Communications of tensor parallelism.
    TensorParallel,
    /// Gradients and weights, between replicas.
    DataParallel,
    /// Between parts of hybrid sharding that hold the same weights.
    Replicas,
    /// Activations to the next pipeline stage.
    ForwardOut,
    /// Activations from the stage before.
    ForwardIn,
    /// Gradients to the stage before.
    BackwardOut,
    /// Gradients from the next stage.
    BackwardIn,
    /// Context parallelism and tokens of experts.
    ContextAndExperts,
    /// The norm of all gradients, for which all stages meet.
    StepEnd,
    /// Gradients of the table of tokens that first and last stage share.
    Embedding,
    /// Operations of a job that is a collective.
    Collective,
    /// KV caches that are handed over.
    KvTransfer,
    /// Copies to the host's memory.
    HostOut,
    /// Copies from the host's memory.
    HostIn,
    /// What the CPU computes.
    HostCompute,
    /// From the host's memory to drives.
    StorageOut,
    /// From drives to the host's memory.
    StorageIn,
    /// Batches from storage.
    Loader,
    /// Decoding them on the CPU.
    LoaderCpu,
    /// Batches from the host's memory to the GPU.
    LoaderIn,
    /// Bytes of a job that is a stream of them.
    Transfer,
}

impl StreamRole {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            StreamRole::Compute => "compute",
            StreamRole::TensorParallel => "tensor parallel",
            StreamRole::DataParallel => "data parallel",
            StreamRole::Replicas => "replicas",
            StreamRole::ForwardOut => "forward out",
            StreamRole::ForwardIn => "forward in",
            StreamRole::BackwardOut => "backward out",
            StreamRole::BackwardIn => "backward in",
            StreamRole::ContextAndExperts => "context and experts",
            StreamRole::StepEnd => "end of the step",
            StreamRole::Embedding => "tied embeddings",
            StreamRole::Collective => "collective",
            StreamRole::KvTransfer => "KV transfer",
            StreamRole::HostOut => "to the host",
            StreamRole::HostIn => "from the host",
            StreamRole::HostCompute => "CPU",
            StreamRole::StorageOut => "to drives",
            StreamRole::StorageIn => "from drives",
            StreamRole::Loader => "data loader",
            StreamRole::LoaderCpu => "decoding",
            StreamRole::LoaderIn => "batch to the GPU",
            StreamRole::Transfer => "stream",
        }
    }
}
