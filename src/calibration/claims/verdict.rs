//! The verdict on a claim, from its rules and what its commands gave.

use super::file::{Claim, Claims, Reason};
use super::range::Ranges;
use super::rule::{Check, Checked, Rule};
use super::{Given, Ran};
use fabricsim_report::validation::{JudgedCheck, JudgedClaim, JudgedClaims, Verdict};
use std::collections::BTreeMap;

/// Judges the claims with these numbers (all, if there are none): `run` gives what each of their
/// commands did, in their order; a command of several claims is run once.
pub fn judge(claims: &Claims, only: &[u32], run: impl FnOnce(&[&str]) -> Vec<Ran>) -> JudgedClaims {
    let wanted = |claim: &&Claim| only.is_empty() || only.contains(&claim.number);
    let wanted: Vec<&Claim> = claims.claims.iter().filter(wanted).collect();
    let all: Vec<BTreeMap<String, String>> = wanted.iter().map(|c| c.all_commands()).collect();
    let mut commands: Vec<&str> = Vec::new();
    for line in all.iter().flat_map(BTreeMap::values) {
        if !commands.contains(&line.as_str()) {
            commands.push(line);
        }
    }
    let ran = run(&commands);
    let ran: BTreeMap<&str, &Ran> = commands.iter().copied().zip(&ran).collect();
    let rows = wanted.iter().zip(&all);
    let rows = rows.map(|(claim, lines)| row(claims, claim, lines, &ran));
    JudgedClaims {
        rows: rows.collect(),
        of: claims.claims.len(),
    }
}

fn row(
    claims: &Claims,
    claim: &Claim,
    lines: &BTreeMap<String, String>,
    ran: &BTreeMap<&str, &Ran>,
) -> JudgedClaim {
    let given: Given = lines
        .iter()
        .filter_map(|(label, line)| Some((label.as_str(), *ran.get(line.as_str())?)))
        .collect();
    let mut out = JudgedClaim {
        number: claim.number,
        topic: claims.title(&claim.topic).to_owned(),
        claim: claim.claim.clone(),
        figure: claim.figure.clone(),
        commands: lines.values().cloned().collect(),
        checks: Vec::new(),
        reasons: Vec::new(),
        verdict: Verdict::Missing,
        reason: String::new(),
        changed: claim.changed.clone().unwrap_or_default(),
    };
    if let Some(why) = &claim.out_of_scope {
        out.verdict = Verdict::OutOfScope;
        out.reason.clone_from(why);
        return out;
    }
    if claim.checks.is_empty() {
        return out;
    }
    match verdict(claim, lines, &given, &mut out) {
        Ok((verdict, reason)) => (out.verdict, out.reason) = (verdict, reason),
        Err(why) => (out.verdict, out.reason) = (Verdict::Failed, why),
    }
    out
}

/// The verdict and its reason; checks go to `out`.
fn verdict(
    claim: &Claim,
    lines: &BTreeMap<String, String>,
    given: &Given,
    out: &mut JudgedClaim,
) -> Result<(Verdict, String), String> {
    let rules = claim.all_rules();
    for (label, ran) in given {
        let expected = rules.iter().any(|rule| match rule {
            Rule::Exit(of, _) | Rule::Says(of, _) => of == label,
            _ => false,
        });
        if ran.exit != 0 && !expected {
            let said = ran.said.trim();
            return Err(format!("`{}` failed: {said}", lines[*label]));
        }
    }
    let checks = checked(&claim.checks, &claim.ranges, given)?;
    out.checks = checks.iter().map(|c| c.judged.clone()).collect();
    let failing: Vec<&Checked> = checks.iter().filter(|c| !c.judged.holds).collect();
    let only_if = reason(claim.only_if.as_ref(), claim, given, &mut out.reasons)?;
    let wrong = reason(claim.wrong.as_ref(), claim, given, &mut out.reasons)?;
    let parts = || {
        let parts = failing.iter().map(|checked| checked.broken.as_str());
        parts.collect::<Vec<_>>().join("; ")
    };
    let all = failing.len() == checks.len() && !failing.iter().any(|checked| checked.in_part);
    let missing = |check: &Check| matches!(check.rule, Rule::Missing(_));
    if claim.checks.iter().all(missing) {
        return Ok((Verdict::Missing, parts()));
    }
    Ok(match (failing.is_empty(), only_if, wrong) {
        (true, None, _) => (Verdict::Agree, String::new()),
        (true, Some((true, text)), _) => (Verdict::OnlyIf, text),
        (true, Some((false, text)), _) => (
            Verdict::Disagree,
            format!("the condition does not show: {text}"),
        ),
        (false, _, Some((true, text))) if all => (Verdict::NoteWrong, text),
        (false, _, Some((true, text))) => (Verdict::Partly, format!("{}: {text}", parts())),
        (false, _, _) if all => (Verdict::Disagree, parts()),
        (false, _, _) => (Verdict::Partly, parts()),
    })
}

fn checked(checks: &[Check], ranges: &Ranges, given: &Given) -> Result<Vec<Checked>, String> {
    checks.iter().map(|check| check.of(ranges, given)).collect()
}

/// Whether a reason's own figures show it, and its text.
fn reason(
    reason: Option<&Reason>,
    claim: &Claim,
    given: &Given,
    out: &mut Vec<JudgedCheck>,
) -> Result<Option<(bool, String)>, String> {
    let Some(reason) = reason else {
        return Ok(None);
    };
    let checked = checked(&reason.checks, &claim.ranges, given)?;
    let shown = checked.iter().all(|c| c.judged.holds);
    out.extend(checked.into_iter().map(|c| c.judged));
    Ok(Some((shown, reason.text.clone())))
}
