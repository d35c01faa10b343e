//! `validation.json`.

use super::{BandErrors, ValidatedSet, Validation};
use crate::finite::check_finite;
use crate::{FORMAT, ReportError};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The document of `--json`, ending in a newline; its fields are a contract.
///
/// # Errors
/// A number that is not finite.
pub fn validation_json(validation: &Validation) -> Result<String, ReportError> {
    let rows = validation.sets.iter().map(|set| (&set.id, &set.rows));
    check_finite(&rows.collect::<BTreeMap<_, _>>())?;
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
