//! Programs from MSCCL's XML files: one file, one algorithm for a fixed number of ranks.
//!
//! Thread blocks become workers, a file's steps become ours, `depid` and `deps` become
//! waiting for another worker. The data is cut in as many chunks as the file says; if they
//! are larger than a connection's buffer, the whole program is repeated over windows of
//! each chunk, as MSCCL's interpreter does. Collectives are run out of place: where a file
//! works in place, a rank's memory is its input until it is first written.
//!
//! `minBytes` and `maxBytes` are read; whoever simulates other sizes tells so. Left out: `custom`
//! collectives, and roots other than rank 0.

mod memory;
mod program;
mod xml;

pub use program::MscclProgram;

use super::goal::Collective;
use super::verify::{VerifyError, verify};
use std::ops::RangeInclusive;
use thiserror::Error;

/// Chunks of all ranks' results, times the ranks whose data is in each: so many are followed at
/// most, in some hundred megabytes.
const MOST_PARTS: u64 = 1 << 24;

/// Slots of a queue, of which the first chunk takes one.
const CREDITS: usize = 8;

/// An algorithm as its file says, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MscclAlgorithm {
    /// The file's name for it.
    pub name: String,
    /// The protocol that it was made for: `Simple`, `LL` or `LL128`.
    pub protocol: String,
    /// What it does.
    pub collective: Collective,
    /// Input and output are the same memory.
    pub in_place: bool,
    /// Channels.
    pub channels: u16,
    /// Chunks of the largest buffer.
    pub chunks: u32,
    /// The sizes that it is for, in bytes, as `minBytes` and `maxBytes` say.
    pub sizes: RangeInclusive<u64>,
    ranks: Vec<memory::RankBlocks>,
    /// Scratch chunks of any rank, those included that stand for written input.
    scratch: u32,
    /// Several chunks of one step lie together everywhere.
    together: bool,
}

/// Why a file is no algorithm, or cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MscclError {
    /// Not even XML.
    #[error("not XML: {0}")]
    Xml(String),
    /// Something is not as it must be.
    #[error("line {line}: {found}; expected {expected}")]
    At {
        /// In which line.
        line: u32,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// It does something else than its `coll` says.
    #[error("it is no {collective}: {problem}")]
    Wrong {
        /// What it says it does.
        collective: Collective,
        /// Where it does not.
        problem: String,
    },
    /// The data cannot be cut as the file says.
    #[error("{bytes} bytes; expected a multiple of the algorithm's {chunks} chunks")]
    Size {
        /// How many bytes are asked for.
        bytes: u64,
        /// In how many chunks they were to be cut.
        chunks: u32,
    },
}

impl MscclError {
    fn at(line: u32, found: impl Into<String>, expected: impl Into<String>) -> Self {
        MscclError::At {
            line,
            found: found.into(),
            expected: expected.into(),
        }
    }
}

impl MscclAlgorithm {
    /// Reads an algorithm from its file's text. The data is followed through one pass of the
    /// program: chunks that do not match and programs that stop halfway are found here. Then it is
    /// proved that it computes what it says.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(text: &str) -> Result<Self, MscclError> {
        let algorithm = MscclAlgorithm::read(text)?;
        algorithm.prove()?;
        Ok(algorithm)
    }

    /// Whether MSCCL would use it for a size.
    #[must_use]
    pub fn is_for(&self, bytes: u64) -> bool {
        self.sizes.contains(&bytes)
    }

    /// Reads an algorithm without the proof that it computes what it says: to show how it goes wrong.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn read(text: &str) -> Result<Self, MscclError> {
        let file = xml::read(text)?;
        check_parts(&file)?;
        let resolved = memory::resolve(&file)?;
        Ok(MscclAlgorithm {
            name: file.name,
            protocol: file.protocol,
            collective: file.collective,
            in_place: file.in_place,
            channels: file.channels,
            chunks: file.chunks,
            sizes: file.sizes,
            ranks: resolved.ranks,
            scratch: resolved.scratch,
            together: resolved.together,
        })
    }

    /// Proves that it does what it says, with a byte for each chunk.
    fn prove(&self) -> Result<(), MscclError> {
        let wrong = |problem: String| MscclError::Wrong {
            collective: self.collective,
            problem,
        };
        let bytes = u64::from(self.chunks);
        let program = self.program(bytes, bytes)?;
        verify(&program, CREDITS).map_err(|error| {
            wrong(match error {
                VerifyError::WrongResult {
                    rank,
                    offset,
                    problem,
                } => format!("rank {rank}, output chunk {offset}: {problem}"),
                other => other.to_string(),
            })
        })
    }

    /// How many ranks it is for.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The program for `bytes` (nccl-tests' size) with chunks of at most `chunk` bytes.
    ///
    /// # Errors
    /// A size that cannot be cut in the algorithm's chunks.
    ///
    /// # Panics
    /// If `chunk` is zero.
    pub fn program(&self, bytes: u64, chunk: u64) -> Result<MscclProgram, MscclError> {
        if !bytes.is_multiple_of(u64::from(self.chunks)) {
            return Err(MscclError::Size {
                bytes,
                chunks: self.chunks,
            });
        }
        Ok(MscclProgram::new(self, bytes, chunk))
    }
}

/// Refuses, before any is followed, results of more parts than can be.
fn check_parts(file: &xml::File) -> Result<(), MscclError> {
    let ranks = file.gpus.len() as u64;
    let summed = match file.collective {
        Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce => ranks,
        _ => 1,
    };
    let parts = (ranks * u64::from(file.chunks)).saturating_mul(summed);
    if parts <= MOST_PARTS {
        return Ok(());
    }
    Err(MscclError::Wrong {
        collective: file.collective,
        problem: format!(
            "that cannot be proved, for {parts} parts of results are more than {MOST_PARTS}"
        ),
    })
}

#[cfg(test)]
mod tests;
