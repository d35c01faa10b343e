//! A scenario that runs wherever its file is put.

use crate::error::ScenarioError;
use crate::spec::TopologyRef;
use crate::sweep::machine_file;
use serde_json::{Value, json};
use std::path::Path;

/// The scenario with its machine written out, if that is a file, and its other files by whole paths. Relative paths
/// start at `folder`.
///
/// # Errors
/// A machine's file that cannot be read any more.
pub(super) fn standalone(mut scenario: Value, folder: &Path) -> Result<Value, ScenarioError> {
    let path = scenario["topology"]["path"].as_str().map(str::to_owned);
    if let Some(path) = path {
        let inline = machine_file(&TopologyRef::Path(path), folder)?;
        scenario["topology"] = json!({ "inline": inline });
    }
    let whole = |file: &mut Value| {
        let path = file.as_str().map(|text| folder.join(text));
        let path = path.and_then(|path| std::path::absolute(path).ok());
        if let Some(path) = path {
            *file = path.display().to_string().into();
        }
    };
    if let Some(Value::Object(variables)) = scenario.get_mut("environment") {
        let files = variables.iter_mut();
        let files = files.filter(|(name, _)| name.ends_with("_FILE"));
        files.for_each(|(_, value)| whole(value));
    }
    if let Some(file) = scenario.pointer_mut("/job/serving/load/trace/file") {
        whole(file);
    }
    Ok(scenario)
}
