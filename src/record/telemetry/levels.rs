//! How busy a GPU is, from what runs on it at the same time.

use fabricsim_report::spread;
use fabricsim_units::Time;

/// Something on a GPU for a while.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    pub(super) from: Time,
    pub(super) to: Time,
    /// The part of the GPU's SMs that it is on.
    pub(super) sms: f32,
    /// Kernels of a model, not of a communication.
    pub(super) kernels: bool,
    /// What it does of the peaks of tensor cores and of memory, in seconds at the peak.
    pub(super) tensor: f64,
    pub(super) dram: f64,
}

/// All that was on a GPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Levels {
    all: Vec<Busy>,
}

/// Seconds, by sample.
pub(super) struct Times {
    /// In which any kernel ran.
    pub(super) any: Vec<f64>,
    /// In which a model's kernels ran.
    pub(super) kernels: Vec<f64>,
    /// Of SMs that had something on them, as parts of all SMs.
    pub(super) sms: Vec<f64>,
    /// Of tensor cores at their peak.
    pub(super) tensor: Vec<f64>,
    /// Of memory at its peak.
    pub(super) dram: Vec<f64>,
}

impl Levels {
    pub(super) fn add(&mut self, busy: Busy) {
        if busy.from < busy.to {
            self.all.push(busy);
        }
    }

    pub(super) fn times(self, sample: Time, count: usize) -> Times {
        let empty = || vec![0.0; count];
        let mut times = Times {
            any: empty(),
            kernels: empty(),
            sms: empty(),
            tensor: empty(),
            dram: empty(),
        };
        // When something begins or ends: with how many of a model's kernels, of all, and SMs.
        let mut changes: Vec<(Time, i32, i32, f64)> = Vec::with_capacity(self.all.len() * 2);
        for busy in &self.all {
            let span = (busy.from, busy.to);
            spread(&mut times.tensor, sample, span, busy.tensor);
            spread(&mut times.dram, sample, span, busy.dram);
            let (kernels, sms) = (i32::from(busy.kernels), f64::from(busy.sms));
            changes.push((busy.from, kernels, 1, sms));
            changes.push((busy.to, -kernels, -1, -sms));
        }
        changes.sort_by_key(|change| change.0);
        let (mut since, mut kernels, mut any, mut sms) = (Time::ZERO, 0, 0, 0.0_f64);
        for (at, more_kernels, more, more_sms) in changes {
            let span = (since, at);
            let seconds = at.saturating_sub(since).seconds();
            if any > 0 && seconds > 0.0 {
                spread(&mut times.any, sample, span, seconds);
                let on = if kernels > 0 {
                    1.0
                } else {
                    sms.clamp(0.0, 1.0)
                };
                spread(&mut times.sms, sample, span, seconds * on);
                if kernels > 0 {
                    spread(&mut times.kernels, sample, span, seconds);
                }
            }
            since = at;
            kernels += more_kernels;
            any += more;
            sms += more_sms;
            if any == 0 {
                // What rounding leaves.
                sms = 0.0;
            }
        }
        times
    }
}
