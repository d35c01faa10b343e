//! What `--help` ends with: examples of a command.

use clap::builder::{StyledStr, Styles};
use std::fmt::Write;

/// What is asked, and the commands that answer it, one a line. They run in a folder that holds nothing, in this order.
pub(super) type Examples = [(&'static str, &'static str); 3];

/// The heading that they stand under.
pub(super) const HEADING: &str = "Examples:";

/// The end of a command's `--help`.
pub(super) fn examples(of: &Examples) -> StyledStr {
    let mut end = StyledStr::new();
    let header = *Styles::styled().get_header();
    // Text takes whatever is written into it.
    let _ = write!(end, "{header}{HEADING}{header:#}");
    for (asked, commands) in of {
        let _ = write!(end, "\n  # {asked}");
        for command in commands.lines() {
            let _ = write!(end, "\n  {command}");
        }
    }
    end
}
