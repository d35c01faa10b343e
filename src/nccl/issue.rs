//! How processes start kernels, and what that makes operations wait for.

use super::communicator::Communicator;
use fabricsim_plan::Issue;
use fabricsim_units::Time;

impl Communicator<'_> {
    /// How processes start kernels of so many channels.
    pub(super) fn issue(&self, channels: u16) -> Issue {
        let env = self.env();
        if env.cuda_graph {
            return Issue::FREE;
        }
        let before_2_23 = env.version.before(23);
        let of_a_thread = if env.in_a_row > 1 {
            1
        } else {
            env.ranks_per_process
        };
        Issue {
            ranks_per_process: env.ranks_per_process,
            each: kernel_start(channels, before_2_23, self.driver_start()),
            in_a_row: env.in_a_row,
            between: between(channels, env.version.before(14), of_a_thread),
        }
    }

    /// The driver's part of a kernel's start, where only that makes ranks of a process wait for
    /// each other.
    fn driver_start(&self) -> Option<Time> {
        let gpu = self.gpus.first().filter(|_| self.env().in_a_row > 1)?;
        self.topology.driver_start(self.ways.cpu_of(*gpu).ok()?)
    }
}

/// What starting a kernel takes a process: for each GPU with a thread block, and for each more of
/// these.
///
/// Read off: nccl-tests of 8 GPUs driven by one process cannot be faster than eight times this
/// (35.2 us with one thread block and 88 with 32 in microsoft/superbenchmark on A100, 35.1 in
/// together-nccl-tests on H100). Of threads with a GPU each only the `driver`'s part counts: the
/// rest they do at the same time.
fn kernel_start(channels: u16, before_2_23: bool, driver: Option<Time>) -> Time {
    let gpu = driver.unwrap_or(Time::from_nanos(4400));
    gpu + thread_blocks(channels, before_2_23)
}

/// The part of a kernel's start that is for its thread blocks beyond the first. Releases from 2.23
/// on prepare all of them at once.
fn thread_blocks(channels: u16, before_2_23: bool) -> Time {
    let more = if before_2_23 { 210 } else { 30 };
    Time::from_nanos(more) * u32::from(channels.saturating_sub(1))
}

/// What passes between two operations of the `ranks` that one thread drives: before 2.14 the part
/// of their kernels' starts that is for thread blocks is not hidden behind the operation before
/// where these are several.
///
/// Read off: 8 A100 that one process drives (microsoft/superbenchmark) take the longer of their
/// kernels' starts and of the operation with 39 us more with 24 channels, 52 with 32, whatever the
/// collective, from 2 MiB to where that no longer counts. Releases before 2.14 start the kernels of
/// such a process by one cooperative launch over its GPUs, later ones each GPU's by itself: as the
/// authors remember NCCL's source, no measurement has shown the release.
fn between(channels: u16, before_2_14: bool, ranks: u32) -> Time {
    if before_2_14 && ranks > 1 {
        thread_blocks(channels, true) * ranks
    } else {
        Time::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(channels: u16, before_2_14: bool, ranks: u32) -> f64 {
        between(channels, before_2_14, ranks).picos() as f64 / 1e6
    }

    #[test]
    fn a_process_of_several_gpus_needs_a_while_between_operations() {
        assert_eq!(kernel_start(1, true, None), Time::from_nanos(4400));
        assert_eq!(kernel_start(32, true, None), Time::from_nanos(10_910));
        assert_eq!(kernel_start(32, false, None), Time::from_nanos(5330));
        // SuperBench's 8 A100: rings of 24 channels, all-to-alls of 32.
        assert!((micros(24, true, 8) - 38.64).abs() < 1e-9);
        assert!((micros(32, true, 8) - 52.08).abs() < 1e-9);
        // One thread block has nothing to add; one GPU a process and later releases hide it.
        for (channels, before, ranks) in [(1, true, 8), (32, true, 1), (32, false, 8)] {
            assert_eq!(between(channels, before, ranks), Time::ZERO);
        }
    }
}
