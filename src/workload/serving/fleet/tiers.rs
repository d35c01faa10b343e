//! Blocks of KV cache below the GPUs' memory: in the hosts' memory, on drives and file servers.
//!
//! A request that waits, and whose first blocks a tier has, gets GPU blocks for its whole prompt and waits until
//! they have been read into them (vLLM's `WAITING_FOR_REMOTE_KVS`); then it is let in before others. What the
//! GPUs' caches give up (or, written through, what they come to have) goes to the first tier, what that gives up
//! to the next. Blocks that are read stay in their tier. Left out: a block counts as there as soon as it begins to be
//! written; of two requests that miss the same blocks each reads them.

use super::{Fleet, Leg, Purpose, Role};
use crate::serving::blocks::Tell;
use crate::serving::pass_time::{Chunk, PassShape};
use crate::serving::record::TierRecord;
use crate::serving::store::Store;
use fabricsim_plan::job::Batch;
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// When blocks that a tier has are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reload {
    /// Always.
    #[default]
    Always,
    /// If that takes less time, on links that nobody else uses, than to compute them again.
    Cost,
}

/// When blocks are written to the first tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TierWrite {
    /// When the GPUs' cache gives them up.
    #[default]
    Evicted,
    /// As soon as they are computed.
    Computed,
}

impl TierWrite {
    /// What a pool tells of for it.
    #[must_use]
    pub const fn tell(self) -> Tell {
        match self {
            TierWrite::Evicted => Tell::Lost,
            TierWrite::Computed => Tell::Named,
        }
    }
}

/// The tiers of all engines.
#[derive(Debug, Clone, Default)]
pub struct Tiers {
    /// When blocks are read.
    pub reload: Reload,
    /// When blocks are written.
    pub write: TierWrite,
    /// What starting to read takes, beside what moves.
    pub setup: Time,
    /// What tiers are kept in: an engine's own memory of the host, or drives that engines share.
    pub stores: Vec<Store>,
    /// By engine: its tiers, the one that is looked into first at the beginning. Empty: no engine has any.
    pub levels: Vec<Vec<Level>>,
}

/// A tier of an engine.
#[derive(Debug, Clone)]
pub struct Level {
    /// Which of [`Tiers::stores`].
    pub store: usize,
    /// By part of data-parallel attention: from the store to the GPUs.
    pub read: Vec<Way>,
    /// Into the store: from the GPUs, or from the tier before.
    pub write: Vec<Way>,
}

/// A way between a store and the GPUs of a part of an engine.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// What each GPU reads or writes.
    pub legs: Vec<Leg>,
    /// Until the first byte is there.
    pub latency: Time,
    /// Seconds for each token, on links that nobody else uses.
    pub per_token: f64,
}

/// A request whose blocks are being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    engine: u32,
    part: u16,
    id: u32,
    legs: u32,
    /// Tokens that the GPUs will have.
    tokens: u32,
    begun: Time,
}

/// Blocks of a request in each tier, from those on that the GPUs have.
type Found = SmallVec<[u32; 4]>;

/// What came of looking for a request's blocks.
enum Sought {
    /// There are none to read.
    Nothing,
    /// They are being read.
    Reads,
    /// There is no room to read them into.
    Full,
}

