//! Standard output and whether it wants colours.

use std::io::{self, Write};

/// Whether standard output is a terminal that wants colours (`NO_COLOR`, `CLICOLOR`, and
/// `CLICOLOR_FORCE` are honoured).
pub(super) fn colour() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Writes all of `text`, at once, to standard output.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
