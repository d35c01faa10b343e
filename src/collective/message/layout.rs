//! Where units lie in memory, and how operations over them are cut in chunks.

use super::script::Span;
use crate::program::{At, Buffer};
use crate::ring::Part;

/// Segments begin at multiples of this.
const GRAIN: u64 = 16;

/// The units of one channel's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Units {
    /// Bytes of the part.
    len: u64,
    chunk: u64,
    /// Bytes of each unit but the last ones of a vector, which may have less.
    each: u64,
    /// Between units in input and output.
    stride: u64,
    /// Units are apart in input and output: the part is one of several of each block.
    apart: bool,
    /// Chunks end with units in scratch memory too.
    block_by_block: bool,
}

impl Units {
    /// A part of a vector that all ranks have, in `segments`.
    pub(super) fn of_vector(part: &Part, segments: u32) -> Self {
        let each = part.len.div_ceil(u64::from(segments));
        let each = each.next_multiple_of(GRAIN);
        Units {
            len: part.len,
            chunk: part.chunk,
            each,
            stride: each,
            apart: false,
            block_by_block: false,
        }
    }

    /// A part of the ranks' blocks of `block` bytes.
    pub(super) fn of_blocks(part: &Part, block: u64, block_by_block: bool) -> Self {
        Units {
            len: u64::MAX,
            chunk: part.chunk,
            each: part.len,
            stride: block,
            apart: part.len != block,
            block_by_block,
        }
    }

    /// Bytes before a unit, were they all one after the other.
    pub(super) fn before(&self, unit: u32) -> u64 {
        (u64::from(unit) * self.each).min(self.len)
    }

    fn bytes(&self, span: Span) -> u64 {
        self.before(span.first + span.count) - self.before(span.first)
    }

    /// True if no chunk of an operation with these spans may cross a unit's end.
    fn by_unit(&self, spans: [Option<Span>; 2]) -> bool {
        let scattered =
            |s: &Span| s.count > 1 && (self.block_by_block || s.buffer != Buffer::Scratch);
        self.apart && spans.iter().flatten().any(scattered)
    }

    fn chunks_per_unit(&self) -> u64 {
        self.each.div_ceil(self.chunk)
    }

    /// How many chunks an operation has.
    pub(super) fn chunks(&self, spans: [Option<Span>; 2]) -> u64 {
        let Some(span) = spans.into_iter().flatten().next() else {
            return 0;
        };
        self.chunks_until(spans, self.bytes(span))
    }

    /// How many of its chunks hold the first `end` bytes of an operation.
    pub(super) fn chunks_until(&self, spans: [Option<Span>; 2], end: u64) -> u64 {
        if self.by_unit(spans) && self.each > 0 {
            let (units, rest) = (end / self.each, end % self.each);
            units * self.chunks_per_unit() + rest.div_ceil(self.chunk)
        } else {
            end.div_ceil(self.chunk)
        }
    }

    /// The bytes of an operation's chunk: from and to.
    pub(super) fn chunk(&self, spans: [Option<Span>; 2], index: u64) -> (u64, u64) {
        let Some(span) = spans.into_iter().flatten().next() else {
            return (0, 0);
        };
        if self.by_unit(spans) {
            let per_unit = self.chunks_per_unit();
            let unit = index / per_unit * self.each;
            let begin = index % per_unit * self.chunk;
            (unit + begin, unit + (begin + self.chunk).min(self.each))
        } else {
            let begin = index * self.chunk;
            (begin, (begin + self.chunk).min(self.bytes(span)))
        }
    }

    /// Where byte `offset` of a span is. `base` is where the part begins in a buffer (or in
    /// each block), `scratch` where its scratch memory does.
    pub(super) fn at(&self, span: Span, offset: u64, base: u64, scratch: u64) -> At {
        let packed = self.before(span.first) + offset;
        let offset = match span.buffer {
            Buffer::Scratch => scratch + packed,
            _ if self.apart => {
                let unit = packed / self.each;
                base + unit * self.stride + packed % self.each
            }
            _ => base + packed,
        };
        At {
            buffer: span.buffer,
            offset,
        }
    }
}
