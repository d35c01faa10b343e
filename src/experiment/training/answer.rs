//! What a run says, in a sentence or two.

use crate::factors::Change;
use fabricsim_report::numbers::seconds;
use fabricsim_report::training::{
    Share, ShareKind, StepResult, TrainingOutcome, as_fast, is_equal, is_same_work, ran,
};
use fabricsim_report::{Variant, Waterfall, fits};
use fabricsim_units::Bytes;

/// What an answer is made from.
pub(super) struct Compared<'a> {
    pub(super) variants: &'a [Variant],
    /// Indices of the variant that others are compared with, and of the best.
    pub(super) baseline: usize,
    pub(super) best: Option<usize>,
    /// Differences, by the names of variants.
    pub(super) waterfall: &'a [Waterfall],
    /// From the baseline to the best by one change at a time.
    pub(super) changes: &'a [Change],
}

/// The answer of a run: of one variant where its time goes, of several which is fastest, and what
/// makes the difference from the baseline.
pub(super) fn answer(compared: &Compared<'_>) -> String {
    match compared.variants {
        [] => String::new(),
        [one] => match one.job.training().map(|job| &job.outcome) {
            Some(TrainingOutcome::Ran(result)) => alone(result),
            Some(TrainingOutcome::Failed(error)) => format!("The job does not end: {error}"),
            None => String::new(),
        },
        _ => compared.text(),
    }
}

fn alone(result: &StepResult) -> String {
    let mut text = String::new();
    let memory = &result.memory;
    if !memory.fits {
        text += &format!(
            "It does not fit: stage {} needs {}{}. If it did: ",
            memory.stage,
            needs(result),
            too_much(result)
        );
    }
    text += &format!(
        "A step takes {}, {:.1} % MFU",
        seconds(result.step_s),
        result.mfu * 100.0
    );
    let lost = losses(result);
    if let Some(first) = lost.first() {
        let others: Vec<String> = lost.iter().skip(1).take(2).map(|s| loss(s)).collect();
        text += &format!(
            "; beside computing ({:.0} %) it is {}",
            compute(result),
            loss(first)
        );
        for other in others {
            text += &format!(", {other}");
        }
    }
    text += ".";
    if let Some(culprit) = result.culprits.first() {
        let why = culprit.why.as_deref().unwrap_or("slow");
        text += &format!(
            " Others wait for rank {} on {} ({why}).",
            culprit.rank, culprit.gpu
        );
    }
    text
}

/// `115.0 GiB of 80.0 GiB`.
fn needs(result: &StepResult) -> String {
    let gib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 30);
    let memory = &result.memory;
    format!(
        "{:.1} GiB of {:.1} GiB",
        gib(memory.need()),
        gib(memory.capacity)
    )
}

/// `, 35.0 GiB too much; the largest part: optimizer, 60.1 GiB`.
fn too_much(result: &StepResult) -> String {
    let gib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 30);
    let mut text = format!(", {:.1} GiB too much", gib(result.memory.missing()));
    if let Some((part, bytes)) = result.memory.largest() {
        text += &format!("; the largest part: {}, {:.1} GiB", part.name(), gib(bytes));
    }
    text
}

fn compute(result: &StepResult) -> f64 {
    let of_kernels = result.time.iter().filter(|s| s.kind == ShareKind::Compute);
    100.0 * of_kernels.map(|s| s.share).sum::<f64>()
}

/// Where time goes that is not kernels with all of their GPU, largest first.
fn losses(result: &StepResult) -> Vec<&Share> {
    let lost = result.time.iter();
    let mut lost: Vec<&Share> = lost
        .filter(|s| s.kind != ShareKind::Compute && s.share >= 0.01)
        .collect();
    lost.sort_by(|a, b| b.share.total_cmp(&a.share));
    lost
}

fn loss(share: &Share) -> String {
    let what = match (share.kind, &share.stream) {
        (ShareKind::Exposed, Some(stream)) => format!("exposed communication ({stream})"),
        (ShareKind::Waiting, Some(stream)) => format!("waiting ({stream})"),
        _ => share.what.clone(),
    };
    format!("{what} {:.0} %", share.share * 100.0)
}

/// Variants that a sentence compares with the baseline.
const MOST_NAMED: usize = 3;

