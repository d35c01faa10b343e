//! What can be wrong with a model, a layout or a batch, said so that it can be mended.

use fabricsim_topology::error::did_you_mean_one_of;
use std::fmt;
use thiserror::Error;

/// One thing that is wrong, with its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFault {
    /// The field (`experts.per_token`, `layout.tp`).
    pub field: String,
    /// What is there.
    pub found: String,
    /// What belongs there, with the valid values that are nearest.
    pub expected: String,
}

impl ModelFault {
    /// A fault of a field.
    pub(super) fn new(
        field: impl Into<String>,
        found: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        ModelFault {
            field: field.into(),
            found: found.to_string(),
            expected: expected.into(),
        }
    }
}

impl fmt::Display for ModelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.field)?;
        writeln!(f, "    found:    {}", self.found)?;
        write!(f, "    expected: {}", self.expected)
    }
}

/// Why a model or a layout of it is refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum ModelError {
    /// No shipped model is called that.
    #[error("there is no model `{name}`{}\nshipped: {}", did_you_mean_one_of(candidates), known.join(", "))]
    UnknownName {
        /// What was asked for.
        name: String,
        /// Shipped names that could be meant.
        candidates: Vec<String>,
        /// All shipped names.
        known: Vec<String>,
    },
    /// Fields that contradict each other, or values that cannot be.
    #[error("{}", list(faults))]
    Faults {
        /// Everything that is wrong, in order of the fields.
        faults: Vec<ModelFault>,
    },
}

impl ModelError {
    /// An error if there are faults.
    pub(super) fn unless_empty(faults: Vec<ModelFault>) -> Result<(), ModelError> {
        if faults.is_empty() {
            Ok(())
        } else {
            Err(ModelError::Faults { faults })
        }
    }
}

fn list(faults: &[ModelFault]) -> String {
    let mut text = match faults.len() {
        1 => "1 fault".to_owned(),
        n => format!("{n} faults"),
    };
    for fault in faults {
        text.push_str(&format!("\n  {fault}"));
    }
    text
}

/// The divisors of `whole` that enclose `value`, for an error: "such as 6 or 8".
pub(super) fn divisors_near(value: u64, whole: u64) -> String {
    let divides = |d: &u64| whole.is_multiple_of(*d);
    let below = (1..value.min(whole + 1)).rev().find(divides);
    let above = (value + 1..=whole).find(divides);
    such_as(below, above)
}

/// The multiples of `step` that enclose `value`, for an error: "such as 96 or 104".
pub(super) fn multiples_near(value: u64, step: u64) -> String {
    let below = (value / step).saturating_mul(step);
    let above = below.checked_add(step).filter(|&a| a != value);
    such_as((0 < below && below != value).then_some(below), above)
}

fn such_as(below: Option<u64>, above: Option<u64>) -> String {
    match (below, above) {
        (Some(below), Some(above)) => format!(", such as {below} or {above}"),
        (Some(one), None) | (None, Some(one)) => format!(", such as {one}"),
        (None, None) => String::new(),
    }
}
