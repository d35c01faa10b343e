//! The verdict on a claim, from its rules and what its commands gave.

use super::file::{Claim, Claims, Reason};
use super::rule::{Check, Rule};
use super::{Given, Ran};
use fabricsim_report::validation::{JudgedCheck, JudgedClaim, JudgedClaims, Verdict};
use std::collections::BTreeMap;

/// Judges the claims with these numbers (all, if there are none): `run` gives what each of their
/// commands did, in their order; a command of several claims is run once.
pub fn judge(claims: &Claims, only: &[u32], run: impl FnOnce(&[&str]) -> Vec<Ran>) -> JudgedClaims {
    let wanted = |claim: &&Claim| only.is_empty() || only.contains(&claim.number);
    let wanted: Vec<&Claim> = claims.claims.iter().filter(wanted).collect();
    let lines = wanted.iter().flat_map(|claim| claim.commands.values());
    let mut commands: Vec<&str> = Vec::new();
    for line in lines {
        if !commands.contains(&line.as_str()) {
            commands.push(line);
        }
    }
    let ran = run(&commands);
    let ran: BTreeMap<&str, &Ran> = commands.iter().copied().zip(&ran).collect();
    let rows = wanted.iter().map(|claim| row(claims, claim, &ran));
    JudgedClaims {
        rows: rows.collect(),
        of: claims.claims.len(),
    }
}

fn row(claims: &Claims, claim: &Claim, ran: &BTreeMap<&str, &Ran>) -> JudgedClaim {
    let commands = claim.commands.iter();
    let given: Given = commands
        .filter_map(|(label, line)| Some((label.as_str(), *ran.get(line.as_str())?)))
        .collect();
    let mut out = JudgedClaim {
        number: claim.number,
        topic: claims.title(&claim.topic).to_owned(),
        claim: claim.claim.clone(),
        figure: claim.figure.clone(),
        commands: claim.commands.values().cloned().collect(),
        checks: Vec::new(),
        reasons: Vec::new(),
        verdict: Verdict::Missing,
        reason: String::new(),
    };
    if let Some(why) = &claim.out_of_scope {
        out.verdict = Verdict::OutOfScope;
        out.reason.clone_from(why);
        return out;
    }
    if claim.checks.is_empty() {
        return out;
    }
    match verdict(claim, &given, &mut out) {
        Ok((verdict, reason)) => (out.verdict, out.reason) = (verdict, reason),
        Err(why) => (out.verdict, out.reason) = (Verdict::Failed, why),
    }
    out
}

/// The verdict and its reason; checks go to `out`.
fn verdict(
    claim: &Claim,
    given: &Given,
    out: &mut JudgedClaim,
) -> Result<(Verdict, String), String> {
    for (label, ran) in given {
        let expected = claim.all_checks().any(|check| match &check.rule {
            Rule::Exit(of, _) | Rule::Says(of, _) => of == label,
            _ => false,
        });
        if ran.exit != 0 && !expected {
            let said = ran.said.trim();
            return Err(format!("`{}` failed: {said}", claim.commands[*label]));
        }
    }
    out.checks = checked(&claim.checks, given)?;
    let failing: Vec<&Check> = claim
        .checks
        .iter()
        .zip(&out.checks)
        .filter(|(_, checked)| !checked.holds)
        .map(|(check, _)| check)
        .collect();
    let only_if = reason(claim.only_if.as_ref(), given, &mut out.reasons)?;
    let wrong = reason(claim.wrong.as_ref(), given, &mut out.reasons)?;
    let parts = || {
        let parts = failing.iter().map(|check| check.broken());
        parts.collect::<Vec<_>>().join("; ")
    };
    let all = failing.len() == claim.checks.len();
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

fn checked(checks: &[Check], given: &Given) -> Result<Vec<JudgedCheck>, String> {
    checks.iter().map(|check| check.of(given)).collect()
}

/// Whether a reason's own figures show it, and its text.
fn reason(
    reason: Option<&Reason>,
    given: &Given,
    out: &mut Vec<JudgedCheck>,
) -> Result<Option<(bool, String)>, String> {
    let Some(reason) = reason else {
        return Ok(None);
    };
    let checked = checked(&reason.checks, given)?;
    let shown = checked.iter().all(|c| c.holds);
    out.extend(checked);
    Ok(Some((shown, reason.text.clone())))
}
