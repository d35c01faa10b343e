//! Axes: which values are shown, and where the labels stand.

use crate::numbers;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// A letter's part of the length of a horizontal axis, about.
const LETTER: f64 = 0.0095;

/// How values are laid out along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal ratios.
    Log,
}

/// An axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    pub(super) scale: Scale,
    /// In laid-out coordinates, which are logarithms to base 2 if the scale is so.
    pub(super) range: (f64, f64),
    /// Labelled places, in laid-out coordinates.
    pub(super) ticks: Vec<(f64, String)>,
    /// Grid lines without labels, in laid-out coordinates.
    pub(super) light: Vec<f64>,
}

impl Axis {
    /// Sizes of data from `min` to `max` bytes by powers of two: `1 KiB`, `2 KiB` …
    #[must_use]
    pub fn sizes(label: &str, min: f64, max: f64) -> Axis {
        let first = min.max(1.0).log2();
        let last = max.max(1.0).log2().max(first);
        let (low, high) = (first.floor() as i32, last.ceil() as i32);
        // As many labels as fit side by side.
        let step = ((high - low) / 11 + 1) as usize;
        let ticks = (low..=high)
            .step_by(step)
            .map(|power| (f64::from(power), numbers::size(f64::from(power).exp2())));
        // Half a step on both sides so that marks at the ends are whole.
        let margin = ((last - first) * 0.02).max(0.3);
        Axis {
            label: label.to_owned(),
            scale: Scale::Log,
            range: (first - margin, last + margin),
            ticks: ticks
                .filter(|(at, _)| (first - margin..=last + margin).contains(at))
                .collect(),
            light: Vec::new(),
        }
    }

    /// From zero to a round number not below `max`.
    #[must_use]
    pub fn linear(label: &str, max: f64) -> Axis {
        let step = round_step(max);
        // A hair of tolerance: 0.3 / 0.1 is more than 3.
        let steps = (max / step - 1e-9).ceil().clamp(1.0, 100.0) as usize;
        Axis::steps(label, step, steps, step * steps as f64)
    }

    /// From zero to `max` exactly, for an axis that ends where its data ends.
    #[must_use]
    pub fn linear_to(label: &str, max: f64) -> Axis {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = round_step(max);
        let steps = (max / step + 1e-9).floor().clamp(1.0, 100.0) as usize;
        Axis::steps(label, step, steps, max)
    }

    /// From a round number below `min` to one above `max`: what differs little is seen to differ.
    #[must_use]
    pub fn between(label: &str, min: f64, max: f64) -> Axis {
        let step = round_step(max - min);
        let first = (min / step + 1e-9).floor();
        let steps = ((max / step - 1e-9).ceil() - first).clamp(1.0, 100.0) as usize;
        let from_zero = Axis::steps(label, step, steps, step * steps as f64);
        let decimals = (-step.log10().floor()).max(0.0) as usize + 1;
        let at = |index: usize| step * (first + index as f64);
        Axis {
            range: (at(0), at(steps)),
            ticks: (0..=steps)
                .map(|index| (at(index), numbers::trimmed(at(index), decimals)))
                .collect(),
            ..from_zero
        }
    }

    /// Labels at values, such as those that were tried; of labels that would meet the first stays.
    #[must_use]
    pub fn marked(label: &str, mut marks: Vec<(f64, String)>, scale: Scale) -> Axis {
        if scale == Scale::Log {
            marks.retain(|(value, _)| *value > 0.0);
            for (value, _) in &mut marks {
                *value = value.log2();
            }
        }
        marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = marks.first().map_or(0.0, |mark| mark.0);
        let last = marks.last().map_or(first, |mark| mark.0);
        let margin = match last > first {
            true => (last - first) * 0.04,
            false => 1.0,
        };
        let range = (first - margin, last + margin);
        let mut ticks: Vec<(f64, String)> = Vec::new();
        let mut light = Vec::new();
        let mut end = f64::NEG_INFINITY;
        for (at, text) in marks {
            let half = text.chars().count() as f64 * LETTER / 2.0 * (range.1 - range.0);
            if at - half < end {
                light.push(at);
                continue;
            }
            end = at + half + 2.0 * LETTER * (range.1 - range.0);
            ticks.push((at, text));
        }
        Axis {
            label: label.to_owned(),
            scale,
            range,
            ticks,
            light,
        }
    }

