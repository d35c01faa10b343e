//! A store of KV blocks below the GPUs' memory: which blocks it has, by name, and which it gives up first.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Blocks that are kept by name; the one that was used longest ago is given up first.
#[derive(Debug, Clone, Default)]
pub struct Store {
    blocks: u64,
    used: FxHashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    clock: u64,
}

impl Store {
    /// An empty one that holds so many blocks.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        Store {
            blocks,
            ..Store::default()
        }
    }

    /// Whether it has a block.
    #[must_use]
    pub fn has(&self, name: u64) -> bool {
        self.used.contains_key(&name)
    }

    /// How many blocks it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// A block was used; `false` if it is not there.
    pub fn touch(&mut self, name: u64) -> bool {
        let Some(at) = self.used.get_mut(&name) else {
            return false;
        };
        self.by_use.remove(at);
        self.clock += 1;
        *at = self.clock;
        self.by_use.insert(self.clock, name);
        true
    }

    /// Takes a block that is not there; the one that it gives up for it, if it is full.
    pub fn insert(&mut self, name: u64) -> Option<u64> {
        self.clock += 1;
        self.used.insert(name, self.clock);
        self.by_use.insert(self.clock, name);
        if self.used.len() as u64 <= self.blocks {
            return None;
        }
        let (_, given_up) = self.by_use.pop_first()?;
        self.used.remove(&given_up);
        Some(given_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_was_used_longest_ago_is_given_up() {
        let mut store = Store::new(2);
        assert_eq!((store.insert(1), store.insert(2)), (None, None));
        assert!(store.touch(1) && !store.touch(3));
        assert_eq!(store.insert(3), Some(2));
        assert!(store.has(1) && store.has(3) && !store.has(2));
        assert_eq!(store.len(), 2);
        // One that holds nothing gives back what it gets.
        assert_eq!(Store::new(0).insert(7), Some(7));
    }
}
