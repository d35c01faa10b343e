//! Which rank has which place in a layout, as Megatron-LM's `RankGenerator`
//! (megatron/core/parallel_state.py) numbers them.
//!
//! The order says which dimension's ranks are next to each other first. Experts have numbers of
//! their own: `cp` does not count for them, and `ep` and their data parallelism (`dp` × `cp` /
//! `ep`) take the places of `ep` and `dp`.

use super::error::{ModelError, ModelFault};
use super::layout::Layout;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A dimension of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Tensor parallelism.
    Tp,
    /// Context parallelism.
    Cp,
    /// Expert parallelism.
    Ep,
    /// Data parallelism.
    Dp,
    /// Pipeline parallelism.
    Pp,
}

impl Dimension {
    /// Megatron-LM's default order, `tp-cp-ep-dp-pp`: the first is closest.
    pub const MEGATRON: [Dimension; 5] = [
        Dimension::Tp,
        Dimension::Cp,
        Dimension::Ep,
        Dimension::Dp,
        Dimension::Pp,
    ];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::Tp => "tp",
            Dimension::Cp => "cp",
            Dimension::Ep => "ep",
            Dimension::Dp => "dp",
            Dimension::Pp => "pp",
        }
    }
}

/// Ranks that communicate with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// They split a layer.
    Tp,
    /// They split a sequence.
    Cp,
    /// They have the same part of the model and of sequences; other data.
    Dp,
    /// They have the same weights: `dp` and `cp` together, what gradients are reduced over.
    DpCp,
    /// The stages of a pipeline, in order.
    Pp,
    /// They have different experts and exchange tokens.
    Ep,
    /// They have the same experts: what experts' gradients are reduced over.
    ExpertDp,
}

/// The place of a rank: its index in each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Coordinates {
    /// In its tensor-parallel group.
    pub tp: u32,
    /// In its context-parallel group.
    pub cp: u32,
    /// In its data-parallel group.
    pub dp: u32,
    /// Its stage.
    pub pp: u32,
}

/// The place of a rank as its experts have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ExpertCoordinates {
    /// In its tensor-parallel group.
    pub tp: u32,
    /// Which experts it has.
    pub ep: u32,
    /// Which copy of them.
    pub expert_dp: u32,
    /// Its stage.
    pub pp: u32,
}

/// A mixed-radix number: sizes, the first changes fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Radix(Vec<(Dimension, u32)>);

impl Radix {
    fn size(&self, of: Dimension) -> u32 {
        let found = self.0.iter().find(|(d, _)| *d == of);
        found.map_or(1, |&(_, size)| size)
    }

    /// How far apart neighbours of a dimension are.
    fn stride(&self, of: Dimension) -> u32 {
        let inside = self.0.iter().take_while(|(d, _)| *d != of);
        inside.map(|&(_, size)| size).product()
    }

    fn index(&self, of: Dimension, rank: u32) -> u32 {
        rank / self.stride(of) % self.size(of)
    }

    /// The ranks that differ from `rank` in `dims` only, in order.
    fn group_of(&self, dims: &[Dimension], rank: u32) -> Vec<u32> {
        let mut ranks = vec![0];
        let mut base = rank;
        for &(dim, size) in self.0.iter().filter(|(d, _)| dims.contains(d)) {
            let stride = self.stride(dim);
            base -= self.index(dim, rank) * stride;
            ranks = (0..size)
                .flat_map(|i| ranks.iter().map(move |r| r + i * stride))
                .collect();
        }
        ranks.iter_mut().for_each(|r| *r += base);
        ranks.sort_unstable();
        ranks
    }
}

/// All ranks of a layout and their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankMap {
    dense: Radix,
    experts: Radix,
    world: u32,
}

