//! How the result of each kind of job is shown: an implementation a kind.

use super::collectives;
use crate::calls::{self, CallsResult, calls_text};
use crate::communicator::{self, CommunicatorResult, communicator_text};
use crate::concurrent::{self, ConcurrentResult, concurrent_text};
use crate::html::collective_details;
use crate::lines::Line;
use crate::record::CollectiveResult;
use crate::results::Results;
use crate::serving::{self, ServingResult, serving_text};
use crate::summary::{JobResult, Summary, Variant};
use crate::text_table::Out;
use crate::training::{self, JobTimeline, TrainingResult, folded, opened, training_text};
use crate::{ReportError, Waterfall};
use maud::Markup;

/// Variants of one kind that are of.
#[derive(Clone, Copy)]
pub(super) struct OneKind<'c> {
    pub(super) variants: &'c [&'c Variant],
    pub(super) waterfalls: &'c [Waterfall],
    /// The name of the one that the others are compared with.
    pub(super) baseline: &'c str,
}

/// A variant on a page.
#[derive(Clone, Copy)]
pub(super) struct OnPage<'s> {
    pub(super) results: &'s Results,
    pub(super) variant: &'s Variant,
    pub(super) timeline: Option<&'s JobTimeline>,
    /// It stands among several.
    pub(super) several: bool,
    pub(super) is_best: bool,
    /// Its timeline can be zoomed into.
    pub(super) zoomed: bool,
}

impl<'s> OnPage<'s> {
    /// Its name, among several.
    fn name(&self) -> Option<&'s str> {
        self.several.then_some(self.variant.name.as_str())
    }
}

/// The result of a job, as it is shown.
pub(super) trait JobView {
    /// What variants of this kind are compared by.
    fn lines(&self, of: OneKind<'_>) -> Vec<Line>;

    /// One job for a terminal, below what it is.
    fn text(&self, summary: &Summary, variant: &Variant, out: &mut Out);

    /// Its part of a page.
    ///
    /// # Errors
    /// Data that JSON cannot hold.
    fn details(&self, shown: OnPage<'_>) -> Result<Markup, ReportError>;
}

/// As it is shown.
pub(super) fn view(job: &JobResult) -> &dyn JobView {
    match job {
        JobResult::Collective(result) => &**result,
        JobResult::Training(result) => &**result,
        JobResult::Concurrent(result) => &**result,
        JobResult::Serving(result) => &**result,
        JobResult::Communicator(result) => &**result,
        JobResult::Calls(result) => &**result,
    }
}

impl JobView for CollectiveResult {
    fn lines(&self, of: OneKind<'_>) -> Vec<Line> {
        collectives::lines(of.variants, of.waterfalls, of.baseline)
    }

    /// A collective alone has a text of its own.
    fn text(&self, _: &Summary, _: &Variant, _: &mut Out) {}

    fn details(&self, shown: OnPage<'_>) -> Result<Markup, ReportError> {
        collective_details(shown.results, shown.variant, shown.is_best)
    }
}

impl JobView for TrainingResult {
    fn lines(&self, of: OneKind<'_>) -> Vec<Line> {
        training::lines(of.variants, of.waterfalls, of.baseline)
    }

    fn text(&self, summary: &Summary, variant: &Variant, out: &mut Out) {
        training_text(summary, variant, self, out);
    }

    fn details(&self, shown: OnPage<'_>) -> Result<Markup, ReportError> {
        match shown.several {
            true => folded(shown.variant, shown.timeline, (shown.is_best, shown.zoomed)),
            false => opened(shown.variant, shown.timeline),
        }
    }
}

impl JobView for ConcurrentResult {
    fn lines(&self, of: OneKind<'_>) -> Vec<Line> {
        concurrent::lines(of.variants)
    }

    fn text(&self, summary: &Summary, _: &Variant, out: &mut Out) {
        concurrent_text(summary, self, out);
    }

    fn details(&self, shown: OnPage<'_>) -> Result<Markup, ReportError> {
        concurrent::details(self, shown.name(), shown.timeline)
    }
}

impl JobView for ServingResult {
    fn lines(&self, of: OneKind<'_>) -> Vec<Line> {
        serving::lines(of.variants, of.waterfalls, of.baseline)
    }

    fn text(&self, summary: &Summary, variant: &Variant, out: &mut Out) {
        serving_text(summary, variant, self, out);
    }

    fn details(&self, shown: OnPage<'_>) -> Result<Markup, ReportError> {
        serving::details(self, shown.name(), shown.timeline)
    }
}

impl JobView for CommunicatorResult {
    fn lines(&self, of: OneKind<'_>) -> Vec<Line> {
        communicator::lines(of.variants)
    }

    fn text(&self, summary: &Summary, _: &Variant, out: &mut Out) {
        communicator_text(summary, self, out);
    }

    fn details(&self, shown: OnPage<'_>) -> Result<Markup, ReportError> {
        Ok(communicator::details(self, shown.name()))
    }
}

impl JobView for CallsResult {
    fn lines(&self, of: OneKind<'_>) -> Vec<Line> {
        calls::lines(of.variants)
    }

    fn text(&self, summary: &Summary, _: &Variant, out: &mut Out) {
        calls_text(summary, self, out);
    }

    fn details(&self, shown: OnPage<'_>) -> Result<Markup, ReportError> {
        Ok(calls::details(self, shown.name()))
    }
}
