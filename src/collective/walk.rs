//! A program step by step: who sends what to whom, and what every rank holds then.
//!
//! Steps here are those of textbooks: a message can be sent in the step after the one in
//! which its sender got the data, and a worker sends one message a step. Switches pass on what
//! they get as it comes, in the same step. Queues are as long as they need be.

use super::program::{At, ConnId, Program, Rank, Role, Worker, WorkerId};
use super::verify::{Piece, VerifyError, run};
use std::collections::VecDeque;

/// A chunk that goes from one rank to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// In which step, from 1.
    pub step: u32,
    /// Who sends it.
    pub from: Worker,
    /// Who receives it.
    pub to: Worker,
    /// Over which connection.
    pub conn: ConnId,
    /// The sending worker, and the index of its program's step.
    pub sender: (WorkerId, u64),
    /// What is sent.
    pub pieces: Vec<Piece>,
}

impl Transfer {
    /// Bytes of it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|p| p.len).sum()
    }
}

/// Data that a rank has got, or made of what it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In which step; 0 is before the first.
    pub step: u32,
    /// Whose.
    pub rank: Rank,
    /// Where it was stored; nowhere if it is passed on at once.
    pub at: Option<At>,
    /// The worker that did it, and the index of its program's step.
    pub by: (WorkerId, u64),
    /// What it is.
    pub pieces: Vec<Piece>,
}

/// All that happens. Transfers and changes are in order of their steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// How many steps there are.
    pub steps: u32,
    /// What is sent.
    pub transfers: Vec<Transfer>,
    /// What is stored.
    pub changes: Vec<Change>,
    /// Why the result is not what the collective promises, if it is not.
    pub wrong: Option<VerifyError>,
}

/// Follows a program through. Connections that are `inside` a rank carry no messages, and take no
/// step. Cost and memory grow as those of
/// [`verify`](super::verify::verify).
///
/// # Errors
/// What [`verify`](super::verify::verify) finds on the way; a wrong result is no error.
pub fn walk(program: &dyn Program, inside: impl Fn(ConnId) -> bool) -> Result<Walk, VerifyError> {
    let mut walk = Walk::default();
    // The steps in which each worker's own steps were done.
    let mut done: Vec<Vec<u32>> = vec![Vec::new(); program.workers() as usize];
    // The steps in which the messages of each connection were sent.
    let mut sent: Vec<VecDeque<u32>> = vec![VecDeque::new(); program.connections() as usize];
    let mut ended = run(program, usize::MAX, |run, id, index, step| {
        let own = &mut done[id.index()];
        let mut now = own.last().copied().unwrap_or(0);
        // Steps of no bytes took no time.
        own.resize(index as usize, now);
        if let Some(after) = step.after.filter(|a| a.steps > 0) {
            let other = &done[after.worker.index()];
            let reached = other.get(after.steps as usize - 1).or(other.last());
            now = now.max(reached.copied().unwrap_or(0));
        }
        for conn in step.recv.iter() {
            now = now.max(sent[conn.index()].pop_front().unwrap_or(0));
        }
        let place = program.worker(id);
        let mut end = now;
        for (k, conn) in step.send.iter().enumerate() {
            let within = inside(conn);
            let at = now + u32::from(!within && place.role != Role::Switch);
            end = end.max(at);
            sent[conn.index()].push_back(at);
            let pieces = run.queues[conn.index()].back().cloned().unwrap_or_default();
            let passes = step.target.is_none() && !step.recv.is_empty();
            if k == 0 && passes && place.role != Role::Switch {
                walk.changes.push(Change {
                    step: now,
                    rank: place.rank,
                    at: None,
                    by: (id, index),
                    pieces: pieces.clone(),
                });
            }
            if within {
                continue;
            }
            walk.transfers.push(Transfer {
                step: at,
                from: place,
                to: program.worker(program.connection(conn).to),
                conn,
                sender: (id, index),
                pieces,
            });
        }
        if let Some(target) = step.target {
            let parts = match step.deal {
                None => vec![(target.offset, step.len)],
                Some(deal) => (0..step.recv.len() as u64)
                    .map(|k| {
                        let len = deal.each.min(step.len - k * deal.each);
                        (target.offset + k * deal.stride, len)
                    })
                    .collect(),
            };
            for (offset, len) in parts {
                let at = At { offset, ..target };
                walk.changes.push(Change {
                    step: now,
                    rank: place.rank,
                    at: Some(at),
                    by: (id, index),
                    pieces: run.read(place.rank, at, len)?,
                });
            }
        }
        walk.steps = walk.steps.max(end);
        done[id.index()].push(end);
        Ok(())
    })?;
    walk.wrong = ended.check_result().err();
    walk.transfers.sort_by_key(|t| t.step);
    walk.changes.sort_by_key(|c| c.step);
    Ok(walk)
}
