//! Connections' buffers: slots that go from sender to receiver and back as credits.
//!
//! A queue is kept as times: when each slice is visible to the receiver, and when each
//! slot is free again for the sender. Both are known as soon as the other side has
//! acted, even if they lie in the future, so a waiting actor needs one event, not one for
//! each arrival.

use super::probe::ActorId;
use fabricsim_units::Time;

/// A queue, an index into the engine's table.
pub type FifoId = u32;

/// Most slots that a connection's buffer has (NCCL: 8 steps).
pub(super) const MAX_SLOTS: usize = 8;

/// Most slots that a queue has, where more than its buffer's may be under way.
pub(super) const MOST_SLOTS: u32 = u8::MAX as u32;

/// A bounded queue of slices between two actors; its slots' times are in [`Fifos`].
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Fifo {
    from: ActorId,
    to: ActorId,
    /// Slices put in and taken out so far.
    posted: u64,
    taken: u64,
    /// The receiver waits for the next slice; the sender for a free slot.
    receiver_waits: bool,
    sender_waits: bool,
    /// The other end is simulated elsewhere: it has to be told.
    far: bool,
    slots: u8,
    /// Slot of the next slice to post and to take: `posted` and `taken` modulo the slots.
    post_slot: u8,
    take_slot: u8,
    /// Where its times are, if it has more slots than others.
    deep_at: u32,
    /// Where the sizes of its slices are, if its receiver (a proxy) has to ask for them.
    lens_at: u32,
    /// From posting to being visible, and from freeing to being free.
    latency: Time,
    credit_latency: Time,
    /// Payload so far.
    bytes: u64,
}

/// A cache line of times.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([Time; MAX_SLOTS]);

/// No sizes are kept.
const NO_LENS: u32 = u32::MAX;

/// Its times are where those of most are.
const SHALLOW: u32 = u32::MAX;

/// No slice is known.
const UNKNOWN: u32 = super::path::NOTHING;

/// All queues of a simulation; but for deep ones each has the same number of slots.
#[derive(Debug, Clone)]
pub(super) struct Fifos {
    slots: u8,
    all: Vec<Fifo>,
    /// For each queue the times at which its slots are visible, then those at which they
    /// are free: in one cache line with up to four slots, else in one each.
    times: Vec<Line>,
    /// The same of deep queues.
    deep: Vec<Time>,
    lens: Vec<u64>,
    /// If a critical path is kept: which slice filled each slot last, then which freed it, and where
    /// those of each queue are.
    by: Vec<u32>,
    by_at: Vec<u32>,
    /// Actors from this one on prepare a slice, once it is there, for up to `preparing` before it
    /// moves: so long a time that is over matters at their queues.
    preparers: ActorId,
    preparing: Time,
    /// What other ends have to be told.
    pub(super) news: Vec<News>,
}

/// What one end of a queue did, for the other one.
#[derive(Debug, Clone, Copy)]
pub(super) struct News {
    pub(super) fifo: FifoId,
    /// When the slice is visible, or the slot free.
    pub(super) at: Time,
    /// Bytes of a slice that was put in; of one that was taken out nothing.
    pub(super) put: Option<u64>,
    /// The slice that did it, if a critical path is kept.
    pub(super) by: u32,
}

impl Fifos {
    pub(super) fn new(slots: u32) -> Self {
        let slots = slots.clamp(1, MAX_SLOTS as u32) as u8;
        Fifos {
            slots,
            all: Vec::new(),
            times: Vec::new(),
            deep: Vec::new(),
            lens: Vec::new(),
            by: Vec::new(),
            by_at: Vec::new(),
            preparers: ActorId::MAX,
            preparing: Time::ZERO,
            news: Vec::new(),
        }
    }

    /// From now on it is kept which slice filled and freed each slot last.
    pub(super) fn track(&mut self) {
        self.by_at.clear();
        self.by.clear();
        for id in 0..self.all.len() {
            self.by_at.push(self.by.len() as u32);
            let slots = usize::from(self.all[id].slots);
            self.by.resize(self.by.len() + 2 * slots, UNKNOWN);
        }
    }

    fn tracks(&self) -> bool {
        !self.by.is_empty()
    }

    /// The slice that posted the receiver's next one.
    #[inline]
    pub(super) fn posted_by(&self, id: FifoId) -> u32 {
        let fifo = &self.all[id as usize];
        self.by_slot(id, usize::from(fifo.take_slot))
    }

