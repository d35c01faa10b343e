//! What a run may use: processors and memory, handed in as one value and shared out.
//!
//! Memory is counted where it is held in bulk: what is about to be held is asked for before it is
//! made ([`Memory::hold`]), and given back when its [`Held`] is dropped. Before that the whole is
//! estimated ([`Memory::expect`]), so that what would not fit is refused at once.

mod stop;
pub mod threads;
mod work;

pub use stop::Stop;
pub use work::{Far, Part, Work, share};

use fabricsim_units::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// What a run may use.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Processors, at most; results do not depend on it.
    pub threads: usize,
    /// Every worker is simulated, also where one could stand for all that are alike: the same
    /// results, later, and from more memory.
    pub exact_full: bool,
    /// Memory.
    pub memory: Memory,
    /// Ends plans and simulations that nobody waits for any more.
    pub stop: Stop,
    /// Says how far all of it is.
    pub work: Work,
}

impl Budget {
    /// The same while a run is estimated ([`Memory::estimating`]).
    #[must_use]
    pub fn estimating(&self) -> Budget {
        Budget {
            memory: self.memory.estimating(),
            ..self.clone()
        }
    }

    /// The same for so many threads of what runs beside others: it does not say how far it is, for those that it
    /// is one of are counted.
    #[must_use]
    pub fn beside_others(&self, threads: usize) -> Budget {
        Budget {
            threads,
            work: Work::default(),
            ..self.clone()
        }
    }
}

impl Default for Budget {
    /// All processors, and as much memory as there may be.
    fn default() -> Self {
        Budget {
            threads: crate::threads::processors(),
            exact_full: false,
            memory: Memory::unlimited(),
            stop: Stop::default(),
            work: Work::default(),
        }
    }
}

/// Something that is held in bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Kernels and messages of a job's steps.
    Tasks,
    /// Connections between ranks: their routes, queues and workers.
    Connections,
    /// What a job's communications move over each link.
    Loads,
    /// Devices and links of the machine.
    Machine,
    /// What a recorded simulation did when.
    Record,
    /// Requests that are served, passes and KV blocks.
    Requests,
}

impl Purpose {
    const ALL: [Purpose; 6] = [
        Purpose::Tasks,
        Purpose::Connections,
        Purpose::Loads,
        Purpose::Machine,
        Purpose::Record,
        Purpose::Requests,
    ];

    const fn name(self) -> &'static str {
        match self {
            Purpose::Tasks => "the kernels and messages of a job's steps",
            Purpose::Connections => "connections between ranks",
            Purpose::Loads => "what a job's communications move over each link",
            Purpose::Machine => "the machine",
            Purpose::Record => "the record of a simulation",
            Purpose::Requests => "requests that are served",
        }
    }

    /// What would take less.
    const fn instead(self) -> &'static str {
        match self {
            Purpose::Tasks => {
                "fewer `steps`, fewer micro-batches (a smaller `global_batch`, a larger `micro_batch`)"
            }
            Purpose::Connections => {
                "fewer nodes or GPUs, or an algorithm with fewer peers than all"
            }
            Purpose::Loads => "fewer nodes, or fewer communications",
            Purpose::Machine => "fewer nodes",
            Purpose::Record => "a smaller size to record (`trace`), or fewer nodes",
            Purpose::Requests => "fewer `requests`, or fewer tokens of each",
        }
    }
}

/// A run that would hold more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "this would take {} of memory, most of it for {}, but the budget is {}; \
     expected {}, or a larger budget (`--memory`)",
    decimal(*takes), purpose.name(), decimal(*limit), purpose.instead()
)]
pub struct OverBudget {
    /// What most of it is for.
    pub purpose: Purpose,
    /// What all takes together.
    pub takes: Bytes,
    /// What it may.
    pub limit: Bytes,
}

/// As people say it: `3.2 GB`.
#[must_use]
pub fn decimal(bytes: Bytes) -> String {
    let bytes = bytes.get() as f64;
    match bytes {
        1e12.. => format!("{:.1} TB", bytes / 1e12),
        1e9.. => format!("{:.1} GB", bytes / 1e9),
        1e6.. => format!("{:.0} MB", bytes / 1e6),
        _ => format!("{bytes} B"),
    }
}

/// Bytes of the program itself, and of small things that are not counted.
const PROGRAM: u64 = 12_000_000;

/// So much may be held while it is estimated what all takes, whatever the budget is.
const ESTIMATING: Bytes = Bytes::new(1_000_000_000);

/// Memory that a run may hold, and what it holds. Clones count together.
#[derive(Debug, Clone)]
pub struct Memory {
    limit: Bytes,
    /// More than the limit while a run is estimated.
    allowed: Bytes,
    held: Arc<Counts>,
}

