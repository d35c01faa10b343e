//! Channels of a ring that stay out of step where all its hops go over a network.

use super::communicator::Communicator;
use fabricsim_collective::{Program, WorkerId};
use fabricsim_plan::{Protocol, Transports};
use fabricsim_units::{Bytes, Time};

/// Channels are kept apart in rings of up to so many ranks: a ring pauses once in 2 (n − 1) steps,
/// and with more of them there is nothing to gain.
const MOST_APART: usize = 16;

impl Communicator<'_> {
    /// How far apart the channels of a ring stay where all hops go over a network: what they have
    /// ready at the same moment leaves by their interface one message after the other.
    ///
    /// Each waits for its last chunk to come before it sends the next first one. If all waited at
    /// once, as they would if interfaces shared themselves out evenly for ever, their wires would be
    /// idle meanwhile: of two ranks for an eighth of the time. Of many ranks, and where GPUs of a host
    /// send to each other, too, a ring has so many steps between those pauses that nothing is seen of
    /// them.
    pub(super) fn apart(
        &self,
        program: &dyn Program,
        transports: &Transports,
        protocol: Protocol,
        channels: u16,
    ) -> Time {
        let few = (2..=MOST_APART).contains(&self.hosts.len());
        let alone = few && self.hosts.iter().all(|host| host.ranks.len() == 1);
        if !alone || channels < 2 || program.workers() == 0 {
            return Time::ZERO;
        }
        // Of one loop, of at most 2 n - 1 steps, all channels start with the kernel.
        let steps = program.steps(WorkerId(0));
        if steps < 2 * u64::from(program.ranks()) {
            return Time::ZERO;
        }
        // A message of each of the others, at the rate of all interfaces of a rank.
        let others = transports.kinds().iter();
        let others = others.filter_map(|t| Some((t.network?.message.wire, t.latency)));
        let Some((rate, latency)) = others.min() else {
            return Time::ZERO;
        };
        let message = protocol.slice_len(program.step(WorkerId(0), 0).len);
        let last = rate.time_for(Bytes::new(message));
        // What comes later than all of them have left, nothing makes up for (TCP).
        if latency > last {
            return Time::ZERO;
        }
        Time::from_picos(last.picos() / u64::from(channels - 1))
    }
}
