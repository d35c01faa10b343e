//! How much each rank sends to each other one in an all-to-all of unequal parts.

use super::program::Rank;
use thiserror::Error;

/// Bytes from each rank (row) to each rank (column).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    ranks: u32,
    bytes: Vec<u64>,
    /// For each row the bytes before each of its entries, and likewise for each column.
    before_in_row: Vec<u64>,
    before_in_column: Vec<u64>,
}

/// Why numbers are no matrix of traffic.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MatrixError {
    /// A row of another length than the number of rows.
    #[error(
        "row {row} has {found} entries, but there are {expected} rows; expected one for each rank"
    )]
    NotSquare {
        /// The row.
        row: usize,
        /// How many entries it has.
        found: usize,
        /// How many rows there are.
        expected: usize,
    },
    /// No rows.
    #[error("there are no rows; expected one for each rank")]
    Empty,
    /// A rank's buffer would be larger than anything.
    #[error("row or column {index} sums to more than {} bytes", u64::MAX)]
    Overflow {
        /// The row or column.
        index: usize,
    },
}

impl Matrix {
    /// A matrix by its rows.
    ///
    /// # Errors
    /// Rows that do not make a square, or sums beyond 64 bits.
    pub fn new(rows: &[Vec<u64>]) -> Result<Self, MatrixError> {
        let ranks = rows.len();
        if ranks == 0 {
            return Err(MatrixError::Empty);
        }
        if let Some((row, entries)) = rows.iter().enumerate().find(|(_, r)| r.len() != ranks) {
            return Err(MatrixError::NotSquare {
                row,
                found: entries.len(),
                expected: ranks,
            });
        }
        let bytes: Vec<u64> = rows.iter().flatten().copied().collect();
        let mut before_in_row = vec![0; bytes.len()];
        let mut before_in_column = vec![0; bytes.len()];
        for i in 0..ranks {
            let (mut row, mut column) = (0u64, 0u64);
            for j in 0..ranks {
                before_in_row[i * ranks + j] = row;
                before_in_column[j * ranks + i] = column;
                let overflow = MatrixError::Overflow { index: i };
                row = row.checked_add(rows[i][j]).ok_or(overflow.clone())?;
                column = column.checked_add(rows[j][i]).ok_or(overflow)?;
            }
        }
        Ok(Matrix {
            ranks: ranks as u32,
            bytes,
            before_in_row,
            before_in_column,
        })
    }

    /// The same number of bytes between all, also from each rank to itself.
    #[must_use]
    pub fn even(ranks: u32, each: u64) -> Self {
        let rows = vec![vec![each; ranks as usize]; ranks.max(1) as usize];
        Matrix::new(&rows).expect("a square, whose sums are a buffer's size")
    }

    fn at(&self, from: Rank, to: Rank) -> usize {
        from.index() * self.ranks as usize + to.index()
    }

    /// How many messages there are, those of ranks to themselves included.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.bytes.iter().filter(|&&bytes| bytes > 0).count() as u64
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// What `from` sends to `to`.
    #[must_use]
    pub fn bytes(&self, from: Rank, to: Rank) -> u64 {
        self.bytes[self.at(from, to)]
    }

    /// Where that begins in the sender's input: after what it sends to smaller ranks.
    #[must_use]
    pub fn sent_before(&self, from: Rank, to: Rank) -> u64 {
        self.before_in_row[self.at(from, to)]
    }

    /// Where that goes in the receiver's output: after what comes from smaller ranks.
    #[must_use]
    pub fn received_before(&self, from: Rank, to: Rank) -> u64 {
        self.before_in_column[self.at(from, to)]
    }

    /// All that a rank sends.
    #[must_use]
    pub fn sent(&self, from: Rank) -> u64 {
        let last = Rank(self.ranks - 1);
        self.sent_before(from, last) + self.bytes(from, last)
    }

    /// All that a rank receives.
    #[must_use]
    pub fn received(&self, to: Rank) -> u64 {
        let last = Rank(self.ranks - 1);
        self.received_before(last, to) + self.bytes(last, to)
    }

    /// The most that any rank sends or receives: nccl-tests' size of the operation.
    #[must_use]
    pub fn size(&self) -> u64 {
        (0..self.ranks)
            .map(|r| self.sent(Rank(r)).max(self.received(Rank(r))))
            .max()
            .unwrap_or(0)
    }
}