impl RankMap {
    /// The ranks of `layout` in an order of dimensions, such as [`Dimension::MEGATRON`].
    ///
    /// # Errors
    /// [`ModelError::Faults`] if a dimension is named twice, or left out though it is larger
    /// than 1; if `ep` does not divide `dp` × `cp`; if experts' pipelines would differ from those
    /// of the rest; or if there are more than 2^31 ranks.
    pub fn new(layout: &Layout, order: &[Dimension]) -> Result<Self, ModelError> {
        let fault = |field: &str, found: String, expected: String| ModelError::Faults {
            faults: vec![ModelFault::new(field, found, expected)],
        };
        let written: Vec<&str> = order.iter().map(|d| d.name()).collect();
        let written = written.join("-");
        let sizes = [layout.tp, layout.cp, layout.ep, layout.dp, layout.pp];
        for (dim, size) in Dimension::MEGATRON.into_iter().zip(sizes) {
            let name = dim.name();
            if size == 0 {
                return Err(fault(name, "0".into(), "at least 1".into()));
            }
            let times = order.iter().filter(|d| **d == dim).count();
            if times > 1 || (times == 0 && size > 1) {
                let expected = format!("`{name}` once, such as tp-cp-ep-dp-pp");
                return Err(fault("order", written, expected));
            }
        }
        let world = u32::try_from(layout.world())
            .ok()
            .filter(|w| *w <= 1 << 31)
            .ok_or_else(|| {
                let expected = "a product of at most 2147483648 ranks".into();
                fault("layout", format!("{} ranks", layout.world()), expected)
            })?;
        let shared = layout.dp * layout.cp;
        if !shared.is_multiple_of(layout.ep) {
            let near = super::error::divisors_near(layout.ep.into(), shared.into());
            let expected = format!("a divisor of dp × cp ({shared}){near}");
            return Err(fault("ep", layout.ep.to_string(), expected));
        }
        let radix = |ep: u32, cp: u32, dp: u32| {
            let size = |dim: Dimension| match dim {
                Dimension::Tp => layout.tp,
                Dimension::Cp => cp,
                Dimension::Ep => ep,
                Dimension::Dp => dp,
                Dimension::Pp => layout.pp,
            };
            Radix(order.iter().map(|&d| (d, size(d))).collect())
        };
        let dense = radix(1, layout.cp, layout.dp);
        let experts = radix(layout.ep, 1, shared / layout.ep);
        let same = |dim| dense.size(dim) == 1 || dense.stride(dim) == experts.stride(dim);
        // Only a layout that has experts spread needs both numberings.
        if layout.ep > 1 && !(same(Dimension::Pp) && same(Dimension::Tp)) {
            let expected =
                "an order in which pipelines are the same for experts: `tp` first or `pp` last";
            return Err(fault("order", written, expected.into()));
        }
        Ok(RankMap {
            dense,
            experts,
            world,
        })
    }

    /// How many ranks there are.
    #[must_use]
    pub fn world(&self) -> u32 {
        self.world
    }

    /// The place of a rank; none if there is no such rank.
    #[must_use]
    pub fn coordinates(&self, rank: u32) -> Option<Coordinates> {
        let index = |dim| self.dense.index(dim, rank);
        (rank < self.world).then(|| Coordinates {
            tp: index(Dimension::Tp),
            cp: index(Dimension::Cp),
            dp: index(Dimension::Dp),
            pp: index(Dimension::Pp),
        })
    }

    /// The place of a rank as its experts have it; none if there is no such rank.
    #[must_use]
    pub fn expert_coordinates(&self, rank: u32) -> Option<ExpertCoordinates> {
        let index = |dim| self.experts.index(dim, rank);
        (rank < self.world).then(|| ExpertCoordinates {
            tp: index(Dimension::Tp),
            ep: index(Dimension::Ep),
            expert_dp: index(Dimension::Dp),
            pp: index(Dimension::Pp),
        })
    }

    /// The rank at a place; none if the layout has no such place.
    #[must_use]
    pub fn rank(&self, at: Coordinates) -> Option<u32> {
        let places = [
            (Dimension::Tp, at.tp),
            (Dimension::Cp, at.cp),
            (Dimension::Dp, at.dp),
            (Dimension::Pp, at.pp),
        ];
        let mut rank = 0;
        for (dim, index) in places {
            if self.dense.size(dim) <= index {
                return None;
            }
            // A dimension of size 1 may be left out of the order: its index is 0.
            rank += index * self.dense.stride(dim);
        }
        Some(rank)
    }

    /// The group of a kind that a rank is in, in order of the ranks; none if there is no such
    /// rank.
    #[must_use]
    pub fn group_of(&self, group: Group, rank: u32) -> Option<Vec<u32>> {
        let (radix, dims) = self.spanned(group);
        (rank < self.world).then(|| radix.group_of(dims, rank))
    }

    /// All groups of a kind, in order of their first ranks.
    #[must_use]
    pub fn groups(&self, group: Group) -> Vec<Vec<u32>> {
        let (radix, dims) = self.spanned(group);
        (0..self.world)
            .filter(|&rank| dims.iter().all(|&dim| radix.index(dim, rank) == 0))
            .map(|rank| radix.group_of(dims, rank))
            .collect()
    }

    fn spanned(&self, group: Group) -> (&Radix, &'static [Dimension]) {
        match group {
            Group::Tp => (&self.dense, &[Dimension::Tp]),
            Group::Cp => (&self.dense, &[Dimension::Cp]),
            Group::Dp => (&self.dense, &[Dimension::Dp]),
            Group::DpCp => (&self.dense, &[Dimension::Dp, Dimension::Cp]),
            Group::Pp => (&self.dense, &[Dimension::Pp]),
            Group::Ep => (&self.experts, &[Dimension::Ep]),
            Group::ExpertDp => (&self.experts, &[Dimension::Dp]),
        }
    }
}
