//! `validation.json`.

use super::{BandErrors, ValidatedSet, Validation};
use crate::{FORMAT, ReportError};
use serde_json::{Map, Value, json};

/// The document of `--json`, ending in a newline; its fields are a contract.
///
/// # Errors
/// A number that is not finite.
pub fn validation_json(validation: &Validation) -> Result<String, ReportError> {
    check_finite(validation)?;
    let mut summary = Map::new();
    for overall in &validation.overall {
        summary.insert(overall.key.clone(), bands(&overall.bands));
    }
    summary.insert("counts".into(), json!(validation.counts));
    let document = json!({
        "format": FORMAT,
        "sets": validation.sets.iter().map(set).collect::<Vec<_>>(),
        "summary": summary,
        "skipped": validation.skipped,
        "version": validation.version,
    });
    Ok(format!("{document:#}\n"))
}

fn set(set: &ValidatedSet) -> Value {
    json!({
        "id": set.id,
        "title": set.title,
        "address": set.address,
        "topology": set.topology,
        "ranks": set.ranks,
        "collective": set.collective,
        "one_nvlink_domain": set.one_domain,
        "crosses": set.crosses,
        "nodes": set.nodes,
        "inferred": set.inferred,
        "errors": bands(&set.errors),
        "rows": set.rows,
    })
}

fn bands(bands: &[BandErrors]) -> Value {
    let each = bands.iter().map(|band| {
        let value = json!({"predicted": band.predicted, "baseline": band.baseline});
        (band.key.clone(), value)
    });
    Value::Object(each.collect())
}

/// serde writes numbers that are not finite as `null`, which no reader expects.
fn check_finite(validation: &Validation) -> Result<(), ReportError> {
    for set in &validation.sets {
        for row in &set.rows {
            let values = [
                ("measured_us", row.measured_us),
                ("predicted_us", row.predicted_us),
                ("baseline_us", row.baseline_us),
            ];
            if let Some((name, value)) = values.into_iter().find(|(_, v)| !v.is_finite()) {
                let field = format!("{name} of {} at {} bytes", set.id, row.bytes);
                return Err(ReportError::NotFinite { field, value });
            }
        }
    }
    Ok(())
}
