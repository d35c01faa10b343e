//! Where ranks and switches are in a picture: on a circle, or, where there are trees, level by level.

use super::Followed;
use super::passage::End;
use fabricsim_report::explanation::{Switch, TreeOf, TreeView};
use fabricsim_report::lesson::PlaceOf;
use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::TAU;

/// Half of a picture's side, and the circle of ranks in it.
const HALF: f64 = 200.0;
const RADIUS: f64 = 160.0;
/// The largest rank.
const RANK: f64 = 22.0;
/// From a tree's edge to the middle of its outermost ranks.
const MARGIN: f64 = 44.0;
/// Between levels, at most.
const LEVEL: f64 = 104.0;
/// Above trees that have names.
const HEADING: f64 = 24.0;

/// Where ranks and switches are.
pub(super) struct Places {
    /// Width and height of the picture.
    pub(super) size: (f64, f64),
    /// Words above parts of the picture: the middle, and the text.
    pub(super) headings: Vec<(f64, String)>,
    /// Ranks in order, of several trees once for each; then switches.
    pub(super) places: Vec<PlaceOf>,
    ranks: u32,
    trees: usize,
    switches: BTreeMap<Switch, u32>,
}

impl Places {
    pub(super) fn of(followed: &Followed, ranks: u32) -> Places {
        let trees = &followed.built.trees;
        if !trees.is_empty() && trees.iter().all(|tree| tree.of == TreeOf::Ranks) {
            return Places::by_levels(trees, ranks);
        }
        Places::on_circle(followed, ranks)
    }

    /// Ranks on a circle, those of a node together; switches amid the ranks that they join.
    fn on_circle(followed: &Followed, ranks: u32) -> Places {
        let nodes = followed.nodes;
        let local = ranks / nodes.max(1);
        // Between nodes there is room of most of a rank.
        let gap = if nodes > 1 && local > 1 { 0.8 } else { 0.0 };
        let round = f64::from(ranks) + gap * f64::from(nodes);
        let on = |radius: f64, rank: f64, node: f64| {
            let angle = TAU * (rank + gap * node) / round - TAU / 4.0;
            (HALF + radius * angle.cos(), HALF + radius * angle.sin())
        };
        let size = (RADIUS * TAU / round * 0.36).clamp(6.0, RANK);
        let mut places: Vec<PlaceOf> = (0..ranks)
            .map(|rank| {
                let at = on(RADIUS, f64::from(rank), f64::from(rank / local.max(1)));
                place_of(rank, at, size)
            })
            .collect();
        let ends = followed.sent.iter().flatten();
        let met = ends
            .flat_map(|s| [s.from.switch(), s.to.switch()])
            .flatten();
        let mut switches = BTreeMap::new();
        for switch in met.collect::<BTreeSet<_>>() {
            let (x, y) = match switch {
                Switch::Node(node) if nodes > 1 => {
                    let middle = f64::from(node * local) + (f64::from(local) - 1.0) / 2.0;
                    on(RADIUS * 0.5, middle, f64::from(node))
                }
                Switch::Node(_) | Switch::Network => (HALF, HALF),
            };
            switches.insert(switch, places.len() as u32);
            places.push(PlaceOf {
                x: tenth(x),
                y: tenth(y),
                size: 26.0,
                label: match switch {
                    Switch::Node(_) => "NVSwitch".to_owned(),
                    Switch::Network => "switch".to_owned(),
                },
                rank: None,
                switch: Some(switch),
            });
        }
        Places {
            size: (2.0 * HALF, 2.0 * HALF),
            headings: Vec::new(),
            places,
            ranks,
            trees: 0,
            switches,
        }
    }

    /// Each tree with its root on top, several beside each other: a rank is once in each.
    fn by_levels(trees: &[TreeView], ranks: u32) -> Places {
        let grown: Vec<Grown> = trees.iter().map(Grown::of).collect();
        let deepest = grown.iter().map(Grown::depth).max().unwrap_or(0);
        let level = (2.0 * RADIUS / f64::from(deepest.max(1))).min(LEVEL);
        let wide = 2.0 * HALF;
        let several = trees.len() > 1;
        let top = if several { MARGIN + HEADING } else { MARGIN };
        let mut places = Vec::new();
        let mut headings = Vec::new();
        for (index, tree) in grown.iter().enumerate() {
            let left = wide * index as f64;
            let slots = tree.slots.max(1);
            let pitch = (wide - 2.0 * MARGIN) / f64::from((slots - 1).max(1));
            let size = (pitch.min(level) * 0.36).clamp(4.0, RANK);
            places.extend((0u32..).zip(&tree.at).map(|(rank, &(slot, depth))| {
                let x = if slots == 1 {
                    left + HALF
                } else {
                    left + MARGIN + pitch * slot
                };
                place_of(rank, (x, top + level * f64::from(depth)), size)
            }));
            if several {
                headings.push((left + HALF, format!("tree {}", index + 1)));
            }
        }
        Places {
            size: (
                wide * trees.len() as f64,
                tenth(top + level * f64::from(deepest) + MARGIN),
            ),
            headings,
            places,
            ranks,
            trees: trees.len(),
            switches: BTreeMap::new(),
        }
    }

    /// The place of an end of a message that goes over this channel: of trees there is one for each.
    pub(super) fn at(&self, end: End, channel: u16) -> u32 {
        match end {
            End::Rank(rank) if self.trees > 1 => u32::from(channel) * self.ranks + rank,
            End::Rank(rank) => rank,
            End::Switch(switch) => self.switches.get(&switch).copied().unwrap_or(0),
        }
    }
}

/// A tree whose leaves have a slot each, and what is above them stands over the middle of its children.
struct Grown {
    /// By rank: slot, and level below the root.
    at: Vec<(f64, u32)>,
    slots: u32,
}

impl Grown {
    fn of(tree: &TreeView) -> Grown {
        let mut children = vec![Vec::new(); tree.parents.len()];
        let mut root = 0;
        for (rank, parent) in (0u32..).zip(&tree.parents) {
            match parent {
                Some(parent) => children[*parent as usize].push(rank),
                None => root = rank,
            }
        }
        let mut grown = Grown {
            at: vec![(0.0, 0); tree.parents.len()],
            slots: 0,
        };
        grown.put(&children, root, 0);
        grown
    }

    /// Puts a rank above those that hang on it; its slot.
    fn put(&mut self, children: &[Vec<u32>], rank: u32, level: u32) -> f64 {
        let mine = &children[rank as usize];
        let below = mine
            .iter()
            .map(|&child| self.put(children, child, level + 1));
        let below: Vec<f64> = below.collect();
        let slot = match (below.first(), below.last()) {
            (Some(first), Some(last)) => f64::midpoint(*first, *last),
            _ => {
                self.slots += 1;
                f64::from(self.slots - 1)
            }
        };
        self.at[rank as usize] = (slot, level);
        slot
    }

    fn depth(&self) -> u32 {
        self.at.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }
}

fn place_of(rank: u32, (x, y): (f64, f64), size: f64) -> PlaceOf {
    PlaceOf {
        x: tenth(x),
        y: tenth(y),
        size: tenth(size),
        label: rank.to_string(),
        rank: Some(rank),
        switch: None,
    }
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
