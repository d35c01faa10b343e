//! The KV cache of one engine: blocks of so many tokens, as vLLM's block pool keeps them
//! (`v1/core/block_pool.py`, `kv_cache_manager.py`).
//!
//! Without a prefix cache blocks are only counted. With one each full block has a name (see
//! [`super::request::Request::block_name`]); a block that nobody holds any more keeps what it has until it is
//! needed, the one that was let go first before others.

use rustc_hash::FxHashMap;

/// Blocks that a request holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    count: u32,
    /// Which, in the order of its tokens; empty without a prefix cache.
    ids: Vec<u32>,
    /// How many of them have a name.
    named: u32,
}

impl Held {
    /// How many blocks.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// The blocks of an engine.
#[derive(Debug, Clone)]
pub struct BlockPool {
    block_tokens: u32,
    total: u32,
    free: u32,
    cache: Option<Cache>,
}

/// Of which blocks a pool tells the names, for tiers below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tell {
    /// Of none.
    #[default]
    Nothing,
    /// Of those that are taken for something else.
    Lost,
    /// Of those that get their name.
    Named,
}

/// Which block holds what.
#[derive(Debug, Clone, Default)]
struct Cache {
    blocks: Vec<Block>,
    by_name: FxHashMap<u64, u32>,
    tell: Tell,
    told: Vec<u64>,
    /// Free blocks, linked from the one that is taken first to the one that is taken last.
    first: Option<u32>,
    last: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    name: Option<u64>,
    holders: u32,
    before: Option<u32>,
    after: Option<u32>,
}

impl BlockPool {
    /// So many blocks of so many tokens, all of them free.
    #[must_use]
    pub fn new(total: u32, block_tokens: u32, prefix_cache: bool) -> Self {
        let cache = prefix_cache.then(|| {
            let mut cache = Cache {
                blocks: vec![Block::default(); total as usize],
                ..Cache::default()
            };
            (0..total).for_each(|id| cache.put_back(id));
            cache
        });
        BlockPool {
            block_tokens: block_tokens.max(1),
            total,
            free: total,
            cache,
        }
    }

    /// Tells the names of such blocks from now on; without a prefix cache none has a name.
    #[must_use]
    pub fn telling(mut self, tell: Tell) -> Self {
        if let Some(cache) = &mut self.cache {
            cache.tell = tell;
        }
        self
    }

    /// The names of blocks that are told of, since this was last asked: added to `names`, in the order in
    /// which they were lost or named.
    pub fn told(&mut self, names: &mut Vec<u64>) {
        if let Some(cache) = &mut self.cache {
            names.append(&mut cache.told);
        }
    }

    /// Tokens of a block.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// All blocks.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Blocks that nobody holds.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Whether prefixes are kept.
    #[must_use]
    pub fn keeps_prefixes(&self) -> bool {
        self.cache.is_some()
    }

    /// Blocks for so many tokens.
    #[must_use]
    pub fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens)
    }

    /// Makes `held` large enough for so many tokens; `false`, and nothing changes, if too few blocks
    /// are free.
    pub fn grow(&mut self, held: &mut Held, tokens: u32) -> bool {
        let more = self.blocks_for(tokens).saturating_sub(held.count);
        if more > self.free {
            return false;
        }
        self.free -= more;
        held.count += more;
        if let Some(cache) = &mut self.cache {
            for _ in 0..more {
                held.ids.extend(cache.take_first());
            }
        }
        true
    }

    /// How many of the first blocks, by their names, are there.
    #[must_use]
    pub fn known(&self, names: impl Iterator<Item = u64>) -> u32 {
        let Some(cache) = &self.cache else { return 0 };
        let mut names = names;
        let mut known = 0;
        while names
            .next()
            .is_some_and(|name| cache.by_name.contains_key(&name))
        {
            known += 1;
        }
        known
    }

    /// Of the first blocks, by their names, how many nobody holds: they count against what is free when
    /// they are taken.
    #[must_use]
    pub fn idle_of(&self, names: impl Iterator<Item = u64>) -> u32 {
        let Some(cache) = &self.cache else { return 0 };
        let held_by_none = |name| {
            let id = cache.by_name.get(&name)?;
            (cache.blocks[*id as usize].holders == 0).then_some(())
        };
        names.filter_map(held_by_none).count() as u32
    }

    /// Takes blocks that are known by their names, for a request that holds none.
    pub fn take_known(&mut self, held: &mut Held, names: impl Iterator<Item = u64>) {
        let Some(cache) = &mut self.cache else { return };
        for name in names {
            let Some(&id) = cache.by_name.get(&name) else {
                return;
            };
            if cache.blocks[id as usize].holders == 0 {
                cache.unlink(id);
                self.free -= 1;
            }
            cache.blocks[id as usize].holders += 1;
            held.ids.push(id);
            held.count += 1;
            held.named += 1;
        }
    }

    /// Full blocks get their names: those of the first `tokens` tokens that have none.
    pub fn name_full(&mut self, held: &mut Held, tokens: u32, name: impl Fn(u32) -> u64) {
        let Some(cache) = &mut self.cache else { return };
        let full = (tokens / self.block_tokens).min(held.count);
        while held.named < full {
            let (name, id) = (name(held.named), held.ids[held.named as usize]);
            // The first block of a name is the one that others find.
            if let std::collections::hash_map::Entry::Vacant(free) = cache.by_name.entry(name) {
                free.insert(id);
                cache.blocks[id as usize].name = Some(name);
                if cache.tell == Tell::Named {
                    cache.told.push(name);
                }
            }
            held.named += 1;
        }
    }

    /// Lets all blocks go; the last of them are taken again first.
    pub fn release(&mut self, held: &mut Held) {
        if let Some(cache) = &mut self.cache {
            for &id in held.ids.iter().rev() {
                let block = &mut cache.blocks[id as usize];
                block.holders -= 1;
                if block.holders == 0 {
                    cache.put_back(id);
                    self.free += 1;
                }
            }
        } else {
            self.free += held.count;
        }
        *held = Held::default();
    }
}

