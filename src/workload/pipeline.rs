//! In which order a pipeline stage works on its micro-batches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A schedule of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// All forward passes, then all backward passes (Huang et al. 2019).
    Gpipe,
    /// One forward, one backward, once the pipeline is full (PipeDream-flush).
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// As 1F1B, with several virtual stages on each GPU, in turn (Narayanan et al. 2021).
    Interleaved,
}

/// One pass of a micro-batch through a virtual stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Backward, not forward.
    pub backward: bool,
    /// Which micro-batch, from 0.
    pub micro_batch: u32,
    /// Which virtual stage of this GPU, from 0.
    pub chunk: u32,
}

impl Schedule {
    /// The passes of stage `stage` of `stages`, with `chunks` virtual stages on each GPU (1 but
    /// for [`Schedule::Interleaved`], which needs `micro_batches` to be a multiple of `stages`).
    #[must_use]
    pub fn passes(self, stage: u32, stages: u32, micro_batches: u32, chunks: u32) -> Vec<Pass> {
        match self {
            Schedule::Gpipe => {
                let forward = (0..micro_batches).map(|m| pass(false, m, 0));
                forward
                    .chain((0..micro_batches).map(|m| pass(true, m, 0)))
                    .collect()
            }
            Schedule::OneForwardOneBackward => {
                let ahead = micro_batches.min(stages - 1 - stage);
                merged(
                    micro_batches,
                    ahead,
                    |k| pass(false, k, 0),
                    |k| pass(true, k, 0),
                )
            }
            Schedule::Interleaved => {
                let all = micro_batches * chunks;
                let ahead = all.min((stages - 1 - stage) * 2 + (chunks - 1) * stages);
                // Groups of `stages` micro-batches go through each chunk in turn.
                let round = stages * chunks;
                let of = |k: u32| (k / round * stages + k % stages, k % round / stages);
                merged(
                    all,
                    ahead,
                    |k| pass(false, of(k).0, of(k).1),
                    |k| pass(true, of(k).0, chunks - 1 - of(k).1),
                )
            }
        }
    }
}

const fn pass(backward: bool, micro_batch: u32, chunk: u32) -> Pass {
    Pass {
        backward,
        micro_batch,
        chunk,
    }
}

/// `ahead` forward passes, then one forward and one backward in turn, then the backward passes
/// that are left.
fn merged(
    all: u32,
    ahead: u32,
    forward: impl Fn(u32) -> Pass,
    backward: impl Fn(u32) -> Pass,
) -> Vec<Pass> {
    let mut passes: Vec<Pass> = (0..ahead).map(&forward).collect();
    for k in ahead..all {
        passes.push(forward(k));
        passes.push(backward(k - ahead));
    }
    passes.extend((all - ahead..all).map(backward));
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(passes: &[Pass]) -> String {
        let one = |p: &Pass| {
            let name = if p.backward { "B" } else { "F" };
            format!("{name}{}.{}", p.micro_batch, p.chunk)
        };
        passes.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn stages_warm_up_as_long_as_the_rest_of_the_pipeline_is_deep() {
        let passes = |stage| Schedule::OneForwardOneBackward.passes(stage, 3, 4, 1);
        assert_eq!(short(&passes(0)), "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0");
        assert_eq!(short(&passes(2)), "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0");
        let interleaved = Schedule::Interleaved.passes(1, 2, 2, 2);
        assert_eq!(
            short(&interleaved),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0"
        );
    }

    #[test]
    fn every_micro_batch_passes_each_way_once() {
        for (stages, micro_batches, chunks) in [(1, 3, 1), (4, 2, 1), (4, 8, 1), (4, 8, 3)] {
            for schedule in [
                Schedule::Gpipe,
                Schedule::OneForwardOneBackward,
                Schedule::Interleaved,
            ] {
                let chunks = if schedule == Schedule::Interleaved {
                    chunks
                } else {
                    1
                };
                if schedule == Schedule::Interleaved && micro_batches % stages != 0 {
                    continue;
                }
                for stage in 0..stages {
                    let passes = schedule.passes(stage, stages, micro_batches, chunks);
                    for backward in [false, true] {
                        for m in 0..micro_batches {
                            for c in 0..chunks {
                                let wanted = pass(backward, m, c);
                                let count = passes.iter().filter(|p| **p == wanted).count();
                                assert_eq!(count, 1, "{schedule:?} {stage} of {stages}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Micro-batches whose activations a stage holds at once, at most.
    fn in_flight(schedule: Schedule, stage: u32) -> i32 {
        let mut held = 0;
        let passes = schedule.passes(stage, 4, 8, 1).into_iter();
        let after = passes.map(|pass| {
            held += if pass.backward { -1 } else { 1 };
            held
        });
        after.max().unwrap_or(0)
    }

    #[test]
    fn activations_in_flight() {
        // min(m, p - i) for 1F1B, m for GPipe.
        assert_eq!(in_flight(Schedule::OneForwardOneBackward, 0), 4);
        assert_eq!(in_flight(Schedule::OneForwardOneBackward, 3), 1);
        assert_eq!(in_flight(Schedule::Gpipe, 0), 8);
    }
}
