//! Connections that are open, and which of them one too many takes the place of.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// Connections that have asked for nothing that takes a while: their requests have not come, or their answers are
/// whole and only have to be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Idle>>);

#[derive(Debug, Default)]
struct Idle {
    /// Numbers of connections, the oldest first, and what ends each.
    open: VecDeque<(u64, Option<AbortHandle>)>,
    opened: u64,
}

/// One of them, until its last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<Own>);

#[derive(Debug)]
struct Own {
    number: u64,
    all: Connections,
}

impl Connections {
    /// One more.
    pub(crate) fn open(&self) -> Connection {
        let mut idle = self.idle();
        idle.opened += 1;
        let number = idle.opened;
        idle.open.push_back((number, None));
        drop(idle);
        let all = self.clone();
        Connection(Arc::new(Own { number, all }))
    }

    /// Closes the oldest; whether there was one.
    pub(crate) fn close_oldest(&self) -> bool {
        let mut idle = self.idle();
        match idle.open.pop_front() {
            None => false,
            Some((_, task)) => {
                drop(idle);
                if let Some(task) = &task {
                    task.abort();
                }
                task.is_some()
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        // A list is never half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// What ends it.
    pub(crate) fn is(&self, task: AbortHandle) {
        let mut idle = self.0.all.idle();
        let own = idle.open.iter_mut().find(|open| open.0 == self.0.number);
        if let Some((_, place)) = own {
            *place = Some(task);
        }
    }

    /// It has asked for something: it stays until it has that.
    pub(crate) fn stays(&self) {
        self.0.leave();
    }
}

impl Own {
    fn leave(&self) {
        let mut idle = self.all.idle();
        idle.open.retain(|open| open.0 != self.number);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.leave();
    }
}
