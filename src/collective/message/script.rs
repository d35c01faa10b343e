//! What one rank does, as a list in plain order.

use crate::program::Buffer;

/// Consecutive units of a buffer: segments of a vector, or ranks' blocks. Where a rank has
/// one block only (the input of an all-gather, the output of a reduce-scatter), it is unit 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Span {
    pub(super) buffer: Buffer,
    pub(super) first: u32,
    pub(super) count: u32,
}

pub(super) const fn input(first: u32, count: u32) -> Span {
    Span {
        buffer: Buffer::Input,
        first,
        count,
    }
}

pub(super) const fn output(first: u32, count: u32) -> Span {
    Span {
        buffer: Buffer::Output,
        first,
        count,
    }
}

pub(super) const fn scratch(first: u32, count: u32) -> Span {
    Span {
        buffer: Buffer::Scratch,
        first,
        count,
    }
}

/// One entry of the list. All spans of an operation have the same count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// To this rank.
    Send { to: u32, source: Span },
    /// From this rank; `addend` is added.
    Receive {
        from: u32,
        addend: Option<Span>,
        target: Span,
    },
    /// Within the rank.
    Copy { source: Span, target: Span },
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) operations: Vec<Operation>,
    /// Messages of several blocks go block by block where a part of each is sent, also from
    /// and to scratch memory: the other end may have them in input or output.
    pub(super) block_by_block: bool,
}

impl Script {
    pub(super) fn send(&mut self, to: u32, source: Span) {
        self.operations.push(Operation::Send { to, source });
    }

    pub(super) fn receive(&mut self, from: u32, target: Span) {
        self.operations.push(Operation::Receive {
            from,
            addend: None,
            target,
        });
    }

    /// Receives, adds `addend`, and stores at `target`.
    pub(super) fn reduce(&mut self, from: u32, addend: Span, target: Span) {
        self.operations.push(Operation::Receive {
            from,
            addend: Some(addend),
            target,
        });
    }

    pub(super) fn copy(&mut self, source: Span, target: Span) {
        self.operations.push(Operation::Copy { source, target });
    }
}
