//! What an interrupted command leaves behind: nothing that is not whole.

use fabricsim_report::remove_unfinished;

/// The exit status of a bug.
const BUG: i32 = 101;

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

/// From now on SIGINT and SIGTERM remove what is half written and end the program with 128 and
/// the signal's number (130 for Ctrl-C).
#[cfg(unix)]
pub fn watch_signals() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    // Without a watcher a signal ends the program as it does any other; a later run cleans up.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else {
        return;
    };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            remove_unfinished();
            std::process::exit(128 + signal);
        }
    });
}

/// There are no such signals here.
#[cfg(not(unix))]
pub fn watch_signals() {
    let _ = remove_unfinished;
}