    /// Names side by side, at 0, 1, 2 and so on; long ones are cut where they would meet.
    #[must_use]
    pub fn named(label: &str, names: impl ExactSizeIterator<Item = String>) -> Axis {
        let count = names.len().max(1);
        let room = (1.0 / (count as f64 * LETTER) - 1.0).max(1.0) as usize;
        let ticks = names.enumerate().map(|(at, name)| {
            let cut = match name.chars().count() > room {
                true => name
                    .chars()
                    .take(room.saturating_sub(1))
                    .chain(['…'])
                    .collect(),
                false => name,
            };
            (at as f64, cut)
        });
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            range: (-0.5, count as f64 - 0.5),
            ticks: ticks.collect(),
            light: Vec::new(),
        }
    }

    fn steps(label: &str, step: f64, steps: usize, max: f64) -> Axis {
        let tick = |index: usize| {
            let at = step * index as f64;
            let decimals = (-step.log10().floor()).max(0.0) as usize + 1;
            (at, numbers::trimmed(at, decimals))
        };
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            range: (0.0, max),
            ticks: (0..=steps).map(tick).collect(),
            light: Vec::new(),
        }
    }

    /// By powers of ten around `min` to `max`; `text` makes the labels.
    #[must_use]
    pub fn decades(label: &str, min: f64, max: f64, text: impl Fn(f64) -> String) -> Axis {
        let min = if min > 0.0 { min } else { 1.0 };
        let low = min.log10().floor() as i32;
        let high = (max.max(min).log10().ceil() as i32).max(low + 1);
        let place = |value: f64| value.log2();
        let light = (low..high).flat_map(|power| {
            (2..10).map(move |digit| place(10f64.powi(power) * f64::from(digit)))
        });
        let ticks = (low..=high).map(|power| {
            let value = 10f64.powi(power);
            (place(value), text(value))
        });
        Axis {
            label: label.to_owned(),
            scale: Scale::Log,
            range: (place(10f64.powi(low)), place(10f64.powi(high))),
            ticks: ticks.collect(),
            light: light.collect(),
        }
    }

    /// From just below `min` to just above `max`, with labels at powers of ten, and at 2 and 5
    /// times those if there would be few; `text` makes them.
    #[must_use]
    pub fn ratios(label: &str, min: f64, max: f64, text: impl Fn(f64) -> String) -> Axis {
        let min = if min > 0.0 { min } else { 1.0 };
        let max = max.max(min);
        let (low, high) = (min / 1.25, max * 1.25);
        let digits: &[u32] = match high / low {
            ratio if ratio < 30.0 => &[1, 2, 5],
            ratio if ratio < 300.0 => &[1, 3],
            _ => &[1],
        };
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let places = powers.flat_map(|power| {
            (1..10u32).map(move |digit| (digit, 10f64.powi(power) * f64::from(digit)))
        });
        let inside = places.filter(|(_, value)| (low..=high).contains(value));
        let (named, light): (Vec<_>, Vec<_>) =
            inside.partition(|(digit, _)| digits.contains(digit));
        Axis {
            label: label.to_owned(),
            scale: Scale::Log,
            range: (low.log2(), high.log2()),
            ticks: named.iter().map(|(_, v)| (v.log2(), text(*v))).collect(),
            light: light.iter().map(|(_, v)| v.log2()).collect(),
        }
    }

    /// Where along the axis a value stands, from 0 to 1, if the axis can show it.
    #[must_use]
    pub fn fraction(&self, value: f64) -> Option<f64> {
        Some(self.along(self.place(value)?))
    }

    /// Labelled places, at most `most` of them, from 0 to 1 along the axis.
    pub fn marks(&self, most: usize) -> impl Iterator<Item = (f64, &str)> {
        let step = self.ticks.len().div_ceil(most.max(1)).max(1);
        let ticks = self.ticks.iter().step_by(step);
        ticks.map(|(at, text)| (self.along(*at), text.as_str()))
    }

    /// Places of light lines, from 0 to 1 along the axis.
    pub fn light_marks(&self) -> impl Iterator<Item = f64> {
        self.light.iter().map(|at| self.along(*at))
    }

    fn along(&self, at: f64) -> f64 {
        let (low, high) = self.range;
        (at - low) / (high - low)
    }

    /// The laid-out coordinate of `value`, if the axis can show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let at = match self.scale {
            Scale::Linear => value,
            Scale::Log if value > 0.0 => value.log2(),
            Scale::Log => return None,
        };
        at.is_finite().then_some(at)
    }
}

/// plotters asks an axis for its places in laid-out coordinates.
impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, at: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (f64::from(limit.1 - limit.0) * self.along(*at)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.light.clone()
        } else {
            self.ticks.iter().map(|(at, _)| *at).collect()
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Axis {
    /// The label of a tick, found again from its coordinate.
    fn format_ext(&self, at: &f64) -> String {
        let tick = self.ticks.iter().find(|(tick, _)| tick == at);
        tick.map_or_else(String::new, |(_, text)| text.clone())
    }
}

/// The step of 1, 2, 2.5 or 5 times a power of ten that cuts `max` into four to eight.
fn round_step(max: f64) -> f64 {
    let max = if max.is_finite() && max > 0.0 {
        max
    } else {
        1.0
    };
    let rough = max / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0];
    let ratio = rough / power;
    let chosen = nice
        .into_iter()
        .min_by(|a, b| (a - ratio).abs().total_cmp(&(b - ratio).abs()));
    chosen.unwrap_or(1.0) * power
}
