//! Tasks: what is done on a stream.

use super::{StreamId, TaskId, TransferRouteId};
use fabricsim_units::{Bytes, Time};
use smallvec::SmallVec;
use std::num::NonZeroU16;
use std::ops::AddAssign;

/// The tasks of a rank, in the order in which its process starts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Script {
    /// The tasks.
    pub tasks: Vec<Task>,
}

/// Something on a stream. Tasks of one stream run one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Task {
    /// Where it runs.
    pub stream: StreamId,
    /// Tasks of other streams that have to be done before it begins.
    pub after: SmallVec<[TaskId; 2]>,
    /// What it does.
    pub work: Work,
    /// What it is, for people.
    pub tag: Tag,
}

/// What a task is, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// An index into [`Job::names`](super::Job::names).
    pub name: u16,
    /// Which step it belongs to, from 0.
    pub step: u16,
    /// Which micro-batch, from 0; `None` if it is of none.
    pub micro_batch: Option<u16>,
    /// Which virtual stage of this rank, from 0.
    pub chunk: u16,
    /// Which part of a step its kernels are; of no matter for other work.
    pub kind: TaskKind,
    /// Which bucket of gradients it moves; `None` if it moves none.
    pub bucket: Option<BucketId>,
}

/// A bucket of gradients, counted through a step in the order in which buckets go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(NonZeroU16);

impl BucketId {
    /// The bucket with this number, from 0; those beyond 65,534 are one.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        BucketId(NonZeroU16::MIN.saturating_add(number))
    }

    /// Its number, from 0.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0.get() - 1
    }
}

/// Which part of a step kernels are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// A forward pass.
    #[default]
    Forward,
    /// A forward pass once more, for the backward pass.
    Recompute,
    /// A backward pass.
    Backward,
    /// The optimiser.
    Optimiser,
    /// What is done to gradients: adding them up, compressing them.
    Gradients,
}

impl TaskKind {
    /// All of them, in order of their number.
    pub const ALL: [TaskKind; 5] = [
        TaskKind::Forward,
        TaskKind::Recompute,
        TaskKind::Backward,
        TaskKind::Optimiser,
        TaskKind::Gradients,
    ];

    /// Its number.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Kernels on the GPU.
    Kernels(Kernels),
    /// The rank's part in an operation of a communicator.
    Communicate {
        /// Which of the actor's groups.
        group: u16,
        /// Which of the group's exchanges.
        exchange: u16,
    },
    /// Bytes flow over links that others use, too; nothing of the GPU's SMs is needed.
    Transfer {
        /// Over which links.
        route: TransferRouteId,
        /// How many.
        bytes: Bytes,
        /// In how many messages.
        messages: u32,
    },
    /// Something that takes so long, whatever else goes on: a copy engine, the host.
    Wait(Time),
    /// The process waits for all that it has started before it starts more.
    Synchronise,
    /// The process waits for what it has started on one stream, or on all of them, and is busy for so
    /// long then before it starts more: `.item()`, `print` of a tensor, `torch.cuda.synchronize()`.
    HostSync {
        /// Which stream; all of them if `None`.
        stream: Option<StreamId>,
        /// What it does with what it read.
        busy: Time,
    },
}

impl Work {
    /// Whether the process waits here before it starts more.
    #[must_use]
    pub const fn is_sync(self) -> bool {
        matches!(self, Work::Synchronise | Work::HostSync { .. })
    }
}

/// Kernels one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Kernels {
    /// What they take with all SMs, of work that SMs limit; it takes longer in proportion when
    /// communication holds some of them.
    pub compute: Time,
    /// What they take beside, limited by memory or latency.
    pub memory: Time,
    /// How many there are: each has to be started by the process.
    pub launches: u16,
    /// What they do of what tensor cores could in that time, at their peak.
    pub tensor: PeakShare,
    /// What they move of what the GPU's memory could.
    pub dram: PeakShare,
}

/// A part of a peak, in 65,535ths: small, for there are many tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PeakShare(u16);

impl PeakShare {
    /// The nearest to this part; what is below 0 or above 1 is 0 or 1.
    #[must_use]
    pub fn new(part: f64) -> PeakShare {
        PeakShare((part.clamp(0.0, 1.0) * f64::from(u16::MAX)).round() as u16)
    }

    /// From 0 to 1.
    #[must_use]
    pub fn part(self) -> f64 {
        f64::from(self.0) / f64::from(u16::MAX)
    }
}

impl AddAssign for Kernels {
    fn add_assign(&mut self, other: Kernels) {
        let both = (*self, 1.0, other);
        (self.tensor, self.dram) = (
            weighted(both, |kernels| kernels.tensor),
            weighted(both, |kernels| kernels.dram),
        );
        self.compute += other.compute;
        self.memory += other.memory;
        self.launches = self.launches.saturating_add(other.launches);
    }
}

/// The share of kernels with others, or (with -1) without them.
fn weighted(
    (one, sign, other): (Kernels, f64, Kernels),
    of: fn(Kernels) -> PeakShare,
) -> PeakShare {
    let time = |kernels: Kernels| kernels.time().picos() as f64;
    let all = time(one) + sign * time(other);
    if all <= 0.0 {
        return PeakShare::default();
    }
    PeakShare::new((of(one).part() * time(one) + sign * of(other).part() * time(other)) / all)
}

impl Kernels {
    /// What they take with all SMs.
    #[must_use]
    pub fn time(self) -> Time {
        self.compute + self.memory
    }

    /// Kernels that take so many times as long.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Kernels {
        let time = |t: Time| Time::from_picos((t.picos() as f64 * factor).round() as u64);
        Kernels {
            compute: time(self.compute),
            memory: time(self.memory),
            ..self
        }
    }

    /// What is left without some of them.
    #[must_use]
    pub fn without(self, part: Kernels) -> Kernels {
        let rest = (self, -1.0, part);
        Kernels {
            tensor: weighted(rest, |kernels| kernels.tensor),
            dram: weighted(rest, |kernels| kernels.dram),
            compute: self.compute.saturating_sub(part.compute),
            memory: self.memory.saturating_sub(part.memory),
            launches: self.launches.saturating_sub(part.launches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_peaks_are_by_time() {
        let kernels = |micros: u64, tensor: f64| Kernels {
            compute: Time::from_micros(micros),
            memory: Time::ZERO,
            launches: 1,
            tensor: PeakShare::new(tensor),
            dram: PeakShare::new(1.0 - tensor),
        };
        let mut both = kernels(30, 0.8);
        both += kernels(10, 0.0);
        let near = |share: PeakShare, part: f64| (share.part() - part).abs() < 2e-5;
        assert!(near(both.tensor, 0.6) && near(both.dram, 0.4));
        let rest = both.without(kernels(10, 0.0));
        assert!(near(rest.tensor, 0.8) && near(rest.dram, 0.2));
        assert_eq!(both.without(both).tensor, PeakShare::default());
        // What is more than the peak is the peak.
        assert_eq!(PeakShare::new(7.0).part(), 1.0);
    }
}