    /// The slice whose being taken freed the sender's next slot.
    #[inline]
    pub(super) fn freed_by(&self, id: FifoId) -> u32 {
        let fifo = &self.all[id as usize];
        self.by_slot(id, usize::from(fifo.slots) + usize::from(fifo.post_slot))
    }

    #[inline]
    fn by_slot(&self, id: FifoId, slot: usize) -> u32 {
        let at = self.by_at.get(id as usize).map(|&at| at as usize + slot);
        at.and_then(|at| self.by.get(at))
            .copied()
            .unwrap_or(UNKNOWN)
    }

    /// Actors from `first` on need up to `most` before a slice that is there moves.
    pub(super) fn set_preparing(&mut self, first: ActorId, most: Time) {
        (self.preparers, self.preparing) = (first, most);
    }

    /// How long after a time of a queue of `actor` it still matters.
    #[inline]
    pub(super) fn preparing(&self, actor: ActorId) -> Time {
        if actor >= self.preparers {
            self.preparing
        } else {
            Time::ZERO
        }
    }

    /// Adds a queue; `sized` if the receiver does not know the slices' sizes by itself.
    pub(super) fn add(
        &mut self,
        (from, to): (ActorId, ActorId),
        (latency, credit_latency): (Time, Time),
        sized: bool,
    ) -> FifoId {
        let lens_at = if sized {
            self.lens.len() as u32
        } else {
            NO_LENS
        };
        if sized {
            self.lens
                .resize(self.lens.len() + usize::from(self.slots), 0);
        }
        self.times.resize(
            self.times.len() + self.lines(),
            Line([Time::ZERO; MAX_SLOTS]),
        );
        if self.tracks() {
            self.by_at.push(self.by.len() as u32);
            let slots = usize::from(self.slots);
            self.by.resize(self.by.len() + 2 * slots, UNKNOWN);
        }
        self.all.push(Fifo {
            from,
            to,
            posted: 0,
            taken: 0,
            receiver_waits: false,
            sender_waits: false,
            far: false,
            slots: self.slots,
            post_slot: 0,
            take_slot: 0,
            deep_at: SHALLOW,
            lens_at,
            latency,
            credit_latency,
            bytes: 0,
        });
        self.all.len() as u32 - 1
    }

    /// Gives a queue, of which nothing has been used yet, so many slots more.
    pub(super) fn deepen(&mut self, id: FifoId, more: u32) {
        let slots = (u32::from(self.slots) + more).min(MOST_SLOTS) as u8;
        let fifo = &mut self.all[id as usize];
        debug_assert!(fifo.posted == 0 && fifo.taken == 0);
        // There is room for as many sizes as others have slots.
        debug_assert!(more == 0 || fifo.lens_at == NO_LENS);
        if more > 0 {
            (fifo.slots, fifo.deep_at) = (slots, self.deep.len() as u32);
            let times = self.deep.len() + 2 * usize::from(slots);
            self.deep.resize(times, Time::ZERO);
            if self.tracks() {
                self.by_at[id as usize] = self.by.len() as u32;
                self.by
                    .resize(self.by.len() + 2 * usize::from(slots), UNKNOWN);
            }
        }
    }

    /// True if a line holds both kinds of times.
    #[inline]
    fn halves(&self) -> bool {
        usize::from(self.slots) * 2 <= MAX_SLOTS
    }

    /// How many lines a queue has.
    fn lines(&self) -> usize {
        if self.halves() { 1 } else { 2 }
    }

    #[inline]
    fn visible(&mut self, id: FifoId, slot: u8) -> &mut Time {
        let at = self.all[id as usize].deep_at;
        if at != SHALLOW {
            return &mut self.deep[at as usize + usize::from(slot)];
        }
        let line = if self.halves() {
            id as usize
        } else {
            2 * id as usize
        };
        &mut self.times[line].0[usize::from(slot)]
    }

