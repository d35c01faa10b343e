//! Claims of lecture notes with their verdicts: for a terminal, as a document, as a page.

use crate::summary_json::pretty;
use crate::table::STRONG;
use crate::text_table::{Column, Out, cell, left, right};
use crate::{FORMAT, ReportError};
use serde::Serialize;
use std::fmt::Write;

/// Claims that were looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedClaims {
    /// Each of them.
    pub rows: Vec<JudgedClaim>,
    /// How many there are in all.
    pub of: usize,
}

/// A claim with what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedClaim {
    /// Its number.
    pub number: u32,
    /// What it is of.
    pub topic: String,
    /// What it says.
    pub claim: String,
    /// The notes' figure.
    pub figure: String,
    /// Commands of this program, without its name and `--json`.
    pub commands: Vec<String>,
    /// What was compared, of the claim itself.
    pub checks: Vec<JudgedCheck>,
    /// What was compared to show the reason.
    pub reasons: Vec<JudgedCheck>,
    /// What came of it.
    pub verdict: Verdict,
    /// Why it is not plain agreement.
    pub reason: String,
    /// A rule was changed after what it gives had been seen: from what, and why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub changed: String,
}

/// A comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedCheck {
    /// What is compared, and the figures, for people.
    pub found: String,
    /// The figures, if they are numbers.
    pub numbers: Vec<f64>,
    /// Whether it is as the rule says; over a range, at all of its points.
    pub holds: bool,
    /// What was compared at each point of a range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<JudgedPoint>,
}

/// A comparison at one point of a range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedPoint {
    /// The values of the range, for people: `nodes 2, size 1M`.
    pub at: String,
    /// The figures, for people.
    pub found: String,
    /// Whether it is as the rule says.
    pub holds: bool,
}

/// What came of comparing a claim with what the program gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of the claim holds.
    Agree,
    /// It holds under a condition.
    OnlyIf,
    /// A part of it holds.
    Partly,
    /// It does not hold, and a source or a calculation says why.
    NoteWrong,
    /// It does not hold here, and that is not explained.
    Disagree,
    /// Nothing here simulates it.
    Missing,
    /// This program is not for it.
    OutOfScope,
    /// A command or a figure failed.
    Failed,
}

impl Verdict {
    /// All, as they are counted.
    pub const ALL: [Verdict; 8] = [
        Verdict::Agree,
        Verdict::OnlyIf,
        Verdict::Partly,
        Verdict::NoteWrong,
        Verdict::Disagree,
        Verdict::Missing,
        Verdict::OutOfScope,
        Verdict::Failed,
    ];

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Agree => "agree",
            Verdict::OnlyIf => "holds only if",
            Verdict::Partly => "partly",
            Verdict::NoteWrong => "note wrong",
            Verdict::Disagree => "disagree",
            Verdict::Missing => "missing",
            Verdict::OutOfScope => "out of scope",
            Verdict::Failed => "failed",
        }
    }

    /// In a sentence, behind a number of claims.
    const fn phrase(self) -> &'static str {
        match self {
            Verdict::Agree => "agree",
            Verdict::OnlyIf => "under a condition",
            Verdict::Partly => "in part",
            Verdict::NoteWrong => "where the notes are wrong",
            Verdict::Disagree => "not explained",
            Verdict::Missing => "not simulated",
            Verdict::OutOfScope => "out of scope",
            Verdict::Failed => "failed",
        }
    }
}

impl JudgedClaims {
    /// How many have a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    }

    /// One number and one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let others = Verdict::ALL.into_iter().skip(1);
        let others: Vec<String> = others
            .map(|verdict| (self.count(verdict), verdict.phrase()))
            .filter(|&(count, _)| count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        let rest = match others.is_empty() {
            true => String::new(),
            false => format!("; {}", others.join(", ")),
        };
        format!(
            "{} of {} claims agree with what this program gives{rest}.",
            self.count(Verdict::Agree),
            self.rows.len()
        )
    }
}

/// What `validate --claims --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    version: &'a str,
    answer: String,
    counts: std::collections::BTreeMap<Verdict, usize>,
    claims: &'a [JudgedClaim],
}

