//! What is asked for, run by worker threads: the newest request first, and nothing for a page that has
//! asked for something else since.

use fabricsim_budget::Stop;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A piece of work; it may add others to its run.
pub(crate) type Task = Box<dyn FnOnce(&Run) + Send>;

/// So many requests wait at most; each page has one.
const MAX_RUNS: usize = 32;

/// All work of one request.
pub(crate) struct Run {
    page: String,
    /// What is done before anything else, if it was not begun.
    first: Mutex<Option<Task>>,
    /// What that has left to be done after it.
    tasks: Mutex<VecDeque<Task>>,
    stop: Stop,
    /// Workers that have nothing to do wait for it.
    more: Arc<Condvar>,
}

impl Run {
    /// Whether what comes of it is still wanted.
    pub(crate) const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Work to be done after what is there.
    pub(crate) fn then(&self, task: Task) {
        lock(&self.tasks).push_back(task);
        // One that takes only what is first may be woken in vain.
        self.more.notify_all();
    }

    fn end(&self) {
        self.stop.now();
        lock(&self.first).take();
        lock(&self.tasks).clear();
    }

    /// What is to be done next of it.
    fn next(&self, of: Worker) -> Option<Task> {
        let first = lock(&self.first).take();
        first.or_else(|| match of {
            Worker::OfAll => lock(&self.tasks).pop_front(),
            Worker::OfFirsts => None,
        })
    }
}

/// What a worker takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worker {
    /// Whatever is next.
    OfAll,
    /// Only what a request asks for first: what others are busy with for long does not keep it waiting.
    OfFirsts,
}

/// So many pages' last requests are remembered.
const MAX_PAGES: usize = 256;

#[derive(Default)]
pub(crate) struct Queue {
    asked: Mutex<Asked>,
    more: Arc<Condvar>,
}

#[derive(Default)]
struct Asked {
    /// Requests that are not answered in full, in the order in which they came.
    runs: Vec<Arc<Run>>,
    /// The last request of each page; of the page that asked last at the end.
    latest: VecDeque<(String, u64)>,
}

impl Asked {
    /// Whether a page has not asked for anything else since.
    fn is_latest(&mut self, page: &str, generation: u64) -> bool {
        let known = self.latest.iter().position(|(other, _)| other == page);
        let before = known.and_then(|place| self.latest.remove(place));
        let last = before.map_or(generation, |(_, before)| before.max(generation));
        if self.latest.len() >= MAX_PAGES {
            self.latest.pop_front();
        }
        self.latest.push_back((page.to_owned(), last));
        last == generation
    }
}

/// Too many requests wait.
#[derive(Debug)]
pub(crate) struct Full;

impl Queue {
    /// A page's request, which takes the place of its earlier ones. One that a later one has overtaken
    /// ends at once.
    pub(crate) fn push(
        &self,
        (page, generation): (String, u64),
        first: Task,
        stop: Stop,
    ) -> Result<(), Full> {
        let mut asked = lock(&self.asked);
        asked.runs.retain(|run| !run.stop.is_now());
        if !asked.is_latest(&page, generation) {
            stop.now();
            return Ok(());
        }
        for run in asked.runs.iter().filter(|run| run.page == page) {
            run.end();
        }
        asked.runs.retain(|run| run.page != page);
        if asked.runs.len() >= MAX_RUNS {
            return Err(Full);
        }
        asked.runs.push(Arc::new(Run {
            page,
            first: Mutex::new(Some(first)),
            tasks: Mutex::default(),
            stop,
            more: Arc::clone(&self.more),
        }));
        drop(asked);
        self.more.notify_all();
        Ok(())
    }

    /// Works for as long as the program runs.
    pub(crate) fn work(&self, as_one: Worker) {
        loop {
            let (run, task) = self.next(as_one);
            task(&run);
        }
    }

    /// The next piece of work of the newest request that has any for such a worker.
    fn next(&self, of: Worker) -> (Arc<Run>, Task) {
        let mut asked = lock(&self.asked);
        loop {
            for run in asked.runs.iter().rev() {
                if run.stop.is_now() {
                    run.end();
                } else if let Some(task) = run.next(of) {
                    return (Arc::clone(run), task);
                }
            }
            let woken = self.more.wait(asked);
            asked = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// No value behind these locks is ever half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    fn task(name: &'static str, done: &Sender<&'static str>) -> Task {
        let done = done.clone();
        Box::new(move |_| done.send(name).unwrap())
    }

    fn step(queue: &Queue) {
        let (run, task) = queue.next(Worker::OfAll);
        task(&run);
    }

    #[test]
    fn the_newest_request_goes_first_and_takes_the_place_of_its_page_s_earlier_ones() {
        let (done, seen) = channel();
        let queue = Queue::default();
        let push = |page: &str, generation, name| {
            let stop = Stop::default();
            let at = (page.to_owned(), generation);
            queue.push(at, task(name, &done), stop.clone()).unwrap();
            stop
        };
        let first = push("a", 1, "a1");
        let other = push("b", 1, "b1");
        let second = push("a", 3, "a3");
        // Overtaken on its way.
        let late = push("a", 2, "a2");
        step(&queue);
        step(&queue);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["a3", "b1"]);
        let ended = [first, other, second, late].map(|stop| stop.is_now());
        assert_eq!(ended, [true, false, false, true]);
    }

    #[test]
    fn a_task_can_leave_others_which_an_ended_run_does_not_do() {
        let (done, seen) = channel();
        let queue = Queue::default();
        let stop = Stop::default();
        let (one, two) = (task("one", &done), task("two", &done));
        let first: Task = Box::new(move |run| {
            run.then(one);
            run.then(two);
        });
        queue.push(("a".into(), 1), first, stop.clone()).unwrap();
        step(&queue);
        step(&queue);
        stop.now();
        queue
            .push(("b".into(), 1), task("b", &done), Stop::default())
            .unwrap();
        step(&queue);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["one", "b"]);
    }

    #[test]
    fn some_workers_take_only_what_is_asked_for_first() {
        let (done, seen) = channel();
        let queue = Queue::default();
        let (rest, other) = (task("rest", &done), task("other", &done));
        let first: Task = Box::new(move |run| run.then(rest));
        let push = |page: &str, task| {
            let at = (page.to_owned(), 1);
            queue.push(at, task, Stop::default()).unwrap();
        };
        push("other", other);
        push("long", first);
        let step = |of| {
            let (run, task) = queue.next(of);
            task(&run);
        };
        // The newest request leaves the rest of its curve, which this one lets be.
        step(Worker::OfFirsts);
        step(Worker::OfFirsts);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["other"]);
        step(Worker::OfAll);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["rest"]);
    }

    #[test]
    fn no_more_requests_wait_than_may() {
        let (done, _seen) = channel();
        let queue = Queue::default();
        let push = |page: usize| {
            let at = (page.to_string(), 1);
            queue.push(at, task("", &done), Stop::default())
        };
        assert!((0..MAX_RUNS).all(|page| push(page).is_ok()));
        assert!(push(MAX_RUNS).is_err());
        // A page that waits already may ask for something else.
        assert!(push(0).is_ok());
    }
}