    #[inline]
    fn freed(&mut self, id: FifoId, slot: u8) -> &mut Time {
        let fifo = &self.all[id as usize];
        if fifo.deep_at != SHALLOW {
            return &mut self.deep
                [fifo.deep_at as usize + usize::from(fifo.slots) + usize::from(slot)];
        }
        if self.halves() {
            &mut self.times[id as usize].0[MAX_SLOTS / 2 + usize::from(slot)]
        } else {
            &mut self.times[2 * id as usize + 1].0[usize::from(slot)]
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> FifoId {
        self.all.len() as FifoId
    }

    /// Who puts into a queue, and who takes out of it.
    pub(super) fn ends(&self, id: FifoId) -> (ActorId, ActorId) {
        let fifo = &self.all[id as usize];
        (fifo.from, fifo.to)
    }

    /// Of each queue how soon one end can notice what the other does, and its ends.
    pub(super) fn latencies(&self) -> impl Iterator<Item = (Time, ActorId, ActorId)> + '_ {
        let soonest = |f: &Fifo| f.latency.min(f.credit_latency);
        self.all.iter().map(move |f| (soonest(f), f.from, f.to))
    }

    /// Reads what the next slice through a queue will need, so that it is in the cache.
    #[inline]
    pub(super) fn touch(&self, id: FifoId) -> u64 {
        let line = if self.halves() {
            id as usize
        } else {
            2 * id as usize
        };
        match (self.all.get(id as usize), self.times.get(line)) {
            (Some(fifo), Some(line)) => fifo.posted ^ line.0[0].picos(),
            _ => 0,
        }
    }

    /// When the receiver's next slice is visible. While it is not posted: `None`, and the
    /// sender will wake the receiver.
    #[inline]
    pub(super) fn data_or_wait(&mut self, id: FifoId) -> Option<Time> {
        let fifo = &mut self.all[id as usize];
        if fifo.posted > fifo.taken {
            let slot = fifo.take_slot;
            Some(*self.visible(id, slot))
        } else {
            fifo.receiver_waits = true;
            None
        }
    }

    /// When the sender's next slot is free. While it is not freed: `None`, and the receiver
    /// will wake the sender.
    #[inline]
    pub(super) fn credit_or_wait(&mut self, id: FifoId) -> Option<Time> {
        let fifo = &mut self.all[id as usize];
        if fifo.posted - fifo.taken < u64::from(fifo.slots) {
            let slot = fifo.post_slot;
            Some(*self.freed(id, slot))
        } else {
            fifo.sender_waits = true;
            None
        }
    }

    /// From posting to being visible.
    pub(super) fn latency(&self, id: FifoId) -> Time {
        self.all[id as usize].latency
    }

    /// From freeing to being free.
    pub(super) fn credit_latency(&self, id: FifoId) -> Time {
        self.all[id as usize].credit_latency
    }

    /// The size of the receiver's next slice, where sizes are kept.
    pub(super) fn next_len(&self, id: FifoId) -> u64 {
        let fifo = &self.all[id as usize];
        self.lens[fifo.lens_at as usize + usize::from(fifo.take_slot)]
    }

    /// The sender puts a slice of `len` bytes in: its first part at `first`, with the rest
    /// following as fast as it is taken, all of it at `all`. Returns the receiver if it waits
    /// for it.
    #[inline]
    pub(super) fn post(
        &mut self,
        id: FifoId,
        (first, all): (Time, Time),
        (len, by): (u64, u32),
    ) -> Option<ActorId> {
        let fifo = &mut self.all[id as usize];
        fifo.bytes += len;
        // A proxy sends nothing but whole slices.
        let seen = if fifo.lens_at == NO_LENS { first } else { all };
        let at = seen + fifo.latency;
        if fifo.far {
            let put = Some(len);
            let fifo = id;
            self.news.push(News { fifo, at, put, by });
        }
        self.put(id, at, (len, by))
    }

    /// The receiver is done with a slice at `now`; returns the sender if it waits for a slot.
    #[inline]
    pub(super) fn take(&mut self, id: FifoId, now: Time, by: u32) -> Option<ActorId> {
        let fifo = &self.all[id as usize];
        let at = now + fifo.credit_latency;
        if fifo.far {
            let put = None;
            let fifo = id;
            self.news.push(News { fifo, at, put, by });
        }
        self.give_back(id, at, by)
    }

    /// A slice is in the queue, visible from `at` on; returns the receiver if it waits for it.
    #[inline]
    fn put(&mut self, id: FifoId, at: Time, (len, by): (u64, u32)) -> Option<ActorId> {
        let fifo = &mut self.all[id as usize];
        let slot = fifo.post_slot;
        if let Some(&first) = self.by_at.get(id as usize) {
            self.by[first as usize + usize::from(slot)] = by;
        }
        fifo.post_slot = if slot + 1 == fifo.slots { 0 } else { slot + 1 };
        fifo.posted += 1;
        if fifo.lens_at != NO_LENS {
            self.lens[fifo.lens_at as usize + usize::from(slot)] = len;
        }
        let wakes = std::mem::take(&mut fifo.receiver_waits).then_some(fifo.to);
        *self.visible(id, slot) = at;
        wakes
    }

    /// A slot is free from `at` on; returns the sender if it waits for it.
    #[inline]
    fn give_back(&mut self, id: FifoId, at: Time, by: u32) -> Option<ActorId> {
        let fifo = &mut self.all[id as usize];
        let slot = fifo.take_slot;
        if let Some(&first) = self.by_at.get(id as usize) {
            self.by[first as usize + usize::from(fifo.slots) + usize::from(slot)] = by;
        }
        fifo.take_slot = if slot + 1 == fifo.slots { 0 } else { slot + 1 };
        fifo.taken += 1;
        let wakes = std::mem::take(&mut fifo.sender_waits).then_some(fifo.from);
        *self.freed(id, slot) = at;
        wakes
    }

    /// The ends of a queue are simulated apart from each other.
    pub(super) fn part(&mut self, id: FifoId) {
        self.all[id as usize].far = true;
    }

    /// The other end of a queue did something; returns this one if it waits for that.
    pub(super) fn hear(&mut self, news: News) -> Option<ActorId> {
        match news.put {
            Some(len) => self.put(news.fifo, news.at, (len, news.by)),
            None => self.give_back(news.fifo, news.at, news.by),
        }
    }

    /// Whether the receiver has to ask for slices' sizes: a proxy, which does not know the program.
    pub(super) fn is_sized(&self, id: FifoId) -> bool {
        self.all[id as usize].lens_at != NO_LENS
    }

    /// From now on the ends of a queue, of which nothing has been used yet, have a queue each,
    /// and have to be told of each other: the one that there was is the sender's, and the
    /// receiver's is returned.
    pub(super) fn halve(&mut self, id: FifoId) -> FifoId {
        let whole = &self.all[id as usize];
        debug_assert!(whole.posted == 0 && whole.taken == 0);
        let ends = (whole.from, whole.to);
        let latencies = (whole.latency, whole.credit_latency);
        let more = whole.slots - self.slots;
        let other = self.add(ends, latencies, self.is_sized(id));
        self.deepen(other, u32::from(more));
        self.part(id);
        self.part(other);
        other
    }

    /// What is in a queue is what is in another one.
    pub(super) fn become_as(&mut self, id: FifoId, other: FifoId) {
        let (to, from) = (id as usize, other as usize);
        let then = self.all[from].clone();
        let own = &mut self.all[to];
        *own = Fifo {
            from: own.from,
            to: own.to,
            far: own.far,
            deep_at: own.deep_at,
            lens_at: own.lens_at,
            bytes: own.bytes,
            ..then
        };
        if own.deep_at != SHALLOW {
            let (own, then) = (own.deep_at as usize, then.deep_at as usize);
            let times = 2 * usize::from(self.all[to].slots);
            self.deep.copy_within(then..then + times, own);
        }
        let own = &self.all[to];
        if own.lens_at != NO_LENS {
            let (own, slots) = (own.lens_at as usize, usize::from(self.slots));
            let then = then.lens_at as usize;
            self.lens.copy_within(then..then + slots, own);
        }
        if self.tracks() {
            let (own, then) = (self.by_at[to] as usize, self.by_at[from] as usize);
            let both = 2 * usize::from(self.all[to].slots);
            self.by.copy_within(then..then + both, own);
        }
        let lines = self.lines();
        let lines_from = lines * from..lines * (from + 1);
        self.times.copy_within(lines_from, lines * to);
    }

    /// Sets how much payload went through so far.
    pub(super) fn set_bytes(&mut self, id: FifoId, bytes: u64) {
        self.all[id as usize].bytes = bytes;
    }

    /// Whether what is in two queues is the same, as far as it matters after `now`.
    pub(super) fn are_alike(&self, one: FifoId, other: FifoId, now: Time) -> bool {
        let ahead = |_, time: Time| time.max(now).picos();
        self.one_is_same(one as usize, (self, other as usize), &ahead)
    }

    /// What is known elsewhere of how these queues were used, and who waits at them.
    pub(super) fn join(&mut self, elsewhere: &Self) {
        for (own, other) in self.all.iter_mut().zip(&elsewhere.all) {
            own.bytes += other.bytes;
            own.receiver_waits |= other.receiver_waits;
            own.sender_waits |= other.sender_waits;
        }
    }

    /// Whether what is in the queues, and when, is as it was `then`. `ahead` says how far a time
    /// lies ahead, now (true) or then.
    pub(super) fn same(&self, then: &Self, ahead: impl Fn(bool, Time) -> u64) -> bool {
        (0..self.all.len()).all(|id| self.one_is_same(id, (then, id), &ahead))
    }

    /// [`Fifos::same`] of one queue and another one `then`.
    fn one_is_same(
        &self,
        id: usize,
        (then, other): (&Self, usize),
        ahead: &impl Fn(bool, Time) -> u64,
    ) -> bool {
        let (a, b) = (&self.all[id], &then.all[other]);
        let held = a.posted - a.taken;
        if held != b.posted - b.taken
            || a.receiver_waits != b.receiver_waits
            || a.sender_waits != b.sender_waits
        {
            return false;
        }
        // Queues of one kind have as many slots.
        let slot =
            |first: u8, k: u8| ((u16::from(first) + u16::from(k)) % u16::from(a.slots)) as u8;
        let still = self.preparing(a.from.max(a.to));
        (0..a.slots).all(|k| {
            if u64::from(k) < held {
                let (x, y) = (slot(a.take_slot, k), slot(b.take_slot, k));
                let lens = |fifos: &Self, fifo: &Fifo, slot: u8| {
                    let sized = fifo.lens_at != NO_LENS;
                    sized.then(|| fifos.lens[fifo.lens_at as usize + usize::from(slot)])
                };
                let (at, then_at) = (self.visible_at(id, x), then.visible_at(other, y));
                ahead(true, at + still) == ahead(false, then_at + still)
                    && lens(self, a, x) == lens(then, b, y)
            } else {
                let k = k - held as u8;
                let (x, y) = (slot(a.post_slot, k), slot(b.post_slot, k));
                let (at, then_at) = (self.freed_at(id, x), then.freed_at(other, y));
                ahead(true, at + still) == ahead(false, then_at + still)
            }
        })
    }

    fn visible_at(&self, id: usize, slot: u8) -> Time {
        let at = self.all[id].deep_at;
        if at != SHALLOW {
            return self.deep[at as usize + usize::from(slot)];
        }
        let line = if self.halves() { id } else { 2 * id };
        self.times[line].0[usize::from(slot)]
    }

    fn freed_at(&self, id: usize, slot: u8) -> Time {
        let fifo = &self.all[id];
        if fifo.deep_at != SHALLOW {
            return self.deep[fifo.deep_at as usize + usize::from(fifo.slots) + usize::from(slot)];
        }
        if self.halves() {
            self.times[id].0[MAX_SLOTS / 2 + usize::from(slot)]
        } else {
            self.times[2 * id + 1].0[usize::from(slot)]
        }
    }

    /// Lets all that is in the queues come so much later.
    pub(super) fn shift(&mut self, by: Time) {
        let shallow = self.times.iter_mut().flat_map(|line| &mut line.0);
        shallow.chain(&mut self.deep).for_each(|time| *time += by);
    }

    /// What went through between two states of these queues does so many times more.
    pub(super) fn add_between(&mut self, from: &Self, to: &Self, times: u64) {
        for (own, (from, to)) in self.all.iter_mut().zip(from.all.iter().zip(&to.all)) {
            own.posted += (to.posted - from.posted) * times;
            own.taken += (to.taken - from.taken) * times;
            own.bytes += (to.bytes - from.bytes) * times;
        }
    }

    /// Holds what `then` held, so much later; what went through so far stays.
    pub(super) fn become_later(&mut self, then: &Self, by: Time) {
        for (own, then) in self.all.iter_mut().zip(&then.all) {
            *own = Fifo {
                posted: own.posted,
                taken: own.taken,
                bytes: own.bytes,
                ..then.clone()
            };
        }
        self.times.clone_from(&then.times);
        self.deep.clone_from(&then.deep);
        self.lens.clone_from(&then.lens);
        self.by.clone_from(&then.by);
        self.shift(by);
    }

    /// Payload that went through so far.
    pub(super) fn bytes(&self, id: FifoId) -> u64 {
        self.all[id as usize].bytes
    }

    /// Who waits for whom: the sender, if the receiver waits for data; the receiver, if the
    /// sender waits for a slot.
    pub(super) fn missing(&self, id: FifoId) -> (Option<ActorId>, Option<ActorId>) {
        let fifo = &self.all[id as usize];
        (
            fifo.receiver_waits.then_some(fifo.from),
            fifo.sender_waits.then_some(fifo.to),
        )
    }
}
