//! How far work is: its parts, told while it goes on to whoever looks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Work that goes on, as parts inside parts; clones tell of the same work. What runs on several threads at once
/// counts in the part around it, and has a [`Work`] of its own that nobody looks at.
#[derive(Debug, Clone, Default)]
pub struct Work(Arc<Mutex<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    /// The outermost first.
    under_way: Vec<Arc<Counted>>,
    begun: u64,
}

#[derive(Debug)]
struct Counted {
    number: u64,
    what: &'static str,
    of: AtomicU64,
    done: AtomicU64,
    at_most: bool,
}

/// A part of work, until it is dropped.
#[derive(Debug)]
pub struct Part {
    counted: Arc<Counted>,
    work: Work,
}

/// How far a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Far {
    /// No other part has this number.
    pub number: u64,
    /// What is counted, in the plural: `connections`.
    pub what: &'static str,
    /// How many of them are done.
    pub done: u64,
    /// How many there are.
    pub of: u64,
    /// There may turn out to be fewer.
    pub at_most: bool,
}

impl Work {
    /// Begins a part of so many things, inside those that are under way.
    #[must_use = "a part ends when it is dropped"]
    pub fn part(&self, what: &'static str, of: u64) -> Part {
        self.begin(what, of, false)
    }

    /// Begins a part of so many things at most.
    #[must_use = "a part ends when it is dropped"]
    pub fn part_at_most(&self, what: &'static str, of: u64) -> Part {
        self.begin(what, of, true)
    }

    fn begin(&self, what: &'static str, of: u64, at_most: bool) -> Part {
        let mut parts = self.parts();
        parts.begun += 1;
        let counted = Arc::new(Counted {
            number: parts.begun,
            what,
            of: AtomicU64::new(of),
            done: AtomicU64::new(0),
            at_most,
        });
        parts.under_way.push(Arc::clone(&counted));
        drop(parts);
        Part {
            counted,
            work: self.clone(),
        }
    }

    /// How far the parts are that are under way, the outermost first.
    #[must_use]
    pub fn now(&self) -> Vec<Far> {
        let far = |counted: &Arc<Counted>| {
            let of = counted.of.load(Ordering::Relaxed);
            Far {
                number: counted.number,
                what: counted.what,
                done: counted.done.load(Ordering::Relaxed).min(of),
                of,
                at_most: counted.at_most,
            }
        };
        self.parts().under_way.iter().map(far).collect()
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        // A list is never half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// So many more are done.
    #[inline]
    pub fn add(&self, more: u64) {
        self.counted.done.fetch_add(more, Ordering::Relaxed);
    }

    /// So many are done in all.
    #[inline]
    pub fn reach(&self, done: u64) {
        self.counted.done.store(done, Ordering::Relaxed);
    }

    /// So many there are, which was not known before.
    #[inline]
    pub fn count(&self, of: u64) {
        self.counted.of.store(of, Ordering::Relaxed);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let own = self.counted.number;
        let mut parts = self.work.parts();
        parts.under_way.retain(|counted| counted.number != own);
    }
}

/// The part of all that is done, from 0 to 1: what is inside a part counts as a part of the next of its things.
#[must_use]
pub fn share(parts: &[Far]) -> f64 {
    let inner_first = parts.iter().rev().filter(|part| part.of > 0);
    inner_first.fold(0.0, |inside, part| {
        ((part.done as f64 + inside) / part.of as f64).min(1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_inside_parts_are_shares_of_them() {
        let work = Work::default();
        assert!(work.now().is_empty());
        let variants = work.part("variants", 4);
        variants.add(1);
        let steps = work.part("steps", 10);
        steps.reach(5);
        let now = work.now();
        let told: Vec<_> = now.iter().map(|far| (far.what, far.done, far.of)).collect();
        assert_eq!(told, [("variants", 1, 4), ("steps", 5, 10)]);
        assert!((share(&now) - 1.5 / 4.0).abs() < 1e-12);
        drop(steps);
        assert!((share(&work.now()) - 0.25).abs() < 1e-12);
        // Another part of the same name is another one.
        let again = work.part("steps", 10);
        assert_ne!(work.now()[1].number, now[1].number);
        // One may end before what began after it.
        drop(variants);
        assert_eq!(work.now().len(), 1);
        drop(again);
        assert!(work.now().is_empty());
    }
}
