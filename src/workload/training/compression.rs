//! What DDP's communication hooks make of gradients.
//!
//! A hook's kernels are passes over memory, one after the other on the stream of the exchange. Of n gradients
//! of w bytes among N replicas, with the share d of them selected:
//!
//! | hook | passes before | what is exchanged | after |
//! | --- | --- | --- | --- |
//! | `half_precision` | 3 with those after | all-reduce of 2 n bytes | – |
//! | `power_sgd` | 5 with those after | all-reduce of two thin matrices | – |
//! | `top_k` | 14: 3 add what was left out before, 2 absolute values, 4 a radix select by 8 bits of 32, 1 gather, 4 what is left out now | all-gather of N d n (w + 4) bytes: values and indices | 1 of zeros, and N d n (3 w + 4) bytes to read and add up |
//!
//! Top-k is as in GRACE (Xu et al., ICDCS 2021, `topk.py` with residual memory) and Deep Gradient
//! Compression (arXiv 1712.01887): the places differ from replica to replica, so that nothing can be
//! summed on the way. It moves less than a ring's 2 (N − 1) / N n w bytes while d N (w + 4) < 2 w.

use super::compute::Gpu;
use super::layers::Deps;
use super::resolve::Training;
use super::script::DATA;
use super::spec::{Compression, DdpSpec};
use super::step::StepWriter;
use fabricsim_collective::Collective;
use fabricsim_plan::job::{Kernels, TaskKind};

/// Bytes of a selected gradient's index.
const INDEX: u64 = 4;

/// What a hook does with a bucket.
pub(super) struct Hooked {
    /// Kernels before the exchange.
    before: Option<Kernels>,
    /// What is exchanged, and how.
    pub(super) bytes: u64,
    pub(super) collective: Collective,
    /// Kernels after it.
    after: Option<Kernels>,
}

impl Hooked {
    /// A bucket that goes out as it is.
    pub(super) const fn plain(bytes: u64) -> Hooked {
        Hooked {
            before: None,
            bytes,
            collective: Collective::AllReduce,
            after: None,
        }
    }

    /// A bucket of so many bytes.
    fn new(training: &Training, ddp: &DdpSpec, bytes: u64, gpu: &Gpu) -> Hooked {
        let width = u64::from(training.gradient_bytes());
        let passes = |bytes, launches| Some(gpu.passes(bytes, launches));
        let whole = bytes as f64;
        match ddp.compression {
            Compression::None => Hooked::plain(bytes),
            Compression::HalfPrecision => Hooked {
                before: passes(3.0 * whole, 2),
                ..Hooked::plain(bytes * 2 / width.max(2))
            },
            Compression::PowerSgd(rank) => {
                // Each matrix of n × m becomes n × r and m × r; with n = m = hidden.
                let thin = 2.0 * f64::from(rank) / training.model.hidden as f64;
                Hooked {
                    // It is read for P, for Q, for the error, and written back.
                    before: passes(5.0 * whole, 2),
                    ..Hooked::plain((whole * thin.min(1.0)) as u64)
                }
            }
            Compression::TopK(share) => {
                let replicas = u64::from(training.dims.dp * training.dims.cp);
                let selected = (whole / width as f64 * share).ceil() as u64;
                let all = replicas * selected;
                Hooked {
                    before: passes(14.0 * whole, 10),
                    bytes: all * (width + INDEX),
                    collective: Collective::AllGather,
                    after: passes(whole + (all * (3 * width + INDEX)) as f64, 2),
                }
            }
        }
    }
}

impl Training {
    /// The largest share of gradients with which top-k moves fewer bytes than an all-reduce of all would.
    #[must_use]
    pub fn top_k_limit(&self) -> f64 {
        let (width, replicas) = (self.gradient_bytes(), self.dims.dp * self.dims.cp);
        2.0 * f64::from(width) / (f64::from(replicas) * (f64::from(width) + INDEX as f64))
    }
}

impl StepWriter<'_, '_, '_> {
    /// A bucket as DDP's hook has it.
    pub(super) fn hooked(&self, ddp: &DdpSpec, bytes: u64) -> Hooked {
        Hooked::new(self.training, ddp, bytes, &self.costs.gpu)
    }

    /// The hook's kernels before an exchange, which waits for them.
    pub(super) fn compress(&mut self, hooked: &Hooked, after: &mut Deps) {
        self.hook("compression", hooked.before, after);
    }

    /// … after it.
    pub(super) fn decompress(&mut self, hooked: &Hooked, after: &mut Deps) {
        self.hook("decompression", hooked.after, after);
    }

    fn hook(&mut self, name: &str, kernels: Option<Kernels>, after: &mut Deps) {
        let Some(kernels) = kernels else { return };
        let k = self.of_kind(TaskKind::Gradients, |me| {
            me.writer.kernels_on(DATA, name, kernels, after.as_slice())
        });
        *after = Deps::from_task(Some(k));
    }
}
