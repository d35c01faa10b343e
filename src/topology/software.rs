//! Figures of software on hosts: what processes reach that exchange data over sockets, and what
//! they take of a GPU's memory.

use super::hardware::Sourced;
use super::mtu::Mtu;
use fabricsim_units::{Bandwidth, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Processes that exchange data over sockets, without RDMA, and sum it on CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The fastest that one TCP stream goes, whatever the links allow.
    pub stream_rate: Sourced<Bandwidth>,
    /// What a process that sleeps takes to have what has come, beyond the kernels' part.
    pub wake: Sourced<Time>,
    /// The kernels' TCP, and NCCL's threads above it.
    pub tcp: TcpModel,
    /// The part of a core that is left to a thread which shares it with others of its process, 0 to 1.
    pub shared_core: Sourced<f64>,
    /// Bytes of a result that one core adds or copies.
    pub core_rate: Sourced<Bandwidth>,
    /// Between two processes of a host, beyond the wires.
    pub handover: Sourced<Time>,
    /// From asking for a copy between GPU and host to its first byte.
    pub copy_start: Sourced<Time>,
    /// The largest single send or receive.
    pub segment: Sourced<Bytes>,
}

impl SocketModel {
    /// From a send to the data's arrival at a process that sleeps, beyond the wires.
    #[must_use]
    pub fn transfer_latency(&self) -> Time {
        self.tcp.latency.value + self.wake.value
    }

    /// What one core moves of one flow, in frames of so many bytes.
    #[must_use]
    pub fn flow_rate(&self, mtu: Mtu) -> Bandwidth {
        let known = 1e12 / self.stream_rate.value.bytes_per_sec() as f64;
        let packet = self.tcp.packet.value.picos() as f64 / f64::from(self.tcp.merged.value.max(1));
        // What packets cost is in the rate with frames of 9,000 bytes.
        let more = packet / mtu.tcp_payload() as f64 - packet / Mtu::JUMBO.tcp_payload() as f64;
        if more == 0.0 {
            return self.stream_rate.value;
        }
        Bandwidth::from_bytes_per_sec((1e12 / (known + more)).round() as u64)
    }
}

/// TCP of a kernel, as NCCL's socket transport uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpModel {
    /// From a send to where a thread that looks for it reads it, beyond the wires.
    pub latency: Sourced<Time>,
    /// What a helper thread moves that is handed tasks.
    pub helper_rate: Sourced<Bandwidth>,
    /// From handing it a task, where it sleeps, to its beginning.
    pub helper_wake: Sourced<Time>,
    /// What the slowest of several flows has of their mean, 0 to 1.
    pub slowest: Sourced<f64>,
    /// Bytes that a kernel keeps of a connection for the receiver.
    pub receive_buffer: Sourced<Bytes>,
    /// … of the sender, until they are acknowledged.
    pub send_buffer: Sourced<Bytes>,
    /// What a core takes for a packet.
    pub packet: Sourced<Time>,
    /// Frames that interface and kernel handle as one packet.
    pub merged: Sourced<u32>,
}

/// The shipped figures.
///
/// # Panics
/// If the file that the program carries with it is none; a test reads it.
#[must_use]
pub fn sockets() -> &'static SocketModel {
    static MODEL: OnceLock<SocketModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let text = include_str!("../../topologies/software/sockets.json");
        serde_json::from_str(text).expect("the shipped file is valid")
    })
}

/// What a training process takes of a GPU's memory beside its tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What the driver keeps of the card's memory, so that no process can have it.
    pub driver: Sourced<Bytes>,
    /// What the process has beside tensors and NCCL's buffers: CUDA's context and libraries.
    pub context: Sourced<Bytes>,
    /// The part of what PyTorch's allocator holds that is free for nothing that is asked for, 0 to 1.
    pub fragmentation: Sourced<f64>,
    /// As much of it as stays when memory runs short.
    pub least_fragmentation: Sourced<f64>,
}

impl ProcessModel {
    /// All that is beside tensors and NCCL's buffers.
    #[must_use]
    pub fn taken(&self) -> Bytes {
        let (driver, context) = (self.driver.value.get(), self.context.value.get());
        Bytes::new(driver.saturating_add(context))
    }
}

/// The shipped figures.
///
/// # Panics
/// If the file that the program carries with it is none; a test reads it.
#[must_use]
pub fn processes() -> &'static ProcessModel {
    static MODEL: OnceLock<ProcessModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let text = include_str!("../../topologies/software/processes.json");
        serde_json::from_str(text).expect("the shipped file is valid")
    })
}

/// What engines that serve models take beside their kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// By the name of their scheduler.
    pub engines: BTreeMap<String, EngineModel>,
    /// What a layer takes an engine that starts each kernel from Python, without graphs.
    pub eager_per_layer: Sourced<Time>,
    /// Handing a KV cache over.
    pub handover: HandoverModel,
    /// Posting small messages to an interface.
    pub posting: PostingModel,
    /// Reading KV blocks back from the host's memory.
    pub offload: OffloadModel,
}

/// What one engine takes of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineModel {
    /// For a pass, in which the GPU waits.
    pub per_pass: Sourced<Time>,
    /// The same for each request that gets a token in it.
    pub per_sequence: Sourced<Time>,
    /// For a request, before it is queued: the front end, and its first token's way back.
    pub per_request: Sourced<Time>,
    /// For each token of a prompt, before it is queued: the front end reads and tokenizes one prompt after the other.
    pub per_prompt_token: Sourced<Time>,
    /// For each layer of a pass that is no CUDA graph: starting its kernels, which takes at least so long whatever
    /// they take. No pass of static batching is one.
    pub per_layer: Sourced<Time>,
    /// Passes with prompts are CUDA graphs up to so many tokens.
    pub graph_tokens: Sourced<u64>,
    /// The part that is left in a pass of what profiles of kernels take whatever their shape, 0 to 1: the rest hides
    /// behind kernels before it, or is of small kernels that the engine fuses.
    pub launch_share: Sourced<f64>,
}