/// All of it as one document, ending in a newline.
///
/// # Errors
/// A document that cannot be written.
pub fn claims_json(claims: &JudgedClaims) -> Result<String, ReportError> {
    let counts = Verdict::ALL.into_iter().map(|v| (v, claims.count(v)));
    pretty(&Document {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        answer: claims.sentence(),
        counts: counts.filter(|&(_, count)| count > 0).collect(),
        claims: &claims.rows,
    })
}

/// The sentence, and a line for each claim.
#[must_use]
pub fn claims_text(claims: &JudgedClaims, colour: bool) -> String {
    let mut out = Out::new(colour);
    out.line(&claims.sentence(), STRONG);
    out.plain("");
    let columns: [Column; 5] = [
        right("#"),
        left("verdict"),
        left("claim"),
        left("notes say"),
        left("found"),
    ];
    let rows = claims.rows.iter().map(|row| {
        vec![
            cell(row.number.to_string()),
            cell(row.verdict.name()),
            cell(&*row.claim),
            cell(&*row.figure),
            cell(beside(row)),
        ]
    });
    out.table(&columns, &rows.collect::<Vec<_>>());
    out.text
}

/// All figures.
fn found(row: &JudgedClaim) -> Vec<&str> {
    let checks = row.checks.iter().chain(&row.reasons);
    checks.map(|check| &*check.found).collect()
}

/// What was found and why it is no plain agreement, on one line.
fn beside(row: &JudgedClaim) -> String {
    let found = found(row).join("; ");
    match (row.reason.is_empty(), found.is_empty()) {
        (true, _) => found,
        (false, true) => row.reason.clone(),
        (false, false) => format!("{found} ({})", row.reason),
    }
}

/// A page in Markdown: the sentence, and a table for each topic.
#[must_use]
pub fn claims_page(claims: &JudgedClaims) -> String {
    let mut out = String::from("# What lecture notes claim, and what the program gives\n\n");
    let _ = writeln!(out, "**{}**\n", claims.sentence());
    out += INTRODUCTION;
    let mut topic = "";
    for row in &claims.rows {
        if row.topic != topic {
            topic = &row.topic;
            let _ = writeln!(out, "\n## {topic}\n");
            out += "| # | claim | the notes' figure | command | found | verdict |\n";
            out += "| --- | --- | --- | --- | --- | --- |\n";
        }
        let commands = row.commands.iter().map(|c| format!("`{c}`"));
        let commands: Vec<String> = commands.collect();
        let verdict = match row.reason.is_empty() {
            true => row.verdict.name().to_owned(),
            false => format!("{}: {}", row.verdict.name(), row.reason),
        };
        let cells = [
            row.number.to_string(),
            row.claim.clone(),
            row.figure.clone(),
            commands.join("<br>"),
            found(row).join("<br>"),
            verdict,
        ];
        let cells = cells.map(|text| text.replace('|', "\\|").replace('\n', " "));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    let changed = claims.rows.iter().filter(|row| !row.changed.is_empty());
    for (index, row) in changed.enumerate() {
        if index == 0 {
            out += CHANGED;
        }
        let _ = writeln!(out, "- {}: {}", row.number, row.changed);
    }
    out
}

/// Before the list of rules that were changed.
const CHANGED: &str = "
## Rules that were changed after their results had been seen

An independent check found rows whose rule tested something else, or less, than the claim says. \"More\" was any 2 % in all
rows. What else was different before, or why it was not enough:

";

/// How the page was made, and what its words mean.
const INTRODUCTION: &str = "\
Made by `fabricsim validate --claims -o docs/claims.md`, which runs every command below with `--json` and compares the
figures by the rules in `validation/claims.json`. One claim with the files that its commands name:
`fabricsim validate --claims --only 24 -o DIR`. All figures of a claim over a range: `--claims --only 24 --json`. The page
cannot show which rules are older than their results; those that are known to be younger stand at its end.

- *agree*: a figure within 25 % of the notes' one or in their range, what a formula gives within 2 %, a ratio within 1.3 ×,
  a mechanism with the same sign (more: by 5 % at least; much more: twice; where the notes have a factor, of its order of
  magnitude), or the same error, hang or choice. Over a range of sizes or nodes: at all of its points.
- *holds only if*: it agrees, and figures show that it would not without a condition.
- *partly*: a part agrees, or some points of a range do; which do not stands beside it.
- *note wrong*: it does not agree, and a public source or a calculation says why, with figures of its own.
- *disagree*: it does not agree, and why is not explained. *missing*: nothing here simulates it.
";
