//! `summary.json` and its schema.

use super::ReportError;
use super::numeric::FORMAT;
use super::record::{Decision, Part, Row, Summary, Timeline};
use serde::Serialize;

/// `summary` without what differs between two runs of the same spec: wall-clock times.
#[must_use]
pub fn reproducible(summary: &Summary) -> Summary {
    let mut summary = summary.clone();
    for row in &mut summary.rows {
        row.wall_ms = 0.0;
    }
    summary
}

/// The text of `summary.json`, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn summary_json(summary: &Summary) -> Result<String, ReportError> {
    check_finite(summary)?;
    pretty(summary)
}

/// What `collective --json` prints: the fields of `summary.json` that need no recording, under the
/// same names.
#[derive(Serialize)]
struct Rows<'a> {
    format: u32,
    version: &'a str,
    seed: u64,
    topology: &'a str,
    nodes: u32,
    gpus_per_node: u32,
    ranks: u32,
    collective: &'a str,
    rows: &'a [Row],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    faults: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    decisions: &'a [Decision],
    warnings: &'a [String],
}

/// The rows of `summary` as one document, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn rows_json(summary: &Summary) -> Result<String, ReportError> {
    let summary = reproducible(summary);
    check_finite(&summary)?;
    pretty(&Rows {
        format: FORMAT,
        version: &summary.version,
        seed: summary.seed,
        topology: &summary.topology,
        nodes: summary.nodes,
        gpus_per_node: summary.gpus_per_node,
        ranks: summary.ranks,
        collective: &summary.collective,
        rows: &summary.rows,
        faults: &summary.faults,
        decisions: &summary.decisions,
        warnings: &summary.warnings,
    })
}

/// The text of a summary's file, whatever kind of run it is of.
pub(super) fn pretty(summary: &impl Serialize) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(summary).map_err(|source| ReportError::Json {
        what: "the summary",
        source,
    })?;
    text.push('\n');
    Ok(text)
}

/// The JSON Schema of `summary.json` (draft 2020-12).
#[must_use]
pub fn summary_schema() -> schemars::Schema {
    schemars::schema_for!(Summary)
}

/// serde writes numbers that are not finite as `null`, which no reader expects.
pub(super) fn check_finite(summary: &Summary) -> Result<(), ReportError> {
    let check = |value: f64, field: &dyn Fn() -> String| {
        if value.is_finite() {
            return Ok(());
        }
        Err(ReportError::NotFinite {
            field: field(),
            value,
        })
    };
    for (index, row) in summary.rows.iter().enumerate() {
        for (name, value) in row_floats(row) {
            check(value, &|| format!("rows[{index}].{name}"))?;
        }
    }
    for (index, link) in summary.links.iter().enumerate() {
        check(link.utilisation, &|| format!("links[{index}].utilisation"))?;
    }
    if let Some(attribution) = &summary.attribution {
        let whole = [
            ("total", &attribution.total),
            ("critical_path", &attribution.critical_path),
        ];
        let parts = |parts: &[Part], place: &dyn Fn() -> String| {
            parts.iter().enumerate().try_for_each(|(index, part)| {
                check(part.fraction, &|| {
                    format!("attribution.{}[{index}].fraction", place())
                })
            })
        };
        for (name, list) in whole {
            parts(list, &|| name.into())?;
        }
        for (rank, list) in attribution.ranks.iter().enumerate() {
            parts(list, &|| format!("ranks[{rank}]"))?;
        }
    }
    Ok(())
}

/// The same for the bytes of a timeline's links.
pub(super) fn check_finite_timeline(timeline: &Timeline) -> Result<(), ReportError> {
    for series in &timeline.links {
        if let Some((bin, &value)) = series
            .bytes
            .iter()
            .enumerate()
            .find(|(_, bytes)| !bytes.is_finite())
        {
            let field = format!("bytes of {} in bin {bin}", series.name);
            return Err(ReportError::NotFinite { field, value });
        }
    }
    Ok(())
}

fn row_floats(row: &Row) -> [(&'static str, f64); 6] {
    [
        ("time_us", row.time_us),
        ("algbw_gbs", row.algbw_gbs),
        ("busbw_gbs", row.busbw_gbs),
        ("bound_us", row.bound_us),
        ("bound_plain_us", row.bound_plain_us),
        ("wall_ms", row.wall_ms),
    ]
}
