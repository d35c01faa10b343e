//! Sends and receives, which find their mates at the heads of streams or lie in buffers.

use super::{Costs, Done, Issued, Meeting, Message, Work};
use fabricsim_units::Time;
use std::collections::VecDeque;

impl<C: Costs> Meeting<'_, C> {
    /// Sends and receives at the head of a rank's stream go on as far as they find their mates.
    pub(super) fn messages(&mut self, rank: usize, stream: usize) -> Result<bool, C::Error> {
        let me = rank as u32;
        let Some(start) = self.met.ranks[rank].streams[stream].start() else {
            return Ok(false);
        };
        let Some(Issued {
            work: Work::Messages(list),
            ..
        }) = self.met.ranks[rank].streams[stream].queue.front()
        else {
            return Ok(false);
        };
        let open: Vec<(usize, Message)> = list
            .iter()
            .enumerate()
            .filter(|(_, (_, done))| done.is_none())
            .map(|(index, (message, _))| (index, *message))
            .collect();
        let mut moved = false;
        for (index, message) in open {
            let over = match message.sends {
                true => self.sent((me, message), start, stream)?,
                false => self.taken((me, message), start),
            };
            if let Some(over) = over {
                self.finish(rank, stream, index, over);
                moved = true;
            }
        }
        Ok(moved)
    }

    /// A send finds its receive, or room in the receiver's buffers: when it is over.
    fn sent(
        &mut self,
        (me, message): (u32, Message),
        start: Time,
        stream: usize,
    ) -> Result<Option<Time>, C::Error> {
        let to = message.with;
        let mate = self.mate((to, stream), (me, message));
        if let Some((index, mate, begun)) = mate {
            if mate.bytes != message.bytes {
                return Ok(None);
            }
            let time = self.costs.message_time(me, to, message.bytes)?;
            // What buffers take is sent at once, and is there when it is received.
            let fits = message.bytes <= self.costs.ahead(message.on, message.bytes)?;
            let (began, over) = match fits {
                true => (start, begun.max(start + time)),
                false => (start.max(begun), start.max(begun) + time),
            };
            self.finish(to as usize, stream, index, over);
            self.met.done.push(Done {
                what: format!("send {me} to {to}"),
                on: message.on,
                number: 0,
                bytes: message.bytes,
                began,
                ended: over,
            });
            return Ok(Some(if fits { start + time } else { over }));
        }
        if message.bytes > self.costs.ahead(message.on, message.bytes)? {
            return Ok(None);
        }
        let over = start + self.costs.message_time(me, to, message.bytes)?;
        let waiting = self.boxes.entry((message.on, me, to)).or_default();
        waiting.push_back((over, message.bytes));
        Ok(Some(over))
    }

    /// A receive finds its message in the buffers: when it is over.
    fn taken(&mut self, (me, message): (u32, Message), start: Time) -> Option<Time> {
        let waiting = self.boxes.get_mut(&(message.on, message.with, me))?;
        let &(came, bytes) = waiting.front()?;
        if bytes != message.bytes {
            return None;
        }
        waiting.pop_front();
        let over = start.max(came);
        self.met.done.push(Done {
            what: format!("send {} to {me}", message.with),
            on: message.on,
            number: 0,
            bytes,
            began: came,
            ended: over,
        });
        Some(over)
    }

    /// The receive that a message is for, at the head of its receiver's stream.
    fn mate(
        &self,
        (to, stream): (u32, usize),
        (from, message): (u32, Message),
    ) -> Option<(usize, Message, Time)> {
        let streams = &self.met.ranks[to as usize].streams;
        let stream = streams.get(stream)?;
        let start = stream.start()?;
        let Work::Messages(list) = &stream.queue.front()?.work else {
            return None;
        };
        let is_mate = |m: &Message| !m.sends && m.with == from && m.on == message.on;
        let mut open = list.iter().enumerate();
        let (index, (mate, _)) = open.find(|(_, (m, done))| done.is_none() && is_mate(m))?;
        // What lies in the buffers is received first.
        let earlier = self.boxes.get(&(message.on, from, to));
        earlier
            .is_none_or(VecDeque::is_empty)
            .then_some((index, *mate, start))
    }

    /// A message of the first call of a stream is over; with the last one the call is.
    fn finish(&mut self, rank: usize, stream: usize, index: usize, over: Time) {
        let stream = &mut self.met.ranks[rank].streams[stream];
        let Some(Issued {
            work: Work::Messages(list),
            ..
        }) = stream.queue.front_mut()
        else {
            return;
        };
        list[index].1 = Some(over);
        let all: Option<Vec<Time>> = list.iter().map(|(_, done)| *done).collect();
        if let Some(last) = all.and_then(|all| all.into_iter().max()) {
            stream.clock = last;
            stream.queue.pop_front();
        }
    }
}