/// What it takes to hand a KV cache over, beside its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoverModel {
    /// NIXL over UCX, as vLLM and TensorRT-LLM use it.
    pub nixl: LibraryModel,
    /// Mooncake's transfer engine, as SGLang uses it.
    pub mooncake: LibraryModel,
    /// A library by itself, without an engine around it.
    pub bare: BareModel,
}

impl HandoverModel {
    /// The figures of a library by its name; those of NIXL if there is no such one.
    #[must_use]
    pub fn of(&self, library: &str) -> &LibraryModel {
        match library {
            "mooncake" => &self.mooncake,
            _ => &self.nixl,
        }
    }
}

/// A library that moves KV caches, with the engine around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LibraryModel {
    /// Starting one.
    pub setup: Sourced<Time>,
    /// Posting a descriptor to a NIC, while bytes of others flow.
    pub posting: Sourced<Time>,
    /// Posting one to a GPU's copy engine.
    pub posting_nvlink: Sourced<Time>,
    /// What a transfer reaches of what its links leave it.
    pub rate_share: Sourced<f64>,
    /// NICs that one transfer uses at most, of those that are as near.
    pub rails: u32,
}

/// A library by itself: what its benchmarks measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BareModel {
    /// From the call until the first byte, and from the last one until the caller knows.
    pub start: Sourced<Time>,
    /// Posting a descriptor, while bytes of others flow.
    pub posting: Sourced<Time>,
}

/// What each of many small messages takes whoever posts them, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostingModel {
    /// A proxy thread for the GPU.
    pub proxy: Sourced<Time>,
    /// The GPU itself: what the interface takes.
    pub gpu: Sourced<Time>,
}

/// What it takes to move KV blocks between GPU and host, beside their bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OffloadModel {
    /// Starting to read those of a request.
    pub setup: Sourced<Time>,
    /// Asking for a copy.
    pub copy: Sourced<Time>,
    /// What copies reach of their links' rate.
    pub rate_share: Sourced<f64>,
}

/// The shipped figures.
///
/// # Panics
/// If the file that the program carries with it is none; a test reads it.
#[must_use]
pub fn serving() -> &'static ServingModel {
    static MODEL: OnceLock<ServingModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let text = include_str!("../../topologies/software/serving.json");
        serde_json::from_str(text).expect("the shipped file is valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_source_and_is_one() {
        let model = sockets();
        let sources = [
            &model.stream_rate.source,
            &model.wake.source,
            &model.tcp.latency.source,
            &model.tcp.helper_rate.source,
            &model.tcp.helper_wake.source,
            &model.tcp.slowest.source,
            &model.tcp.receive_buffer.source,
            &model.tcp.send_buffer.source,
            &model.tcp.packet.source,
            &model.tcp.merged.source,
            &model.shared_core.source,
            &model.core_rate.source,
            &model.handover.source,
            &model.copy_start.source,
            &model.segment.source,
        ];
        assert!(sources.iter().all(|source| source.len() > 10));
        assert!(model.stream_rate.value.bytes_per_sec() > 0);
        assert!(model.core_rate.value.bytes_per_sec() > 0);
        assert!(model.segment.value > Bytes::ZERO);
        let model = processes();
        assert!(model.driver.source.len() > 10 && model.context.source.len() > 10);
        let (usual, least) = (&model.fragmentation, &model.least_fragmentation);
        assert!(usual.source.len() > 10 && least.source.len() > 10);
        assert!(0.0 < least.value && least.value <= usual.value && usual.value < 1.0);
        assert!(model.taken() > model.driver.value);
    }

    #[test]
    fn every_engine_has_its_figures() {
        let model = serving();
        for name in ["vllm", "sglang", "trtllm", "static"] {
            let of = &model.engines[name];
            let times = [
                &of.per_pass,
                &of.per_sequence,
                &of.per_request,
                &of.per_prompt_token,
                &of.per_layer,
            ];
            let sources = times.iter().map(|figure| &figure.source);
            let others = [&of.launch_share.source, &of.graph_tokens.source];
            let mut sources = sources.chain(others);
            assert!(sources.all(|source| source.len() > 10), "{name}");
            assert!((0.0..=1.0).contains(&of.launch_share.value), "{name}");
        }
        for library in ["nixl", "mooncake"] {
            let of = model.handover.of(library);
            let times = [&of.setup, &of.posting, &of.posting_nvlink];
            let mut times = times.into_iter();
            assert!(times.all(|figure| figure.value > Time::ZERO && figure.source.len() > 10));
            assert!(0.5 < of.rate_share.value && of.rate_share.value <= 1.0);
            assert!(of.rate_share.source.len() > 10 && of.rails > 0);
        }
        assert!(model.handover.nixl != model.handover.mooncake);
        let bare = &model.handover.bare;
        assert!(
            bare.start.source.len() > 10 && bare.posting.value < model.handover.nixl.posting.value
        );
        let offload = &model.offload;
        let sources = [&offload.setup, &offload.copy];
        assert!(sources.iter().all(|figure| figure.source.len() > 10));
        assert!(offload.rate_share.source.len() > 10);
        assert!(0.2 < offload.rate_share.value && offload.rate_share.value <= 1.0);
    }
}
