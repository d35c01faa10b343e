//! What limits a row is named the same by the row, by the sentence under the table and by the JSON.

use super::cases::{Run, view};
use fabricsim::report::cause::{Causes, FaultCost};
use fabricsim::report::{collective_table, rows_json, summary_json};
use serde::Deserialize;
use serde_json::Value;

/// A fault that costs less than this part of the time is not blamed (report/cause.rs).
const BLAMED: f64 = 0.01;

/// What a reader of the JSON finds in a row.
#[derive(Deserialize)]
struct Row {
    time_us: f64,
    cause: String,
    bottleneck: String,
    causes: Option<Causes>,
    #[serde(default)]
    fault_costs: Vec<FaultCost>,
}

/// What the numbers of a row say limits it: the fault that costs most, if that is enough, or the largest
/// part of its time.
fn limit(row: &Row, causes: &Causes) -> Option<String> {
    let cost = |fault: &&FaultCost| fault.cost_us.unwrap_or(0.0);
    // The first of equal ones.
    let dearest = row
        .fault_costs
        .iter()
        .rev()
        .max_by(|a, b| cost(a).total_cmp(&cost(b)));
    let blamed = dearest.filter(|fault| cost(fault) > 0.0 && cost(fault) >= BLAMED * row.time_us);
    if let Some(fault) = blamed {
        return Some(fault.description.clone());
    }
    let parts = causes.parts.iter().rev();
    let largest = parts.max_by(|a, b| a.us.total_cmp(&b.us));
    largest.map(|part| part.cause.name().to_owned())
}

fn picos(us: f64) -> u64 {
    (us * 1e6).round() as u64
}

/// A row by itself: its cause, its words and its numbers.
fn row_is_one(row: &Row) -> Result<(), String> {
    let Some(causes) = &row.causes else {
        return match row.cause.is_empty() && row.time_us == 0.0 {
            true => Ok(()),
            false => Err(format!("{} has no numbers", row.cause)),
        };
    };
    let parts: u64 = causes.parts.iter().map(|part| picos(part.us)).sum();
    if parts != picos(row.time_us) {
        return Err(format!("parts of {parts} ps explain {} us", row.time_us));
    }
    let limit = limit(row, causes).unwrap_or_default();
    if row.cause != limit || !row.bottleneck.starts_with(&limit) {
        return Err(format!(
            "the row names {:?} ({:?}), its numbers {limit:?}",
            row.cause, row.bottleneck
        ));
    }
    Ok(())
}

/// The cause in the JSON of the command and of the folder, in the table's row and in the sentence below it.
pub(crate) fn row_sentence_and_json_name_one_cause(_: &Value, run: &Run) -> Result<(), String> {
    let collective = view(run);
    let read = |text: Result<String, _>| -> Result<Value, String> {
        let text = text.map_err(|error: fabricsim::report::ReportError| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let (printed, kept) = (read(rows_json(collective))?, read(summary_json(run))?);
    let table = collective_table(collective, false);
    let lines: Vec<&str> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    for (index, own) in collective.result.rows.iter().enumerate() {
        let json = &printed["rows"][index];
        for key in ["cause", "causes", "bottleneck", "fault_costs"] {
            if json[key] != kept["rows"][index][key] {
                return Err(format!("two documents differ in {key} of row {index}"));
            }
        }
        let row: Row = Row::deserialize(json).map_err(|error| error.to_string())?;
        row_is_one(&row).map_err(|wrong| format!("{} bytes: {wrong}", own.bytes))?;
        if !lines
            .get(index)
            .is_some_and(|line| line.ends_with(&row.bottleneck))
        {
            return Err(format!(
                "the line of {} bytes does not say {}",
                own.bytes, row.bottleneck
            ));
        }
    }
    let largest = || collective.result.rows.iter().max_by_key(|row| row.bytes);
    let told = collective
        .result
        .traced_row
        .and_then(|index| collective.result.rows.get(index))
        .or_else(largest);
    let cause = told.map_or("", |row| row.cause.as_str());
    let sentence = collective.result.bottleneck.as_str();
    // Its begin is the size and perhaps the time. There is none where nothing moves.
    let first = sentence.split_once(": ").map_or("", |(_, rest)| rest);
    let below = cause.is_empty() || table.contains(&format!("# {sentence}\n"));
    let same = first.starts_with(cause) && cause.is_empty() == sentence.is_empty();
    if kept["bottleneck"] != sentence || !same || !below {
        return Err(format!(
            "the row names {cause:?}, the sentence is {sentence:?}"
        ));
    }
    Ok(())
}