impl Cache {
    /// The free block that is taken first; what it held is forgotten.
    fn take_first(&mut self) -> Option<u32> {
        let id = self.first?;
        self.unlink(id);
        let block = &mut self.blocks[id as usize];
        block.holders = 1;
        if let Some(name) = block.name.take() {
            self.by_name.remove(&name);
            if self.tell == Tell::Lost {
                self.told.push(name);
            }
        }
        Some(id)
    }

    /// A block becomes the last of the free ones.
    fn put_back(&mut self, id: u32) {
        let before = self.last.replace(id);
        let block = &mut self.blocks[id as usize];
        (block.before, block.after) = (before, None);
        match before {
            Some(before) => self.blocks[before as usize].after = Some(id),
            None => self.first = Some(id),
        }
    }

    /// A block is no longer among the free ones.
    fn unlink(&mut self, id: u32) {
        let Block { before, after, .. } = self.blocks[id as usize];
        match before {
            Some(before) => self.blocks[before as usize].after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => self.blocks[after as usize].before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_blocks_are_taken_and_let_go() {
        let mut pool = BlockPool::new(10, 16, false);
        let (mut a, mut b) = (Held::default(), Held::default());
        assert!(pool.grow(&mut a, 97)); // 7 blocks
        assert!(!pool.grow(&mut b, 64));
        assert_eq!((a.count(), b.count(), pool.free()), (7, 0, 3));
        assert!(pool.grow(&mut b, 48) && pool.grow(&mut b, 40));
        assert_eq!(pool.free(), 0);
        pool.release(&mut a);
        assert_eq!(pool.free(), 7);
    }

    #[test]
    fn what_was_let_go_is_found_until_its_block_is_needed() {
        let mut pool = BlockPool::new(4, 16, true);
        let name = |owner: u64| move |block: u32| owner * 100 + u64::from(block);
        let mut a = Held::default();
        assert!(pool.grow(&mut a, 40));
        pool.name_full(&mut a, 40, name(1)); // two full blocks, one with 8 tokens
        assert_eq!(pool.known((0..3).map(name(1))), 2);
        pool.release(&mut a);
        assert_eq!((pool.free(), pool.known((0..3).map(name(1)))), (4, 2));
        // Another takes the first two blocks, and shares them with a third.
        let (mut b, mut c) = (Held::default(), Held::default());
        assert_eq!(pool.idle_of((0..2).map(name(1))), 2);
        pool.take_known(&mut b, (0..2).map(name(1)));
        assert_eq!(pool.idle_of((0..2).map(name(1))), 0);
        pool.take_known(&mut c, (0..2).map(name(1)));
        assert_eq!((b.count(), c.count(), pool.free()), (2, 2, 2));
        assert!(!pool.grow(&mut b, 80));
        pool.release(&mut b);
        assert_eq!(pool.free(), 2);
        pool.release(&mut c);
        // The last blocks of a request are taken again first: its beginning lasts longest.
        let mut d = Held::default();
        assert!(pool.grow(&mut d, 48));
        assert_eq!(pool.known((0..3).map(name(1))), 1);
        assert!(pool.grow(&mut d, 64));
        assert_eq!(pool.known((0..3).map(name(1))), 0);
    }
}
