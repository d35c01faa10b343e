//! Work that takes long: said as soon as it is seen, with what it will take by what it has done so far; a bar on a
//! terminal, lines elsewhere.

use super::terminal;
use fabricsim_budget::{Budget, Far, Memory, Work, decimal, share};
use fabricsim_units::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Who waits longer than this wants to see that something happens.
const PATIENCE: Duration = Duration::from_millis(700);
/// What is seen of a part before its rate is believed.
const SEEN: Duration = Duration::from_secs(3);
/// Work that ends before this is not announced.
const LONG: Duration = Duration::from_secs(60);
/// Work that goes on for longer than this is told of, however long it seems to take.
const UNFORESEEN: Duration = Duration::from_secs(20);
/// From one line to the next.
const BETWEEN: Duration = Duration::from_secs(30);
/// From one look to the next.
const LOOK: Duration = Duration::from_millis(200);

/// Follows the work of a budget, until it is dropped.
pub(super) struct Long {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Nothing is to be said any more.
    over: Mutex<bool>,
    ended: Condvar,
    bar: ProgressBar,
    /// Whether the bar shows how far the work of the budget is, or somebody else moves it.
    moves_bar: bool,
}

impl Shared {
    fn over(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Long {
    /// Says how far the work is, also with a bar on a terminal.
    pub(super) fn follow(budget: &Budget) -> Long {
        // A bar draws to standard error, and hides itself where that is no terminal.
        let bar = ProgressBar::new(1000);
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {percent}% {elapsed}") {
            bar.set_style(style);
        }
        Long::new(budget, bar, true)
    }

    /// Says only how long the work takes, beside a bar that shows something else.
    pub(super) fn beside(budget: &Budget, bar: &ProgressBar) -> Long {
        Long::new(budget, bar.clone(), false)
    }

    fn new(budget: &Budget, bar: ProgressBar, moves_bar: bool) -> Long {
        let shared = Arc::new(Shared {
            over: Mutex::new(false),
            ended: Condvar::new(),
            bar,
            moves_bar,
        });
        let (work, memory) = (budget.work.clone(), budget.memory.clone());
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || watch(&own, &work, &memory));
        Long {
            shared,
            thread: Some(thread),
        }
    }

    /// Does what prints, with the bar out of the way.
    pub(super) fn without_bar<R>(&self, print: impl FnOnce() -> R) -> R {
        self.shared.bar.suspend(print)
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        *self.shared.over() = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends at once; that it panicked it has said.
            let _ = thread.join();
        }
        if self.shared.moves_bar {
            self.shared.bar.finish_and_clear();
        }
    }
}

/// Looks at the work again and again, until it is over.
fn watch(shared: &Shared, work: &Work, memory: &Memory) {
    let began = Instant::now();
    let mut announcer = Announcer::default();
    loop {
        let over = shared.over();
        let (over, _) = shared
            .ended
            .wait_timeout_while(over, LOOK, |over| !*over)
            .unwrap_or_else(PoisonError::into_inner);
        if *over {
            return;
        }
        drop(over);
        let (parts, elapsed) = (work.now(), began.elapsed());
        if shared.moves_bar && elapsed > PATIENCE {
            shared.bar.set_position((share(&parts) * 1000.0) as u64);
            shared.bar.set_message(counted(&parts));
        }
        if let Some(line) = announcer.look(elapsed, &parts, memory.expected()) {
            shared.bar.suspend(|| terminal::complain(&line));
        }
    }
}

