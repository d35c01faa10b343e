//! The figures of parameters, one by one: what a fit moves and what is checked.

use super::parameters::{
    AllReduceParameters, DecodeParameters, Fitted, GemmParameters, Generation, MoeParameters,
    PrefillParameters, SmallParameters,
};
use fabricsim_units::{Bandwidth, Time};
use serde::Serialize;

/// One figure of an entry.
#[derive(Debug)]
pub enum Leaf<'a> {
    /// A share of a peak, or a ratio.
    Share(&'a mut Fitted<f64>),
    /// A time.
    Time(&'a mut Fitted<Time>),
    /// A rate.
    Rate(&'a mut Fitted<Bandwidth>),
}

/// So many digits of a value are kept: more than profiles tell.
const DIGITS: i32 = 3;

impl Leaf<'_> {
    /// As a number: of seconds, or bytes per second.
    #[must_use]
    pub fn number(&self) -> f64 {
        match self {
            Leaf::Share(leaf) => leaf.value,
            Leaf::Time(leaf) => leaf.value.seconds(),
            Leaf::Rate(leaf) => leaf.value.bytes_per_sec() as f64,
        }
    }

    /// The numbers between which it may be.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        match self {
            Leaf::Share(leaf) => (leaf.range[0], leaf.range[1]),
            Leaf::Time(leaf) => (leaf.range[0].seconds(), leaf.range[1].seconds()),
            Leaf::Rate(leaf) => {
                let [low, high] = leaf.range;
                (low.bytes_per_sec() as f64, high.bytes_per_sec() as f64)
            }
        }
    }

    /// Sets it to a number, as near as its unit and its range allow.
    pub fn set(&mut self, number: f64) {
        let (low, high) = self.range();
        let number = rounded(number).clamp(low, high);
        match self {
            Leaf::Share(leaf) => leaf.value = number,
            Leaf::Time(leaf) => leaf.value = Time::from_picos((number * 1e12).round() as u64),
            Leaf::Rate(leaf) => {
                leaf.value = Bandwidth::from_bytes_per_sec(number.round() as u64);
            }
        }
    }

    /// Says where it is from.
    pub fn say(&mut self, source: &str) {
        let place = match self {
            Leaf::Share(leaf) => &mut leaf.source,
            Leaf::Time(leaf) => &mut leaf.source,
            Leaf::Rate(leaf) => &mut leaf.source,
        };
        source.clone_into(place);
    }

    /// What was found and what is expected, if it is not in its range.
    pub(super) fn misplaced(&self) -> Option<(String, String)> {
        let (low, high) = self.range();
        let number = self.number();
        let good = low > 0.0 && high.is_finite() && low <= number && number <= high;
        let (found, low, high) = match self {
            Leaf::Share(leaf) => (leaf.value.to_string(), low.to_string(), high.to_string()),
            Leaf::Time(leaf) => (
                leaf.value.to_string(),
                leaf.range[0].to_string(),
                leaf.range[1].to_string(),
            ),
            Leaf::Rate(leaf) => (
                leaf.value.to_string(),
                leaf.range[0].to_string(),
                leaf.range[1].to_string(),
            ),
        };
        (!good).then(|| (found, format!("from {low} to {high}, above 0")))
    }
}

/// A number with as many digits as are kept.
fn rounded(number: f64) -> f64 {
    if number <= 0.0 || !number.is_finite() {
        return number;
    }
    let digits = DIGITS - 1 - number.log10().floor() as i32;
    // Powers of ten above one are whole, so that what is written is short.
    if digits >= 0 {
        let scale = 10f64.powi(digits);
        (number * scale).round() / scale
    } else {
        let scale = 10f64.powi(-digits);
        (number / scale).round() * scale
    }
}

/// An entry's figures with their names.
pub type Leaves<'a> = Vec<(&'static str, Leaf<'a>)>;

impl GemmParameters {
    /// Its figures.
    pub fn leaves(&mut self) -> Leaves<'_> {
        let mut leaves = vec![("launch", Leaf::Time(&mut self.launch))];
        let quantise = self.quantise.as_mut();
        leaves.extend(quantise.map(|leaf| ("quantise", Leaf::Time(leaf))));
        leaves.push(("compute", Leaf::Share(&mut self.compute)));
        leaves.push(("memory", Leaf::Share(&mut self.memory)));
        leaves.push(("step", Leaf::Time(&mut self.step)));
        leaves
    }
}

impl PrefillParameters {
    /// Its figures.
    pub fn leaves(&mut self) -> Leaves<'_> {
        vec![
            ("launch", Leaf::Time(&mut self.launch)),
            ("compute", Leaf::Share(&mut self.compute)),
            ("prepare", Leaf::Share(&mut self.prepare)),
            ("step", Leaf::Time(&mut self.step)),
        ]
    }
}