/// Bytes that are held, by purpose, beside the program's own.
#[derive(Debug, Default)]
struct Counts {
    by_purpose: [AtomicU64; Purpose::ALL.len()],
    /// The most that was expected of all.
    most: AtomicU64,
}

impl Counts {
    fn of(&self, purpose: Purpose) -> u64 {
        self.by_purpose[purpose as usize].load(Ordering::Relaxed)
    }

    /// What is held with `more`, and what most of it is for.
    fn with(&self, more: &[(Purpose, u64)]) -> (u64, Purpose) {
        let mut all = PROGRAM;
        let mut most = (0, Purpose::Machine);
        for purpose in Purpose::ALL {
            let own = more.iter().filter(|part| part.0 == purpose);
            let own = own.map(|part| part.1);
            let bytes = own.fold(self.of(purpose), u64::saturating_add);
            all = all.saturating_add(bytes);
            if bytes > most.0 {
                most = (bytes, purpose);
            }
        }
        (all, most.1)
    }
}

impl Memory {
    /// So much.
    #[must_use]
    pub fn of(limit: Bytes) -> Memory {
        Memory {
            limit,
            allowed: limit,
            held: Arc::default(),
        }
    }

    /// Without a limit.
    #[must_use]
    pub fn unlimited() -> Memory {
        Memory::of(Bytes::new(u64::MAX))
    }

    /// The same memory while a run is estimated. A plan has to be made for that, and may be a little
    /// larger than a small budget: what is refused then says what all would take.
    #[must_use]
    pub fn estimating(&self) -> Memory {
        Memory {
            allowed: self.limit.max(ESTIMATING),
            ..self.clone()
        }
    }

    /// Asks whether so much more fits, without holding it.
    ///
    /// # Errors
    /// It does not.
    pub fn expect(&self, purpose: Purpose, bytes: u64) -> Result<(), OverBudget> {
        self.expect_all(&[(purpose, bytes)])
    }

    /// Asks whether all of this fits at once, without holding it.
    ///
    /// # Errors
    /// It does not.
    pub fn expect_all(&self, parts: &[(Purpose, u64)]) -> Result<(), OverBudget> {
        let (takes, purpose) = self.held.with(parts);
        if takes <= self.allowed.get() {
            self.held.most.fetch_max(takes, Ordering::Relaxed);
            return Ok(());
        }
        Err(OverBudget {
            purpose,
            takes: Bytes::new(takes),
            limit: self.limit,
        })
    }

    /// The most that was asked for so far, with what was held then: what all is expected to take, and the program.
    #[must_use]
    pub fn expected(&self) -> Bytes {
        Bytes::new(self.held.most.load(Ordering::Relaxed))
    }

    /// Holds so much more, until what it returns is dropped.
    ///
    /// # Errors
    /// It does not fit.
    pub fn hold(&self, purpose: Purpose, bytes: u64) -> Result<Held, OverBudget> {
        // Asked first, so that no count is added to that is beyond all numbers; and again after, for
        // others may hold more meanwhile.
        self.expect(purpose, bytes)?;
        self.held.by_purpose[purpose as usize].fetch_add(bytes, Ordering::Relaxed);
        let held = Held {
            purpose,
            bytes,
            of: Arc::clone(&self.held),
        };
        self.expect_all(&[]).map(|()| held)
    }
}

/// Memory that is held.
#[derive(Debug)]
pub struct Held {
    purpose: Purpose,
    bytes: u64,
    of: Arc<Counts>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.by_purpose[self.purpose as usize].fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let memory = Memory::of(Bytes::new(PROGRAM + 100));
        let first = memory.hold(Purpose::Tasks, 60).unwrap();
        assert!(memory.expect(Purpose::Tasks, 40).is_ok());
        let error = memory.clone().hold(Purpose::Connections, 41).unwrap_err();
        assert_eq!(error.takes, Bytes::new(PROGRAM + 101));
        // Nor does a number that no counter holds fit, nor is it held.
        assert!(memory.hold(Purpose::Tasks, u64::MAX).is_err());
        // What was refused is not held.
        let second = memory.hold(Purpose::Tasks, 40).unwrap();
        assert!(memory.expect(Purpose::Tasks, 1).is_err());
        drop((first, second));
        assert!(memory.hold(Purpose::Tasks, 100).is_ok());
        // What was refused is not expected.
        assert_eq!(memory.expected(), Bytes::new(PROGRAM + 100));
    }

    #[test]
    fn a_refusal_says_what_would_take_how_much_and_what_to_change() {
        let memory = Memory::of(Bytes::new(2_000_000_000));
        let error = memory.expect(Purpose::Tasks, 8_200_000_000).unwrap_err();
        let text = error.to_string();
        for part in ["8.2 GB", "2.0 GB", "steps", "micro_batch", "--memory"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