/// `variants 1 of 4, tasks simulated 12 of 40`.
fn counted(parts: &[Far]) -> String {
    let counted = parts.iter().filter(|part| part.of > 1);
    let counted = counted.map(|part| {
        let most = if part.at_most { "at most " } else { "" };
        format!("{} {} of {most}{}", part.what, part.done, part.of)
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// Says how long work will take, once that is seen.
#[derive(Default)]
struct Announcer {
    /// The part by which the rest is foreseen: its number, and when it was first seen and how far it was.
    by: Option<(u64, Duration, f64)>,
    /// When something was said last.
    said: Option<Duration>,
}

impl Announcer {
    /// What is to be said, so long after the beginning.
    fn look(&mut self, elapsed: Duration, parts: &[Far], memory: Bytes) -> Option<String> {
        let due = self.said.is_none_or(|said| elapsed >= said + BETWEEN);
        // One thing is no measure of how long it takes itself: what is inside it is.
        let outermost = parts.iter().position(|part| part.of > 1);
        let Some(parts) = outermost.map(|first| &parts[first..]) else {
            let line = (due && elapsed >= UNFORESEEN).then(|| unforeseen(elapsed, memory));
            return self.say(elapsed, line);
        };
        let now = share(parts);
        let (_, since, from) = match self.by {
            Some(by) if by.0 == parts[0].number => by,
            _ => *self.by.insert((parts[0].number, elapsed, now)),
        };
        let seen = elapsed.saturating_sub(since);
        if !due || seen < SEEN {
            return None;
        }
        let done = now - from;
        if done <= 0.0 {
            let line = (elapsed >= UNFORESEEN).then(|| unforeseen(elapsed, memory));
            return self.say(elapsed, line);
        }
        let left = seen.as_secs_f64() * (1.0 - now).max(0.0) / done;
        // Other parts may follow, of which nothing is known yet.
        let long = elapsed.as_secs_f64() + left > LONG.as_secs_f64() || elapsed >= UNFORESEEN;
        let line = (long || self.said.is_some()).then(|| {
            let part = parts[0];
            let (far, most) = match part.at_most {
                true => (
                    format!("{} of at most {}", part.done, part.of),
                    " if all of them have to be",
                ),
                false => (percent(now), ""),
            };
            let (so_far, left) = (period(elapsed.as_secs_f64()), period(left));
            let memory = taken(memory);
            format!(
                "{}: {far} after {so_far}, about {left} more{most}{memory}",
                part.what
            )
        });
        self.say(elapsed, line)
    }

    fn say(&mut self, elapsed: Duration, line: Option<String>) -> Option<String> {
        if line.is_some() {
            self.said = Some(elapsed);
        }
        line
    }
}

/// Of work that does not say how much of it there is.
fn unforeseen(elapsed: Duration, memory: Bytes) -> String {
    let after = period(elapsed.as_secs_f64());
    format!(
        "still at work after {after}; how long it takes cannot be foreseen{}",
        taken(memory)
    )
}

/// `, 3.2 GB of memory (Ctrl-C ends it)`.
fn taken(memory: Bytes) -> String {
    let memory = match memory {
        Bytes::ZERO => String::new(),
        memory => format!(", about {} of memory", decimal(memory)),
    };
    format!("{memory} (Ctrl-C ends it)")
}

fn percent(part: f64) -> String {
    match part * 100.0 {
        percent @ 10.0.. => format!("{percent:.0} %"),
        percent @ 0.1.. => format!("{percent:.1} %"),
        _ => "less than 0.1 %".to_owned(),
    }
}

/// As people say it: `75 s`, `12 min`, `3.5 h`, `40 days`.
fn period(seconds: f64) -> String {
    match seconds {
        345_600.0.. => format!("{:.0} days", seconds / 86_400.0),
        7_200.0.. => format!("{:.1} h", seconds / 3_600.0),
        180.0.. => format!("{:.0} min", seconds / 60.0),
        _ => format!("{seconds:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Bytes = Bytes::new(3_200_000_000);

    fn part(what: &'static str, done: u64, of: u64) -> Far {
        Far {
            number: 1,
            what,
            done,
            of,
            at_most: false,
        }
    }

    /// What is said at each of these seconds, with so much done.
    fn said(looks: &[(u64, Far)]) -> Vec<Option<String>> {
        let mut announcer = Announcer::default();
        let look = |&(second, far): &(u64, Far)| {
            announcer.look(Duration::from_secs(second), &[far], MEMORY)
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn what_takes_long_is_announced_by_what_was_done_so_far() {
        let at = |done| part("connections laid", done, 100);
        let lines = said(&[
            (0, at(0)),
            (2, at(2)),
            (4, at(4)),
            (10, at(10)),
            (34, at(34)),
        ]);
        let line = |text: &str| Some(text.to_owned());
        assert_eq!(
            lines,
            [
                None,
                None,
                line(
                    "connections laid: 4.0 % after 4 s, about 96 s more, about 3.2 GB of memory (Ctrl-C ends it)"
                ),
                None,
                line(
                    "connections laid: 34 % after 34 s, about 66 s more, about 3.2 GB of memory (Ctrl-C ends it)"
                ),
            ]
        );
    }

    #[test]
    fn what_may_end_sooner_says_so() {
        let at = |done| Far {
            at_most: true,
            ..part("layouts simulated", done, 1000)
        };
        let lines = said(&[(0, at(0)), (4, at(10))]);
        let text = lines[1].as_deref().unwrap();
        let expected = "layouts simulated: 10 of at most 1000 after 4 s, about 7 min more if all of them have to be,";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn what_ends_soon_is_not_announced() {
        let at = |done| part("points", done, 100);
        let lines = said(&[(0, at(0)), (4, at(20)), (16, at(80))]);
        assert_eq!(lines, [None, None, None]);
    }

    #[test]
    fn a_later_part_is_measured_from_where_it_begins() {
        let second = Far {
            number: 2,
            ..part("tasks simulated", 0, 1000)
        };
        let later = Far { done: 50, ..second };
        let lines = said(&[(0, part("runs", 0, 10)), (10, second), (20, later)]);
        let text = lines[2].as_deref().unwrap();
        assert!(
            text.contains("5.0 % after 20 s, about 3 min more"),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_foreseen_is_told_of() {
        let one = part("variants", 0, 1);
        let lines = said(&[(3, one), (21, one), (30, one), (52, one)]);
        let text = lines[1].as_deref().unwrap();
        assert!(text.contains("still at work after 21 s"), "{text}");
        assert!(lines[0].is_none() && lines[2].is_none() && lines[3].is_some());
    }
}
