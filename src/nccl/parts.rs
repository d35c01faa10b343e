//! Channels, chunks and slices of an operation: how much each thread block handles.
//!
//! NCCL 2.30.7: thread thresholds and channel counts of `enqueue.cc`, its "continuous byte
//! distribution" of one operation over channels, buffer sizes and chunk rules.

use crate::collective::{Collective, Part};
use crate::plan::{Protocol, ProtocolKind};
use crate::units::Bytes;

/// Slots of a connection's buffer.
const STEPS: u32 = 8;
/// Bytes of a Simple slot (`NCCL_BUFFSIZE` 4 MiB / 8).
const SIMPLE_SLOT: u64 = 512 << 10;
/// Payload of an LL slot: 8 lines × 512 threads × 16 bytes, half of them flags.
const LL_SLOT: u64 = 32 << 10;
/// Payload of an LL128 slot: 120 × 640 × 8 bytes × 15/16, in whole lines.
const LL128_SLOT: u64 = 576_000;
/// Traffic that one cell of the distribution stands for.
const CELL: u64 = 32 << 10;

/// How `protocol` cuts the chunks of a ring, and the size of a full chunk.
pub(super) fn ring_protocol(collective: Collective, kind: ProtocolKind) -> (Protocol, u64) {
    let pipelined = matches!(
        collective,
        Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter
    );
    let (slices_per_chunk, slice_steps, min_slice, wire, chunk) = match kind {
        // A chunk of four slots in slices of two.
        ProtocolKind::Simple if pipelined => (2, 2, 2 * SIMPLE_SLOT / 32, (1, 1), 4 * SIMPLE_SLOT),
        ProtocolKind::Simple => (1, 1, SIMPLE_SLOT / 32, (1, 1), SIMPLE_SLOT),
        ProtocolKind::Ll => (1, 1, 16, (2, 1), LL_SLOT),
        ProtocolKind::Ll128 => (1, 1, 16, (16, 15), LL128_SLOT),
    };
    let protocol = Protocol {
        kind,
        slices_per_chunk,
        min_slice: Bytes::new(min_slice),
        fifo_slices: STEPS / slice_steps,
        wire,
    };
    (protocol, chunk)
}

/// How many of `channels` an operation of `bytes` uses at most.
pub(super) fn channels_for(kind: ProtocolKind, ranks: u32, channels: u16, bytes: u64) -> u16 {
    let per_channel = match kind {
        ProtocolKind::Ll => 512 * 8 * u64::from(ranks),
        ProtocolKind::Ll128 => 640 * 8,
        ProtocolKind::Simple => 512 * 64,
    };
    u16::try_from(bytes / per_channel)
        .unwrap_or(u16::MAX)
        .clamp(1, channels)
}

/// Deals an operation of `bytes` (nccl-tests' size) to at most `channels` channels.
pub(super) fn ring_parts(
    collective: Collective,
    kind: ProtocolKind,
    ranks: u32,
    channels: u16,
    bytes: u64,
    chunk: u64,
) -> Vec<Part> {
    // What is dealt, and the traffic of one byte of it.
    let n = u64::from(ranks);
    let (len, weight) = match collective {
        Collective::AllReduce => (bytes, 2),
        Collective::AllGather | Collective::ReduceScatter => (bytes / n, n),
        _ => (bytes, 1),
    };
    let weight = if kind == ProtocolKind::Ll {
        4 * weight
    } else {
        weight
    };
    let cell = CELL.div_ceil(weight).next_multiple_of(16);
    let cells = len.div_ceil(cell).max(1);
    let per_channel = (len * weight)
        .max(CELL)
        .div_ceil(u64::from(channels))
        .next_multiple_of(16);
    let each = per_channel.div_ceil(cell * weight).clamp(1, cells) * cell;
    (0..len.div_ceil(each).max(1))
        .map(|c| Part {
            offset: c * each,
            len: each.min(len - c * each),
            chunk,
        })
        .collect()
}