impl DecodeParameters {
    /// Its figures.
    pub fn leaves(&mut self) -> Leaves<'_> {
        let mut leaves = vec![
            ("launch", Leaf::Time(&mut self.launch)),
            ("memory", Leaf::Share(&mut self.memory)),
            ("compute", Leaf::Share(&mut self.compute)),
            ("step", Leaf::Time(&mut self.step)),
            ("combine", Leaf::Time(&mut self.combine)),
            ("cache", Leaf::Share(&mut self.cache)),
        ];
        let head = self.head.as_mut();
        leaves.extend(head.map(|leaf| ("head", Leaf::Time(leaf))));
        leaves
    }
}

impl MoeParameters {
    /// Its figures.
    pub fn leaves(&mut self) -> Leaves<'_> {
        let starts = self.starts.as_mut();
        let mut leaves: Leaves<'_> = vec![
            ("launch", Leaf::Time(&mut self.launch)),
            ("compute", Leaf::Share(&mut self.compute)),
            ("memory", Leaf::Share(&mut self.memory)),
            ("permute", Leaf::Share(&mut self.permute)),
            ("step", Leaf::Time(&mut self.step)),
        ];
        leaves.extend(starts.map(|leaf| ("starts", Leaf::Time(leaf))));
        leaves
    }
}

impl SmallParameters {
    /// Its figures.
    pub fn leaves(&mut self) -> Leaves<'_> {
        vec![
            ("launch", Leaf::Time(&mut self.launch)),
            ("row", Leaf::Rate(&mut self.row)),
            ("norm", Leaf::Share(&mut self.norm)),
            ("rope", Leaf::Share(&mut self.rope)),
            ("activation", Leaf::Share(&mut self.activation)),
            ("add", Leaf::Share(&mut self.add)),
            ("embedding", Leaf::Share(&mut self.embedding)),
        ]
    }
}

impl AllReduceParameters {
    /// Its figures.
    pub fn leaves(&mut self) -> Leaves<'_> {
        vec![
            ("launch", Leaf::Time(&mut self.launch)),
            ("doubling", Leaf::Time(&mut self.doubling)),
            ("pass", Leaf::Time(&mut self.pass)),
            ("port", Leaf::Share(&mut self.port)),
        ]
    }
}

impl Generation {
    /// The figures of all entries, with their places.
    pub fn leaves(&mut self) -> Vec<(String, Leaf<'_>)> {
        let mut all: Vec<(String, Leaves<'_>)> = Vec::new();
        let gemm = self.gemm.iter_mut();
        all.extend(gemm.map(|(f, e)| (place("gemm", f), e.leaves())));
        let prefill = self.prefill.iter_mut();
        all.extend(prefill.map(|(f, e)| (place("prefill", f), e.leaves())));
        let decode = self.decode.iter_mut();
        all.extend(decode.map(|(f, e)| (place("decode", f), e.leaves())));
        let prefill = self.mla_prefill.iter_mut();
        all.extend(prefill.map(|(f, e)| (place("mla_prefill", f), e.leaves())));
        let decode = self.mla_decode.iter_mut();
        all.extend(decode.map(|(f, e)| (place("mla_decode", f), e.leaves())));
        let moe = self.moe.iter_mut();
        all.extend(moe.map(|(f, e)| (place("moe", f), e.leaves())));
        let small = self.small.as_mut();
        all.extend(small.map(|e| ("small".to_owned(), e.leaves())));
        let sum = self.all_reduce.as_mut();
        all.extend(sum.map(|e| ("all_reduce".to_owned(), e.leaves())));
        let named = all.into_iter().flat_map(|(place, leaves)| {
            let named = leaves.into_iter();
            named.map(move |(name, leaf)| (format!("{place}.{name}"), leaf))
        });
        named.collect()
    }

    /// With nothing but the entry at a place, such as `gemm.bf16`.
    #[must_use]
    pub fn only(mut self, wanted: &str) -> Generation {
        self.like = None;
        self.gemm.retain(|f, _| place("gemm", f) == wanted);
        self.prefill.retain(|f, _| place("prefill", f) == wanted);
        self.decode.retain(|f, _| place("decode", f) == wanted);
        self.mla_prefill
            .retain(|f, _| place("mla_prefill", f) == wanted);
        self.mla_decode
            .retain(|f, _| place("mla_decode", f) == wanted);
        self.moe.retain(|f, _| place("moe", f) == wanted);
        self.small = self.small.filter(|_| wanted == "small");
        self.all_reduce = self.all_reduce.filter(|_| wanted == "all_reduce");
        self
    }
}

/// An entry's place.
pub(super) fn place(family: &str, format: &impl Serialize) -> String {
    let format = serde_json::to_value(format).unwrap_or_default();
    format!("{family}.{}", format.as_str().unwrap_or_default())
}