impl Fleet<'_> {
    /// Whether an engine has tiers.
    pub(super) fn has_tiers(&self, engine: u32) -> bool {
        let levels = self.tiers.levels.get(engine as usize);
        levels.is_some_and(|levels| !levels.is_empty())
    }

    /// Requests that wait, and that could be let in now, have the blocks read that tiers have of them.
    pub(super) fn reload(&mut self, engine: u32, now: Time, out: &mut Batch) {
        for part in 0..self.workers[engine as usize].engine.parts.len() {
            self.prefer_holders(engine, part);
            let mut place = 0;
            loop {
                let scheduler = &mut self.workers[engine as usize].engine.parts[part];
                let room =
                    scheduler.running.len() + place < scheduler.limits.max_sequences as usize;
                let Some(&id) = scheduler.waiting.get(place).filter(|_| room) else {
                    break;
                };
                let live = scheduler.live(id);
                // The first one is looked up again: what it lacks may have come to a tier since.
                if live.held.count() > 0 || (place > 0 && live.sought) {
                    place += 1;
                    continue;
                }
                match self.seek((engine, part as u16, id), now, out) {
                    Sought::Nothing => place += 1,
                    Sought::Reads => {
                        let scheduler = &mut self.workers[engine as usize].engine.parts[part];
                        scheduler.waiting.remove(place);
                    }
                    Sought::Full => {
                        let scheduler = &mut self.workers[engine as usize].engine.parts[part];
                        scheduler.barred = Some(id);
                        break;
                    }
                }
            }
        }
    }

    /// If nothing runs, one that has blocks goes first: those before it may wait for its blocks.
    fn prefer_holders(&mut self, engine: u32, part: usize) {
        let scheduler = &mut self.workers[engine as usize].engine.parts[part];
        scheduler.barred = None;
        if !scheduler.running.is_empty() {
            return;
        }
        if let Some(holder) = scheduler.holder().filter(|&place| place > 0)
            && let Some(id) = scheduler.waiting.remove(holder)
        {
            scheduler.waiting.push_front(id);
        }
    }

    /// Looks for the blocks of a request, and begins to read them if it pays.
    fn seek(&mut self, (engine, part, id): (u32, u16, u32), now: Time, out: &mut Batch) -> Sought {
        let worker = &mut self.workers[engine as usize];
        let policy = worker.engine.policy;
        let scheduler = &mut worker.engine.parts[usize::from(part)];
        let live = scheduler.live(id);
        let (request, tokens, needed) = (live.request, live.tokens, policy.needed(live));
        let is_new = !live.sought;
        scheduler.live_mut(id).sought = true;
        let of = &self.requests[request as usize];
        let known = scheduler.known_prefix(id, of);
        let block_tokens = scheduler.pool.block_tokens();
        let levels = &self.tiers.levels[engine as usize];
        let mut found: Found = levels.iter().map(|_| 0).collect();
        let name = |block| of.block_name(request, block, block_tokens);
        for block in known / block_tokens..(tokens - 1) / block_tokens {
            let name = name(block);
            let has = |level: &super::Level| self.tiers.stores[level.store].has(name);
            let Some(level) = levels.iter().position(has) else {
                break;
            };
            found[level] += 1;
        }
        let blocks: u32 = found.iter().sum();
        if blocks == 0 {
            return Sought::Nothing;
        }
        let there = blocks * block_tokens;
        if !self.pays((engine, part), (known, there, tokens), &found) {
            for (record, &blocks) in self.served.tiers.iter_mut().zip(&found) {
                record.recomputed += u64::from(is_new) * u64::from(blocks * block_tokens);
            }
            return Sought::Nothing;
        }
        let scheduler = &mut self.workers[engine as usize].engine.parts[usize::from(part)];
        let of = &self.requests[request as usize];
        scheduler.take_prefix(id, of);
        if !scheduler.grow(id, needed) {
            scheduler.give_back(id);
            return Sought::Full;
        }
        // The last blocks are given up first.
        for block in (known / block_tokens..known / block_tokens + blocks).rev() {
            let name = of.block_name(request, block, block_tokens);
            let levels = &self.tiers.levels[engine as usize];
            let stores = &mut self.tiers.stores;
            levels.iter().any(|level| stores[level.store].touch(name));
        }
        let record = &mut self.served.records[request as usize];
        if record.scheduled.is_none() {
            record.reload_begun = Some(now);
        }
        let reading = Reading {
            engine,
            part,
            id,
            legs: 0,
            tokens: known + there,
            begun: now,
        };
        self.read(reading, &found, out);
        Sought::Reads
    }

    /// Whether to read takes less time than to compute.
    fn pays(
        &mut self,
        (engine, part): (u32, u16),
        (known, there, tokens): (u32, u32, u32),
        found: &Found,
    ) -> bool {
        if self.tiers.reload == Reload::Always {
            return true;
        }
        let worker = &self.workers[engine as usize];
        let block_tokens = worker.engine.parts[usize::from(part)].pool.block_tokens();
        let mut reading = self.tiers.setup;
        for (level, &blocks) in self.tiers.levels[engine as usize].iter().zip(found) {
            if blocks > 0 {
                let way = &level.read[usize::from(part)];
                let seconds = way.per_token * f64::from(blocks * block_tokens);
                reading += way.latency + Time::from_picos((seconds * 1e12).round() as u64);
            }
        }
        let parts = worker.engine.parts.len();
        let mut shapes = vec![PassShape::default(); parts];
        let mut computing = |context: u32| {
            let shape = &mut shapes[usize::from(part)];
            shape.prompts.clear();
            shape.prompts.push(Chunk {
                context,
                tokens: tokens - context,
            });
            shape.emits = 1;
            self.cost.estimate(engine as usize, &shapes)
        };
        let (all, rest) = (computing(known), computing(known + there));
        reading < all.saturating_sub(rest)
    }

    /// The blocks of a request begin to be read.
    fn read(&mut self, mut reading: Reading, found: &Found, out: &mut Batch) {
        let number = self.reading.len() as u32;
        let part = usize::from(reading.part);
        let worker = &self.workers[reading.engine as usize];
        let block_tokens = u64::from(worker.engine.parts[part].pool.block_tokens());
        let (setup, engine) = (self.tiers.setup, reading.engine as usize);
        for (level, &blocks) in found.iter().enumerate() {
            if blocks == 0 {
                continue;
            }
            let legs = self.tiers.levels[engine][level].read[part].legs.clone();
            let record = &mut self.served.tiers[level];
            record.reads += 1;
            record.hits += u64::from(blocks) * block_tokens;
            for leg in legs {
                let bytes = u64::from(blocks) * block_tokens * leg.bytes_per_token;
                self.served.tiers[level].read += bytes;
                reading.legs += 1;
                let purpose = Some(Purpose::Reading { number });
                self.send_leg(leg, (bytes, blocks), (setup, purpose), out);
            }
        }
        self.reading.push(reading);
    }

    /// A GPU has read its part of a request's blocks.
    pub(super) fn read_over(&mut self, number: u32, now: Time) {
        let reading = &mut self.reading[number as usize];
        reading.legs -= 1;
        let reading = *reading;
        if reading.legs > 0 {
            return;
        }
        let worker = &mut self.workers[reading.engine as usize];
        let scheduler = &mut worker.engine.parts[usize::from(reading.part)];
        let request = scheduler.live(reading.id).request;
        scheduler.is_reloaded(reading.id, reading.tokens, &self.requests[request as usize]);
        scheduler.waiting.push_front(reading.id);
        let record = &mut self.served.records[request as usize];
        if record.scheduled.is_none() {
            record.reloaded = Some(now);
        }
        self.served.reloads.push(now.saturating_sub(reading.begun));
        self.touch(reading.engine);
    }

    /// What the GPUs' caches tell of goes to the first tier, what that gives up to the next.
    pub(super) fn write_back(&mut self, engine: u32, out: &mut Batch) {
        for part in 0..self.workers[engine as usize].engine.parts.len() {
            let mut names = std::mem::take(&mut self.names);
            names.clear();
            let pool = &mut self.workers[engine as usize].engine.parts[part].pool;
            let block_tokens = u64::from(pool.block_tokens());
            pool.told(&mut names);
            if self.tiers.write == TierWrite::Computed {
                // The last blocks of a prompt are to be given up first.
                names.reverse();
            }
            for level in 0..self.tiers.levels[engine as usize].len() {
                if names.is_empty() {
                    break;
                }
                let of = &self.tiers.levels[engine as usize][level];
                let store = &mut self.tiers.stores[of.store];
                let (mut written, mut kept) = (0u32, 0);
                for place in 0..names.len() {
                    let name = names[place];
                    if store.touch(name) {
                        continue;
                    }
                    written += 1;
                    if let Some(given_up) = store.insert(name) {
                        names[kept] = given_up;
                        kept += 1;
                    }
                }
                names.truncate(kept);
                let record = &mut self.served.tiers[level];
                record.given_up += kept as u64;
                let legs = match written {
                    0 => Vec::new(),
                    _ => of.write[part].legs.clone(),
                };
                for leg in legs {
                    let bytes = u64::from(written) * block_tokens * leg.bytes_per_token;
                    self.served.tiers[level].written += bytes;
                    self.send_leg(leg, (bytes, written), (Time::ZERO, None), out);
                }
            }
            self.names = names;
        }
    }

    /// Tiers that engines have at most: for records.
    pub(super) fn tier_records(&self) -> Vec<TierRecord> {
        let most = self.tiers.levels.iter().map(Vec::len).max().unwrap_or(0);
        vec![TierRecord::default(); most]
    }
}

/// Whether engines of such a role have tiers: those that compute prompts.
#[must_use]
pub const fn has_tiers(role: Role) -> bool {
    !matches!(role, Role::Decode)
}
