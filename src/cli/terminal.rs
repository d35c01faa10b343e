//! Standard output and error: what of a text they are given, and whether they want colours.

use fabricsim_report::numbers::micros;
use fabricsim_units::text;
use std::io::{self, Write};

/// Whether standard output is a terminal that wants colours (`NO_COLOR`, `CLICOLOR`, and
/// `CLICOLOR_FORCE` are honoured).
pub(super) fn colour() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// How many characters a line of standard output has: what `COLUMNS` says, else as many as the
/// terminal has. A file or a pipe has lines of any length.
pub(super) fn width() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    let shown = || terminal_size::terminal_size_of(io::stdout());
    asked
        .filter(|&columns| columns > 0)
        .or_else(|| shown().map(|(width, _)| usize::from(width.0)))
}

/// A line of a table, cut where the terminal's lines end.
pub(super) fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
        _ => line.to_owned(),
    }
}

/// Writes all of `text`, at once, to standard output; its own colours stay, anything else that a
/// terminal would obey is written out.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text::printable_styled(text).as_bytes())?;
    out.flush()
}

/// Writes a message (an error, a warning, a note) and a line feed to standard error, with long
/// values cut. A message that cannot be written is lost: there is no one to say it to.
pub fn complain(message: &str) {
    let message = text::shortened(message);
    let _ = writeln!(anstream::stderr().lock(), "{}", text::printable(&message));
}

/// As [`complain`], of a message with colours of its own.
pub(super) fn complain_styled(message: &str) {
    let message = text::shortened(message.trim_end());
    let _ = writeln!(
        anstream::stderr().lock(),
        "{}",
        text::printable_styled(&message)
    );
}

/// Says on standard error how long the simulation took: that differs from run to run, and all that
/// goes to standard output does not.
pub(super) fn say_wall(milliseconds: f64) {
    complain(&format!("simulated in {}", micros(milliseconds * 1e3)));
}

/// Says what was assumed, left out or read otherwise than it looks.
pub(super) fn notes(notes: &[String]) {
    for note in notes {
        complain(&format!("note: {note}"));
    }
}
