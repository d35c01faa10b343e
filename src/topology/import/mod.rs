//! Files of other programs, made into topology files.
//!
//! Read are NCCL's topology XML (`NCCL_TOPO_DUMP_FILE`, `NCCL_TOPO_FILE`) and
//! the matrix that `nvidia-smi topo -m` prints. Both tell of one node. What they do
//! not say is assumed, and every assumption is a note.

mod draft;
pub(crate) mod nccl_xml;
pub(crate) mod parts;
mod placing;
mod smi;
#[cfg(test)]
mod tests;
mod tree;
pub mod xml;

use super::error::TopologyError;
use super::hardware::Hardware;
use super::spec::TopologySpec;
use parts::Parts;

/// What the caller knows and a file may not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The model of all GPUs, in place of what the file tells.
    pub gpu: Option<String>,
    /// NVLinks of each GPU to an NVSwitch, for a file that names none.
    pub nvlinks: Option<u32>,
}

/// An imported file.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The topology file.
    pub spec: TopologySpec,
    /// What was assumed, left out or read otherwise than it looks.
    pub notes: Vec<String>,
}

/// The formats that [`import`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignFormat {
    /// NCCL's XML.
    NcclXml,
    /// The matrix of `nvidia-smi topo -m`.
    Smi,
}

/// What a text is, by its first line that is not empty; `None` for the program's own JSON and
/// anything else.
#[must_use]
pub fn detect(text: &str) -> Option<ForeignFormat> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') {
        return Some(ForeignFormat::NcclXml);
    }
    smi::is_matrix(text).then_some(ForeignFormat::Smi)
}

/// Reads a file of another program as a topology called `name`; `origin` stands for the file
/// in errors. GPUs, CPUs, NICs and links become models of `hardware`, or of the topology's own.
///
/// # Errors
/// [`TopologyError::Text`] at the first place that does not fit the format, or that tells of
/// parts which no model stands for.
pub fn import(
    text: &str,
    name: &str,
    origin: &str,
    options: &ImportOptions,
    hardware: &Hardware,
) -> Result<Imported, TopologyError> {
    let mut parts = Parts::new(hardware);
    let mut notes = Vec::new();
    let (draft, source) = match detect(text) {
        Some(ForeignFormat::NcclXml) => {
            let text = text.trim_start_matches('\u{feff}');
            let draft = nccl_xml::read(text, origin, options, &mut parts, &mut notes)?;
            (draft, "imported from an NCCL topology file")
        }
        Some(ForeignFormat::Smi) => {
            let matrix = smi::read(text, origin)?;
            let draft = placing::place(&matrix, origin, options, &mut parts, &mut notes)?;
            (draft, "imported from a matrix of `nvidia-smi topo -m`")
        }
        None => return Err(unknown_format(text, origin)),
    };
    let origin = draft::Origin { name, source };
    let mut seen = std::collections::BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    Ok(Imported {
        spec: draft.into_spec(origin, parts),
        notes,
    })
}

/// Whether a topology can be called so: with what a path, a page and a shell have no other meaning
/// for.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && name.len() <= 100 && name.chars().all(is_name_part)
}

fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// A topology's name from a file's: its stem, with `-` for what is in no name.
#[must_use]
pub fn name_of(path: &std::path::Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = stem.chars().map(|c| if is_name_part(c) { c } else { '-' });
    let plain: String = plain.take(100).collect();
    let plain = plain.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if plain.is_empty() {
        "imported".into()
    } else {
        plain.to_owned()
    }
}

fn unknown_format(text: &str, origin: &str) -> TopologyError {
    let mut first = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let (line, found) = match first.next() {
        Some((number, line)) => {
            let start: String = line.trim().chars().take(40).collect();
            (number + 1, format!("`{start}`"))
        }
        None => (1, "an empty file".to_owned()),
    };
    let rocm = text.contains("ROCm System Management");
    let expected = if rocm {
        "a matrix of `nvidia-smi topo -m`: this is one of `rocm-smi`, and there are no AMD GPUs \
         among the models"
    } else {
        "NCCL topology XML (`<system …>`) or a matrix of `nvidia-smi topo -m` (a first line with \
         GPU0)"
    };
    TopologyError::Text {
        origin: origin.to_owned(),
        line,
        column: 1,
        found,
        expected: expected.into(),
        nearest: None,
    }
}

/// How to say the GPUs' model where a file does not, and several fit.
fn say_model(possible: &str) -> String {
    format!(
        "the model, with `--gpu MODEL` of `topology import`, or in the file's name; what fits: \
         {possible}"
    )
}

/// The model that the caller asks for.
fn asked_gpu(
    options: &ImportOptions,
    parts: &Parts<'_>,
    origin: &str,
) -> Result<Option<String>, TopologyError> {
    let Some(name) = &options.gpu else {
        return Ok(None);
    };
    if parts.sm_of(name).is_some() {
        return Ok(Some(name.clone()));
    }
    let (nearest, names) = parts.gpu_names(name);
    Err(TopologyError::Text {
        origin: origin.to_owned(),
        line: 1,
        column: 1,
        found: format!("a wish for GPUs of model `{name}`"),
        expected: format!("one of the GPU models: {names}"),
        nearest,
    })
}
