//! What a plot shows.

use crate::Metrics;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A plot of a sweep's points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlotSpec {
    /// An axis, or a metric.
    pub x: String,
    /// A metric; of a heat map an axis.
    pub y: String,
    /// An axis whose values are lines. One line if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The metric that colours a heat map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
}

/// A name of a plot that is none of what it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongName {
    /// Which of the plot's parts: `x`, `y`, `by`, `color`.
    pub part: &'static str,
    /// What it says.
    pub name: String,
    /// What it can be, in words.
    pub expected: &'static str,
    /// All that it can be.
    pub known: Vec<String>,
}

impl PlotSpec {
    /// Whether it is a heat map of a sweep with these axes.
    #[must_use]
    pub fn is_map(&self, axes: &[String]) -> bool {
        self.color.is_some() || axes.contains(&self.y)
    }

    /// The first of its names that cannot be what it is asked to be.
    ///
    /// # Errors
    /// That name, with those that can.
    pub fn check(&self, axes: &[String]) -> Result<(), WrongName> {
        let metrics = || Metrics::names().map(str::to_owned);
        let both = || axes.iter().cloned().chain(metrics()).collect();
        let map = self.is_map(axes);
        let one = |part, name: &str, expected, known: Vec<String>| {
            let found = known.iter().any(|known| known == name);
            match found {
                true => Ok(()),
                false => Err(WrongName {
                    part,
                    name: name.to_owned(),
                    expected,
                    known,
                }),
            }
        };
        match map {
            true => one("x", &self.x, "an axis", axes.to_vec())?,
            false => one("x", &self.x, "an axis or a metric", both())?,
        }
        match self.color.is_some() {
            true => one("y", &self.y, "an axis, as of a heat map", axes.to_vec())?,
            false => one("y", &self.y, "a metric, or an axis", both())?,
        }
        if let Some(by) = &self.by {
            one("by", by, "an axis", axes.to_vec())?;
        }
        if let Some(color) = &self.color {
            one("color", color, "a metric", metrics().collect())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_axes_and_metrics() {
        let axes = ["nodes".to_owned(), "size".to_owned()];
        let plot = |x: &str, y: &str, by: Option<&str>, color: Option<&str>| PlotSpec {
            x: x.into(),
            y: y.into(),
            by: by.map(Into::into),
            color: color.map(Into::into),
        };
        let wrong = |plot: PlotSpec| plot.check(&axes).unwrap_err().part;
        assert_eq!(
            plot("size", "time_us", Some("nodes"), None).check(&axes),
            Ok(())
        );
        assert_eq!(
            plot("size", "nodes", None, Some("mfu")).check(&axes),
            Ok(())
        );
        assert_eq!(plot("memory_gib", "mfu", None, None).check(&axes), Ok(()));
        assert_eq!(wrong(plot("siz", "time_us", None, None)), "x");
        assert_eq!(wrong(plot("size", "time", None, None)), "y");
        assert_eq!(wrong(plot("size", "mfu", Some("mfu"), None)), "by");
        assert_eq!(wrong(plot("size", "mfu", None, Some("mfu"))), "y");
        assert_eq!(wrong(plot("size", "nodes", None, Some("nodes"))), "color");
        assert_eq!(wrong(plot("mfu", "nodes", None, None)), "x");
    }
}
