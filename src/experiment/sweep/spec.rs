//! A sweep's file: scenarios, the axes along which they vary, and which of the points are run.

use crate::error::ScenarioError;
use crate::spec::ScenarioSpec;
use fabricsim_report::sweep::PlotSpec;
use fabricsim_topology::load::{from_json, read_text};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A sweep's file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// JSON Schema of this file, for editors; ignored.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Short name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// One line for people; the name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What varies; in place of `parts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseRef>,
    /// Along what it varies; points are crossed in this order, the last axis fastest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisSpec>,
    /// Axes that go together, value by value, in place of being crossed. None if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zip: Vec<Vec<String>>,
    /// Only points that meet at least one of these; all if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<BTreeMap<String, Condition>>,
    /// No points that meet any of these; none is skipped if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<BTreeMap<String, Condition>>,
    /// Several bases with axes of their own, in place of `base` and `axes`; their points follow
    /// each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartSpec>,
    /// The metric by which points are judged; of collectives `busbw_gbs`, of training
    /// `tokens_per_s_per_gpu` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// The plot that the page shows first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plot: Option<PlotSpec>,
}

/// A base and its axes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its name, in the column `part`.
    pub name: String,
    /// What varies.
    pub base: BaseRef,
    /// As `axes` of a whole sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisSpec>,
    /// As `zip` of a whole sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zip: Vec<Vec<String>>,
    /// As `only` of a whole sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<BTreeMap<String, Condition>>,
    /// As `skip` of a whole sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<BTreeMap<String, Condition>>,
}

/// The scenario that varies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BaseRef {
    /// A shipped scenario (`fabricsim scenario list`).
    Name(String),
    /// A scenario's file, relative to this one.
    Path(String),
    /// The scenario itself.
    Inline(Box<ScenarioSpec>),
}

impl Default for BaseRef {
    fn default() -> Self {
        BaseRef::Name(String::new())
    }
}

/// One thing that varies: a place of the scenario with values, or named options that each set
/// several places.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its name in tables and plots; `path` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The place, as `--set` takes it (`job.training.parallel.tp`). `topology.…` beyond `name`,
    /// `path` and `inline` is a place of the machine's file (`topology.fabrics.compute.routing`), or
    /// `topology.oversubscription`. Short: `size`, `gpus`, `machine`, `tp` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The values of `path`, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Value>>,
    /// Values of `path` from one to another, in place of `values`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<RangeSpec>,
    /// Named what-ifs, in place of `path`; none if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<OptionSpec>,
}

/// Values from one to another: whole numbers, or sizes as people write them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RangeSpec {
    /// The first: a whole number, or a size such as `"1MiB"`.
    pub from: Value,
    /// No value is larger than this, written as `from` is.
    pub to: Value,
    /// Each is so many times the one before; 2 if neither this nor `step` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<u64>,
    /// Each is so much larger than the one before, written as `from` is; in place of `factor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Value>,
}

/// One of several what-ifs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its name.
    pub name: String,
    /// Values by their places, as of an axis' `path`.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// What an axis' value has to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Condition {
    /// One of these.
    OneOf(Vec<Value>),
    /// A number within bounds.
    Within(Bounds),
}

/// Bounds of a number; sizes as people write them count as bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// At least this: a number, or a size such as `"1MiB"`; no bound if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Value>,
    /// At most this: a number, or a size such as `"1GiB"`; no bound if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Value>,
}

impl SweepSpec {
    /// Its parts; one of the sweep's own name if it has a base itself.
    pub(super) fn parts(&self) -> Vec<PartSpec> {
        let own = self.base.iter().map(|base| PartSpec {
            comment: None,
            name: self.name.clone(),
            base: base.clone(),
            axes: self.axes.clone(),
            zip: self.zip.clone(),
            only: self.only.clone(),
            skip: self.skip.clone(),
        });
        own.chain(self.parts.iter().cloned()).collect()
    }
}

/// Reads a sweep's file.
///
/// # Errors
/// A file that cannot be read or is not of the format.
pub fn read_sweep(path: &Path) -> Result<SweepSpec, ScenarioError> {
    parse_sweep(&read_text(path)?, &path.display().to_string())
}

/// As [`read_sweep`], from text; `origin` names it in errors.
///
/// # Errors
/// A text that is not of the format.
pub fn parse_sweep(text: &str, origin: &str) -> Result<SweepSpec, ScenarioError> {
    Ok(from_json(text, origin)?)
}

/// The schema of a sweep's file (draft 2020-12).
#[must_use]
pub fn sweep_schema() -> Schema {
    schema_for!(SweepSpec)
}
