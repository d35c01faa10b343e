//! Which files a folder of results is to hold.

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
}

impl Output {
    /// All of them.
    pub const ALL: [Output; 6] = [
        Output::Summary,
        Output::Timeline,
        Output::Links,
        Output::Plots,
        Output::Report,
        Output::Kineto,
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
        }
    }
}

/// The kinds of files that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs(BTreeSet<Output>);

impl Outputs {
    /// These, and the summary.
    #[must_use]
    pub fn of(wanted: impl IntoIterator<Item = Output>) -> Self {
        let mut all: BTreeSet<Output> = wanted.into_iter().collect();
        all.insert(Output::Summary);
        Outputs(all)
    }

    /// Whether files of a kind are wanted.
    #[must_use]
    pub fn has(&self, output: Output) -> bool {
        self.0.contains(&output)
    }

    /// Whether anything is wanted that is recorded while time passes.
    #[must_use]
    pub fn need_record(&self) -> bool {
        self.0.iter().any(|output| *output != Output::Summary)
    }
}

impl Default for Outputs {
    /// All kinds that every run has.
    fn default() -> Self {
        Outputs::of(
            Output::ALL
                .into_iter()
                .filter(|output| *output != Output::Kineto),
        )
    }
}
