//! What an interrupted command leaves behind: nothing that is not whole.

use fabricsim_report::remove_unfinished;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The exit status of a bug.
const BUG: i32 = 101;

type Last = Box<dyn Fn() + Send>;

/// What is said when the program is interrupted.
static LAST: Mutex<Option<Last>> = Mutex::new(None);

fn last() -> MutexGuard<'static, Option<Last>> {
    // A place for one value is never half changed.
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As long as this lives, an interrupted program says something before it ends.
pub(super) struct WhenInterrupted(());

/// What a signal does first, until what is returned is dropped.
pub(super) fn when_interrupted(say: impl Fn() + Send + 'static) -> WhenInterrupted {
    *last() = Some(Box::new(say));
    WhenInterrupted(())
}

impl Drop for WhenInterrupted {
    fn drop(&mut self) {
        *last() = None;
    }
}

/// As long as this lives, no signal ends the program: it waits.
pub(super) struct Held(
    #[expect(dead_code, reason = "held, not read")] MutexGuard<'static, Option<Last>>,
);

/// What is done from now on, until this is dropped, is done wholly.
pub(super) fn held() -> Held {
    Held(last())
}

/// From now on a panic, after its message, removes what is half written and ends the program with
/// status 101, in whichever thread it is: release builds do not unwind.
pub fn exit_on_panic() {
    let message = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        message(panic);
        remove_unfinished();
        std::process::exit(BUG);
    }));
}

/// From now on SIGINT, SIGTERM and SIGHUP (a closed terminal) remove what is half written and end the program with 128
/// and the signal's number (130 for Ctrl-C). A file that grows beyond its limit is an error of its write.
#[cfg(unix)]
pub fn watch_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    let beyond = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    // That it is caught is enough: the write then fails, and its error names the file.
    let _ = signal_hook::flag::register(SIGXFSZ, beyond);
    // Without a watcher a signal ends the program as it does any other; a later run cleans up.
    let closed = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let watched = [SIGINT, SIGTERM].into_iter().chain(closed);
    let Ok(mut signals) = signal_hook::iterator::Signals::new(watched) else {
        return;
    };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let last = last();
            if let Some(say) = &*last {
                say();
            }
            remove_unfinished();
            std::process::exit(128 + signal);
        }
    });
}

/// Whether a signal is ignored, as `nohup` has it for a closed terminal; where the system does not say, it may be.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

/// There are no such signals here.
#[cfg(not(unix))]
pub fn watch_signals() {
    let _ = remove_unfinished;
}
