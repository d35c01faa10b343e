//! Which files a folder of results is to hold.

use fabricsim_units::Time;
use std::collections::BTreeSet;

/// A kind of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// summary.json, and points.csv of several variants; always written.
    Summary,
    /// timeline.json, for Perfetto.
    Timeline,
    /// links.csv: the use of links over time.
    Links,
    /// Plots and drawings.
    Plots,
    /// report.html.
    Report,
    /// Of training, a profile of each rank as PyTorch's profiler writes them; only if asked for.
    Kineto,
    /// Of collectives and training, each rank's events as NCCL's example profiler plugin writes them; only if asked for.
    NcclProfiler,
    /// telemetry.csv, .prom and .svg: what monitoring would have shown; only if asked for.
    Telemetry,
}

impl Output {
    /// All of them.
    pub const ALL: [Output; 8] = [
        Output::Summary,
        Output::Timeline,
        Output::Links,
        Output::Plots,
        Output::Report,
        Output::Kineto,
        Output::NcclProfiler,
        Output::Telemetry,
    ];

    /// As flags and files name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Output::Summary => "summary",
            Output::Timeline => "timeline",
            Output::Links => "links",
            Output::Plots => "plots",
            Output::Report => "report",
            Output::Kineto => "kineto",
            Output::NcclProfiler => "nccl-profiler",
            Output::Telemetry => "telemetry",
        }
    }
}

/// The kinds of files that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    kinds: BTreeSet<Output>,
    sample: Option<Time>,
}

impl Outputs {
    /// These, and the summary.
    #[must_use]
    pub fn of(wanted: impl IntoIterator<Item = Output>) -> Self {
        let mut all: BTreeSet<Output> = wanted.into_iter().collect();
        all.insert(Output::Summary);
        Outputs {
            kinds: all,
            sample: None,
        }
    }

    /// The same, with this time from one sample of telemetry to the next.
    #[must_use]
    pub fn sampled(self, sample: Option<Time>) -> Self {
        Outputs { sample, ..self }
    }

    /// The time from one sample of telemetry to the next, if it is asked for.
    #[must_use]
    pub fn sample(&self) -> Option<Time> {
        self.sample
    }

    /// Whether files of a kind are wanted.
    #[must_use]
    pub fn has(&self, output: Output) -> bool {
        self.kinds.contains(&output)
    }

    /// Whether anything is wanted that is recorded while time passes.
    #[must_use]
    pub fn need_record(&self) -> bool {
        self.kinds.iter().any(|output| *output != Output::Summary)
    }
}

impl Default for Outputs {
    /// All kinds that every run has.
    fn default() -> Self {
        let asked_for = [Output::Kineto, Output::NcclProfiler, Output::Telemetry];
        let all = Output::ALL.into_iter();
        Outputs::of(all.filter(|output| !asked_for.contains(output)))
    }
}
