//! Reading topologies: from text, from a file, or by the name of a shipped one.

use super::catalogue;
use super::error::{TopologyError, nearest};
use super::expand::{Overrides, expand};
use super::graph::Topology;
use super::hardware::Hardware;
use super::import::{self, ImportOptions};
use super::spec::TopologySpec;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads a topology's text; `origin` names it in errors.
///
/// # Errors
/// [`TopologyError::Json`] at the first place where the text is not JSON or not of the
/// format. What the fields say is checked by [`expand`].
pub fn parse(text: &str, origin: &str) -> Result<TopologySpec, TopologyError> {
    from_json(text, origin)
}

/// Reads a hardware file's text; `origin` names it in errors.
///
/// # Errors
/// As [`parse`].
pub fn parse_hardware(text: &str, origin: &str) -> Result<Hardware, TopologyError> {
    from_json(text, origin)
}

/// Reads a topology file, or one of another program's (see [`import`]).
///
/// # Errors
/// [`TopologyError::Read`], or as [`parse`] and [`import::import`].
pub fn read(path: &Path) -> Result<TopologySpec, TopologyError> {
    let origin = path.display().to_string();
    let text = read_text(path)?;
    if import::detect(&text).is_some() {
        let (name, options) = (import::name_of(path), ImportOptions::default());
        let hardware = catalogue::hardware();
        return import::import(&text, &name, &origin, &options, hardware).map(|i| i.spec);
    }
    parse(&text, &origin)
}

/// A file's text.
///
/// # Errors
/// [`TopologyError::Read`].
pub fn read_text(path: &Path) -> Result<String, TopologyError> {
    std::fs::read_to_string(path).map_err(|source| TopologyError::Read {
        path: path.display().to_string(),
        source,
    })
}

/// A shipped topology by its name, or a file by its path.
///
/// Text that ends in `.json`, `.xml` or `.txt` or holds a `/` is a path, any other a name; a name that is not
/// shipped but is a file's is read too.
///
/// # Errors
/// [`TopologyError::UnknownName`], or as [`read`].
pub fn find(name_or_path: &str) -> Result<TopologySpec, TopologyError> {
    let path = Path::new(name_or_path);
    let is_path = name_or_path.contains(['/', '\\'])
        || [".json", ".xml", ".txt"]
            .iter()
            .any(|end| name_or_path.ends_with(end));
    if is_path || (catalogue::text(name_or_path).is_none() && path.is_file()) {
        read(path)
    } else {
        catalogue::find(name_or_path)
    }
}

/// The machine of a shipped name or a file, with the shipped hardware.
///
/// # Errors
/// As [`find`] and [`expand`].
pub fn load(name_or_path: &str, overrides: &Overrides) -> Result<Topology, TopologyError> {
    let spec = find(name_or_path)?;
    expand(&spec, catalogue::hardware(), overrides).map_err(|e| e.with_origin(name_or_path))
}

/// Reads JSON of any of the program's formats; `origin` names it in errors.
///
/// # Errors
/// [`TopologyError::Json`] at the first place that does not fit.
pub fn from_json<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, TopologyError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // Parts of the path that are not known yet at the fault are question marks.
        let path = path.trim_end_matches(['.', '?']).to_owned();
        json_error(origin, path, error.inner())
    })?;
    reader
        .end()
        .map_err(|error| json_error(origin, String::new(), &error))?;
    Ok(value)
}

fn json_error(origin: &str, path: String, error: &serde_json::Error) -> TopologyError {
    let text = error.to_string();
    // The position is a field of its own; serde_json repeats it at the end of its text.
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&position).unwrap_or(&text).to_owned();
    // For unknown fields and variants serde quotes first what it found, then what it knows.
    let nearest = message
        .starts_with("unknown ")
        .then(|| {
            let mut quoted = message.split('`').skip(1).step_by(2);
            let found = quoted.next()?;
            nearest(found, quoted)
        })
        .flatten();
    TopologyError::Json {
        origin: origin.to_owned(),
        line: error.line(),
        column: error.column(),
        path,
        message,
        nearest,
    }
}