impl Compared<'_> {
    fn text(&self) -> String {
        let base = &self.variants[self.baseline];
        let mut text = match self.best.map(|best| &self.variants[best]) {
            None if self.variants.iter().all(|v| ran(v).is_none()) => {
                return "None of the variants ends.".to_owned();
            }
            None => "No variant fits into the memory of its GPUs".to_owned(),
            Some(best) if best.name == base.name => self.base_is_best(base),
            Some(best) => match ran(base) {
                Some(result) => self.faster(best, (base, result)),
                None => format!(
                    "{} is the fastest per GPU; {}, the baseline, does not end.{}",
                    best.name,
                    base.name,
                    ran(best).map_or_else(String::new, |r| format!(" {}", alone(r)))
                ),
            },
        };
        let too_large: Vec<String> = self
            .variants
            .iter()
            .filter_map(|v| Some((v, ran(v)?)))
            .filter(|(_, result)| !result.memory.fits)
            .map(|(v, result)| format!("{} (it needs {})", v.name, needs(result)))
            .collect();
        match (too_large.as_slice(), self.best) {
            ([], _) => {}
            (large, None) => text += &format!(": {}.", large.join(", ")),
            ([one], _) => text += &format!(" {one} does not fit into memory."),
            (large, _) => text += &format!(" {} do not fit into memory.", large.join(", ")),
        }
        for variant in self.variants.iter().take(MOST_NAMED + 1) {
            if let Some(sentence) = as_fast(variant, &base.name) {
                text += &format!(" {sentence}");
            }
        }
        text
    }

    /// No variant is faster than the baseline: what others take longer.
    fn base_is_best(&self, base: &Variant) -> String {
        let per_gpu =
            |v: &Variant| ran(v).map_or(0.0, |r| r.tokens_per_s / f64::from(v.gpus.max(1)));
        let mut others: Vec<&Variant> = self
            .variants
            .iter()
            .filter(|v| v.name != base.name && fits(v))
            .collect();
        if others.is_empty() {
            let alone = ran(base).map_or_else(String::new, alone);
            return format!("Only {}, the baseline, runs and fits. {alone}", base.name);
        }
        others.sort_by(|a, b| per_gpu(b).total_cmp(&per_gpu(a)));
        if others.iter().all(|other| is_equal(base, other)) {
            return format!(
                "No variant is faster or slower than {}, the baseline.",
                base.name
            );
        }
        let slower = others.iter().filter(|other| !is_equal(base, other));
        let told: Vec<String> = slower
            .take(MOST_NAMED)
            .filter_map(|other| {
                let waterfall = self.between(base, other)?;
                let percent = 100.0 * (per_gpu(base) / per_gpu(other) - 1.0);
                let sign = if percent < 0.0 { "−" } else { "" };
                Some(format!(
                    "{} takes {sign}{:.1} % longer{}{}",
                    other.name,
                    percent.abs(),
                    scale(base, other),
                    waterfall.clause()
                ))
            })
            .collect();
        format!(
            "{}, the baseline, is the fastest per GPU; {}.",
            base.name,
            told.join("; ")
        )
    }

    fn faster(&self, best: &Variant, (base, slow): (&Variant, &StepResult)) -> String {
        let Some(fast) = ran(best) else {
            return String::new();
        };
        let ratio = fast.tokens_per_s
            / f64::from(best.gpus.max(1))
            / (slow.tokens_per_s / f64::from(base.gpus.max(1)));
        let mut text = format!(
            "{} is {ratio:.2} × as fast per GPU as {}, the baseline",
            best.name, base.name
        );
        if let Some(waterfall) = self.between(base, best) {
            let less = seconds(waterfall.total.seconds().abs());
            text += &format!(
                ": a step takes {less} less{}{}",
                scale(base, best),
                waterfall.clause()
            );
        }
        text += ".";
        if !self.changes.is_empty() {
            let steps: Vec<String> = self.changes.iter().filter_map(|c| self.step(c)).collect();
            let single = self.changes.iter().all(|change| change.what.len() == 1);
            let how = match single {
                true => "One change at a time",
                false => "Step by step",
            };
            text += &format!(" {how}: {}.", steps.join(", then "));
        } else if best.differs.len() > 1 {
            let things: Vec<&str> = best.differs.iter().map(|d| short(d)).collect();
            text += &format!(
                " They differ in {} things at once, which no variant tells apart: {}.",
                things.len(),
                things.join(", ")
            );
        }
        text
    }

    /// `routing 3.69 × (h100-skewed → h100-even)`, `parallel with recompute 1.43 × (…)`.
    fn step(&self, change: &Change) -> Option<String> {
        let per_gpu = |index: usize| -> Option<f64> {
            let variant = &self.variants[index];
            Some(ran(variant)?.tokens_per_s / f64::from(variant.gpus.max(1)))
        };
        let ratio = per_gpu(change.to)? / per_gpu(change.from)?;
        let name = |index: usize| &self.variants[index].name;
        let what: Vec<&str> = change.what.iter().map(|what| short(what)).collect();
        Some(format!(
            "{} {ratio:.2} × ({} → {})",
            what.join(" with "),
            name(change.from),
            name(change.to)
        ))
    }

    fn between(&self, from: &Variant, to: &Variant) -> Option<&Waterfall> {
        let mut all = self.waterfall.iter();
        all.find(|w| w.from == from.name && w.to == to.name)
    }
}

/// A place in the scenario as a word: its last name.
fn short(place: &str) -> &str {
    place.rsplit('.').next().unwrap_or(place)
}

fn scale(a: &Variant, b: &Variant) -> &'static str {
    if is_same_work(a, b) {
        ""
    } else {
        " for as many tokens per GPU"
    }
}
