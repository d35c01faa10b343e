//! In which order rings visit ranks.

/// The order of ranks on each channel's ring. Channels may share an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rings {
    orders: Vec<RingOrder>,
    channels: Vec<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RingOrder {
    /// Rank at each position.
    pub(super) ranks: Vec<u32>,
    /// Position of each rank.
    pub(super) positions: Vec<u32>,
}

/// Why a list of ranks is no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// A channel refers to an order that does not exist, or there is no channel.
    #[error("channel {channel} names ring {ring}, but there are {rings}")]
    NoSuchRing {
        /// The channel.
        channel: usize,
        /// What it names.
        ring: u16,
        /// How many there are.
        rings: usize,
    },
    /// An order is no permutation of the ranks.
    #[error("ring {ring} does not visit every rank of 0..{ranks} exactly once")]
    NoPermutation {
        /// The ring.
        ring: usize,
        /// How many ranks there are.
        ranks: usize,
    },
}

impl Rings {
    /// Rings by their orders of ranks, and for each channel the ring that it uses.
    ///
    /// # Errors
    /// An order that does not visit each rank once; a channel without a ring.
    pub fn new(orders: Vec<Vec<u32>>, channels: Vec<u16>) -> Result<Self, RingError> {
        let ranks = orders.first().map_or(0, Vec::len);
        if let Some((channel, &ring)) = channels
            .iter()
            .enumerate()
            .find(|(_, r)| usize::from(**r) >= orders.len())
        {
            return Err(RingError::NoSuchRing {
                channel,
                ring,
                rings: orders.len(),
            });
        }
        let orders = orders
            .into_iter()
            .enumerate()
            .map(|(ring, order)| {
                let mut positions = vec![u32::MAX; ranks];
                for (position, &rank) in order.iter().enumerate() {
                    match positions.get_mut(rank as usize) {
                        Some(slot) if *slot == u32::MAX => *slot = position as u32,
                        _ => return Err(RingError::NoPermutation { ring, ranks }),
                    }
                }
                if order.len() != ranks || ranks == 0 {
                    return Err(RingError::NoPermutation { ring, ranks });
                }
                Ok(RingOrder {
                    ranks: order,
                    positions,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Rings { orders, channels })
    }

    /// `channels` equal rings 0 → 1 → 2 …
    ///
    /// # Panics
    /// If `ranks` is zero.
    #[must_use]
    pub fn consecutive(ranks: u32, channels: u16) -> Self {
        Rings::new(vec![(0..ranks).collect()], vec![0; usize::from(channels)])
            .expect("0..ranks visits every rank once")
    }

    /// The same rings for `channels` channels, used again from the first when they run out.
    #[must_use]
    pub fn repeated(&self, channels: u16) -> Self {
        let channels = (0..usize::from(channels)).map(|c| self.channels[c % self.channels.len()]);
        Rings {
            orders: self.orders.clone(),
            channels: channels.collect(),
        }
    }

    /// How many channels there are.
    #[must_use]
    pub fn channels(&self) -> u16 {
        self.channels.len() as u16
    }

    /// How many ranks each ring visits.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.orders[0].ranks.len() as u32
    }

    /// The ranks of a channel's ring in order.
    #[must_use]
    pub fn order(&self, channel: u16) -> &[u32] {
        &self.ring(channel).ranks
    }

    /// Whether two channels go round in the same order.
    #[must_use]
    pub fn have_same_order(&self, one: u16, other: u16) -> bool {
        self.channels[usize::from(one)] == self.channels[usize::from(other)]
    }

    /// The order of a channel's ring.
    pub(super) fn ring(&self, channel: u16) -> &RingOrder {
        &self.orders[usize::from(self.channels[usize::from(channel)])]
    }
}
