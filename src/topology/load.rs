//! Reading topologies: from text, from a file, or by the name of a shipped one.

use super::bare_word;
use super::catalogue;
use super::error::{TopologyError, candidates, did_you_mean_one_of, nearest};
use super::expand::{Overrides, expand};
use super::graph::Topology;
use super::hardware::Hardware;
use super::import::{self, ImportOptions};
use super::spec::TopologySpec;
use fabricsim_units::Strict;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read};
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

/// A topology's specification, as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What it says.
    pub spec: TopologySpec,
    /// Of another program's file: what was assumed, left out or read otherwise than it looks.
    pub notes: Vec<String>,
}

impl From<TopologySpec> for Found {
    fn from(spec: TopologySpec) -> Self {
        Found {
            spec,
            notes: Vec::new(),
        }
    }
}

/// Reads a topology file, or one of another program's (see [`import`]).
///
/// # Errors
/// [`TopologyError::Read`], or as [`parse`] and [`import::import`].
pub fn read(path: &Path) -> Result<Found, TopologyError> {
    let origin = path.display().to_string();
    let text = read_text(path)?;
    if import::detect(&text).is_some() {
        let (name, options) = (import::name_of(path), ImportOptions::default());
        let hardware = catalogue::hardware();
        let imported = import::import(&text, &name, &origin, &options, hardware)?;
        return Ok(Found {
            spec: imported.spec,
            notes: imported.notes,
        });
    }
    parse(&text, &origin).map(Found::from)
}

/// Larger files than any that this program reads: files without end (`/dev/zero`) are refused
/// there instead of filling the memory. A matrix of an all-to-all-v over 4,096 GPUs has 34 MB.
pub const LARGEST_FILE: u64 = 256 << 20;

/// The text of a file or pipe.
///
/// # Errors
/// [`TopologyError::Read`]; also for what is larger than [`LARGEST_FILE`], and for what is no
/// text.
pub fn read_text(path: &Path) -> Result<String, TopologyError> {
    let read = || {
        let mut text = Vec::new();
        File::open(path)?
            .take(LARGEST_FILE + 1)
            .read_to_end(&mut text)?;
        if text.len() as u64 > LARGEST_FILE {
            let mebibytes = LARGEST_FILE >> 20;
            return Err(io::Error::other(format!(
                "it has more than {mebibytes} MiB, the most that is read of a file"
            )));
        }
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
        String::from_utf8(text).map_err(invalid)
    };
    read().map_err(|source| TopologyError::Read {
        path: path.display().to_string(),
        source: in_words(path, source),
    })
}

/// What the system says of a path that is no file, in words that say what belongs there.
fn in_words(path: &Path, error: io::Error) -> io::Error {
    let kind = error.kind();
    match kind {
        io::ErrorKind::IsADirectory => {
            io::Error::new(kind, "it is a folder; expected a file in it")
        }
        io::ErrorKind::NotFound => {
            let beside = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let Ok(entries) = std::fs::read_dir(beside) else {
                let told = format!("there is no folder {}", beside.display());
                return io::Error::new(kind, told);
            };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let near = candidates(&name, names.iter().map(String::as_str));
            let near = did_you_mean_one_of(&near);
            io::Error::new(kind, format!("there is no such file{near}"))
        }
        _ => error,
    }
}

/// Whether a machine is asked for by its file and not by its name.
///
/// Text that ends in `.json`, `.xml` or `.txt` or holds a `/` is a path, any other a name; but a
/// name that is not shipped and is that of a file is a path too.
#[must_use]
pub fn is_path(text: &str) -> bool {
    let looks_so = text.contains(['/', '\\'])
        || [".json", ".xml", ".txt"]
            .iter()
            .any(|end| text.ends_with(end));
    looks_so || (catalogue::text(text).is_none() && Path::new(text).is_file())
}

/// A shipped topology by its name, or a file by its path, as [`is_path`] tells them apart.
///
/// # Errors
/// [`TopologyError::UnknownName`], or as [`read`].
pub fn find(name_or_path: &str) -> Result<Found, TopologyError> {
    let path = Path::new(name_or_path);
    if is_path(name_or_path) {
        read(path)
    } else {
        catalogue::find(name_or_path).map(Found::from)
    }
}

/// The machine of a shipped name or a file, with the shipped hardware.
///
/// # Errors
/// As [`find`] and [`expand`].
pub fn load(name_or_path: &str, overrides: &Overrides) -> Result<Topology, TopologyError> {
    let found = find(name_or_path)?;
    expand(&found.spec, catalogue::hardware(), overrides).map_err(|e| e.with_origin(name_or_path))
}

/// Reads JSON of any of the program's formats; `origin` names it in errors.
///
/// # Errors
/// [`TopologyError::Json`] at the first place that does not fit.
pub fn from_json<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, TopologyError> {
    read_strictly(text).map_err(|(path, error)| json_error::<T>(text, origin, path, &error))
}

/// As [`from_json`]; an error comes with its place, which is empty at the root.
pub(super) fn read_strictly<T: DeserializeOwned>(
    text: &str,
) -> Result<T, (String, serde_json::Error)> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(Strict(&mut reader)).map_err(|error| {
        let path = error.path().to_string();
        // Parts of the path that are not known yet at the fault are question marks.
        let path = path.trim_end_matches(['.', '?']).to_owned();
        (path, error.into_inner())
    })?;
    reader.end().map_err(|error| (String::new(), error))?;
    Ok(value)
}

/// A message with the range of a whole number in place of the name of its type.
fn in_numbers(message: &str) -> String {
    let types = [
        ("u8", u64::from(u8::MAX)),
        ("u16", u64::from(u16::MAX)),
        ("u32", u64::from(u32::MAX)),
        ("u64", u64::MAX),
    ];
    for (name, most) in types {
        if let Some(before) = message.strip_suffix(&format!("expected {name}")) {
            return format!("{before}expected a whole number from 0 to {most}");
        }
    }
    message.to_owned()
}

fn json_error<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    path: String,
    error: &serde_json::Error,
) -> TopologyError {
    let said = error.to_string();
    // The position is a field of its own; serde_json repeats it at the end of its text.
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = in_numbers(said.strip_suffix(&position).unwrap_or(&said));
    // For unknown fields and variants serde quotes first what it found, then what it knows.
    let nearest = message
        .starts_with("unknown ")
        .then(|| {
            let mut quoted = message.split('`').skip(1).step_by(2);
            let found = quoted.next()?;
            nearest(found, quoted)
        })
        .flatten();
    let place = (error.line(), error.column());
    let alone = match &nearest {
        Some(_) => None,
        None => bare_word::message::<T>(text, &path, place, &message),
    };
    TopologyError::Json {
        origin: origin.to_owned(),
        line: error.line(),
        column: error.column(),
        path,
        message: alone.unwrap_or(message),
        nearest,
    }
}
